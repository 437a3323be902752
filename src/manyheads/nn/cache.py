"""The key-value cache: what attention has already computed.

Shapes:  N sentences  K beams  H heads  T positions  D head width.  Rows are sentences times beams.
"""

from collections.abc import Callable

import torch
from torch import Tensor


class Cache:
    """Keys and values of every attention of a model, made by the caller, advanced by the model.

    `capacity` positions are set aside at once, so that a step writes in place and nothing grows. Rows are equally long
    until `cut` gives each a length of its own. The beams of a sentence share its keys: each looks at those of its own
    ancestors, so that beams change places and nothing moves.
    """

    def __init__(self, capacity: int, beams: int = 1):
        self.capacity, self.beams = capacity, beams
        self.length = 0
        """Positions of the longest row."""
        self.lengths: Tensor | None = None
        """[R] positions of each row, once they differ."""
        self._lengths: Tensor | None = None
        self._own: dict[object, tuple[Tensor, Tensor]] = {}
        self._memory: dict[object, tuple[Tensor, Tensor]] = {}
        self._ancestors_NKT: Tensor | None = None
        self.moves: list[tuple[Tensor | None, Tensor | None]] = []
        """What `select` was told, each time: from it follows which row of an earlier step a row goes on from."""
        self.ends: list[tuple[int, int]] = []
        """For each text found, the row it ended in and how many steps before the last; empty until a search is over."""
        # The same for every layer of a step, so computed by the first.
        self._mask: Tensor | None = None
        self._row_places: tuple[Tensor, Tensor] | None = None

    @property
    def start(self) -> int | Tensor:
        """The position of the next token: one for all rows, or [R]."""
        return self.length if self.lengths is None else self.lengths

    def reach(self, positions: int) -> int:
        """How many positions attention has in view when these new ones are added."""
        # On a GPU the shapes of every step are the same, so that steps can be recorded once and replayed.
        fixed = self.lengths is not None and self.lengths.device.type == "cuda"
        return self.capacity if fixed else self.length + positions

    def cut(self, lengths: list[int], device: torch.device | None = None) -> None:
        """Ends each row at a length of its own: what is behind it, padding, is overwritten by what comes next."""
        if self.beams > 1:
            raise ValueError("rows of different lengths cannot share their keys among beams")
        self.length, self.lengths = max(lengths), torch.tensor(lengths, device=device)
        if self._lengths is not None:  # what reads them by their address goes on reading them
            self.lengths = self._lengths.copy_(self.lengths)
            self._lengths = None
        self.next_step()

    def clear(self) -> None:
        """Empties a cut cache; its tensors stay where they are, and it is to be cut into as many rows again."""
        self._lengths, self.lengths, self.length = self.lengths, None, 0
        self.moves, self.ends = [], []
        self.next_step()

    def extend(self, owner: object, k_RHTD: Tensor, v_RHTD: Tensor) -> tuple[Tensor, Tensor]:
        """Adds new positions of self-attention behind those known; all so far come back, [N, H, T · K, D]."""
        end = self.length + k_RHTD.shape[2]
        if end > self.capacity:
            raise ValueError(f"{end} positions do not fit a cache of {self.capacity}")
        new = [each.unflatten(0, (-1, self.beams)).permute(0, 2, 3, 1, 4) for each in (k_RHTD, v_RHTD)]
        keys, values = self._room(owner, len(new[0]), *new)
        if self.lengths is None:
            keys[:, :, self.length : end] = new[0]
            values[:, :, self.length : end] = new[1]
        else:
            rows_R1, places_RT = self._places(k_RHTD.shape[2])
            keys[rows_R1, :, places_RT] = new[0].transpose(1, 2)
            values[rows_R1, :, places_RT] = new[1].transpose(1, 2)
            end = self.reach(k_RHTD.shape[2])
        return keys[:, :, :end].flatten(2, 3), values[:, :, :end].flatten(2, 3)

    def storage(self, owner: object, rows: int, heads: int, width: int, like: Tensor) -> tuple[Tensor, Tensor]:
        """[R, H, capacity, D] keys and values themselves, for a kernel that writes and reads them in one visit."""
        new = like.new_empty(rows, heads, 1, 1, width)
        keys, values = self._room(owner, rows, new, new)
        return keys.squeeze(3), values.squeeze(3)

    def _room(self, owner: object, rows: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """[rows, H, capacity, K, D] for keys and for values such as these."""
        if owner not in self._own:
            # Zeros, since a mask hides what was never written, but nothing hides its not being a number.
            sizes = [(rows, each.shape[1], self.capacity, *each.shape[3:]) for each in (keys, values)]
            self._own[owner] = (keys.new_zeros(sizes[0]), values.new_zeros(sizes[1]))
        return self._own[owner]

    def remember(self, owner: object, compute: Callable[[], tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
        """Keys and values of cross-attention: computed from the memory once."""
        if owner not in self._memory:
            self._memory[owner] = compute()
        return self._memory[owner]

    def advance(self, positions: int) -> None:
        """Called by the model when all its blocks have seen the new positions."""
        self.length += positions
        if self.lengths is not None:
            self.lengths += positions
        self.next_step()

    def next_step(self) -> None:
        """Forgets what holds for the layers of one step only."""
        self._mask = self._row_places = None

    def select(self, beams_NK: Tensor | None, sentences: Tensor | None) -> None:
        """Lets each beam go on from the beam named, then keeps the sentences named, in that order."""
        self.next_step()
        self.moves.append((beams_NK, sentences))
        if beams_NK is not None:
            ancestors = self._ancestors(beams_NK.shape[0], beams_NK.device)
            self._ancestors_NKT = ancestors.gather(1, beams_NK[:, :, None].expand(-1, -1, ancestors.shape[2]))
        if sentences is not None:
            if self._ancestors_NKT is not None:
                self._ancestors_NKT = self._ancestors_NKT[sentences]
            if self.lengths is not None:
                self.lengths = self.lengths[sentences]
                self.length = int(self.lengths.max())
            self._own = {owner: self._kept(known, sentences) for owner, known in self._own.items()}
            self._memory = {owner: (k[sentences], v[sentences]) for owner, (k, v) in self._memory.items()}

    def put(self, rows: list[int], other: "Cache", lengths: list[int]) -> None:
        """Gives these rows of a cut cache the contents of another cache's, with their lengths."""
        assert self.lengths is not None
        for owner, known in other._own.items():
            for mine, theirs in zip(self._room(owner, len(self.lengths), *known), known):
                # All rows at once are one copy; some of them are gathered.
                where = slice(None) if len(rows) == len(mine) else rows
                mine[where, :, : other.length] = theirs[:, :, : other.length]
        self.lengths[rows] = torch.tensor(lengths, device=self.lengths.device)
        self.length = int(self.lengths.max())
        self.next_step()

    def row_mask(self, positions: int) -> Tensor:
        """[R, 1, Q, K]: each row's new positions may look at those before them in their own row, and at themselves."""
        if self._mask is None:
            places_RQ = self._places(positions)[1]
            self._mask = (torch.arange(self.reach(positions), device=places_RQ.device) <= places_RQ[..., None])[:, None]
        return self._mask

    def _places(self, positions: int) -> tuple[Tensor, Tensor]:
        """[R, 1] rows and [R, T] positions at which the new ones are written."""
        if self._row_places is None:
            assert self.lengths is not None
            device = self.lengths.device
            rows_R1 = torch.arange(len(self.lengths), device=device)[:, None]
            self._row_places = rows_R1, self.lengths[:, None] + torch.arange(positions, device=device)
        return self._row_places

    def beam_mask(self, sentences: int, device: torch.device) -> Tensor:
        """[N, 1, K, T · K]: each beam may look at its ancestors, and at itself in the newest position."""
        if self._mask is None:
            before = self._ancestors(sentences, device)
            own = torch.arange(self.beams, device=device)
            newest = own[None, :, None].expand(sentences, -1, 1)
            self._mask = (torch.cat([before, newest], dim=2)[..., None] == own).flatten(2)[:, None]
        return self._mask

    def _ancestors(self, sentences: int, device: torch.device) -> Tensor:
        """[N, K, T]: the beam that each beam came from at each position; those since the last `select` are its own."""
        known = self._ancestors_NKT
        if known is None:
            known = torch.empty(sentences, self.beams, 0, dtype=torch.long, device=device)
        own = torch.arange(self.beams, device=device)[None, :, None]
        return torch.cat([known, own.expand(known.shape[0], -1, self.length - known.shape[2])], dim=2)

    def _kept(self, known: tuple[Tensor, Tensor], sentences: Tensor) -> tuple[Tensor, Tensor]:
        # Only the positions in use are moved; the rest is zeros, as in `extend`.
        kept = [each.new_zeros(len(sentences), *each.shape[1:]) for each in known]
        for fresh, each in zip(kept, known):
            fresh[:, :, : self.length] = each[:, :, : self.length][sentences]
        return kept[0], kept[1]
