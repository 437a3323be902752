"""Positions as angles: sinusoids, rotary positions, and five ways to stretch those past the length trained on.

Shapes:  B batch  H heads  T positions  P pairs (of a sine and a cosine)  D head width  F frequencies, D/2 of them
"""

import math

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


def frequencies(width: int, base: float = 10_000.0, device: torch.device | None = None) -> Tensor:
    """[F] radians that each pair of dimensions turns per position: base^(-2i / width), Su et al. (2021)."""
    # float32 here and in the angles: published checkpoints were trained with exactly these roundings
    return 1.0 / base ** (torch.arange(0, width, 2, dtype=torch.float32, device=device) / width)


def linear(frequencies_F: Tensor, factor: float) -> Tensor:
    """Position interpolation, Chen et al. (2023): every pair turns `factor` times slower."""
    return frequencies_F / factor


def ntk(frequencies_F: Tensor, factor: float) -> Tensor:
    """NTK-aware scaling (bloc97, 2023): the frequencies of base · factor^(d / (d - 2)).

    The fastest pair stays as it was and the slowest turns `factor` times slower.
    """
    width = 2 * len(frequencies_F)
    growth = factor ** (width / (width - 2))
    # a larger base is one more power per pair, so the base itself need not be known
    return frequencies_F * frequencies(width, growth, frequencies_F.device)


def dynamic_ntk(frequencies_F: Tensor, factor: float, length: int, original_length: int) -> Tensor:
    """Dynamic NTK (emozilla, 2023): NTK-aware by as much as `length` exceeds `original_length`; unchanged within it."""
    if length <= original_length:
        return frequencies_F
    return ntk(frequencies_F, factor * length / original_length - (factor - 1))


def yarn(frequencies_F: Tensor, factor: float, base: float, original_length: int) -> tuple[Tensor, float]:
    """YaRN, Peng et al. (2023): the frequencies, and what the cosines and sines are multiplied by.

    Pairs that turn more than 32 times within the original length stay, those that turn less than once are interpolated,
    and a ramp joins the two.
    """
    pairs, width = len(frequencies_F), 2 * len(frequencies_F)

    def pair_that_turns(times: float) -> float:
        return width * math.log(original_length / (times * 2 * math.pi)) / (2 * math.log(base))

    first = max(math.floor(pair_that_turns(32)), 0)
    last = min(math.ceil(pair_that_turns(1)), width - 1)
    steps_F = torch.arange(pairs, dtype=torch.float32, device=frequencies_F.device) - first
    ramp_F = (steps_F / (last - first if last != first else 0.001)).clamp(0, 1)
    attention_factor = 0.1 * math.log(factor) + 1.0
    return frequencies_F / factor * ramp_F + frequencies_F * (1 - ramp_F), attention_factor


def llama3(
    frequencies_F: Tensor, factor: float, original_length: int, low_turns: float = 1.0, high_turns: float = 4.0
) -> Tensor:
    """Llama 3.1's scaling (Grattafiori et al. 2024): YaRN's ramp, over the turns of a pair instead of its number.

    Pairs that turn more than `high_turns` times within the original length stay, those that turn less than `low_turns`
    times turn `factor` times slower.
    """
    # in this order of operations, with whose roundings the published checkpoints were trained
    turns_F = original_length / (2 * math.pi / frequencies_F)
    kept_F = ((turns_F - low_turns) / (high_turns - low_turns)).clamp(0, 1)
    return (1 - kept_F) * frequencies_F / factor + kept_F * frequencies_F


def cosines_sines(positions_T: Tensor, frequencies_F: Tensor, attention_factor: float = 1.0) -> Tensor:
    """[T, 2, D]: for each position its cosines, then its sines, each laid out twice for the half-split `rotate`."""
    angles_TF = positions_T.to(torch.float32)[:, None] * frequencies_F
    angles_TD = torch.cat((angles_TF, angles_TF), dim=-1)
    return torch.stack((angles_TD.cos(), angles_TD.sin()), dim=1) * attention_factor


def rotate(x_BHTD: Tensor, cos_TD: Tensor, sin_TD: Tensor) -> Tensor:
    """Turn each pair by its angle, where dimension i pairs with i + D/2: the layout of `transformers`' Llama."""
    first, second = x_BHTD.chunk(2, dim=-1)
    return x_BHTD * cos_TD + torch.cat((-second, first), dim=-1) * sin_TD
