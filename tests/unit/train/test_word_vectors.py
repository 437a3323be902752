"""Gradients of word vectors beside autograd on the formulas as they are published; what windows and draws are like."""

import math
from dataclasses import replace

import pytest
import torch
from torch.nn.functional import logsigmoid
from torch.testing import assert_close

from manyheads.train import word_vectors
from manyheads.train.word_vectors import (
    BLOCK,
    DRAWN,
    Cbow,
    SkipGram,
    chances_to_stay,
    descend,
    drawn_from,
    glove,
    noise,
    objective,
    windows,
)

WORDS, WIDTH, REACH, NEGATIVE = 11, 7, 3, 5


@pytest.fixture
def text():
    """Words of three lines, which fill two blocks and a part of a third, and what was drawn for them."""
    torch.manual_seed(5)
    ids = torch.randint(0, WORDS, (2 * BLOCK + 9,))
    lines = torch.repeat_interleave(torch.arange(3), torch.tensor([20, 1, len(ids) - 21]))
    counts = torch.bincount(ids, minlength=WORDS)
    return ids, lines, windows(ids, lines, REACH, noise(counts, 0.75))


def tables() -> list[torch.Tensor]:
    torch.manual_seed(6)
    return [torch.randn(WORDS, WIDTH, dtype=torch.double).requires_grad_() for _ in range(2)]


def pairs_of(text) -> list[tuple[int, list[int], list[int]]]:
    """Each word of the text by its place, the places in its window, and the words drawn for its block."""
    ids, _, found = text
    listed = []
    for place in range(len(ids)):
        block, row = divmod(place, BLOCK)
        inside = [block * BLOCK + each - REACH for each in found.mask[block, row].nonzero()[:, 0].tolist()]
        listed.append((place, inside, found.drawn[block].tolist()))
    return listed


def skipgram_as_published(vectors, contexts, text):
    """Equation 4 of Mikolov et al. (2013), pair by pair; the expectation is the mean over what was drawn."""
    ids, total = text[0], torch.zeros((), dtype=torch.double)
    for place, window, drawn in pairs_of(text):
        for other in window:
            total -= logsigmoid(contexts[ids[other]] @ vectors[ids[place]])
            against = [logsigmoid(-contexts[each] @ vectors[ids[place]]) for each in drawn]
            total -= NEGATIVE * torch.stack(against).mean()
    return total


def cbow_as_published(vectors, contexts, text):
    """The same of the mean of a window and the word in its middle."""
    ids, total = text[0], torch.zeros((), dtype=torch.double)
    for place, window, drawn in pairs_of(text):
        if window:
            mean = torch.stack([vectors[ids[other]] for other in window]).mean(dim=0)
            total -= logsigmoid(contexts[ids[place]] @ mean)
            total -= NEGATIVE * torch.stack([logsigmoid(-contexts[each] @ mean) for each in drawn]).mean()
    return total


@pytest.mark.parametrize(("method", "published"), [(SkipGram, skipgram_as_published), (Cbow, cbow_as_published)])
def test_a_step_is_the_gradient_of_the_published_objective(method, published, text):
    vectors, contexts = tables()
    found = text[2]
    found = replace(found, mask=found.mask.double())
    wanted = published(vectors, contexts, text)
    assert_close(objective(method, vectors, contexts, found, NEGATIVE).float(), wanted.float())
    gradients = torch.autograd.grad(wanted, [vectors, contexts])
    after = [each.detach().clone() for each in (vectors, contexts)]
    descend(method, *after, found, NEGATIVE, 0.1)
    for before, now, gradient in zip((vectors, contexts), after, gradients):
        assert_close(now, before.detach() - 0.1 * gradient, rtol=1e-5, atol=1e-6)
        assert float(gradient.abs().max()) > 1  # and the test can tell


def test_parts_of_a_text_are_all_of_it(text):
    found = text[2]
    parts = list(found.parts(2))
    assert [len(part.words) for part in parts] == [2, 1]
    for name in ("words", "others", "mask"):
        assert torch.cat([getattr(part, name) for part in parts]).equal(getattr(found, name))


def test_a_window_has_neighbours_of_the_same_line_and_never_the_word_itself(text):
    ids, lines, found = text
    seen = set()
    for place, window, _ in pairs_of(text):
        assert all(lines[other] == lines[place] for other in window)
        assert place not in window
        apart = {abs(other - place) for other in window}
        assert apart == set(range(1, max(apart, default=0) + 1))  # nothing is left out in between
        seen |= apart
    assert seen == {1, 2, 3}
    assert not pairs_of(text)[20][1]  # a line of one word
    # What is behind the text is in no window, and has none.
    assert float(found.mask[2, 9:].sum()) == 0
    spans = found.span[0].tolist()[REACH : REACH + 5]
    assert spans == ids[:5].tolist()


def test_windows_are_as_wide_as_any_other_up_to_the_widest():
    torch.manual_seed(1)
    ids = torch.zeros(60_000, dtype=torch.long)
    found = windows(ids, ids, 5, noise(torch.ones(1), 0.75))
    widths = (found.mask.sum(dim=2) / 2).flatten()[10:-10].long().bincount(minlength=6)
    assert widths[0] == 0
    assert_close(widths[1:] / widths.sum(), torch.full((5,), 0.2), rtol=0, atol=0.01)


def test_words_are_drawn_by_the_power_of_their_counts():
    torch.manual_seed(2)
    counts = torch.tensor([0, 1, 16, 81, 0])
    drawn = drawn_from(noise(counts, 0.75), (200_000,)).bincount(minlength=5)
    wanted = torch.tensor([0, 1, 8, 27, 0]) / 36
    assert_close(drawn / drawn.sum(), wanted, rtol=0, atol=0.005)
    assert drawn[[0, 4]].tolist() == [0, 0]


def test_common_words_are_thinned_out_as_word2vec_does():
    counts = torch.tensor([900_000, 99_000, 1_000, 0])
    share = counts[:3].double() / 1_000_000
    wanted = ((share / 1e-3).sqrt() + 1) * 1e-3 / share
    assert_close(chances_to_stay(counts, 1e-3)[:3].double(), wanted.clamp(max=1), rtol=1e-5, atol=0)
    assert wanted[2] > 1 > wanted[1] > wanted[0]
    assert chances_to_stay(counts, 0.0).tolist() == [1.0] * 4


def test_glove_is_the_gradient_of_half_its_published_objective_by_adagrad():
    torch.manual_seed(3)
    sizes = [(WORDS, WIDTH), (WORDS, WIDTH), (WORDS,), (WORDS,)]
    w, w_context, b, b_context = leaves = [torch.randn(size, dtype=torch.double).requires_grad_() for size in sizes]
    first, second = torch.randint(0, WORDS, (2, 30))
    counts = torch.rand(30, dtype=torch.double) * 200 + 0.1
    total = torch.zeros((), dtype=torch.double)
    for i, j, x in zip(first.tolist(), second.tolist(), counts.tolist()):  # equation 8
        weight = (x / 100) ** 0.75 if x < 100 else 1.0
        total = total + weight * (w[i] @ w_context[j] + b[i] + b_context[j] - math.log(x)) ** 2
    assert 5 < int((counts > 100).sum()) < 25
    gradients = torch.autograd.grad(0.5 * total, leaves)
    after, sums = [each.detach().clone() for each in leaves], [torch.full(size, 4.0).double() for size in sizes]
    value, _ = glove(after, sums, (first, second, counts), 100.0, 0.1)
    assert_close(value, 0.5 * total.detach())
    for before, now, gradient, squares in zip(leaves, after, gradients, sums):
        assert_close(now, before.detach() - 0.1 * gradient / 2)  # 2 is the root of what was added up before
        assert float(squares.max()) > 5
    alone = (torch.tensor([1]), torch.tensor([2]), torch.tensor([3.0]).double())
    before = [each.clone() for each in after]
    error = before[0][1] @ before[1][2] + before[2][1] + before[3][2] - math.log(3)
    slope = 0.03**0.75 * error
    known = sums[0][1].clone()
    glove(after, sums, alone, 100.0, 0.1)
    assert_close(sums[0][1], known + (slope * before[1][2]) ** 2)
    assert_close(after[0][1], before[0][1] - 0.1 * slope * before[1][2] / known.sqrt())


def test_a_small_vocabulary_is_learned_from_in_small_steps():
    assert [word_vectors.blocks_at_once(count) for count in (3, 999, 1000, 10**6)] == [
        1,
        1,
        2,
        word_vectors.BLOCKS_AT_ONCE,
    ]
    assert DRAWN > NEGATIVE
