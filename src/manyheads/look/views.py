"""Attention as it is shown: arrays and tokens, from any library."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from manyheads.core.errors import ConfigError
from manyheads.look.heads import TITLES
from manyheads.look.record import Recording
from manyheads.nn.parts import attention_kind


@dataclass(frozen=True)
class View:
    """One attention of a model over one text."""

    kind: str
    """cross, encoder, decoder, self, or another word that tells it from the others."""
    weights: np.ndarray
    """[layers, heads, rows, columns], float32."""
    rows: list[str]
    """The tokens that look."""
    columns: list[str]
    """The tokens that are looked at."""
    layers: list[int] = field(default_factory=list)
    """The number of each layer; none: counted from 0."""
    heads: list[int] = field(default_factory=list)
    """The number of each head; none: counted from 0."""
    title: str = ""
    """What it is called; none: after its kind."""

    def __post_init__(self):
        layers, heads, rows, columns = self.weights.shape
        object.__setattr__(self, "layers", self.layers or list(range(layers)))
        object.__setattr__(self, "heads", self.heads or list(range(heads)))
        object.__setattr__(self, "title", self.title or TITLES.get(self.kind, self.kind))
        for what, tokens, size in (("row", self.rows, rows), ("column", self.columns, columns)):
            if len(tokens) != size:
                raise ConfigError(
                    f"the weights of {self.title} have {size} {what}s, but there are {len(tokens)} tokens"
                )

    def present(self, place: int) -> np.ndarray:
        """[heads, rows, columns] of one layer's heads that look at anything: one that was removed does not."""
        layer = self.weights[place]
        return layer[layer.any(axis=(1, 2))] if layer.any() else layer


def views_of(weights: Any, tokens: Sequence[str], source: Sequence[str] | None = None, *, row: int = 0) -> list[View]:
    """Weights and tokens as views, one for each kind of attention.

    Weights are a table of names to arrays, as `recorded_attention` gives; a list of layers, as `output_attentions` of
    transformers gives; or one array [layers, heads, rows, columns]. An array of a layer is [heads, rows, columns], or
    has a batch before that, of which `row` is shown. With `source`, names that say encoder or cross look at it.
    """
    tokens, source = list(tokens), None if source is None else list(source)

    def labels(kind: str) -> tuple[list[str], list[str]]:
        if kind in ("cross", "encoder") and source is None and len(kinds) > 1:
            raise ConfigError("these weights are a translator's; give the source's tokens too")
        looking = source if kind == "encoder" and source is not None else tokens
        return looking, source if kind in ("cross", "encoder") and source is not None else tokens

    if isinstance(weights, Recording):
        kinds = {part.kind for part in weights.parts.values()}
        return recorded_views(weights, labels, row=row)
    table = weights if isinstance(weights, Mapping) else {"self": [*weights]}
    by_kind: dict[str, list[np.ndarray]] = {}
    for name, found in table.items():
        layers = found if isinstance(found, list | tuple) else [found]
        by_kind.setdefault(attention_kind(name), []).extend(_one(each, row) for each in layers)
    kinds = {kind for kind, found in by_kind.items() if found}
    for kind in kinds:
        if len({each.shape for each in by_kind[kind]}) > 1:
            raise ConfigError(
                f"the layers of {TITLES[kind]} differ in shape, so that they cannot be shown side by side"
            )
    return [View(kind, np.stack(by_kind[kind]), *labels(kind)) for kind in TITLES if kind in kinds]


def recorded_views(
    recording: Recording, labels: Callable[[str], tuple[list[str], list[str]]], *, row: int = 0
) -> list[View]:
    """What was recorded of one text, layers and heads by their numbers; heads that were removed look at nothing.

    `labels` gives the tokens of a kind of attention: those that look, and those looked at.
    """
    layers: dict[str, dict[int, np.ndarray]] = {}
    for name, part in recording.parts.items():
        if name in recording:
            found = whole = _one(recording[name], row)
            if recording.heads is None:
                whole = np.zeros((len(part.module.numbers) + len(part.module.removed), *found.shape[1:]), np.float32)
                whole[part.module.numbers] = found
            layers.setdefault(part.kind, {})[part.layer] = whole
    return [
        View(kind, np.stack([*layers[kind].values()]), *labels(kind), [*layers[kind]], recording.heads or [])
        for kind in TITLES
        if kind in layers
    ]


def _one(found: Any, row: int) -> np.ndarray:
    """[heads, rows, columns] of one text."""
    found = found.detach().float().cpu().numpy() if hasattr(found, "detach") else found
    array = np.asarray(found, dtype=np.float32)
    if array.ndim == 4:
        if not 0 <= row < len(array):
            raise ConfigError(f"there is no text {row} among these weights; there are {len(array)}, counted from 0")
        array = array[row]
    if array.ndim != 3:
        raise ConfigError(
            f"the weights of a layer are {array.ndim}-dimensional; they must be [heads, rows, columns], which "
            'transformers gives with attn_implementation="eager"'
        )
    return array
