"""Rows of different lengths without their padding.  Shapes:  B rows  T positions  N real tokens  W width"""

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor


class Groups(list[tuple[int, int]]):
    """How many rows there are of each length, in the order they stand in: (rows, length)."""

    def __init__(self, groups: Iterable[tuple[int, int]], order_B: Tensor, positions: int):
        super().__init__(groups)
        self.order_B, self.positions = order_B, positions
        """Which of the padded rows stands first, second, …, and how long they were."""


@dataclass(frozen=True)
class Packing:
    """The real tokens of padded rows, end to end, rows of the same length side by side."""

    places: Tensor  # [N]
    """Where each token stands among the B · T of the padded rows."""
    groups: Groups

    @classmethod
    def of(cls, lengths_B: Tensor, positions: int) -> "Packing":
        """The packing of rows that are real up to their lengths and padded to `positions`."""
        order_B = lengths_B.argsort(stable=True)
        sorted_B = lengths_B[order_B]
        sizes, counts = sorted_B.unique_consecutive(return_counts=True)
        first_B = sorted_B.cumsum(0) - sorted_B
        within_N = torch.arange(int(sorted_B.sum())) - first_B.repeat_interleave(sorted_B)
        places_N = (order_B * positions).repeat_interleave(sorted_B) + within_N
        return cls(places_N, Groups(zip(counts.tolist(), sizes.tolist()), order_B, positions))

    def pack(self, x_BTW: Tensor) -> Tensor:
        """[N, W]: the real tokens alone."""
        return x_BTW.flatten(0, 1).index_select(0, self.places)

    def unpack(self, x_NW: Tensor, rows: int, positions: int) -> Tensor:
        """[B, T, W]: each token in its place, zeros where there is padding."""
        padded = x_NW.new_zeros(rows * positions, x_NW.shape[1])
        return padded.index_copy(0, self.places, x_NW).unflatten(0, (rows, positions))
