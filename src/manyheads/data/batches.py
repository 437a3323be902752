"""Batches in an order fixed by seed and epoch: what a batch is, and which rows meet in which."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

# The budget is the target's, whose logits fill the memory; this much more keeps the source from filling it instead.
SOURCE_ALLOWANCE = 1.5

# How far, in ids, a pair may stray from its place in an epoch.  About a third fewer pairs then meet again in the next
# epoch, for one percent more padding on Multi30k.
STRAY = 1.0

# So many batches are sorted by length at a time: enough to spare most padding, few enough that neighbours change.
BUCKET = 50


class Batch:
    """Tensors by name, each an attribute too; one that a task has no use for may be None."""

    def __init__(self, target_tokens: int, **tensors: Tensor | None):
        self.target_tokens = target_tokens
        """What sums over the batch are divided by."""
        self.tensors = tensors

    def __getattr__(self, name: str) -> Any:
        tensors = self.__dict__.get("tensors", {})
        if name not in tensors:
            raise AttributeError(f"a batch of {', '.join(tensors)} has no {name}")
        return tensors[name]

    def to(self, device: torch.device | str) -> "Batch":
        moved = {
            name: None if tensor is None else tensor.to(device, non_blocking=True)
            for name, tensor in self.tensors.items()
        }
        return Batch(self.target_tokens, **moved)


class Batches:
    """The batches of any epoch, from any number on: `plan` says what is in each, and `collate` makes one of it.

    A plan is made from nothing but the epoch's number, so that a run resumes from two numbers.
    """

    def __init__(self, plan: Callable[[int], Sequence[Any]], collate: Callable[[Any], Batch]):
        self._plan, self._collate = plan, collate
        self._latest: tuple[int, Sequence[Any]] | None = None

    def plan(self, epoch: int) -> Any:
        """What is in each batch of an epoch."""
        if self._latest is None or self._latest[0] != epoch:
            self._latest = (epoch, self._plan(epoch))
        return self._latest[1]

    def epoch(self, epoch: int, start: int = 0) -> Iterator[Batch]:
        """The batches of an epoch, from number `start` on."""
        plan = self.plan(epoch)
        for number in range(start, len(plan)):
            yield self._collate(plan[number])

    def __len__(self) -> int:
        """The batches of the first epoch; where others have not as many, they have about as many."""
        return len(self.plan(0))


@dataclass(frozen=True)
class Plan(Sequence[np.ndarray]):
    """The numbers of the rows in each batch of an epoch."""

    order: np.ndarray
    """Rows, those of one batch next to each other."""
    bounds: np.ndarray
    """Where each group begins in `order`, and at last where the final one ends."""
    visits: np.ndarray
    """The group that each batch of the epoch takes."""

    def __len__(self) -> int:
        return len(self.visits)

    def __getitem__(self, batch: int) -> np.ndarray:  # type: ignore
        group = self.visits[batch]
        return self.order[self.bounds[group] : self.bounds[group + 1]]


def shuffling(seed: int, epoch: int, shuffle: bool) -> np.random.Generator | None:
    """An epoch's random numbers, or None where it keeps the order of the lengths."""
    return np.random.default_rng([seed, epoch]) if shuffle else None


def _visited(groups: int, generator: np.random.Generator | None) -> np.ndarray:
    return np.arange(groups) if generator is None else generator.permutation(groups)


# Planners; without a generator every epoch is the same


def by_count(lengths: np.ndarray, size: int, generator: np.random.Generator | None) -> Plan:
    """So many rows a batch, about equally long; without a generator the shortest come first."""
    if generator is None:
        order = np.argsort(lengths, kind="stable")
    else:
        shuffled, width = generator.permutation(len(lengths)), size * BUCKET
        buckets = [shuffled[first : first + width] for first in range(0, len(shuffled), width)]
        order = np.concatenate([bucket[np.argsort(lengths[bucket], kind="stable")] for bucket in buckets])
    bounds = np.append(np.arange(0, len(order), size), len(order))
    return Plan(order, bounds, _visited(len(bounds) - 1, generator))


def together(groups: np.ndarray, size: int, generator: np.random.Generator | None) -> Plan:
    """So many rows a batch, those of one group side by side, of whatever length; without a generator as they come."""
    places = np.arange(groups.max() + 1) if generator is None else generator.permutation(groups.max() + 1)
    order = np.argsort(places[groups], kind="stable")
    bounds = np.append(np.arange(0, len(order), size), len(order))
    return Plan(order, bounds, np.arange(len(bounds) - 1))


def evenly(count: int, size: int, generator: np.random.Generator) -> Plan:
    """About so many rows a batch, in any order: batches differ by one row at most."""
    groups = -(-count // size)
    short, longer = divmod(count, groups)
    bounds = np.cumsum([0, *[short + 1] * longer, *[short] * (groups - longer)])
    return Plan(generator.permutation(count), bounds, np.arange(groups))


def windows(ids: int, rows: int, length: int, generator: np.random.Generator | None) -> Plan:
    """Where in a text of so many ids windows of `length` predictions begin, so many windows a batch.

    Windows overlap by one id, so that no id is predicted twice.  With a generator every epoch cuts the text at other
    places, and leaves out what fills no window and windows that fill no batch.  Without one every id but the first is
    predicted, those of a shorter window at the end in a batch of its own.
    """
    # A text of little more than one window must not lose it to the offset.
    offset = 0 if generator is None else int(generator.integers(min(length, ids - length)))
    whole, rest = divmod(ids - 1 - offset, length)
    numbers = np.arange(whole, dtype=np.int32 if ids < 2**31 else np.int64)
    if generator is None:
        bounds = [*range(0, whole, rows), whole]
        starts = np.append(numbers, whole) if rest else numbers
        bounds += [whole + 1] if rest else []
    else:
        starts = generator.permutation(numbers)
        bounds = np.minimum(np.arange(max(1, whole // rows) + 1) * rows, whole)
    return Plan(offset + starts * length, np.asarray(bounds), np.arange(len(bounds) - 1))


def streams(ids: int, rows: int, length: int, generator: np.random.Generator | None) -> list[tuple[bool, np.ndarray]]:
    """Where windows begin when so many rows read a text side by side, each a part of its own from beginning to end.

    With each batch comes whether it goes on from the one before, window by window.  With a generator every epoch cuts
    the text at other places, and what does not fill windows at the end of a part is not predicted; without one only
    what does not fill the parts is left over, less than a token a row.
    """
    offset = 0 if generator is None else int(generator.integers(max(1, min(length, ids - rows * length))))
    part = (ids - 1 - offset) // rows
    begins = offset + part * np.arange(rows)
    return [(first > 0, begins + first) for first in range(0, part if generator is None else part - length + 1, length)]


def by_shape(sources: np.ndarray, targets: np.ndarray, tokens: int, generator: np.random.Generator | None) -> Plan:
    """Pairs of about one shape, as many as have at most `tokens` cells of target, and half as many again of source.

    Padding is counted; a pair that alone is longer makes a batch of one.  Without a generator the shortest come first.
    """
    order = _shape_order(sources, targets, generator)
    bounds = _bounds(sources[order], targets[order], tokens)
    return Plan(order, bounds, _visited(len(bounds) - 1, generator))


def _shape_order(sources: np.ndarray, targets: np.ndarray, generator: np.random.Generator | None) -> np.ndarray:
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


def padded(rows: Sequence[Sequence[int]] | Sequence[np.ndarray], fill: int = 0) -> tuple[Tensor, Tensor]:
    """Rows of ids side by side, [rows, longest], and their lengths; where nothing looks at padding, any id serves."""
    lengths = np.fromiter(map(len, rows), dtype=np.int64, count=len(rows))
    cells = np.full((len(rows), lengths.max()), fill, dtype=np.int64)
    for line, row in enumerate(rows):
        cells[line, : len(row)] = row
    return torch.from_numpy(cells), torch.from_numpy(lengths)
