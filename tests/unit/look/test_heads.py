"""Heads switched off: nothing of what they find reaches the output, and everything else is as it was."""

from copy import deepcopy

import pytest
import torch
from helpers import spread_bert, spread_gpt, spread_llama, spread_transformer
from torch.testing import assert_close

from manyheads.core.errors import ConfigError
from manyheads.generate.beam import beam_search
from manyheads.generate.greedy import greedy
from manyheads.generate.prompts import PromptSteps, WholePromptSteps
from manyheads.generate.steps import CachedSteps, SpecialIds, WholeSteps
from manyheads.look.heads import attentions, head_named, heads_off
from manyheads.look.record import recorded_attention
from manyheads.models.bert import MaskedBert
from manyheads.ops.attention import sdpa

END = 1
IDS = torch.tensor([[5, 9, 30, 8, 4, 11, 2], [3, 3, 17, 22, 6, 9, 13]])
SOURCE = torch.tensor([[6, 13, 11, 7, END], [8, 29, END, 0, 0]])


def masked() -> MaskedBert:
    return spread_bert(MaskedBert)


def without_columns(model, names_and_heads: list[tuple[str, int]]):
    """A copy whose output projections read nothing of these heads."""
    model = deepcopy(model)
    for name, head in names_and_heads:
        module = model.get_submodule(name)
        width = module.value_width
        module.output.weight.data[:, head * width : (head + 1) * width] = 0.0
    return model


def kernels(model) -> list:
    return [part.module.kernel for part in attentions(model)]


# What is left


@pytest.mark.parametrize(
    ("make", "heads", "same"),
    [
        (spread_gpt, [(1, 2)], [("blocks.1.attention", 2)]),
        (spread_gpt, [(0, 0), (0, 2)], [("blocks.0.attention", 0), ("blocks.0.attention", 2)]),
        (spread_gpt, [(1, 1), (0, 2)], [("blocks.0.attention", 2), ("blocks.1.attention", 1)]),
        (spread_gpt, [("self", 0, 1)], [("blocks.0.attention", 1)]),
        (spread_llama, [(0, 4), (1, 0)], [("blocks.0.attention", 4), ("blocks.1.attention", 0)]),
        (masked, [(1, 0)], [("body.blocks.1.attention", 0)]),
        (spread_bert, [(0, 1)], [("blocks.0.attention", 1)]),
    ],
)
@torch.inference_mode()
def test_a_head_that_is_off_is_one_that_the_output_projection_does_not_read(make, heads, same):
    model = make()
    given = (IDS, torch.tensor([7, 4])) if make is spread_bert else (IDS,)  # rows without padding too
    whole, expected = model(*given), without_columns(model, same)(*given)
    with heads_off(model, heads):
        found = model(*given)
    assert_close(found, expected)
    assert not torch.allclose(found, whole, atol=1e-3)  # and the test can tell
    assert torch.equal(model(*given), whole)  # behind the block all is as before
    with heads_off(model, []):
        assert set(kernels(model)) == {sdpa}


@pytest.mark.parametrize(
    ("head", "name"),
    [
        (("encoder", 1, 2), "encoder.blocks.1.self_attention"),
        (("decoder", 2, 0), "decoder.blocks.2.self_attention"),
        (("cross", 2, 1), "decoder.blocks.2.cross_attention"),
    ],
)
@torch.inference_mode()
def test_each_kind_of_a_translator_has_layers_of_its_own(head, name):
    model = spread_transformer()
    expected = without_columns(model, [(name, head[2])])(SOURCE, IDS)
    with heads_off(model, [head]):
        assert [part.name for part in attentions(model) if part.module.kernel is not sdpa] == [name]
        found = model(SOURCE, IDS)
    assert_close(found, expected)
    assert not torch.allclose(found, model(SOURCE, IDS), atol=1e-4)


# What cannot be


@pytest.mark.parametrize(
    ("make", "head", "said"),
    [
        (spread_gpt, (2, 0), "there is no layer 2; the model has 2, counted from 0"),
        (spread_gpt, (-1, 0), "there is no layer -1; the model has 2"),
        (spread_gpt, (0, 3), "there is no head 3 in layer 0 of self-attention, which has 3, counted from 0"),
        (spread_gpt, ("cross", 0, 1), r"cross\.0\.1 is not a head of this model; write layer\.head, such as 0\.3"),
        (spread_gpt, (0,), "^0 is not a head of this model"),
        (spread_gpt, 0, "^0 is not a head of this model; write .* in Python as a tuple of these parts$"),
        (spread_transformer, (0, 1), r"^0\.1 is not .* write cross\.0\.3 or decoder\.0\.3 or encoder\.0\.3"),
        (spread_transformer, ("self", 0, 1), "is not a head of this model; write"),
        (spread_transformer, ("encoder", 2, 0), "there is no layer 2; the model has 2"),  # as the decoder has
        (spread_transformer, ("cross", 3, 0), "there is no layer 3; the model has 3"),
        (spread_transformer, ("decoder", 2, 3), "there is no head 3 in layer 2 of decoder self-attention, which has 3"),
    ],
)
def test_heads_that_are_not_there_are_refused_before_any_is_off(make, head, said):
    model = make()
    there = ("cross", 0, 0) if make is spread_transformer else (0, 0)
    with pytest.raises(ConfigError, match=said), heads_off(model, [there, head]):
        pass
    assert set(kernels(model)) == {sdpa}


@torch.inference_mode()
def test_numbers_stay_those_of_the_whole_model_once_heads_were_removed():
    model = spread_gpt()
    expected = without_columns(model, [("blocks.1.attention", 0), ("blocks.1.attention", 2)])(IDS)
    model.blocks[1].attention.remove([0])
    with heads_off(model, [(1, 2)]):
        assert_close(model(IDS), expected)
    said = "there is no head 0 in layer 1 of self-attention, which has 1, 2; others were removed"
    with pytest.raises(ConfigError, match=said), heads_off(model, [(1, 0)]):
        pass


# How it is written


@pytest.mark.parametrize(
    ("name", "head"), [("0.3", (0, 3)), ("12.11", (12, 11)), ("cross.0.3", ("cross", 0, 3)), ("x.1.2", ("x", 1, 2))]
)
def test_a_head_is_written_with_its_layer_and_perhaps_its_kind(name, head):
    assert head_named(name) == head


@pytest.mark.parametrize(
    "name", ["", "3", ".", "0.", ".3", "0.x", "a.b", "-1.0", "0.-1", "cross.3", "a.cross.0.3", "0.1.2.3", "1,2", "0. 3"]
)
def test_what_is_no_head_is_refused_with_an_example(name):
    with pytest.raises(ConfigError) as refused:
        head_named(name)
    assert str(refused.value) == f"{name} is not a head; write layer.head, such as 0.3, or cross.0.3 of a translator"


# State borrowed is state returned


def test_kernels_are_put_back_after_an_error():
    model = spread_transformer()

    def fail():
        with heads_off(model, [("cross", 0, 1), ("encoder", 1, 0)]):
            assert sum(kernel is not sdpa for kernel in kernels(model)) == 2
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert set(kernels(model)) == {sdpa}


@torch.inference_mode()
def test_blocks_within_blocks_add_up():
    model = spread_gpt()
    expected = without_columns(model, [("blocks.0.attention", 0), ("blocks.0.attention", 1)])(IDS)
    with heads_off(model, [(0, 0)]):
        one = kernels(model)
        with heads_off(model, [(0, 1)]):
            assert_close(model(IDS), expected)
        assert kernels(model) == one


@torch.inference_mode()
def test_a_head_that_is_off_is_recorded_all_the_same():
    model = spread_gpt()
    with recorded_attention(model) as whole:
        model(IDS)
    expected = without_columns(model, [("blocks.0.attention", 2)])(IDS)
    with recorded_attention(model) as weights, heads_off(model, [(0, 2)]):
        found = model(IDS)
    assert_close(found, expected)
    assert_close(weights["blocks.0.attention"], whole["blocks.0.attention"])
    assert not torch.allclose(weights["blocks.1.attention"], whole["blocks.1.attention"], atol=1e-3)  # what follows
    assert weights.largest_difference < 1e-5
    assert set(kernels(model)) == {sdpa}
    with heads_off(model, [(0, 2)]), recorded_attention(model) as inside:  # in either order
        assert_close(model(IDS), expected)
    for name in weights:
        assert_close(inside[name], weights[name])


# Generation


@pytest.mark.parametrize("make", [spread_gpt, spread_llama])
@torch.inference_mode()
def test_texts_through_the_cache_are_those_without_it(make):
    model, prompts, limits = make(), [[5, 6, 7, 8, 9], [10, 11], [12]], torch.tensor([4, 9, 7])
    same = without_columns(model, [("blocks.0.attention", 1), ("blocks.1.attention", 0)])

    def texts(network, kind):
        return [
            each.ids for each in greedy(kind(network, prompts, 16), limits, SpecialIds(stop_ids=(END,)), scored=False)
        ]

    whole = texts(model, PromptSteps)
    with heads_off(model, [(0, 1), (1, 0)]):
        assert texts(model, PromptSteps) == texts(model, WholePromptSteps) == texts(same, PromptSteps) != whole


@pytest.mark.parametrize("beams", [1, 4])
@torch.inference_mode()
def test_translations_through_the_cache_are_those_without_it(beams):
    model, limits, vocabulary = spread_transformer(), torch.tensor([9, 6]), SpecialIds(stop_ids=(END,), banned=(0,))
    heads = [("cross", 0, 1), ("decoder", 1, 2), ("encoder", 0, 0)]
    names = [("decoder.blocks.0.cross_attention", 1), ("decoder.blocks.1.self_attention", 2)]
    same = without_columns(model, [*names, ("encoder.blocks.0.self_attention", 0)])

    def found(network, kind=CachedSteps):
        steps = kind(network, *network.encode(SOURCE), 9, beams)
        if beams == 1:
            return [(each.ids, round(each.score, 3)) for each in greedy(steps, limits, vocabulary)]
        rows = beam_search(steps, limits, vocabulary, beams=beams)
        return [(each.ids, round(each.score, 3)) for row in rows for each in row]

    whole = found(model)
    with heads_off(model, heads):
        assert found(model) == found(model, WholeSteps) == found(same) != whole


# Training


def test_no_gradient_reaches_a_head_that_is_off_and_the_others_learn():
    model = spread_gpt().train()
    with heads_off(model, [(0, 1)]):
        model(IDS).logsumexp(dim=-1).sum().backward()
    module, width = model.blocks[0].attention, 8
    for start in module.parts[0] * torch.arange(3):  # queries, keys, values
        by_head = module.projection.weight.grad[start : start + 24].unflatten(0, (3, width)).abs().amax(dim=(1, 2))
        assert by_head[1] == 0
        assert (by_head[[0, 2]] > 0).all()
    columns = module.output.weight.grad.unflatten(1, (3, width)).abs().amax(dim=(0, 2))
    assert columns[1] == 0
    assert (columns[[0, 2]] > 0).all()
