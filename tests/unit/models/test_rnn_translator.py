"""Recurrent translators: each decoder against its formulas, what it sees of the source, and its beams."""

from dataclasses import replace
from functools import partial

import pytest
import torch
from helpers import randomised
from torch import nn
from torch.testing import assert_close as torchs_assert_close

from manyheads.core.errors import ConfigError
from manyheads.generate.beam import beam_search
from manyheads.generate.greedy import greedy
from manyheads.generate.steps import CachedSteps, SpecialIds, WholeSteps
from manyheads.look.record import recorded_attention
from manyheads.models.rnn_translator import (
    DECODERS,
    PRESETS,
    Encoder,
    RNNTranslator,
    RNNTranslatorConfig,
    last_states,
)
from manyheads.nn.layers import TokenEmbedding

assert_close = partial(torchs_assert_close, rtol=1e-5, atol=1e-6)
CONFIG = RNNTranslatorConfig(vocabulary=23, width=10, dropout=0.0)
SOURCES = torch.tensor([[5, 9, 3, 1, 0, 0], [7, 2, 16, 11, 6, 1], [8, 1, 0, 0, 0, 0]])
TARGET = torch.tensor([[0, 6, 4, 12, 15], [0, 3, 3, 9, 2], [0, 2, 11, 8, 5]])


def made(seed: int = 1, **changes) -> RNNTranslator:
    torch.manual_seed(seed)
    return randomised(RNNTranslator(replace(CONFIG, **changes)), 0.3).eval()


@pytest.fixture(params=DECODERS)
def translator(request) -> RNNTranslator:
    return made(sees=request.param, layers=2)


@pytest.fixture(autouse=True)
def _without_gradients():
    with torch.no_grad():
        yield


def states_of(model: RNNTranslator, row: list[int]) -> torch.Tensor:
    """The encoder's states of one source, [T, W]."""
    ids = torch.tensor([row])
    return model.encoder(ids, ids != 0)[0]


def gru(layer, x: torch.Tensor, h: torch.Tensor) -> torch.Tensor:
    """A step of torch's own cell on the layer's weights."""
    cell = nn.GRUCell(layer.input_weight.shape[1], layer.width)
    for mine, theirs in zip(
        (layer.input_weight, layer.hidden_weight, layer.input_bias, layer.hidden_bias), cell.parameters(), strict=True
    ):
        theirs.copy_(mine)
    return cell(x[None], h[None])[0]


def written_out(model: RNNTranslator, source: list[int], target: list[int]) -> tuple[torch.Tensor, torch.Tensor]:
    """What the output reads and the weights, by the formulas of the papers, position by position, for one layer."""
    h, decoder, sees = states_of(model, source), model.decoder, model.config.sees
    last = torch.cat([h[-1, :5], h[0, 5:]])
    s, found, weights = torch.tanh(decoder.begin[0].weight @ last + decoder.begin[0].bias), [], []
    for each in target:
        y = model.encoder.embedding.weight[each]
        if sees == "context":
            c = last
            s = gru(decoder.layers[0], torch.cat([y, c]), s)
        elif sees == "bahdanau":
            attention = decoder.cross_attention
            asked = attention.query.weight @ s + attention.query.bias
            scores = [attention.score @ torch.tanh(asked + attention.key.weight @ each) for each in h]
            weights.append(torch.stack(scores).softmax(dim=0))
            c = weights[-1] @ h
            s = gru(decoder.layers[0], torch.cat([y, c]), s)
        else:
            s = gru(decoder.layers[0], y, s)
            weights.append((h @ s).softmax(dim=0))
            c = weights[-1] @ h
        told = torch.cat([s, c] if sees == "dot" else [s, c, y])
        found.append(torch.tanh(decoder.readout.weight @ told + decoder.readout.bias))
    return torch.stack(found), torch.stack(weights) if weights else torch.empty(0)


@pytest.mark.parametrize("sees", DECODERS)
def test_each_decoder_is_its_formulas(sees):
    model, source = made(sees=sees), [5, 9, 3, 1]
    expected, weights = written_out(model, source, TARGET[0].tolist())
    assert_close(model.states(torch.tensor([source]), TARGET[:1])[0], expected)
    if sees != "context":
        with recorded_attention(model) as recording:
            model(torch.tensor([source]), TARGET[:1])
        assert [*recording] == ["decoder.cross_attention"]
        assert_close(recording["decoder.cross_attention"][0, 0], weights)
        assert recording.largest_difference < 1e-6
        assert not torch.allclose(weights[0], weights[1])  # it looks elsewhere for each word


@pytest.mark.parametrize("layers", [1, 3])
def test_the_encoder_is_torch_s_own_in_both_directions(layers):
    torch.manual_seed(3)
    encoder = Encoder(replace(CONFIG, layers=layers), TokenEmbedding(23, 10, pad=0)).eval()
    peer = nn.GRU(10, 5, num_layers=layers, bidirectional=True, batch_first=True)
    mine = [
        weight
        for layer in encoder.layers
        for one in (layer.onward, layer.backward)
        for weight in (one.input_weight, one.hidden_weight, one.input_bias, one.hidden_bias)
    ]
    for own, theirs in zip(mine, peer.parameters(), strict=True):
        own.copy_(theirs)
    lengths = (SOURCES != 0).sum(dim=1)
    packed = nn.utils.rnn.pack_padded_sequence(
        encoder.embedding(SOURCES), lengths, batch_first=True, enforce_sorted=False
    )
    expected, ends = peer(packed)
    expected = nn.utils.rnn.pad_packed_sequence(expected, batch_first=True)[0]
    real = SOURCES != 0
    found = encoder(SOURCES, real)
    torchs_assert_close(found[real], expected[real], rtol=0, atol=1e-6)
    summary = last_states(found, real[:, None, None], rows=3)
    torchs_assert_close(summary, torch.cat([ends[-2], ends[-1]], dim=1), rtol=0, atol=1e-6)


def test_of_all_states_one_vector_is_what_a_decoder_without_attention_sees(translator):
    memory, mask = translator.encode(SOURCES[1:2])
    before = translator.decode(TARGET[:1], memory, mask)
    changed = memory.clone()
    changed[:, 2:4] += 1.0  # neither the last state of one direction nor of the other
    same = torch.allclose(translator.decode(TARGET[:1], changed, mask), before)
    assert same == (translator.config.sees == "context")
    memory[:, -1] += 1.0
    assert not torch.allclose(translator.decode(TARGET[:1], memory, mask), before)


def test_searching_from_states_is_searching_anew(translator):
    memory, mask = translator.encode(SOURCES)
    limits, special = torch.tensor([9, 7, 5]), SpecialIds(stop_ids=(1,), banned=(0,))
    for search in (greedy, partial(beam_search, beams=3, alpha=0.6)):
        beams = 1 if search is greedy else 3
        found, expected = (
            search(steps(translator, memory, mask, 9, beams), limits, special) for steps in (CachedSteps, WholeSteps)
        )
        ids = lambda each: [one.ids for one in (each if isinstance(each, list) else [each])]  # noqa: E731
        assert [ids(each) for each in found] == [ids(each) for each in expected]
        alone = search(CachedSteps(translator, *translator.encode(SOURCES[2:, :2]), 5, beams), limits[2:], special)
        assert ids(alone[0]) == ids(found[2])


@pytest.mark.parametrize("sees", ["bahdanau", "dot"])
def test_weights_of_steps_are_joined_into_those_of_the_whole(sees):
    model = made(sees=sees, layers=2)
    memory, mask = model.encode(SOURCES)
    with recorded_attention(model) as whole:
        model(SOURCES, TARGET)
    with recorded_attention(model) as steps:
        state = model.decoding_state()
        for piece in TARGET.split(1, dim=1):
            model.decode(piece, memory, mask, state)
    assert whole["decoder.cross_attention"].shape == (3, 1, 5, 6)
    assert_close(steps["decoder.cross_attention"], whole["decoder.cross_attention"])
    assert not whole["decoder.cross_attention"][0, :, :, 4:].any()  # nothing is seen of the padding


def test_sizes_that_cannot_be_are_refused():
    for change, sentence in (
        ({"sees": "all"}, "model.sees is 'all'; it can be context, bahdanau, dot"),
        ({"cell": "rnn"}, "model.cell is 'rnn'; it can be elman, gru, lstm"),
        ({"layers": 0}, "model.layers is 0; it must be at least 1"),
    ):
        with pytest.raises(ConfigError, match=sentence):
            replace(CONFIG, **change)
    with pytest.raises(ConfigError, match="width 11 does not split over two directions"):
        RNNTranslator(replace(CONFIG, width=11))


def test_presets_differ_in_what_is_seen():
    found = {name: PRESETS[name]().sees for name in PRESETS if name != "rnn_tiny"}
    assert found == {"rnn_context": "context", "rnn_bahdanau": "bahdanau", "rnn_dot": "dot"}
