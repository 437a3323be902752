"""`manyheads demo`"""

from pathlib import Path
from typing import Annotated

import typer


def demo(out: Annotated[Path, typer.Option(help="The run directory.")] = Path("runs/demo")) -> None:
    """Train a small English-German translator from scratch, score it, and draw its attention: about three minutes."""
    from manyheads.tasks.demo import demonstrate

    demonstrate(out)
