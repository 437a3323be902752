"""Attention as it is shown: arrays and tokens, from any library."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from manyheads.core.errors import ConfigError
from manyheads.look.parts import TITLES, kind_of


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
    table = weights if isinstance(weights, Mapping) else {"self": weights}
    by_kind: dict[str, list[np.ndarray]] = {}
    for name, found in table.items():
        layers = found if isinstance(found, list | tuple) else _layers(found, many=not isinstance(weights, Mapping))
        by_kind.setdefault(kind_of(name), []).extend(_one(each, row) for each in layers)
    tokens, source = list(tokens), None if source is None else list(source)
    views = []
    for kind in sorted(by_kind, key=list(TITLES).index):
        if kind in ("cross", "encoder") and source is None and "decoder" in by_kind:
            raise ConfigError("these weights are a translator's; give the source's tokens too")
        rows = source if kind == "encoder" and source is not None else tokens
        columns = source if kind in ("cross", "encoder") and source is not None else tokens
        if len({each.shape for each in by_kind[kind]}) > 1:
            raise ConfigError(
                f"the layers of {TITLES[kind]} differ in shape, so that they cannot be shown side by side"
            )
        views.append(View(kind, np.stack(by_kind[kind]), rows, columns))
    return views


def _layers(found: Any, many: bool) -> list[Any]:
    array = _array(found)
    return list(array) if many else [array]


def _one(found: Any, row: int) -> np.ndarray:
    """[heads, rows, columns] of one text."""
    array = _array(found)
    if array.ndim == 4:
        array = array[row]
    if array.ndim != 3:
        raise ConfigError(f"the weights of a layer are {array.ndim}-dimensional; they must be [heads, rows, columns]")
    return array


def _array(found: Any) -> np.ndarray:
    if hasattr(found, "detach"):
        found = found.detach().float().cpu().numpy()
    return np.asarray(found, dtype=np.float32)
