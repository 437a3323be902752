"""The residual stream: recorded without a trace, and read as the model itself reads it."""

from dataclasses import replace
from itertools import pairwise

import pytest
import torch
from helpers import randomised
from torch import Tensor, nn
from torch.testing import assert_close

from manyheads.core.errors import ConfigError
from manyheads.generate.greedy import greedy
from manyheads.generate.prompts import PromptSteps
from manyheads.generate.steps import CachedSteps, SpecialIds
from manyheads.look.record import recorded_attention
from manyheads.look.residuals import lens, reader, recorded_residuals, residual_norms
from manyheads.models.bert import Bert, BertClassifier, BertConfig, MaskedBert
from manyheads.models.classifier import DecoderClassifier
from manyheads.models.gpt import GPT, GPTConfig
from manyheads.models.llama import Llama, LlamaConfig
from manyheads.models.transformer import Transformer, TransformerConfig
from manyheads.nn.attention import MultiHeadAttention
from manyheads.nn.cache import Cache

NO_DROPOUT = {"dropout": 0.0, "attention_dropout": 0.0}
SMALL = GPTConfig(vocabulary=17, context=11, width=12, layers=3, heads=3, inner=14, end=1, **NO_DROPOUT)
LLAMA = LlamaConfig(vocabulary=17, context=11, width=12, layers=3, heads=3, inner=14)
TRANSLATOR = TransformerConfig(vocabulary=17, width=12, layers=2, decoder_layers=3, heads=3, inner=14, dropout=0.0)
BERT = BertConfig(vocabulary=17, context=11, width=12, layers=3, heads=3, inner=14, **NO_DROPOUT)
IDS = torch.tensor([[5, 9, 3, 8, 4, 1, 2]])
SOURCE = torch.tensor([[6, 13, 11, 7, 1]])

BUILD = {
    "gpt, norm before": (lambda: GPT(SMALL), (IDS,), {"self": (4, 7)}),
    "gpt, norm behind": (lambda: GPT(replace(SMALL, norm_order="post")), (IDS,), {"self": (4, 7)}),
    "llama": (lambda: Llama(LLAMA), (IDS,), {"self": (4, 7)}),
    "masked": (lambda: MaskedBert(BERT), (IDS,), {"self": (4, 7)}),
    "translator": (lambda: Transformer(TRANSLATOR), (SOURCE, IDS), {"encoder": (3, 5), "decoder": (4, 7)}),
    "translator, norm before": (
        lambda: Transformer(replace(TRANSLATOR, norm_order="pre")),
        (SOURCE, IDS),
        {"encoder": (3, 5), "decoder": (4, 7)},
    ),
}
WORDLESS = {
    "bert": lambda: Bert(BERT),
    "bert's labels": lambda: BertClassifier(Bert(BERT), ("good", "bad")),
    "a decoder's labels": lambda: DecoderClassifier(GPT(SMALL), ("good", "bad")),
}


def hooks(model: nn.Module) -> int:
    return sum(len(part._forward_hooks) + len(part._forward_pre_hooks) for part in model.modules())


def recorded(model: nn.Module, *arguments: Tensor) -> dict[str, list[Tensor]]:
    with torch.inference_mode(), recorded_residuals(model) as states:
        model(*arguments)
    return states


@pytest.fixture(params=BUILD.values(), ids=BUILD.keys())
def case(request):
    build, arguments, sizes = request.param
    return randomised(build()), arguments, sizes


@pytest.fixture
def model():
    return randomised(GPT(SMALL))


def test_every_state_of_every_stack_is_recorded(case):
    model, arguments, sizes = case
    states = recorded(model, *arguments)
    assert {kind: (len(found), *found[0].shape) for kind, found in states.items()} == {
        kind: (count, 1, positions, 12) for kind, (count, positions) in sizes.items()
    }
    for found in states.values():
        assert len({state.shape for state in found}) == 1
        assert not any(torch.equal(state, other) for state, other in pairwise(found))


def test_the_output_is_bit_for_bit_the_same_and_no_hook_stays(case):
    model, arguments, _ = case
    before = model(*arguments)
    with recorded_residuals(model) as states:
        assert torch.equal(model(*arguments), before)
        assert hooks(model) > 0
        assert not any(state.requires_grad for found in states.values() for state in found)
    assert hooks(model) == 0


def test_no_hook_stays_when_something_fails(model):
    with pytest.raises(IndexError), recorded_residuals(model):
        model(IDS + 100)
    assert hooks(model) == 0


@torch.inference_mode()
def test_states_are_those_between_the_blocks(model):
    (states,) = recorded(model, IDS).values()
    x = model.positions.add(model.embedding(IDS), 0, 7)
    assert torch.equal(states[0], x)
    for number, block in enumerate(model.blocks, start=1):
        x = block(x, None, None)
        assert torch.equal(states[number], x)


def test_the_last_row_of_the_lens_is_what_the_model_says(case):
    model, arguments, _ = case
    *_, states = recorded(model, *arguments).values()
    read = reader(model)
    assert read is not None
    ids, probabilities = lens(states, read, 5)
    assert ids.shape == probabilities.shape == (4, 7, 5)
    with torch.inference_mode():
        expected = model(*arguments)[0].softmax(dim=-1).topk(5)
    assert torch.equal(ids[-1], expected.indices)
    assert torch.equal(probabilities[-1], expected.values)
    assert not torch.allclose(probabilities[-2], expected.values)  # one layer below it says something else


def test_the_lens_reads_the_first_row_of_a_batch(model):
    (alone,), (both,) = recorded(model, IDS).values(), recorded(model, torch.cat([IDS, IDS.flip(1)])).values()
    read = reader(model)
    assert_close(lens(both, read, 3), lens(alone, read, 3))
    assert not torch.equal(lens([state[1:] for state in both], read, 3)[0], lens(alone, read, 3)[0])


def test_the_lens_needs_no_more_than_one_layer_at_once(model):
    (states,) = recorded(model, IDS).values()
    seen = []

    def read(state: Tensor) -> Tensor:
        seen.append(state.shape)
        return model.output(model.norm(state))

    lens(states, read, 1)
    assert seen == [(1, 7, 12)] * 4


@pytest.mark.parametrize("count", [0, 18])
def test_more_tokens_than_there_are_cannot_be_had(model, count):
    (states,) = recorded(model, IDS).values()
    with pytest.raises(ConfigError, match=f"{count} of 17 tokens were asked for; ask for 1 to 17"):
        lens(states, reader(model), count)


@pytest.mark.parametrize("build", WORDLESS.values(), ids=WORDLESS.keys())
def test_a_model_without_words_has_states_but_nothing_to_read(build):
    model = randomised(build())
    assert reader(model) is None
    states = recorded(model, IDS, torch.tensor([7]))
    assert [state.shape for state in states["self"]] == [(1, 7, 12)] * 4


def test_lengths_of_vectors_are_those_of_the_first_row(model):
    both = torch.cat([IDS, IDS.flip(1)])
    (states,) = recorded(model, both).values()
    norms = residual_norms(states)
    assert norms.shape == (4, 7)
    for layer in range(4):
        for place in range(7):
            assert_close(norms[layer, place], (states[layer][0, place] ** 2).sum().sqrt())
    assert not torch.allclose(norms[0], states[0][1].norm(dim=-1))


def test_nothing_recorded_is_refused(model):
    with recorded_residuals(model) as states:
        pass
    with pytest.raises(ConfigError, match="no states were recorded"):
        residual_norms(states["self"])
    with pytest.raises(ConfigError, match="no states were recorded"):
        lens(states["self"], reader(model), 1)


def test_a_model_without_blocks_is_refused():
    with (
        pytest.raises(ConfigError, match="MultiHeadAttention has no blocks"),
        recorded_residuals(MultiHeadAttention(12, 3)),
    ):
        pass


def test_the_newest_call_replaces_the_one_before(model):
    with torch.inference_mode(), recorded_residuals(model) as states:
        model(IDS)
        model(IDS[:, :3])
    assert torch.equal(states["self"][-1], recorded(model, IDS[:, :3])["self"][-1])


@pytest.mark.parametrize("build", [lambda: GPT(SMALL), lambda: Llama(LLAMA)], ids=["gpt", "llama"])
def test_steps_through_a_cache_are_joined(build):
    model = randomised(build())
    (whole,) = recorded(model, IDS).values()
    cache = Cache(9)
    with torch.inference_mode(), recorded_residuals(model) as states:
        for piece in IDS.split([3, 1, 1, 2], dim=1):
            model(piece, cache=cache)
        assert_close(states["self"], whole)
        cache.clear()
        model(IDS[:, :5], None, cache)
        assert_close(states["self"], [state[:, :5] for state in whole])  # an emptied cache begins anew
        model(IDS[:, 5:6], cache=Cache(4))
    assert [state.shape[1] for state in states["self"]] == [1] * 4  # and so does another


def test_what_is_written_again_is_recorded_again(model):
    (whole,) = recorded(model, IDS).values()
    cache = Cache(9)
    with torch.inference_mode(), recorded_residuals(model) as states:
        model(torch.cat([IDS[:, :4], IDS[:, :3]], dim=1), cache=cache)
        cache.cut([4])
        model(IDS[:, 4:], cache=cache)
    assert_close(states["self"], whole)


def test_recording_may_begin_in_the_middle(model):
    (whole,) = recorded(model, IDS).values()
    cache = Cache(9)
    with torch.inference_mode():
        model(IDS[:, :3], cache=cache)
        with recorded_residuals(model) as states:
            model(IDS[:, 3:5], cache=cache)
            model(IDS[:, :2], cache=cache)
            cache.cut([5])
            model(IDS[:, 5:], cache=cache)
            assert_close(states["self"], [state[:, 3:] for state in whole])
            cache.clear()
            model(IDS[:, :2], cache=cache)
    assert_close(states["self"], [state[:, :2] for state in whole])


def test_a_step_that_failed_is_forgotten(model, monkeypatch):
    (whole,) = recorded(model, IDS).values()
    cache = Cache(9)
    with torch.inference_mode(), recorded_residuals(model) as states:
        model(IDS[:, :3], cache=cache)
        with monkeypatch.context() as patch:
            patch.setattr(model.blocks[1].attention, "kernel", None)
            with pytest.raises(TypeError):
                model(IDS[:, 3:], cache=cache)
        model(IDS[:, 3:], cache=cache)
    assert_close(states["self"], whole)


def test_what_is_generated_has_the_states_of_one_pass_over_it(model):
    with torch.inference_mode(), recorded_residuals(model) as states:
        steps = PromptSteps(model, [[5, 9, 3]], capacity=9)
        (made,) = greedy(steps, torch.tensor([4]), SpecialIds(stop=-1))
    ids = torch.tensor([[5, 9, 3, *made.ids[:-1]]])  # the last one was chosen, but not read
    assert ids.shape == (1, 6)
    assert_close(states["self"], recorded(model, ids)["self"])


def test_what_is_translated_has_the_states_of_one_pass_over_it():
    model = randomised(Transformer(TRANSLATOR))
    with torch.inference_mode(), recorded_residuals(model) as states:
        memory, mask = model.encode(SOURCE)
        (made,) = greedy(CachedSteps(model, memory, mask, 9), torch.tensor([4]), SpecialIds(stop=-1))
    whole = recorded(model, SOURCE, torch.tensor([[TRANSLATOR.start, *made.ids[:-1]]]))
    assert_close(states["decoder"], whole["decoder"])
    assert_close(states["encoder"], whole["encoder"])


@pytest.mark.parametrize("change", ["beams", "leaving", "lengths"])
def test_rows_that_move_cannot_be_joined(model, change):
    ids = IDS.expand(2, -1)[:, :1]
    cache = Cache(9, beams=2 if change == "beams" else 1)
    with torch.inference_mode(), recorded_residuals(model):
        model(ids, cache=cache)
        if change == "leaving":
            cache.select(None, torch.tensor([1]))
            ids = ids[1:]
        elif change == "lengths":
            cache.cut([1, 1])
        with pytest.raises(ConfigError, match="record one text at a time"):
            model(ids, cache=cache)


def test_padding_that_is_taken_out_is_refused():
    model = randomised(MaskedBert(BERT))
    with recorded_residuals(model), pytest.raises(ConfigError, match="record one text at a time, unpadded"):
        model(IDS, torch.tensor([5]))
    with_lengths, without = recorded(model, IDS, torch.tensor([7])), recorded(model, IDS)
    assert all(torch.equal(*pair) for pair in zip(with_lengths["self"], without["self"]))


def test_attention_and_states_can_be_recorded_at_once(case):
    model, arguments, _ = case
    alone = recorded(model, *arguments)
    with torch.inference_mode(), recorded_attention(model) as weights, recorded_residuals(model) as states:
        model(*arguments)
    assert weights
    assert all(torch.equal(*pair) for kind in alone for pair in zip(states[kind], alone[kind]))
