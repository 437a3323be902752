"""The attentions of a model: which there are, and in which layer."""

import re
from dataclasses import dataclass

from torch import nn

from manyheads.nn.attention import MultiHeadAttention


@dataclass(frozen=True)
class Part:
    """One attention of a model."""

    name: str
    """Where it is: decoder.blocks.0.cross_attention."""
    kind: str
    """cross, encoder or decoder of a translator; self where a model has but one."""
    layer: int
    """Counted from 0, for each kind by itself."""
    module: MultiHeadAttention


def attention_kind(name: str) -> str:
    """Which attention a name is that of: cross, encoder, decoder, or self where a model has but one."""
    if re.search(r"\bcross", name):
        return "cross"
    return next((side for side in ("encoder", "decoder") if re.search(rf"\b{side}\b", name)), "self")


def attention_parts(model: nn.Module) -> list[Part]:
    """Every attention of a model, in the order they stand in; none where it has none."""
    found: list[Part] = []
    for name, module in model.named_modules():
        if isinstance(module, MultiHeadAttention):
            kind = attention_kind(name)
            found.append(Part(name, kind, sum(part.kind == kind for part in found), module))
    return found
