"""Kernels in the place of others for a while, in one thread: what the others compute stays as it was."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from threading import Lock
from types import MappingProxyType
from typing import Any

from torch import Tensor

from manyheads.nn.attention import MultiHeadAttention
from manyheads.nn.cache import Cache
from manyheads.ops.attention import Kernel

_here: ContextVar[Mapping[MultiHeadAttention, tuple[Kernel, ...]]] = ContextVar(
    "stand_ins", default=MappingProxyType({})
)
_lock = Lock()


def stand_ins(module: MultiHeadAttention) -> tuple[Kernel, ...]:
    """What stands for an attention's own kernel in this thread: each for the one before it, the last for them all."""
    return _here.get().get(module, ())


@contextmanager
def standing_in(
    makers: Mapping[MultiHeadAttention, Callable[[Kernel], Kernel]],
) -> Iterator[Mapping[MultiHeadAttention, Kernel]]:
    """Inside the block, and in this thread alone, attentions have the kernels that are made of those they had."""
    before, switches = _here.get(), [_enter(module) for module in makers]
    made = {module: make(switch.here) for (module, make), switch in zip(makers.items(), switches)}
    _here.set({**before, **{module: (*before.get(module, ()), kernel) for module, kernel in made.items()}})
    try:
        yield made
    finally:
        _here.set(before)
        for switch in switches:
            switch.leave()


class _Switch:
    """The kernel of an attention while some thread has another for it: that thread's own, or else the usual one."""

    def __init__(self, module: MultiHeadAttention):
        self.module, self.usual, self.threads = module, module.kernel, 0

    @property
    def here(self) -> Kernel:
        return (stand_ins(self.module) or (self.usual,))[-1]

    @property
    def stands_for(self) -> Kernel:
        return getattr(self.here, "stands_for", self.here)

    def __call__(self, q: Tensor, k: Tensor, v: Tensor, **options: Any) -> Tensor:
        return self.here(q, k, v, **options)

    def found(self, q: Tensor, k: Tensor, v: Tensor, mixed: Tensor, cache: Cache) -> None:
        """Told by a larger kernel what attention found in it, as `nn.fused` does."""
        if self.here is not self.usual:
            self.here.found(q, k, v, mixed, cache)  # type: ignore

    def leave(self) -> None:
        with _lock:
            self.threads -= 1
            if not self.threads:
                self.module.kernel = self.usual


def _enter(module: MultiHeadAttention) -> _Switch:
    with _lock:
        found = module.kernel
        switch = found if isinstance(found, _Switch) else _Switch(module)
        switch.threads += 1
        module.kernel = switch
    return switch
