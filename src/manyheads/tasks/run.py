"""One way for every task to resolve a recipe, train by it and go on with a run."""

from contextlib import nullcontext
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

import torch

from manyheads.core.checksums import files_under, read_checksums, refuse_changed, write_checksums
from manyheads.core.configs import assigned, read_toml, to_toml, updated
from manyheads.core.errors import ConfigError
from manyheads.core.files import directory_written_atomically, finish_replacing, folder_made, write_atomically
from manyheads.core.locks import locked, staying
from manyheads.core.log import say
from manyheads.interop.directory import in_files
from manyheads.interop.places import MODEL_FILE
from manyheads.nn.positions import with_amplitude
from manyheads.ops.device import pick_device, refuse_beyond_memory
from manyheads.tasks.embedding import begin_with_vectors, freeze_embeddings, refuse_unfit_vectors
from manyheads.tasks.run_directory import RECIPE, prepared_aside, recipe_file, run_is_new, take_over
from manyheads.tasks.task import Asked, Task, refuse_other_task, task_of
from manyheads.train.checkpoint import Checkpoints, Progress
from manyheads.train.length import fitted, in_proportion, tell_length
from manyheads.train.loop import Training


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
        _refuse_other_sizes(begun, change(begun), pre_trained, task.may_differ)
    return _with_steps(task.complete(begun, change, asked), asked)


def resolve_again(run: Path, name: str, assignments: tuple[str, ...] = ()) -> Any:
    """The recipe of a run that goes on; of it only how it is trained may be changed."""
    file = recipe_file(run)
    refuse_changed(file.parent, RECIPE, remedy="undo the change and give --set train.… beside --resume instead")
    table = _read_recipe(file, name)
    if isinstance(table.get("model"), dict):
        table["model"] = with_amplitude(table["model"])
    recipe = updated(task_of(name).blank(table), table)
    changed = _with_steps(assigned(recipe, assignments), Asked(None, table, {}, assignments, None))
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
    if recipe.train.optimizer == "own" and type(task).learn is Task.learn:
        raise ConfigError("train.optimizer is own, but this task has none of its own; use adam, adamw or muon")
    _refuse_impossible_sizes(task, device)
    task.check()
    with folder_made(run), locked(run), staying(run):
        return _train(task, device, resume=resume, overwrite=overwrite)


def _train(task: Task, device: torch.device, *, resume: bool, overwrite: bool) -> Progress:
    run, recipe = task.run, task.recipe
    take_over(run)
    new = run_is_new(run, resume=resume, overwrite=overwrite)
    begun = not new and bool(Checkpoints(run / "checkpoints", keep=1, every=1).paths())
    vectors = getattr(recipe.data, "vectors", None)
    if vectors and not begun:
        refuse_unfit_vectors(recipe, _without_memory(task))
    body, processor = task.pre_trained(begun=begun)
    with prepared_aside(run) if new else nullcontext(run) as directory:
        prepare(task, directory, processor)
        _write_recipe(directory, to_toml(recipe))
    finish_replacing(run / "model", MODEL_FILE)
    torch.manual_seed(recipe.train.seed)
    model = task.build(body)
    if vectors and not begun:
        begin_with_vectors(model, task.processor, Path(vectors))
    if vectors and recipe.data.freeze_vectors:
        freeze_embeddings(model)
    count = sum(each.numel() for each in model.parameters())
    learned = sum(each.numel() for each in model.parameters() if each.requires_grad)
    share = f" ({learned:,} of them learn)" if learned < count else ""
    say(f"{count:,} parameters{share}, training on {device} into {run}")
    batches, width = task.batches(), recipe.model.width
    task.recipe = replace(recipe, train=fitted(recipe.train, len(batches), width))
    tell_length(task.recipe.train, len(batches), width)
    return Training(run, task.recipe.train, model, width, batches, task).fit()


def _refuse_impossible_sizes(task: Task, device: torch.device) -> None:
    """Builds the model, and what its directory would hold, without memory: what has no room, or cannot be saved, is not
    trained."""
    sizes, pre_trained = task.recipe.model, getattr(getattr(task.recipe, "fine_tune", None), "model", None)
    plain = type(sizes)()
    for name in task.from_processor:
        if not pre_trained and getattr(sizes, name) != getattr(plain, name):
            raise ConfigError(f"model.{name} follows from the tokenizer; leave it away")
    frozen = getattr(getattr(task.recipe, "fine_tune", None), "freeze", False)
    # A weight, its gradient and Adam's two averages of it; Muon keeps one.
    size = 4 * (1 if frozen else 3 if task.recipe.train.optimizer == "muon" else 4)
    advice = "choose a smaller preset, or fewer layers and smaller sizes"
    # Layers first, of which the feed-forward is the least: even without memory, to build too many takes for ever.
    layers, inner = getattr(sizes, "layers", 0), getattr(sizes, "inner", None) or 4 * sizes.width
    refuse_beyond_memory(layers, "layers in training", size * 2 * sizes.width * inner, device, advice)
    model = _without_memory(task)
    with torch.device("meta"):
        in_files(model)
    count = sum(each.numel() for each in model.parameters())
    refuse_beyond_memory(count, "parameters in training", size, device, advice)


def _without_memory(task: Task) -> torch.nn.Module:
    """The model, or its body, of the sizes that are asked for, of which there is nothing but names and shapes."""
    sizes = task.recipe.model
    with torch.device("meta"):
        return task.network(replace(sizes, vocabulary=3) if "vocabulary" in task.from_processor else sizes)


def prepare(task: Task, directory: Path, processor: Any = None) -> None:
    """Makes stored rows of the run's files, with a processor for them; a run that goes on finds both.

    They are in `tokenizer` and `data`, each there only when it is whole, and as their checksums say.
    """
    own, data = directory / "tokenizer", directory / "data"
    refuse_changed(directory, own.name, data.name, remedy="copy it back or start anew with --overwrite")
    if not data.exists():
        examples = task.read()
        task.processor = processor or task.train_processor(examples)
        with directory_written_atomically(own) as unfinished:
            task.processor.save(unfinished, getattr(task.recipe.model, "context", None))
        with directory_written_atomically(data) as unfinished:
            task.store(examples, unfinished)
    task.processor = task.Processor.load(own)
    task.open(data)


def _write_recipe(directory: Path, text: str) -> None:
    """Writes the recipe and the checksums of what a run follows from; a crash leaves none of it, never a wrong one."""
    sums = read_checksums(directory)
    if RECIPE in sums and (directory / RECIPE).read_bytes() == text.encode():
        return
    known = {name: each for name, each in sums.items() if name != RECIPE}
    if RECIPE in sums:
        write_checksums(directory, known, known)
    write_atomically(directory / RECIPE, text)
    write_checksums(directory, sorted({RECIPE, *(known or files_under(directory, "tokenizer", "data"))}), known)


def _with_steps(recipe: Any, asked: Asked) -> Any:
    """The recipe, in which steps that somebody asked for are not cut by epochs, nor all spent on a preset's warm-up."""
    train = recipe.train
    for place in (replace(asked, table={}), asked):  # the command's word comes before its file's
        if place.names("train", "epochs"):
            break
        if place.names("train", "steps"):
            train = replace(train, epochs=0)
            break
    if asked.names("train", "steps") and not asked.names("train", "warmup"):
        train = in_proportion(train, recipe.model.width, "warmup")
    return replace(recipe, train=train)


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


def _refuse_other_sizes(found: Any, asked: Any, path: str, may_differ: tuple[str, ...]) -> None:
    free = {name: getattr(found.model, name) for name in may_differ if hasattr(asked.model, name)}
    asked = replace(asked, model=replace(asked.model, **free))  # and with them what follows from them
    before, after = ({"family": getattr(each, "family", None), **asdict(each.model)} for each in (found, asked))
    changed = [name for name in before if before[name] != after.get(name)]
    if changed:
        raise ConfigError(f"model.{changed[0]} of {path} is {before[changed[0]]} and cannot change; leave it away")
