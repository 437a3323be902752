"""Distances between queries and keys, and what three papers make of them.

Shapes:  Q query positions  K key positions  H heads  B batch.  A distance is key - query, so negative looks back;
queries sit at start, start + 1, ... and keys at 0, 1, ...; where each row has its own start, all gain a B in front.
"""

import math

import torch
from torch import Tensor


def distances(queries: int, keys: int, start: int | Tensor, device: torch.device | None = None) -> Tensor:
    """[Q, K] whole numbers: how far each key stands after each query; `start` may be [B], one for each row."""
    start = start[:, None, None] if isinstance(start, Tensor) else start
    return torch.arange(keys, device=device) - (torch.arange(queries, device=device)[:, None] + start)


def clipped_distances(
    queries: int, keys: int, start: int | Tensor, clip: int, device: torch.device | None = None
) -> Tensor:
    """[Q, K] distances held within -clip..clip: section 3.2 of Shaw et al. (2018)."""
    return distances(queries, keys, start, device).clamp(-clip, clip)


def t5_buckets(distances_QK: Tensor, buckets: int, furthest: int, bidirectional: bool) -> Tensor:
    """[Q, K] numbers of the bucket of each distance: Raffel et al. (2020), section 2.1.

    Half of the buckets hold one distance each, the rest grow with the logarithm up to `furthest`, and the last takes
    all beyond. Bidirectional: the second half of them is for keys after the query; else those count as distance 0.
    """
    offset_QK = torch.zeros_like(distances_QK)
    if bidirectional:
        buckets //= 2
        offset_QK = (distances_QK > 0) * buckets
        steps_QK = distances_QK.abs()
    else:
        steps_QK = (-distances_QK).clamp(min=0)
    exact = buckets // 2
    # the clamp keeps log away from 0 and changes nothing that is used: those below `exact` take the other branch
    growth_QK = torch.log(steps_QK.clamp(min=exact).float() / exact) / math.log(furthest / exact)
    coarse_QK = (exact + (growth_QK * (buckets - exact)).long()).clamp(max=buckets - 1)
    return offset_QK + torch.where(steps_QK < exact, steps_QK, coarse_QK)


def alibi_slopes(heads: int, device: torch.device | None = None) -> Tensor:
    """[H] slopes 2^(-8/n), 2^(-16/n), ... for n heads: Press et al. (2022), section 3.

    Where n is not a power of two: the slopes of the power below it, then every other slope of the power above it.
    """

    def geometric(count: int) -> list[float]:
        return [2.0 ** (-8.0 * (head + 1) / count) for head in range(count)]

    below = 2 ** math.floor(math.log2(heads))
    slopes = geometric(below) + geometric(2 * below)[0::2][: heads - below]
    return torch.tensor(slopes, dtype=torch.float32, device=device)


def alibi_bias(slopes_H: Tensor, distances_QK: Tensor, bidirectional: bool) -> Tensor:
    """[H, Q, K]: minus slope times how far back the key is, or how far on either side where `bidirectional`."""
    far_QK = -distances_QK.abs() if bidirectional else distances_QK
    return slopes_H[:, None, None] * far_QK.unsqueeze(-3)
