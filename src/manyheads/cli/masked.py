"""`manyheads fill MODEL "the cat [MASK] on the mat"`"""

import sys
from collections.abc import Iterator
from dataclasses import asdict
from typing import Annotated, Any

import typer

from manyheads.cli.flags import Device, Json, Model
from manyheads.cli.lines import lines_of, print_json


def fill(
    model: Model,
    text: Annotated[
        str | None,
        typer.Argument(
            help="A text with a [MASK] for each word to guess; none: standard input, by lines.", metavar="TEXT"
        ),
    ] = None,
    count: Annotated[int, typer.Option(help="How many words to print for each.")] = 5,
    as_json: Json = False,
    device: Device = "auto",
) -> None:
    """Guess hidden words: the likeliest ones, each with its probability.

    Behind the guesses of each line of standard input comes a blank line; as JSON a line for each text.
    """
    from manyheads.tasks.masked.use import Filler

    filler = Filler.load(model, device=device)
    for texts in [[text]] if text is not None else _full_lines():
        for each, guesses in zip(texts, filler(texts, count)):
            if as_json:
                print_json({"text": each, "guesses": [[asdict(guess) for guess in hidden] for hidden in guesses]})
                continue
            _print(filler.mask, guesses)
            if text is None:
                print()
        sys.stdout.flush()


def _full_lines() -> Iterator[list[str]]:
    """Those of standard input that are not blank."""
    return ([line for line in lines.texts if line.strip()] for lines in lines_of(None))


def _print(mask: str, guesses: list[list[Any]]) -> None:
    for number, hidden in enumerate(guesses, start=1):
        if len(guesses) > 1:
            print(f"{mask} {number}")
        for guess in hidden:
            print(f"{guess.probability:8.4f}  {guess.word}")
