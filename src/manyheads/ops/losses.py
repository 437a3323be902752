"""Losses.  Shapes:  N positions  W width  V vocabulary"""

import torch
from torch import Tensor


def smoothed_cross_entropy(
    states_NW: Tensor,
    weight_VW: Tensor,
    bias_V: Tensor,
    targets_N: Tensor,
    *,
    smoothing: float = 0.0,
    never: int | None = None,
    chunk: int = 1024,
) -> tuple[Tensor, Tensor]:
    """Summed cross-entropy of softmax(states · weightᵀ + bias) with label smoothing (Szegedy et al. 2016), and without.

    The second value is the plain negative log-likelihood, for perplexity; only the first carries a gradient. The token
    `never` (padding) gets no smoothing mass and no gradient. Logits are made `chunk` positions at a time and their
    gradient is written over them, so that [N, V] never stands in memory.
    """
    kind = states_NW.device.type
    if torch.is_autocast_enabled(kind):
        states_NW = states_NW.to(torch.get_autocast_dtype(kind))
    with torch.autocast(kind, enabled=False):
        if torch.is_grad_enabled():
            return _SmoothedCrossEntropy.apply(states_NW, weight_VW, bias_V, targets_N, smoothing, never, chunk)  # type: ignore
        weight_VW = weight_VW.to(states_NW.dtype)
        losses = [
            _losses(_logits(states, weight_VW, bias_V), targets, smoothing, never)[:2]
            for states, targets in zip(states_NW.split(chunk), targets_N.split(chunk))
        ]
    return torch.stack([loss for loss, _ in losses]).sum(), torch.stack([plain for _, plain in losses]).sum()


def _logits(states_NW: Tensor, weight_VW: Tensor, bias_V: Tensor) -> Tensor:
    return torch.addmm(bias_V.to(states_NW.dtype), states_NW, weight_VW.T).float()


def _losses(logits_NV: Tensor, targets_N: Tensor, smoothing: float, never: int | None) -> tuple[Tensor, Tensor, Tensor]:
    normaliser_N = logits_NV.logsumexp(dim=1)
    plain = (normaliser_N - logits_NV.gather(1, targets_N[:, None]).squeeze(1)).sum()
    summed_N = logits_NV.sum(dim=1) - (0.0 if never is None else logits_NV[:, never])
    uniform = (normaliser_N - summed_N / _choices(logits_NV, never)).sum()
    return (1 - smoothing) * plain + smoothing * uniform, plain, normaliser_N


def _choices(logits_NV: Tensor, never: int | None) -> int:
    return logits_NV.shape[1] - (never is not None)


class _SmoothedCrossEntropy(torch.autograd.Function):
    """The loss and its gradient in one visit per chunk."""

    @staticmethod
    def forward(ctx, states_NW, weight_VW, bias_V, targets_N, smoothing: float, never: int | None, chunk: int):
        weight = weight_VW.to(states_NW.dtype)
        grad_states = torch.empty_like(states_NW)
        grad_weight = torch.zeros_like(weight_VW)
        total = states_NW.new_zeros((), dtype=torch.float32)
        likelihood = total.clone()
        for states, targets, grad in zip(states_NW.split(chunk), targets_N.split(chunk), grad_states.split(chunk)):
            logits = _logits(states, weight, bias_V)
            loss, plain, normaliser = _losses(logits, targets, smoothing, never)
            total += loss
            likelihood += plain
            # d loss / d logits = softmax - smoothing / choices - (1 - smoothing) · one-hot, written over the logits.
            gradient = logits.sub_(normaliser[:, None]).exp_().sub_(smoothing / _choices(logits, never))
            gradient[torch.arange(len(targets), device=targets.device), targets] -= 1 - smoothing
            if never is not None:
                gradient[:, never] = 0.0
            gradient = gradient.to(states.dtype)
            torch.mm(gradient, weight, out=grad)
            grad_weight += gradient.T @ states
        ctx.save_for_backward(grad_states, grad_weight)
        ctx.mark_non_differentiable(likelihood)
        return total, likelihood

    @staticmethod
    def backward(ctx, grad_total, _):  # type: ignore
        grad_states, grad_weight = ctx.saved_tensors
        return grad_states * grad_total, grad_weight * grad_total, None, None, None, None, None
