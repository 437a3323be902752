"""`manyheads walk`, and `manyheads walk MODEL "a sentence"`"""

from pathlib import Path
from typing import Annotated, Any

import typer

from manyheads.cli.flags import Device, holding_model
from manyheads.cli.lines import print_wide, refuse_other_text
from manyheads.core.errors import ConfigError
from manyheads.core.files import refuse_unwritable, write_result
from manyheads.core.log import say


def walk(
    model: Annotated[
        Path | None,
        typer.Argument(
            help="A run directory or a model directory; none: the lectures' worked examples.",
            metavar="MODEL",
            callback=holding_model,
        ),
    ] = None,
    text: Annotated[str | None, typer.Argument(help="The sentence.", metavar="TEXT")] = None,
    second: Annotated[
        str | None,
        typer.Argument(
            help="The second text of models that read two, or the translation to walk through.", metavar="SECOND"
        ),
    ] = None,
    layer: Annotated[
        int | None, typer.Option(help="Counted from 0; none: 0, and in cross-attention the last.", metavar="NUMBER")
    ] = None,
    head: Annotated[int, typer.Option(help="Counted from 0.", metavar="NUMBER")] = 0,
    attention: Annotated[
        str | None, typer.Option(help="Of a translator: cross (unless said otherwise), encoder or decoder.")
    ] = None,
    token: Annotated[
        int | None, typer.Option(help="Of a recurrent model, counted from 0; none: the last.", metavar="NUMBER")
    ] = None,
    html: Annotated[Path | None, typer.Option(help="Write a page here in place of text.", metavar="FILE")] = None,
    count: Annotated[int, typer.Option(help="How many candidates end it.")] = 5,
    device: Device = "auto",
) -> None:
    """Follow a sentence through a model, matrix by matrix; without a model, through the lectures' worked examples."""
    for given in (text, second):
        refuse_other_text(given)
    if html is not None:
        refuse_unwritable(html, ".html")
    if model is None and any((layer is not None, head, attention, token is not None, count != 5)):
        raise ConfigError("the lectures' examples have one head and no options; give a model and a text")
    if model is not None and text is None:
        raise ConfigError(f"there is no text to walk through {model}; give a sentence behind it, in quotes")
    from manyheads.tasks.inside.walk import lecture_walk, walk_through

    options: dict[str, Any] = {"layer": layer, "head": head, "attention": attention, "token": token}
    options |= {"count": count, "device": device}
    found = lecture_walk() if model is None else walk_through(model, text or "", second, **options)
    if html is None:
        print_wide(found.shown)
    else:
        write_result(html, found.html())
        say(f"{html} is written; open it in a browser")
