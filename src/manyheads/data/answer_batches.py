"""Windows of contexts with the place of the answer in each, and their batches.  Shapes:  B windows  T positions"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from manyheads.data.example_batches import ExampleBatches, ExampleStore


def window_store(rows: Sequence[list[int]], targets: Sequence[tuple[int, int]]) -> ExampleStore:
    """The ids of windows, with the positions of the answer's first and last token as their labels, [windows, 2]."""
    store = ExampleStore.of([[row] for row in rows], [0] * len(rows))
    return replace(store, labels=np.array(targets, dtype=np.int64).reshape(-1, 2))


@dataclass(frozen=True)
class AnswerBatch:
    """Windows side by side, padded at the end."""

    ids: Tensor  # [B, T]
    lengths: Tensor  # [B]
    starts: Tensor
    """[B]: the position of the answer's first token; 0, that of [CLS], where the window has no answer."""
    ends: Tensor
    """[B]: the position of its last token."""

    @property
    def target_tokens(self) -> int:
        """What sums over a batch are divided by: here the number of windows."""
        return len(self.starts)

    def to(self, device: torch.device | str) -> "AnswerBatch":
        return AnswerBatch(
            ids=self.ids.to(device, non_blocking=True),
            lengths=self.lengths.to(device, non_blocking=True),
            starts=self.starts.to(device, non_blocking=True),
            ends=self.ends.to(device, non_blocking=True),
        )


class AnswerBatches:
    """All batches of a store of windows, `size` each, in the order that examples come in: fixed by seed and epoch."""

    def __init__(self, store: ExampleStore, *, size: int, seed: int, shuffle: bool = True):
        self._batches = ExampleBatches(store, size=size, choice=False, seed=seed, shuffle=shuffle)

    def __len__(self) -> int:
        return len(self._batches)

    def epoch(self, epoch: int, start: int = 0) -> Iterator[AnswerBatch]:
        """The batches of an epoch, from number `start` on."""
        for batch in self._batches.epoch(epoch, start):
            yield AnswerBatch(batch.ids, batch.lengths, batch.labels[:, 0], batch.labels[:, 1])
