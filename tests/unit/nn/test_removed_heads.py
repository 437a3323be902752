"""Heads taken out of attention for good: what is left is what the model gives with those heads switched off."""

from copy import deepcopy
from functools import partial

import pytest
import torch
from helpers import spread, spread_bert, spread_gpt, spread_llama, spread_transformer
from torch.testing import assert_close

from manyheads.core.errors import ConfigError
from manyheads.generate.beam import beam_search
from manyheads.generate.greedy import greedy
from manyheads.generate.prompts import PromptSteps
from manyheads.generate.steps import CachedSteps, SpecialIds, WholeSteps
from manyheads.look.heads import heads_off
from manyheads.look.record import recorded_attention
from manyheads.models.gpt import GPT
from manyheads.models.llama import Llama
from manyheads.models.transformer import Transformer, parameters
from manyheads.nn.attention import MultiHeadAttention
from manyheads.nn.cache import Cache
from manyheads.nn.positions import KINDS, Alibi, Buckets, PositionsConfig, Relative, Rotary

END = 1
IDS = torch.tensor([[5, 9, 30, 8, 4, 11, 2], [3, 3, 17, 22, 6, 9, 13]])
SOURCE = torch.tensor([[6, 13, 11, 7, END], [8, 29, END, 0, 0]])


def gpt(kind: str = "learned") -> GPT:
    return spread_gpt(width=40, heads=5, positions=PositionsConfig(kind=kind))


def llama(**positions) -> Llama:
    return spread_llama(width=36, key_value_heads=3, positions=PositionsConfig(kind="rotary", **positions))


def transformer(kind: str = "sinusoidal", **changes) -> Transformer:
    return spread_transformer(width=40, heads=5, positions=PositionsConfig(kind=kind), **changes)


def without(model, table: dict[str, list[int]]):
    """A copy from which these heads are removed, by the names of their attentions."""
    model = deepcopy(model)
    for name, heads in table.items():
        model.get_submodule(name).remove(heads)
    return model


IN_GPT = {"blocks.0.attention": [3, 0], "blocks.1.attention": [1]}
OFF_IN_GPT = [(0, 0), (0, 3), (1, 1)]
IN_TRANSFORMER = {
    "encoder.blocks.1.self_attention": [4],
    "decoder.blocks.0.self_attention": [0, 2],
    "decoder.blocks.2.cross_attention": [1],
}
OFF_IN_TRANSFORMER = [("encoder", 1, 4), ("decoder", 0, 0), ("decoder", 0, 2), ("cross", 2, 1)]


# The same output


IN_LLAMA = {"blocks.0.attention": [2, 3], "blocks.1.attention": [4, 5, 0, 1]}
OFF_IN_LLAMA = [(0, 2), (0, 3), (1, 0), (1, 1), (1, 4), (1, 5)]
OF_GPT, OF_LLAMA = (IN_GPT, OFF_IN_GPT, (IDS,)), (IN_LLAMA, OFF_IN_LLAMA, (IDS,))
OF_TRANSFORMER = (IN_TRANSFORMER, OFF_IN_TRANSFORMER, (SOURCE, IDS))
LEFT = {
    **{f"GPT, {kind}": (partial(gpt, kind), *OF_GPT) for kind in KINDS},
    **{f"Transformer, {kind}": (partial(transformer, kind), *OF_TRANSFORMER) for kind in KINDS},
    "Transformer, odd widths": (partial(transformer, key_width=6, value_width=4), *OF_TRANSFORMER),
    "Llama, whose queries share a key": (llama, *OF_LLAMA),
    **{
        f"Llama, {scaling}": (partial(llama, scaling=scaling, length=4, factor=3.0), *OF_LLAMA)
        for scaling in ("dynamic_ntk", "yarn")
    },
    "BERT, packed": (partial(spread_bert, width=40, heads=5), IN_GPT, OFF_IN_GPT, (IDS, torch.tensor([7, 4]))),
}


@pytest.mark.parametrize("name", LEFT)
@torch.inference_mode()
def test_what_is_left_gives_what_the_whole_gives_with_those_heads_off(name):
    make, removed, off, given = LEFT[name]
    model = make()
    small, whole = without(model, removed), model(*given)
    with heads_off(model, off):
        expected = model(*given)
    assert_close(small(*given), expected)
    assert not torch.allclose(expected, whole, atol=1e-3)  # and the test can tell


# Through the cache


@pytest.mark.parametrize(
    ("make", "table"), [*((partial(gpt, kind), IN_GPT) for kind in KINDS), (llama, IN_LLAMA)], ids=[*KINDS, "Llama"]
)
@torch.inference_mode()
def test_pieces_through_the_cache_are_the_whole_at_once(make, table):
    small, cache = without(make(), table), Cache(9)
    pieces = [small(piece, cache=cache) for piece in IDS.split([3, 1, 1, 2], dim=1)]
    assert_close(torch.cat(pieces, dim=1), small(IDS), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("kind", ["learned", "relative", "buckets", "alibi", "rotary"])
@torch.inference_mode()
def test_prompts_of_different_lengths(kind):
    """Rows that each have a start of their own, of which the positions have to know."""
    model, prompts, limits = gpt(kind), [[5, 6, 7, 8, 9], [10, 11], [12]], torch.tensor([4, 9, 7])

    def texts(network):
        return [each.ids for each in greedy(PromptSteps(network, prompts, 16), limits, SpecialIds(stop_ids=(END,)))]

    whole = texts(model)
    with heads_off(model, OFF_IN_GPT):
        expected = texts(model)
    assert texts(without(model, IN_GPT)) == expected != whole


@pytest.mark.parametrize("kind", ["sinusoidal", "relative", "buckets", "alibi", "rotary"])
@torch.inference_mode()
def test_beams_find_what_they_find_with_those_heads_off(kind):
    model, limits, vocabulary = transformer(kind), torch.tensor([9, 6]), SpecialIds(stop_ids=(END,), banned=(0,))

    def found(network, steps=CachedSteps):
        rows = beam_search(steps(network, *network.encode(SOURCE), 9, 4), limits, vocabulary, beams=4)
        return [(each.ids, pytest.approx(each.score, abs=1e-4)) for row in rows for each in row]

    small, whole = without(model, IN_TRANSFORMER), found(model)
    with heads_off(model, OFF_IN_TRANSFORMER):
        expected = found(model)
    assert found(small) == expected != whole
    assert found(small, WholeSteps) == expected


# What is recorded of them


@pytest.mark.parametrize("kind", ["learned", "relative", "alibi"])
@torch.inference_mode()
def test_heads_are_recorded_under_the_numbers_they_had(kind):
    model = gpt(kind)
    small = without(model, IN_GPT)
    with recorded_attention(model) as whole, heads_off(model, OFF_IN_GPT):
        model(IDS)
    with recorded_attention(small) as weights:
        small(IDS)
    assert_close(weights["blocks.0.attention"], whole["blocks.0.attention"][:, [1, 2, 4]])
    assert_close(weights["blocks.1.attention"], whole["blocks.1.attention"][:, [0, 2, 3, 4]])
    with recorded_attention(small, heads=[4, 2]) as some:
        small(IDS)
    assert_close(some["blocks.0.attention"], whole["blocks.0.attention"][:, [2, 4]])
    said = r"there is no head 3 .* which has 1, 2, 4; others were removed"
    with pytest.raises(ConfigError, match=said), recorded_attention(small, heads=[3]):
        pass


# Sizes


def test_matrices_are_as_large_as_what_is_left():
    attention = MultiHeadAttention(24, 6, key_value_heads=3, key_width=5, value_width=7)
    rows, columns = attention.projection.weight.clone(), attention.output.weight.clone()
    before = parameters(attention)
    attention.remove([2, 3])
    assert (attention.heads, attention.key_value_heads, attention.parts) == (4, 2, (20, 10, 14))
    assert attention.projection.weight.shape == (44, 24)
    assert attention.output.weight.shape == (24, 28)
    queries, keys, values = 2 * 5, 5, 7
    assert before - parameters(attention) == (queries + keys + values) * (24 + 1) + 24 * 2 * 7
    kept = [*range(10), *range(20, 30), *range(30, 35), *range(40, 45), *range(45, 52), *range(59, 66)]
    assert torch.equal(attention.projection.weight, rows[kept])
    assert torch.equal(attention.output.weight, columns[:, [*range(14), *range(28, 42)]])


def test_numbers_are_kept_when_more_heads_are_removed_later():
    torch.manual_seed(8)
    attention = spread(MultiHeadAttention(20, 5, positions=Alibi(5, bidirectional=True)))
    at_once, x = deepcopy(attention), torch.randn(2, 7, 20)
    attention.remove([1])
    assert (attention.numbers, attention.removed) == ([0, 2, 3, 4], [1])
    attention.remove([3])  # which is the third of those that are left
    assert (attention.numbers, attention.removed) == ([0, 2, 4], [1, 3])
    at_once.remove([3, 1])
    assert_close(attention(x), at_once(x))
    other = deepcopy(at_once)
    other.remove([2])
    assert not torch.allclose(other(x), at_once(x), atol=1e-3)


@pytest.mark.parametrize("positions", [Alibi, Relative, Buckets, Rotary, None])
def test_positions_stay_whole_and_are_not_copied(positions):
    """Heads of other layers, which have lost others, share them."""
    sizes = {Alibi: (5, True), Relative: (5, 4, 3), Buckets: (5, 8, 20, True), Rotary: (4,)}
    shared = positions(*sizes[positions]) if positions else None
    first, second = (MultiHeadAttention(20, 5, positions=shared) for _ in range(2))
    before = [each.clone() for each in first.positions.parameters()]
    first.remove([0, 4])
    second.remove([2])
    assert shared is None or first.positions is second.positions is shared
    assert all(torch.equal(one, other) for one, other in zip(before, first.positions.parameters()))
    x = torch.randn(2, 7, 20)
    assert first(x).shape == second(x).shape == x.shape


@pytest.mark.parametrize("bias", [True, False])
def test_a_state_dict_fits_another_with_the_same_heads_removed_and_no_whole_one(bias):
    first, second, whole = (MultiHeadAttention(20, 5, bias=bias) for _ in range(3))
    first.remove([1, 3])
    second.remove([3, 1])
    second.load_state_dict(first.state_dict())
    x = torch.randn(2, 7, 20)
    assert torch.equal(second(x), first(x))
    with pytest.raises(RuntimeError, match="size mismatch"):
        whole.load_state_dict(first.state_dict())


def test_what_is_left_goes_on_learning_and_what_was_frozen_stays_frozen():
    attention = MultiHeadAttention(20, 5, positions=Relative(5, 4, 3))
    attention.output.requires_grad_(False)
    attention.remove([2])
    attention(torch.randn(2, 7, 20)).square().sum().backward()
    assert attention.projection.weight.grad.abs().sum(dim=1).min() > 0
    assert attention.output.weight.grad is None
    rows = attention.positions.table_HLD.grad.abs().amax(dim=(1, 2))
    assert rows[2] == 0
    assert (rows[[0, 1, 3, 4]] > 0).all()


# What cannot be


@pytest.mark.parametrize(
    ("heads", "said"),
    [
        ([0, 1, 2, 3, 4, 5], "all 6 heads of an attention would be removed"),
        ([2], "heads share a key by 2, in their order; remove those that share one together"),
        ([1, 2], "share a key by 2"),  # as many as a pair, but of two
    ],
)
def test_all_heads_and_parts_of_a_group_are_refused_and_nothing_is_lost(heads, said):
    attention, x = MultiHeadAttention(24, 6, key_value_heads=3), torch.randn(2, 7, 24)
    expected = attention(x)
    with pytest.raises(ConfigError, match=said):
        attention.remove(heads)
    attention.remove([])  # which changes nothing either
    assert (attention.heads, attention.numbers, attention.removed) == (6, [0, 1, 2, 3, 4, 5], [])
    assert torch.equal(attention(x), expected)
    attention.remove([0, 1, 4, 5])
    with pytest.raises(ConfigError, match=r"all 2 heads .* would be removed"):
        attention.remove([2, 3])
    assert attention(x).shape == x.shape
