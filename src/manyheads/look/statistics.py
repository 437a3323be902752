"""What a head does, in numbers and in a word.  Shapes:  L layers  H heads  Q rows, which look  K columns, looked at"""

import re
import unicodedata
from dataclasses import dataclass
from typing import Any

import numpy as np

from manyheads.look.views import View
from manyheads.nn.parts import attention_kind

# What each share is called when most of a head's weight is there; of two that fit alike the first is said.
PLACES = {
    "previous": "back one token",
    "itself": "at itself",
    "next": "ahead one token",
    "first": "at the first token",
    "separators": "at separators",
    "punctuation": "at punctuation",
}
MOST = 0.5  # of the weight that chance does not explain
EVEN = 0.9  # of the highest entropy
ORDERLY = 0.9  # correlation

_SPECIAL = re.compile(r"\[[A-Z]+\]|</?[A-Za-z_]+>|<[|｜].+[|｜]>")
_WORDS = {"[MASK]", "[UNK]", "<mask>", "<unk>"}  # special too, but they stand for words and separate nothing
_SPACE = re.compile(r"^(?:[Ġ▁\s]+|##)(?=.)|</w>$")  # how tokenizers mark where a word begins, goes on or ends


@dataclass(frozen=True)
class HeadStatistics:
    """Where one head looks over one text: means over the rows that look at anything and have a choice."""

    layer: int
    head: int
    entropy: float
    """Of a row's weights, in bits."""
    relative_entropy: float | None
    """The part that is of the highest there could be: 0 looks at one token, 1 at all alike; none without a choice."""
    distance: float | None
    """How many tokens away what is looked at stands; like the next four only of self-attention."""
    previous: float | None
    """The share of weight on the token before; so are the others of theirs."""
    itself: float | None
    next: float | None
    first: float | None
    punctuation: float
    separators: float
    """On tokens that begin, part or end texts: [CLS], [SEP], </s>, <|endoftext|>."""
    order: float | None
    """How much what is looked at advances with the token that looks, from −1 to 1; only of cross-attention."""
    looks: str
    """In a word or two; `head_statistics` says how it is chosen."""


def head_statistics(view: View) -> list[HeadStatistics]:
    """The statistics of each head of a view, layer by layer.

    Where no head of a view looks ahead, a row may look up to itself; otherwise at all columns. `looks` is the place, a
    value of PLACES, that has the largest part of the weight that chance does not explain, (share − chance) / (1 −
    chance), if that is at least half; chance is the share of a head that looks at all it may alike, so that a short
    text does not mislead. Failing that it is "everywhere" where the entropy is at least 0.9 of the highest; "at one
    place" where the largest weight of a row has half of what chance does not explain, which is "in order" where it
    advances with the rows, at a correlation of at least 0.9; else "mixed". A head that looks at nothing looks
    "nowhere".
    """
    square = attention_kind(view.kind) != "cross" and len(view.rows) == len(view.columns)
    causal = square and not np.triu(view.weights, 1).any()
    may_QK = np.tri(len(view.rows), dtype=bool) if causal else np.ones(view.weights.shape[2:], dtype=bool)
    places = _places(view.columns, len(view.rows), square)
    return [
        _of_head(layer, head, weights_QK.astype(np.float64), may_QK, places, square)
        for layer, weights_HQK in zip(view.layers, view.weights)
        for head, weights_QK in zip(view.heads, weights_HQK)
    ]


def _of_head(layer: int, head: int, weights_QK, may_QK, places: dict[str, np.ndarray], square: bool) -> HeadStatistics:
    counted = (weights_QK.sum(axis=1) > 0) & (may_QK.sum(axis=1) > 1)
    if not counted.any():  # texts of one token
        counted = weights_QK.sum(axis=1) > 0
    rows, may_QK, numbers = weights_QK[counted], may_QK[counted], np.flatnonzero(counted)
    rows = rows / rows.sum(axis=1, keepdims=True)
    entropy, relative = _entropy(rows, may_QK)
    even = may_QK / may_QK.sum(axis=1, keepdims=True)
    found = {name: _share(rows, place[counted]) for name, place in places.items()}
    chances = {name: _share(even, place[counted]) for name, place in places.items()}
    order = None if square else _order(rows, numbers)
    distance = _share(rows, np.abs(numbers[:, None] - np.arange(rows.shape[1]))) if square else None
    looks = "nowhere"
    if len(rows):
        surest = _beyond(float(rows.max(axis=1).mean()), float(even.max(axis=1).mean()))
        looks = _word({name: _beyond(found[name], chances[name]) for name in found}, relative, surest, order)
    shares: dict[str, Any] = {name: found.get(name) for name in PLACES}
    return HeadStatistics(layer, head, entropy, relative, distance, order=order, looks=looks, **shares)


def _word(places: dict[str, float], relative: float | None, surest: float, order: float | None) -> str:
    """What a head does in a word, from how far its places are above chance."""
    best = max(places, key=lambda name: places[name])
    if places[best] >= MOST:
        return PLACES[best]
    if relative is not None and relative >= EVEN:
        return "everywhere"
    if surest < MOST:
        return "mixed"
    return "in order" if order is not None and order >= ORDERLY else "at one place"


def _places(columns: list[str], rows: int, square: bool) -> dict[str, np.ndarray]:
    """[Q, K] for each of PLACES that there can be: the columns that are there, seen from each row."""
    found = {}
    if square:
        found = {name: np.eye(rows, k=step) for name, step in (("previous", -1), ("itself", 0), ("next", 1))}
        found["first"] = np.tile(np.eye(1, rows), (rows, 1))
    for name, belongs in (("separators", is_separator), ("punctuation", is_punctuation)):
        found[name] = np.tile([float(belongs(token)) for token in columns], (rows, 1))
    return found


def _share(rows_QK: np.ndarray, place_QK: np.ndarray) -> float:
    """The mean over rows of their weight there; 0 without rows."""
    return float((rows_QK * place_QK).sum() / max(len(rows_QK), 1))


def _beyond(share: float, chance: float) -> float:
    """How much of what chance does not explain a share explains; rounded, so that what is equal stays equal."""
    return round((share - chance) / (1 - chance), 9) if chance < 1 else 0.0


def _entropy(rows_QK: np.ndarray, may_QK: np.ndarray) -> tuple[float, float | None]:
    """The mean of the rows' entropies in bits, and what part that is of the highest there could be."""
    bits = float((rows_QK * np.log2(1 / np.where(rows_QK > 0, rows_QK, 1.0))).sum())
    most = float(np.log2(may_QK.sum(axis=1)).sum())
    return bits / max(len(rows_QK), 1), bits / most if most > 0 else None


def _order(rows_QK: np.ndarray, numbers_Q: np.ndarray) -> float | None:
    """The correlation of the number of a row with the mean column it looks at; none where either stays the same."""
    means = rows_QK @ np.arange(rows_QK.shape[1])
    if len(means) < 3 or np.ptp(means) < 1e-9:  # two points are always in a line
        return None
    return float(np.corrcoef(numbers_Q, means)[0, 1])


def is_separator(token: str) -> bool:
    """Whether a token has the form of one that begins, parts or ends texts."""
    return _SPECIAL.fullmatch(token) is not None and token not in _WORDS


def is_punctuation(token: str) -> bool:
    """Whether a token, less the mark of a space, is nothing but what Unicode calls punctuation."""
    letters = _SPACE.sub("", token).strip()
    return bool(letters) and not is_separator(token) and all(unicodedata.category(each)[0] == "P" for each in letters)
