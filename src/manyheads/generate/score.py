"""What a model makes of a text that is already there.  Shapes:  B batch  T positions  M predictions  V vocabulary"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import torch
from torch.nn.utils.rnn import pad_sequence

from manyheads.core.grouping import grouped

BATCH_TOKENS = 8192  # tokens of a batch, padding included
LOGITS_AT_ONCE = 1024  # positions, so that a large vocabulary needs no large memory


@dataclass(frozen=True)
class Scored:
    """A continuation's log-probability, how many tokens it has, and whether greedy search would have written it."""

    total: float
    tokens: int
    greedy: bool


def log_probabilities(
    model, rows: Sequence[tuple[list[int], list[int]]], *, on_progress: Callable[[int], object] | None = None
) -> list[Scored]:
    """Each continuation's log-probability behind its beginning, in order; long beginnings lose their oldest tokens.

    A row's first token needs something before it: a beginning has at least one token.
    """
    context = model.config.context
    for begun, continuation in rows:
        if not begun or not continuation or len(continuation) > context:
            raise ValueError(
                f"{len(continuation)} tokens behind {len(begun)} cannot be scored in a context of {context}"
            )
    texts = [((begun + continuation)[-context - 1 :], len(continuation)) for begun, continuation in rows]
    found: list[Scored | None] = [None] * len(rows)
    done = 0
    with torch.inference_mode():
        for places in _batches([len(text) for text, _ in texts], model.rows_share_length):
            for place, scored in zip(places, _scored(model, [texts[place] for place in places]), strict=True):
                found[place] = scored
            done += len(places)
            if on_progress:
                on_progress(done)
    return [scored for scored in found if scored is not None]


def _batches(lengths: list[int], alike: bool) -> Iterator[list[int]]:
    """Places of rows that are scored together; where rows depend on the longest beside them, only those as long."""
    for places in grouped(lengths, BATCH_TOKENS, longest_first=True):
        yield from (list(each) for _, each in groupby(places, key=lambda place: lengths[place] if alike else 0))


def _scored(model, texts: list[tuple[list[int], int]]) -> list[Scored]:
    device = next(model.parameters()).device
    inputs_BT = pad_sequence([torch.tensor(ids[:-1]) for ids, _ in texts], batch_first=True).to(device)
    states = model.states(inputs_BT)
    # Only the states that predict a continuation meet the vocabulary.
    kept = torch.cat([states[row, len(ids) - 1 - count : len(ids) - 1] for row, (ids, count) in enumerate(texts)])
    targets_M = torch.cat([torch.tensor(ids[-count:]) for ids, count in texts]).to(device)
    values, best = [], []
    for states_MW, targets in zip(kept.split(LOGITS_AT_ONCE), targets_M.split(LOGITS_AT_ONCE)):
        logits_MV = model.output(states_MW).float()
        values.append(logits_MV.log_softmax(dim=1).gather(1, targets[:, None]).squeeze(1))
        best.append(logits_MV.argmax(dim=1) == targets)
    counts = [count for _, count in texts]
    return [
        Scored(float(value.double().sum()), count, bool(right.all()))
        for value, right, count in zip(torch.cat(values).split(counts), torch.cat(best).split(counts), counts)
    ]


def windows(ids: list[int], begun: list[int], context: int, stride: int) -> list[tuple[list[int], list[int]]]:
    """A text in windows of `context` tokens, each `stride` further: every token is predicted once, and behind the first
    window from at least `context - stride` tokens before it."""
    text = begun + ids
    rows, done = [], len(begun)
    end = min(context + 1 if done <= context else done + stride, len(text))
    while done < len(text):
        rows.append((text[max(end - context - 1, 0) : done], text[done:end]))
        done, end = end, min(end + stride, len(text))
    return rows
