"""`manyheads train …`: a command for every task, whose flags are the fields of its recipe."""

from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from manyheads.cli.flags import command_of, flagged, flags_of, set_only
from manyheads.tasks.task import TASKS, recipe_of

SECTIONS = ("data", "fine_tune")  # of a recipe, whose fields are flags


class Trainings(TyperGroup):
    """A command for each task, made when it is asked for."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(TASKS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        return training(cmd_name) if cmd_name in TASKS else None


app = typer.Typer(help="Train a model of your own.", no_args_is_help=True, cls=Trainings)


def training(name: str) -> Any:
    """The command that trains a task."""
    recipe = recipe_of(name)
    sections = {field.name: field.type for field in fields(recipe) if field.name in SECTIONS}

    def command(
        *,
        out: Annotated[Path, typer.Option(help="The run directory.")] = Path("runs") / name,
        preset: Annotated[str | None, typer.Option(help=f"A size: {recipe.presets}.")] = None,
        recipe: Annotated[Path | None, typer.Option(help="A recipe in TOML; flags come on top of it.")] = None,
        set_: Annotated[
            list[str] | None,
            typer.Option("--set", help="Any field: --set model.layers=4 train.steps=2000.", metavar="FIELD=VALUE…"),
        ] = None,
        show_recipe: Annotated[bool, typer.Option("--show-recipe", help="Print the resolved recipe and stop.")] = False,
        resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in --out.")] = False,
        overwrite: Annotated[bool, typer.Option("--overwrite", help="Delete the run in --out and start anew.")] = False,
        **given: Any,
    ) -> None:
        from manyheads.core.configs import to_toml
        from manyheads.core.errors import ConfigError, Stopped
        from manyheads.core.log import say
        from manyheads.tasks.run import resolve, resolve_again, train
        from manyheads.tasks.run_directory import run_is_new

        chosen, assignments = set_only(given), tuple(set_ or ())
        flags = {
            section: {field.name: chosen[field.name] for field in fields(kind) if field.name in chosen}  # type: ignore
            for section, kind in sections.items()
        }
        if resume:
            if preset or recipe or any(flags.values()):
                raise ConfigError("a run goes on with its own recipe; beside --resume only --out and --set are of use")
            run_is_new(out, resume=True, overwrite=overwrite)
            resolved = resolve_again(out, name, assignments)
        else:
            resolved = resolve(name, preset=preset, file=recipe, flags=flags, assignments=assignments)
        if show_recipe:
            print(to_toml(resolved, documented=True), end="")
            return
        try:
            progress = train(resolved, out, resume=resume, overwrite=overwrite)
        except Stopped as stopped:
            again = f"manyheads train {name} --out {out} --resume"
            raise Stopped(f"{stopped}; go on with: {again}", stopped.exit_code) from None
        say(f"done after {progress.step} steps: the best model, of step {progress.best_step}, is in {out / 'model'}")
        say(f"try: {resolved.try_next.format(out=out)}")

    command.__doc__ = recipe.__doc__
    flags = [flag for kind in sections.values() for flag in flags_of(kind)]  # type: ignore
    return command_of(name, flagged(command, flags))
