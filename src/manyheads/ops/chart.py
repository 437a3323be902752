"""All binary trees over a sentence at once: CKY and the inside algorithm, vectorised over spans of one width.

Shapes:  B sentences  I fenceposts, one more than the longest has words: span (i, j) holds words i to j - 1
         S starts of spans of a width  K widths of a span's left part
"""

from collections.abc import Callable

import torch
from torch import Tensor


def best_trees(scores_BII: Tensor, lengths_B: Tensor) -> tuple[Tensor, Tensor]:
    """The highest sum of span scores that a binary tree over each sentence has, [B], and whether a span is in that
    tree, [B, I, I]: Cocke, Kasami and Younger's algorithm."""
    value_B, chosen_BII = _trees(scores_BII, lengths_B, lambda x: x.amax(dim=-1), _first_of_the_best)
    return value_B, chosen_BII > 0.5


def log_partition(scores_BII: Tensor, lengths_B: Tensor) -> Tensor:
    """The logarithm of the sum, over all binary trees, of the exponential of their span scores, [B].

    Its gradient is how likely each span is to be in the tree, so that nothing need be kept for it but that.
    """
    value_B, likely_BII = _trees(scores_BII, lengths_B, lambda x: x.logsumexp(dim=-1), lambda x: x.softmax(dim=-1))
    with_gradient_B = (likely_BII * scores_BII.masked_fill(likely_BII == 0, 0.0)).sum(dim=(1, 2))
    return value_B + with_gradient_B - with_gradient_B.detach()


@torch.no_grad()
def _trees(
    scores_BII: Tensor, lengths_B: Tensor, total: Callable[[Tensor], Tensor], shares: Callable[[Tensor], Tensor]
) -> tuple[Tensor, Tensor]:
    """Upwards the `total` of each span over its splits, downwards the `shares` of each split in it.

    Spans are laid down twice, in rows by where they begin and in rows by where they end, so that the left parts of all
    spans of one width are a slice, and so are the right parts.
    """
    count, posts = scores_BII.shape[:2]
    by_start_BIW, by_end_BIW = (scores_BII.new_zeros(count, posts, posts) for _ in range(2))
    split_of_width: dict[int, Tensor] = {}
    for width in range(1, posts):
        value_BS = scores_BII.diagonal(width, dim1=1, dim2=2)
        starts, ends, parts = slice(0, posts - width), slice(width, posts), slice(1, width)
        if width > 1:
            sums_BSK = by_start_BIW[:, starts, parts] + by_end_BIW[:, ends, parts].flip(-1)
            value_BS = value_BS + total(sums_BSK)
            split_of_width[width] = shares(sums_BSK)
        by_start_BIW[:, starts, width] = by_end_BIW[:, ends, width] = value_BS
    rows = torch.arange(count, device=lengths_B.device)
    value_B = by_start_BIW[rows, 0, lengths_B]

    visits_by_start_BIW, visits_by_end_BIW = torch.zeros_like(by_start_BIW), torch.zeros_like(by_end_BIW)
    visits_by_start_BIW[rows, 0, lengths_B] = 1.0
    visits_BII = torch.zeros_like(scores_BII)
    for width in reversed(range(1, posts)):
        starts, ends, parts = slice(0, posts - width), slice(width, posts), slice(1, width)
        visits_BS = visits_by_start_BIW[:, starts, width] + visits_by_end_BIW[:, ends, width]
        visits_BII.diagonal(width, dim1=1, dim2=2).copy_(visits_BS)
        if width > 1:
            passed_BSK = visits_BS[:, :, None] * split_of_width[width]
            visits_by_start_BIW[:, starts, parts] += passed_BSK
            visits_by_end_BIW[:, ends, parts] += passed_BSK.flip(-1)
    return value_B, visits_BII


def _first_of_the_best(sums_BSK: Tensor) -> Tensor:
    return torch.nn.functional.one_hot(sums_BSK.argmax(dim=-1), sums_BSK.shape[-1]).to(sums_BSK.dtype)
