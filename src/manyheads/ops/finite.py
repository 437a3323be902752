"""Whether numbers are finite."""

import math

from torch import Tensor


def all_finite(tensor: Tensor) -> bool:
    """Whether no number is NaN or infinite."""
    # A sum shows it in one pass; only one that is not finite itself, as of large numbers, needs a look at each.
    return math.isfinite(float(tensor.sum())) or bool(tensor.isfinite().all())
