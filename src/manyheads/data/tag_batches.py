"""Words with their labels as token ids, and their batches.  Shapes:  R rows  T positions"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from safetensors.numpy import load_file, save_file
from torch import Tensor

from manyheads.data.example_batches import ExampleBatches, ExampleStore, padded

NOTHING = -1  # the label of a position of which nothing is asked


@dataclass(frozen=True)
class TagStore:
    """Windows of sentences end to end, in the order of their words."""

    windows: ExampleStore
    """The ids of each window; its label is the number of the sentence that it is of."""
    labels: np.ndarray
    """For each of the ids the number of its label, -1 where nothing is asked."""

    @classmethod
    def of(cls, rows: Sequence[list[int]], labels: Sequence[Sequence[int]], sentences: Sequence[int]) -> "TagStore":
        """The store of rows of ids, with a label for each id and a sentence for each row."""
        flat = np.array([each for row in labels for each in row], dtype=np.int32)
        return cls(ExampleStore.of([[row] for row in rows], list(sentences)), flat)

    @classmethod
    def load(cls, path: Path) -> "TagStore":
        found = load_file(path)
        windows = ExampleStore(found["ids"], found["rows"], found["examples"], found["sentences"])
        return cls(windows, found["labels"])

    def save(self, path: Path) -> None:
        windows = self.windows
        tensors = {"ids": windows.ids, "rows": windows.rows, "examples": windows.examples}
        save_file({**tensors, "sentences": windows.labels, "labels": self.labels}, path)

    def __len__(self) -> int:
        """How many windows there are."""
        return len(self.windows)

    @property
    def sentences(self) -> int:
        return len(np.unique(self.windows.labels))

    def place(self, window: int) -> slice:
        """Where a window lies among all ids."""
        return slice(self.windows.rows[window], self.windows.rows[window + 1])

    def by_sentence(self, values: np.ndarray) -> list[np.ndarray]:
        """Of values for all ids those of each sentence's words."""
        asked = self.labels != NOTHING
        sentence_of_word = np.repeat(self.windows.labels, np.diff(self.windows.rows))[asked]
        return np.split(values[asked], np.flatnonzero(np.diff(sentence_of_word)) + 1)


@dataclass(frozen=True)
class TagBatch:
    """Windows side by side, padded at the end."""

    ids: Tensor  # [R, T]
    lengths: Tensor  # [R]
    labels: Tensor
    """[R, T]: the label of the word that begins there, -1 where none begins or another window is asked about it."""
    target_tokens: int
    """What sums over a batch are divided by: here the number of words that are asked about."""

    def to(self, device: torch.device | str) -> "TagBatch":
        return TagBatch(
            ids=self.ids.to(device, non_blocking=True),
            lengths=self.lengths.to(device, non_blocking=True),
            labels=self.labels.to(device, non_blocking=True),
            target_tokens=self.target_tokens,
        )


class TagBatches:
    """All batches of a store, `size` windows each, in an order fixed by seed and epoch."""

    def __init__(self, store: TagStore, *, size: int, seed: int, shuffle: bool = True):
        self._store = store
        self._order = ExampleBatches(store.windows, size=size, choice=False, seed=seed, shuffle=shuffle)

    def __len__(self) -> int:
        return len(self._order)

    def plan(self, epoch: int) -> list[np.ndarray]:
        """The numbers of the windows of each batch; without shuffling the shortest come first."""
        return self._order.plan(epoch)

    def epoch(self, epoch: int, start: int = 0) -> Iterator[TagBatch]:
        """The batches of an epoch, from number `start` on."""
        for numbers in self.plan(epoch)[start:]:
            yield self._collated(numbers.tolist())

    def _collated(self, numbers: list[int]) -> TagBatch:
        store = self._store
        ids, lengths = padded([store.windows.row(number).tolist() for number in numbers])
        labels = torch.full_like(ids, NOTHING)
        for place, number in enumerate(numbers):
            labels[place, : lengths[place]] = torch.from_numpy(store.labels[store.place(number)])
        return TagBatch(ids, lengths, labels, int((labels != NOTHING).sum()))
