"""What a config.json may say: the type of each entry, and sizes and ids that its weights and its vocabulary can have.

A file from elsewhere may say anything. All of it is refused here, so that whatever else goes wrong when a model is
opened is a mistake of ours and looks like one.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, get_type_hints

import torch

from manyheads.core.configs import fitted
from manyheads.core.errors import CheckpointError
from manyheads.ops.device import refuse_beyond_memory

IDS = int | tuple[int, ...] | None
# Of a model on top, kept under a key of ours.
HEADS = {"form": str, "impossible": bool, "longest": int | None, "tags": tuple[str, ...], "span_hidden": int}
# Whatever the family.
COMMON = {
    "eos_token_id": IDS,
    "id2label": dict[str, str | int] | None,
    "num_labels": int | None,
    "problem_type": str | None,
    "pruned_heads": dict[str, tuple[int, ...]] | None,
    "manyheads": dict | None,
}
# Of our configs; each is the number of rows or columns of some tensor.
_SIZES = (
    *("vocabulary", "width", "heads", "key_width", "value_width", "inner", "segments", "bigrams"),
    *("channels", "patch_size"),
)


def our_fields(entries: Mapping[str, Any]) -> dict[str, str]:
    """Their entries of a config.json to the fields of ours that they are."""
    return {theirs: each if isinstance(each, str) else each[0] for theirs, each in entries.items()}


def types_of(entries: Mapping[str, Any], config: type, **otherwise: Any) -> dict[str, Any]:
    """The types of their entries, which are those of our fields but for fields that are said `otherwise` there.

    An entry that is nothing where it is left out may also be null.
    """
    hints = {**get_type_hints(config), **otherwise}
    unset = {theirs for theirs, each in entries.items() if not isinstance(each, str) and len(each) == 1}
    return {
        theirs: hints[ours] | None if theirs in unset else hints[ours] for theirs, ours in our_fields(entries).items()
    }


def check_types(table: Mapping[str, Any], types: Mapping[str, Any], where: str = "") -> None:
    """Refuses an entry of another type than it must have."""
    for name, hint in types.items():
        if name in table:
            fitted(table[name], hint, f"{where}{name}")


def refuse_infinite(table: Mapping[str, Any]) -> None:
    """Refuses numbers that are none, wherever they stand: nothing of a model is infinite."""
    left: list[tuple[str, Any]] = list(table.items())
    while left:
        path, value = left.pop()
        if isinstance(value, float) and not math.isfinite(value):
            raise CheckpointError(f"{path} is {value}; it must be a finite number")
        if isinstance(value, dict):
            left += [(f"{path}.{name}", inner) for name, inner in value.items()]
        elif isinstance(value, list):
            left += [(path, inner) for inner in value]


def needed(table: Mapping[str, Any], name: str) -> Any:
    """An entry that must be there."""
    if table.get(name) is None:
        raise CheckpointError(f"the config.json has no {name}; it is damaged or of another kind of model")
    return table[name]


def check_sizes(table: Mapping[str, Any], config: Any, shapes: Mapping[str, Sequence[int]]) -> None:
    """Refuses sizes that no tensor of the weights has, more than memory holds, and ids outside the vocabulary."""
    most = max((max(shape) for shape in shapes.values() if math.prod(shape) and shape), default=0)
    removed = sum(map(len, (table.get("pruned_heads") or {}).values()))
    layers = getattr(config, "layers", 0) + (getattr(config, "decoder_layers", None) or 0)
    if layers > len(shapes):
        raise CheckpointError(f"the config.json says {layers:,} layers, but the weights are {len(shapes):,} tensors")
    sizes = {name: getattr(config, name, None) for name in _SIZES}
    sizes |= _table_of_positions(config) | {"labels": table.get("num_labels")}
    for name, size in sizes.items():
        if size is not None and not 0 < size <= most + removed:
            raise CheckpointError(f"the config.json says {name} {size:,}, but no tensor is larger than {most:,}")
    advice, cpu = "use a machine with more memory", torch.device("cpu")
    refuse_beyond_memory(_least_parameters(sizes, layers), "parameters", 4, cpu, advice)
    for name in ("pad", "start", "end", "separator", "other_ends"):
        found = getattr(config, name, None)
        for each in found if isinstance(found, tuple) else () if found is None else (found,):
            if not 0 <= each < config.vocabulary:
                raise CheckpointError(f"the config.json says {name} {each}, but ids end at {config.vocabulary - 1:,}")


def _table_of_positions(config: Any) -> dict[str, int]:
    """How many positions, or distances, have a vector of their own."""
    positions = getattr(config, "positions", None)
    if positions is None:
        return {}
    tables = {"learned": "length", "relative": "clip", "buckets": "buckets"}
    name = tables.get(positions.kind)
    return {} if name is None else {f"positions.{name}": getattr(positions, name)}


def _least_parameters(sizes: Mapping[str, int | None], layers: int) -> int:
    """Embeddings and, of each layer, the matrices of queries, of the heads' output and of the feed-forward."""
    width, heads, inner = (sizes[name] or 0 for name in ("width", "heads", "inner"))
    found = heads * (sizes["key_width"] or width // max(heads, 1))
    embedded = (sizes["vocabulary"] or 0) + (sizes["channels"] or 0) * (sizes["patch_size"] or 0) ** 2
    return width * (embedded + 2 * layers * (found + inner))
