"""`manyheads fill MODEL "the cat [MASK] on the mat"`"""

from typing import Annotated, Any

import typer

from manyheads.cli.flags import Device, Model
from manyheads.cli.lines import in_chunks, standard_input


def fill(
    model: Model,
    text: Annotated[
        str | None, typer.Argument(help="A text with a [MASK] for each word to guess; none: standard input, by lines.")
    ] = None,
    count: Annotated[int, typer.Option(help="How many words to print for each.")] = 5,
    device: Device = "auto",
) -> None:
    """Guess hidden words: the likeliest ones, each with its probability.

    Behind the guesses of each line of standard input comes a blank line.
    """
    from manyheads.tasks.masked.use import Filler

    filler = Filler.load(model, device=device)
    if text is not None:
        _print(filler.mask, filler([text], count)[0])
        return
    lines = (line for line in standard_input() if line.strip())
    for chunk in in_chunks(lines):
        for guesses in filler(chunk, count):
            _print(filler.mask, guesses)
            print(flush=True)


def _print(mask: str, guesses: list[list[Any]]) -> None:
    for number, hidden in enumerate(guesses, start=1):
        if len(guesses) > 1:
            print(f"{mask} {number}")
        for guess in hidden:
            print(f"{guess.probability:8.4f}  {guess.word}")
