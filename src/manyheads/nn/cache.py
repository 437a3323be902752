"""The key-value cache: what attention has already computed.  Shapes:  B rows  H heads  T positions  D head width"""

from collections.abc import Callable

from torch import Tensor


class Cache:
    """Keys and values of every attention of a model, made by the caller, advanced by the model.

    `capacity` positions are set aside at once, so that a step writes in place and nothing grows.
    """

    def __init__(self, capacity: int):
        self.capacity = capacity
        self.length = 0
        self._own: dict[object, tuple[Tensor, Tensor]] = {}
        self._memory: dict[object, tuple[Tensor, Tensor]] = {}

    def extend(self, owner: object, k_BHTD: Tensor, v_BHTD: Tensor) -> tuple[Tensor, Tensor]:
        """Adds new positions of self-attention behind those known; all of them so far come back."""
        end = self.length + k_BHTD.shape[2]
        if end > self.capacity:
            raise ValueError(f"{end} positions do not fit a cache of {self.capacity}")
        if owner not in self._own:
            self._own[owner] = tuple(  # type: ignore
                new.new_empty(new.shape[0], new.shape[1], self.capacity, new.shape[3]) for new in (k_BHTD, v_BHTD)
            )
        for known, new in zip(self._own[owner], (k_BHTD, v_BHTD)):
            known[:, :, self.length : end] = new
        keys, values = self._own[owner]
        return keys[:, :, :end], values[:, :, :end]

    def remember(self, owner: object, compute: Callable[[], tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
        """Keys and values of cross-attention: computed from the memory once."""
        if owner not in self._memory:
            self._memory[owner] = compute()
        return self._memory[owner]

    def advance(self, positions: int) -> None:
        """Called by the model when all its blocks have seen the new positions."""
        self.length += positions

    def select(self, rows: Tensor, memory_rows: Tensor | None = None) -> None:
        """Keeps these rows, in this order; beams share their sentence's memory, so that it has rows of its own."""
        self._own = {owner: self._gathered(known, rows) for owner, known in self._own.items()}
        if memory_rows is not None:
            self._memory = {
                owner: (keys[memory_rows], values[memory_rows]) for owner, (keys, values) in self._memory.items()
            }

    def _gathered(self, known: tuple[Tensor, Tensor], rows: Tensor) -> tuple[Tensor, Tensor]:
        # Only the positions in use are moved.
        moved = []
        for tensor in known:
            fresh = tensor.new_empty(len(rows), *tensor.shape[1:])
            fresh[:, :, : self.length] = tensor[:, :, : self.length][rows]
            moved.append(fresh)
        return moved[0], moved[1]
