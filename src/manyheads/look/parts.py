"""The attentions of a model: which there are, in which layer, and what they are called."""

import re
from collections.abc import Collection
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from manyheads.core.errors import ConfigError
from manyheads.nn.attention import MultiHeadAttention

# In the order in which they are shown: what is most asked for first.
TITLES = {
    "cross": "cross-attention",
    "encoder": "encoder self-attention",
    "decoder": "decoder self-attention",
    "self": "self-attention",
}


@dataclass(frozen=True)
class Part:
    """One attention of a model."""

    name: str
    """Where it is: decoder.blocks.0.cross_attention."""
    kind: str
    """A key of TITLES."""
    layer: int
    """Counted from 0, for each kind by itself."""
    module: MultiHeadAttention

    @property
    def title(self) -> str:
        return f"layer {self.layer} of {TITLES[self.kind]}"


def kind_of(name: str) -> str:
    """Which attention a name is that of: cross, encoder, decoder, or self where a model has but one."""
    if re.search(r"\bcross", name):
        return "cross"
    return next((side for side in ("encoder", "decoder") if re.search(rf"\b{side}\b", name)), "self")


def attentions(model: nn.Module) -> list[Part]:
    """Every attention of a model, in the order they stand in."""
    found: list[Part] = []
    for name, module in model.named_modules():
        if isinstance(module, MultiHeadAttention):
            kind = kind_of(name)
            found.append(Part(name, kind, sum(part.kind == kind for part in found), module))
    if not found:
        raise ConfigError(f"{type(model).__name__} has no attention to look at")
    return found


def refuse_unknown(parts: Collection[Part], layers: Collection[int] | None, heads: Collection[int] | None) -> None:
    """Layers and heads that do not exist are refused."""
    for name, asked in (("layers", layers), ("heads", heads)):
        if isinstance(asked, int) or (asked is not None and not asked):
            raise ConfigError(f"{name} is {asked!r}; give a list of those to look at, such as [0], or nothing for all")
    most = max(part.layer for part in parts) + 1
    for layer in layers or ():
        if not 0 <= layer < most:
            raise ConfigError(f"there is no layer {layer}; the model has {most}, counted from 0")
    for part in parts:
        if layers is None or part.layer in layers:
            refuse_unknown_heads(part, heads or ())


def refuse_unknown_heads(part: Part, heads: Collection[int]) -> None:
    """Heads that an attention does not have, or no longer, are refused."""
    numbers = part.module.numbers
    for head in heads:
        if head not in numbers:
            whole = not part.module.removed
            there = (
                f"{len(numbers)}, counted from 0" if whole else f"{', '.join(map(str, numbers))}; others were removed"
            )
            raise ConfigError(f"there is no head {head} in {part.title}, which has {there}")


def of_heads(given: Tensor | None, places: list[int]) -> Tensor | None:
    """A mask or a bias, of any shape that broadcasts to [B, H, Q, K], of the heads at these places alone."""
    if given is None or given.dim() < 3 or given.shape[-3] == 1:
        return given
    return given.index_select(-3, torch.tensor(places, device=given.device))
