"""Flags: those that many commands have, and those that are made of a dataclass's fields."""

import inspect
import re
import typing
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import MISSING
from functools import wraps
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from manyheads.cli.lines import there
from manyheads.core.configs import field_docs, in_order
from manyheads.core.log import be_quiet
from manyheads.interop.places import refuse_no_model


def holding_model(path: Path | None) -> Path | None:
    """A model directory or none; any other path is refused before torch is imported."""
    if path is not None:
        refuse_no_model(path)
    return path


def holding_vectors(path: Path | None) -> Path | None:
    """The same, or a file, which may hold word vectors."""
    return path if path is not None and path.is_file() else holding_model(path)


Model = Annotated[
    Path, typer.Argument(help="A run directory or a model directory.", metavar="MODEL", callback=holding_model)
]
Device = Annotated[str, typer.Option(help="auto, cpu or cuda.")]
Json = Annotated[bool, typer.Option("--json", help="One JSON object a line.")]


class Group(TyperGroup):
    """Commands, each with all of its first sentence."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        said: dict[str, Any] = {name: self.get_command(ctx, name) for name in self.list_commands(ctx)}
        with formatter.section("Commands"):
            formatter.write_dl([(name, command.help.partition("\n\n")[0]) for name, command in said.items()])


def _hush(quiet: bool) -> None:
    if quiet:  # beside a command or before it
        be_quiet()


Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No news, only warnings and results.", callback=_hush)]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]  # which the caller sees to


def flags_of(config: type, *, files: bool = False, only: Collection[str] = ()) -> Iterator[inspect.Parameter]:
    """A flag for each field of a dataclass, or for those that name files, or only for some; unset is None.

    Its docstring is the help; the default is shown unless it is one of some, whose defaults follow from others.
    """
    docs, hints = field_docs(config), typing.get_type_hints(config, include_extras=True)
    for field in in_order(config):
        hint, metavar = hints[field.name], None
        if only and field.name not in only:
            continue
        if typing.get_origin(hint) is Annotated:
            hint, metavar = typing.get_args(hint)
        kind = next(each for each in typing.get_args(hint) or (hint,) if each is not type(None))
        several = typing.get_origin(hint) is tuple
        if files and not (metavar and several):
            continue
        default = None if field.default in (MISSING, None, ()) else field.default
        shown = f"  [default: {_written(default)}]" if default is not None and not only else ""
        option = typer.Option(
            help=_with_flags(" ".join(docs.get(field.name, "").split()), hints) + shown,
            metavar=metavar or ("NAME…" if several else None),
            callback=there if metavar else None,
        )
        annotation = Annotated[list[kind] | None if several else kind | None, option]  # type: ignore
        yield _flag(field.name, annotation, None)


def merged_flags(configs: Iterable[type], *, files: bool = False) -> Iterable[inspect.Parameter]:
    """A flag for each field of any of them; one that several have says what it is for each."""
    flags: dict[str, inspect.Parameter] = {}
    for flag in (each for config in configs for each in flags_of(config, files=files)):
        option, other = (typing.get_args(each.annotation)[1] for each in (flags.setdefault(flag.name, flag), flag))
        if other.help not in option.help:
            option.help += f" {other.help}"
    return flags.values()


def _with_flags(text: str, names: Collection[str]) -> str:
    """What stands under a field, for who types flags: other fields by the names of theirs."""
    return re.sub(r"`(\w+)`", lambda found: flag_named(found[1]) if found[1] in names else found[0], text)


def flag_named(name: str) -> str:
    """The flag of a field."""
    return f"--{name.replace('_', '-')}"


def _written(default: Any) -> str:
    return ("yes" if default else "no") if isinstance(default, bool) else str(default)


def flagged(function: Callable[..., Any], flags: Iterable[inspect.Parameter] = ()) -> Callable[..., Any]:
    """The function as a command: with these flags for its `**given`, before its own, and those of every command."""
    own = [each for each in inspect.signature(function).parameters.values() if each.kind is not each.VAR_KEYWORD]
    common = [_flag(name, annotation, False) for name, annotation in (("quiet", Quiet), ("debug", Debug))]
    parameters = sorted([*flags, *own, *common], key=lambda each: each.kind)  # arguments first; else in this order

    @wraps(function)
    def made(*, quiet: bool, debug: bool, **given: Any) -> Any:
        try:
            return function(**given)
        except BrokenPipeError:
            # Whoever read our output has gone (`| head`); typer would end with 1, which stands for a fault.
            raise typer.Exit(141) from None

    made.__signature__ = inspect.Signature(parameters)  # type: ignore
    made.__annotations__ = {each.name: each.annotation for each in parameters}
    return made


def _flag(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default)


def command_of(name: str, function: Callable[..., Any]) -> Any:
    """A command that is made when it is asked for."""
    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    app.command(name)(function)
    return typer.main.get_command(app)


def set_only(given: dict[str, Any]) -> dict[str, Any]:
    """Those of the flags that somebody set, several values as a tuple."""
    found = {name: value for name, value in given.items() if value is not None and value != []}
    return {name: tuple(value) if isinstance(value, list) else value for name, value in found.items()}
