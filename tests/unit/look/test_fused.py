"""Blocks that a larger kernel computes: what it does is told to whoever stands in a kernel's place.

The kernels themselves need a GPU (tests/unit/ops/test_decode_kernels.py); here the same sums stand for them.
"""

import sys
from types import SimpleNamespace

import pytest
import torch
from torch.nn import functional
from torch.testing import assert_close

from manyheads.look.heads import heads_off
from manyheads.look.record import recorded_attention
from manyheads.models.gpt import GPT, GPTConfig
from manyheads.ops.attention import reference

H = 3


def linear(x, weight, bias, *, norm=None, gelu=False, residual_RN=0.0):
    out = functional.linear(x if norm is None else norm(x), weight, bias)
    return (functional.gelu(out, approximate="tanh") if gelu else out) + residual_RN


def attention(qkv, keys, values, lengths, heads):
    q, k, v = qkv.unflatten(-1, (3, heads, -1)).unbind(1)
    rows = torch.arange(len(qkv))
    keys[rows, :, lengths], values[rows, :, lengths] = k, v
    mask = torch.arange(keys.shape[2]) <= lengths[:, None]
    return reference(q[:, :, None], keys, values, mask=mask[:, None, None]).flatten(1)


@pytest.fixture
def calls(monkeypatch):
    """Lets single steps through the fused block; as many calls of it as there are entries."""
    found = []

    def counted(*given):
        found.append(given)
        return attention(*given)

    monkeypatch.setitem(sys.modules, "manyheads.ops.decode_kernels", SimpleNamespace(linear=linear, attention=counted))
    monkeypatch.setattr("manyheads.ops.decode_kernels", sys.modules["manyheads.ops.decode_kernels"], raising=False)
    monkeypatch.setattr("manyheads.nn.fused.decode_kernels_fit", lambda x: x.shape[1] == 1)
    return found


def model():
    torch.manual_seed(7)
    return GPT(GPTConfig(vocabulary=31, width=12, layers=2, heads=H, context=16)).eval()


def stepped(gpt, ids):
    """Logits of a prompt of which each row has its own length, then of single steps."""
    state = gpt.decoding_state(9)
    with torch.inference_mode():
        gpt(ids[:, :4], cache=state)
        state.cut([4, 4])
        return torch.cat([gpt(ids[:, place : place + 1], cache=state) for place in range(4, 7)], dim=1)


def test_what_a_larger_kernel_computes_is_recorded_as_well(calls):
    gpt, ids = model(), torch.randint(31, (2, 7))
    with torch.inference_mode(), recorded_attention(gpt) as expected:
        whole = gpt(ids)
    with recorded_attention(gpt) as outer, recorded_attention(gpt) as inner:
        found = stepped(gpt, ids)
    assert len(calls) == 2 * 3
    assert_close(found, whole[:, 4:])
    assert_close(found, stepped(gpt, ids))
    for name, weights in expected.items():
        assert_close(outer[name], weights)
        assert_close(inner[name], weights)


def test_a_kernel_that_gives_something_else_is_called_itself(calls):
    gpt, ids = model(), torch.randint(31, (2, 7))
    with heads_off(gpt, [(0, 1), (1, 2)]):
        with torch.inference_mode():
            whole = gpt(ids)
        assert_close(stepped(gpt, ids), whole[:, 4:])
    assert not calls
