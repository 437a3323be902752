"""`manyheads`: the commands, and how errors reach the user."""

import os
import re
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Annotated, Any

import typer

import manyheads
from manyheads.cli import evaluate, look, train
from manyheads.cli.about import help_, info, presets
from manyheads.cli.align import align
from manyheads.cli.answer import answer
from manyheads.cli.arguments import repeated
from manyheads.cli.classify import classify
from manyheads.cli.demo import demo
from manyheads.cli.flags import Debug, Group, Quiet, command_of, flagged
from manyheads.cli.generate import generate
from manyheads.cli.image_function import image_function
from manyheads.cli.images import ask, caption, classify_image
from manyheads.cli.lines import open_streams
from manyheads.cli.masked import fill
from manyheads.cli.parse import parse
from manyheads.cli.proofs import prove_resume, selfcheck
from manyheads.cli.prune import prune
from manyheads.cli.similarity import embed, similar
from manyheads.cli.tag import tag
from manyheads.cli.translate import translate
from manyheads.cli.vectors import analogy, export_vectors, neighbours
from manyheads.cli.walk import walk
from manyheads.core.errors import ManyheadsError
from manyheads.core.log import Terminal, be_quiet, disarmed

_UsageError: type[Exception] = typer.BadParameter.__mro__[1]  # type: ignore  # typer does not name the base of its errors
MENDABLE = (ManyheadsError, OSError, MemoryError)

# They have flags of all tasks, so that they are made when they are asked for.
OF_ALL_TASKS = {"evaluate": evaluate.command, "look": look.command}


class Commands(Group):
    """All commands."""

    def list_commands(self, ctx: Any) -> list[str]:
        using = [name for name in super().list_commands(ctx) if name != "train"]
        return ["train", *using, *OF_ALL_TASKS]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        made = OF_ALL_TASKS.get(cmd_name)
        return command_of(cmd_name, made()) if made else super().get_command(ctx, cmd_name)


app = typer.Typer(
    cls=Commands,
    help="One attention, every Transformer: train, run and look inside Transformers on your own data.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # whose columns leave no room for words in 80 letters
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
app.add_typer(train.app, name="train")
reading = (translate, align, generate, fill, classify, tag, parse, answer, embed, similar, neighbours, analogy)
using = (*reading, export_vectors, classify_image, caption, ask)
checking = (info, presets, selfcheck, prove_resume, walk, prune, image_function, demo)
for each in (*using, *checking):
    app.command()(flagged(each))
app.command("help")(flagged(help_))


@app.callback(invoke_without_command=True)
def version(
    show: Annotated[bool, typer.Option("--version", "-V", help="Print the version and stop.")] = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    if show:
        print(f"manyheads {manyheads.__version__}")
        raise typer.Exit


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs a command; an error that a user can mend is one sentence and exit code 2."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in arguments
    be_quiet(False)
    open_streams()
    for name in ("stdout", "stderr"):
        if getattr(sys, name).isatty():
            setattr(sys, name, Terminal(getattr(sys, name)))
    if "OMP_NUM_THREADS" not in os.environ:
        # All cores are ours, one thread each: threads that stay where they are train up to a fifth faster.
        os.environ.setdefault("OMP_PROC_BIND", "true")
    try:
        command = typer.main.get_command(app)
        code = command.main(repeated(arguments, command), prog_name="manyheads", standalone_mode=False)
        sys.stdout.flush()  # what cannot be written is an error like any other
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
    except Exception as error:
        if debug:
            raise
        if isinstance(error, RuntimeError) and re.search("can't allocate memory|out of memory", str(error)):
            error = MemoryError()  # which torch says in its own way
        with suppress(OSError):  # of a terminal that was closed
            print(disarmed(f"manyheads: {_told(error)}"), file=sys.stderr)
        sys.exit(getattr(error, "exit_code", 2 if isinstance(error, MENDABLE) else 1))


def _told(error: Exception) -> str:
    """The sentence for an error; one that nobody foresaw is no fault of what the user gave."""
    if isinstance(error, OSError):
        return f"{error.filename or 'a file'}: {error.strerror} (more with --debug)"
    if isinstance(error, MemoryError):
        return "there is not enough memory for this; give it less at once, or a smaller model"
    if isinstance(error, ManyheadsError):
        return str(error)
    what = " ".join(f"{type(error).__name__}: {error}".split())
    return f"a fault of manyheads itself, please report it ({what:.200}); --debug behind the command shows where"
