"""Losses.  Shapes:  N positions  W width  V vocabulary"""

from functools import cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

SMALL = 2**18  # logits that need no care: torch's own function is quickest
CHUNK = 1024  # positions whose logits stand in memory at once on a CPU
GPU_CELLS = 2**29  # logits at once on a GPU, where larger products are quicker
WORTH_COMPILING = 2**27  # logits of a batch from which compiling pays, in seconds saved within some hundred steps
ALIGNED = 64  # a vocabulary that is a multiple of it multiplies quicker on a GPU


def smoothed_cross_entropy(
    states_NW: Tensor,
    weight_VW: Tensor,
    bias_V: Tensor,
    targets_N: Tensor,
    *,
    smoothing: float = 0.0,
    never: int | None = None,
    chunk: int | None = None,
) -> tuple[Tensor, Tensor]:
    """Summed cross-entropy of softmax(states · weightᵀ + bias) with label smoothing (Szegedy et al. 2016), and without.

    The second value is the plain negative log-likelihood, for perplexity; only the first carries a gradient. The token
    `never` (padding) gets no smoothing mass and no gradient. Logits are made `chunk` positions at a time and their
    gradient is written over them, so that [N, V] never stands in memory.
    """
    kind = states_NW.device.type
    if len(states_NW) * len(weight_VW) <= SMALL and not smoothing and never is None and not chunk:
        likelihood = F.cross_entropy(F.linear(states_NW, weight_VW, bias_V).float(), targets_N, reduction="sum")
        return likelihood, likelihood.detach()
    chunk = chunk or (CHUNK if kind == "cpu" else max(GPU_CELLS // len(weight_VW), 1))
    if torch.is_autocast_enabled(kind):
        states_NW = states_NW.to(torch.get_autocast_dtype(kind))
    with torch.autocast(kind, enabled=False):
        if torch.is_grad_enabled():
            return _SmoothedCrossEntropy.apply(states_NW, weight_VW, bias_V, targets_N, smoothing, never, chunk)  # type: ignore
        weight_VW = weight_VW.to(states_NW.dtype)
        losses = [
            _losses(_logits(states, weight_VW, bias_V).float(), targets, smoothing, never)[:2]
            for states, targets in zip(states_NW.split(chunk), targets_N.split(chunk))
        ]
    return torch.stack([loss for loss, _ in losses]).sum(), torch.stack([plain for _, plain in losses]).sum()


def _logits(states_NW: Tensor, weight_VW: Tensor, bias_V: Tensor) -> Tensor:
    return torch.addmm(bias_V.to(states_NW.dtype), states_NW, weight_VW.T)


def _losses(logits_NV: Tensor, targets_N: Tensor, smoothing: float, never: int | None) -> tuple[Tensor, Tensor, Tensor]:
    normaliser_N = logits_NV.logsumexp(dim=1)
    plain = (normaliser_N - logits_NV.gather(1, targets_N[:, None]).squeeze(1)).sum()
    if not smoothing:
        return plain, plain, normaliser_N
    summed_N = logits_NV.sum(dim=1) - (0.0 if never is None else logits_NV[:, never])
    uniform = (normaliser_N - summed_N / _choices(logits_NV, never)).sum()
    return (1 - smoothing) * plain + smoothing * uniform, plain, normaliser_N


def _choices(logits_NV: Tensor, never: int | None) -> int:
    return logits_NV.shape[1] - (1 if never is not None else 0)


# d loss / d logits = softmax - smoothing / choices - (1 - smoothing) · one-hot
def _written_over(logits_NV: Tensor, targets_N: Tensor, smoothing: float, never: int | None):
    """Loss, likelihood and the gradient, which is written over the logits."""
    logits = logits_NV.float()
    loss, plain, normaliser = _losses(logits, targets_N, smoothing, never)
    gradient = logits.sub_(normaliser[:, None]).exp_()
    if smoothing:
        gradient.sub_(smoothing / _choices(logits, never))
    gradient[torch.arange(len(targets_N), device=targets_N.device), targets_N] -= 1 - smoothing
    if never is not None:
        gradient[:, never] = 0.0
    return loss, plain, gradient.to(logits_NV.dtype)


def _as_formula(logits_NV: Tensor, targets_N: Tensor, smoothing: float, never: int | None):
    """The same without writing over anything, for a compiler to make one kernel of."""
    logits = logits_NV.float()
    loss, plain, normaliser = _losses(logits, targets_N, smoothing, never)
    tokens_V = torch.arange(logits.shape[1], device=logits.device)
    gradient = (logits - normaliser[:, None]).exp() - smoothing / _choices(logits, never)
    gradient = gradient - torch.where(tokens_V == targets_N[:, None], 1 - smoothing, 0.0)
    if never is not None:
        gradient = torch.where(tokens_V == never, 0.0, gradient)
    return loss, plain, gradient.to(logits_NV.dtype)


@cache
def _compiled():
    return torch.compile(_as_formula)


def _kernel(states_NW: Tensor, vocabulary: int):
    from torch.utils._triton import has_triton

    large = states_NW.device.type == "cuda" and len(states_NW) * vocabulary >= WORTH_COMPILING
    return _compiled() if large and has_triton() else _written_over


def _aligned(weight_VW: Tensor, bias_V: Tensor, dtype: torch.dtype, smoothing: float) -> tuple[Tensor, Tensor]:
    """Weight and bias in the precision of the states; on a GPU with rows behind the last that no softmax sees."""
    missing = -len(weight_VW) % ALIGNED
    if weight_VW.device.type == "cpu" or smoothing or not missing:
        return weight_VW.to(dtype), bias_V.to(dtype)
    weight = weight_VW.new_zeros(len(weight_VW) + missing, weight_VW.shape[1], dtype=dtype)
    bias = bias_V.new_full((len(weight),), -1e4, dtype=dtype)
    weight[: len(weight_VW)], bias[: len(weight_VW)] = weight_VW, bias_V
    return weight, bias


class _SmoothedCrossEntropy(torch.autograd.Function):
    """The loss and its gradient in one visit per chunk."""

    @staticmethod
    def forward(
        ctx: Any,
        states_NW: Tensor,
        weight_VW: Tensor,
        bias_V: Tensor,
        targets_N: Tensor,
        smoothing: float,
        never: int | None,
        chunk: int,
    ) -> tuple[Tensor, Tensor]:
        weight, bias = _aligned(weight_VW, bias_V, states_NW.dtype, smoothing)
        kernel = _kernel(states_NW, len(weight))
        grad_states = torch.empty_like(states_NW)
        grad_weight = torch.zeros_like(weight, dtype=weight_VW.dtype)
        grad_bias = torch.zeros_like(bias, dtype=bias_V.dtype) if ctx.needs_input_grad[2] else None
        total = states_NW.new_zeros((), dtype=torch.float32)
        likelihood = total.clone()
        for states, targets, grad in zip(states_NW.split(chunk), targets_N.split(chunk), grad_states.split(chunk)):
            loss, plain, gradient = kernel(_logits(states, weight, bias), targets, smoothing, never)
            total += loss
            likelihood += plain
            torch.mm(gradient, weight, out=grad)
            grad_weight += gradient.T @ states
            if grad_bias is not None:
                grad_bias += gradient.sum(dim=0)
        bias_grad = None if grad_bias is None else grad_bias[: len(weight_VW)]
        ctx.save_for_backward(grad_states, grad_weight[: len(weight_VW)], bias_grad)
        ctx.mark_non_differentiable(likelihood)
        return total, likelihood

    @staticmethod
    def backward(ctx: Any, grad_total: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore
        grad_states, grad_weight, grad_bias = ctx.saved_tensors
        grad_bias = None if grad_bias is None else grad_bias * grad_total
        return grad_states * grad_total, grad_weight * grad_total, grad_bias, None, None, None, None
