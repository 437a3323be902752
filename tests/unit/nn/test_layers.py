import pytest
import torch
from torch.nn import functional
from torch.testing import assert_close

from manyheads.core.errors import ConfigError
from manyheads.nn.layers import (
    FeedForward,
    GatedFeedForward,
    OutputProjection,
    TokenEmbedding,
    build_feedforward,
    build_norm,
)

V, W, PAD = 11, 8, 10
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


def test_rms_norm_divides_by_the_root_mean_square_and_keeps_the_mean():
    x = 3 * torch.randn(2, 5, 7) + 4
    y = build_norm("rms", 7, 1e-6)(x)
    assert_close(y, x / x.square().mean(-1, keepdim=True).add(1e-6).sqrt())
    assert (y.mean(-1).abs() > 0.1).any()


def test_epsilon_reaches_the_norm():
    x = torch.full((1, 7), 1e-3)
    x[0, 0] = 0
    for kind in ("layer", "rms"):
        assert not torch.allclose(build_norm(kind, 7, 1e-12)(x), build_norm(kind, 7, 1e-2)(x))


def test_an_unknown_norm_is_refused_with_the_names_that_are_known():
    with pytest.raises(ConfigError, match="layer or rms"):
        build_norm("batch", 7, 1e-5)


def test_rows_times_the_scale():
    embedding = TokenEmbedding(V, W, pad=PAD, scale=3.0)
    ids = torch.tensor([[1, 4, PAD], [4, 0, 2]])
    assert_close(embedding(ids), 3.0 * embedding.weight[ids])


def test_scaled_embeddings_start_at_about_one():
    embedding = TokenEmbedding(3000, 64, scale=8.0)
    assert_close(embedding(torch.arange(3000)).std(), torch.tensor(1.0), rtol=0.02, atol=0)


def test_the_pad_row_is_zero_and_learns_nothing():
    embedding = TokenEmbedding(V, W, pad=PAD)
    assert not embedding.weight[PAD].any()
    embedding(torch.tensor([[1, PAD]])).sum().backward()
    assert not embedding.weight.grad[PAD].any()
    assert embedding.weight.grad[1].all()
    assert TokenEmbedding(V, W).weight[PAD].any()


def test_logits_are_products_with_every_row():
    embedding = TokenEmbedding(V, W)
    output = OutputProjection(embedding.weight)
    x = torch.randn(2, 3, W)
    assert_close(output(x), x @ embedding.weight.T)
    assert output.weight is embedding.weight


def test_what_never_comes_has_no_part_in_a_softmax():
    embedding = TokenEmbedding(V, W, pad=PAD)
    output = OutputProjection(embedding.weight, never=PAD)
    logits = output(torch.randn(2, 3, W))
    assert not logits.softmax(dim=-1)[..., PAD].any()
    functional.cross_entropy(logits.flatten(0, 1), torch.zeros(6, dtype=torch.long)).backward()
    assert not embedding.weight.grad[PAD].any()
    assert bool(logits.half().isfinite().all())
    assert OutputProjection(embedding.weight)(torch.randn(2, 3, W)).softmax(dim=-1)[..., PAD].all()
