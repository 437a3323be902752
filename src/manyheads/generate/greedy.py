"""One token after the other, and the simplest way to choose it.  Shapes:  N rows  V vocabulary"""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from manyheads.generate.steps import DONE, Hypothesis, SpecialIds, Steps, refuse_undefined
from manyheads.ops.sampling import UNDEFINED, best_allowed, defined


def decoded(
    steps: Steps, limits_N: Tensor, special: SpecialIds, choose: Callable[[Tensor, Tensor], Tensor]
) -> Iterator[tuple[Tensor, Tensor]]:
    """At each step the rows in the batch and the newest id of each, `DONE` for those that are done.

    `choose` takes logits [n, V] and the numbers of their rows, [n]. A row is done behind its end or at its limit;
    whoever reads along may lower a limit to end a row sooner. All but the logits is on the CPU, wherever the model is.
    """
    alive = torch.arange(len(limits_N))
    running = torch.ones_like(alive, dtype=torch.bool)
    newest = steps.first
    ends = [(0, 0)] * len(limits_N)
    for step in range(int(limits_N.max())):
        newest = torch.where(running, steps.to_cpu(choose(steps(newest.clamp(min=0)), alive)), DONE)
        refuse_undefined(newest == UNDEFINED)
        yield alive, newest
        before, running = running, running & ~special.ended(newest) & (limits_N[alive] > step + 1)
        for place in (before & ~running).nonzero().flatten().tolist():
            ends[int(alive[place])] = place, step
        left = int(running.sum())
        if left == 0:
            steps.finish([(place, step - last) for place, last in ends])
            return
        # Rows that are done leave once they are a quarter: each leaving copies the cache of those who stay.
        if left <= 0.75 * len(alive) and steps.shrinks:
            rows = running.nonzero().squeeze(1)
            steps.select(None, rows)
            alive, newest, running = alive[rows], newest[rows], running[rows]


def greedy(steps: Steps, limits_N: Tensor, special: SpecialIds, *, scored: bool = True) -> list[Hypothesis]:
    """The most likely token, each time: one hypothesis a row, of at most `limits_N` tokens with the end.

    Its score is the sum of log-probabilities. The best token is the best logit: without scores, which are then zero, no
    softmax is computed.
    """
    scores = torch.zeros(len(limits_N))
    done = torch.zeros_like(scores, dtype=torch.bool)

    def best(logits: Tensor, rows: Tensor) -> Tensor:
        logits = logits.log_softmax(dim=1, dtype=torch.float32) if scored else logits
        values, ids = best_allowed(logits, 1, special.banned)
        if scored:
            scores[rows] += torch.where(done[rows], 0.0, values[:, 0].cpu())
        return defined(ids[:, 0], values[:, 0])

    ids = torch.full((len(limits_N), int(limits_N.max())), DONE)
    for step, (rows, newest) in enumerate(decoded(steps, limits_N, special, best)):
        ids[rows, step] = newest
        done[rows] |= special.ended(newest) | (limits_N[rows] <= step + 1)
    lengths = special.lengths(ids).tolist()
    return [Hypothesis(row[:length], score) for row, length, score in zip(ids.tolist(), lengths, scores.tolist())]
