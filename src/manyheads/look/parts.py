"""The attentions of a model: what they are called, and which may be asked for."""

from collections.abc import Collection

import torch
from torch import Tensor, nn

from manyheads.core.errors import ConfigError
from manyheads.nn.parts import Part, attention_parts

# In the order in which they are shown: what is most asked for first.
TITLES = {
    "cross": "cross-attention",
    "encoder": "encoder self-attention",
    "decoder": "decoder self-attention",
    "self": "self-attention",
}


def title_of(part: Part) -> str:
    """What an attention is called."""
    return f"layer {part.layer} of {TITLES[part.kind]}"


def attentions(model: nn.Module) -> list[Part]:
    """Every attention of a model, in the order they stand in; a model without any is refused."""
    found = attention_parts(model)
    if not found:
        raise ConfigError(f"{type(model).__name__} has no attention to look at")
    return found


def refuse_unknown(parts: Collection[Part], layers: Collection[int] | None, heads: Collection[int] | None) -> None:
    """Layers and heads that do not exist, or no longer, are refused."""
    for name, asked in (("layers", layers), ("heads", heads)):
        if isinstance(asked, int) or (asked is not None and not asked):
            raise ConfigError(f"{name} is {asked!r}; give a list of those to look at, such as [0], or nothing for all")
    most = max(part.layer for part in parts) + 1
    for layer in layers or ():
        if not 0 <= layer < most:
            raise ConfigError(f"there is no layer {layer}; the model has {most}, counted from 0")
    for part in parts:
        numbers = part.module.numbers
        for head in heads or ():
            if head not in numbers and (layers is None or part.layer in layers):
                left = f"{', '.join(map(str, numbers))}; others were removed"
                there = left if part.module.removed else f"{len(numbers)}, counted from 0"
                raise ConfigError(f"there is no head {head} in {title_of(part)}, which has {there}")


def of_heads(given: Tensor | None, places: list[int]) -> Tensor | None:
    """A mask or a bias, of any shape that broadcasts to [B, H, Q, K], of the heads at these places alone."""
    if given is None or given.dim() < 3 or given.shape[-3] == 1:
        return given
    return given.index_select(-3, torch.tensor(places, device=given.device))
