"""How often words stand together: what GloVe is learned from."""

import numpy as np

from manyheads.data.ragged import Ragged

WORDS_AT_ONCE = 1_000_000  # of a text, whose pairs are counted before they are added to the others


def cooccurrences(lines: Ragged, vocabulary: int, window: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The cells that are not zero: first word, second word, and the sum of 1 / distance over all places in a line.

    Both orders of two words are there, sorted by the first and then by the second.
    """
    keys, counts = np.zeros(0, np.int64), np.zeros(0)
    row = 0
    while row < len(lines):
        last = int(np.searchsorted(lines.offsets, lines.offsets[row] + WORDS_AT_ONCE, side="right")) - 1
        last = min(max(last, row + 1), len(lines))
        found = _counted(lines.part(row, last), vocabulary, window)
        keys, counts = _added(np.concatenate([keys, found[0]]), np.concatenate([counts, found[1]]))
        row = last
    return (keys // vocabulary).astype(np.int32), (keys % vocabulary).astype(np.int32), counts.astype(np.float32)


def _counted(lines: Ragged, vocabulary: int, window: int) -> tuple[np.ndarray, np.ndarray]:
    ids, line = lines.flat.astype(np.int64), np.repeat(np.arange(len(lines)), lines.lengths)
    keys: list[np.ndarray] = []
    counts: list[np.ndarray] = []
    for distance in range(1, min(window, len(ids) - 1) + 1):
        same = line[distance:] == line[:-distance]
        before, behind = ids[:-distance][same], ids[distance:][same]
        keys += [before * vocabulary + behind, behind * vocabulary + before]
        counts += [np.full(2 * len(before), 1 / distance)]
    return _added(np.concatenate(keys), np.concatenate(counts)) if keys else (np.zeros(0, np.int64), np.zeros(0))


def _added(keys: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Each key once, with the sum of its counts."""
    order = np.argsort(keys, kind="stable")
    keys, counts = keys[order], counts[order]
    first = np.flatnonzero(np.append(True, keys[1:] != keys[:-1])) if len(keys) else np.zeros(0, np.int64)
    return keys[first], np.add.reduceat(counts, first) if len(first) else counts
