"""Word alignment from cross-attention, and how right it is.  Links are pairs of word numbers, source first, from 0.

Shapes:  L layers  H heads  Q target tokens, as the decoder has them  K source tokens  T target words  S source words
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from manyheads.core.errors import DataError
from manyheads.core.words import counted

Links = frozenset[tuple[int, int]]

_LINK = re.compile(r"([0-9]+)([-?p])([0-9]+)")


@dataclass(frozen=True)
class Reading:
    """Which weights are read as an alignment."""

    layer: int
    head: int | None = None
    """None: the mean of the layer's heads."""
    shifted: bool = False
    """Whether the weights of a word are those one step later, when the decoder has read it, not when it writes it."""

    @property
    def title(self) -> str:
        """Which weights these are, in words."""
        return f"layer {self.layer}, {'all heads' if self.head is None else f'head {self.head}'}"


def word_weights(
    weights_LHQK: Sequence[np.ndarray], target_words: Sequence[int], source_words: Sequence[int], reading: Reading
) -> np.ndarray:
    """The weight of each source word for each target word, [T, S].

    A source word has the sum of its tokens' weights, a target word the mean of its tokens'. The words that tokens
    belong to are counted from 0; tokens after those that are named, the end and padding, belong to none.
    """
    layer_HQK = weights_LHQK[reading.layer]
    weights_QK = layer_HQK.mean(axis=0) if reading.head is None else layer_HQK[reading.head]
    first = int(reading.shifted)
    rows = weights_QK[first : first + len(target_words), : len(source_words)]
    members_QT = _members(target_words)
    sums_TS = members_QT.T @ rows @ _members(source_words)
    return sums_TS / np.maximum(members_QT.sum(axis=0), 1)[:, None]


def _members(words: Sequence[int]) -> np.ndarray:
    """[tokens, words]: 1 where a token belongs to a word."""
    return (np.array(words)[:, None] == np.arange(max(words, default=-1) + 1)).astype(np.float32)


def strongest(weights_TS: np.ndarray) -> Links:
    """Each target word linked to the source word with the most weight; to none where no word has any."""
    if not weights_TS.size:
        return frozenset()
    best = weights_TS.argmax(axis=1)
    return frozenset((int(source), target) for target, source in enumerate(best) if weights_TS[target, source] > 0)


@dataclass(frozen=True)
class LinkScores:
    """How many links were found and how many of them are right, over a corpus (Och and Ney 2003)."""

    found: int
    sure: int
    """Sure links that there are to find."""
    found_sure: int
    found_possible: int

    @property
    def error_rate(self) -> float:
        """1 - (|A∩S| + |A∩P|) / (|A| + |S|) of links found A, sure S and possible P: from 0, all right, to 1."""
        asked = self.found + self.sure
        return 1 - (self.found_sure + self.found_possible) / asked if asked else 0.0

    @property
    def precision(self) -> float:
        """The share of the links found that are possible."""
        return self.found_possible / self.found if self.found else 0.0

    @property
    def recall(self) -> float:
        """The share of the sure links that were found."""
        return self.found_sure / self.sure if self.sure else 0.0


def score_links(found: Sequence[Links], sure: Sequence[Links], possible: Sequence[Links]) -> LinkScores:
    """Counts the links of a corpus, sentence by sentence; sure links are possible too, whether listed so or not."""
    counts = [(0, 0, 0, 0)]
    for links, plain, others in zip(found, sure, possible, strict=True):
        counts.append((len(links), len(plain), len(links & plain), len(links & (plain | others))))
    return LinkScores(*map(sum, zip(*counts)))


def pharaoh(links: Iterable[tuple[int, int]]) -> str:
    """A sentence's links as one line, `0-0 1-2`."""
    return " ".join(f"{source}-{target}" for source, target in sorted(links))


def parse_links(line: str, place: str, source_words: int, target_words: int) -> tuple[Links, Links]:
    """The sure links of a line, `0-0 1-2`, and the possible ones, which may also be written `1?2` or `1p2`.

    `place` begins the sentence that refuses a line.
    """
    sure, possible = set(), set()
    for written in line.split():
        match = _LINK.fullmatch(written)
        if not match:
            raise DataError(f"{place}: {written!r} is no link; write i-j, or i?j where it is only possible")
        source, target = int(match[1]), int(match[3])
        for number, words, side in ((source, source_words, "source"), (target, target_words, "target")):
            if number >= words:
                raise DataError(
                    f"{place}: {written} links {side} word {number}, but the {side} has {counted(words, 'word')}, "
                    "counted from 0"
                )
        possible.add((source, target))
        if match[2] == "-":
            sure.add((source, target))
    return frozenset(sure), frozenset(possible)
