"""Labelled examples as token ids, and their batches.  Shapes:  R rows  T positions  E examples  C choices"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from safetensors.numpy import load_file, save_file
from torch import Tensor

# So many batches are sorted by length at a time: enough to spare most padding, few enough that neighbours change.
BUCKET = 50


@dataclass(frozen=True)
class ExampleStore:
    """Examples end to end: each has one row of ids, or of a multiple choice a row for each of its choices."""

    ids: np.ndarray
    """The ids of all rows."""
    rows: np.ndarray
    """Where each row begins in `ids`, and at last where the final one ends."""
    examples: np.ndarray
    """Where each example begins among the rows, and at last where the final one ends."""
    labels: np.ndarray
    """Of each example the number of the right label, or as floats the number that is right itself."""

    @classmethod
    def of(cls, examples: Sequence[Sequence[list[int]]], labels: Sequence[int] | Sequence[float]) -> "ExampleStore":
        """The store of examples that are lists of rows."""
        rows = [row for example in examples for row in example]
        return cls(
            ids=np.array([each for row in rows for each in row], dtype=np.int32),
            rows=_bounds([len(row) for row in rows]),
            examples=_bounds([len(example) for example in examples]),
            labels=np.array(labels, dtype=np.float32 if isinstance(labels[0], float) else np.int64),
        )

    @classmethod
    def load(cls, path: Path) -> "ExampleStore":
        return cls(**load_file(path))

    def save(self, path: Path) -> None:
        tensors = {"ids": self.ids, "rows": self.rows, "examples": self.examples, "labels": self.labels}
        save_file(tensors, path)

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def lengths(self) -> np.ndarray:
        """The longest row of each example."""
        return np.maximum.reduceat(np.diff(self.rows), self.examples[:-1])

    def row(self, number: int) -> np.ndarray:
        return self.ids[self.rows[number] : self.rows[number + 1]]

    def rows_of(self, example: int) -> range:
        return range(self.examples[example], self.examples[example + 1])


def _bounds(lengths: list[int]) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


@dataclass(frozen=True)
class ExampleBatch:
    """Examples side by side, padded at the end."""

    ids: Tensor  # [R, T]
    lengths: Tensor  # [R]
    labels: Tensor  # [E]
    candidates: Tensor | None
    """[E, C], of multiple choice: the row of each choice, -1 where an example has fewer."""

    @property
    def target_tokens(self) -> int:
        """What sums over a batch are divided by: here the number of examples."""
        return len(self.labels)

    def to(self, device: torch.device | str) -> "ExampleBatch":
        return ExampleBatch(
            ids=self.ids.to(device, non_blocking=True),
            lengths=self.lengths.to(device, non_blocking=True),
            labels=self.labels.to(device, non_blocking=True),
            candidates=None if self.candidates is None else self.candidates.to(device, non_blocking=True),
        )


class ExampleBatches:
    """All batches of a store, `size` examples each, in an order fixed by seed and epoch.

    Shuffled examples are sorted by length within buckets of batches, and the batches shuffled again; nothing is
    remembered between epochs, so that a run resumes from two numbers.
    """

    def __init__(self, store: ExampleStore, *, size: int, choice: bool, seed: int, shuffle: bool = True):
        self._store, self._size, self._choice, self._seed, self._shuffle = store, size, choice, seed, shuffle

    def __len__(self) -> int:
        return -(-len(self._store) // self._size)

    def plan(self, epoch: int) -> list[np.ndarray]:
        """The numbers of the examples of each batch; without shuffling the shortest come first."""
        lengths = self._store.lengths
        if not self._shuffle:
            return self._cut(np.argsort(lengths, kind="stable"))
        generator = np.random.default_rng([self._seed, epoch])
        order = generator.permutation(len(lengths))
        width = self._size * BUCKET
        buckets = [order[first : first + width] for first in range(0, len(order), width)]
        batches = self._cut(np.concatenate([bucket[np.argsort(lengths[bucket], kind="stable")] for bucket in buckets]))
        return [batches[place] for place in generator.permutation(len(batches))]

    def _cut(self, order: np.ndarray) -> list[np.ndarray]:
        return [order[first : first + self._size] for first in range(0, len(order), self._size)]

    def epoch(self, epoch: int, start: int = 0) -> Iterator[ExampleBatch]:
        """The batches of an epoch, from number `start` on."""
        for numbers in self.plan(epoch)[start:]:
            yield self._collated(numbers.tolist())

    def _collated(self, numbers: list[int]) -> ExampleBatch:
        store = self._store
        rows = [store.row(row).tolist() for number in numbers for row in store.rows_of(number)]
        ids, lengths = padded(rows)
        labels = torch.from_numpy(store.labels[numbers])
        counts = [len(store.rows_of(number)) for number in numbers]
        return ExampleBatch(ids, lengths, labels, candidates_of(counts) if self._choice else None)


def padded(rows: Sequence[list[int]]) -> tuple[Tensor, Tensor]:
    """Rows of ids side by side, [R, T], and their lengths; nothing looks at padding, so that any id serves."""
    lengths = np.fromiter(map(len, rows), dtype=np.int64, count=len(rows))
    ids = np.zeros((len(rows), lengths.max()), dtype=np.int64)
    real = np.arange(ids.shape[1]) < lengths[:, None]
    ids[real] = np.fromiter((each for row in rows for each in row), dtype=np.int64, count=lengths.sum())
    return torch.from_numpy(ids), torch.from_numpy(lengths)


def candidates_of(counts: Sequence[int]) -> Tensor:
    """[E, C]: the rows of each example, of which there are `counts` one after another, -1 where it has fewer."""
    places = torch.arange(max(counts)).expand(len(counts), -1)
    count, first = torch.tensor(counts)[:, None], torch.tensor([0, *np.cumsum(counts)[:-1].tolist()])[:, None]
    return torch.where(places < count, first + places, -1)


def grouped(lengths: Sequence[int], cells: int) -> Iterator[list[int]]:
    """Places of rows of about the same length, as many at a time as fit into `cells` tokens with their padding."""
    group: list[int] = []
    for place in sorted(range(len(lengths)), key=lengths.__getitem__):
        if group and (len(group) + 1) * lengths[place] > cells:
            yield group
            group = []
        group.append(place)
    if group:
        yield group
