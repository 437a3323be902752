"""`manyheads info MODEL`, `manyheads presets` and `manyheads help [COMMAND]`"""

from dataclasses import asdict
from itertools import groupby
from textwrap import fill
from typing import Annotated, Any

import typer

from manyheads.cli.flags import Json, Model
from manyheads.cli.lines import print_json, width


def info(model: Model, as_json: Json = False) -> None:
    """Say what a model is: its kind, sizes, parameters, tokenizer and card, and what can be done with it."""
    from manyheads.ops.device import readable
    from manyheads.tasks.inside.info import info

    found = info(model)
    if as_json:
        print_json(asdict(found))
        return
    rows = {
        "kind": f"{found.kind} ({found.type})",
        "parameters": f"{found.parameters:,}, {readable(found.bytes)} on the disk",
        "sizes": ", ".join(f"{name} {_written(value)}" for name, value in found.sizes.items() if value != ()),
        "tokenizer": f"{found.tokens:,} tokens" if found.tokens is not None else "",
        "labels": ", ".join(found.labels),
        "card": found.card or "none",
        "directory": found.path,
    }
    _print_rows({name: value for name, value in rows.items() if value})
    print("\nwhat can be done with it")
    for command in found.commands:
        print(f"  {command}")


def presets(as_json: Json = False) -> None:
    """List all presets: the tasks that have them, their sizes, and their parameters with so many tokens, if any."""
    from manyheads.tasks.presets import presets

    found = presets()
    if as_json:
        for each in found:
            print_json(asdict(each))
        return
    head = f"{'':20}{'layers':>7}{'width':>7}{'heads':>7}{'tokens':>9}{'parameters':>17}"
    for tasks, those in groupby(found, key=lambda each: each.tasks):
        print(f"manyheads train {' | '.join(tasks)} --preset …\n{head}")
        for each in those:
            tokens = "-" if each.vocabulary is None else f"{each.vocabulary:,}"
            sizes = f"{each.layers:>7}{each.width:>7,}{each.heads or '-':>7}{tokens:>9}"
            print(f"{each.name:20}{sizes}{each.parameters:>17,}")
        print()
    print("tokens: of the tokenizer that is trained, unless --vocabulary says otherwise")


def help_(
    context: typer.Context,
    command: Annotated[
        list[str] | None, typer.Argument(help="A command, such as: train tag.", metavar="COMMAND")
    ] = None,
) -> None:
    """Say what there is, or what a command takes."""
    group: Any = context.find_root().command
    group.main([*(command or ()), "--help"], prog_name="manyheads", standalone_mode=False)


def _print_rows(rows: dict[str, str]) -> None:
    """A name and what it means a line, folded to the width."""
    for name, value in rows.items():
        print(fill(value, max(width(), 40), initial_indent=f"{name:12}", subsequent_indent=12 * " "))


def _written(value: Any) -> str:
    """A size for a person; of a part that has a kind, its kind."""
    if isinstance(value, dict):
        value = value.get("kind", value)
    return str(value).lower() if isinstance(value, bool) else str(value)
