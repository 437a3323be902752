"""Charts against all trees written out one by one, and against CKY as a textbook has it."""

import math
from functools import cache

import pytest
import torch
from torch.testing import assert_close

from manyheads.ops.chart import best_trees, log_partition

LENGTHS = torch.tensor([1, 2, 5, 6, 3])


@cache
def all_trees(first: int, behind: int) -> list[frozenset[tuple[int, int]]]:
    """The spans of every binary tree over these words."""
    own = {(first, behind)}
    if behind - first == 1:
        return [frozenset(own)]
    return [
        left | right | own
        for split in range(first + 1, behind)
        for left in all_trees(first, split)
        for right in all_trees(split, behind)
    ]


def textbook(scores, words: int) -> tuple[float, set[tuple[int, int]]]:
    """CKY in loops."""
    best: dict[tuple[int, int], tuple[float, int]] = {}
    for width in range(1, words + 1):
        for first in range(words - width + 1):
            behind = first + width
            splits = [(best[first, split][0] + best[split, behind][0], split) for split in range(first + 1, behind)]
            total, split = max(splits, key=lambda each: each[0]) if splits else (0.0, 0)
            best[first, behind] = (total + scores[first][behind], split)

    def spans(first, behind):
        split = best[first, behind][1]
        return {(first, behind)} | (spans(first, split) | spans(split, behind) if split else set())

    return best[0, words][0], spans(0, words)


@pytest.fixture
def scores():
    torch.manual_seed(0)
    return torch.randn(len(LENGTHS), 7, 7, dtype=torch.float64)


def summed(scores, tree) -> float:
    return sum(float(scores[span].detach()) for span in tree)


def test_the_best_tree_is_the_best_of_all_trees(scores):
    values, chosen = best_trees(scores, LENGTHS)
    for row, length in enumerate(LENGTHS.tolist()):
        trees = all_trees(0, length)
        best = max(trees, key=lambda tree: summed(scores[row], tree))
        assert {tuple(span) for span in chosen[row].nonzero().tolist()} == best
        assert float(values[row]) == pytest.approx(summed(scores[row], best))
        assert len(trees) == math.comb(2 * length - 2, length - 1) // length


def test_the_partition_and_its_gradient_are_those_of_all_trees(scores):
    scores.requires_grad_()
    found = log_partition(scores, LENGTHS)
    weights = torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0], dtype=torch.float64)
    (found * weights).sum().backward()
    for row, length in enumerate(LENGTHS.tolist()):
        trees = all_trees(0, length)
        sums = torch.tensor([summed(scores[row], tree) for tree in trees], dtype=torch.float64)
        assert_close(found[row].detach(), sums.logsumexp(0))
        likely = torch.zeros(7, 7, dtype=torch.float64)
        for tree, share in zip(trees, sums.softmax(0)):
            for span in tree:
                likely[span] += share
        assert_close(scores.grad[row], weights[row] * likely)


def test_scores_of_what_is_no_span_change_nothing(scores):
    spoilt = scores + 1e4 * torch.ones(7, 7).tril()
    for row, length in enumerate(LENGTHS.tolist()):
        spoilt[row, :, length + 1 :] = 1e4
    for values, trees in ((scores, best_trees(scores, LENGTHS)), (spoilt, best_trees(spoilt, LENGTHS))):
        assert_close(trees[0], best_trees(scores, LENGTHS)[0])
        assert torch.equal(trees[1], best_trees(scores, LENGTHS)[1])
        assert_close(log_partition(values, LENGTHS), log_partition(scores, LENGTHS))


def test_of_longer_sentences_it_finds_what_loops_find():
    torch.manual_seed(1)
    lengths = [40, 31, 24]
    scores = torch.randn(3, 41, 41, dtype=torch.float64)
    values, chosen = best_trees(scores, torch.tensor(lengths))
    for row, length in enumerate(lengths):
        value, spans = textbook(scores[row].tolist(), length)
        assert float(values[row]) == pytest.approx(value)
        assert {tuple(span) for span in chosen[row].nonzero().tolist()} == spans
    alone, tree = best_trees(scores[1:2, :32, :32], torch.tensor([31]))
    assert_close(alone, values[1:2])
    assert torch.equal(tree[0], chosen[1, :32, :32])
