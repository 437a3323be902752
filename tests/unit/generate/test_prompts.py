"""Prompts of different lengths in one batch, through the cache and past the context."""

from itertools import product
from types import SimpleNamespace

import pytest
import torch
from helpers import positions, randomised
from torch import nn

from manyheads.generate.beam import beam_search
from manyheads.generate.greedy import decoded, greedy
from manyheads.generate.prompts import PromptSteps, WholePromptSteps
from manyheads.generate.sample import Sampler, Sampling
from manyheads.generate.score import log_probabilities
from manyheads.generate.steps import SpecialIds
from manyheads.models.gpt import GPT, GPTConfig
from manyheads.models.llama import Llama, LlamaConfig

V, END, NO_STOP = 23, 1, -1
CPU = torch.device("cpu")
PROMPTS = [[5, 9, 3], [7], [2, 16, 11, 6, 8], [4, 4], [13, 5, 9, 3]]


@pytest.fixture(autouse=True)
def _memory_never_written_holds_no_number():
    """Whoever looks at it is found out, and not once in a hundred runs."""
    torch.use_deterministic_algorithms(True)
    assert torch.empty(3).isnan().all()
    yield
    torch.use_deterministic_algorithms(False)


def random_model(kind="learned", family=GPT, context=64, vocabulary=V, seed=11, **changes):
    torch.manual_seed(seed)
    sizes = {"vocabulary": vocabulary, "context": context, "width": 24, "layers": 2, "heads": 6, "end": END}
    if family is Llama:
        return randomised(
            Llama(LlamaConfig(**sizes, key_value_heads=2, inner=20, positions=positions(kind), **changes))
        )
    return randomised(GPT(GPTConfig(**sizes, inner=20, positions=positions(kind, context), **changes)))


EVERY = [(GPT, "learned"), (GPT, "sinusoidal"), (GPT, "buckets")]
EVERY += [(Llama, "rotary"), (Llama, "alibi"), (Llama, "relative")]


@pytest.fixture(params=EVERY, ids=lambda each: f"{each[0].__name__}-{each[1]}")
def every_model(request):
    return lambda **sizes: random_model(request.param[1], request.param[0], **sizes)


def written(model, prompts, tokens, *, steps=PromptSteps, copies=1, sampling=None, end=NO_STOP, streams=None):
    """What follows each prompt, `copies` times, each with its end where it has one."""
    rows = [row for row in prompts for _ in range(copies)]
    limits = torch.full((len(rows),), tokens) if isinstance(tokens, int) else torch.tensor(tokens)
    streams = streams or [copy for _ in prompts for copy in range(copies)]
    choose = Sampler(sampling or Sampling(temperature=0.0), rows, streams, V, (), CPU)
    found = [[] for _ in rows]
    with torch.inference_mode():
        behind = steps(model, prompts, max(map(len, prompts)) + int(limits.max()), copies)
        for alive, newest in decoded(behind, limits, SpecialIds(stop_ids=(end,)), choose):
            for row, each in zip(alive.tolist(), newest.tolist(), strict=True):
                if len(found[row]) < limits[row] and end not in found[row]:
                    found[row].append(each)
    return found


def by_hand(model, prompt, tokens):
    """The likeliest token, `tokens` times, with neither batch nor cache; a full context goes on from its newer half."""
    ids, begin = list(prompt), 0
    with torch.inference_mode():
        for _ in range(tokens):
            if len(ids) - begin == model.config.context + 1:
                begin += model.config.context - model.config.context // 2
            ids.append(int(model(torch.tensor([ids[begin:]]))[0, -1].argmax()))
    return ids[len(prompt) :]


SAMPLED = Sampling(temperature=1.3, top_k=9, repetition_penalty=1.2, seed=3)


def test_a_batch_is_each_alone_cached_or_not(every_model):
    model = every_model()
    for sampling in (None, SAMPLED):
        together = written(model, PROMPTS, 9, sampling=sampling)
        assert together == written(model, PROMPTS, 9, sampling=sampling, steps=WholePromptSteps)
        assert together == [written(model, [row], 9, sampling=sampling)[0] for row in PROMPTS]
        assert {len(row) for row in together} == {9}
        if not sampling:
            assert together == [by_hand(model, row, 9) for row in PROMPTS]
    assert len(set(map(tuple, together))) == len(PROMPTS)  # they have different things to say


def test_rows_that_fill_the_context_go_on_from_its_newer_half(every_model):
    model, prompts = every_model(context=8), PROMPTS[:3]
    together = written(model, prompts, 30)
    assert together == [by_hand(model, row, 30) for row in prompts]
    together = written(model, prompts, 30, sampling=SAMPLED)
    assert together == written(model, prompts, 30, sampling=SAMPLED, steps=WholePromptSteps)
    assert together == [written(model, [row], 30, sampling=SAMPLED)[0] for row in prompts]
    assert {len(row) for row in together} == {30}


@pytest.mark.parametrize(
    ("context", "prompts", "tokens"),
    [
        *((context, [row[:context] for row in ([5, 9], [7], [3, 2])], [13] * 3) for context in (1, 2, 3, 5, 7)),
        pytest.param(5, [[5, 9, 3, 8, 2], [7, 2]], [8, 8], id="a prompt that is the whole context"),
        pytest.param(8, [[5, 9, 3, 8, 2, 4, 7], [7, 2]], [2, 9], id="one that is done leaves room"),
    ],
)
def test_any_context_can_be_passed(context, prompts, tokens):
    model = random_model(context=context)
    expected = [by_hand(model, row, each) for row, each in zip(prompts, tokens)]
    assert written(model, prompts, tokens) == expected
    assert written(model, prompts, tokens, steps=WholePromptSteps) == expected


@pytest.mark.parametrize("context", [64, 8])
def test_copies_of_a_prompt_are_samples_of_their_own(context):
    model, prompts = random_model("rotary", Llama, context=context), PROMPTS[:3]
    together = written(model, prompts, 12, copies=3, sampling=SAMPLED)
    assert together == written(model, prompts, 12, copies=3, sampling=SAMPLED, steps=WholePromptSteps)
    for place, row in enumerate(prompts):
        samples = together[3 * place : 3 * place + 3]
        assert len(set(map(tuple, samples))) == 3
        assert samples == [written(model, [row], 12, sampling=SAMPLED, streams=[copy])[0] for copy in range(3)]


MANY = [[each, 2 * each % V] + [3] * (each % 4) for each in range(2, 21)]


def ends_sometimes(bias=1.0, **sizes):
    model = random_model(**sizes)
    model.output.bias[END] += bias
    return model


def each_in_its_own_time(model, tokens):
    """What many prompts are given, each with chances of its own, found in three ways."""
    how = {"sampling": SAMPLED, "end": END}
    together = written(model, MANY, tokens, streams=[*range(len(MANY))], **how)
    assert together == written(model, MANY, tokens, streams=[*range(len(MANY))], steps=WholePromptSteps, **how)
    assert together == [written(model, [row], tokens, streams=[place], **how)[0] for place, row in enumerate(MANY)]
    return together


def test_rows_end_each_in_its_own_time():
    together = each_in_its_own_time(ends_sometimes(), 20)
    assert len(set(map(len, together))) > 4
    assert sum(row[-1] == END for row in together) > 4


def test_rows_may_end_while_others_pass_the_context():
    together = each_in_its_own_time(ends_sometimes(bias=-1.0, context=8), 30)
    assert sum(len(row) > 8 for row in together) > 3
    assert len(set(map(len, together))) > 3


def test_greedy_search_over_prompts_is_the_likeliest_each_time():
    model = random_model()
    limits = [4, 9, 9, 2, 7]
    with torch.inference_mode():
        found = greedy(PromptSteps(model, PROMPTS, 20), torch.tensor(limits), SpecialIds())
    ids = [by_hand(model, row, limit) for row, limit in zip(PROMPTS, limits)]
    # Nothing ends, so what waits for others behind its limit is filled with the end that is none.
    assert [[each for each in hypothesis.ids if each >= 0] for hypothesis in found] == ids
    scores = [each.total for each in log_probabilities(model, list(zip(PROMPTS, ids)))]
    assert [each.score for each in found] == pytest.approx(scores, abs=1e-4)


# Reading along.


def test_a_reader_that_lowers_a_limit_ends_that_row_alone_and_one_that_lowers_all_ends_all():
    model, limits, seen = random_model(), torch.full((5,), 9), [[] for _ in PROMPTS]
    whole = written(model, PROMPTS, 9)
    choose = Sampler(Sampling(temperature=0.0), PROMPTS, [0] * 5, V, (), CPU)
    sizes = []
    with torch.inference_mode():
        steps = PromptSteps(model, PROMPTS, 20)
        for step, (rows, newest) in enumerate(decoded(steps, limits, SpecialIds(), choose)):
            sizes.append(len(rows))
            for row, each in zip(rows.tolist(), newest.tolist(), strict=True):
                seen[row].append(each)
            if step == 2:
                limits[[0, 3]] = 0
            if step == 6:
                limits[:] = 0
    assert [len([each for each in row if each != NO_STOP]) for row in seen] == [3, 7, 7, 3, 7]
    assert sizes == [5, 5, 5, 3, 3, 3, 3]  # what has ended leaves
    assert [row[:3] for row in seen] == [row[:3] for row in whole]
    assert [seen[row] for row in (1, 2, 4)] == [whole[row][:7] for row in (1, 2, 4)]


# Beams.


@torch.inference_mode()
def test_beams_go_on_from_the_beams_named():
    model, tokens = random_model("alibi"), torch.tensor([3, 4, 5, 6, 7, 8])
    steps, whole = (kind(model, PROMPTS[:3], 20, 2) for kind in (PromptSteps, WholePromptSteps))
    for each in (steps, whole):
        each(each.first)
        each(tokens)
        each.select(torch.tensor([[1, 1], [0, 1], [1, 0]]), torch.tensor([2, 0]))
    assert whole.history == [[*PROMPTS[2], 8], [*PROMPTS[2], 7], [*PROMPTS[0], 4], [*PROMPTS[0], 4]] == steps.history
    new = torch.tensor([9, 10, 11, 12])
    torch.testing.assert_close(steps(new), whole(new))
    alone = model(torch.tensor([[*PROMPTS[2], 8, 9]]))[0, -1]
    torch.testing.assert_close(whole(new)[0], model(torch.tensor([[*PROMPTS[2], 8, 9, 9]]))[0, -1])
    assert not torch.allclose(alone, whole(new)[0])


@pytest.mark.parametrize(("beams", "context", "limit"), [(1, 8, 14), (2, 64, 9), (3, 8, 14), (4, 64, 9)])
def test_beam_search_is_the_same_cached_or_not_together_or_alone(beams, context, limit):
    model = ends_sometimes(context=context)

    def searched(prompts, steps=PromptSteps):
        with torch.inference_mode():
            behind = steps(model, prompts, 5 + limit, beams)
            return beam_search(
                behind, torch.full((len(prompts),), limit), SpecialIds(stop_ids=(END,)), beams=beams, alpha=0.6
            )

    together = searched(PROMPTS)
    for others in (searched(PROMPTS, WholePromptSteps), [searched([row])[0] for row in PROMPTS]):
        assert [[each.ids for each in row] for row in others] == [[each.ids for each in row] for row in together]
        assert [each.score for row in others for each in row] == pytest.approx(
            [each.score for row in together for each in row], abs=1e-4
        )
    assert len({len(each.ids) for row in together for each in row}) > 1


def test_a_beam_that_holds_everything_finds_everything():
    model, prompts, limit, end = random_model(vocabulary=4), [[2, 3, 1], [3]], 3, 0
    bodies = [body for length in range(limit) for body in product((1, 2, 3), repeat=length)]
    every = [[*body, end] for body in bodies] + [[*body] for body in product((1, 2, 3), repeat=limit)]
    with torch.inference_mode():
        steps = PromptSteps(model, prompts, 9, len(every))
        found = beam_search(steps, torch.tensor([limit] * 2), SpecialIds(stop_ids=(end,)), beams=len(every), alpha=0.0)
    for prompt, hypotheses in zip(prompts, found, strict=True):
        scored = log_probabilities(model, [(prompt, ids) for ids in every])
        expected = sorted(zip((each.total for each in scored), every), reverse=True)
        assert [each.score for each in hypotheses] == pytest.approx([total for total, _ in expected], abs=1e-4)
        assert [each.ids for each in hypotheses[:5]] == [[i for i in ids if i != end] for _, ids in expected[:5]]


class Recurrent(nn.Module):
    """A language model with another state than a key-value cache."""

    rows_share_length = True

    def __init__(self):
        super().__init__()
        self.config = SimpleNamespace(context=64)
        self.embedding, self.output = nn.Embedding(V, 8), nn.Linear(8, V)
        self.cell = nn.GRU(8, 8, batch_first=True)

    def decoding_state(self, capacity, beams=1):
        return RecurrentState()

    def states(self, ids, cache=None):
        states, last = self.cell(self.embedding(ids), cache.hidden if cache else None)
        if cache:
            cache.hidden = last
        return states

    def forward(self, ids, cache=None):
        return self.output(self.states(ids, cache))


class RecurrentState:
    """What a recurrent model goes on from: one vector a row."""

    hidden, ends = None, ()

    def select(self, beams_NK, sentences):
        self.hidden = self.hidden if sentences is None else self.hidden[:, sentences]


def test_any_state_that_a_model_advances_will_do():
    torch.manual_seed(2)
    model, prompts = Recurrent().eval(), [[5, 9, 3], [7, 2, 2], [4, 4, 1]]
    assert written(model, prompts, 9) == [by_hand(model, row, 9) for row in prompts]
    several = written(model, prompts, 9, copies=2, sampling=SAMPLED)
    assert several[::2] == [written(model, [row], 9, sampling=SAMPLED)[0] for row in prompts]
    assert several[::2] != several[1::2]
