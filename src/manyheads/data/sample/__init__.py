"""A corpus of English-German sentence pairs that is generated, not stored: the same seed gives the same bytes."""

from dataclasses import dataclass

from manyheads.data.sample.alignment import WordLinks, align
from manyheads.data.sample.split import draw_sets

__all__ = ["AlignedPair", "Pair", "sample_alignments", "sample_corpus"]


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


def sample_corpus(seed: int = 1, train: int = 20_000, valid: int = 500, test: int = 500) -> dict[str, list[Pair]]:
    """The sample corpus as its "train", "valid" and "test" sets.

    Every sentence of the last two holds a pair of content words that no training sentence holds together, and the two
    sets hold different pairs; every single word form in them occurs in training.
    """
    sets = draw_sets(seed, {"train": train, "valid": valid, "test": test})
    return {
        name: [Pair(sentence.source, sentence.target) for sentence in sentences] for name, sentences in sets.items()
    }


def sample_alignments(
    seed: int = 1, train: int = 20_000, valid: int = 500, test: int = 500
) -> dict[str, list[AlignedPair]]:
    """The "valid" and "test" sets of the sample corpus of these sizes, with the links between their words."""
    sets = draw_sets(seed, {"train": train, "valid": valid, "test": test})
    return {
        name: [AlignedPair(sentence.source, sentence.target, *align(sentence)) for sentence in sets[name]]
        for name in ("valid", "test")
    }
