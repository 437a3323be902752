"""`manyheads tag MODEL < in > out`, and `manyheads train tag`"""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from manyheads.cli.lines import in_chunks, standard_input
from manyheads.cli.train import Encoder, EncoderPreset, Freeze, Overwrite, Recipe, Resume, Set, ShowRecipe, Task, run


def train_tag(
    train: Annotated[
        list[str] | None,
        typer.Option(
            help="CoNLL's columns, plain, .gz or .xz: a word and its label a line, a blank line between sentences.",
            metavar="FILE…",
        ),
    ] = None,
    valid: Annotated[
        list[str] | None, typer.Option(help="Validation; none: every 10th sentence is held out.", metavar="FILE…")
    ] = None,
    columns: Annotated[
        list[str] | None,
        typer.Option(
            help="The columns (from 1) of the word and of its label; none: the first and the last.",
            metavar="WORD LABEL",
        ),
    ] = None,
    model: Encoder = None,
    freeze: Freeze = False,
    out: Annotated[Path, typer.Option(help="The run directory.")] = Path("runs/tag"),
    preset: EncoderPreset = None,
    recipe: Recipe = None,
    set_: Set = None,
    show_recipe: ShowRecipe = False,
    resume: Resume = False,
    overwrite: Overwrite = False,
) -> None:
    """Train a tagger, which labels each word of a sentence (names, parts of speech): an encoder (BERT)."""
    from manyheads.tasks.tag_training import build_recipe, resumed_recipe, train_tagger

    given = {"train": train, "valid": valid, "columns": columns, "model": model, "freeze": freeze or None}
    task = Task("tag", build_recipe, resumed_recipe, train_tagger, "echo 'a sentence' | manyheads tag {out}")
    options: dict[str, Any] = {"preset": preset, "recipe": recipe, "assignments": set_, "show_recipe": show_recipe}
    run(task, out, given, **options, resume=resume, overwrite=overwrite)


def tag(
    model: Annotated[Path, typer.Argument(help="A run directory or a model directory.")],
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
) -> None:
    """Label the words of standard input, one sentence a line, with spaces between words.

    Prints a line for each word with its likeliest label and the label's probability, tabs between, and a blank line
    behind each sentence.
    """
    from manyheads.tasks.tag import Tagger

    tagger = Tagger.load(model, device=device)
    sys.stdout.reconfigure(encoding="utf-8", newline="\n")  # type: ignore
    for chunk in in_chunks(standard_input()):
        for sentence in tagger(chunk):
            for each in sentence:
                print(f"{each.word}\t{each.label}\t{each.probability:.4f}")
            print()
        sys.stdout.flush()
