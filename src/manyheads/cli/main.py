"""`manyheads`: the commands, and how errors reach the user."""

import io
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import typer
from typer.core import TyperGroup

import manyheads
from manyheads.cli import evaluate, look, train
from manyheads.cli.align import align
from manyheads.cli.answer import answer
from manyheads.cli.classify import classify
from manyheads.cli.demo import demo
from manyheads.cli.flags import command_of
from manyheads.cli.generate import generate
from manyheads.cli.masked import fill
from manyheads.cli.proofs import prove_resume, selfcheck
from manyheads.cli.prune import prune
from manyheads.cli.similarity import embed, similar
from manyheads.cli.tag import tag
from manyheads.cli.translate import translate
from manyheads.cli.walk import walk
from manyheads.core.errors import ManyheadsError
from manyheads.core.log import Terminal, disarmed

_UsageError: type[Exception] = typer.BadParameter.__mro__[1]  # type: ignore  # typer does not name the base of its errors

# They have flags of all tasks, so that they are made when they are asked for.
OF_ALL_TASKS = {"evaluate": evaluate.command, "look": look.command}


class Commands(TyperGroup):
    """All commands."""

    def list_commands(self, ctx: Any) -> list[str]:
        return [*super().list_commands(ctx), *OF_ALL_TASKS]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        made = OF_ALL_TASKS.get(cmd_name)
        return command_of(cmd_name, made()) if made else super().get_command(ctx, cmd_name)


app = typer.Typer(
    cls=Commands,
    help="One attention, every Transformer: train, run and look inside Transformers on your own data.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
app.add_typer(train.app, name="train")
using = (translate, align, generate, fill, classify, tag, answer, embed, similar)
checking = (selfcheck, prove_resume, walk, prune, demo)
for each in (*using, *checking):
    app.command()(each)


@app.callback(invoke_without_command=True)
def version(show: bool = typer.Option(False, "--version", help="Print the version and stop.")) -> None:
    if show:
        print(f"manyheads {manyheads.__version__}")
        raise typer.Exit


def repeated(arguments: Sequence[str], command: Any) -> list[str]:
    """Writes `--set a b` as `--set a --set b`, for every option of the command that takes several values."""
    several = _several(arguments, command)
    written: list[str] = []
    flag: str | None = None
    used = False
    for argument in arguments:
        if argument.startswith("-") and argument != "-":
            flag, used = (argument if argument in several else None), False
            written.append(argument)
        elif flag and used:
            written += [flag, argument]
        else:
            written.append(argument)
            used = True
    return written


def _several(arguments: Sequence[str], command: Any) -> set[str]:
    for argument in arguments:
        if not hasattr(command, "get_command"):
            break
        command = command.get_command(None, argument) or command
    return {flag for option in command.params if getattr(option, "multiple", False) for flag in option.opts}


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs a command; an error that a user can mend is one sentence and exit code 2."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", newline="\n")
            if stream.isatty():
                setattr(sys, name, Terminal(stream))
    if "OMP_NUM_THREADS" not in os.environ:
        # All cores are ours, one thread each: threads that stay where they are train up to a fifth faster.
        os.environ.setdefault("OMP_PROC_BIND", "true")
    debug = "--debug" in arguments
    arguments = [argument for argument in arguments if argument != "--debug"]
    try:
        command = typer.main.get_command(app)
        code = command.main(repeated(arguments, command), prog_name="manyheads", standalone_mode=False)
        sys.exit(code if isinstance(code, int) else 0)
    except _UsageError as error:
        error.show()  # type: ignore
        sys.exit(error.exit_code)  # type: ignore
    except (typer.Abort, KeyboardInterrupt):
        sys.exit(130)
    except BrokenPipeError:
        # Whoever read our output has gone (`| head`): nothing to say, and nothing more to flush.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)
    except (ManyheadsError, OSError) as error:
        if debug:
            raise
        foreign = isinstance(error, OSError)
        told = f"{error.filename or 'a file'}: {error.strerror} (more with --debug)" if foreign else error
        with suppress(OSError):  # of a terminal that was closed
            print(disarmed(f"manyheads: {told}"), file=sys.stderr)
        sys.exit(getattr(error, "exit_code", 2))
