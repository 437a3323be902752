"""What the kinds of positions tell a model: arrays taken from the modules that models have.

Shapes:  T positions  W width  H heads  D head width  F frequencies, D/2 of them  L clipped distances
"""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch

from manyheads.core.errors import ConfigError
from manyheads.nn.patches import Sinusoidal2D
from manyheads.nn.positions import (
    KINDS,
    SCALINGS,
    Alibi,
    Buckets,
    Learned,
    Positions,
    PositionsConfig,
    Relative,
    Rotary,
    Sinusoidal,
    build_positions,
)
from manyheads.ops import relative

NAMES = (*(kind for kind in KINDS if kind != "none"), *(scaling for scaling in SCALINGS if scaling != "none"))
MOST = 4096  # positions of which every pair can be drawn
FACTOR = 4  # how far a scaling is shown to stretch: the first quarter of the positions is what was trained on


@dataclass(frozen=True)
class Heat:
    """Numbers that become colours."""

    name: str
    title: str
    values: np.ndarray
    across: str
    down: str
    label: str
    signed: bool = True
    """Whether colours part at zero."""
    first: tuple[int, int] = (0, 0)
    """What the first row and the first column stand for."""
    outliers: bool = False
    """Whether a few numbers may be so large that colours for them would leave the rest without."""


@dataclass(frozen=True)
class Curves:
    """Numbers that become a line for each name."""

    name: str
    title: str
    values: dict[str, np.ndarray]
    across: str
    up: str
    first: int = 0
    """What the first point stands for."""
    logarithmic: bool = False
    dots: bool = False


@dataclass(frozen=True)
class Note:
    """Why there is nothing to draw."""

    text: str


Panel = Heat | Curves | Note


@dataclass(frozen=True)
class Study:
    """One kind of positions in three panels."""

    name: str
    title: str
    panels: tuple[Panel, ...] = field(repr=False)

    def arrays(self) -> dict[str, Any]:
        """The numbers of its panels as nested lists; those that are not there, such as later positions, are None."""
        table: dict[str, Any] = {}
        for panel in self.panels:
            if isinstance(panel, Heat):
                table[panel.name] = _lists(panel.values)
            elif isinstance(panel, Curves):
                lines = {name: _lists(line) for name, line in panel.values.items()}
                table[panel.name] = lines if len(lines) > 1 else lines.popitem()[1]
        return table


def study(kind: str, *, positions: int = 128, width: int = 64, heads: int = 8, base: float = 10_000.0) -> Study:
    """A kind of positions by its name, as it is before training; `width` is that of a head for rotary positions."""
    refuse_name(kind)
    _refuse_sizes(positions, width, heads)
    if kind == "learned":
        raise ConfigError("learned positions are what training made of them; give a trained model to see its own")
    config = PositionsConfig(kind="rotary" if kind in SCALINGS else kind, base=base)
    if kind in SCALINGS:
        config = replace(config, scaling=kind, factor=float(FACTOR), length=max(1, positions // FACTOR))
    built = build_positions(config, width=width, heads=heads, head_width=width, bidirectional=True)
    return study_of(built, positions=positions, width=width, trained=False)


def refuse_name(kind: str) -> None:
    """A kind that there is none of, or nothing to see of."""
    if kind == "none":
        raise ConfigError("positions none tell a model nothing of where a token stands, so there is nothing to draw")
    if kind not in NAMES:
        raise ConfigError(f"no positions are called {kind!r}; choose from {', '.join(NAMES)}")


def _refuse_sizes(positions: int, width: int, heads: int = 1) -> None:
    if not 2 <= positions <= MOST:
        raise ConfigError(f"{positions} positions cannot be drawn; choose from 2 to {MOST}")
    for what, size in (("width", width), ("heads", heads)):
        if size < 1:
            raise ConfigError(f"{what} is {size}, and the least it can be is 1")


def name_of(module: Positions) -> str:
    """What positions are called: after their scaling, if they have one."""
    if isinstance(module, Rotary) and module.scaling != "none":
        return module.scaling
    kinds = {Sinusoidal: "sinusoidal", Learned: "learned", Relative: "relative", Buckets: "buckets", Rotary: "rotary"}
    return {**kinds, Alibi: "alibi", Sinusoidal2D: "sinusoidal"}.get(type(module), "none")


@torch.no_grad()
def study_of(module: Positions, *, positions: int, width: int, trained: bool = True) -> Study:
    """The positions of a model, `width` wide, as they are; what training makes is left out where there was none."""
    _refuse_sizes(positions, width)
    refuse_name(name_of(module))
    match module:
        case Sinusoidal():
            title, panels = "sinusoidal: added to the embeddings", _sinusoidal(module, positions, width)
        case Sinusoidal2D():
            title, panels = "sinusoidal in two directions: added to the patches", _of_patches(module, positions, width)
        case Learned():
            title, panels = "learned: added to the embeddings", _learned(module, positions)
        case Rotary():
            title, panels = _rotary_title(module), _rotary(module, positions)
        case Relative():
            title, panels = "relative: a query meets a vector for each distance", _relative(module, positions, trained)
        case Buckets():
            title, panels = "buckets: a number for each bucket of distances", _buckets(module, positions, trained)
        case _:
            assert isinstance(module, Alibi)
            title, panels = "alibi: a penalty that grows with the distance", _alibi(module, positions)
    return Study(name_of(module), title, panels)


def _sinusoidal(module: Sinusoidal, positions: int, width: int) -> tuple[Panel, ...]:
    encoding_TW = module.add(torch.zeros(1, positions, width), 0)[0].double().numpy()
    # Position 1 is as many radians in as the frequency says, of which none is above 1.
    wavelengths_W = np.repeat(2 * np.pi / np.arcsin(encoding_TW[1, 0::2] / module.scale), 2)[:width]
    curves = Curves(
        "wavelengths", "wavelengths", {"": wavelengths_W}, "dimension", "positions in a turn", logarithmic=True
    )
    return _encoding(encoding_TW), _cosines(encoding_TW), curves


def _of_patches(module: Sinusoidal2D, positions: int, width: int) -> tuple[Panel, ...]:
    encoding_TW = module.add(torch.zeros(1, 1 + module.count, width), 0)[0, :positions].double().numpy()
    return (
        _encoding(encoding_TW),
        _cosines(encoding_TW),
        Note("of the classification token,\nand of the patches row by row"),
    )


def _learned(module: Learned, positions: int) -> tuple[Panel, ...]:
    whole_TW = module.table.weight.double().cpu().numpy()
    encoding_TW = whole_TW[:positions]
    first = replace(_encoding(encoding_TW), outliers=True), _cosines(encoding_TW)
    if len(whole_TW) < 4:
        return *first, Note(f"a table of {len(whole_TW)} rows\nhas no periods")
    strength_FW = np.abs(np.fft.rfft(whole_TW - whole_TW.mean(axis=0), axis=0))[1:]
    periods_W = len(whole_TW) / (1 + strength_FW.argmax(axis=0))
    titles = f"strongest period in {len(whole_TW)} rows (Fourier)", {"": periods_W}, "dimension", "positions in a turn"
    return *first, Curves("periods", *titles, logarithmic=True, dots=True)


def _encoding(encoding_TW: np.ndarray) -> Heat:
    return Heat("encoding", "what is added", encoding_TW, "dimension", "position", "value")


def _cosines(rows: np.ndarray) -> Heat:
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    unit = rows / np.where(lengths > 0, lengths, 1.0)
    return Heat("similarity", "how alike two positions are", unit @ unit.T, "position", "position", "cosine")


def _rotary_title(module: Rotary) -> str:
    if module.scaling == "none":
        return "rotary: turns queries and keys"
    trained = f"{module.original_length:,} positions trained on"
    return f"rotary, scaled by {module.scaling}: {module.factor:g} times the {trained}"


def _rotary(module: Rotary, positions: int) -> tuple[Panel, ...]:
    pairs = module.head_width // 2
    table_T2D = module.cosines_sines(torch.arange(positions), positions).double().numpy()
    halves = table_T2D[:, 0, :pairs], table_T2D[:, 1, :pairs]
    turned_TD = module.rotate(torch.ones(1, 1, positions, module.head_width), 0, positions)[0, 0].double().numpy()
    scores_TT = turned_TD @ turned_TD.T / module.head_width
    curves = {"scaled": _wavelengths(module, positions)}
    if module.scaling != "none":
        curves["unscaled"] = _wavelengths(Rotary(module.head_width, module.base), positions)
    return (
        Heat("encoding", "cosines | sines of the angles", np.hstack(halves), "dimension", "position", "value"),
        Heat("similarity", "q · k of two vectors of ones", scores_TT, "key", "query", "q · k / head width"),
        Curves("wavelengths", "wavelengths", curves, "pair of dimensions", "positions in a turn", logarithmic=True),
    )


def _wavelengths(module: Rotary, length: int) -> np.ndarray:
    """[F] positions in which each pair turns once, told by how far it is turned at position 1: never half a turn."""
    cosines_D, sines_D = module.cosines_sines(torch.tensor([1]), length)[0].double().numpy()
    return 2 * np.pi / np.arctan2(sines_D, cosines_D)[: module.head_width // 2]


def _relative(module: Relative, positions: int, trained: bool) -> tuple[Panel, ...]:
    clip = module.clip
    if not trained:
        clipped_TT = relative.clipped_distances(positions, positions, 0, clip).double().numpy()
        return (
            Heat("clipped_distances", "the distance a vector is for", clipped_TT, "key", "query", "distance"),
            _by_distance("clipped_by_distance", "distances are clipped", {"": clipped_TT}, "clipped"),
            Note("Each head learns a vector\nfor each clipped distance;\na trained model shows its own."),
        )
    table_HLD = module.table_HLD.double().cpu().numpy()
    alike = "how alike two distances are", _cosines(table_HLD[0]).values, "key − query", "key − query", "cosine"
    norms = {f"head {head}": row for head, row in enumerate(np.linalg.norm(table_HLD, axis=-1))}
    return (
        Heat("vectors", "vectors of head 0", table_HLD[0], "dimension", "key − query", "value", first=(-clip, 0)),
        Heat("similarity", *alike, first=(-clip, -clip)),
        Curves("norms", "length of the vectors", norms, "key − query", "norm", first=-clip),
    )


def _buckets(module: Buckets, positions: int, trained: bool) -> tuple[Panel, ...]:
    distances_TT = relative.distances(positions, positions, 0)
    settings = module.table.num_embeddings, module.furthest, module.bidirectional
    numbers_TT = _seen(relative.t5_buckets(distances_TT, *settings).double().numpy(), module.bidirectional)
    numbers = Heat("buckets", "the bucket of each pair", numbers_TT, "key", "query", "bucket", signed=False)
    if not trained:
        return (
            numbers,
            _by_distance("buckets_by_distance", "the bucket of each distance", {"": numbers_TT}, "bucket"),
            Note("Each head learns a number\nfor each bucket;\na trained model shows its own."),
        )
    bias_HTT = _bias(module, module.table.embedding_dim, positions)
    return (numbers, *_biases(bias_HTT, module.bidirectional))


def _alibi(module: Alibi, positions: int) -> tuple[Panel, ...]:
    bias_HTT = _bias(module, module.heads, positions)
    slopes_H = relative.alibi_slopes(module.heads).double().numpy()
    slopes = Curves("slopes", "the slope of each head", {"": slopes_H}, "head", "slope", logarithmic=True, dots=True)
    return (*_biases(bias_HTT, module.bidirectional), slopes)


def _bias(module: Positions, heads: int, positions: int) -> np.ndarray:
    """[H, T, T] that is added to the scores of queries of nothing."""
    bias = module.bias(torch.zeros(1, heads, positions, 1), positions, 0)
    assert bias is not None
    return bias[0].double().cpu().numpy()


def _seen(table_TT: np.ndarray, bidirectional: bool) -> np.ndarray:
    """A table of queries and keys without the keys that no query sees."""
    return table_TT if bidirectional else np.where(np.tri(len(table_TT), dtype=bool), table_TT, np.nan)


def _biases(bias_HTT: np.ndarray, bidirectional: bool) -> tuple[Heat, Curves]:
    """The bias of one head for each pair, and of each head for each distance."""
    each = {f"head {head}": _seen(bias_TT, bidirectional) for head, bias_TT in enumerate(bias_HTT)}
    return (
        Heat("bias", "what head 0 adds to a score", each["head 0"], "key", "query", "bias"),
        _by_distance("bias_by_distance", "bias by distance", each, "bias"),
    )


def _by_distance(name: str, title: str, tables: dict[str, np.ndarray], up: str) -> Curves:
    """Lines over key − query of tables [T, T] in which nothing else counts."""
    # The last query has every key before it, the first every key after it.
    values = {each: np.concatenate((table[-1], table[0, 1:])) for each, table in tables.items()}
    return Curves(name, title, values, "key − query", up, first=1 - len(next(iter(tables.values()))))


def _lists(values: np.ndarray) -> list[Any]:
    """Nested lists, in which nothing is None."""
    nested = values.astype(object)
    nested[np.isnan(values)] = None
    return nested.tolist()
