"""How often words stand together."""

from collections import Counter

import numpy as np
import pytest

from manyheads.data import cooccurrence
from manyheads.data.cooccurrence import cooccurrences
from manyheads.data.ragged import Ragged

LINES = [[1, 2, 1, 3], [2], [3, 3, 1, 0, 2, 2, 1], [0, 1]]


def counted(window: int) -> dict[tuple[int, int], float]:
    """The same, place by place."""
    found: Counter = Counter()
    for line in LINES:
        for place, word in enumerate(line):
            for other in range(max(0, place - window), min(len(line), place + window + 1)):
                if other != place:
                    found[word, line[other]] += 1 / abs(other - place)
    return dict(found)


@pytest.mark.parametrize("window", [1, 3, 50])
@pytest.mark.parametrize("at_once", [2, 1_000_000])
def test_pairs_count_by_their_distance_within_a_line(monkeypatch, window, at_once):
    monkeypatch.setattr(cooccurrence, "WORDS_AT_ONCE", at_once)
    first, second, counts = cooccurrences(Ragged.of(LINES, np.uint16), 4, window)
    found = {(int(one), int(other)): float(count) for one, other, count in zip(first, second, counts)}
    assert found == pytest.approx(counted(window))
    assert [*found] == sorted(found)
    assert all(found[one, other] == pytest.approx(found[other, one]) for one, other in found)


def test_words_that_stand_alone_make_no_pairs():
    first, _, counts = cooccurrences(Ragged.of([[1], [2]]), 4, 5)
    assert (len(first), len(counts)) == (0, 0)
