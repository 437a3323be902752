"""Attention weights while the fast kernel runs.

Shapes:  B batch  H heads  Q query positions  K key positions  R rows of a step  N sentences of it
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from manyheads.look.joining import Joined, Steps
from manyheads.look.page import attention_page
from manyheads.look.parts import Part, attentions, kind_of, refuse_unknown
from manyheads.nn.cache import Cache
from manyheads.ops.attention import attention_weights


@contextmanager
def recorded_attention(
    model: nn.Module, *, layers: Collection[int] | None = None, heads: Collection[int] | None = None
) -> Iterator["Recording"]:
    """Fills a table, `decoder.blocks.0.cross_attention` to [B, H, Q, K], with the weights of the last call of each.

    The output still comes from each attention's own kernel, bit for bit; the weights are computed beside it, for the
    `layers` and `heads` asked for alone, counted from 0. Steps through a cache are joined into one matrix: a row for
    each position that was computed, of each text that was found, in the order in which the model had them; of a beam
    search, the best hypothesis. Kernels are put back as they were when the block ends.
    """
    parts = attentions(model)
    refuse_unknown(parts, layers, heads)
    chosen = [part for part in parts if layers is None or part.layer in layers]
    recording = Recording(None if heads is None else sorted(heads))
    kernels = [part.module.kernel for part in chosen]
    hooks = []
    try:
        for part in chosen:
            watching = Watching(recording, part)
            part.module.kernel = watching
            hooks.append(part.module.register_forward_pre_hook(watching.about_to, with_kwargs=True))
        yield recording
        recording.settle()
    finally:
        for hook in hooks:
            hook.remove()
        for part, kernel in zip(chosen, kernels):
            part.module.kernel = kernel


class Recording(Mapping[str, Tensor]):
    """What was recorded: the weights of each attention by its name, [B, H, Q, K] in float32."""

    def __init__(self, heads: list[int] | None):
        self.heads = heads
        """The heads that were asked for; None: all."""
        self._calls: dict[str, Joined] = {}
        self._difference: Tensor | None = None

    @property
    def largest_difference(self) -> float:
        """How far the reference's output was from the kernel's where they differed most; 0 where nothing was compared.

        With dropout, which only the kernel has, nothing is compared.
        """
        return 0.0 if self._difference is None else float(self._difference)

    def settle(self) -> None:
        """Joins what is still in pieces, and lets go of the caches."""
        for call in self._calls.values():
            call.settle()

    def __getitem__(self, name: str) -> Tensor:
        return self._calls[name].weights

    def __iter__(self) -> Iterator[str]:
        return iter(self._calls)

    def __len__(self) -> int:
        return len(self._calls)

    def __repr__(self) -> str:
        shapes = ", ".join(f"{name}: {list(self[name].shape)}" for name in self)
        return f"Recording({shapes}; largest difference {self.largest_difference:.1e})"

    def _repr_html_(self) -> str:
        """The page, with numbers for tokens: what they are, only the caller knows."""
        sides = {kind_of(name): self[name].shape[2] for name in self}
        tokens = next((length for kind, length in sides.items() if kind != "encoder"), sides.get("encoder", 0))
        numbered = [[str(place) for place in range(length)] for length in (tokens, sides.get("encoder", tokens))]
        return attention_page(self, *numbered)._repr_html_()

    def compare(self, kernel_BHQE: Tensor, reference_BHQE: Tensor) -> None:
        """Keeps the largest difference, on the device where it was found."""
        found = (kernel_BHQE.float() - reference_BHQE).abs().max()
        known = self._difference
        self._difference = found if known is None else torch.maximum(known.to(found.device), found)


class Watching:
    """A kernel that gives what another gives, and keeps the weights."""

    def __init__(self, recording: Recording, part: Part):
        self.recording, self.name, self.module = recording, part.name, part.module
        self.watched: Callable[..., Tensor] = part.module.kernel
        self.rows, self.positions = 0, 0

    def about_to(self, module: nn.Module, arguments: tuple, options: dict[str, Any]) -> None:
        """Called before its attention: what this call goes on from, and how its rows are laid out."""
        x = arguments[0]
        own = len(arguments) < 2 and options.get("memory") is None
        self._begin(x.shape[0], x.shape[1], own, options.get("cache"), options.get("groups"))

    def _begin(self, rows: int, positions: int, own: bool, cache: Cache | None, groups: Any = None) -> None:
        calls = self.recording._calls
        if cache is None or self.name not in calls or calls[self.name].cache is not cache:
            calls.pop(self.name, None)  # so that names stand in the order in which they ran
            calls[self.name] = Joined(cache, groups, own)
        beams = cache.beams if cache is not None and own else 1
        calls[self.name].about_to(Steps(rows, positions, beams))

    def __call__(self, q: Tensor, k: Tensor, v: Tensor, *, dropout: float = 0.0, **options: Any) -> Tensor:
        out = self.watched(q, k, v, dropout=dropout, **options)
        self._keep(q, k, v, None if dropout else out, **options)
        return out

    def watch_step(self, q: Tensor, k: Tensor, v: Tensor, mixed: Tensor, cache: Cache) -> None:
        """The same of one position, where attention is part of a larger kernel."""
        self._begin(q.shape[0], 1, True, cache)
        self._keep(q, k, v, mixed.view_as(q), mask=cache.row_mask(1), bias=None, causal=False)

    @torch.no_grad()
    def _keep(self, q, k, v, out: Tensor | None, *, mask, bias, causal) -> None:
        q, k, v = q.float(), k.float(), v.float()
        if self.recording.heads is not None:
            heads = [self.module.numbers.index(number) for number in self.recording.heads]
            shared = [head // (self.module.heads // k.shape[1]) for head in heads]
            q, k, v = q[:, heads], k[:, shared], v[:, shared]
            out = None if out is None else out[:, heads]
            mask, bias = (each if each is None or each.shape[1] == 1 else each[:, heads] for each in (mask, bias))
        elif k.shape[1] != q.shape[1]:
            k, v = (each.repeat_interleave(q.shape[1] // k.shape[1], dim=1) for each in (k, v))
        weights = attention_weights(q, k, mask=mask, bias=None if bias is None else bias.float(), causal=causal)
        if out is not None and out.numel():
            self.recording.compare(out, weights @ v)
        self.recording._calls[self.name].add(weights)
