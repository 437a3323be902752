"""Where a token stands, in six ways, or not at all.

Shapes:  B batch  T positions  W width  H heads  D head width  Q query positions  K key positions  L clipped distances
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from manyheads.core.errors import ConfigError
from manyheads.ops import relative, rotary

KINDS = ("sinusoidal", "learned", "relative", "buckets", "rotary", "alibi", "none")
SCALINGS = ("none", "linear", "ntk", "dynamic_ntk", "yarn", "llama3")
# a table begins with this many rows, so that a compiled model is not compiled anew at each of its first few words
FIRST_ROWS = 256


class Positions(nn.Module):
    """What a model knows of where a token stands: nothing, here; each kind overrides one of the three methods.

    `start`, the position of the first token, is a number, or [B] where each row has its own. `turns_late` asks
    attention to cache its keys unturned, since how far they turn depends on the length in view.
    """

    turns_late = False

    def add(self, x_BTW: Tensor, start: int | Tensor, length: int = 0) -> Tensor:
        """The embeddings with absolute positions added; rows with starts of their own stay within `length`."""
        return x_BTW

    def rotate(self, x_BHTD: Tensor, start: int | Tensor, length: int) -> Tensor:
        """Queries or keys turned to their place; `length` counts all positions in view, the cached ones too."""
        return x_BHTD

    def bias(self, q_BHQD: Tensor, keys: int, start: int | Tensor) -> Tensor | None:
        """[B or 1, H, Q, K] to add to the scaled scores; the first query stands at `start`, the keys at 0..keys - 1."""
        return None


def places(start: Tensor, count: int) -> Tensor:
    """[B, count]: the positions of `count` tokens of each row, from its own start on."""
    return start[:, None] + torch.arange(count, device=start.device)


class Table:
    """Rows that follow from their position alone, computed in float32 when first asked for and resized by doubling.

    Not a buffer: `.bfloat16()` would round it, `.to_empty()` would leave it unfilled, and DDP would send it from rank
    to rank although each has resized it to the length of its own batches.
    """

    def __init__(self, compute: Callable[[Tensor], Tensor]):
        self.compute = compute
        self.rows: Tensor | None = None

    def __call__(self, start: int, end: int, device: torch.device) -> Tensor:
        rows = self.rows
        if rows is None or rows.shape[0] < end or rows.device != device:
            length = FIRST_ROWS if rows is None else rows.shape[0]
            length = length if length >= end else max(end, 2 * length)
            # a table first needed while generating must still serve a backward pass
            with torch.inference_mode(False):
                rows = self.compute(torch.arange(length, device="cpu")).to(device)
            self.rows = rows
        return rows[start:end]

    def at(self, start: int | Tensor, count: int, length: int, device: torch.device) -> Tensor:
        """[count, …] rows from `start` on; [B, count, …] where each row of the batch has a start of its own."""
        if isinstance(start, int):
            return self(start, start + count, device)
        return self(0, length, device)[places(start, count)]


class Sinusoidal(Positions):
    """Sines and cosines added to the embeddings: section 3.5 of Vaswani et al. (2017); any length.

    As published they are of size 1, and so are the embeddings; beside smaller ones, `scale` makes them smaller too.
    """

    def __init__(self, width: int, base: float = 10_000.0, scale: float = 1.0):
        super().__init__()
        self.scale = scale
        self.table = Table(lambda positions_T: scale * rotary.sinusoid(positions_T, width, base))

    def add(self, x_BTW: Tensor, start: int | Tensor, length: int = 0) -> Tensor:
        return x_BTW + self.table.at(start, x_BTW.shape[1], length, x_BTW.device).to(x_BTW.dtype)


class Learned(Positions):
    """A trained vector for each of `length` positions, added to the embeddings: Gehring et al. (2017), GPT and BERT."""

    def __init__(self, width: int, length: int):
        super().__init__()
        self.table = nn.Embedding(length, width)
        nn.init.normal_(self.table.weight, std=0.02)

    def add(self, x_BTW: Tensor, start: int | Tensor, length: int = 0) -> Tensor:
        if not isinstance(start, int):
            return x_BTW + self.table.weight[places(start, x_BTW.shape[1])].to(x_BTW.dtype)
        end, rows = start + x_BTW.shape[1], self.table.num_embeddings
        if end > rows:
            raise ConfigError(
                f"{end} positions asked, the table has {rows}; cut the input to {rows}, "
                f"or train with a longer table or with positions of any length, such as rotary"
            )
        return x_BTW + self.table.weight[start:end].to(x_BTW.dtype)


class Relative(Positions):
    """A trained vector per head and clipped distance that the query meets: the key term of Shaw et al. (2018)."""

    def __init__(self, heads: int, head_width: int, clip: int):
        super().__init__()
        self.clip = clip
        self.scale = head_width**-0.5
        self.table_HLD = nn.Parameter(torch.empty(heads, 2 * clip + 1, head_width))
        nn.init.normal_(self.table_HLD, std=head_width**-0.5)

    def bias(self, q_BHQD: Tensor, keys: int, start: int | Tensor) -> Tensor:
        queries = q_BHQD.shape[2]
        index_QK = relative.clipped_distances(queries, keys, start, self.clip, q_BHQD.device) + self.clip
        # each query meets the 2·clip + 1 vectors once, not once per key
        scores_BHQL = self.scale * q_BHQD @ self.table_HLD.to(q_BHQD.dtype).mT
        return scores_BHQL.gather(-1, index_QK.unsqueeze(-3).expand(*q_BHQD.shape[:2], queries, keys))


class Buckets(Positions):
    """A trained number per head and bucket of distances: T5, Raffel et al. (2020)."""

    def __init__(self, heads: int, buckets: int, furthest: int, bidirectional: bool):
        super().__init__()
        self.furthest = furthest
        self.bidirectional = bidirectional
        self.table = nn.Embedding(buckets, heads)
        nn.init.normal_(self.table.weight, std=0.02)

    def bias(self, q_BHQD: Tensor, keys: int, start: int | Tensor) -> Tensor:
        distances_QK = relative.distances(q_BHQD.shape[2], keys, start, q_BHQD.device)
        buckets_QK = relative.t5_buckets(distances_QK, self.table.num_embeddings, self.furthest, self.bidirectional)
        return _batched(self.table(buckets_QK).movedim(-1, -3)).to(q_BHQD.dtype)


class Rotary(Positions):
    """Queries and keys turned by angles that grow with their position: Su et al. (2021); scalings in `ops.rotary`."""

    def __init__(
        self,
        head_width: int,
        base: float = 10_000.0,
        scaling: str = "none",
        factor: float = 1.0,
        original_length: int = 1024,
        low_turns: float = 1.0,
        high_turns: float = 4.0,
    ):
        super().__init__()
        if head_width % 2:
            raise ConfigError(
                f"head width {head_width} is odd and rotary positions turn pairs; "
                f"use {head_width - 1} or {head_width + 1}"
            )
        if scaling in ("ntk", "dynamic_ntk") and head_width < 4:
            raise ConfigError(
                f"head width {head_width} has one pair and {scaling} needs two; use a head width of 4 or more"
            )
        self.head_width, self.base = head_width, base
        self.scaling, self.factor, self.original_length = scaling, factor, original_length
        self.low_turns, self.high_turns = low_turns, high_turns
        self.turns_late = scaling == "dynamic_ntk"
        self.table = Table(self.cosines_sines)
        self.longer_table: Tensor | None = None

    def cosines_sines(self, positions_T: Tensor, length: int = 0) -> Tensor:
        """[T, 2, D] for these positions; `length`, all positions in view, matters to dynamic NTK alone."""
        frequencies_F, attention_factor = rotary.frequencies(self.head_width, self.base, positions_T.device), 1.0
        if self.scaling == "linear":
            frequencies_F = rotary.linear(frequencies_F, self.factor)
        elif self.scaling == "ntk":
            frequencies_F = rotary.ntk(frequencies_F, self.factor)
        elif self.scaling == "dynamic_ntk":
            frequencies_F = rotary.dynamic_ntk(frequencies_F, self.factor, length, self.original_length)
        elif self.scaling == "yarn":
            frequencies_F, attention_factor = rotary.yarn(frequencies_F, self.factor, self.base, self.original_length)
        elif self.scaling == "llama3":
            turns = self.low_turns, self.high_turns
            frequencies_F = rotary.llama3(frequencies_F, self.factor, self.original_length, *turns)
        return rotary.cosines_sines(positions_T, frequencies_F, attention_factor)

    def rotate(self, x_BHTD: Tensor, start: int | Tensor, length: int) -> Tensor:
        count = x_BHTD.shape[2]
        if self.turns_late and length > self.original_length:
            rows = self.for_length(length, x_BHTD.device)
            rows_T2D = rows[start : start + count] if isinstance(start, int) else rows[places(start, count)]
        else:
            rows_T2D = self.table.at(start, count, length, x_BHTD.device)
        cos_TD, sin_TD = rows_T2D.to(x_BHTD.dtype).unbind(-2)
        if not isinstance(start, int):  # [B, T, D]: the same for every head
            cos_TD, sin_TD = cos_TD[:, None], sin_TD[:, None]
        return rotary.rotate(x_BHTD, cos_TD, sin_TD)

    def for_length(self, length: int, device: torch.device) -> Tensor:
        """The rows of one length in view, which queries and keys of a step share."""
        rows = self.longer_table
        if rows is None or rows.shape[0] != length or rows.device != device:
            with torch.inference_mode(False):
                rows = self.cosines_sines(torch.arange(length, device=device), length)
            self.longer_table = rows
        return rows


class Alibi(Positions):
    """A penalty that grows with the distance, at a fixed slope per head: Press et al. (2022)."""

    def __init__(self, heads: int, bidirectional: bool):
        super().__init__()
        self.heads = heads
        self.bidirectional = bidirectional

    def bias(self, q_BHQD: Tensor, keys: int, start: int | Tensor) -> Tensor:
        slopes_H = relative.alibi_slopes(self.heads, q_BHQD.device)
        distances_QK = relative.distances(q_BHQD.shape[2], keys, start, q_BHQD.device)
        return _batched(relative.alibi_bias(slopes_H, distances_QK, self.bidirectional)).to(q_BHQD.dtype)


def _batched(bias: Tensor) -> Tensor:
    """[H, Q, K], the same for all rows, as [1, H, Q, K]."""
    return bias if bias.dim() == 4 else bias[None]


@dataclass(frozen=True, kw_only=True)
class PositionsConfig:
    """Which positions a model has, and their sizes."""

    kind: str = "sinusoidal"
    """sinusoidal, learned, relative (Shaw), buckets (T5), rotary, alibi or none."""
    length: int = 1024
    """Rows of a learned table; for a scaled rotary, the length it was trained on."""
    base: float = 10_000.0
    """Base of the wavelengths of sinusoidal and rotary positions."""
    amplitude: float = 0.0
    """How large a sinusoid is; 0: as large as the embeddings begin."""
    scaling: str = "none"
    """How rotary positions are stretched past `length`: none, linear, ntk, dynamic_ntk, yarn or llama3."""
    factor: float = 1.0
    """How many times `length` the scaling aims at."""
    low_turns: float = 1.0
    """Of llama3: pairs that turn less often within `length` are stretched by the whole factor."""
    high_turns: float = 4.0
    """Of llama3: pairs that turn more often within `length` stay as they are."""
    clip: int = 16
    """Distance from which relative positions no longer tell keys apart."""
    buckets: int = 32
    """Number of T5's buckets."""
    furthest: int = 128
    """Distance from which all keys share T5's last bucket."""

    def __post_init__(self):
        if self.kind not in KINDS:
            raise ConfigError(f"no positions are called {self.kind!r}; choose one of {', '.join(KINDS)}")
        if self.scaling not in SCALINGS:
            raise ConfigError(f"no scaling is called {self.scaling!r}; choose one of {', '.join(SCALINGS)}")
        if self.scaling != "none" and self.kind != "rotary":
            raise ConfigError(
                f"scaling {self.scaling} stretches rotary positions, and these are {self.kind}; "
                f"set kind to rotary or scaling to none"
            )
        if self.factor != 1.0 and self.scaling == "none":
            raise ConfigError(
                f"factor {self.factor} does nothing while scaling is none; "
                f"set scaling to one of {', '.join(SCALINGS[1:])}"
            )
        for name, least in (("length", 1), ("amplitude", 0.0), ("factor", 1.0), ("clip", 1), ("buckets", 4)):
            if not least <= getattr(self, name) < math.inf:
                raise ConfigError(f"{name} is {getattr(self, name)}; it is finite, and the least it can be is {least}")
        if not 1.0 < self.base < math.inf:
            raise ConfigError(f"base is {self.base} and must be finite and above 1; the published value is 10000")
        if not 0 < self.low_turns < self.high_turns < math.inf:
            raise ConfigError(
                f"low_turns is {self.low_turns} and high_turns {self.high_turns}; they must be above 0 and the second "
                f"the larger, as the published 1 and 4"
            )
        if self.buckets % 2:
            raise ConfigError(f"{self.buckets} buckets do not split into two halves; use {self.buckets + 1}")
        if self.furthest <= self.buckets // 2:
            raise ConfigError(
                f"furthest is {self.furthest}, within the {self.buckets // 2} distances that have a bucket "
                f"each; set it above {self.buckets // 2}"
            )


def with_amplitude(table: dict[str, Any]) -> dict[str, Any]:
    """A stored table of a model's sizes; in one that knows no amplitude every sinusoid was of size 1."""
    positions = table.get("positions")
    if not isinstance(positions, dict) or positions.get("kind") != "sinusoidal":
        return table
    return {**table, "positions": {"amplitude": 1.0, **positions}}


def build_positions(
    config: PositionsConfig,
    *,
    width: int,
    heads: int,
    head_width: int | None = None,
    bidirectional: bool = False,
    deviation: float = 1.0,
) -> Positions:
    """The positions of this kind for a model of these sizes; `bidirectional` where keys after the query are seen.

    `deviation` is what the embeddings begin with: beside much larger positions a model would not see its words.
    """
    head_width = head_width or width // heads
    match config.kind:
        case "sinusoidal":
            return Sinusoidal(width, config.base, config.amplitude or deviation)
        case "learned":
            return Learned(width, config.length)
        case "relative":
            return Relative(heads, head_width, config.clip)
        case "buckets":
            return Buckets(heads, config.buckets, config.furthest, bidirectional)
        case "rotary":
            turns = config.low_turns, config.high_turns
            return Rotary(head_width, config.base, config.scaling, config.factor, config.length, *turns)
        case "alibi":
            return Alibi(heads, bidirectional)
        case _:
            return Positions()
