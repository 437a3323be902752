"""One way for every task to resolve a recipe, train by it and go on with a run."""

import shutil
from collections.abc import Callable
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

import torch

from manyheads.core.checksums import files_under, read_checksums, refuse_changed, write_checksums
from manyheads.core.configs import assigned, read_toml, to_toml, updated
from manyheads.core.errors import ConfigError, ManyheadsError
from manyheads.core.files import directory_written_atomically, recover_directory, write_atomically
from manyheads.core.log import say
from manyheads.ops.device import pick_device
from manyheads.tasks.task import Asked, Task, refuse_other_task, task_of
from manyheads.train.checkpoint import Checkpoints, Progress
from manyheads.train.loop import Training, run_is_new

MAY_DIFFER = ("dropout", "attention_dropout", "inner_dropout")  # of a pre-trained model's sizes


def resolve(
    name: str,
    *,
    preset: str | None = None,
    file: Path | None = None,
    flags: dict[str, dict[str, Any]] | None = None,
    assignments: tuple[str, ...] = (),
) -> Any:
    """The recipe of a preset or a pre-trained model, changed by a TOML file, then by flags, then by assignments.

    `flags` are by section and field.
    """
    task, table, flags = task_of(name), _read_recipe(file, name), flags or {}
    named_in_file = table.pop("preset", None)
    preset = preset or (str(named_in_file) if named_in_file else None)

    def change(recipe: Any) -> Any:
        return assigned(updated(updated(recipe, table), flags), assignments)

    pre_trained = _pre_trained(task, table, flags, assignments)
    if pre_trained and preset:
        raise ConfigError(f"{pre_trained} has sizes of its own; leave the preset {preset} or the model away")
    asked = Asked(preset, table, flags, assignments, pre_trained)
    begun = task.begin(asked)
    if pre_trained:
        _refuse_other_sizes(begun, change(begun), pre_trained)
    return task.complete(begun, change, asked)


def resolve_again(run: Path, name: str, assignments: tuple[str, ...] = ()) -> Any:
    """The recipe of a run that goes on; of it only how it is trained may be changed."""
    refuse_changed(run, "recipe.toml", remedy="undo the change and give --set train.… beside --resume instead")
    table = _read_recipe(run / "recipe.toml", name)
    recipe = updated(task_of(name).blank(table), table)
    changed = assigned(recipe, assignments)
    for section in fields(recipe):
        if section.name != "train" and getattr(changed, section.name) != getattr(recipe, section.name):
            raise ConfigError(f"{section.name} of a run cannot change when it goes on; only train.… can")
    return changed


def train(recipe: Any, run: Path, *, resume: bool = False, overwrite: bool = False) -> Progress:
    """Trains into a run directory, from the start or from where it was stopped."""
    task = task_of(recipe.task)(recipe)
    task.run = run
    device = pick_device(recipe.train.device)
    if recipe.train.best_by not in task.metrics:
        known = " or ".join(task.metrics)
        raise ConfigError(f"train.best_by is {recipe.train.best_by}, which is not for this task; use {known}")
    _refuse_impossible_sizes(task)
    task.check()
    begun = resume and bool(Checkpoints(run / "checkpoints", keep=1, every=1).paths())
    body, processor = task.pre_trained(begun=begun)
    _begin_run(run, recipe, lambda: prepare(task, processor), resume=resume, overwrite=overwrite)
    torch.manual_seed(recipe.train.seed)
    model = task.build(body)
    count = sum(each.numel() for each in model.parameters())
    learned = sum(each.numel() for each in model.parameters() if each.requires_grad)
    share = f" ({learned:,} of them learn)" if learned < count else ""
    say(f"{count:,} parameters{share}, training on {device} into {run}")
    return Training(run, recipe.train, model, recipe.model.width, task.batches(), task).fit()


def _refuse_impossible_sizes(task: Task) -> None:
    """Builds the model without memory."""
    sizes, pre_trained = task.recipe.model, getattr(getattr(task.recipe, "fine_tune", None), "model", None)
    plain = type(sizes)()
    for name in task.from_processor:
        if not pre_trained and getattr(sizes, name) != getattr(plain, name):
            raise ConfigError(f"model.{name} follows from the tokenizer; leave it away")
    with torch.device("meta"):
        task.network(replace(sizes, vocabulary=3) if "vocabulary" in task.from_processor else sizes)


def prepare(task: Task, processor: Any = None) -> None:
    """Makes stored rows of the run's files, with a processor for them; a run that goes on finds both.

    They are in `run/tokenizer` and `run/data`, each there only when it is whole, and as their checksums say.
    """
    own, directory = task.run / "tokenizer", task.run / "data"
    refuse_changed(task.run, own.name, directory.name, remedy="copy it back or start anew with --overwrite")
    if not directory.exists():
        examples = task.read()
        task.processor = processor or task.train_processor(examples)
        with directory_written_atomically(own) as unfinished:
            task.processor.save(unfinished, getattr(task.recipe.model, "context", None))
        with directory_written_atomically(directory) as unfinished:
            task.store(examples, unfinished)
    task.processor = task.Processor.load(own)
    task.open(directory)


def _begin_run(run: Path, recipe: Any, prepare: Callable[[], None], *, resume: bool, overwrite: bool) -> None:
    """Makes or finds the run directory, writes the recipe into it and prepares its data.

    Data that cannot be prepared leaves everything as it was, so that the same command can be given again.
    """
    new = run_is_new(run, resume=resume, overwrite=overwrite)
    previous = run.with_name(f"{run.name}.previous")
    if overwrite and run.exists():
        shutil.rmtree(previous, ignore_errors=True)
        run.rename(previous)
    made = [folder for folder in run.parents if not folder.exists()]
    run.mkdir(parents=True, exist_ok=True)
    recover_directory(run / "model")
    _write_recipe(run, to_toml(recipe))
    try:
        prepare()
        _complete_checksums(run)
    except ManyheadsError:
        if new:
            shutil.rmtree(run)
            for folder in made:
                folder.rmdir()
            if previous.exists():
                previous.rename(run)
        raise
    if overwrite:
        shutil.rmtree(previous, ignore_errors=True)


def _write_recipe(run: Path, text: str) -> None:
    """Writes the recipe; the checksum of another goes before, so that a crash leaves none and never a wrong one."""
    file, sums = run / "recipe.toml", read_checksums(run)
    if sums and file.read_bytes() != text.encode():
        write_checksums(run, [name for name in sums if name != file.name], sums)
    write_atomically(file, text)


def _complete_checksums(run: Path) -> None:
    """Writes down what a run follows from, where that is not known: of a new run all, else what its recipe is now."""
    sums = read_checksums(run)
    if "recipe.toml" not in sums:
        found = files_under(run, "recipe.toml", *(() if sums else ("tokenizer", "data")))
        write_checksums(run, sorted({*sums, *found}), sums)


def _read_recipe(file: Path | None, task: str) -> dict[str, Any]:
    """The tables of a recipe, or none; one of another task is refused before its fields are looked at."""
    table = read_toml(file) if file else {}
    refuse_other_task(table.get("task", task), task)
    return table


def _pre_trained(
    task: type[Task], table: dict[str, Any], flags: dict[str, dict[str, Any]], assignments: tuple[str, ...]
) -> str | None:
    """The pre-trained model, which any of the three may name, and whose sizes come before all of them."""
    section = "fine_tune"
    own = next((field for field in fields(task.Recipe) if field.name == section), None)
    if own is None:
        return None
    blank = own.default_factory()  # type: ignore
    named = updated(updated(blank, table.get(section, {})), flags.get(section, {}))
    mine = [each.strip() for each in assignments if each.partition("=")[0].strip().startswith(f"{section}.")]
    return assigned(named, [each.removeprefix(f"{section}.") for each in mine]).model


def _refuse_other_sizes(found: Any, asked: Any, path: str) -> None:
    before, after = ({"family": getattr(each, "family", None), **asdict(each.model)} for each in (found, asked))
    changed = [name for name in before if before[name] != after.get(name) and name not in MAY_DIFFER]
    if changed:
        raise ConfigError(f"model.{changed[0]} of {path} is {before[changed[0]]} and cannot change; leave it away")
