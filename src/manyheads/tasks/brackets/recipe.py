"""What there is to choose when a model that writes trees is trained."""

from dataclasses import dataclass, field
from typing import Any

from manyheads.core.errors import ConfigError
from manyheads.tasks.parse.recipe import Evaluation as ParseEvaluation
from manyheads.tasks.task import Files, Recipe, lazily, refuse_below
from manyheads.train.config import TrainConfig


@dataclass(frozen=True, kw_only=True)
class BracketData:
    """Which trees are learned from, and how they are cut into tokens and batches."""

    trees: Files = ()
    """Files of trees in the Penn Treebank's brackets, plain, .gz or .xz, or folders of .mrg files. Nothing at all: a
    sample, trees of a small grammar."""
    valid: Files = ()
    """Trees for validation; without any, a tenth is held out, up to 1,000."""
    vocabulary: int = 8000
    """Tokens of the tokenizer that is trained, at most."""
    batch_tokens: int = 2000
    """Tokens of brackets in a batch, padding included."""

    def __post_init__(self):
        if self.valid and not self.trees:
            raise ConfigError("data.valid is given without data.trees; give both or neither")
        refuse_below("data", self, 1, "batch_tokens")


@dataclass(frozen=True, kw_only=True)
class BracketRecipe(Recipe):
    """Train a Transformer to parse by writing trees, as if they were a foreign language."""

    presets = "transformer_tiny, transformer_small, transformer_base or transformer_big"
    try_next = 'manyheads parse {out} "The cat danced ."'

    task: str = "brackets"
    data: BracketData = field(default_factory=BracketData)
    model: Any = field(default_factory=lazily("manyheads.models.transformer", "TransformerConfig"))
    train: TrainConfig = field(default_factory=TrainConfig)


@dataclass(frozen=True, kw_only=True)
class Evaluation(ParseEvaluation):
    """What a model that writes trees is scored on."""

    beam: int = 4
    """Beam width; 1 is greedy search."""
    alpha: float = 0.6
    """Length penalty; 0 is none."""


RECIPE = BracketRecipe
