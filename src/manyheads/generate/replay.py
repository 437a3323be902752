"""A decoding step as a CUDA graph: one launch in place of the hundreds that it consists of."""

from collections.abc import Callable

import torch
from torch import Tensor

from manyheads.nn.cache import Cache


class Replay:
    """A step that was recorded once; it advances the lengths in its cache, as the step itself does."""

    def __init__(self, step: Callable[[Tensor], Tensor], cache: Cache, ids_R: Tensor):
        """Recording needs runs before it, which advance the cache: its lengths are put back afterwards, and what was
        written behind them is overwritten."""
        assert cache.lengths is not None
        self.ids = ids_R.to(cache.lengths.device, copy=True)
        length, lengths = cache.length, cache.lengths.clone()

        def put_back() -> None:
            cache.length = length
            cache.lengths.copy_(lengths)  # type: ignore
            cache.next_step()

        aside = torch.cuda.Stream()
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):
            for _ in range(2):
                step(self.ids)
                put_back()
        torch.cuda.current_stream().wait_stream(aside)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.logits = step(self.ids)
        put_back()

    def __call__(self, ids_R: Tensor) -> Tensor:
        """The logits stay as they are until the next call."""
        self.ids.copy_(ids_R)
        self.graph.replay()
        return self.logits
