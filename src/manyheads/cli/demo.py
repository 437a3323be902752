"""`manyheads demo`"""

import os
import shutil
import sys
from pathlib import Path
from typing import Annotated

import typer

from manyheads.core.files import refuse_unwritable_folder


def demo(out: Annotated[Path, typer.Option(help="The run directory.")] = Path("runs/demo")) -> None:
    """Train a small English-German translator from scratch, score it, and look inside: about three minutes."""
    refuse_unwritable_folder(out)
    from manyheads.tasks.demo import demonstrate

    # `make demo` installs into .venv, which need not be on the path.
    command = "manyheads" if shutil.which("manyheads") else os.path.relpath(sys.argv[0])
    demonstrate(out, command)
