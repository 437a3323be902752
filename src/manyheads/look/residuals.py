"""The residual stream: each token's state before the first block and behind each, and what it would already say.

Shapes:  L layers  B batch  T positions  W width  V vocabulary
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from inspect import signature
from typing import Any

import torch
from torch import Tensor, nn

from manyheads.core.errors import ConfigError
from manyheads.nn.parts import attention_kind


@contextmanager
def recorded_residuals(model: nn.Module) -> Iterator[dict[str, list[Tensor]]]:
    """Fills a table of each stack's states: [B, T, W] before its first block, then behind each.

    A translator has the stacks "encoder" and "decoder", other models have "self". A call replaces what was recorded,
    unless it goes on with the same cache: then its positions are added to those of the calls before. What a GPU replays
    (`generate.prompts`) runs no module, so that it is not seen.
    """
    table: dict[str, list[Tensor]] = {}
    with ExitStack() as hooks:
        for name, part in model.named_modules():
            if isinstance(blocks := getattr(part, "blocks", None), nn.ModuleList):
                recorder = _Recorder(table.setdefault(attention_kind(name), []))
                hooks.callback(blocks[0].register_forward_pre_hook(recorder.begin, with_kwargs=True).remove)
                for number, block in enumerate(blocks, start=1):
                    hooks.callback(block.register_forward_hook(partial(recorder.behind, number)).remove)
        if not table:
            raise ConfigError(f"{type(model).__name__} has no blocks between which states could be recorded")
        yield table


class _Recorder:
    """What goes through one stack of blocks."""

    def __init__(self, states: list[Tensor]):
        self.states = states
        self.cache: Any = None
        self.start = 0
        """Positions that were in the cache before the first that is recorded."""
        self.kept = 0
        """Positions recorded before the call that is running."""

    def begin(self, block: nn.Module, arguments: tuple, named: dict[str, Any]) -> None:
        """Before the first block: whether this call goes on from the last, and the state it begins with."""
        given = signature(block.forward).bind(*arguments, **named).arguments
        state: Tensor = next(iter(given.values()))
        if given.get("groups") is not None:
            raise ConfigError(
                "states cannot be recorded while padding is taken out of a batch; record one text at a time, unpadded"
            )
        cache = given.get("cache")
        # A cache that was emptied begins anew; one that was cut goes on from where it ends now.
        if cache is not None and cache is self.cache and cache.length > self.start:
            self.kept = cache.length - self.start
            # Positions can only be added to rows that are where they were and as long as each other.
            rows = len(state)
            if cache.beams > 1 or rows != len(self.states[0]) or (rows > 1 and cache.lengths is not None):
                raise ConfigError(
                    "the states of beams and of texts that differ in length cannot be joined step by step; "
                    "record one text at a time, or a call with the finished texts"
                )
        else:
            self.states.clear()
            self.cache, self.start, self.kept = cache, cache.length if cache is not None else 0, 0
        self.behind(0, block, arguments, state)

    def behind(self, number: int, block: nn.Module, arguments: tuple, state: Tensor) -> None:
        """Keeps the state behind so many blocks."""
        state = state.detach()
        if self.kept:
            state = torch.cat([self.states[number][:, : self.kept], state], dim=1)
        self.states[number : number + 1] = [state]


def reader(model: nn.Module) -> Callable[[Tensor], Tensor] | None:
    """How a model turns the last state of its last stack into logits of words; none where it predicts no words."""
    logits: Any = getattr(model, "logits", None)  # a masked language model's own way
    output: Any = getattr(model, "output", None)
    norm: Any = getattr(getattr(model, "decoder", model), "norm", None)
    if logits is None and output is not None and norm is not None:
        return lambda state: output(norm(state))
    return logits


@torch.no_grad()
def lens(states: list[Tensor], read: Callable[[Tensor], Tensor], count: int) -> tuple[Tensor, Tensor]:
    """The logit lens (nostalgebraist 2020): the likeliest ids and their probabilities, were each state the last.

    Both are [L + 1, T, count], of the first row of a batch, the likeliest first.
    """
    _refuse_none(states)
    found = []
    for state in states:  # one at a time, since [T, V] may be all that fits
        likely = read(state[:1])[0].float().softmax(dim=-1)
        if not 1 <= count <= likely.shape[-1]:
            raise ConfigError(f"{count} of {likely.shape[-1]} tokens were asked for; ask for 1 to {likely.shape[-1]}")
        found.append(likely.topk(count, dim=-1))
    return torch.stack([best.indices for best in found]), torch.stack([best.values for best in found])


def residual_norms(states: list[Tensor]) -> Tensor:
    """[L + 1, T]: the length of each token's vector, of the first row of a batch."""
    _refuse_none(states)
    return torch.stack([state[0].float().norm(dim=-1) for state in states])


def _refuse_none(states: list[Tensor]) -> None:
    if not states:
        raise ConfigError("no states were recorded; call the model while recorded_residuals is open")
