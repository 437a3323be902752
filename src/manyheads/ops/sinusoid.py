"""Sinusoidal positions.  Shapes:  T positions  P pairs (of a sine and a cosine)"""

import torch
from torch import Tensor


def sinusoid(positions_T: Tensor, width: int, base: float = 10_000.0) -> Tensor:
    """[T, width] of sin and cos of position / base^(2i / width): section 3.5 of Vaswani et al. (2017).

    Sine and cosine alternate along the width; an odd width ends in a sine.
    """
    # float64, since a float32 angle of some ten thousand radians has lost its third decimal
    exponents_P = torch.arange(0, width, 2, dtype=torch.float64, device=positions_T.device) / width
    angles_TP = positions_T.to(torch.float64)[:, None] * base**-exponents_P
    pairs_TP2 = torch.stack((angles_TP.sin(), angles_TP.cos()), dim=-1)
    return pairs_TP2.flatten(1)[:, :width].to(torch.float32)
