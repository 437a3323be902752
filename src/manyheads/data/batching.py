"""Batches by token budget, of pairs that are about equally long.  Shapes:  B pairs  S source ids  T target ids"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from manyheads.data.store import PairStore

# The budget is the target's, whose logits fill the memory; this much more keeps the source from filling it instead.
SOURCE_ALLOWANCE = 1.5

# How far, in ids, a pair may stray from its place in an epoch.  About a third fewer pairs then meet again in the next
# epoch, for one percent more padding on Multi30k.
STRAY = 1.0


@dataclass(frozen=True)
class PairBatch:
    """Sentence pairs side by side, padded at the end; the target has its end and no start."""

    source: Tensor  # [B, S]
    target: Tensor  # [B, T]
    source_tokens: int
    """Ids that are not padding."""
    target_tokens: int

    def to(self, device: torch.device | str) -> "PairBatch":
        return PairBatch(
            source=self.source.to(device, non_blocking=True),
            target=self.target.to(device, non_blocking=True),
            source_tokens=self.source_tokens,
            target_tokens=self.target_tokens,
        )


@dataclass(frozen=True)
class Plan:
    """Which pairs meet in which batch of one epoch."""

    order: np.ndarray
    """Pair numbers, those of one batch next to each other."""
    bounds: np.ndarray
    """Where each group begins in `order`, and at last where the final one ends."""
    visits: np.ndarray
    """The group that each batch of the epoch takes."""

    def __len__(self) -> int:
        return len(self.visits)

    def pairs(self, batch: int) -> np.ndarray:
        """The pair numbers of one batch."""
        group = self.visits[batch]
        return self.order[self.bounds[group] : self.bounds[group + 1]]


class PairBatches:
    """All batches of a corpus in an order fixed by seed and epoch.

    A batch has at most `tokens` cells of target and half as many again of source, padding included; a pair that alone
    is longer makes a batch of one.  Nothing is remembered between epochs, so a run resumes from two numbers.
    """

    def __init__(self, store: PairStore, *, tokens: int, pad: int, seed: int, shuffle: bool = True):
        self._store = store
        self._tokens = tokens
        self._pad = pad
        self._seed = seed
        self._shuffle = shuffle
        self._latest: tuple[int, Plan] | None = None

    def plan(self, epoch: int) -> Plan:
        """Group and order the pairs for one epoch; without shuffling, every epoch is the same, the shortest first."""
        if self._latest is None or self._latest[0] != epoch:
            self._latest = (epoch, self._planned(epoch))
        return self._latest[1]

    def epoch(self, epoch: int, start: int = 0) -> Iterator[PairBatch]:
        """The batches of an epoch, from number `start` on."""
        plan = self.plan(epoch)
        for batch in range(start, len(plan)):
            yield self._collated(plan.pairs(batch))

    def count(self, epoch: int) -> int:
        return len(self.plan(epoch))

    def _planned(self, epoch: int) -> Plan:
        generator = np.random.default_rng([self._seed, epoch]) if self._shuffle else None
        order = _by_shape(self._store.source_lengths, self._store.target_lengths, generator)
        bounds = _bounds(self._store.source_lengths[order], self._store.target_lengths[order], self._tokens)
        groups = len(bounds) - 1
        return Plan(order, bounds, np.arange(groups) if generator is None else generator.permutation(groups))

    def _collated(self, pairs: np.ndarray) -> PairBatch:
        store = self._store
        return PairBatch(
            source=_padded(store.source, pairs, store.source_lengths[pairs], self._pad),
            target=_padded(store.target, pairs, store.target_lengths[pairs], self._pad),
            source_tokens=int(store.source_lengths[pairs].sum()),
            target_tokens=int(store.target_lengths[pairs].sum()),
        )


def _by_shape(sources: np.ndarray, targets: np.ndarray, generator: np.random.Generator | None) -> np.ndarray:
    """Order pairs such that neighbours have about the same length on both sides.

    The longer side comes first; within it, how much longer the source is.  That runs up and down by turns, so that
    the step from one length to the next is small too: on Multi30k this pads half as much as sorting by one side.
    """
    count = len(sources)
    longer = np.maximum(sources, targets)
    difference = (sources - targets).astype(np.float32)
    if generator is None:
        shuffled, turn = np.arange(count, dtype=np.int32), 0
    else:
        # Ties would keep the order of the corpus, whose neighbours are often of one document.
        shuffled, turn = generator.permutation(np.arange(count, dtype=np.int32)), int(generator.integers(2))
        difference += (2 * generator.random(count, dtype=np.float32) - 1) * STRAY
    np.negative(difference, out=difference, where=(longer + turn) % 2 == 1)
    return shuffled[np.lexsort((difference[shuffled], longer[shuffled]))]


def _bounds(sources: np.ndarray, targets: np.ndarray, tokens: int) -> np.ndarray:
    """Cut an order of pairs into the longest runs that the budget holds."""
    source_tokens = int(tokens * SOURCE_ALLOWANCE)
    bounds = [0]
    while (start := bounds[-1]) < len(targets):
        # No run is longer than one in which every pair is as short as the first.
        most = max(1, min(tokens // max(1, targets[start]), source_tokens // max(1, sources[start])))
        source_widths = np.maximum.accumulate(sources[start : start + most])
        target_widths = np.maximum.accumulate(targets[start : start + most])
        rows = np.arange(1, len(target_widths) + 1)
        fits = (rows * target_widths <= tokens) & (rows * source_widths <= source_tokens)
        bounds.append(start + max(1, int(fits.sum())))
    return np.array(bounds, dtype=np.int64)


def _padded(row: Callable[[int], np.ndarray], pairs: np.ndarray, lengths: np.ndarray, pad: int) -> Tensor:
    cells = np.full((len(pairs), lengths.max()), pad, dtype=np.int64)
    for line, (pair, length) in enumerate(zip(pairs.tolist(), lengths.tolist())):
        cells[line, :length] = row(pair)
    return torch.from_numpy(cells)
