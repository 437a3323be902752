"""Sampling.  Shapes:  N rows  V vocabulary"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from manyheads.core.errors import ConfigError
from manyheads.ops.sampling import best_allowed, defined, drawn, filtered, penalised


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """How the next token is chosen: by chance among the likely ones, or the likeliest where temperature is 0."""

    temperature: float = 1.0
    """Logits are divided by it: below 1 the likely becomes likelier; 0 is greedy search."""
    top_k: int = 0
    """Only the k likeliest tokens; 0: all."""
    top_p: float = 1.0
    """Only the fewest tokens that have this probability together."""
    min_p: float = 0.0
    """Only tokens at least this many times as likely as the likeliest."""
    repetition_penalty: float = 1.0
    """Logits of tokens seen before are divided by it (negative ones multiplied); 1: no penalty."""
    seed: int = 1
    """The same seed gives the same text, in a batch or alone."""

    def __post_init__(self):
        if not 0 <= self.temperature < math.inf:
            raise ConfigError(f"temperature is {self.temperature}; it must be at least 0, which is greedy search")
        if self.top_k < 0:
            raise ConfigError(f"top-k is {self.top_k}; it must be at least 1, or 0 for all tokens")
        if not 0 < self.top_p <= 1:
            raise ConfigError(f"top-p is {self.top_p}; it must be above 0 and at most 1, which is all tokens")
        if not 0 <= self.min_p <= 1:
            raise ConfigError(f"min-p is {self.min_p}; it must be between 0, which is all tokens, and 1")
        if not 0 < self.repetition_penalty < math.inf:
            raise ConfigError(f"repetition-penalty is {self.repetition_penalty}; it must be above 0, 1 being none")
        if not 0 <= self.seed < 2**32:
            raise ConfigError(f"seed is {self.seed}; it must be at least 0 and below {2**32}")


class Sampler:
    """Chooses a token for each row; the random numbers of a row follow from the seed, its stream and the step alone."""

    def __init__(
        self,
        sampling: Sampling,
        prompts: list[list[int]],
        streams: list[int],
        vocabulary: int,
        banned: tuple[int, ...],
        device: torch.device,
    ):
        self.sampling, self.banned, self.device = sampling, banned, device
        self.generators = {
            stream: torch.Generator().manual_seed(sampling.seed * 1_000_003 + stream) for stream in {*streams}
        }
        self.streams = streams
        self.seen_NV: Tensor | None = None
        if sampling.repetition_penalty != 1.0:
            self.seen_NV = torch.zeros(len(prompts), vocabulary, dtype=torch.bool, device=device)
            for row, prompt in enumerate(prompts):
                self.seen_NV[row, prompt] = True

    def __call__(self, logits: Tensor, rows: Tensor) -> Tensor:
        sampling, logits = self.sampling, logits.float()
        if self.seen_NV is not None:
            rows = rows.to(self.device)
            logits = penalised(logits, self.seen_NV[rows], sampling.repetition_penalty)
        if sampling.temperature == 0:
            values, ids = best_allowed(logits, 1, self.banned)
            ids = defined(ids[:, 0], values[:, 0])
        else:
            logits = (logits - logits.amax(dim=1, keepdim=True)) / sampling.temperature  # so that none is infinite
            if self.banned:
                logits[:, self.banned] = -torch.inf
            logits = filtered(logits, top_k=sampling.top_k, top_p=sampling.top_p, min_p=sampling.min_p)
            ids = drawn(logits, self._uniform(rows))
        if self.seen_NV is not None:
            self.seen_NV[rows, ids] = True
        return ids

    def _uniform(self, rows: Tensor) -> Tensor:
        numbers = {stream: float(torch.rand((), generator=each)) for stream, each in self.generators.items()}
        return torch.tensor([numbers[self.streams[row]] for row in rows.tolist()], device=self.device)
