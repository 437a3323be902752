"""Kernels for one new token of few rows on a GPU, where time goes into reading weights once and into starting kernels.

Shapes:  R rows  N outputs  K inputs  H heads  G key-value heads  D head width  C capacity of the cache
"""
# pyright: basic
# Triton's language has no types.

import torch
import triton  # type: ignore
import triton.language as tl  # type: ignore
from torch import Tensor


@triton.jit
def _linear_kernel(
    x_RK, gain_K, shift_K, weight_NK, bias_N, residual_RN, out_RN, rows, outputs, inputs, epsilon,
    NORMED: tl.constexpr, GELU: tl.constexpr, ADDED: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """BLOCK_N outputs of one row: the norm of the input, the product, bias, activation and residual in one visit."""
    n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    row = tl.program_id(1)
    k = tl.arange(0, BLOCK_K)
    total = tl.zeros([BLOCK_N], tl.float32)
    tl.extra.cuda.gdc_launch_dependents()  # the next kernel may start, to read its weights while this one works
    for first in range(0, inputs, BLOCK_K):
        inside = first + k < inputs
        weight = tl.load(
            weight_NK + n[:, None].to(tl.int64) * inputs + (first + k)[None, :],
            mask=(n < outputs)[:, None] & inside[None, :], other=0.0,
        )  # fmt: skip
        if first == 0:
            tl.extra.cuda.gdc_wait()  # for the kernel before, which writes x
        x = tl.load(x_RK + row * inputs + first + k, mask=inside, other=0.0).to(tl.float32)
        if NORMED:  # the block then holds the whole row
            centred = tl.where(inside, x - tl.sum(x) / inputs, 0.0)
            x = centred * tl.rsqrt(tl.sum(centred * centred) / inputs + epsilon)
            x = x * tl.load(gain_K + k, mask=inside, other=0.0) + tl.load(shift_K + k, mask=inside, other=0.0)
        total += tl.sum(weight.to(tl.float32) * x[None, :], axis=1)
    total += tl.load(bias_N + n, mask=n < outputs, other=0.0).to(tl.float32)
    if GELU:
        total = total * tl.sigmoid(1.5957691216057308 * (total + 0.044715 * total * total * total))
    if ADDED:
        total += tl.load(residual_RN + row * outputs + n, mask=n < outputs, other=0.0).to(tl.float32)
    tl.store(out_RN + row * outputs + n, total, mask=n < outputs)


def linear(x_RK: Tensor, weight_NK: Tensor, bias_N: Tensor, *, norm=None, gelu=False, residual_RN=None) -> Tensor:
    """gelu(norm(x) weightᵀ + bias) + residual, of which only the product has to be; `norm` is an nn.LayerNorm."""
    (rows, inputs), outputs = x_RK.shape, weight_NK.shape[0]
    out_RN = torch.empty(rows, outputs, dtype=x_RK.dtype, device=x_RK.device)
    block_k = triton.next_power_of_2(inputs) if norm is not None else min(triton.next_power_of_2(inputs), 4096)
    block_n = 4 if outputs >= 4096 else 2
    gain, shift, epsilon = (norm.weight, norm.bias, norm.eps) if norm is not None else (bias_N, bias_N, 0.0)
    _linear_kernel[(triton.cdiv(outputs, block_n), rows)](  # type: ignore
        x_RK, gain, shift, weight_NK, bias_N, residual_RN if residual_RN is not None else x_RK, out_RN,
        rows, outputs, inputs, epsilon,
        NORMED=norm is not None, GELU=gelu, ADDED=residual_RN is not None, BLOCK_N=block_n, BLOCK_K=block_k,
        num_warps=4, launch_pdl=True,
    )  # fmt: skip
    return out_RN


@triton.jit
def _taken_in(keys, values, seen, q, most, total, mixed):
    """A block of keys and values taken into a softmax that is under way (Milakov and Gimelshein 2018)."""
    scores = tl.where(seen, tl.sum(keys.to(tl.float32) * q[None, :], axis=1), float("-inf"))
    higher = tl.maximum(most, tl.max(scores))
    shrunk, weights = tl.exp(most - higher), tl.exp(scores - higher)
    mixed = mixed * shrunk + tl.sum(weights[:, None] * values.to(tl.float32), axis=0)
    return higher, total * shrunk + tl.sum(weights), mixed


@triton.jit
def _attention_kernel(
    qkv_R, keys_RGCD, values_RGCD, lengths_R, out_RHD, scale, capacity,
    H: tl.constexpr, G: tl.constexpr, D: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_T: tl.constexpr,
):  # fmt: skip
    """One head of one row: its new key and value into the cache, and its query over all keys so far."""
    tl.extra.cuda.gdc_launch_dependents()
    row, head = tl.program_id(0), tl.program_id(1)
    group = head // (H // G)
    d, t = tl.arange(0, BLOCK_D), tl.arange(0, BLOCK_T)
    inside = d < D
    place = tl.load(lengths_R + row)
    cached = (row * G + group).to(tl.int64) * capacity * D
    cells, seen = cached + t[:, None] * D + d[None, :], t < place
    # Keys of earlier steps are there already: they are read while the kernel before still makes the new one.
    keys = tl.load(keys_RGCD + cells, mask=seen[:, None] & inside[None, :], other=0.0)
    values = tl.load(values_RGCD + cells, mask=seen[:, None] & inside[None, :], other=0.0)
    tl.extra.cuda.gdc_wait()
    new = qkv_R + row * (H + 2 * G) * D + d
    q = tl.load(new + head * D, mask=inside, other=0.0).to(tl.float32) * scale
    key = tl.load(new + (H + group) * D, mask=inside, other=0.0)
    value = tl.load(new + (H + G + group) * D, mask=inside, other=0.0)
    # Heads that share a key write the same twice.
    tl.store(keys_RGCD + cached + place * D + d, key, mask=inside)
    tl.store(values_RGCD + cached + place * D + d, value, mask=inside)
    most, total, mixed = tl.sum(q * key.to(tl.float32)), tl.full([], 1.0, tl.float32), value.to(tl.float32)
    most, total, mixed = _taken_in(keys, values, seen, q, most, total, mixed)
    for first in range(BLOCK_T, place, BLOCK_T):
        cells, seen = cached + (first + t)[:, None] * D + d[None, :], first + t < place
        keys = tl.load(keys_RGCD + cells, mask=seen[:, None] & inside[None, :], other=0.0)
        values = tl.load(values_RGCD + cells, mask=seen[:, None] & inside[None, :], other=0.0)
        most, total, mixed = _taken_in(keys, values, seen, q, most, total, mixed)
    tl.store(out_RHD + (row * H + head) * D + d, mixed / total, mask=inside)


def attention(qkv_R: Tensor, keys_RGCD: Tensor, values_RGCD: Tensor, lengths_R: Tensor, heads: int) -> Tensor:
    """[R, H · D]: the new position of each row over those in the cache, which it is added to."""
    rows, groups, capacity, width = keys_RGCD.shape
    out = torch.empty(rows, heads * width, dtype=qkv_R.dtype, device=qkv_R.device)
    _attention_kernel[(rows, heads)](  # type: ignore
        qkv_R, keys_RGCD, values_RGCD, lengths_R, out, width**-0.5, capacity,
        H=heads, G=groups, D=width, BLOCK_D=triton.next_power_of_2(width), BLOCK_T=256, num_warps=8, launch_pdl=True,
    )  # fmt: skip
    return out
