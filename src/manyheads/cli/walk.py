"""`manyheads walk`, and `manyheads walk MODEL "a sentence"`"""

import sys
from pathlib import Path
from typing import Annotated

import typer


def walk(
    model: Annotated[
        Path | None, typer.Argument(help="A run directory or a model directory; none: the lectures' worked examples.")
    ] = None,
    text: Annotated[str | None, typer.Argument(help="The sentence; two texts have a tab between.")] = None,
    layer: Annotated[
        int | None, typer.Option(help="Counted from 0; none: 0, and in cross-attention the last.", metavar="NUMBER")
    ] = None,
    head: Annotated[int, typer.Option(help="Counted from 0.", metavar="NUMBER")] = 0,
    attention: Annotated[
        str | None, typer.Option(help="Of a translator: cross (unless said otherwise), encoder or decoder.")
    ] = None,
    html: Annotated[Path | None, typer.Option(help="Write a page here in place of text.", metavar="FILE")] = None,
    count: Annotated[int, typer.Option(help="How many candidates end it.")] = 5,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
) -> None:
    """Follow a sentence through a model, matrix by matrix; without a model, through the lectures' worked examples."""
    from manyheads.core.errors import ConfigError
    from manyheads.core.files import refuse_unwritable, write_atomically
    from manyheads.core.log import say

    if html is not None:
        refuse_unwritable(html)
    if model is not None and text is None:
        raise ConfigError(f"there is no text to walk through {model}; give a sentence behind it, in quotes")
    from manyheads.tasks.walk import lecture_walk, walk_through

    if model is None:
        found = lecture_walk()
    else:
        found = walk_through(model, text or "", layer=layer, head=head, attention=attention, count=count, device=device)
    if html is not None:
        write_atomically(html, found.html())
        say(f"{html} is written; open it in a browser")
        return
    from rich.console import Console

    # What is no terminal has no width, and a file should not depend on where it was written.
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 100)
    console.print(found.shown(console.width), soft_wrap=True)
