"""`manyheads prune MODEL --heads 0.3 2.1 --out DIRECTORY`"""

from pathlib import Path
from typing import Annotated

import typer

from manyheads.cli.flags import Model
from manyheads.core.files import refuse_existing, refuse_unwritable_folder


def prune(
    model: Model,
    heads: Annotated[
        list[str],
        typer.Option(
            help="layer.head, counted from 0; of a translator encoder.0.3, decoder.0.3 or cross.0.3.", metavar="HEAD…"
        ),
    ],
    out: Annotated[Path, typer.Option(help="The model directory to write.")],
    keep_shape: Annotated[
        bool, typer.Option("--keep-shape", help="Leave zeros in their place: opens in transformers in any case.")
    ] = False,
) -> None:
    """Save a model without some of its heads; `look --importance` says which are missed least."""
    refuse_unwritable_folder(out)
    refuse_existing(out)
    from manyheads.look.heads import head_named
    from manyheads.tasks.inside.prune import prune

    before, after = prune(model, [head_named(head) for head in heads], out, keep_shape=keep_shape)
    print(f"{out}: {after:,} parameters, {before - after:,} fewer than {model}")
