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


def test_layouts_go_with_their_weight():
    layer = Linear(7, 11)
    known = len(layouts._layouts)
    with torch.inference_mode():
        layer(torch.randn(3, 7))
    assert len(layouts._layouts) == known + layouts._HAS_LAYOUTS
    del layer
    assert len(layouts._layouts) == known
