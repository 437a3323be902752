"""A decoder in mid-sentence: the newest ids in, logits of the next out.

Shapes:  R rows  N sentences  K beams  T positions  V vocabulary
"""

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from manyheads.core.errors import CheckpointError
from manyheads.ops.device import refuse_beyond_memory
from manyheads.ops.linear import SameWeights

ALWAYS_FITS = 10**9  # bytes, for which no machine is asked


class State(Protocol):
    """What `model.decoding_state` gives and each step advances; a key-value cache is one kind."""

    ends: list[tuple[int, int]]
    """For each text found, the row it ended in and how many steps before the last; empty until a search is over."""

    def select(self, beams_NK: Tensor | None, sentences: Tensor | None) -> None:
        """Lets each beam go on from the beam named, then keeps the sentences named, in that order."""


class Steps(Protocol):
    """What greedy and beam search need of a model in mid-sentence; rows are sentences times beams."""

    first: Tensor
    """[R] ids that the first step takes."""
    shrinks: bool = True
    """Whether rows that are done may leave."""

    def __call__(self, ids_R: Tensor) -> Tensor:
        """Takes each row's newest id and gives the logits of the next: [R, V]."""
        ...

    def to_cpu(self, ids_R: Tensor) -> Tensor:
        """The ids chosen, on the CPU; they are what the next step will be taken with, unless a row is done."""
        return ids_R.cpu()

    def select(self, beams_NK: Tensor | None, sentences: Tensor | None) -> None:
        """Lets each beam go on from the beam named, then keeps the sentences named, in that order."""

    def finish(self, ends: list[tuple[int, int]]) -> None:
        """Told, when all is done, in which row each text ended and how many steps before the last."""


class CachedSteps(Steps):
    """One position at a time, each from the state that the one before left."""

    def __init__(self, model, memory: Tensor, memory_mask: Tensor | None, capacity: int, beams: int = 1):
        self.model, self.memory, self.memory_mask = model, memory, memory_mask
        self.first = torch.full((len(memory) * beams,), model.config.start, device=memory.device)
        self.state: State = model.decoding_state(capacity, beams)
        self.same_weights = SameWeights()

    def __call__(self, ids_R: Tensor) -> Tensor:
        ids_R = ids_R.to(self.memory.device)
        with self.same_weights:
            return self.model.decode(ids_R[:, None], self.memory, self.memory_mask, self.state)[:, -1]

    def select(self, beams_NK: Tensor | None, sentences: Tensor | None) -> None:
        sentences = None if sentences is None else sentences.to(self.memory.device)
        self.state.select(beams_NK, sentences)
        if sentences is not None:
            self.memory = self.memory[sentences]
            self.memory_mask = None if self.memory_mask is None else self.memory_mask[sentences]

    def finish(self, ends: list[tuple[int, int]]) -> None:
        self.state.ends = ends


class WholeSteps(CachedSteps):
    """The whole sentence anew at each step, past the state: slow, and what the cache is checked against."""

    def __init__(self, model, memory: Tensor, memory_mask: Tensor | None, capacity: int, beams: int = 1):
        super().__init__(model, memory, memory_mask, capacity, beams)
        self.ids_NKT = torch.empty(memory.shape[0], beams, 0, dtype=torch.long, device=memory.device)

    def __call__(self, ids_R: Tensor) -> Tensor:
        ids_R = ids_R.to(self.memory.device)
        self.ids_NKT = torch.cat([self.ids_NKT, ids_R.view(*self.ids_NKT.shape[:2], 1)], dim=2)
        return self.model.decode(self.ids_NKT.flatten(0, 1), self.memory, self.memory_mask)[:, -1]

    def select(self, beams_NK: Tensor | None, sentences: Tensor | None) -> None:
        super().select(beams_NK, sentences)
        if beams_NK is not None:
            self.ids_NKT = self.ids_NKT.gather(1, beams_NK[:, :, None].expand_as(self.ids_NKT))
        if sentences is not None:
            self.ids_NKT = self.ids_NKT[sentences.to(self.memory.device)]


def refuse_many_rows(model, rows: int, capacity: int, beams: int = 1) -> None:
    """Refuses more rows at once than memory holds logits and a key-value cache of; `beams` of them share their keys."""
    config, weight = model.config, next(model.parameters())
    layers = getattr(config, "decoder_layers", None) or config.layers
    heads = getattr(config, "heads", 1)  # what has none keeps a window of its inputs, which is less
    shared = heads // (getattr(config, "key_value_heads", None) or heads)
    numbers = 2 * config.vocabulary + 2 * layers * capacity * config.width // shared
    size = numbers * weight.element_size() + beams * capacity  # and a mask that says which keys are whose
    if rows * size > ALWAYS_FITS:
        refuse_beyond_memory(rows, "texts at once", size, weight.device, "take a smaller beam, or fewer samples")


def refuse_undefined(undefined: Tensor) -> None:
    """Logits that are no numbers name no next token."""
    if bool(undefined.any()):
        raise CheckpointError(
            "the model gives what is no number (NaN) for its next token: its weights are damaged or its training has "
            "diverged; use an earlier checkpoint, or train it again"
        )


@dataclass(frozen=True)
class Hypothesis:
    """One decoded sentence: ids without start and end, and its score, higher being better."""

    ids: list[int]
    score: float


DONE = -1  # in place of an id, where a row is done and waits for others


@dataclass(frozen=True)
class SpecialIds:
    """The ids that decoding has to know."""

    stop_ids: tuple[int, ...] = ()
    """The ids that end a text, each of them; the first also stands before a text."""
    banned: tuple[int, ...] = ()
    """Ids that may not be produced, such as padding."""

    @classmethod
    def of(cls, config, tokenizer) -> "SpecialIds":
        """Those of a language model, which may have more rows than there are tokens."""
        named = dict.fromkeys((tokenizer.end, config.end, *config.other_ends))
        ends = tuple(each for each in named if each is not None)
        rows = range(len(tokenizer), config.vocabulary)
        return cls(stop_ids=ends, banned=tuple(row for row in rows if row not in ends))

    @property
    def end(self) -> int | None:
        """The id that stands between texts, where there is one."""
        return next(iter(self.stop_ids), None)

    def ended(self, ids: Tensor) -> Tensor:
        """Where one of the ends stands, or a row is done."""
        found = ids == DONE
        for each in self.stop_ids:
            found |= ids == each
        return found

    def lengths(self, ids: Tensor) -> Tensor:
        """How many ids stand before the first end in each row."""
        return (~self.ended(ids)).long().cumprod(dim=-1).sum(dim=-1)
