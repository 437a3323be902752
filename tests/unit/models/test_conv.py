"""ByteNet and ConvSeq2Seq: what their convolutions see, their formulas, and how they go on from a cache."""

from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import pytest
import torch
from helpers import randomised, with_kernel
from torch import nn
from torch.testing import assert_close as torchs_assert_close

from manyheads.core.errors import ConfigError
from manyheads.generate.beam import beam_search
from manyheads.generate.greedy import greedy
from manyheads.generate.prompts import PromptSteps, WholePromptSteps, prompt_steps
from manyheads.generate.score import log_probabilities
from manyheads.generate.steps import CachedSteps, SpecialIds, WholeSteps, refuse_many_rows
from manyheads.look.record import recorded_attention
from manyheads.models.conv import (
    LANGUAGE_PRESETS,
    TRANSLATION_PRESETS,
    ByteNet,
    ByteNetBlock,
    ByteNetConfig,
    ConvSeq2Seq,
    ConvSeq2SeqConfig,
)
from manyheads.nn.convolution import Convolution, GatedConvolution
from manyheads.nn.positions import PositionsConfig
from manyheads.ops.attention import reference, sdpa
from manyheads.ops.masks import document_mask
from manyheads.train.objectives import language_loss, translation_loss

assert_close = partial(torchs_assert_close, rtol=1e-5, atol=1e-5)
SPEAKER = ByteNetConfig(
    vocabulary=23, context=11, width=14, inner=9, layers=4, kernel=2, dilations=(1, 3), dropout=0.0, end=1
)
TRANSLATOR = ConvSeq2SeqConfig(vocabulary=23, width=14, layers=2, decoder_layers=3, kernel=3, dropout=0.0)
IDS = torch.tensor([[5, 9, 3, 8, 4, 1, 2, 20, 17, 6, 11, 3, 19], [7, 2, 16, 11, 6, 1, 13, 4, 8, 22, 10, 5, 9]])
SOURCES = [[5, 9, 3, 1], [7, 2, 16, 11, 6, 1], [8, 1]]
TARGET = torch.tensor([[0, 6, 4, 12, 15], [0, 3, 3, 9, 2], [0, 2, 11, 8, 5]])


@pytest.fixture(params=[{}, {"tied": False, "norm": "rms"}, {"kernel": 3, "dilations": (2,), "layers": 2}], ids=str)
def speaker(request) -> ByteNet:
    torch.manual_seed(1)
    return randomised(ByteNet(replace(SPEAKER, **request.param)))


@pytest.fixture(params=[{}, {"tied": True, "kernel": 2}, {"positions": PositionsConfig(kind="sinusoidal")}], ids=str)
def translator(request) -> ConvSeq2Seq:
    torch.manual_seed(2)
    return randomised(ConvSeq2Seq(replace(TRANSLATOR, **request.param)), 0.2)


@pytest.fixture(autouse=True)
def _without_gradients(request):
    with torch.set_grad_enabled("learn" in request.node.name or "gradient" in request.node.name):
        yield


def padded(rows: list[list[int]], more: int = 0) -> torch.Tensor:
    longest = max(map(len, rows)) + more
    return torch.tensor([row + [0] * (longest - len(row)) for row in rows])


def changed_at(ids: torch.Tensor, place: int) -> torch.Tensor:
    changed = ids.clone()
    changed[:, place] = (changed[:, place] + 1) % 23
    return changed


# Formulas, written as loops.


@pytest.mark.parametrize(("kernel", "dilation", "ahead"), [(3, 1, 0), (2, 5, 0), (3, 2, 1), (4, 1, 2), (1, 1, 0)])
def test_a_convolution_is_a_sum_over_taps(kernel, dilation, ahead):
    layer, x = Convolution(5, 7, kernel, dilation=dilation, ahead=ahead), torch.randn(2, 9, 5)
    expected = torch.zeros(2, 9, 7)
    for t in range(9):
        expected[:, t] = layer.bias
        for tap in range(kernel):
            seen = t + (tap - kernel + 1 + ahead) * dilation
            if 0 <= seen < 9:
                expected[:, t] += x[:, seen] @ layer.weight[:, 5 * tap : 5 * (tap + 1)].T
    assert_close(layer(x), expected)
    weight = layer.weight.view(7, kernel, 5).transpose(1, 2)  # and torch's own is the same
    around = nn.functional.pad(x.transpose(1, 2), (layer.before, layer.after))
    assert_close(nn.functional.conv1d(around, weight, layer.bias, dilation=dilation).transpose(1, 2), expected)


def test_a_block_of_bytenet_is_a_gated_dilated_convolution_step_by_step():
    torch.manual_seed(3)
    block, x = randomised(ByteNetBlock(replace(SPEAKER, kernel=3), dilation=2)), torch.randn(2, 7, 14)
    inner = block.inner_norm(block.inner(block.norm(x)))
    weights = block.convolution.weight.split(9, dim=1)
    for t in range(7):
        past = [inner[:, t - back] if t >= back else torch.zeros(2, 9) for back in (4, 2, 0)]
        convolved = sum(each @ weight.T for each, weight in zip(past, weights)) + block.convolution.bias
        gated = torch.tanh(convolved[:, :9]) * torch.sigmoid(convolved[:, 9:])
        assert_close(block(x, None, None)[:, t], x[:, t] + gated @ block.outer.weight.T + block.outer.bias)


def test_a_gated_linear_unit_step_by_step():
    torch.manual_seed(4)
    unit, x = randomised(GatedConvolution(5, 3, ahead=1)), torch.randn(2, 7, 5)
    around, layer = torch.cat([torch.zeros(2, 1, 5), x, torch.zeros(2, 1, 5)], dim=1), unit.convolution
    for t in range(7):
        convolved = around[:, t : t + 3].flatten(1) @ layer.weight.T + layer.bias
        assert_close(unit(x)[:, t], convolved[:, :5] * torch.sigmoid(convolved[:, 5:]))


def test_a_block_of_the_decoder_is_that_of_the_paper(translator):
    block, (memory, _) = translator.decoder.blocks[1], translator.encode(torch.tensor([[5, 9, 3, 1]]))
    x, g = torch.randn(2, 1, 3, 14)
    hidden = block.convolution(x)
    d = block.query(hidden) + g
    z, values = memory.split(14, dim=-1)
    e = translator.encoder.embed(torch.tensor([[5, 9, 3, 1]]), 0)
    assert_close(values, 4 * (1 / 4) ** 0.5 * (z + e))
    c = (d @ z.transpose(1, 2)).softmax(dim=-1) @ (z + e) * (4 * (1 / 4) ** 0.5)
    expected = ((hidden + block.cross_attention.output(c)) * 0.5**0.5 + x) * 0.5**0.5
    assert_close(block(x, g, memory, None, None), expected)


def test_each_attention_sends_the_encoder_its_share_of_gradient():
    torch.manual_seed(5)
    model, source = ConvSeq2Seq(TRANSLATOR), torch.tensor([[5, 9, 3, 1]])
    stack = model.encoder
    gradients = []
    for attentions in (1, 3):
        model.zero_grad()
        stack(source, None, attentions).square().sum().backward()
        gradients.append(stack.blocks[0].convolution.convolution.weight.grad)
    assert_close(stack(source, None, 1), stack(source, None, 3))
    assert_close(gradients[1], gradients[0] / 3)


# What is seen.


def test_a_later_token_never_changes_an_earlier_prediction(speaker, translator):
    before, after = speaker(IDS), speaker(changed_at(IDS, 4))
    assert_close(after[:, :4], before[:, :4])
    assert not torch.allclose(after[:, 4], before[:, 4])  # and the test can tell
    source = padded(SOURCES)
    before, after = translator(source, TARGET), translator(source, changed_at(TARGET, 2))
    assert_close(after[:, :2], before[:, :2])
    assert not torch.allclose(after[:, 2:], before[:, 2:])


def test_the_receptive_field_is_as_computed(speaker):
    field = speaker.config.receptive_field
    assert field == {2: 9, 3: 9}[speaker.config.kernel]
    difference = (speaker(changed_at(IDS, 2)) - speaker(IDS)).abs().amax(dim=(0, 2))
    touched = (difference > 0).nonzero().flatten()
    assert int(touched.min()) == 2
    assert int(touched.max()) == 2 + field - 1 < IDS.shape[1] - 1


def test_receptive_fields_are_those_of_the_dilations():
    assert ByteNetConfig(layers=5).receptive_field == 1 + 2 * (1 + 2 + 4 + 8 + 16)
    assert ByteNetConfig(layers=7, kernel=5).receptive_field == 1 + 4 * (31 + 1 + 2)
    assert LANGUAGE_PRESETS["bytenet"]().receptive_field == 249


def test_documents_hide_each_other(speaker):
    mask = document_mask(IDS, end=1)  # the first ends in its sixth place
    found = speaker(IDS, mask)
    assert_close(found[:, :6], speaker(IDS[:, :6]))
    assert_close(found[:, 6:], speaker(IDS[:, 6:]))
    assert not torch.allclose(found[:, 6:], speaker(IDS)[:, 6:])
    assert_close(speaker(IDS, torch.ones(13, 13, dtype=torch.bool)), speaker(IDS))
    with pytest.raises(ValueError, match="without a mask"):
        speaker(IDS, mask, speaker.decoding_state(13))


@pytest.mark.parametrize("more", [0, 3])
def test_padding_changes_nothing(translator, more):
    alone = [translator(torch.tensor([row]), target[None])[0] for row, target in zip(SOURCES, TARGET)]
    assert_close(translator(padded(SOURCES, more), TARGET), torch.stack(alone))
    behind = torch.cat([TARGET, torch.zeros(3, 2, dtype=torch.long)], dim=1)
    assert_close(translator(padded(SOURCES), behind)[:, :5], torch.stack(alone))
    seen = translator(torch.tensor([[*SOURCES[2], 4, 4]]), TARGET[2:])
    assert not torch.allclose(seen[0], alone[2])  # what is no padding is seen
    # Without a mask at each convolution what stands in the padding, its positions, would be.
    memory, mask = translator.encode(padded(SOURCES))
    unmasked = translator.encoder(padded(SOURCES), torch.ones_like(mask), 3)
    assert not torch.allclose(unmasked[2, :2], memory[2, :2])


def test_weights_can_be_recorded_and_the_kernel_is_the_reference(translator):
    source = padded(SOURCES)
    with recorded_attention(translator) as weights:
        fast = translator(source, TARGET)
    assert [*weights] == [f"decoder.blocks.{layer}.cross_attention" for layer in range(3)]
    assert all(each.shape == (3, 1, 5, 6) for each in weights.values())
    assert weights.largest_difference < 1e-5
    assert_close(weights["decoder.blocks.2.cross_attention"].sum(dim=-1), torch.ones(3, 1, 5))
    assert not weights["decoder.blocks.2.cross_attention"][2, :, :, 2:].any()
    with_kernel(translator, reference)
    assert_close(translator(source, TARGET), fast)
    with_kernel(translator, sdpa)


# Through the cache.


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_pieces_through_the_cache_are_the_whole_at_once(speaker, translator, mode):
    with mode():
        memory, mask = translator.encode(padded(SOURCES))
        steps = (
            (speaker, speaker, IDS),
            (translator, lambda ids, cache=None: translator.decode(ids, memory, mask, cache), TARGET),
        )
        for model, step, ids in steps:
            count = ids.shape[1]
            for pieces in ([1] * count, [2, 1, count - 3]):
                cache = model.decoding_state(count)
                found = [step(piece, cache=cache) for piece in ids.split(pieces, dim=1)]
                assert_close(torch.cat(found, dim=1), step(ids))
                assert cache.length == count
            assert not torch.allclose(step(ids[:, 1:]), step(ids)[:, 1:])  # without a cache


def test_a_cache_does_not_grow_with_the_text(speaker):
    cache = speaker.decoding_state(5)
    for _ in range(3):
        speaker(IDS, cache=cache)
    speaker(IDS[:, :1], cache=cache)
    kept = [inputs.shape[1] for inputs in cache._inputs.values()]
    assert kept == [block.convolution.before + 1 for block in speaker.blocks]
    assert sum(kept) == speaker.config.receptive_field - 1 + speaker.config.layers


def test_rows_of_different_lengths_in_one_cache_are_as_alone(speaker):
    rows, lengths = torch.cat([IDS, IDS.flip(1)])[:3, :7], [2, 4, 0]
    alone = [speaker(row[None, : length + 3])[0, length:] for row, length in zip(rows, lengths)]
    new = torch.stack([row[length : length + 3] for row, length in zip(rows, lengths)])
    for pieces in ([1, 1, 1], [2, 1]):
        cache = speaker.decoding_state(7)
        speaker(rows[:, :4], cache=cache)
        cache.cut(lengths)
        found = torch.cat([speaker(piece, cache=cache) for piece in new.split(pieces, dim=1)], dim=1)
        assert_close(found, torch.stack(alone))
        assert cache.lengths.tolist() == [5, 7, 3]
    with pytest.raises(ValueError, match="no earlier"):
        cache.cut([2, 4, 0])
    cache.select(None, torch.tensor([2, 0, 2]))
    assert (cache.length, cache.lengths.tolist()) == (5, [3, 5, 3])
    found = speaker(torch.tensor([[8], [8], [3]]), cache=cache)[:, 0]
    alone = [[*new[2].tolist(), 8], [*rows[0, :5].tolist(), 8], [*new[2].tolist(), 3]]
    assert_close(found, torch.stack([speaker(torch.tensor([row]))[0, -1] for row in alone]))


def test_a_row_that_is_put_goes_on_as_where_it_came_from(speaker):
    mine, other = speaker.decoding_state(13), speaker.decoding_state(13)
    speaker(IDS[:, :4], cache=mine)
    mine.cut([4, 3])
    speaker(IDS[1:, 3:9], cache=other)
    mine.put([0], other, [6])
    assert (mine.length, mine.lengths.tolist()) == (6, [6, 3])
    found = speaker(torch.tensor([[IDS[1, 9]], [IDS[1, 3]]]), cache=mine)[:, 0]
    assert_close(found, torch.stack([speaker(IDS[1:, 3:10])[0, -1], speaker(IDS[1:, :4])[0, -1]]))
    mine.put([1], speaker.decoding_state(13), [0])  # nothing at all
    assert_close(speaker(IDS[:, :1], cache=mine)[1], speaker(IDS[1:, :1])[0])


def test_beams_that_change_places_are_as_decoded_anew(translator):
    memory, mask = translator.encode(padded(SOURCES[:2]))
    ids = torch.randint(2, 23, (6, 4), generator=torch.Generator().manual_seed(6))
    state = translator.decoding_state(9, beams=3)
    for step in range(4):
        translator.decode(ids[:, step : step + 1], memory, mask, state)
    beams, sentences = torch.tensor([[2, 2, 0], [1, 0, 1]]), torch.tensor([1])
    state.select(beams, sentences)
    went = ids.view(2, 3, 4)[1, beams[1]]
    newest = torch.tensor([[8], [8], [3]])
    found = translator.decode(newest, memory[sentences], mask[sentences], state)
    anew = translator.decode(torch.cat([went, newest], dim=1), memory[1:].expand(3, -1, -1), mask[1:])
    assert_close(found[:, 0], anew[:, -1])
    assert not torch.allclose(found[0], found[1])  # beams that differ in the past alone, within what is seen


@pytest.mark.parametrize("beams", [1, 3])
def test_translations_with_the_state_are_those_without(translator, beams):
    memory, mask = translator.encode(padded(SOURCES))
    limits, special = torch.tensor([9, 7, 5]), SpecialIds(stop_ids=(1,), banned=(0,))
    refuse_many_rows(translator, 3, 9, beams)
    found = []
    for kind in (CachedSteps, WholeSteps):
        steps = kind(translator, memory, mask, 9, beams)
        with recorded_attention(translator) as weights:
            rows = greedy(steps, limits, special) if beams == 1 else beam_search(steps, limits, special, beams=beams)
        found.append([row.ids if beams == 1 else [each.ids for each in row] for row in rows])
        if kind is CachedSteps:
            assert all(each.shape[:2] == (3, 1) and each.shape[3] == 6 for each in weights.values())
    assert found[0] == found[1]
    assert any(found[0])


@pytest.mark.parametrize("beams", [1, 3])
def test_texts_with_the_cache_are_those_without_also_past_the_context(speaker, beams):
    rows = [[5, 9, 3], [7], [4, 8, 15, 16, 3, 22, 19, 2, 2, 3]] if beams == 1 else [[5, 9, 3, 7, 7, 1]]
    refuse_many_rows(speaker, 3, 11)
    assert type(prompt_steps(speaker, rows, 11)) is PromptSteps
    found = []
    for kind in (PromptSteps, WholePromptSteps):
        steps, limits = kind(speaker, rows, 25, beams), torch.full((len(rows),), 15)
        search = greedy if beams == 1 else partial(beam_search, beams=beams)
        results = search(steps, limits, SpecialIds())
        found.append([row.ids if beams == 1 else [each.ids for each in row] for row in results])
    assert found[0] == found[1]


def test_texts_are_scored_as_by_hand(speaker):
    rows = [([5, 9], [3, 8, 4]), ([7], [2])]
    scored = log_probabilities(speaker, rows)
    for (begun, continuation), one in zip(rows, scored):
        logs = speaker(torch.tensor([begun + continuation])).log_softmax(dim=-1)[0]
        places = range(len(begun) - 1, len(begun) + len(continuation) - 1)
        assert one.total == pytest.approx(sum(float(logs[t, i]) for t, i in zip(places, continuation)), abs=1e-4)


def test_half_precision_stays_half(speaker, translator):
    memory, mask = translator.bfloat16().encode(padded(SOURCES))
    assert memory.dtype == translator.decode(TARGET, memory, mask).dtype == speaker.bfloat16()(IDS).dtype
    assert memory.dtype == torch.bfloat16


# How they begin and learn.


def test_weights_begin_as_published():
    torch.manual_seed(7)
    config = ConvSeq2SeqConfig(vocabulary=997, width=96, layers=2, dropout=0.3)
    model = ConvSeq2Seq(config)
    expected = {
        "encoder.blocks.1.convolution.convolution.weight": (4 * 0.7 / 288) ** 0.5,
        "decoder.blocks.0.convolution.convolution.weight": (4 * 0.7 / 288) ** 0.5,
        "decoder.blocks.0.query.weight": (1 / 96) ** 0.5,
        "encoder.inward.weight": (0.7 / 96) ** 0.5,
        "decoder.outward.weight": (1 / 96) ** 0.5,
        "encoder.embedding.weight": 0.1,
        "decoder.positions.table.weight": 0.1,
        "output.weight": (0.7 / 96) ** 0.5,
    }
    for name, deviation in expected.items():
        assert float(model.get_parameter(name).std()) == pytest.approx(deviation, rel=0.03), name
    assert not any(tensor.any() for name, tensor in model.named_parameters() if name.endswith(".bias"))
    assert not model.encoder.embedding.weight[0].any()
    assert model.output.weight is not model.decoder.embedding.weight
    tied = ConvSeq2Seq(replace(config, tied=True))
    assert tied.output.weight is tied.decoder.embedding.weight is tied.encoder.embedding.weight


def test_a_deep_one_keeps_the_variance_of_what_is_small():
    """As small as embeddings begin: of larger numbers gates let through more than the quarter that is reckoned with."""
    torch.manual_seed(8)
    blocks = ConvSeq2Seq(ConvSeq2SeqConfig(vocabulary=997, width=96, layers=12, dropout=0.0)).eval().encoder.blocks

    def grown(deviation: float) -> float:
        x = deviation * torch.randn(3, 21, 96)
        for block in blocks:
            x = block(x)
        return float(x.std()) / deviation

    assert grown(0.1) == pytest.approx(1.0, rel=0.2)
    assert grown(1.0) > 2  # and the test can tell


@pytest.mark.parametrize("kind", ["bytenet", "convseq2seq"])
def test_ten_examples_are_learned_by_heart(kind):
    torch.manual_seed(9)
    ids = torch.randint(15, 23, (10, 7), generator=torch.Generator().manual_seed(10))
    ids[:, 0], ids[:, 6] = torch.arange(4, 14), 1
    if kind == "bytenet":
        config = replace(SPEAKER, width=24, inner=None, dropout=0.05)
        model, counted = ByteNet(config), torch.ones(10, 6, dtype=torch.bool)
        batch, loss = SimpleNamespace(ids=ids, counted=counted, target_tokens=60), language_loss
    else:
        model = ConvSeq2Seq(replace(TRANSLATOR, width=24, dropout=0.05, tied=True))
        batch, loss = SimpleNamespace(source=ids.flip(1), target=ids, target_tokens=70), translation_loss
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    with torch.no_grad():
        assert float(loss(model, batch).total) / batch.target_tokens > 2
    for _ in range(150):
        optimizer.zero_grad()
        (loss(model, batch).total / batch.target_tokens).backward()
        optimizer.step()
    assert float(loss(model.eval(), batch).total.detach()) / batch.target_tokens < 0.05


@pytest.mark.parametrize("preset", [*LANGUAGE_PRESETS, *TRANSLATION_PRESETS])
def test_presets_build(preset):
    with torch.device("meta"):
        ids = torch.ones(2, 5, dtype=torch.long)
        if preset in LANGUAGE_PRESETS:
            found = ByteNet(replace(LANGUAGE_PRESETS[preset](), vocabulary=101))(ids)
        else:
            found = ConvSeq2Seq(replace(TRANSLATION_PRESETS[preset](), vocabulary=101))(ids[:, :3], ids)
    assert found.shape == (2, 5, 101)


@pytest.mark.parametrize(
    ("config", "change", "sentence"),
    [
        (SPEAKER, {"dilations": ()}, r"model.dilations is \[\]; it must be a list of numbers from 1 on"),
        (SPEAKER, {"dilations": (1, 0)}, r"model.dilations is \[1, 0\]"),
        (SPEAKER, {"kernel": 0}, "model.kernel is 0; it must be at least 1"),
        (SPEAKER, {"dropout": 1.0}, "model.dropout is 1.0"),
        (TRANSLATOR, {"decoder_layers": 0}, "model.decoder_layers is 0; it must be at least 1"),
        (
            TRANSLATOR,
            {"positions": PositionsConfig(kind="rotary")},
            "convolutions can have learned, sinusoidal or none",
        ),
    ],
)
def test_sizes_that_cannot_be_are_refused_in_a_sentence(config, change, sentence):
    with pytest.raises(ConfigError, match=sentence):
        replace(config, **change)
