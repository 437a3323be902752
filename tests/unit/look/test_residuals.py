"""The residual stream: recorded without a trace, and read as the model itself reads it."""

from itertools import pairwise

import pytest
import torch
from helpers import spread_bert, spread_gpt, spread_llama, spread_transformer
from torch import Tensor, nn
from torch.testing import assert_close

from manyheads.core.errors import ConfigError
from manyheads.generate.greedy import greedy
from manyheads.generate.prompts import PromptSteps
from manyheads.generate.steps import CachedSteps, SpecialIds
from manyheads.look.record import recorded_attention
from manyheads.look.residuals import lens, reader, recorded_residuals, residual_norms
from manyheads.models.bert import Bert, MaskedBert
from manyheads.models.classifier import DecoderClassifier
from manyheads.models.heads import EncoderClassifier
from manyheads.nn.attention import MultiHeadAttention
from manyheads.nn.cache import Cache

IDS = torch.tensor([[5, 9, 3, 8, 4, 1, 2]])
SOURCE = torch.tensor([[6, 13, 11, 7, 1]])
OWN, SIDES = {"self": (3, 7)}, {"encoder": (3, 5), "decoder": (4, 7)}
MODELS = {
    "gpt, norm before": (spread_gpt, (IDS,), OWN),
    "gpt, norm behind": (lambda: spread_gpt(norm_order="post"), (IDS,), OWN),
    "llama": (spread_llama, (IDS,), OWN),
    "masked": (lambda: spread_bert(MaskedBert), (IDS,), OWN),
    "translator": (spread_transformer, (SOURCE, IDS), SIDES),
    "translator, norm before": (lambda: spread_transformer(norm_order="pre"), (SOURCE, IDS), SIDES),
}
WORDLESS = {
    "bert": spread_bert,
    "bert's labels": lambda: spread_bert(lambda config: EncoderClassifier(Bert(config), ("good", "bad"))),
    "a decoder's labels": lambda: DecoderClassifier(spread_gpt(), ("good", "bad")),
}


def hooks(model: nn.Module) -> int:
    return sum(len(part._forward_hooks) + len(part._forward_pre_hooks) for part in model.modules())


def recorded(model: nn.Module, *arguments: Tensor) -> dict[str, list[Tensor]]:
    with torch.inference_mode(), recorded_residuals(model) as states:
        model(*arguments)
    return states


@pytest.fixture(params=MODELS.values(), ids=MODELS.keys())
def case(request):
    make, arguments, sizes = request.param
    return make(), arguments, sizes


@pytest.fixture
def model():
    return spread_gpt()


def test_every_state_of_every_stack_is_recorded_and_the_output_is_bit_for_bit_the_same(case):
    model, arguments, sizes = case
    before = model(*arguments)
    with recorded_residuals(model) as states, recorded_attention(model) as weights:  # both at once
        assert torch.equal(model(*arguments), before)
        assert hooks(model) > 0
    assert hooks(model) == 0
    assert weights
    assert {kind: (len(found), *found[0].shape) for kind, found in states.items()} == {
        kind: (count, 1, positions, 24) for kind, (count, positions) in sizes.items()
    }
    with recorded_residuals(model) as alone:
        model(*arguments)
    for kind, found in states.items():
        assert len({state.shape for state in found}) == 1
        assert not any(torch.equal(state, other) for state, other in pairwise(found))
        assert not any(state.requires_grad for state in found)
        assert all(map(torch.equal, found, alone[kind]))
    with pytest.raises(IndexError), recorded_residuals(model):
        model(*(each + 100 for each in arguments))
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
    assert ids.shape == probabilities.shape == (len(states), 7, 5)
    with torch.inference_mode():
        expected = model(*arguments)[0].softmax(dim=-1).topk(5)
    assert torch.equal(ids[-1], expected.indices)
    assert torch.equal(probabilities[-1], expected.values)
    assert not torch.allclose(probabilities[-2], expected.values)  # one layer below it says something else


@pytest.mark.parametrize("build", WORDLESS.values(), ids=WORDLESS.keys())
def test_a_model_without_words_has_states_but_nothing_to_read(build):
    model = build().eval()
    assert reader(model) is None
    states = recorded(model, IDS, torch.tensor([7]))
    assert [state.shape for state in states["self"]] == [(1, 7, 24)] * 3


def test_the_lens_and_the_lengths_of_vectors_are_those_of_the_first_row_one_layer_at_a_time(model):
    (alone,), (both,) = recorded(model, IDS).values(), recorded(model, torch.cat([IDS, IDS.flip(1)])).values()
    seen = []

    def read(state: Tensor) -> Tensor:
        seen.append(state.shape)
        return model.output(model.norm(state))

    assert_close(lens(both, read, 3), lens(alone, reader(model), 3))
    assert seen == [(1, 7, 24)] * 3
    assert not torch.equal(lens([state[1:] for state in both], read, 3)[0], lens(alone, read, 3)[0])
    norms = residual_norms(both)
    assert norms.shape == (3, 7)
    for layer in range(3):
        assert_close(norms[layer], (both[layer][0] ** 2).sum(dim=-1).sqrt())
    assert not torch.allclose(norms[0], both[0][1].norm(dim=-1))


def test_what_cannot_be_read_or_recorded_is_refused(model):
    (states,) = recorded(model, IDS).values()
    for count in (0, 32):
        with pytest.raises(ConfigError, match=f"{count} of 31 tokens were asked for; ask for 1 to 31"):
            lens(states, reader(model), count)
    for read in (residual_norms, lambda states: lens(states, reader(model), 1)):
        with pytest.raises(ConfigError, match="no states were recorded"):
            read([])
    without_blocks = MultiHeadAttention(12, 3)
    with pytest.raises(ConfigError, match="MultiHeadAttention has no blocks"), recorded_residuals(without_blocks):
        pass


def test_the_newest_call_replaces_the_one_before(model):
    with torch.inference_mode(), recorded_residuals(model) as states:
        model(IDS)
        model(IDS[:, :3])
    assert torch.equal(states["self"][-1], recorded(model, IDS[:, :3])["self"][-1])


@pytest.mark.parametrize("make", [spread_gpt, spread_llama])
def test_steps_through_a_cache_are_joined(make):
    model = make()
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
        assert [state.shape[1] for state in states["self"]] == [1] * 3  # and so does another
        model(torch.cat([IDS[:, :4], IDS[:, :3]], dim=1), cache=(again := Cache(9)))
        again.cut([4])
        model(IDS[:, 4:], cache=again)
        assert_close(states["self"], whole)  # what is written again is recorded again
        again.clear()
        model(IDS[:, :3], cache=again)
        with recorded_residuals(model) as later:  # from the middle on
            model(IDS[:, 3:5], cache=again)
            model(IDS[:, :2], cache=again)
            again.cut([5])
            model(IDS[:, 5:], cache=again)
            assert_close(later["self"], [state[:, 3:] for state in whole])
            again.clear()
            model(IDS[:, :2], cache=again)
            assert_close(later["self"], [state[:, :2] for state in whole])


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
        (made,) = greedy(steps, torch.tensor([4]), SpecialIds())
    ids = torch.tensor([[5, 9, 3, *made.ids[:-1]]])  # the last one was chosen, but not read
    assert ids.shape == (1, 6)
    assert_close(states["self"], recorded(model, ids)["self"])
    translator = spread_transformer()
    with torch.inference_mode(), recorded_residuals(translator) as states:
        steps = CachedSteps(translator, *translator.encode(SOURCE), 9)
        (made,) = greedy(steps, torch.tensor([4]), SpecialIds())
    whole = recorded(translator, SOURCE, torch.tensor([[translator.config.start, *made.ids[:-1]]]))
    for side in ("encoder", "decoder"):
        assert_close(states[side], whole[side])


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
    model = spread_bert(MaskedBert)
    with recorded_residuals(model), pytest.raises(ConfigError, match="record one text at a time, unpadded"):
        model(IDS, torch.tensor([5]))
    with_lengths, without = recorded(model, IDS, torch.tensor([7])), recorded(model, IDS)
    assert all(torch.equal(*pair) for pair in zip(with_lengths["self"], without["self"]))
