"""Multi-head attention.  Shapes:  B batch  T positions  S memory positions  W width  H heads  D head width"""

from collections.abc import Collection
from typing import Any

import torch
from torch import Tensor, nn

from manyheads.core.configs import refuse_uneven_heads
from manyheads.core.errors import ConfigError
from manyheads.nn.cache import Cache
from manyheads.nn.layers import Linear
from manyheads.nn.positions import Positions
from manyheads.ops.attention import Kernel, sdpa


class MultiHeadAttention(nn.Module):
    """Concat(head_1 … head_h) Wᴼ, head_i = Attention(x W_iQ, y W_iK, y W_iV): section 3.2.2 of Vaswani et al. (2017).

    y is x itself (self-attention) or `memory` (cross-attention). The three projections are one matrix, so that
    self-attention multiplies once. With fewer `key_value_heads` than `heads`, several queries share a key and a value
    (Ainslie et al. 2023). `kernel` is any function of the signature of `ops.attention.reference`.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        *,
        key_value_heads: int | None = None,
        key_width: int | None = None,
        value_width: int | None = None,
        bias: bool = True,
        dropout: float = 0.0,
        causal: bool = False,
        positions: Positions | None = None,
        kernel: Kernel = sdpa,
    ):
        super().__init__()
        self.heads = heads
        self.key_value_heads = key_value_heads or heads
        if heads % self.key_value_heads:
            raise ConfigError(f"{heads} heads do not share {self.key_value_heads} keys and values evenly")
        if key_width is None:
            refuse_uneven_heads(width, heads)
        self.key_width = key_width or width // heads
        self.value_width = value_width or self.key_width
        self.parts = (
            heads * self.key_width,
            self.key_value_heads * self.key_width,
            self.key_value_heads * self.value_width,
        )
        self.projection = Linear(width, sum(self.parts), bias=bias)
        self.output = Linear(heads * self.value_width, width, bias=bias)
        self.dropout = dropout
        self.causal = causal
        self.positions = positions or Positions()
        self.kernel = kernel
        self.numbers = list(range(heads))
        """What the heads are called: their place among those there were before any was removed."""
        self.removed: list[int] = []

    def forward(
        self,
        x: Tensor,
        memory: Tensor | None = None,
        *,
        mask: Tensor | None = None,
        cache: Cache | None = None,
        groups: list[tuple[int, int]] | None = None,
    ) -> Tensor:
        """[B, T, W] in and out; `memory` may have fewer rows than x when several rows (beams) share one.

        With `groups`, x is [1, N, W]: rows of different lengths end to end (`ops.packing`), each looking at itself.
        """
        if groups is not None:
            return self.output(self._within_groups(self.projection(x)[0], groups)[None])
        if memory is None:
            found = self._attended(*self._own_keys(self.projection(x), mask, cache))
        else:
            found = self._attended(*self._memory_keys(x, memory, mask, cache))
        # Beams that were queries of one sentence are rows again.
        return self.output(found.reshape(x.shape[0], x.shape[1], self.heads * self.value_width))

    def _attended(self, q: Tensor, k: Tensor, v: Tensor, options: dict[str, Any]) -> Tensor:
        """What the heads find, side by side."""
        out = self.kernel(q, k, v, dropout=self.dropout if self.training else 0.0, **options)
        return out.transpose(1, 2).flatten(2)

    def _within_groups(self, projected: Tensor, groups: list[tuple[int, int]]) -> Tensor:
        """[N, W] of queries, keys and values of rows end to end: those of the same length at once."""
        parts = projected.split([count * length for count, length in groups])
        found = [
            self._attended(*self._own_keys(part.unflatten(0, group), None, None)).flatten(0, 1)
            for part, group in zip(parts, groups)
        ]
        return torch.cat(found)

    def _own_keys(self, projected: Tensor, mask: Tensor | None, cache: Cache | None):
        q, k, v = projected.split(self.parts, dim=-1)
        q, k, v = self._by_heads(q, self.heads), self._by_heads(k), self._by_heads(v)
        tokens = projected.shape[1]
        start, length = (cache.start, cache.reach(tokens)) if cache else (0, tokens)
        q = self.positions.rotate(q, start, length)
        bias = self._bias(q, length, start)
        if not cache or not self.positions.turns_late:
            k = self.positions.rotate(k, start, length)
        if cache:
            k, v = cache.extend(self, k, v)
            if self.positions.turns_late:
                k = self._turned_late(k, length, cache.beams)
            if mask is not None and (cache.beams > 1 or cache.lengths is not None):
                raise ValueError(
                    "beams and rows of different lengths have a mask of their own; another cannot be given"
                )
            if cache.beams > 1:
                q, bias = self._with_beams(q, bias, cache.beams)
                return q, k, v, {"mask": cache.beam_mask(q.shape[0], q.device), "bias": bias, "causal": False}
            if cache.lengths is not None:
                return q, k, v, {"mask": cache.row_mask(tokens), "bias": bias, "causal": False}
        return q, k, v, {"mask": mask, "bias": bias, "causal": self.causal}

    def _memory_keys(self, x: Tensor, memory: Tensor, mask: Tensor | None, cache: Cache | None):
        queries, end = self.parts[0], sum(self.parts)

        def keys_and_values():
            k, v = self.projection(memory, rows=(queries, end)).split(self.parts[1:], dim=-1)
            k, v = self._by_heads(k), self._by_heads(v)
            # What is looked at step after step is laid out for it once.
            return (k.contiguous(), v.contiguous()) if cache else (k, v)

        k, v = cache.remember(self, keys_and_values) if cache else keys_and_values()
        q = self.projection(x, rows=(0, queries))
        # Rows that share a memory become more queries of it: nothing is copied.
        q = self._by_heads(q.reshape(memory.shape[0], -1, queries), self.heads)
        return q, k, v, {"mask": mask, "bias": None, "causal": False}

    def _bias(self, q: Tensor, length: int, start: int | Tensor) -> Tensor | None:
        """What the positions add to the scores; they know of all heads, also of those that were removed."""
        if not self.removed:
            return self.positions.bias(q, length, start)
        every = q.new_zeros(q.shape[0], len(self.numbers) + len(self.removed), *q.shape[2:])
        every[:, self.numbers] = q
        bias = self.positions.bias(every, length, start)
        return None if bias is None else bias[:, self.numbers]

    def remove(self, heads: Collection[int]) -> None:
        """Takes heads out for good, with the keys and values that no other head reads: smaller matrices, fewer sums."""
        kept = [place for place, number in enumerate(self.numbers) if number not in heads]
        shared = self.heads // self.key_value_heads
        groups = sorted({place // shared for place in kept})
        if not kept:
            raise ConfigError(f"all {self.heads} heads of an attention would be removed; leave it at least one")
        if len(kept) != len(groups) * shared:
            raise ConfigError(f"heads share a key by {shared}, in their order; remove those that share one together")
        q, k, v = torch.arange(sum(self.parts)).split(self.parts)
        q, k = q.view(-1, self.key_width)[kept], k.view(-1, self.key_width)[groups]
        v = v.view(-1, self.value_width)[groups]
        self.projection = self.projection.part(rows=torch.cat([q.flatten(), k.flatten(), v.flatten()]).tolist())
        columns = torch.arange(self.heads * self.value_width).view(-1, self.value_width)[kept]
        self.output = self.output.part(columns=columns.flatten().tolist())
        self.heads, self.key_value_heads = len(kept), len(groups)
        self.parts = (len(kept) * self.key_width, len(groups) * self.key_width, len(groups) * self.value_width)
        self.removed = sorted([*self.removed, *(number for number in self.numbers if number in heads)])
        self.numbers = [self.numbers[place] for place in kept]

    def _with_beams(self, q: Tensor, bias: Tensor | None, beams: int) -> tuple[Tensor, Tensor | None]:
        """One new position of each beam, [N · K, H, 1, D], as K queries of its sentence, and the bias to match."""
        if q.shape[2] != 1:
            raise ValueError(f"beams advance one position at a time, not {q.shape[2]}")
        q = q.squeeze(2).unflatten(0, (-1, beams)).transpose(1, 2)
        if bias is None:
            return q, None
        if bias.shape[0] > 1:
            bias = bias.squeeze(2).unflatten(0, (-1, beams)).transpose(1, 2)
        return q, bias.repeat_interleave(beams, dim=-1)

    def _turned_late(self, k: Tensor, length: int, beams: int) -> Tensor:
        """Keys cached unturned, [N, H, T · K, D], turned to their places, each beam's for itself."""
        k = k.unflatten(2, (length, beams)).transpose(2, 3).flatten(1, 2)
        k = self.positions.rotate(k, 0, length)
        return k.unflatten(1, (-1, beams)).transpose(2, 3).flatten(2, 3)

    def _by_heads(self, x: Tensor, heads: int | None = None) -> Tensor:
        return x.unflatten(-1, (heads or self.key_value_heads, -1)).transpose(1, 2)
