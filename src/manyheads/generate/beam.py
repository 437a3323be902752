"""Beam search with the length penalty of Wu et al. (2016).  Shapes:  N sentences  K beams  V vocabulary  L length"""

import torch
from torch import Tensor

from manyheads.core.errors import ConfigError
from manyheads.core.words import counted
from manyheads.generate.greedy import greedy
from manyheads.generate.steps import DONE, Hypothesis, SpecialIds, Steps, refuse_undefined
from manyheads.ops.sampling import best_allowed

WIDEST = 10_000  # beams; a search of more would not end in any time that a person waits
MOST_ALPHA = 100  # beyond, the penalty of a long text is no number


def refuse_search(beams: int, alpha: float, count: int = 1) -> None:
    """A search that asks for more texts than beams, or for a penalty that is none."""
    if beams < 1 or not 1 <= count <= beams:
        asked = counted(count, "candidate")
        raise ConfigError(f"{asked} of a beam of {beams}: the beam must be at least 1 and hold them all")
    if not 0 <= alpha <= MOST_ALPHA:
        raise ConfigError(f"the length penalty alpha is {alpha}; it must be from 0, which is none, to {MOST_ALPHA}")


def refuse_wide(beams: int) -> None:
    """A beam has a stated width at most."""
    if beams > WIDEST:
        raise ConfigError(f"a beam of {beams:,} is asked for; it can be at most {WIDEST:,}")


def length_penalty(length: int | Tensor, alpha: float) -> float | Tensor:
    """lp(Y) = ((5 + |Y|) / 6)^α, |Y| counting the end; α = 0 is no penalty."""
    return ((5 + length) / 6) ** alpha


def search(
    steps: Steps, limits_N: Tensor, special: SpecialIds, *, beams: int, alpha: float, scored: bool = True
) -> list[list[Hypothesis]]:
    """The best `beams` hypotheses of each sentence; one beam is greedy search, whose scores are as a beam's would be.

    `limits_N` is on the CPU; greedy search has scores only if they are asked for.
    """
    if beams > 1:
        return beam_search(steps, limits_N.to(steps.first.device), special, beams=beams, alpha=alpha)
    found = zip(greedy(steps, limits_N, special, scored=scored), limits_N.tolist(), strict=True)
    return [
        [Hypothesis(one.ids, one.score / float(length_penalty(min(len(one.ids) + 1, limit), alpha)))]
        for one, limit in found
    ]


def beam_search(
    steps: Steps, limits_N: Tensor, special: SpecialIds, *, beams: int = 4, alpha: float = 0.6
) -> list[list[Hypothesis]]:
    """The best `beams` hypotheses of each sentence, best first; a score is log P(Y|X) / lp(Y).

    A sentence is done, and leaves the batch, when no hypothesis that still runs can beat its worst finished one.
    """
    search = _Search(limits_N, special, beams, alpha)
    newest, length = steps.first, 0
    for length in range(1, int(limits_N.max()) + 1):
        logits = steps(newest)
        parents, newest = search.extend(logits, length)
        done = search.done(length)
        if bool(done.all()):
            break
        kept = None
        # Sentences that are done leave once they are a quarter: each leaving copies the cache of those who stay.
        if int((~done).sum()) <= 0.75 * len(done):
            kept = (~done).nonzero().squeeze(1)
            newest = newest[kept]
            search.keep(kept)
        steps.select(parents, kept)
        newest = newest.flatten()
    steps.finish(search.ends(length))
    return search.results()


class _Search:
    """The beams of all sentences that are not done, and the finished hypotheses of all sentences."""

    def __init__(self, limits_N: Tensor, special: SpecialIds, beams: int, alpha: float):
        device, sentences, longest = limits_N.device, len(limits_N), int(limits_N.max())
        self.limits, self.special, self.beams, self.alpha = limits_N, special, beams, alpha
        self.alive = torch.arange(sentences, device=device)
        # All beams start alike: only the first may go on, or all would stay alike.
        self.scores = torch.full((sentences, beams), -torch.inf, device=device)
        self.scores[:, 0] = 0.0
        self.ids = torch.full((sentences, beams, longest), DONE, device=device)
        self.finished_scores = torch.full((sentences, beams), -torch.inf, device=device)
        self.finished_ids = torch.full((sentences, beams, longest), DONE, device=device)
        self.finished_in = torch.zeros(sentences, beams, 2, dtype=torch.long, device=device)
        """The row in which each ended, and the length at which."""

    def extend(self, logits: Tensor, length: int) -> tuple[Tensor, Tensor]:
        """Takes one step; gives the beam each beam came from and its newest id, both [N, K]."""
        sentences = len(self.scores)
        # Twice as many candidates as beams: even if each beam ends here, enough are left to go on. More with more ends.
        candidates = self.beams * max(2, 1 + len(self.special.stop_ids))
        wanted = min(candidates, logits.shape[1])
        logs = logits.log_softmax(dim=1, dtype=torch.float32)  # half precision would round away who is best
        values, tokens = best_allowed(logs, wanted, self.special.banned)
        values = values.view(sentences, self.beams, wanted) + self.scores[:, :, None]
        values, best = values.flatten(1).topk(min(candidates, self.beams * wanted))
        refuse_undefined(values.isnan())
        parents = best // wanted
        tokens = tokens.view(sentences, -1).gather(1, best)
        ids = self.ids.gather(1, parents[:, :, None].expand(-1, -1, self.ids.shape[2]))
        ids[:, :, length - 1] = tokens
        ended = self.special.ended(tokens)
        self._finish(values, ids, parents, ended, length)

        order = (ended.long() * values.shape[1] + torch.arange(values.shape[1], device=ended.device)).argsort(dim=1)
        order = order[:, : self.beams]
        self.scores = values.masked_fill(ended, -torch.inf).gather(1, order)
        self.ids = ids.gather(1, order[:, :, None].expand(-1, -1, ids.shape[2]))
        return parents.gather(1, order), tokens.gather(1, order)

    def _finish(self, values: Tensor, ids: Tensor, parents: Tensor, ended: Tensor, length: int) -> None:
        # Only the best `beams` candidates may end; at its limit a sentence ends in any case.
        first = torch.arange(values.shape[1], device=values.device) < self.beams
        limits = self.limits[self.alive][:, None]
        # A sentence past its limit is done, and only waits in the batch for others to leave with it.
        ends = (ended | (limits == length)) & (limits >= length) & first
        if not bool(ends.any()):
            return
        scores = torch.where(ends, values / length_penalty(length, self.alpha), -torch.inf)
        scores = torch.cat([self.finished_scores[self.alive], scores], dim=1)
        scores, best = scores.topk(self.beams)
        both = torch.cat([self.finished_ids[self.alive], ids], dim=1)
        self.finished_scores[self.alive] = scores
        self.finished_ids[self.alive] = both.gather(1, best[:, :, None].expand(-1, -1, both.shape[2]))
        rows = torch.arange(len(parents), device=parents.device)[:, None] * self.beams + parents
        ends = torch.stack([rows, torch.full_like(rows, length)], dim=2)
        both = torch.cat([self.finished_in[self.alive], ends], dim=1)
        self.finished_in[self.alive] = both.gather(1, best[:, :, None].expand(-1, -1, 2))

    def done(self, length: int) -> Tensor:
        """Sentences whose worst finished hypothesis nothing that runs can beat, or that are at their limit."""
        limits = self.limits[self.alive]
        # A log-probability only falls, and the penalty is weakest on it at the limit.
        attainable = self.scores[:, 0] / length_penalty(limits, self.alpha)
        return (self.finished_scores[self.alive, -1] >= attainable) | (limits <= length)

    def ends(self, last: int) -> list[tuple[int, int]]:
        """Of each sentence's best hypothesis the row it ended in and how many steps before the last."""
        return [(row, last - length) for row, length in self.finished_in[:, 0].tolist()]

    def keep(self, sentences: Tensor) -> None:
        self.alive, self.scores, self.ids = self.alive[sentences], self.scores[sentences], self.ids[sentences]

    def results(self) -> list[list[Hypothesis]]:
        lengths = self.special.lengths(self.finished_ids).tolist()
        rows = zip(self.finished_ids.tolist(), lengths, self.finished_scores.tolist(), strict=True)
        return [
            [
                Hypothesis(ids[:length], score)
                for ids, length, score in zip(beams, row_lengths, scores)
                if score > -torch.inf
            ]
            for beams, row_lengths, scores in rows
        ]
