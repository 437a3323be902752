"""A decoder in mid-sentence: the newest ids in, logits of the next out.  Shapes:  N rows  V vocabulary"""

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from manyheads.nn.cache import Cache


class Steps(Protocol):
    """What greedy and beam search need of a model; rows can be dropped, repeated and reordered between steps."""

    def __call__(self, ids_N: Tensor) -> Tensor:
        """Takes each row's newest id and gives the logits of the next: [N, V]."""
        ...

    def select(self, rows: Tensor, sentences: Tensor | None = None) -> None:
        """Keeps these rows and, where given, these sentences of the memory that rows share."""
        ...


class CachedSteps:
    """One position at a time through the key-value cache."""

    def __init__(self, model, memory: Tensor, memory_mask: Tensor | None, capacity: int):
        self.model, self.memory, self.memory_mask = model, memory, memory_mask
        self.cache = Cache(capacity)

    def __call__(self, ids_N: Tensor) -> Tensor:
        return self.model.decode(ids_N[:, None], self.memory, self.memory_mask, self.cache)[:, -1]

    def select(self, rows: Tensor, sentences: Tensor | None = None) -> None:
        self.cache.select(rows, sentences)
        if sentences is not None:
            self.memory, self.memory_mask = _selected(self.memory, self.memory_mask, sentences)


class WholeSteps:
    """The whole sentence anew at each step, without a cache: slow, and what the cache is checked against."""

    def __init__(self, model, memory: Tensor, memory_mask: Tensor | None, capacity: int):
        self.model, self.memory, self.memory_mask = model, memory, memory_mask
        self.ids: Tensor | None = None

    def __call__(self, ids_N: Tensor) -> Tensor:
        self.ids = ids_N[:, None] if self.ids is None else torch.cat([self.ids, ids_N[:, None]], dim=1)
        return self.model.decode(self.ids, self.memory, self.memory_mask)[:, -1]

    def select(self, rows: Tensor, sentences: Tensor | None = None) -> None:
        if self.ids is not None:
            self.ids = self.ids[rows]
        if sentences is not None:
            self.memory, self.memory_mask = _selected(self.memory, self.memory_mask, sentences)


def _selected(memory: Tensor, mask: Tensor | None, sentences: Tensor) -> tuple[Tensor, Tensor | None]:
    return memory[sentences], None if mask is None else mask[sentences]


@dataclass(frozen=True)
class Hypothesis:
    """One decoded sentence: ids without start and end, and its score, higher being better."""

    ids: list[int]
    score: float


@dataclass(frozen=True)
class Vocabulary:
    """The ids that decoding has to know."""

    start: int
    end: int
    never: tuple[int, ...] = ()
    """Ids that may not be produced, such as padding."""
