import pytest
import torch
from torch.testing import assert_close

from manyheads.ops.attention import attention_weights, reference, sdpa
from manyheads.ops.masks import causal_mask

B, H, Q, K, D, E = 2, 6, 3, 5, 4, 7
GENERATOR = torch.Generator().manual_seed(3)
PADDING = torch.tensor([[True] * 5, [True] * 3 + [False] * 2])[:, None, None, :]
RANDOM = torch.rand(B, H, Q, K, generator=GENERATOR) < 0.6
RANDOM[..., 0] = True  # no row without anything to look at: those have tests of their own
BIAS = torch.randn(B, H, Q, K, generator=GENERATOR)

CASES = {
    "plain": {},
    "random mask": {"mask": RANDOM},
    "one mask for all": {"mask": RANDOM[0, 0]},
    "padding": {"mask": PADDING},
    "causal, cached keys": {"causal": True},
    "causal and padding": {"causal": True, "mask": PADDING},
    "bias": {"bias": BIAS},
    "bias of all rows": {"bias": BIAS[:1]},
    "bias and padding": {"bias": BIAS[:1], "mask": PADDING},
    "bias, causal and padding": {"bias": BIAS[:1], "causal": True, "mask": PADDING},
    "scale": {"scale": 1 / 3},
    "no scale, mask and bias": {"scale": 1.0, "bias": BIAS, "mask": RANDOM},
}


def inputs(queries=Q, keys=K, key_value_heads=H):
    shapes = (B, H, queries, D), (B, key_value_heads, keys, D), (B, key_value_heads, keys, E)
    return [torch.randn(shape, requires_grad=True) for shape in shapes]


def with_gradients(kernel, qkv, **options):
    out = kernel(*qkv, **options)
    weights = torch.linspace(-1, 1, out.numel()).view(out.shape)
    return out, torch.autograd.grad((out * weights).sum(), qkv)


@pytest.mark.parametrize("key_value_heads", [H, 2, 1])
@pytest.mark.parametrize("case", CASES)
def test_the_fast_kernel_is_the_reference_in_value_and_gradient(case, key_value_heads):
    qkv = inputs(key_value_heads=key_value_heads)
    found, expected = with_gradients(sdpa, qkv, **CASES[case]), with_gradients(reference, qkv, **CASES[case])
    assert expected[0].shape == (B, H, Q, E)
    assert_close(found, expected, rtol=1e-4, atol=1e-5)
    if CASES[case]:
        assert not torch.allclose(expected[0], reference(*qkv))  # and the option does something


@pytest.mark.parametrize("options", [{}, {"bias": BIAS[:1, :, :, :Q]}, {"mask": PADDING[..., :Q]}])
def test_causal_without_a_cache(options):
    qkv = inputs(keys=Q)
    found, expected = (with_gradients(kernel, qkv, causal=True, **options) for kernel in (sdpa, reference))
    assert_close(found, expected, rtol=1e-4, atol=1e-5)
    assert_close(expected[0][:, :, 0], qkv[2][:, :, 0])  # the first sees itself alone


@pytest.mark.parametrize("kernel", [reference, sdpa])
def test_causal_is_the_triangle_that_ends_at_the_last_key(kernel):
    qkv = inputs()
    assert_close(kernel(*qkv, causal=True), kernel(*qkv, mask=causal_mask(Q, K)))
    last = [qkv[0][:, :, -1:], *qkv[1:]]
    assert_close(kernel(*last, causal=True), kernel(*qkv, causal=True)[:, :, -1:])
    assert_close(kernel(*last, causal=True), kernel(*last))


def test_the_reference_is_the_formula():
    q, k, v = inputs()
    for b, h, i in [(0, 0, 0), (1, 4, 2)]:
        exponentials = torch.stack([(q[b, h, i] @ k[b, h, j] / D**0.5).exp() for j in range(K)])
        assert_close(reference(q, k, v)[b, h, i], exponentials / exponentials.sum() @ v[b, h])


def test_weights_sum_to_one_over_what_may_be_seen():
    q, k, _ = inputs()
    weights = attention_weights(q, k, mask=RANDOM)
    assert_close(weights.sum(dim=-1), torch.ones(B, H, Q))
    assert torch.equal(weights > 0, RANDOM)


@pytest.mark.parametrize("kernel", [reference, sdpa])
@pytest.mark.parametrize("bias", [None, BIAS])
def test_a_row_with_nothing_to_look_at_gives_zeros_and_no_gradient(kernel, bias):
    mask = RANDOM.clone()
    mask[0, :, 1] = False
    mask[1] = False
    qkv = inputs()
    out, (dq, dk, dv) = with_gradients(kernel, qkv, mask=mask, bias=bias)
    assert torch.equal(out[0, :, 1], torch.zeros(H, E))
    assert torch.equal(out[1], torch.zeros(H, Q, E))
    assert torch.equal(dq[0, :, 1], torch.zeros(H, D))
    assert all(torch.equal(grad[1], torch.zeros_like(grad[1])) for grad in (dq, dk, dv))
    assert all(bool(grad.isfinite().all()) for grad in (dq, dk, dv))
    # the rows beside it are as if it were not there
    expected, gradients = with_gradients(kernel, qkv, mask=RANDOM, bias=bias)
    assert_close(out[0, :, 0], expected[0, :, 0])
    assert_close(dq[0, :, 2], gradients[0][0, :, 2])
    assert bool(out[0, :, 0].abs().sum() > 0)


def test_weights_are_zero_where_nothing_may_be_seen():
    q, k, _ = inputs()
    nothing = torch.zeros(Q, K, dtype=torch.bool)
    assert torch.equal(attention_weights(q, k, mask=nothing), torch.zeros(B, H, Q, K))


@pytest.mark.parametrize("kernel", [reference, sdpa])
def test_dropout_follows_the_seed_keeps_the_mean_and_is_off_at_zero(kernel):
    q, k, v = inputs()
    plain = kernel(q, k, v)
    assert torch.equal(kernel(q, k, v, dropout=0.0), plain)
    draws = []
    for _ in range(2):
        torch.manual_seed(5)
        draws.append(kernel(q, k, v, dropout=0.4))
    assert torch.equal(draws[0], draws[1])
    assert not torch.allclose(kernel(q, k, v, dropout=0.4), draws[0])
    many = [tensor.repeat(2000, 1, 1, 1) for tensor in (q[:1], k[:1], v[:1])]
    mean = kernel(*many, dropout=0.4).mean(dim=0)
    assert_close(mean, plain[0], rtol=0, atol=0.15)
    assert not torch.allclose(mean * 0.6, plain[0], rtol=0, atol=0.15)  # without the 1 / (1 - p) it would be this
