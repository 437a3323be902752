import pytest
import torch

from manyheads.ops.sampling import best_allowed, drawn, filtered, penalised, top


@pytest.mark.parametrize("vocabulary", [5, 63, 64, 65, 511, 512, 1021, 2048, 4099])
@pytest.mark.parametrize("count", [1, 2, 5, 8])
def test_it_is_topk(vocabulary, count):
    count = min(count, vocabulary)
    values = torch.randperm(7 * vocabulary).float().view(7, vocabulary)  # no two are equal, so places are unique
    expected = values.topk(count)
    found = top(values, count)
    assert torch.equal(found[0], expected.values)
    assert torch.equal(found[1], expected.indices)


def test_the_best_may_share_a_block_or_lie_behind_the_last_whole_one():
    values = torch.zeros(2, 64 * 40 + 3)
    values[0, 130:134] = torch.tensor([3.0, 4.0, 2.0, 1.0])  # all in one block
    values[1, [0, 64 * 40, 64 * 40 + 2]] = torch.tensor([1.0, 3.0, 2.0])  # in the tail
    found, places = top(values, 3)
    assert found.tolist() == [[4, 3, 2], [3, 2, 1]]
    assert places.tolist() == [[131, 130, 132], [2560, 2562, 0]]


def test_what_is_forbidden_comes_last():
    values = torch.full((1, 64 * 20), -torch.inf)
    values[0, 77] = -5.0
    found, places = top(values, 2)
    assert places[0, 0] == 77
    assert found.tolist() == [[-5.0, -torch.inf]]


def test_what_is_never_produced_is_passed_over():
    values = torch.tensor([[1.0, 9.0, 3.0, 8.0], [4.0, 9.0, 0.0, 8.0]])
    assert best_allowed(values.clone(), 2, (1, 3))[1].tolist() == [[2, 0], [0, 2]]
    assert best_allowed(values.clone(), 2, ())[1].tolist() == [[1, 3], [1, 3]]


# Striking out.


@pytest.fixture(scope="module")
def theirs():
    return pytest.importorskip("transformers.generation.logits_process")


def warped(theirs, logits, top_k=0, top_p=1.0, min_p=0.0):
    ids = torch.zeros(len(logits), 1, dtype=torch.long)
    for value, off, kind in (
        (top_k, 0, theirs.TopKLogitsWarper),
        (top_p, 1.0, theirs.TopPLogitsWarper),
        (min_p, 0.0, theirs.MinPLogitsWarper),
    ):
        logits = logits if value == off else kind(value)(ids, logits)
    return logits


# From a model that knows what it wants to one that knows nothing, whose nucleus is thousands of tokens.
SPREADS = torch.tensor([8.0, 2.0, 1.0, 0.3, 0.01], dtype=torch.double)[:, None]
FILTERS = [
    *({"top_k": each} for each in (1, 7, 1500, 5000)),
    *({"top_p": each} for each in (0.01, 0.5, 0.95, 0.999)),
    *({"min_p": each} for each in (0.05, 0.9, 1.0)),
    *({"top_k": 40, "top_p": 0.8}, {"top_k": 2000, "top_p": 0.9}, {"top_k": 50, "min_p": 0.1}),
    *({"top_p": 0.9, "min_p": 0.02}, {"top_k": 30, "top_p": 0.9, "min_p": 0.1}),
]


@pytest.mark.parametrize("vocabulary", [11, 1025, 4099])
@pytest.mark.parametrize("how", FILTERS, ids=str)
def test_what_is_kept_is_what_transformers_keeps(theirs, how, vocabulary):
    logits = SPREADS * torch.randn(5, vocabulary, dtype=torch.double)
    found = filtered(logits, **how)
    expected = warped(theirs, logits, **{**how, "top_k": min(how.get("top_k", 0), vocabulary)})
    assert torch.equal(found, expected)
    assert torch.equal((found > -torch.inf).any(dim=1), torch.ones(5, dtype=torch.bool))
    assert torch.equal(found.argmax(dim=1), logits.argmax(dim=1))


def test_a_flat_distribution_keeps_more_than_is_usually_sorted():
    logits = 0.01 * torch.randn(2, 4099)
    logits[0, 77] = 20.0
    assert (filtered(logits, top_p=0.9) > -torch.inf).sum(dim=1).tolist() == [1, pytest.approx(0.9 * 4099, rel=0.01)]


def test_in_single_precision_the_nucleus_is_the_same_but_for_rounding(theirs):
    logits = SPREADS.float() * torch.randn(5, 4099)
    for top_p in (0.3, 0.9, 0.99):
        found, expected = ((each > -torch.inf).sum(dim=1) for each in
                           (filtered(logits, top_p=top_p), warped(theirs, logits, top_p=top_p)))  # fmt: skip
        assert bool(((found - expected).abs() <= 2).all())
        kept = filtered(logits, top_p=top_p)
        mass = logits.double().softmax(dim=1).masked_fill(kept == -torch.inf, 0.0).sum(dim=1)
        assert bool((mass > top_p - 1e-5).all())


def test_what_was_struck_out_before_stays_so_and_nothing_asked_is_nothing_done():
    logits = torch.randn(3, 13)
    logits[:, 4] = -torch.inf
    for how in ({}, {"top_k": 13}, {"top_p": 0.9999}, {"min_p": 1e-9}):
        assert torch.equal(filtered(logits, **how), logits)
    before = logits.clone()
    filtered(logits, top_k=3, top_p=0.5, min_p=0.2)
    assert torch.equal(logits, before)  # which is not written to


@pytest.mark.parametrize("penalty", [1.3, 0.7, 1.0])
def test_the_penalty_is_that_of_transformers(theirs, penalty):
    signs = torch.tensor([1.0, -1.0]).repeat(7)[:13]  # both among those seen
    logits, prompt = torch.randn(3, 13).abs() * signs, torch.tensor([[2, 5, 2], [0, 12, 1], [7, 7, 7]])
    seen = torch.zeros(3, 13, dtype=torch.bool).scatter(1, prompt, True)
    expected = theirs.RepetitionPenaltyLogitsProcessor(penalty)(prompt, logits.clone())
    found = penalised(logits, seen, penalty)
    assert torch.equal(found, expected)
    if penalty > 1:
        assert bool((found[seen] < logits[seen]).all())


# Drawing.


def test_each_token_is_drawn_with_its_share():
    count = 20_000
    uniform = (torch.arange(count, dtype=torch.double) + 0.5) / count
    logits = torch.tensor([0.3, -torch.inf, 2.0, -1.0, 0.0, -torch.inf])
    found = torch.bincount(drawn(logits.expand(count, -1), uniform), minlength=6) / count
    assert torch.allclose(found.double(), logits.double().softmax(dim=0), atol=1.5 / count)


def test_each_row_is_drawn_from_its_own_logits():
    logits = torch.full((3, 7), -torch.inf)
    logits[[0, 1, 2], [4, 0, 6]] = torch.tensor([-3.0, 100.0, 0.0])
    assert drawn(logits, torch.tensor([0.1, 0.5, 0.9])).tolist() == [4, 0, 6]


@pytest.mark.parametrize("vocabulary", [3, 64, 4099])
def test_what_is_struck_out_is_never_drawn_not_even_at_the_ends(vocabulary):
    logits = torch.randn(60, vocabulary) * 4
    logits[torch.rand(60, vocabulary) < 0.6] = -torch.inf
    logits[:20, 0] = logits[20:40, -1] = -torch.inf  # the first and the last token among them
    logits[:, vocabulary // 2] = 0.0
    below_one = torch.nextafter(torch.tensor(1.0), torch.tensor(0.0))
    assert below_one < 1
    possible = logits > -torch.inf
    for number, at_the_end in ((0.0, possible.int().argmax(1)), (float(below_one), None), (0.5, None)):
        found = drawn(logits, torch.full((60,), number))
        assert bool(possible[torch.arange(60), found].all())
        if at_the_end is not None:
            assert torch.equal(found, at_the_end)
    assert not possible[:, 0].all()
    assert not possible[:, -1].all()


def test_a_uniform_number_that_was_rounded_up_to_one_still_gives_a_token():
    logits = torch.tensor([[0.0, 1.0, -torch.inf, -torch.inf], [0.0, 1.0, 2.0, 3.0]])
    assert drawn(logits, torch.ones(2)).tolist() == [1, 3]
