"""Batches of pairs of texts.  Shapes:  P pairs  R = 2 · P rows  T positions"""

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from manyheads.data.example_batches import ExampleBatch, ExampleStore, padded


class SimilarityBatches:
    """All batches of a store of pairs, about `size` pairs each, in an order fixed by seed and epoch.

    The rows of a batch are the first texts of its pairs, then their second texts; its labels are their scores. Without
    scores a label is the place of a first text's own second text, and candidates, [P, P], are the second texts that
    each first text is compared with, its own among them.

    Without shuffling every epoch has the order of the first. Batches differ by one pair at most: in a small rest of
    two pairs, each text would be easily told from the only other one.
    """

    def __init__(self, store: ExampleStore, *, size: int, seed: int, shuffle: bool = True):
        self._store, self._size, self._seed, self._shuffle = store, size, seed, shuffle

    def __len__(self) -> int:
        return -(-len(self._store) // self._size)

    def plan(self, epoch: int) -> list[np.ndarray]:
        """The numbers of the pairs of each batch."""
        generator = np.random.default_rng([self._seed, epoch if self._shuffle else 0])
        return np.array_split(generator.permutation(len(self._store)), len(self))

    def epoch(self, epoch: int, start: int = 0) -> Iterator[ExampleBatch]:
        """The batches of an epoch, from number `start` on."""
        for numbers in self.plan(epoch)[start:]:
            yield self._collated(numbers.tolist())

    def _collated(self, numbers: list[int]) -> ExampleBatch:
        store = self._store
        rows = [store.row(2 * number + side).tolist() for side in (0, 1) for number in numbers]
        ids, lengths = padded(rows)
        labels = store.labels[numbers]
        if is_scored(store):
            return ExampleBatch(ids, lengths, torch.from_numpy(labels), None)
        return ExampleBatch(ids, lengths, torch.arange(len(numbers)), candidates_of(rows))


def is_scored(store: ExampleStore) -> bool:
    """Whether its pairs have scores, which are floats."""
    return store.labels.dtype.kind == "f"


def candidates_of(rows: Sequence[list[int]]) -> Tensor:
    """[P, P]: the second texts that each first text is compared with: its own, and those that do not belong to it.

    Another pair's second text belongs to it as well where it is the same as its own, or as the first text itself, or
    where that pair has the same first text.
    """
    numbers: dict[tuple[int, ...], int] = {}
    known = np.array([numbers.setdefault(tuple(row), len(numbers)) for row in rows])
    first, second = np.split(known, 2)
    belongs = (second[:, None] == second) | (first[:, None] == first) | (first[:, None] == second)
    return torch.from_numpy(~belongs | np.eye(len(first), dtype=bool))
