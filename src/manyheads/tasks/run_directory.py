"""The run directory: what a run makes in it, and how a new run takes the place of one that is there."""

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from manyheads.core.checksums import CHECKSUMS
from manyheads.core.errors import CheckpointError, ConfigError
from manyheads.core.files import TEMPORARY, beside, directory_written_atomically, sync
from manyheads.interop.places import MODEL_FILE

RECIPE, PREPARED = "recipe.toml", ".manyheads-prepared"
_STORE = r"(.+/)?(store\.json|\w+\.(values|offsets))"
PARTS = {  # with the files in each; those that are prepared come last, and the recipe behind all others
    "look.html": "",
    "reliability.png": "",
    "metrics.jsonl": "",
    "tensorboard": r"events\.out\.tfevents\..*",
    "checkpoints": r"step-\d{8,}/((model|optimizer|carried)\.safetensors|state\.json)",
    "model": MODEL_FILE.pattern,
    "tokenizer": MODEL_FILE.pattern,
    "data": rf"{_STORE}|valid\.jsonl?",
    CHECKSUMS: "",
    RECIPE: "",
}
_IS_PREPARED = ("tokenizer", "data", CHECKSUMS, RECIPE)


def recipe_file(run: Path) -> Path:
    """Where a run's recipe is, also of a run that was just about to take the place of another."""
    prepared = run / PREPARED / RECIPE
    return prepared if prepared.exists() else run / RECIPE


def given_recipe(path: Path) -> Path:
    """A recipe that a path names, or that of the run which it names."""
    file = path / RECIPE if path.is_dir() else path
    if not file.is_file():
        raise ConfigError(f"{file} does not exist; give a recipe in TOML or a run directory")
    return file


def run_is_new(run: Path, *, resume: bool, overwrite: bool) -> bool:
    """Whether training starts from nothing; an existing run is never touched without being told to."""
    if run.exists() and not run.is_dir():
        raise CheckpointError(f"{run} is a file; give another --out")
    begun = recipe_file(run).exists()
    if not begun and (not run.exists() or all(TEMPORARY.fullmatch(each.name) for each in run.iterdir())):
        if resume:
            raise CheckpointError(f"{run} holds no run to go on with; leave --resume away to start one")
        return True
    if resume and overwrite:
        raise CheckpointError("--resume goes on with a run and --overwrite deletes it; give one of them")
    if not resume and not overwrite:
        raise CheckpointError(f"{run} exists; go on with --resume, start anew with --overwrite, or give another --out")
    if not begun:
        raise CheckpointError(f"{run} is not a run directory: it has no {RECIPE}; give another --out")
    if overwrite and (others := _others(run)):
        named = ", ".join(others[:3]) + (f" and {len(others) - 3} more" if len(others) > 3 else "")
        raise CheckpointError(
            f"--overwrite deletes what a run makes, but {run} also holds {named}; move that away or give another --out"
        )
    return overwrite


@contextmanager
def prepared_aside(run: Path) -> Iterator[Path]:
    """A place to prepare a run in, which takes over when the block ends well; else everything stays as it was."""
    with directory_written_atomically(run / PREPARED) as aside:
        yield aside
    take_over(run)


def take_over(run: Path) -> None:
    """Puts what was prepared into the place of what the run before it made; where that was interrupted, goes on."""
    prepared = run / PREPARED
    shutil.rmtree(beside(prepared, "unfinished"), ignore_errors=True)  # of one that was killed
    if not prepared.exists():
        return
    if (prepared / RECIPE).exists():
        for name in PARTS:
            if name == RECIPE:  # says that all of it is there
                sync(run)
            if name not in _IS_PREPARED or (prepared / name).exists():
                _clear(run / name)
            if (prepared / name).exists():
                (prepared / name).replace(run / name)
        sync(run)
    prepared.rmdir()


def _others(run: Path) -> list[str]:
    """What lies in a run directory that no run made, as paths from there."""
    found = [each.name for each in run.iterdir() if each.name not in PARTS and not TEMPORARY.fullmatch(each.name)]
    for part in PARTS:
        found += [each.relative_to(run).as_posix() for each in _files(run / part) if not _is_ours(each, run / part)]
    return sorted(found)


def _clear(part: Path) -> None:
    """Removes what a run made there; not the recipe, in whose place another comes in one step."""
    if part.is_file() and part.name != RECIPE:
        part.unlink()
    for file in _files(part):
        if _is_ours(file, part):
            file.unlink()
    for folder in (*sorted(part.rglob("*"), reverse=True), part):
        with suppress(OSError):  # of one that still holds something
            folder.rmdir()


def _files(folder: Path) -> list[Path]:
    return [each for each in folder.rglob("*") if not each.is_dir()]


def _is_ours(file: Path, part: Path) -> bool:
    inside = file.relative_to(part)
    temporary = any(TEMPORARY.fullmatch(each) for each in inside.parts)
    return temporary or bool(re.fullmatch(PARTS[part.name], inside.as_posix()))
