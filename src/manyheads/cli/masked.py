"""`manyheads train masked`, and `manyheads fill MODEL "the cat [MASK] on the mat"`"""

from pathlib import Path
from typing import Annotated, Any

import typer

from manyheads.cli.lines import in_chunks, standard_input
from manyheads.cli.train import Field, Overwrite, Recipe, Resume, Set, ShowRecipe, Task, Text, ValidText, run


def train_masked(
    text: Text = None,
    field: Field = None,
    valid: ValidText = None,
    tokenizer: Annotated[
        str | None,
        typer.Option(
            help="A tokenizer.json, or a folder with one or a vocab.txt; none: one is trained.", metavar="FILE"
        ),
    ] = None,
    no_next_sentence: Annotated[
        bool, typer.Option("--no-next-sentence", help="Learn hidden words alone, not what follows what.")
    ] = False,
    out: Annotated[Path, typer.Option(help="The run directory.")] = Path("runs/masked"),
    preset: Annotated[
        str | None,
        typer.Option(
            help="bert_tiny, bert_mini (with your own text), bert_small, bert_medium, bert_base or bert_large."
        ),
    ] = None,
    recipe: Recipe = None,
    set_: Set = None,
    show_recipe: ShowRecipe = False,
    resume: Resume = False,
    overwrite: Overwrite = False,
) -> None:
    """Pre-train an encoder as BERT: hidden words, and whether one text follows another, from raw text."""
    from manyheads.tasks.masked_training import build_recipe, resumed_recipe, train_masked

    given = {
        **{"text": text, "field": field, "valid": valid, "tokenizer": tokenizer},
        **({"next_sentence": False} if no_next_sentence else {}),
    }
    what_next = "manyheads fill {out} 'a text with a [MASK] in it'"
    task = Task("masked", build_recipe, resumed_recipe, train_masked, what_next)
    options: dict[str, Any] = {"preset": preset, "recipe": recipe, "assignments": set_, "show_recipe": show_recipe}
    run(task, out, given, **options, resume=resume, overwrite=overwrite)


def fill(
    model: Annotated[Path, typer.Argument(help="A run directory or a model directory.")],
    text: Annotated[
        str | None, typer.Argument(help="A text with a [MASK] for each word to guess; none: standard input, by lines.")
    ] = None,
    count: Annotated[int, typer.Option(help="How many words to print for each.")] = 5,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
) -> None:
    """Guess hidden words: the likeliest ones, each with its probability.

    Behind the guesses of each line of standard input comes a blank line.
    """
    from manyheads.tasks.masked import Filler

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
