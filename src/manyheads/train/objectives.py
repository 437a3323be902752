"""Objectives: what a batch asks of a model.  Shapes:  B batch  T positions  N real positions"""

from dataclasses import dataclass

import torch
from torch import Tensor

from manyheads.ops.losses import smoothed_cross_entropy


@dataclass(frozen=True)
class Loss:
    """Sums over the real tokens of a batch, so that batches of any size can be added up."""

    total: Tensor
    """What training makes small, with label smoothing."""
    likelihood: Tensor
    """Negative log-likelihood, for perplexity."""
    tokens: int


def translation_loss(model, batch, *, smoothing: float = 0.0) -> Loss:
    """Each target token from those before it and the source; the vocabulary is only multiplied where no padding is."""
    pad, start = model.config.pad, model.config.start
    before_BT = torch.cat([torch.full_like(batch.target[:, :1], start), batch.target[:, :-1]], dim=1)
    states = model.states(batch.source, before_BT)
    real = (batch.target != pad).flatten().nonzero().squeeze(1)
    total, likelihood = smoothed_cross_entropy(
        states.flatten(0, 1).index_select(0, real),
        model.output.weight,
        model.output.bias,
        batch.target.flatten().index_select(0, real),
        smoothing=smoothing,
        never=pad,
    )
    return Loss(total, likelihood, batch.target_tokens)
