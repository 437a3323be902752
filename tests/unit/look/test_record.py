"""Attention weights beside the fast kernel: the same output, the weights of what was asked for, joined over steps."""

from contextlib import ExitStack
from functools import partial

import pytest
import torch
from helpers import positions, spread_bert, spread_gpt, spread_llama, spread_transformer
from torch.testing import assert_close

from manyheads.core.errors import ConfigError
from manyheads.generate.beam import beam_search
from manyheads.generate.greedy import decoded, greedy
from manyheads.generate.prompts import PromptSteps
from manyheads.generate.steps import CachedSteps, SpecialIds
from manyheads.look import record
from manyheads.look.heads import attentions, heads_off
from manyheads.look.record import recorded_attention
from manyheads.nn.attention import MultiHeadAttention
from manyheads.nn.cache import Cache
from manyheads.nn.positions import KINDS, PositionsConfig
from manyheads.ops.attention import sdpa

END = 1


def weights_of(model, *inputs, **options):
    with torch.inference_mode(), recorded_attention(model, **options) as weights:
        model(*inputs)
    return weights


close = partial(assert_close, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("make", [spread_gpt, spread_llama])
@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode, torch.enable_grad])
def test_the_output_is_bit_for_bit_that_of_the_kernel(make, mode):
    model, ids = make(), torch.randint(31, (2, 13))
    with mode():
        expected = model(ids)
        with recorded_attention(model) as weights:
            found = model(ids)
    assert torch.equal(found, expected)
    assert list(weights) == [part.name for part in attentions(model)]
    for each in weights.values():
        assert each.shape == (2, model.config.heads, 13, 13)
        assert_close(each.sum(dim=-1), torch.ones(each.shape[:-1]))
        assert not each.triu(1).any()
        assert not each.requires_grad
    assert 0 < weights.largest_difference < 1e-5


def test_the_difference_reported_is_the_kernel_s():
    """A kernel that is off by a known amount, where it is off most, shows it; one head's error is not another's."""

    def off(q, k, v, **options):
        out = sdpa(q, k, v, **options)
        out[0, 1, 2] += 0.125
        return out

    attention = MultiHeadAttention(24, 3, kernel=off)
    with recorded_attention(attention) as all_heads:
        attention(torch.randn(2, 5, 24))
    assert all_heads.largest_difference == pytest.approx(0.125, abs=1e-5)
    with recorded_attention(attention, heads=[0, 2]) as others:
        attention(torch.randn(2, 5, 24))
    assert others.largest_difference < 1e-5


@pytest.mark.parametrize(("error", "warned"), [(0.09, False), (0.25, True)])
def test_a_kernel_that_computes_something_else_is_warned_of(monkeypatch, error, warned):
    said = []
    monkeypatch.setattr(record, "warn", said.append)
    attention = MultiHeadAttention(24, 3, kernel=lambda q, k, v, **options: sdpa(q, k, v, **options) + error)
    with recorded_attention(attention):
        attention(torch.randn(2, 5, 24))
        assert not said  # not before the end, where all of it is known
    assert [f"up to {error:.2g} from that of the formula" in each for each in said] == [True] * warned


@pytest.mark.parametrize(
    "order",
    [
        *(["off", "recorded"], ["recorded", "off"], ["off", "other off", "recorded"]),
        *(["off", "recorded", "recorded"], ["recorded", "last layer"]),
    ],
)
@torch.inference_mode()
def test_heads_that_are_off_do_not_count_as_a_difference_and_recordings_within_recordings_see_the_same(
    monkeypatch, order
):
    said = []
    monkeypatch.setattr(record, "warn", said.append)
    model, ids = spread_gpt(), torch.randint(31, (2, 9))
    off, layers = {"off": [(0, 2), (1, 0)], "other off": [(0, 1)]}, {"recorded": None, "last layer": [1]}
    for heads in (None, [1, 2], [2]):  # also where all that are looked at are off
        with ExitStack() as within:
            entered = [
                heads_off(model, off[each])
                if each in off
                else recorded_attention(model, layers=layers[each], heads=heads)
                for each in order
            ]
            entered = [within.enter_context(each) for each in entered]
            model(ids)
        first, *others = [found for found, each in zip(entered, order) if each in layers]
        for weights in (first, *others):
            assert 0 < weights.largest_difference < 1e-5
            assert weights
            assert all(torch.equal(weights[name], first[name]) for name in weights)
    assert not said


def test_nothing_is_compared_while_the_kernel_drops_weights():
    attention = MultiHeadAttention(24, 3, dropout=0.5).train()
    with recorded_attention(attention) as weights:
        attention(torch.randn(2, 5, 24))
    assert weights.largest_difference == 0.0
    assert_close(weights[""].sum(dim=-1), torch.ones(2, 3, 5))


@pytest.mark.parametrize("make", [spread_gpt, spread_llama, lambda: spread_gpt(positions=positions("alibi"))])
def test_layers_and_heads_asked_for_alone(monkeypatch, make):
    """Also where they are named twice; nothing else is computed, so that long inputs need no quadratic memory."""
    model, ids = make(), torch.randint(31, (2, 7))
    everything = weights_of(model, ids)
    computed, compute = [], record.attention_weights
    monkeypatch.setattr(
        record, "attention_weights", lambda *given, **how: computed.append(compute(*given, **how)) or computed[-1]
    )
    with torch.inference_mode(), recorded_attention(model, layers=[1, 1], heads=[2, 0, 2]) as some:
        watched = [part for part in attentions(model) if part.module.kernel is not sdpa]
        model(ids)
    assert [part.layer for part in watched] == [1]
    assert some.heads == [0, 2]
    assert list(some) == ["blocks.1.attention"]
    assert_close(some["blocks.1.attention"], everything["blocks.1.attention"][:, [0, 2]])
    assert [tuple(each.shape) for each in computed] == [(2, 2, 7, 7)]
    with recorded_attention(spread_transformer(), layers=[1]) as nothing:
        pass
    sides = {"encoder.blocks.1.self_attention": "encoder", "decoder.blocks.1.self_attention": "decoder"}
    sides |= {"decoder.blocks.1.cross_attention": "cross"}
    assert {name: (part.kind, part.layer) for name, part in nothing.parts.items()} == {
        name: (kind, 1) for name, kind in sides.items()
    }
    assert len(nothing) == 0


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"layers": [2]}, "there is no layer 2; the model has 2, counted from 0"),
        ({"heads": [3]}, "there is no head 3 in layer 0 of self-attention, which has 3, counted from 0"),
        ({"layers": [-1]}, "there is no layer -1"),
        ({"layers": []}, r"layers is \[\]; give a list of those to look at, such as \[0\], or nothing for all"),
        ({"heads": ()}, r"heads is \(\); give a list of those to look at"),
        ({"layers": 0}, "layers is 0; give a list of those to look at"),
        ({"heads": 2}, "heads is 2; give a list of those to look at"),
    ],
)
def test_layers_and_heads_that_do_not_exist_are_refused(asked, said):
    with pytest.raises(ConfigError, match=said), recorded_attention(spread_gpt(), **asked):
        pass


def test_a_recording_of_nothing_shows_itself_too():
    model = spread_gpt()
    with recorded_attention(model) as weights:
        assert "<iframe" not in weights._repr_html_()
        model(torch.randint(31, (1, 5)))
        assert "<iframe" in weights._repr_html_()


# --- what else an attention may be given


@pytest.mark.parametrize("shape", [(5, 7), (3, 5, 7), (1, 5, 7), (2, 1, 5, 7), (2, 3, 5, 7)])
@pytest.mark.parametrize("heads", [None, [0, 2]])
def test_masks_of_any_shape_that_fits_all_rows_and_heads(shape, heads):
    torch.manual_seed(7)
    attention, x, memory = MultiHeadAttention(24, 3), torch.randn(2, 5, 24), torch.randn(2, 7, 24)
    mask = torch.rand(shape) < 0.6
    mask[..., 0] = True
    with recorded_attention(attention, heads=heads) as weights:
        attention(x, memory, mask=mask)
    looked = (weights[""] > 0).float()
    assert torch.equal(looked, mask.expand(2, 3, 5, 7)[:, heads or [0, 1, 2]].float())
    assert weights.largest_difference < 1e-5


def test_a_scale_is_that_of_the_kernel():
    torch.manual_seed(8)
    attention, x = MultiHeadAttention(24, 3), torch.randn(2, 5, 24)
    attention.projection.weight.data.normal_(std=0.6)
    with recorded_attention(attention) as usual:
        attention(x)
    with recorded_attention(attention) as weights:
        watching = attention.kernel
        attention.kernel = lambda q, k, v, **options: watching(q, k, v, scale=0.03, **options)
        attention(x)
    assert weights.largest_difference < 1e-5
    assert_close(weights[""].log().diff(dim=-1), usual[""].log().diff(dim=-1) * 0.03 * 8**0.5, rtol=1e-3, atol=1e-4)
    assert not torch.allclose(weights[""], usual[""], atol=1e-2)


@pytest.mark.parametrize("with_memory", [True, False])
def test_what_is_given_by_keyword_is_recorded_as_by_place(with_memory):
    attention, x, memory = MultiHeadAttention(24, 3), torch.randn(2, 5, 24), torch.randn(2, 7, 24)
    given = {"x": x, "memory": memory} if with_memory else {"x": x}
    with recorded_attention(attention) as by_place:
        attention(*given.values())
    with recorded_attention(attention) as by_keyword:
        attention(**given)
    assert torch.equal(by_keyword[""], by_place[""])
    with recorded_attention(attention) as by_both:
        attention(x, memory=given.get("memory"))
    assert torch.equal(by_both[""], by_place[""])


def test_a_model_without_attention_is_refused():
    with pytest.raises(ConfigError, match="Linear has no attention"), recorded_attention(torch.nn.Linear(2, 3)):
        pass


def test_after_an_error_all_is_put_back_and_what_was_recorded_before_it_is_kept():
    model, ids = spread_gpt(), torch.randint(31, (2, 7))
    whole, kept = weights_of(model, ids), []

    def fail(*failing):
        with recorded_attention(model) as weights:
            kept.append(weights)
            model(ids[:, :4], cache=(cache := Cache(12)))
            model(ids[:, 4:], cache=cache)
            for module in failing:
                module.kernel = None  # what cannot be called
                model(ids)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert list(kept[0]) == list(whole)
    for name, expected in whole.items():
        close(kept[0][name], expected)
    with pytest.raises(TypeError):
        fail(model.blocks[1].attention)
    assert list(kept[1]) == ["blocks.0.attention"]  # the second began and came to nothing
    close(kept[1]["blocks.0.attention"], whole["blocks.0.attention"])
    assert all(part.module.kernel is sdpa and not part.module._forward_pre_hooks for part in attentions(model))


# --- steps through a cache


@pytest.mark.parametrize("kind", KINDS)
@torch.inference_mode()
def test_pieces_through_the_cache_are_joined_into_one_matrix(kind):
    model, ids = spread_gpt(positions=PositionsConfig(kind=kind)), torch.randint(31, (2, 9))
    whole, cache = weights_of(model, ids), Cache(12)
    with recorded_attention(model) as joined:
        model(ids[:, :4], cache=cache)
        with recorded_attention(model) as later:  # which begins in mid text and has the rows it saw
            for piece in ids[:, 4:].split([1, 1, 3], dim=1):
                model(piece, cache=cache)
                assert joined["blocks.0.attention"].shape[2:] == (cache.length, cache.length)
        for name, expected in whole.items():
            close(joined[name], expected)
            close(later[name], expected[:, :, 4:])
        model(torch.randint(31, (3, 4)), cache=Cache(12))  # a second text takes the place of the first
    assert joined["blocks.0.attention"].shape == (3, 3, 4, 4)


@torch.inference_mode()
def test_texts_written_by_turns_are_refused():
    model, one, other = spread_gpt(), Cache(12), Cache(12)
    with recorded_attention(model):
        for cache in (one, other, other):
            model(torch.randint(31, (1, 3)), cache=cache)
        with pytest.raises(ConfigError, match=r"two texts are written by turns, .* record one text at a time"):
            model(torch.randint(31, (1, 1)), cache=one)
    model(torch.randint(31, (1, 1)), cache=one)  # and without a recording they may be


@torch.inference_mode()
def test_a_text_that_outgrows_the_context_is_refused():
    model, prompt, never = spread_gpt(), [5, 6, 7], SpecialIds()

    def written(tokens: int) -> int:
        steps = PromptSteps(model, [prompt], 64)
        return len(greedy(steps, torch.tensor([tokens]), never, scored=False)[0].ids)

    with recorded_attention(model) as weights:
        assert written(30) == 30  # the last is not read any more
    assert weights["blocks.0.attention"].shape == (1, 3, 32, 32)
    assert written(36) == 36
    said = r"one has outgrown the model's context, .* ask for fewer tokens"
    with pytest.raises(ConfigError, match=said), recorded_attention(model):
        written(36)


@pytest.mark.parametrize("make", [spread_gpt, spread_llama])
def test_prompts_of_different_lengths_and_what_follows_them(make):
    """Rows end at different times and leave the batch; each has the weights it would have alone, in one pass."""
    model, prompts, limits = make(), [[5, 6, 7, 8, 9], [10, 11], [12], [13, 14, 15]], torch.tensor([2, 6, 4, 1])
    with torch.inference_mode(), recorded_attention(model) as weights:
        found = greedy(PromptSteps(model, prompts, 16), limits, SpecialIds(stop_ids=(END,)), scored=False)
    for row, (prompt, hypothesis) in enumerate(zip(prompts, found)):
        steps = min(len(hypothesis.ids) + 1, int(limits[row]))
        ids = [*prompt, *hypothesis.ids][: len(prompt) + steps - 1]
        for name, expected in weights_of(model, torch.tensor([ids])).items():
            close(weights[name][row, :, : len(ids), : len(ids)], expected[0])
            assert not weights[name][row, :, len(ids) :].any()


@pytest.mark.parametrize("samples", [1, 3])
def test_samples_of_one_prompt_share_its_beginning(samples):
    model, prompt = spread_gpt(), [5, 6, 7]
    generator = torch.Generator().manual_seed(1)

    def choose(logits, rows):
        return torch.multinomial(logits.softmax(dim=1), 1, generator=generator)[:, 0]

    with torch.inference_mode(), recorded_attention(model) as weights:
        written = [[] for _ in range(samples)]
        steps = PromptSteps(model, [prompt], 16, samples)
        for rows, newest in decoded(steps, torch.full((samples,), 5), SpecialIds(), choose):
            for row, each in zip(rows.tolist(), newest.tolist()):
                written[row].append(each)
    for row in range(samples):
        alone = weights_of(model, torch.tensor([[*prompt, *written[row][:-1]]]))
        close(weights["blocks.1.attention"][row], alone["blocks.1.attention"][0])


def searched(model, beams: int):
    """What a search finds for three sources, with the limit of each, and the weights of all that it found."""
    vocabulary, sources = SpecialIds(stop_ids=(END,), banned=(0,)), [[3, 4, 5, 6, END], [7, 8, END], [9, 10, 11, END]]
    limits = torch.tensor([4, 9, 6])
    padded = torch.nn.utils.rnn.pad_sequence([torch.tensor(row) for row in sources], batch_first=True)

    def search():
        steps = CachedSteps(model, *model.encode(padded), 9, beams)
        if beams == 1:
            return greedy(steps, limits, vocabulary)
        return [row[0] for row in beam_search(steps, limits, vocabulary, beams=beams, alpha=0.6)]

    with torch.inference_mode(), recorded_attention(model) as weights:
        found = search()
    with torch.inference_mode():
        assert search() == found  # the same while it is watched
    return sources, limits, found, weights


@pytest.mark.parametrize("beams", [1, 3, 5])
@pytest.mark.parametrize("changes", [{}, {"positions": PositionsConfig(kind="relative")}, {"norm_order": "pre"}])
def test_the_weights_of_a_search_are_those_of_what_won(beams, changes):
    """Teacher-forced through the model without a cache, the winner has the same weights."""
    model = spread_transformer(**changes)
    sources, limits, found, weights = searched(model, beams)
    lengths = set()
    for row, (source, hypothesis) in enumerate(zip(sources, found)):
        steps = min(len(hypothesis.ids) + 1, int(limits[row]))
        before = [model.config.start, *hypothesis.ids][:steps]
        lengths.add(steps)
        for name, expected in weights_of(model, torch.tensor([source]), torch.tensor([before])).items():
            rows, columns = expected.shape[2:]
            close(weights[name][row, :, :rows, :columns], expected[0])
            assert not weights[name][row, :, :rows, columns:].any()
    assert len(lengths) > 1  # so that some left, or waited, while others went on


def test_beams_of_a_language_model_too():
    model, prompt = spread_gpt(), [5, 6, 7]
    with torch.inference_mode(), recorded_attention(model) as weights:
        steps = PromptSteps(model, [prompt], 16, 4)
        best = beam_search(steps, torch.tensor([7]), SpecialIds(stop_ids=(END,)), beams=4, alpha=0.6)[0][0]
    ids = [*prompt, *best.ids][: len(prompt) + min(len(best.ids) + 1, 7) - 1]
    for name, expected in weights_of(model, torch.tensor([ids])).items():
        close(weights[name], expected)


# --- rows without their padding


def test_rows_without_padding_are_recorded_as_they_are_computed():
    model = spread_bert()
    ids, lengths = torch.randint(31, (4, 9)), torch.tensor([9, 4, 6, 4])
    expected = model(ids, lengths)
    with recorded_attention(model) as weights:
        assert torch.equal(model(ids, lengths), expected)
    together = weights["blocks.1.attention"]
    assert together.shape == (4, 3, 9, 9)
    for row, length in enumerate(lengths.tolist()):
        alone = weights_of(model, ids[row : row + 1, :length])
        assert_close(together[row, :, :length, :length], alone["blocks.1.attention"][0])
        assert not together[row, :, length:].any()
        assert not together[row, :, :, length:].any()
