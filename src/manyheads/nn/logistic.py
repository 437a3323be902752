"""Logistic regression: how many scores labels need, and the scores of all of them."""

import torch
from torch import Tensor


def scores_needed(labels: int) -> int:
    """One for each label; of two labels one, the log-odds of the second; without labels one, a number."""
    return labels if labels > 2 else 1


def with_first_label(scores_BL: Tensor, labels: int) -> Tensor:
    """[B, labels]: of two labels the first scores zero, so that the softmax of both is the sigmoid of the second."""
    return torch.cat([torch.zeros_like(scores_BL), scores_BL], dim=1) if labels == 2 else scores_BL
