"""What all trainings share: a run directory that is begun, gone on with or replaced, and the recipe that it follows."""

import shutil
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar

from manyheads.core.configs import assigned, read_toml, to_toml, updated
from manyheads.core.errors import ConfigError, ManyheadsError
from manyheads.core.files import recover_directory, write_atomically
from manyheads.train.loop import run_is_new

Recipe = TypeVar("Recipe")
Data = TypeVar("Data")


def begin_run(
    run: Path, recipe: object, prepare: Callable[[Path], Data], *, resume: bool = False, overwrite: bool = False
) -> Data:
    """Makes or finds the run directory, writes the recipe into it and prepares its data.

    Data that cannot be prepared leaves everything as it was, so that the same command can be given again.
    """
    new = run_is_new(run, resume=resume, overwrite=overwrite)
    previous = run.with_name(f"{run.name}.previous")
    if overwrite and run.exists():
        shutil.rmtree(previous, ignore_errors=True)
        run.rename(previous)
    run.mkdir(parents=True, exist_ok=True)
    recover_directory(run / "model")
    write_atomically(run / "recipe.toml", to_toml(recipe))
    try:
        data = prepare(run)
    except ManyheadsError:
        if new:
            shutil.rmtree(run)
            if previous.exists():
                previous.rename(run)
        raise
    if overwrite:
        shutil.rmtree(previous, ignore_errors=True)
    return data


def read_recipe(file: Path | None, task: str) -> dict[str, Any]:
    """The tables of a recipe, or none; one of another task is refused before its fields are looked at."""
    table = read_toml(file) if file else {}
    refuse_other_task(table.get("task", task), task)
    return table


def refuse_other_task(found: Any, task: str) -> None:
    if found != task:
        raise ConfigError(f"this recipe trains {found}, not {task}: manyheads train {found} …")


def refuse_best_by(found: str, known: tuple[str, ...]) -> None:
    """The kept model can only be best in what its validation gives."""
    if found not in known:
        raise ConfigError(f"train.best_by is {found}, which is not for this task; use {' or '.join(known)}")


def resumed(recipe: Recipe, run: Path, assignments: tuple[str, ...]) -> Recipe:
    """The recipe of a run that goes on, read over a blank one; of it only how it is trained may be changed."""
    recipe = updated(recipe, read_recipe(run / "recipe.toml", recipe.task))  # type: ignore
    changed = assigned(recipe, assignments)
    for section in fields(recipe):  # type: ignore
        if section.name != "train" and getattr(changed, section.name) != getattr(recipe, section.name):
            raise ConfigError(f"{section.name} of a run cannot change when it goes on; only train.… can")
    return changed
