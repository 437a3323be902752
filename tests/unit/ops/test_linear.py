import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.testing import assert_close

from manyheads.nn.layers import Linear
from manyheads.ops import linear as layouts


@pytest.mark.parametrize("shape", [(1, 7), (3, 7), (2, 5, 7)])
@pytest.mark.parametrize("bias", [True, False])
def test_it_is_torchs_linear_with_and_without_gradients(shape, bias):
    layer, x = Linear(7, 11, bias=bias), torch.randn(shape)
    assert_close(layer(x), F.linear(x, layer.weight, layer.bias))
    with torch.inference_mode():
        assert_close(layer(x), F.linear(x, layer.weight, layer.bias), atol=1e-5, rtol=1e-5)
        assert_close(layer(x, rows=(2, 6)), F.linear(x, layer.weight, layer.bias)[..., 2:6], atol=1e-5, rtol=1e-5)
    assert_close(layer(x, rows=(2, 6)), layer(x)[..., 2:6])


@pytest.mark.parametrize("fused", [True, False])
def test_a_weight_that_was_trained_is_laid_out_anew(fused):
    layer, x = Linear(7, 11), torch.randn(3, 7)
    optimizer = torch.optim.Adam(layer.parameters(), lr=0.1, fused=fused)
    for _ in range(3):
        with torch.inference_mode():
            before = layer(x)
        layer(x).square().sum().backward()
        optimizer.step()
        with torch.inference_mode():
            assert not torch.allclose(layer(x), before, atol=1e-2)
            assert_close(layer(x), F.linear(x, layer.weight, layer.bias), atol=1e-5, rtol=1e-5)


def test_a_weight_that_is_trained_elsewhere_is_laid_out_anew():
    layer, x = Linear(7, 11), torch.randn(3, 7)
    optimizer = torch.optim.Adam(layer.parameters(), lr=0.1, fused=True)
    with torch.inference_mode():
        layer(x)
    layer.weight.grad = torch.ones_like(layer.weight)  # as the output matrix gets it, which its loss multiplies itself
    optimizer.step()
    with torch.inference_mode():
        assert_close(layer(x), F.linear(x, layer.weight, layer.bias), atol=1e-5, rtol=1e-5)


def test_a_layer_made_in_inference_mode_works():
    with torch.inference_mode():
        layer, x = Linear(7, 11), torch.randn(3, 7)
        assert_close(layer(x), F.linear(x, layer.weight, layer.bias))


def test_a_weight_that_was_loaded_is_laid_out_anew():
    layer, other, x = Linear(7, 11), nn.Linear(7, 11), torch.randn(3, 7)
    with torch.inference_mode():
        layer(x)
    layer.load_state_dict(other.state_dict())
    with torch.inference_mode():
        assert_close(layer(x), other(x), atol=1e-5, rtol=1e-5)


def swap_rows(weight):
    weight.data[[2, 3]] = weight.data[[3, 2]]


@pytest.mark.parametrize(
    "change",
    [
        lambda weight: weight.data.mul_(2),
        lambda weight: weight.data[3, 2].add_(0.1),
        swap_rows,
        lambda weight: weight.detach().numpy().fill(1.0),
        lambda weight: setattr(weight, "data", torch.ones_like(weight)),
    ],
    ids=["all", "one number", "rows swapped", "through numpy", "another tensor"],
)
@pytest.mark.parametrize("rows", [None, (2, 6)])
def test_a_weight_that_was_written_to_past_autograd_is_laid_out_anew(change, rows):
    layer, x = Linear(7, 11), torch.randn(3, 7)
    with torch.inference_mode():
        before = layer(x, rows=rows)
    change(layer.weight)
    with torch.inference_mode():
        expected = F.linear(x, layer.weight, layer.bias)[..., slice(*(rows or (None,)))]
        assert_close(layer(x, rows=rows), expected, atol=1e-5, rtol=1e-5)
        assert not torch.allclose(expected, before, atol=1e-3)


def test_steps_between_which_no_weight_changes_look_at_each_once_and_next_to_each_other(monkeypatch):
    looked, vector = [], layouts._vector
    monkeypatch.setattr(layouts, "_vector", lambda width: looked.append(width) or vector(width))
    first, second, x = Linear(7, 11), Linear(5, 7), torch.randn(3, 5)
    steps, others = layouts.SameWeights(), layouts.SameWeights()
    with torch.inference_mode():
        for _ in range(4):
            for each in (steps, others):
                with each:
                    found = first(second(x))
        assert_close(found, first(second(x)))
    assert len(looked) == layouts._HAS_LAYOUTS * (2 * 2 + 2)
    first.load_state_dict(Linear(7, 11).state_dict())  # which raises the weight's version
    with torch.inference_mode(), steps:
        assert_close(first(second(x)), F.linear(second(x), first.weight, first.bias), atol=1e-5, rtol=1e-5)


def test_layouts_go_with_their_weight():
    layer = Linear(7, 11)
    known = len(layouts._layouts)
    with torch.inference_mode():
        layer(torch.randn(3, 7))
    assert len(layouts._layouts) == known + layouts._HAS_LAYOUTS
    del layer
    assert len(layouts._layouts) == known
