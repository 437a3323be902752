"""A decoder-only model behind prompts of any lengths.  Shapes:  R rows  N prompts  K copies of each  V vocabulary"""

from collections.abc import Callable
from typing import ClassVar
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from manyheads.generate.steps import Steps
from manyheads.nn.attention import MultiHeadAttention
from manyheads.nn.cache import Cache
from manyheads.ops.attention import sdpa
from manyheads.ops.linear import SameWeights

CAPACITY_STEP = 256  # positions: on a GPU, capacities are multiples of it, so that recorded steps serve again


class PromptSteps(Steps):
    """Steps behind prompts, through the key-value cache; the rows are each prompt `copies` times.

    Prompts are padded behind their ends for one pass through the model; the cache is then cut where each ends. A row
    that has filled the model's context goes on from the newer half of it, whatever the other rows do.
    """

    def __init__(self, model, prompts: list[list[int]], capacity: int, copies: int = 1):
        self.model, self.context = model, model.config.context
        self.device = next(model.parameters()).device
        self.capacity = min(capacity, self.context)
        self.history = [list(prompt) for prompt in prompts for _ in range(copies)]
        self.begins = [0] * len(self.history)
        """Where in its history each row's cache begins."""
        self.first = torch.tensor([row.pop() for row in self.history])
        self.same_weights = SameWeights()
        with self.same_weights:
            self._begin([prompt[:-1] for prompt in prompts], copies)

    def __call__(self, ids_R: Tensor) -> Tensor:
        with self.same_weights:
            self._make_room()
            for row, each in zip(self.history, ids_R.tolist(), strict=True):
                row.append(each)
            return self._step(ids_R)

    def select(self, beams_NK: Tensor | None, sentences: Tensor | None) -> None:
        rows = torch.arange(len(self.history))
        if beams_NK is not None:
            rows = rows.view(beams_NK.shape).gather(1, beams_NK.cpu())
        rows = (rows if sentences is None else rows[sentences.cpu()]).flatten()
        self.history = [list(self.history[row]) for row in rows.tolist()]
        self.begins = [self.begins[row] for row in rows.tolist()]
        self._keep(rows.to(self.device))

    def finish(self, ends: list[tuple[int, int]]) -> None:
        self.cache.ends = ends

    def close(self) -> None:
        """Called when no more steps will be taken."""

    def _begin(self, prompts: list[list[int]], copies: int) -> None:
        self.cache = self._filled(prompts, copies)

    def _filled(self, rows: list[list[int]], copies: int = 1, cache: Cache | None = None) -> Cache:
        """A cache, empty when given, with these rows."""
        cache, lengths = cache or self.model.decoding_state(self.capacity), [len(row) for row in rows]
        if self.model.rows_share_length and min(lengths) < max(lengths):
            return self._filled_by_length(rows, lengths, copies, cache)
        if max(lengths):
            padded = pad_sequence([torch.tensor(row) for row in rows], batch_first=True).to(self.device)
            self.model.states(padded.long(), cache=cache)
        if min(lengths) < max(lengths):  # equally long rows need no mask
            cache.cut(lengths, self.device)
        if copies > 1:
            cache.select(None, torch.arange(len(rows), device=self.device).repeat_interleave(copies))
        return cache

    def _filled_by_length(self, rows: list[list[int]], lengths: list[int], copies: int, cache: Cache) -> Cache:
        """The same where no row may stand beside a longer one when it is read."""
        cache.cut([0] * len(rows), self.device)
        for length in sorted({*lengths}):
            places = [place for place, each in enumerate(lengths) if each == length]
            cache.put(places, self._filled([rows[place] for place in places]), [length] * len(places))
        if copies > 1:
            cache.select(None, torch.arange(len(rows), device=self.device).repeat_interleave(copies))
        return cache

    def _make_room(self) -> None:
        """Rows whose context is full begin anew with its newer half."""
        full = [row for row, ids in enumerate(self.history) if len(ids) - self.begins[row] == self.context]
        for row in full:
            self.begins[row] += self.context - self.context // 2
        if full:
            self._refill(full)

    def _refill(self, rows: list[int]) -> None:
        if self.cache.lengths is None:
            self.cache.cut([self.cache.length] * len(self.history), self.device)
        newer = [self.history[row][self.begins[row] :] for row in rows]
        self.cache.put(rows, self._filled(newer), [len(row) for row in newer])

    def _step(self, ids_R: Tensor) -> Tensor:
        return self.model(ids_R.to(self.device)[:, None], cache=self.cache)[:, -1]

    def _keep(self, rows: Tensor) -> None:
        self.cache.select(None, rows)


class Replay:
    """A step recorded as a CUDA graph, one launch for hundreds; it advances lengths in its cache as the step does."""

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


class ReplayedSteps(PromptSteps):
    """The same on a GPU: every step has the shapes of the first, so that it is recorded once and replayed.

    A recording, with the cache that it reads and writes, is kept with its model for the next prompts of its sizes. A
    step begins as soon as its ids are chosen, while they are still on their way to the CPU.
    """

    shrinks = False
    _kept: ClassVar[WeakKeyDictionary[nn.Module, tuple[Cache, Replay]]] = WeakKeyDictionary()

    def _begin(self, prompts: list[list[int]], copies: int) -> None:
        self.capacity = min(-(-self.capacity // CAPACITY_STEP) * CAPACITY_STEP, self.context)
        self.ahead, self.replay = False, None
        lengths = [len(prompt) for prompt in prompts for _ in range(copies)]
        self.replays = all(part.kernel is sdpa for part in self.model.modules() if isinstance(part, MultiHeadAttention))
        if not self.replays:
            self.cache = self._filled(prompts, copies)
            if self.cache.lengths is None:
                self.cache.cut(lengths, self.device)
            return
        kept = self._kept.pop(self.model, None)
        if kept and (kept[0].capacity, len(kept[1].ids)) == (self.capacity, len(lengths)):
            self.cache, self.replay = kept
        else:
            self.cache = self.model.decoding_state(self.capacity)
            self.cache.cut([0] * len(lengths), self.device)
        if copies == 1 and self.replay is not None:
            self.cache.clear()
            self._filled(prompts, cache=self.cache)
            if self.cache.lengths is None:
                self.cache.cut(lengths, self.device)
        else:
            self.cache.put(list(range(len(lengths))), self._filled(prompts, copies), lengths)

    def to_cpu(self, ids_R: Tensor) -> Tensor:
        full = any(len(ids) - begin == self.context for ids, begin in zip(self.history, self.begins))
        if self.replay is None or full or self.cache.length == self.capacity:
            return ids_R.cpu()
        host = torch.empty(ids_R.shape, dtype=ids_R.dtype, pin_memory=True)
        host.copy_(ids_R, non_blocking=True)
        arrived = torch.cuda.Event()
        arrived.record()
        self._step(ids_R.clamp(min=0))  # one that is undefined is refused once it has arrived
        self.ahead = True
        arrived.synchronize()
        return host

    def _step(self, ids_R: Tensor) -> Tensor:
        if not self.replays:  # whatever watches the kernels has to see each step
            return super()._step(ids_R)
        if self.replay is None:
            step = super()._step
            self.replay = Replay(step, self.cache, ids_R)
        if self.ahead:
            self.ahead = False
            return self.replay.logits
        self.cache.length += 1
        return self.replay(ids_R)

    def _keep(self, rows: Tensor) -> None:
        super()._keep(rows)
        self.replay = None  # it writes to the tensors that were there before

    def close(self) -> None:
        if self.replay is not None:
            self._kept[self.model] = self.cache, self.replay


def prompt_steps(model, prompts: list[list[int]], capacity: int, copies: int = 1) -> PromptSteps:
    """Steps through the cache as they are quickest where the model is; beams, which move rows, are not replayed."""
    # Where all depends on the longest row, which each step lengthens, no step is like another; and what is recorded
    # reads its state where it lay, where a key-value cache alone stays.
    replayed = next(model.parameters()).device.type == "cuda" and not model.rows_share_length
    replayed = replayed and isinstance(model.decoding_state(capacity), Cache)
    kind = ReplayedSteps if replayed else PromptSteps
    return kind(model, prompts, capacity, copies)


class WholePromptSteps(PromptSteps):
    """Every row alone and from its beginning at each step, without a cache: what the cache is checked against."""

    def _begin(self, prompts: list[list[int]], copies: int) -> None:
        self.cache = Cache(0)  # which stays empty

    def _refill(self, rows: list[int]) -> None:
        pass

    def _step(self, ids_R: Tensor) -> Tensor:
        rows = [row[begin:] for row, begin in zip(self.history, self.begins)]
        return torch.stack([self.model(torch.tensor([row], device=self.device))[0, -1] for row in rows])
