"""Gradients of word vectors, written out and added to the few rows that they are of; without autograd, which would go
through all rows in every step.

Shapes:  N words of a text  K blocks  B words of a block  S words that their windows reach  R words drawn for a block
W width  O = S + R
"""

from collections.abc import Iterator
from dataclasses import dataclass, fields

import torch
from torch import Tensor
from torch.nn import functional

BLOCK = 32  # words that share the words drawn against them
DRAWN = 32  # of those; each counts as much as makes `negative` of them for a pair
BLOCKS_AT_ONCE = 8  # of whose words no gradient sees that of another
LARGE = 500  # words of a vocabulary for each of those blocks: in a small one the same rows come again too soon


@dataclass(frozen=True)
class Windows:
    """Words, what stands in their windows, and words drawn at random, by blocks."""

    words: Tensor
    """[K, B]"""
    others: Tensor
    """All words that the windows of a block reach, and behind them the words drawn for it: [K, S + R]."""
    mask: Tensor
    """1 where a word of the span stands in the window of a word of the block: [K, B, S]."""

    @property
    def span(self) -> Tensor:
        """[K, S]"""
        return self.others[:, :-DRAWN]

    @property
    def drawn(self) -> Tensor:
        """[K, R]"""
        return self.others[:, -DRAWN:]

    def parts(self, blocks: int) -> Iterator["Windows"]:
        """So many blocks at a time."""
        for first in range(0, len(self.words), blocks):
            yield Windows(*(getattr(self, field.name)[first : first + blocks] for field in fields(self)))


def blocks_at_once(vocabulary: int) -> int:
    """How many blocks are learned from together."""
    return min(BLOCKS_AT_ONCE, max(1, vocabulary // LARGE))


def chances_to_stay(counts: Tensor, sample: float) -> Tensor:
    """Of each word, as word2vec thins out the commonest: (√(f / t) + 1) · t / f, where f is its share of the text.

    The paper's own √(t / f) is about the same for words that are far commoner than t.
    """
    if not sample:
        return torch.ones_like(counts, dtype=torch.float)
    ratio = sample * counts.sum() / counts.double().clamp(min=1)
    return (ratio.sqrt() + ratio).clamp(max=1).float()


def noise(counts: Tensor, power: float) -> Tensor:
    """The chances of words to be drawn, their counts to the power of 0.75, added up from the first to each."""
    chances = counts.double().pow(power) * (counts > 0)
    return (chances / chances.sum()).cumsum(0)


def drawn_from(cumulative: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Words drawn with the chances that `noise` adds up."""
    found = torch.searchsorted(cumulative, torch.rand(shape, dtype=torch.double, device=cumulative.device), right=True)
    return found.clamp(max=len(cumulative) - 1)


def windows(ids_N: Tensor, lines_N: Tensor, reach: int, cumulative: Tensor) -> Windows:
    """The windows of each word of a text: 1 to `reach` words on either side, as is drawn for each, of the same line."""
    blocks = max(1, -(-len(ids_N) // BLOCK))  # one of padding where all words were thinned out
    missing = blocks * BLOCK - len(ids_N)
    words_KB, lines_KB = (
        functional.pad(each, (0, missing), value=value).view(blocks, BLOCK)
        for each, value in ((ids_N, 0), (lines_N, -2))
    )
    span_KS, span_lines_KS = (
        functional.pad(each, (reach, reach + missing), value=value).unfold(0, BLOCK + 2 * reach, BLOCK)
        for each, value in ((ids_N, 0), (lines_N, -1))
    )
    device = ids_N.device
    apart_BS = (
        torch.arange(BLOCK + 2 * reach, device=device) - reach - torch.arange(BLOCK, device=device)[:, None]
    ).abs()
    apart_BS[apart_BS == 0] = reach + 1  # no word stands in its own window
    reach_KB = torch.randint(1, reach + 1, (blocks, BLOCK), device=device)
    mask_KBS = (apart_BS <= reach_KB[:, :, None]) & (span_lines_KS[:, None, :] == lines_KB[:, :, None])
    others_KO = torch.cat([span_KS, drawn_from(cumulative, (blocks, DRAWN))], dim=1)
    return Windows(words_KB, others_KO, mask_KBS.float())


class SkipGram:
    """−Σ log σ(v·u) − negative · E log σ(−v·n), over words v with every u in their windows.

    Equation 4 of Mikolov et al. (2013), with the expectation over words n as the mean of those drawn for the block.
    """

    @staticmethod
    def sides(vectors: Tensor, contexts: Tensor, found: Windows) -> tuple[Tensor, Tensor]:
        """What is multiplied for the scores: [K, B, W] and [K, O, W]."""
        return _rows(vectors, found.words), _rows(contexts, found.others)

    @staticmethod
    def weights(found: Windows, negative: int) -> tuple[Tensor, Tensor]:
        """How much each score counts, and how much of that is for a word in the window: both [K, B, O]."""
        each_KB = found.mask.sum(dim=2) * (negative / DRAWN)
        against_KBR = each_KB[:, :, None].expand(-1, -1, found.drawn.shape[1])
        return torch.cat([found.mask, against_KBR], dim=2), functional.pad(found.mask, (0, DRAWN))

    @staticmethod
    def add(vectors: Tensor, contexts: Tensor, found: Windows, left_KBW: Tensor, right_KOW: Tensor, by: float) -> None:
        """Adds to the rows that the sides are of."""
        vectors.index_add_(0, found.words.flatten(), left_KBW.flatten(0, 1), alpha=by)
        contexts.index_add_(0, found.others.flatten(), right_KOW.flatten(0, 1), alpha=by)


class Cbow:
    """The same with the mean of a window for v, and its word alone for u."""

    @staticmethod
    def sides(vectors: Tensor, contexts: Tensor, found: Windows) -> tuple[Tensor, Tensor]:
        others_KO = torch.cat([found.words, found.drawn], dim=1)
        return _means(found) @ _rows(vectors, found.span), _rows(contexts, others_KO)

    @staticmethod
    def weights(found: Windows, negative: int) -> tuple[Tensor, Tensor]:
        """Of a block's own words each is compared with its own window alone, if there is something in it."""
        real_KB1 = found.mask.amax(dim=2, keepdim=True)
        own_KBB = torch.eye(found.words.shape[1], device=real_KB1.device) * real_KB1
        against_KBR = real_KB1.expand(-1, -1, found.drawn.shape[1]) * (negative / DRAWN)
        return torch.cat([own_KBB, against_KBR], dim=2), functional.pad(own_KBB, (0, DRAWN))

    @staticmethod
    def add(vectors: Tensor, contexts: Tensor, found: Windows, left_KBW: Tensor, right_KOW: Tensor, by: float) -> None:
        others_KO = torch.cat([found.words, found.drawn], dim=1)
        vectors.index_add_(0, found.span.flatten(), (_means(found).mT @ left_KBW).flatten(0, 1), alpha=by)
        contexts.index_add_(0, others_KO.flatten(), right_KOW.flatten(0, 1), alpha=by)


Method = type[SkipGram] | type[Cbow]


def descend(method: Method, vectors: Tensor, contexts: Tensor, found: Windows, negative: int, rate: float) -> Tensor:
    """One step down the objective; gives the gradient with respect to the scores, before it."""
    left_KBW, right_KOW = method.sides(vectors, contexts, found)
    weights_KBO, targets_KBO = method.weights(found, negative)
    scores_KBO = left_KBW @ right_KOW.mT
    slopes_KBO = scores_KBO.sigmoid().mul_(weights_KBO).sub_(targets_KBO)
    method.add(vectors, contexts, found, slopes_KBO @ right_KOW, slopes_KBO.mT @ left_KBW, -rate)
    return slopes_KBO


def objective(method: Method, vectors: Tensor, contexts: Tensor, found: Windows, negative: int) -> Tensor:
    """What `descend` makes smaller, as a number."""
    left_KBW, right_KOW = method.sides(vectors, contexts, found)
    weights_KBO, targets_KBO = method.weights(found, negative)
    scores_KBO = left_KBW @ right_KOW.mT
    return (weights_KBO * functional.softplus(scores_KBO) - targets_KBO * scores_KBO).sum()


def _means(found: Windows) -> Tensor:
    """What makes the mean of each window of the words in its span; of an empty one nothing: [K, B, S]."""
    return found.mask / found.mask.sum(dim=2, keepdim=True).clamp(min=1)


def _rows(table: Tensor, ids: Tensor) -> Tensor:
    return table.index_select(0, ids.flatten()).view(*ids.shape, -1)


# GloVe


def glove_weights(counts_N: Tensor, cutoff: float) -> Tensor:
    """f(x) = (x / cutoff)^¾, and 1 above the cutoff: equation 9 of Pennington et al. (2014)."""
    return (counts_N / cutoff).clamp(max=1).pow(0.75)


def glove_errors(tables: list[Tensor], cells: tuple[Tensor, Tensor, Tensor]) -> Tensor:
    """w·w̃ + b + b̃ − log x of each cell: its first word, its second, and how often they stand together."""
    (w, w_context, b, b_context), (first_N, second_N, counts_N) = tables, cells
    dots_N = (w[first_N] * w_context[second_N]).sum(dim=1)
    return dots_N + b[first_N] + b_context[second_N] - counts_N.log()


def glove(
    tables: list[Tensor], sums: list[Tensor], cells: tuple[Tensor, Tensor, Tensor], cutoff: float, rate: float
) -> tuple[Tensor, Tensor]:
    """One step of AdaGrad down ½ Σ f(x) (w·w̃ + b + b̃ − log x)², half of equation 8, as published in code.

    `tables` are w, w̃, b and b̃, and `sums` those of their squared gradients, each cell's by itself. Gives the objective
    of the cells and the gradient by their dot products.
    """
    (first_N, second_N, counts_N), (w, w_context, *_) = cells, tables
    errors_N, weights_N = glove_errors(tables, cells), glove_weights(counts_N, cutoff)
    slopes_N = weights_N * errors_N
    gradients = [slopes_N[:, None] * w_context[second_N], slopes_N[:, None] * w[first_N], slopes_N, slopes_N]
    for table, total, rows, gradient in zip(tables, sums, (first_N, second_N, first_N, second_N), gradients):
        table.index_add_(0, rows, gradient / total[rows].sqrt(), alpha=-rate)
        total.index_add_(0, rows, gradient.square())
    return 0.5 * (slopes_N * errors_N).sum(), slopes_N
