"""How the next token is chosen, and that a row's chances are its own."""

from itertools import chain

import pytest
import torch

from manyheads.core.errors import ConfigError
from manyheads.generate.sample import Sampler, Sampling

V = 13
CPU = torch.device("cpu")


def sampler(sampling: Sampling, streams=(0, 1, 2), prompts=None, never=()) -> Sampler:
    prompts = prompts or [[3]] * len(streams)
    return Sampler(sampling, prompts, list(streams), V, never, CPU)


def steps(count, rows=3, seed=5):
    return torch.randn(count, rows, V, generator=torch.Generator().manual_seed(seed)) * 1.5


def drawn_by(chooser: Sampler, logits, rows=None) -> list[list[int]]:
    """What each row is given, step after step."""
    rows = torch.arange(logits.shape[1]) if rows is None else rows
    return torch.stack([chooser(each.clone(), rows) for each in logits], dim=1).tolist()


def test_the_same_seed_gives_the_same_tokens_and_another_gives_others():
    logits = steps(20)
    first, again, other = (drawn_by(sampler(Sampling(seed=seed)), logits) for seed in (4, 4, 2**32 - 1))
    assert first == again
    assert all(one != two for one, two in zip(first, other))


def test_streams_are_a_rows_own_in_a_batch_and_alone():
    logits = steps(20)
    streams = [2, 0, 7]
    together = drawn_by(sampler(Sampling(), streams), logits)
    for row, stream in enumerate(streams):
        assert drawn_by(sampler(Sampling(), [stream]), logits[:, row : row + 1]) == [together[row]]
    assert drawn_by(sampler(Sampling(), [3]), logits[:, :1]) != [together[0]]  # another stream gives others


def test_rows_of_one_stream_have_the_same_chances_and_of_different_streams_others():
    logits = steps(20, rows=1).expand(-1, 3, -1)
    one, other, same = drawn_by(sampler(Sampling(), [1, 2, 1]), logits)
    assert one == same
    assert one != other


def test_that_others_leave_changes_nothing_for_those_who_stay():
    logits = steps(20)
    together = drawn_by(sampler(Sampling()), logits)
    chooser, staying = sampler(Sampling()), torch.tensor([0, 2])
    begun = drawn_by(chooser, logits[:6])
    rest = drawn_by(chooser, logits[6:, staying], staying)
    assert [begun[0] + rest[0], begun[2] + rest[1]] == [together[0], together[2]]


def test_temperature_zero_is_the_likeliest_whatever_else_is_asked():
    logits = steps(9)
    expected = logits.argmax(dim=2).T.tolist()
    assert drawn_by(sampler(Sampling(temperature=0.0)), logits) == expected
    assert drawn_by(sampler(Sampling(temperature=0.0, top_p=0.5, top_k=3, seed=9)), logits) == expected
    assert drawn_by(sampler(Sampling(top_k=1)), logits) == expected
    for towards_zero in (1e-3, 1e-20, 1e-38):
        assert drawn_by(sampler(Sampling(temperature=towards_zero)), logits) == expected
    assert drawn_by(sampler(Sampling()), logits) != expected


def test_the_temperature_makes_the_likely_likelier():
    logits = torch.tensor([2.0, 1.0, 0.0]).expand(400, 1, 3)
    chosen = {
        temperature: drawn_by(Sampler(Sampling(temperature=temperature), [[0]], [0], 3, (), CPU), logits)[0].count(0)
        for temperature in (0.3, 1.0, 5.0)
    }
    assert chosen[0.3] > chosen[1.0] + 50 > chosen[5.0] + 100
    expected = 400 * torch.tensor([2.0, 1.0, 0.0]).softmax(dim=0)[0]
    assert abs(chosen[1.0] - float(expected)) < 40


@pytest.mark.parametrize("how", [{"top_k": 3}, {"top_p": 0.5}, {"min_p": 0.5}], ids=str)
def test_what_is_unlikely_is_not_drawn(how):
    logits = (steps(1, rows=1) / 3).expand(200, 1, V)
    found = set(drawn_by(sampler(Sampling(**how), [0]), logits)[0])
    likely = logits[0, 0].argsort(descending=True).tolist()
    assert 1 < len(found) < 7
    assert found == set(likely[: len(found)])
    assert len(set(drawn_by(sampler(Sampling(), [0]), logits)[0])) > len(found)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_what_may_never_be_produced_is_not(temperature):
    logits = steps(50)
    logits[..., [0, 4]] += 5.0
    found = drawn_by(sampler(Sampling(temperature=temperature), never=(0, 4)), logits)
    assert not {0, 4} & set(chain(*found))
    assert {0, 4} & set(chain(*drawn_by(sampler(Sampling(temperature=temperature)), logits)))


def test_the_penalty_counts_the_prompt_and_what_was_chosen_each_row_for_itself():
    logits = torch.zeros(4, 2, V)
    logits[:] = torch.linspace(9.0, 8.0, V)  # the first is the likeliest, all are close
    chooser = sampler(Sampling(temperature=0.0, repetition_penalty=1.5), [0, 1], [[0, 2], [5]])
    assert drawn_by(chooser, logits) == [[1, 3, 4, 5], [0, 1, 2, 3]]
    assert drawn_by(chooser, logits[:2, :1], torch.tensor([1])) == [[4, 6]]  # the first has left
    assert drawn_by(sampler(Sampling(temperature=0.0), [0, 1], [[0, 2], [5]]), logits) == [[0] * 4, [0] * 4]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"temperature": -0.5}, "temperature is -0.5; it must be at least 0, which is greedy search"),
        ({"temperature": float("inf")}, "temperature is inf"),
        ({"temperature": float("nan")}, "temperature is nan"),
        ({"top_k": -1}, "top-k is -1; it must be at least 1, or 0 for all tokens"),
        ({"top_p": 2}, "top-p is 2; it must be above 0 and at most 1, which is all tokens"),
        ({"top_p": 0.0}, "top-p is 0.0"),
        ({"top_p": float("nan")}, "top-p is nan"),
        ({"min_p": 1.5}, "min-p is 1.5; it must be between 0, which is all tokens, and 1"),
        ({"repetition_penalty": 0.0}, "repetition-penalty is 0.0; it must be above 0, 1 being none"),
        ({"seed": -1}, "seed is -1; it must be at least 0 and below 4294967296"),
        ({"seed": 2**32}, "seed is 4294967296"),
    ],
)
def test_what_cannot_be_is_refused_in_a_sentence(change, sentence):
    with pytest.raises(ConfigError, match=sentence) as refused:
        Sampling(**change)
    assert "\n" not in str(refused.value)
