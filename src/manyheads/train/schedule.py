"""Learning rates as a fraction of the peak, step by step; the first step is 1."""

import math


def inverse_sqrt(step: int, warmup: int, steps: int) -> float:
    """min(step / warmup, √(warmup / step)): section 5.3 of Vaswani et al. (2017), its peak set to one."""
    return min(step / warmup, math.sqrt(warmup / step))


def cosine(step: int, warmup: int, steps: int) -> float:
    """A linear warm-up, then half a cosine down to a tenth (Loshchilov and Hutter 2017)."""
    if step <= warmup:
        return step / warmup
    done = min((step - warmup) / max(steps - warmup, 1), 1.0)
    return 0.1 + 0.45 * (1 + math.cos(math.pi * done))


def constant(step: int, warmup: int, steps: int) -> float:
    """A linear warm-up, then the peak."""
    return min(step / warmup, 1.0)


SCHEDULES = {"inverse_sqrt": inverse_sqrt, "cosine": cosine, "constant": constant}
