"""What there is to choose."""

from dataclasses import dataclass, field
from typing import Any

from manyheads.tasks.task import Files, Recipe, lazily
from manyheads.train.config import TrainConfig


@dataclass(frozen=True, kw_only=True)
class LineData:
    """Which lines are learned."""

    lines: Files = ()
    """Files of lines; every 10th line is held out."""
    batch_tokens: int = 300
    """Tokens of a batch, padding included."""


@dataclass(frozen=True, kw_only=True)
class ReverseRecipe(Recipe):
    """Train a model that writes lines backwards."""

    presets = "tiny"
    try_next = "manyheads evaluate {out} --lines lines.txt"

    task: str = "reverse"
    """What is trained."""
    data: LineData = field(default_factory=LineData)
    model: Any = field(default_factory=lazily("manyheads.models.transformer", "TransformerConfig"))
    train: TrainConfig = field(default_factory=TrainConfig)


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """What it is scored on."""

    lines: Files = ()
    """Files of lines to be reversed."""


RECIPE = ReverseRecipe
