"""`manyheads train …`: a command for every task, whose flags are the fields of its recipe."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from shlex import quote
from typing import Annotated, Any

import typer

from manyheads.cli.flags import Group, command_of, flag_named, flagged, flags_of, set_only
from manyheads.core.configs import read_toml
from manyheads.core.errors import ConfigError, DataError, Stopped
from manyheads.core.files import refuse_unwritable_folder
from manyheads.core.words import counted
from manyheads.interop.places import refuse_no_model
from manyheads.tasks.run_directory import run_is_new
from manyheads.tasks.task import TASKS, recipe_of, task_of

SECTIONS = ("data", "augment", "fine_tune", "train")  # of a recipe, whose fields are flags
OF_TRAINING = ("steps", "seed", "device")  # those of the last


class Trainings(Group):
    """A command for each task, made when it is asked for."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(TASKS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        return training(cmd_name) if cmd_name in TASKS else None


app = typer.Typer(help="Train a model of your own.", no_args_is_help=True, cls=Trainings, rich_markup_mode=None)


def training(name: str) -> Any:
    """The command that trains a task."""
    recipe = recipe_of(name)
    sections = {field.name: field.type for field in fields(recipe) if field.name in SECTIONS}
    flags = {
        section: list(flags_of(kind, only=OF_TRAINING if section == "train" else ()))  # type: ignore
        for section, kind in sections.items()
    }

    def command(
        *,
        out: Annotated[Path, typer.Option(help="The run directory.")] = Path("runs") / name,
        preset: Annotated[
            str | None, typer.Option(help=f"A size: {recipe.presets}.", autocompletion=lambda: task_of(name).presets)
        ] = None,
        recipe: Annotated[
            Path | None, typer.Option(help="A recipe in TOML; flags come on top of it.", callback=_readable)
        ] = None,
        set_: Annotated[
            list[str] | None,
            typer.Option("--set", help="Any field: --set model.layers=4 train.warmup=200.", metavar="FIELD=VALUE…"),
        ] = None,
        show_recipe: Annotated[bool, typer.Option("--show-recipe", help="Print the resolved recipe and stop.")] = False,
        resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in --out.")] = False,
        overwrite: Annotated[bool, typer.Option("--overwrite", help="Delete the run in --out and start anew.")] = False,
        **given: Any,
    ) -> None:
        chosen, assignments = set_only(given), tuple(set_ or ())
        asked = {
            section: {flag.name: chosen[flag.name] for flag in those if flag.name in chosen}
            for section, those in flags.items()
        }
        known = {f"{section}.{flag.name}" for section, those in flags.items() for flag in those}
        typed = {f"{section}.{field}" for section, found in asked.items() for field in found}
        assigned = {each.partition("=")[0].strip() for each in assignments}
        with _named_as_typed(typed if recipe or resume else known - assigned):
            _train(name, out, preset, recipe, asked, assignments, show_recipe, resume, overwrite)

    command.__doc__ = recipe.__doc__
    return command_of(name, flagged(command, [flag for those in flags.values() for flag in those]))


def _train(
    name: str,
    out: Path,
    preset: str | None,
    recipe: Path | None,
    flags: dict[str, dict[str, Any]],
    assignments: tuple[str, ...],
    show_recipe: bool,
    resume: bool,
    overwrite: bool,
) -> None:
    """Resolves the recipe and trains by it."""
    if pre_trained := flags.get("fine_tune", {}).get("model"):
        refuse_no_model(Path(pre_trained))
    if not show_recipe:
        refuse_unwritable_folder(out)
    if resume:
        run_is_new(out, resume=True, overwrite=overwrite)
    from manyheads.core.configs import to_toml
    from manyheads.core.log import say
    from manyheads.tasks.run import resolve, resolve_again, train

    if resume:
        if preset or recipe or any(found for section, found in flags.items() if section != "train"):
            raise ConfigError(
                "a run goes on with its own recipe; beside --resume only --out, --steps, --seed, --device and --set "
                "are of use"
            )
        more = tuple(f"train.{field}={value}" for field, value in flags["train"].items())
        resolved = resolve_again(out, name, (*more, *assignments))
    else:
        resolved = resolve(name, preset=preset, file=recipe, flags=flags, assignments=assignments)
    if show_recipe:
        print(to_toml(resolved, documented=True), end="")
        return
    try:
        progress = train(resolved, out, resume=resume, overwrite=overwrite)
    except Stopped as stopped:
        again = f"manyheads train {name} --out {quote(str(out))} --resume"
        raise Stopped(f"{stopped}; go on with: {again}", stopped.exit_code) from None
    done = counted(progress.step, "step")
    say(f"done after {done}: the best model, of step {progress.best_step}, is in {out / 'model'}")
    say(f"try: {resolved.try_next.format(out=quote(str(out)))}")


def _readable(recipe: Path | None) -> Path | None:
    """A recipe that is none is refused before anything is loaded."""
    if recipe is not None:
        read_toml(recipe)
    return recipe


@contextmanager
def _named_as_typed(flags: set[str]) -> Iterator[None]:
    """Errors name the fields of a recipe; who typed a flag, or may type one, reads its name instead."""
    try:
        yield
    except (ConfigError, DataError) as error:
        words = re.split(r"\b((?:data|augment|fine_tune|train)\.\w+)", str(error))
        said = [flag_named(word.partition(".")[2]) if word in flags else word for word in words]
        raise type(error)("".join(said)) from error
