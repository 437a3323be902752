import pytest
import torch
from torch.nn import functional
from torch.testing import assert_close

from manyheads.core.errors import ConfigError
from manyheads.nn.feedforward import FeedForward, GatedFeedForward, build_feedforward

X = torch.randn(2, 5, 7, generator=torch.Generator().manual_seed(0))

FORMULAS = {
    "relu": lambda x: x.clamp(min=0),
    "gelu": lambda x: x * 0.5 * (1 + torch.erf(x / 2**0.5)),
    "gelu_tanh": lambda x: 0.5 * x * (1 + torch.tanh((2 / torch.pi) ** 0.5 * (x + 0.044715 * x**3))),
    "silu": lambda x: x * torch.sigmoid(x),
}


@pytest.mark.parametrize("activation", FORMULAS)
def test_it_is_two_matrices_with_the_activation_between(activation):
    layer = build_feedforward(activation, 7, 11)
    inner = X @ layer.inner.weight.T + layer.inner.bias
    assert_close(layer(X), FORMULAS[activation](inner) @ layer.outer.weight.T + layer.outer.bias)
    assert layer.inner.weight.shape == (11, 7)


def test_swiglu_gates_the_second_half_with_the_first():
    layer = build_feedforward("swiglu", 7, 11, bias=False)
    assert isinstance(layer, GatedFeedForward)
    gate, up = layer.gate_up.weight[:11], layer.gate_up.weight[11:]
    expected = (functional.silu(X @ gate.T) * (X @ up.T)) @ layer.outer.weight.T
    assert_close(layer(X), expected)
    assert not torch.allclose(layer(X), (functional.silu(X @ up.T) * (X @ gate.T)) @ layer.outer.weight.T)


@pytest.mark.parametrize("activation", ["relu", "swiglu"])
def test_every_position_is_treated_alone(activation):
    layer = build_feedforward(activation, 7, 11)
    changed = X.clone()
    changed[0, 3] += 1
    before, after = layer(X), layer(changed)
    same = torch.ones(2, 5, dtype=torch.bool)
    same[0, 3] = False
    assert_close(after[same], before[same])
    assert not torch.allclose(after[0, 3], before[0, 3])


@pytest.mark.parametrize("activation", ["relu", "swiglu"])
def test_dropout_acts_in_training_alone(activation):
    layer = build_feedforward(activation, 7, 11, dropout=0.5)
    assert not torch.equal(layer(X), layer(X))
    layer.eval()
    assert torch.equal(layer(X), layer(X))


@pytest.mark.parametrize("activation", ["relu", "swiglu"])
def test_without_bias_there_is_none(activation):
    assert all(parameter.dim() == 2 for parameter in build_feedforward(activation, 7, 11, bias=False).parameters())
    assert any(parameter.dim() == 1 for parameter in build_feedforward(activation, 7, 11).parameters())


def test_an_unknown_activation_is_refused_with_the_names_that_are_known():
    with pytest.raises(ConfigError, match="relu, gelu, gelu_tanh, silu, or swiglu"):
        build_feedforward("tanhh", 7, 11)
    with pytest.raises(ConfigError, match="'swiglu'"):
        FeedForward(7, 11, "swiglu")
