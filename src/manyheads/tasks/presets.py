"""All presets: which tasks have them, and how large their models are."""

from dataclasses import dataclass, replace

import torch

from manyheads.models.transformer import parameters
from manyheads.tasks.task import TASKS, FineTuningRecipe, recipe_of, task_of


@dataclass
class Preset:
    """A size with a name, as the first task that has it trains it."""

    name: str
    tasks: list[str]
    layers: int
    width: int
    heads: int | None
    """None where there is no attention."""
    vocabulary: int | None
    """Tokens of the tokenizer that is trained for it, unless others are asked for; None where there is none."""
    parameters: int
    """With so many tokens."""


def presets() -> list[Preset]:
    """Every preset of every task once; the tasks that fine-tune come behind those that pre-train."""
    found: dict[str, Preset] = {}
    for name in sorted(TASKS, key=lambda each: issubclass(recipe_of(each), FineTuningRecipe)):
        for preset in task_of(name).presets:
            if preset in found:
                found[preset].tasks.append(name)
            else:
                found[preset] = _measured(name, preset)
    return list(found.values())


def _measured(task: str, name: str) -> Preset:
    """Builds the model without memory."""
    recipe = task_of(task).preset(name)
    vocabulary = getattr(recipe.data, "vocabulary", None)
    sizes = recipe.model if vocabulary is None else replace(recipe.model, vocabulary=vocabulary)
    with torch.device("meta"):
        count = parameters(task_of(task)(recipe).network(sizes))
    return Preset(name, [task], sizes.layers, sizes.width, getattr(sizes, "heads", None), vocabulary, count)
