"""Attention weights while the fast kernel runs.  Shapes:  B batch  H heads  Q query positions  K key positions"""

from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from html import escape
from typing import Any
from weakref import WeakSet

import torch
from torch import Tensor, nn

from manyheads.core.errors import ConfigError
from manyheads.core.log import warn
from manyheads.look.heads import attentions, of_heads, refuse_unknown
from manyheads.look.joining import Joined
from manyheads.look.stand_ins import stand_ins, standing_in
from manyheads.nn.cache import Cache
from manyheads.nn.parts import Part
from manyheads.ops.attention import Kernel, attention_weights

GROSS = 0.1  # of the largest number found: a difference that no rounding explains


@contextmanager
def recorded_attention(
    model: nn.Module, *, layers: Collection[int] | None = None, heads: Collection[int] | None = None
) -> Iterator["Recording"]:
    """Fills a table, `decoder.blocks.0.cross_attention` to [B, H, Q, K], with the weights of the last call of each.

    The output still comes from each attention's own kernel, bit for bit; the weights are computed beside it, for the
    `layers` and `heads` asked for alone, counted from 0. Steps through a cache are joined into one matrix: a row for
    each position that was computed, of each text that was found; of a beam search, the best hypothesis. Texts stand in
    the order in which the model had them, which tasks sort by length, and a second batch takes the place of the first:
    record one text at a time to know which is which. Only what this thread calls is recorded, and kernels are put back
    as they were when the block ends.
    """
    parts = attentions(model)
    refuse_unknown(parts, layers, heads)
    chosen = [part for part in parts if layers is None or part.layer in layers]
    recording = Recording(chosen, None if heads is None else sorted({*heads}))
    with ExitStack() as after:
        after.callback(recording.finish)  # at the very end
        makers = {part.module: partial(Watching, recording, part) for part in chosen}
        for module, watching in after.enter_context(standing_in(makers)).items():
            hook = module.register_forward_pre_hook(watching.about_to, with_kwargs=True)  # type: ignore
            after.callback(hook.remove)
        yield recording
    if recording.gross:
        warn(
            f"the kernel's output was up to {recording.largest_difference:.2g} from that of the formula: it computes "
            "something else, and the weights recorded are not those that it used"
        )


class Recording(Mapping[str, Tensor]):
    """What was recorded: the weights of each attention by its name, [B, H, Q, K] in float32."""

    def __init__(self, parts: list[Part], heads: list[int] | None):
        self.parts = {part.name: part for part in parts}
        """The attentions that were asked for."""
        self.heads = heads
        """The heads that were asked for; None: all."""
        self._calls: dict[str, Joined] = {}
        self._replaced: WeakSet[Cache] = WeakSet()
        self._difference: Tensor | None = None
        self._magnitude: Tensor | None = None

    @property
    def largest_difference(self) -> float:
        """How far the reference's output was from the kernel's where they differed most; 0 where nothing was compared.

        With dropout, which only the kernel has, nothing is compared.
        """
        return 0.0 if self._difference is None else float(self._difference)

    @property
    def gross(self) -> bool:
        """Whether the two differ by more than rounding."""
        return self._magnitude is not None and self.largest_difference > GROSS * max(1.0, float(self._magnitude))

    def finish(self) -> None:
        """Joins what is still in pieces, and lets go of the caches."""
        self._calls = {name: call for name, call in self._calls.items() if call.begun}
        for call in self._calls.values():
            call.finish()

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
        from manyheads.look.page import attention_page

        if not len(self):
            return escape(repr(self))
        sides = {self.parts[name].kind: self[name].shape[2] for name in self}
        tokens = next((length for kind, length in sides.items() if kind != "encoder"), sides.get("encoder", 0))
        numbered = [[str(place) for place in range(length)] for length in (tokens, sides.get("encoder", tokens))]
        return attention_page(self, *numbered)._repr_html_()

    def compare(self, kernel_BHQE: Tensor, reference_BHQE: Tensor) -> None:
        """Keeps the largest difference, on the device where it was found."""
        self._difference = _larger(self._difference, (kernel_BHQE.float() - reference_BHQE).abs().max())
        self._magnitude = _larger(self._magnitude, reference_BHQE.abs().max())


class Watching:
    """A kernel that gives what another gives, and keeps the weights."""

    def __init__(self, recording: Recording, part: Part, kernel: Kernel):
        self.recording, self.name, self.module = recording, part.name, part.module
        self.kernel = kernel
        self.off: list[int] = getattr(self.kernel, "off", [])
        # Of watchers that watch each other, the kernel itself is behind them all.
        self.stands_for: Kernel = getattr(self.kernel, "stands_for", self.kernel)

    def about_to(self, module: nn.Module, arguments: tuple, options: dict[str, Any]) -> None:
        """Called before its attention: what this call goes on from, and how its rows are laid out."""
        if self not in stand_ins(self.module):  # another thread's
            return
        x: Any = arguments[0] if arguments else options["x"]
        memory = arguments[1] if len(arguments) > 1 else options.get("memory")
        self._begin(x.shape[0], x.shape[1], memory is None, options.get("cache"), options.get("groups"))

    def _begin(self, rows: int, positions: int, own: bool, cache: Cache | None, groups: Any = None) -> None:
        calls, replaced = self.recording._calls, self.recording._replaced
        before = calls.get(self.name)
        if cache is None or before is None or before.cache is not cache:
            if cache is not None and cache in replaced and cache.length:
                raise ConfigError(
                    "two texts are written by turns, or one has outgrown the model's context, so that what it looks at "
                    "is not one matrix; record one text at a time, and ask for fewer tokens"
                )
            if before is not None and before.cache is not None:
                replaced.add(before.cache)
            calls.pop(self.name, None)  # so that names stand in the order in which they ran
            calls[self.name] = Joined(cache, groups, own)
        beams = cache.beams if cache is not None and own else 1
        calls[self.name].about_to(rows, positions, beams)

    def __call__(self, q: Tensor, k: Tensor, v: Tensor, *, dropout: float = 0.0, **options: Any) -> Tensor:
        out = self.kernel(q, k, v, dropout=dropout, **options)
        self._keep(q, k, v, None if dropout else out, **options)
        return out

    def found(self, q: Tensor, k: Tensor, v: Tensor, mixed: Tensor, cache: Cache) -> None:
        """The same of one position, where attention is part of a larger kernel."""
        self._begin(q.shape[0], 1, True, cache)
        self._keep(q, k, v, mixed.view_as(q), mask=cache.row_mask(1))
        if self.kernel is not self.stands_for:
            self.kernel.found(q, k, v, mixed, cache)  # type: ignore

    @torch.no_grad()
    def _keep(self, q, k, v, out: Tensor | None, *, mask=None, bias=None, causal=False, scale=None) -> None:
        asked, shared = self.recording.heads, self.module.heads // k.shape[1]
        heads = list(range(self.module.heads)) if asked is None else [self.module.numbers.index(each) for each in asked]
        if asked is not None:
            q, out = q[:, heads], None if out is None else out[:, heads]
            mask, bias = (of_heads(each, heads) for each in (mask, bias))
        if asked is not None or shared > 1:
            k, v = (each[:, [head // shared for head in heads]] for each in (k, v))
        bias = None if bias is None else bias.float()
        weights = attention_weights(q.float(), k.float(), mask=mask, bias=bias, causal=causal, scale=scale)
        # Heads that are switched off give zeros, whatever they look at.
        heard = [place for place, head in enumerate(heads) if head not in self.off]
        if out is not None and out.numel() and heard:
            expected = weights @ v.float()
            self.recording.compare(*((out[:, heard], expected[:, heard]) if self.off else (out, expected)))
        self.recording._calls[self.name].add(weights)


def _larger(known: Tensor | None, found: Tensor) -> Tensor:
    return found if known is None else torch.maximum(known.to(found.device), found)
