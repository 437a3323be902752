"""`manyheads parse MODEL ["a sentence"]…`"""

import sys
from pathlib import Path
from typing import Annotated

import typer

from manyheads.cli.flags import Device, Json, Model
from manyheads.cli.lines import lines_of, print_json


def parse(
    model: Model,
    sentences: Annotated[
        list[str] | None,
        typer.Argument(help="Sentences, with spaces between words; none: standard input.", metavar="SENTENCE"),
    ] = None,
    svg: Annotated[
        str | None, typer.Option(help="Draw the tree of the one sentence here, .svg.", metavar="FILE")
    ] = None,
    as_json: Json = False,
    device: Device = "auto",
) -> None:
    """Parse sentences: the tree of each in brackets, and drawn.

    Marks of punctuation are words of their own, as in "The cat danced .". From standard input, a sentence a line,
    there is a line of brackets for each and no drawing; an empty line stays empty.
    """
    from manyheads.core.errors import ConfigError
    from manyheads.core.files import refuse_unwritable, write_result
    from manyheads.look.trees import drawn
    from manyheads.look.trees import svg as svg_of
    from manyheads.tasks.parse.use import Parser, TreePredictor
    from manyheads.tasks.task import predictor_of

    if svg:
        refuse_unwritable(Path(svg), ".svg")
        if len(sentences or ()) != 1 or not sentences[0].split():  # type: ignore
            raise ConfigError("--svg draws the tree of one sentence; give it behind the model, in quotes")
    kind = predictor_of(model)
    parser = (kind if issubclass(kind, TreePredictor) else Parser).load(model, device=device)
    for texts in [sentences] if sentences else (lines.texts for lines in lines_of(None)):
        trees = iter(parser([text for text in texts if text.split()]))
        for text in texts:
            tree = next(trees) if text.split() else None
            if as_json:
                words = [word._asdict() for word in tree.words] if tree else []
                print_json({"text": text, "tree": str(tree or ""), "words": words})
            else:
                print(tree or "")
                if tree and sentences:
                    print(f"\n{drawn(tree)}\n")
            if svg and tree:
                write_result(Path(svg), svg_of(tree))
        sys.stdout.flush()
