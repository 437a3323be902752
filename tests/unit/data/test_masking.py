"""Words are hidden as Devlin et al. (2019) say."""

import pytest
import torch

from manyheads.data.masked_rows import masked

MASK, VOCABULARY, SPECIAL = 4, 50, (0, 2, 7)  # special ids need not be the first


def drawn(ids, may, seed=1, vocabulary=VOCABULARY):
    generator = torch.Generator().manual_seed(seed)
    return masked(ids, may, mask=MASK, vocabulary=vocabulary, special=SPECIAL, generator=generator)


def test_of_the_chosen_most_are_masked_some_replaced_and_some_stay():
    ids = torch.full((1000, 1000), 9)
    changed, chosen = drawn(ids, torch.ones_like(ids, dtype=torch.bool))
    assert chosen.float().mean().item() == pytest.approx(0.15, abs=0.005)
    fates = changed[chosen]
    assert (fates == MASK).float().mean().item() == pytest.approx(0.8, abs=0.01)
    others = fates[(fates != MASK) & (fates != 9)]
    ordinary = VOCABULARY - len(SPECIAL) - 1
    assert len(others) / len(fates) == pytest.approx(0.1 * (1 - 1 / ordinary), abs=0.01)
    assert (fates == 9).float().mean().item() == pytest.approx(0.1 * (1 + 1 / ordinary), abs=0.01)
    counts = torch.bincount(others, minlength=VOCABULARY)
    assert counts[[MASK, 9, *SPECIAL]].sum() == 0
    rest = [each for each in range(VOCABULARY) if each not in (MASK, 9, *SPECIAL)]
    assert counts[rest].min() > 0.7 * counts[rest].max()  # every other id is as likely
    changed, chosen = drawn(ids, torch.ones_like(ids, dtype=torch.bool), vocabulary=8)  # 1, 3, 5 and 6 are ordinary
    assert set(changed[chosen].tolist()) == {1, 3, 5, 6, 9, MASK}


def test_only_what_may_be_is_chosen_and_nothing_else_changes():
    ids = torch.randint(10, VOCABULARY, (60, 70))
    before, may = ids.clone(), torch.rand(60, 70) < 0.5
    changed, chosen = drawn(ids, may)
    assert torch.equal(ids, before)
    assert changed.dtype == ids.dtype
    assert not (chosen & ~may).any()
    assert torch.equal(changed[~chosen], ids[~chosen])
    assert (changed != ids).any()
    assert chosen.sum() / may.sum() == pytest.approx(0.15, abs=0.03)


def test_every_row_that_has_words_has_one_to_predict():
    may = torch.zeros(300, 5, dtype=torch.bool)
    may[torch.arange(300), torch.arange(300) % 5] = True
    may[::3] = False
    _, chosen = drawn(torch.full((300, 5), 9), may)
    assert torch.equal(chosen, may)


def test_the_generator_alone_decides():
    ids, may = torch.randint(10, VOCABULARY, (6, 70)), torch.ones(6, 70, dtype=torch.bool)
    one, torch_state = drawn(ids, may), torch.get_rng_state()
    torch.manual_seed(99)
    assert all(torch.equal(a, b) for a, b in zip(one, drawn(ids, may)))
    assert not torch.equal(torch.get_rng_state(), torch_state)
    assert not torch.equal(one[1], drawn(ids, may, seed=2)[1])
