"""All binary trees over a sentence at once: CKY and the inside algorithm, vectorised over spans of one width.

Shapes:  B sentences, last inside, so that sums over splits run over whole rows of them  I fenceposts, one more than the
         longest has words: span (i, j) holds words i to j - 1  S starts of spans of a width  W widths
         K widths of a span's left part  N spans of trees that are looked at together
"""

from collections.abc import Callable

import torch
from torch import Tensor


@torch.no_grad()
def best_trees(scores_BII: Tensor, lengths_B: Tensor) -> tuple[Tensor, Tensor]:
    """The highest sum of span scores that a binary tree over each sentence has, [B], and whether a span is in that
    tree, [B, I, I]: the algorithm of Cocke, Kasami and Younger."""
    posts, rows = scores_BII.shape[1], torch.arange(len(scores_BII), device=scores_BII.device)

    def best(sums_SKB: Tensor) -> tuple[Tensor, Tensor]:
        values_SB, places_SB = sums_SKB.max(dim=1)
        return values_SB, places_SB

    value_IWB, places_of_width = _upwards(scores_BII, best)
    split_IWB = torch.zeros_like(value_IWB, dtype=torch.int64)
    for width, place_SB in places_of_width.items():
        split_IWB[: posts - width, width] = 1 + place_SB
    chosen_BII = torch.zeros_like(scores_BII, dtype=torch.bool)
    row_N, start_N, width_N = rows, torch.zeros_like(lengths_B), lengths_B
    while len(row_N):  # all trees at once, from the whole sentence down
        chosen_BII[row_N, start_N, start_N + width_N] = True
        left_N = split_IWB[start_N, width_N, row_N]
        inner = left_N > 0
        row_N, start_N, width_N, left_N = (each[inner] for each in (row_N, start_N, width_N, left_N))
        row_N = torch.cat([row_N, row_N])
        start_N, width_N = torch.cat([start_N, start_N + left_N]), torch.cat([left_N, width_N - left_N])
    return value_IWB[0, lengths_B, rows], chosen_BII


def log_partition(scores_BII: Tensor, lengths_B: Tensor) -> Tensor:
    """The logarithm of the sum, over all binary trees, of the exponential of their span scores, [B].

    Its gradient is how likely each span is to be in the tree, so that nothing need be kept for it but that.
    """
    value_B, likely_BII = inside_outside(scores_BII, lengths_B)
    with_gradient_B = (likely_BII * scores_BII.masked_fill(likely_BII == 0, 0.0)).sum(dim=(1, 2))
    return value_B + with_gradient_B - with_gradient_B.detach()


@torch.no_grad()
def inside_outside(scores_BII: Tensor, lengths_B: Tensor) -> tuple[Tensor, Tensor]:
    """The logarithm of the sum over all binary trees, [B], and how likely each span is to be in one, [B, I, I]."""
    posts, rows = scores_BII.shape[1], torch.arange(len(scores_BII), device=scores_BII.device)

    def summed(sums_SKB: Tensor) -> tuple[Tensor, Tensor]:
        return sums_SKB.logsumexp(dim=1), sums_SKB.softmax(dim=1)

    value_IWB, shares_of_width = _upwards(scores_BII, summed)
    by_start_IWB, by_end_IWB = torch.zeros_like(value_IWB), torch.zeros_like(value_IWB)
    by_start_IWB[0, lengths_B, rows] = 1.0
    likely_BII = torch.zeros_like(scores_BII)
    for width in reversed(range(1, posts)):
        likely_SB = by_start_IWB[: posts - width, width] + by_end_IWB[width:, posts - width]
        likely_BII.diagonal(width, dim1=1, dim2=2).copy_(likely_SB.T)
        if width > 1:
            passed_SKB = likely_SB[:, None] * shares_of_width[width]
            by_start_IWB[: posts - width, 1:width] += passed_SKB
            by_end_IWB[width:, posts - width + 1 :] += passed_SKB
    return value_IWB[0, lengths_B, rows], likely_BII


def _upwards(
    scores_BII: Tensor, reduced: Callable[[Tensor], tuple[Tensor, Tensor]]
) -> tuple[Tensor, dict[int, Tensor]]:
    """What is `reduced` of each span over where it splits, by start and width, and what came with it for each width.

    Spans are laid down twice, by where they begin and by where they end, there from wide to narrow: the left parts of
    all spans of one width are then a slice, and the right parts that go with them are another.
    """
    posts, scores_IIB = scores_BII.shape[1], scores_BII.permute(1, 2, 0).contiguous()
    by_start_IWB, by_end_IWB = torch.zeros_like(scores_IIB), torch.zeros_like(scores_IIB)
    found: dict[int, Tensor] = {}
    for width in range(1, posts):
        value_SB = scores_IIB.diagonal(width, dim1=0, dim2=1).T
        if width > 1:
            sums_SKB = by_start_IWB[: posts - width, 1:width] + by_end_IWB[width:, posts - width + 1 :]
            best_SB, found[width] = reduced(sums_SKB)
            value_SB = value_SB + best_SB
        by_start_IWB[: posts - width, width] = by_end_IWB[width:, posts - width] = value_SB
    return by_start_IWB, found
