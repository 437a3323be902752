"""A corpus of English-German sentence pairs that is generated, not stored: the same seed gives the same bytes."""

from dataclasses import dataclass

from manyheads.data.sample.split import draw_sets

__all__ = ["Pair", "sample_corpus"]


@dataclass(frozen=True)
class Pair:
    """A sentence and its translation."""

    source: str
    """English."""
    target: str
    """German."""


def sample_corpus(seed: int = 1, train: int = 20_000, valid: int = 500, test: int = 500) -> dict[str, list[Pair]]:
    """The sample corpus as its "train", "valid" and "test" sets.

    Every sentence of the last two holds a pair of content words that no training sentence holds together, and the two
    sets hold different pairs; every single word form in them occurs in training.
    """
    sets = draw_sets(seed, {"train": train, "valid": valid, "test": test})
    return {
        name: [Pair(sentence.source, sentence.target) for sentence in sentences] for name, sentences in sets.items()
    }
