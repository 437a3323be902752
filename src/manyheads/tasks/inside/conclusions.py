"""Grids that end a walk: candidates with what they score and how likely they are."""

from typing import Any

import torch
from torch import Tensor

from manyheads.look.grid import Grid, shades_of
from manyheads.look.walk import Section
from manyheads.tasks.inside.forward import tokens_of

GIVES = "What the model says"
LOGITS = "x Eᵀ"


def concluded(text: str, *grids: Grid) -> Section:
    """The section that ends a walk, a grid a line."""
    return Section(GIVES, text, [(grid,) for grid in grids])


def candidates(title: str, logits: Tensor, tokenizer: Any, count: int) -> Grid:
    """The likeliest tokens, with their logits and probabilities."""
    chances = logits.float().softmax(dim=-1)
    best = chances.topk(min(count, len(chances)))
    names = tokens_of(tokenizer, best.indices.tolist())
    return probabilities(title, names, logits[best.indices], best.values, f"softmax({LOGITS})")


def probabilities(title: str, names: list[str], scores: Tensor, chances: Tensor, formula: str) -> Grid:
    """A row for each name: what it scores, and its probability, which has a colour."""
    numbers = torch.stack((scores.float(), chances.float()), dim=1).cpu().numpy()
    cells = [[f"{scored:.2f}", f"{chance:.4f}"] for scored, chance in numbers]
    numbers[:, 0] = 0.0
    return Grid(title, cells, names, ["score", "probability"], shades_of(numbers, 1.0), formula)
