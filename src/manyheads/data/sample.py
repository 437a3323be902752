"""The sample corpus: English-German sentence pairs with the links of their words, written by `tools/sample`."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from manyheads.data.readers.corpus import read_lines

FILE = Path(__file__).with_suffix(".tsv.xz")

WordLinks = frozenset[tuple[int, int]]


@dataclass(frozen=True)
class Pair:
    """A sentence and its translation."""

    source: str
    """English."""
    target: str
    """German."""


@dataclass(frozen=True)
class AlignedPair(Pair):
    """A sentence and its translation, and which words of the one render which of the other.

    Links are pairs of word numbers, source first, from 0; words are what whitespace separates.
    """

    sure: WordLinks
    """One word plainly renders the other."""
    possible: WordLinks
    """The sure links, and those of words that have no plain counterpart: "does" with the verb, "the" with "im"."""


def sample_corpus() -> dict[str, list[Pair]]:
    """The sample corpus as its "train", "valid" and "test" sets.

    Every sentence of the last two holds a pair of content words that no training sentence holds together, and the two
    sets hold different pairs; every single word form in them occurs in training.
    """
    sets: dict[str, list[Pair]] = {"train": [], "valid": [], "test": []}
    for name, source, target, _ in _rows():
        sets[name].append(Pair(source, target))
    return sets


def sample_alignments() -> dict[str, list[AlignedPair]]:
    """The "valid" and "test" sets of the sample corpus, with the links between their words."""
    sets: dict[str, list[AlignedPair]] = {"valid": [], "test": []}
    for name, source, target, links in _rows():
        if name in sets:
            sure = _links(link for link in links.split() if "-" in link)
            sets[name].append(AlignedPair(source, target, sure, _links(links.replace("?", "-").split())))
    return sets


def _rows() -> Iterator[list[str]]:
    """The set that each pair is in, its English, its German, and its links: `0-0 1?2`, `?` for one only possible."""
    return (line.split("\t") for line in read_lines(FILE))


def _links(written: Iterable[str]) -> WordLinks:
    return frozenset((int(source), int(target)) for source, target in (link.split("-") for link in written))
