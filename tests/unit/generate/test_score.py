"""What a model makes of a text that is already there."""

from itertools import chain

import pytest
import torch
from helpers import randomised

from manyheads.generate import score
from manyheads.generate.score import Scored, log_probabilities, windows
from manyheads.models.gpt import GPT, GPTConfig
from manyheads.nn.positions import PositionsConfig

V, CONTEXT = 17, 9


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(3)
    return randomised(GPT(GPTConfig(vocabulary=V, context=CONTEXT, width=12, layers=2, heads=3, inner=14)), 0.4)


def rows(count):
    draw = torch.Generator().manual_seed(count)
    ids = torch.randint(V, (count, CONTEXT + 1), generator=draw).tolist()
    begun = [1 + (7 * row) % 5 for row in range(count)]
    return [(row[:first], row[first : first + 1 + place % 4]) for place, (row, first) in enumerate(zip(ids, begun))]


def by_hand(model, begun, continuation):
    """One prediction after the other, each from all that is before it."""
    total, greedy = 0.0, True
    for place, each in enumerate(continuation):
        with torch.no_grad():
            logits = model(torch.tensor([begun + continuation[:place]]))[0, -1]
        total += float(logits.log_softmax(dim=0)[each])
        greedy &= int(logits.argmax()) == each
    return total, greedy


def assert_same(found, expected):
    assert [each.total for each in found] == pytest.approx([each.total for each in expected], abs=1e-4)
    assert [(each.tokens, each.greedy) for each in found] == [(each.tokens, each.greedy) for each in expected]


def test_it_is_the_sum_of_log_softmax_by_hand_in_the_order_given(model):
    asked = rows(23)
    assert len({(len(begun), len(rest)) for begun, rest in asked}) > 10
    expected = [Scored(*by_hand(model, *row)[:1], len(row[1]), by_hand(model, *row)[1]) for row in asked]
    assert_same(log_probabilities(model, asked), expected)
    assert len({round(each.total, 3) for each in expected}) == 23  # so that another order could not pass
    assert_same(log_probabilities(model, asked[::-1])[::-1], expected)


def test_rows_whose_positions_turn_by_the_longest_beside_them_are_scored_as_alone(monkeypatch):
    torch.manual_seed(5)
    positions = PositionsConfig(kind="rotary", scaling="dynamic_ntk", factor=2.0, length=3)
    sizes = {"vocabulary": V, "context": CONTEXT, "width": 12, "layers": 2, "heads": 3, "inner": 14}
    model = randomised(GPT(GPTConfig(**sizes, positions=positions)), 0.4)
    asked = rows(23)
    alone = [log_probabilities(model, [row])[0] for row in asked]
    shapes, known = [], model.states
    monkeypatch.setattr(model, "states", lambda ids: shapes.append(ids.shape) or known(ids))
    assert_same(log_probabilities(model, asked), alone)
    lengths = {len(begun) + len(rest) for begun, rest in asked}
    assert len(shapes) == len(lengths) < len(asked)  # those of one length go together
    monkeypatch.setattr(GPT, "rows_share_length", False)
    padded = log_probabilities(model, asked)
    assert max(abs(one.total - other.total) for one, other in zip(padded, alone)) > 0.01


@pytest.mark.parametrize(("tokens", "logits"), [(1, 1), (20, 3), (8192, 5)])
def test_batches_of_any_size_give_the_same(model, monkeypatch, tokens, logits):
    asked = rows(23)
    expected = log_probabilities(model, asked)
    shapes, known = [], model.states
    monkeypatch.setattr(model, "states", lambda ids: shapes.append(ids.shape) or known(ids))
    monkeypatch.setattr(score, "BATCH_TOKENS", tokens)
    monkeypatch.setattr(score, "LOGITS_AT_ONCE", logits)
    assert_same(log_probabilities(model, asked), expected)
    assert sum(shape[0] for shape in shapes) == 23
    assert all(shape[0] == 1 or shape[0] * (shape[1] + 1) <= tokens for shape in shapes)
    assert len(shapes) == {1: 23, 20: len(shapes), 8192: 1}[tokens]


def test_what_greedy_search_would_have_written_is_known(model):
    begun = [3, 8]
    written = []
    for _ in range(4):
        with torch.no_grad():
            written.append(int(model(torch.tensor([begun + written]))[0, -1].argmax()))
    another = [*written[:3], (written[3] + 1) % V]
    asked = [(begun, written), (begun, another), (begun, written[:3]), (begun, [(written[0] + 1) % V])]
    assert [each.greedy for each in log_probabilities(model, asked)] == [True, False, True, False]


def test_a_long_beginning_loses_its_oldest_tokens(model):
    long = torch.randint(V, (30,)).tolist()
    continuation = [4, 2, 7]
    found = log_probabilities(model, [(long, continuation)])[0]
    with torch.no_grad():  # the model sees as much as it can, once for all of the continuation
        logits = model(torch.tensor([(long + continuation)[-CONTEXT - 1 : -1]]))[0].log_softmax(dim=-1)
    assert found.total == pytest.approx(sum(float(logits[place - 3, each]) for place, each in enumerate(continuation)))
    assert log_probabilities(model, [(long[-7:], continuation)])[0].total == pytest.approx(found.total, abs=1e-5)
    assert log_probabilities(model, [(long[-6:], continuation)])[0].total != pytest.approx(found.total, abs=1e-3)


def test_the_longest_that_fits_is_a_whole_context(model):
    whole = torch.randint(V, (CONTEXT + 1,)).tolist()
    found = log_probabilities(model, [(whole[:1], whole[1:])])[0]
    assert found.tokens == CONTEXT
    assert found.total == pytest.approx(by_hand(model, whole[:1], whole[1:])[0], abs=1e-4)


@pytest.mark.parametrize(("begun", "rest"), [([], [3]), ([3], []), ([3], [4] * (CONTEXT + 1))])
def test_what_cannot_be_scored_is_refused(model, begun, rest):
    with pytest.raises(ValueError, match=f"{len(rest)} tokens behind {len(begun)} cannot be scored"):
        log_probabilities(model, [([1], [2]), (begun, rest)])


def test_nothing_asked_is_nothing_found_and_progress_is_told(model, monkeypatch):
    assert log_probabilities(model, []) == []
    monkeypatch.setattr(score, "BATCH_TOKENS", 40)
    told = []
    log_probabilities(model, rows(23), on_progress=told.append)
    assert told == sorted(told)
    assert told[-1] == 23
    assert len(told) > 3


# Windows over a text that is longer than the context.


def check_windows(length, stride, begun):
    before, ids = [-1 - each for each in range(begun)], list(range(length))
    found = windows(ids, before, CONTEXT, stride)
    assert [*chain(*(rest for _, rest in found))] == ids  # each once, and in order
    text = before + ids
    for number, (seen, rest) in enumerate(found):
        place = text.index(rest[0])
        assert seen == text[place - len(seen) : place]  # what is right before it
        assert len(seen) > 0
        assert len(seen) + len(rest) <= CONTEXT + 1  # the last token is only predicted
        if number:
            assert len(seen) >= CONTEXT - stride
            assert len(rest) <= stride
        else:
            assert seen == before
    if length > CONTEXT:
        assert len(found) > 1


@pytest.mark.parametrize("stride", [1, 3, 8, 9])
def test_windows_predict_each_token_once_and_see_enough(stride):
    for length in (1, 2, 8, 9, 10, 11, 17, 18, 19, 40):
        for begun in (1, 3):
            check_windows(length, stride, begun)


def test_a_smaller_stride_sees_more(model):
    text = torch.randint(V, (40,)).tolist()
    for stride in (1, 4, 9):
        found = log_probabilities(model, windows(text[1:], text[:1], CONTEXT, stride))
        assert sum(each.tokens for each in found) == 39
    by_one = [each.total for each in log_probabilities(model, windows(text[1:], text[:1], CONTEXT, 1))][1:]
    expected = [by_hand(model, text[place - CONTEXT : place], [text[place]])[0] for place in range(CONTEXT + 1, 40)]
    assert by_one == pytest.approx(expected, abs=1e-4)


def test_a_beginning_longer_than_the_context_is_not_predicted():
    found = windows([20, 21, 22], [-1 - each for each in range(CONTEXT + 4)], CONTEXT, 3)
    assert [*chain(*(rest for _, rest in found))] == [20, 21, 22]
    assert all(seen and rest for seen, rest in found)
