"""Recurrent layers against their formulas and against torch.nn."""

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from manyheads.nn.recurrent import CELLS, RecurrentState, TwoDirections, places_backwards

PEERS = {"elman": nn.RNN, "gru": nn.GRU, "lstm": nn.LSTM}
ROWS, POSITIONS, INPUTS, WIDTH = 2, 5, 3, 7


def gradients(output, weights):
    return torch.autograd.grad(output.square().sum(), weights)


@pytest.mark.parametrize("name", CELLS)
def test_the_formulas_are_the_fused_kernel_in_value_and_gradient(name):
    torch.manual_seed(1)
    layer, x = CELLS[name](INPUTS, WIDTH), torch.randn(ROWS, POSITIONS, INPUTS)
    begun = tuple(torch.randn(ROWS, WIDTH) for _ in range(layer.states))
    fused, fused_end = layer(x, begun)
    written, written_end = layer.written_out(x, begun)
    assert_close(fused, written, atol=1e-6, rtol=0)
    for one, other in zip(fused_end, written_end, strict=True):
        assert_close(one, other, atol=1e-6, rtol=0)
    for one, other in zip(gradients(fused, [*layer.parameters()]), gradients(written, [*layer.parameters()])):
        assert_close(one, other, atol=1e-6, rtol=1e-6)
    assert not torch.allclose(layer(x)[0], fused)  # where it begins matters


@pytest.mark.parametrize("name", CELLS)
def test_it_is_torch_s_own_layer_on_copied_weights(name):
    torch.manual_seed(2)
    layer, peer = CELLS[name](INPUTS, WIDTH), PEERS[name](INPUTS, WIDTH, batch_first=True)
    own = (layer.input_weight, layer.hidden_weight, layer.input_bias, layer.hidden_bias)
    with torch.no_grad():
        for mine, theirs in zip(own, peer.parameters(), strict=True):
            mine.copy_(theirs)
    x = torch.randn(ROWS, POSITIONS, INPUTS)
    found, expected = layer.written_out(x, layer.start(ROWS, x))[0], peer(x)[0]
    assert_close(found, expected, atol=1e-6, rtol=0)
    for one, other in zip(gradients(found, own), gradients(expected, [*peer.parameters()]), strict=True):
        assert_close(one, other, atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize("norm", [False, True])
@pytest.mark.parametrize("name", CELLS)
def test_pieces_are_the_whole(name, norm):
    layer, x = CELLS[name](INPUTS, WIDTH, norm), torch.randn(ROWS, POSITIONS, INPUTS)
    whole, end = layer(x)
    first, states = layer(x[:, :2])
    second, states = layer(x[:, 2:], states)
    assert_close(torch.cat([first, second], dim=1), whole, atol=1e-6, rtol=0)
    assert_close(states, end, atol=1e-6, rtol=0)


def test_padding_changes_nothing_of_two_directions():
    layer = TwoDirections(CELLS["lstm"], INPUTS, 8)
    x, real = torch.randn(ROWS, POSITIONS, INPUTS), torch.tensor([[True] * 5, [True] * 3 + [False] * 2])
    found = layer(x, places_backwards(real))
    alone = layer(x[1:, :3], places_backwards(real[1:, :3]))
    assert_close(found[1:, :3], alone, atol=1e-6, rtol=0)
    x[0, 4] += 1
    assert not torch.allclose(layer(x, places_backwards(real))[0, 0], found[0, 0])  # the first position sees the last


def test_rows_of_a_state_go_where_they_are_told():
    state = RecurrentState(beams=2)
    state.advance([(torch.arange(6.0)[:, None],)], 1)  # three sentences, two beams each
    state.select(torch.tensor([[1, 1], [0, 1], [1, 0]]), torch.tensor([2, 0]))
    assert state.layers[0][0].flatten().tolist() == [5.0, 4.0, 1.0, 1.0]
    again = RecurrentState.of(state.tensors())
    assert_close(again.layers, state.layers)
