"""The weights of one attention, put together from its calls.

Shapes:  B batch  H heads  Q query positions  K key positions  R rows of a step  N sentences of it  T positions
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from manyheads.nn.cache import Cache


@dataclass(frozen=True)
class _Piece:
    """One call through a cache."""

    start: int | Tensor
    """The position of the first query: one for all rows, or [R]."""
    moves: int
    """How many times rows had moved before it."""
    weights: Tensor
    """[R, H, Q, K]"""

    def start_of(self, row: int) -> int:
        return self.start if isinstance(self.start, int) else int(self.start[row])


class Joined:
    """The calls of one attention that belong together: one, or many through the same cache.

    `own` says that keys are positions of the same text, of which there are more with each step.
    """

    def __init__(self, cache: Cache | None, groups: Any, own: bool):
        self.cache, self.groups, self.own = cache, groups, own
        self._pieces: list[_Piece] = []
        self._parts: list[Tensor] = []
        self._layout = (0, 0, 1)
        self._start: int | Tensor = 0
        self._settled: Tensor | None = None

    def about_to(self, rows: int, positions: int, beams: int) -> None:
        """Called before a call: so many rows of so many positions, some of them beams of one sentence.

        Where the queries stand is kept here, since the model changes it behind the call.
        """
        self._layout = rows, positions, beams
        if self.cache is not None:
            start = self.cache.start
            self._start = start if isinstance(start, int) else start.clone()

    def add(self, weights: Tensor) -> None:
        """Takes the weights of a call, as its kernel has them."""
        if self.groups is not None:
            self._parts.append(weights)
            return
        weights_RHQK = _by_rows(weights, *self._layout)
        if self.cache is None:
            self._settled = weights_RHQK
        else:
            self._pieces.append(_Piece(self._start, len(self.cache.moves), weights_RHQK))

    @property
    def weights(self) -> Tensor:
        """[B, H, Q, K] of all there is so far."""
        if self._settled is not None:
            return self._settled
        return self._from_groups() if self.groups is not None else self._from_steps()

    @property
    def begun(self) -> bool:
        """Whether there is anything to join."""
        return self._settled is not None or bool(self._pieces or self._parts)

    def finish(self) -> None:
        """Joins, and lets go of what it was joined from."""
        self._settled = self.weights
        self.cache, self._pieces, self._parts = None, [], []

    def _from_groups(self) -> Tensor:
        """Rows without their padding, each in its place among zeros."""
        # Rows that were packed by hand, with a plain list, stand as they stand.
        order = getattr(self.groups, "order_B", torch.arange(sum(count for count, _ in self.groups)))
        positions = getattr(self.groups, "positions", max(length for _, length in self.groups))
        first = self._parts[0]
        whole = first.new_zeros(len(order), first.shape[1], positions, positions)
        for part, rows in zip(self._parts, order.split([count for count, _ in self.groups])):
            length = part.shape[-1]
            whole[rows, :, :length, :length] = part
        return whole

    def _from_steps(self) -> Tensor:
        """A row for each position computed, of each text that was found or, before any is, of each that is running."""
        assert self.cache is not None
        last = self._pieces[-1]
        paths = [self._path(*end) for end in self.cache.ends or [(row, 0) for row in range(len(last.weights))]]
        reached = [path[-1][0].start_of(path[-1][1]) + path[-1][0].weights.shape[2] for path in paths]
        first = min(piece.start_of(row) for path in paths for piece, row in path)
        keys = max(reached) if self.own else last.weights.shape[3]
        whole = last.weights.new_zeros(len(paths), last.weights.shape[1], max(reached) - first, keys)
        for text, path in enumerate(paths):
            for piece, row in path:
                found, begin = piece.weights[row], piece.start_of(row)
                found = found[:, : reached[text] - begin, :keys]
                whole[text, :, begin - first : begin - first + found.shape[1], : found.shape[2]] = found
        return whole

    def _path(self, row: int, back: int) -> list[tuple[_Piece, int]]:
        """The pieces that led to this row, so many steps before the last, each with the row that it was there."""
        pieces = self._pieces[: len(self._pieces) - back]
        path = [(pieces[-1], row)]
        for earlier, later in zip(pieces[-2::-1], pieces[:0:-1]):
            for beams, sentences in reversed(self.cache.moves[earlier.moves : later.moves]):  # type: ignore
                row = _came_from(row, beams, sentences, self.cache.beams)  # type: ignore
            path.append((earlier, row))
        return path[::-1]


def _came_from(row: int, beams_NK: Tensor | None, sentences: Tensor | None, beams: int) -> int:
    """The row that a row was before rows moved."""
    beams = beams if beams_NK is None else beams_NK.shape[1]
    sentence, beam = divmod(row, beams)
    if sentences is not None:
        sentence = int(sentences[sentence])
    if beams_NK is not None:
        beam = int(beams_NK[sentence, beam])
    return sentence * beams + beam


def _by_rows(weights: Tensor, rows: int, positions: int, beams: int) -> Tensor:
    """[R, H, Q, K]: rows that shared keys, and were queries of one sentence, as rows again."""
    shared = rows // weights.shape[0]
    if shared > 1:
        weights = weights.unflatten(2, (shared, positions)).transpose(1, 2).flatten(0, 1)
    if beams > 1:
        # Keys stand by position, then by beam; of each position a beam sees its own ancestor's alone.
        weights = weights.unflatten(3, (-1, beams)).sum(dim=-1)
    return weights
