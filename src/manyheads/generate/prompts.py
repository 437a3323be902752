"""A decoder-only model behind prompts of any lengths.  Shapes:  R rows  N prompts  K copies of each  V vocabulary"""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from manyheads.nn.cache import Cache


class PromptSteps:
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
        self.first = torch.tensor([row.pop() for row in self.history], device=self.device)
        self.shrinks = self.device.type == "cpu"
        self._replay: Callable[[Tensor], Tensor] | None = None
        self._begin([prompt[:-1] for prompt in prompts], copies)

    def __call__(self, ids_R: Tensor) -> Tensor:
        self._make_room()
        ids_R = ids_R.clamp(min=0)  # where no token ends a text, rows that are done wait with something that is none
        for row, each in zip(self.history, ids_R.tolist(), strict=True):
            row.append(each)
        return self._step(ids_R)

    def select(self, beams_NK: Tensor | None, sentences: Tensor | None) -> None:
        rows = torch.arange(len(self.history), device=self.device)
        if beams_NK is not None:
            count, copies = beams_NK.shape
            rows = rows.view(count, copies).gather(1, beams_NK)
            rows = (rows if sentences is None else rows[sentences]).flatten()
        elif sentences is not None:
            rows = rows[sentences]
        self.history = [list(self.history[row]) for row in rows.tolist()]
        self.begins = [self.begins[row] for row in rows.tolist()]
        self._keep(rows)

    def _begin(self, prompts: list[list[int]], copies: int) -> None:
        self.cache = self._filled(prompts)
        if copies > 1:
            self.cache.select(None, torch.arange(len(prompts), device=self.device).repeat_interleave(copies))

    def _filled(self, rows: list[list[int]]) -> Cache:
        cache, lengths = Cache(self.capacity), [len(row) for row in rows]
        if max(lengths):
            padded = pad_sequence([torch.tensor(row) for row in rows], batch_first=True).to(self.device)
            self.model.states(padded.long(), cache=cache)
        # Equally long rows need no mask; on a GPU every step has to look the same.
        if min(lengths) < max(lengths) or self.device.type != "cpu":
            cache.cut(lengths, self.device)
        return cache

    def _make_room(self) -> None:
        """Rows whose context is full begin anew with its newer half."""
        full = [
            row for row, ids in enumerate(self.history) if len(ids) - self.begins[row] == self.context > 1
        ]
        if not full:
            return
        for row in full:
            self.begins[row] += self.context - self.context // 2
        self._refill(full)

    def _refill(self, rows: list[int]) -> None:
        if self.cache.lengths is None:
            self.cache.cut([self.cache.length] * len(self.history), self.device)
        newer = [self.history[row][self.begins[row] :] for row in rows]
        self.cache.put(rows, self._filled(newer), [len(row) for row in newer])

    def _step(self, ids_R: Tensor) -> Tensor:
        if self.device.type == "cuda":
            if self._replay is None:
                self._replay = recorded(lambda ids: self.model(ids[:, None], cache=self.cache)[:, -1], self.cache, ids_R)
            self.cache.length += 1
            return self._replay(ids_R)
        return self.model(ids_R[:, None], cache=self.cache)[:, -1]

    def _keep(self, rows: Tensor) -> None:
        self.cache.select(None, rows)
        self._replay = None  # it writes to the tensors that were there before


class WholePromptSteps(PromptSteps):
    """Every row alone and from its beginning at each step, without a cache: what the cache is checked against."""

    def _begin(self, prompts: list[list[int]], copies: int) -> None:
        self.shrinks = True

    def _refill(self, rows: list[int]) -> None:
        pass

    def _step(self, ids_R: Tensor) -> Tensor:
        rows = [row[begin:] for row, begin in zip(self.history, self.begins)]
        return torch.stack([self.model(torch.tensor([row], device=self.device))[0, -1] for row in rows])

    def _keep(self, rows: Tensor) -> None:
        pass


def recorded(step: Callable[[Tensor], Tensor], cache: Cache, ids_R: Tensor) -> Callable[[Tensor], Tensor]:
    """The step as a CUDA graph: one launch in place of the hundreds that it consists of.

    Recording needs runs before it, which advance the cache: its lengths are put back, and what was written behind them
    is overwritten.
    """
    assert cache.lengths is not None
    length, lengths = cache.length, cache.lengths.clone()

    def put_back() -> None:
        cache.length = length
        cache.lengths.copy_(lengths)  # type: ignore
        cache.next_step()

    given = ids_R.clone()
    aside = torch.cuda.Stream()
    aside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(aside):
        for _ in range(2):
            step(given)
            put_back()
    torch.cuda.current_stream().wait_stream(aside)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        logits = step(given)
    put_back()

    def replay(ids: Tensor) -> Tensor:
        given.copy_(ids)
        graph.replay()
        return logits.clone()

    return replay
