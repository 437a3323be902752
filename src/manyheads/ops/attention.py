"""Attention kernels.  Shapes:  B batch  H heads  Q query positions  K key positions  D head width  E value width

A mask is bool, True = may look, of any shape that broadcasts to [B, H, Q, K]; a row with nothing to see gives zeros.
`causal` lets query i look at keys up to i, counted from the end, so that one new query sees every cached key.
Keys and values may have fewer heads than queries (grouped queries); each then serves H / fewer query heads.
"""

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from manyheads.ops.masks import causal_mask

Kernel = Callable[..., Tensor]  # any function of the signature of `reference`
FEW = 8  # queries: with so few, as when decoding, torch's fused kernel on a CPU is slower than the formula


def attention_weights(
    q_BHQD: Tensor,
    k_BHKD: Tensor,
    *,
    mask: Tensor | None = None,
    bias: Tensor | None = None,
    causal: bool = False,
    scale: float | None = None,
) -> Tensor:
    """softmax(q kᵀ · scale + bias) over the keys that may be looked at: [B, H, Q, K]."""
    scale = float(q_BHQD.shape[-1] ** -0.5) if scale is None else scale
    scores_BHQK = (q_BHQD * scale) @ _for_each_head(k_BHKD, q_BHQD.shape[1]).transpose(-1, -2)
    if bias is not None:
        scores_BHQK = scores_BHQK + bias
    mask = _merged(mask, causal, scores_BHQK.shape[-2], scores_BHQK.shape[-1], scores_BHQK.device)
    if mask is None:
        return scores_BHQK.softmax(dim=-1)
    weights_BHQK = scores_BHQK.masked_fill(~mask, -math.inf).softmax(dim=-1)
    blind = ~mask.any(dim=-1, keepdim=True)
    return weights_BHQK.masked_fill(blind, 0.0) if bool(blind.any()) else weights_BHQK


def reference(
    q_BHQD: Tensor,
    k_BHKD: Tensor,
    v_BHKE: Tensor,
    *,
    mask: Tensor | None = None,
    bias: Tensor | None = None,
    causal: bool = False,
    scale: float | None = None,
    dropout: float = 0.0,
) -> Tensor:
    """softmax(q kᵀ · scale + bias) v: section 3.2.1 of Vaswani et al. (2017), written as it reads."""
    weights_BHQK = attention_weights(q_BHQD, k_BHKD, mask=mask, bias=bias, causal=causal, scale=scale)
    return F.dropout(weights_BHQK, dropout) @ _for_each_head(v_BHKE, q_BHQD.shape[1])


def sdpa(
    q_BHQD: Tensor,
    k_BHKD: Tensor,
    v_BHKE: Tensor,
    *,
    mask: Tensor | None = None,
    bias: Tensor | None = None,
    causal: bool = False,
    scale: float | None = None,
    dropout: float = 0.0,
) -> Tensor:
    """The same through torch's fused kernels."""
    queries, keys = q_BHQD.shape[-2], k_BHKD.shape[-2]
    if queries <= FEW and q_BHQD.device.type == "cpu" and _only_infers():
        return reference(q_BHQD, k_BHKD, v_BHKE, mask=mask, bias=bias, causal=causal, scale=scale, dropout=dropout)
    if queries == 1:
        causal = False  # one query at the end sees every key
    if causal and (mask is not None or bias is not None or queries != keys):
        mask, causal = _merged(mask, True, queries, keys, q_BHQD.device), False
    if bias is not None:
        mask = bias if mask is None else bias.masked_fill(~mask, -math.inf)
        mask = mask.to(q_BHQD.dtype)
    grouped = q_BHQD.shape[1] != k_BHKD.shape[1]
    return F.scaled_dot_product_attention(
        q_BHQD, k_BHKD, v_BHKE, attn_mask=mask, dropout_p=dropout, is_causal=causal, scale=scale, enable_gqa=grouped
    )


def _only_infers() -> bool:
    # Asked first: a compiler cannot look into whether inference mode is on.
    return not torch.compiler.is_compiling() and torch.is_inference_mode_enabled()


def _for_each_head(x_BHKD: Tensor, heads: int) -> Tensor:
    groups = heads // x_BHKD.shape[1]
    return x_BHKD if groups == 1 else x_BHKD.repeat_interleave(groups, dim=1)


def _merged(mask: Tensor | None, causal: bool, queries: int, keys: int, device: torch.device) -> Tensor | None:
    if not causal or queries == 1:  # one query at the end sees every key
        return mask
    triangle = causal_mask(queries, keys, device)
    return triangle if mask is None else mask & triangle
