"""The attentions of a model and their heads: which may be asked for, and some switched off for a while."""

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from manyheads.core.errors import ConfigError
from manyheads.look.stand_ins import standing_in
from manyheads.nn.parts import Part, attention_parts
from manyheads.ops.attention import Kernel

Head = tuple[int, int] | tuple[str, int, int]

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


@contextmanager
def heads_off(model: nn.Module, heads: Collection[Head]) -> Iterator[None]:
    """Inside the block, in this thread, these heads find nothing: what the output projection reads of them is zero.

    A head is (layer, head), counted from 0; of a translator, which has three attentions, (kind, layer, head) with the
    kind encoder, decoder or cross.
    """
    with standing_in({part.module: partial(Without, off) for part, off in by_part(model, heads)}):
        yield


def head_named(name: str) -> Head:
    """The head that is written layer.head, or kind.layer.head."""
    *kind, layer, head = name.split(".") if "." in name else ("", "", "")
    if len(kind) > 1 or not (layer.isdecimal() and head.isdecimal()):
        raise ConfigError(f"{name} is not a head; write layer.head, such as 0.3, or cross.0.3 of a translator")
    return (kind[0], int(layer), int(head)) if kind else (int(layer), int(head))


def by_part(model: nn.Module, heads: Collection[Head]) -> list[tuple[Part, list[int]]]:
    """The attentions that some of these heads are of, each with the numbers of its own."""
    parts = attentions(model)
    kinds = sorted({part.kind for part in parts})
    found: dict[str, tuple[Part, list[int]]] = {}
    for kind, layer, head in (_named(head, kinds) for head in heads):
        layers = [part for part in parts if part.kind == kind]
        refuse_unknown(layers, [layer], [head])
        part = layers[layer]
        found.setdefault(part.name, (part, []))[1].append(part.module.numbers.index(head))
    return [(part, sorted({*numbers})) for part, numbers in found.values()]


def _named(head: Head, kinds: list[str]) -> tuple[str, int, int]:
    if not isinstance(head, tuple):
        head = (head,)  # type: ignore
    if len(head) == 3 and head[0] in kinds:
        return head  # type: ignore
    if len(head) == 2 and len(kinds) == 1:
        return kinds[0], *head
    wanted = "layer.head, such as 0.3" if len(kinds) == 1 else " or ".join(f"{kind}.0.3" for kind in kinds)
    raise ConfigError(
        f"{'.'.join(map(str, head))} is not a head of this model; write {wanted}, in Python as a tuple of these parts"
    )


class Without:
    """A kernel that gives what another gives, and nothing of some heads, `off`."""

    def __init__(self, off: list[int], kernel: Kernel):
        self.kernel = kernel
        self.off = sorted({*off, *getattr(kernel, "off", ())})

    def __call__(self, q: Tensor, k: Tensor, v: Tensor, **options: Any) -> Tensor:
        out = self.kernel(q, k, v, **options)
        off = torch.zeros(out.shape[1], dtype=torch.bool, device=out.device)
        off[self.off] = True
        return out.masked_fill(off[:, None, None], 0.0)
