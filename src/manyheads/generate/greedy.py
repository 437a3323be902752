"""Greedy search: the most likely token, each time.  Shapes:  N rows  V vocabulary"""

import torch
from torch import Tensor

from manyheads.generate.steps import Hypothesis, Steps, Vocabulary
from manyheads.ops.sampling import best_allowed


def greedy(steps: Steps, limits_N: Tensor, vocabulary: Vocabulary, *, scored: bool = True) -> list[Hypothesis]:
    """One hypothesis a row, of at most `limits_N` tokens with the end; its score is the sum of log-probabilities.

    The best token is the best logit: without scores, which are then zero, no softmax is computed.
    """
    device = limits_N.device
    longest = int(limits_N.max())
    ids = torch.full((len(limits_N), longest), vocabulary.end, device=device)
    scores = torch.zeros(len(limits_N), device=device)
    alive = torch.arange(len(limits_N), device=device)
    running = torch.ones(len(limits_N), dtype=torch.bool, device=device)
    newest = torch.full((len(limits_N),), vocabulary.start, device=device)
    for step in range(longest):
        logits_NV = steps(newest)
        if scored:
            logits_NV = logits_NV.log_softmax(dim=1)
        best, newest = best_allowed(logits_NV, 1, vocabulary.never)
        newest = torch.where(running, newest[:, 0], vocabulary.end)
        if scored:
            scores[alive] += torch.where(running, best[:, 0], 0.0)
        ids[alive, step] = newest
        running = running & (newest != vocabulary.end) & (limits_N[alive] > step + 1)
        left = int(running.sum())
        if left == 0:
            break
        # Rows that are done leave once they are a quarter: each leaving copies the cache of those who stay.
        if left <= 0.75 * len(alive):
            rows = running.nonzero().squeeze(1)
            steps.select(None, rows)
            alive, newest, running = alive[rows], newest[rows], running[rows]
    return [
        Hypothesis(_until(row, vocabulary.end), score) for row, score in zip(ids.tolist(), scores.tolist(), strict=True)
    ]


def _until(ids: list[int], end: int) -> list[int]:
    return ids[: ids.index(end)] if end in ids else ids
