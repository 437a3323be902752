"""What a model directory holds and what can be done with it, without reading its weights."""

from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import Any

import torch
from torch import nn

from manyheads.core.configs import to_table
from manyheads.core.errors import CheckpointError
from manyheads.interop.config_json import KEY, read_extra_fields, remove_again
from manyheads.interop.directory import find_model
from manyheads.interop.families import FAMILIES
from manyheads.interop.weights import open_weights, read_json
from manyheads.models.transformer import parameters
from manyheads.nn.parts import attention_parts
from manyheads.tasks.inside.states import layer_numbers
from manyheads.tasks.task import Predictor, predictor_of

COMMANDS = {
    "evaluate": "evaluate {model} …",
    "forward": "look {model} {what}",
    "conclusion": "walk {model} {what}",
    "selfcheck": "selfcheck {model}",
}


@dataclass(frozen=True)
class Info:
    """What is known of a model before it is opened."""

    path: str
    """The model directory itself."""
    kind: str
    """What it is, with its article."""
    type: str
    """As its config.json calls it."""
    parameters: int
    bytes: int
    """Of its weights on the disk."""
    sizes: dict[str, Any]
    tokens: int | None
    """Of its tokenizer, if it has one."""
    labels: list[str]
    card: str | None
    """The title of its model card."""
    commands: list[str]
    """What can be done with it."""


def info(path: Path) -> Info:
    """What a directory of ours or of transformers holds; a run's model is that of the run."""
    kind, directory = predictor_of(path), find_model(path)
    table = read_json(directory / "config.json")
    family = next(family for family in FAMILIES if table["model_type"] in family.types)
    processor, weights = family.processor.load(directory), open_weights(directory)
    own = table["model_type"] not in family.foreign.TYPES
    try:
        config = read_extra_fields({KEY: table[KEY]}, family.config()) if own else family.foreign.read_config(table)
        with torch.device("meta"):
            model = family.foreign.build(table, config, weights, processor)
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(
            f"{directory} is damaged: its config.json does not say a model's sizes ({error})"
        ) from None
    remove_again(getattr(model, "body", model), table)
    return Info(
        path=str(directory),
        kind=kind.what,
        type=table["model_type"],
        parameters=parameters(model),
        bytes=sum(file.stat().st_size for file in {weights.path(name) for name in weights}),
        sizes=to_table(config),
        tokens=len(processor) if hasattr(processor, "__len__") else None,
        labels=list(getattr(model, "names", ())),
        card=_title(directory / "README.md"),
        commands=commands_of(kind, path, model),
    )


def commands_of(kind: type[Predictor], path: Path, model: nn.Module) -> list[str]:
    """What can be typed for a model: the commands of its own kind, and of those for all what it has an answer to."""
    recurrent, parts = bool(layer_numbers(model)), attention_parts(model)
    followed = recurrent or type(model) in kind.walked or any(hasattr(part.module, "projection") for part in parts)
    answered = {"forward": bool(parts) or recurrent, "conclusion": followed}
    named = {command.partition(" ")[0] for command in kind.commands}
    common = [
        command
        for method, command in COMMANDS.items()
        if getattr(kind, method) is not getattr(Predictor, method)
        and answered.get(method, True)
        and command.partition(" ")[0] not in named
    ]
    common = [f"{each} --show hidden" if each.startswith("look") and not parts else each for each in common]
    given = {"model": quote(str(path)), "what": "photo.png" if kind.sees else "'a text'"}
    return [f"manyheads {each.format(**given)}" for each in (*kind.commands, *common)]


def _title(card: Path) -> str | None:
    """The first heading of a model card."""
    if not card.is_file():
        return None
    lines = card.read_text(encoding="utf-8", errors="replace").splitlines()
    return next((line.lstrip("# ").strip() for line in lines if line.startswith("# ")), card.name)
