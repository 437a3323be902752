"""Heads that were removed: how a config.json says which.

Under `pruned_heads`, as transformers before version 5 wrote it: the number of a layer to the numbers of the heads it
has lost. Of a translator's layers the kind of attention is said too: "cross.0".
"""

from typing import Any

from torch import nn

from manyheads.core.errors import CheckpointError, ConfigError
from manyheads.nn.parts import Part, attention_parts

KEY = "pruned_heads"


def removed_heads(model: nn.Module) -> dict[str, list[int]]:
    """What a config.json says of a model from which heads were removed; nothing where none were."""
    return {_name(part): part.module.removed for part in attention_parts(model) if part.module.removed}


def remove_again(model: nn.Module, table: dict[str, Any]) -> None:
    """Makes a model as small as its config.json says."""
    said = table.get(KEY) or {}
    parts = {_name(part): part for part in attention_parts(model)}
    for name, heads in said.items():
        known = parts.get(str(name))
        if known is None or not set(heads) < set(known.module.numbers):
            raise CheckpointError(f"{KEY} of this config.json names heads {heads} of layer {name}, which it has not")
        try:
            known.module.remove(heads)
        except ConfigError as error:
            raise CheckpointError(f"{KEY} of this config.json cannot be: {error}") from None


def _name(part: Part) -> str:
    return str(part.layer) if part.kind == "self" else f"{part.kind}.{part.layer}"
