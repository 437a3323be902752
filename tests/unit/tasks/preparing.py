"""A task with its data prepared, as a run does it."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from manyheads.core.configs import to_toml
from manyheads.tasks import run as runs
from manyheads.tasks.task import Task, task_of


def prepared(name: str, data: Any, context: int, run: Path, tokenizer: Any = None, **more: Any) -> Task:
    """The task after its files were read and stored in a run, or found there; `more` are sections of its recipe."""
    kind = task_of(name)
    recipe = kind.Recipe(data=data, **more)
    if hasattr(recipe.model, "context"):
        recipe = replace(recipe, model=replace(recipe.model, context=context))
    task = kind(recipe)
    run.mkdir(parents=True, exist_ok=True)
    runs.prepare(task, run, tokenizer)
    runs._write_recipe(run, to_toml(recipe))
    return task
