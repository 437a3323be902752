"""`manyheads classify MODEL < in > out`, and `manyheads train classify`"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from manyheads.cli.lines import in_chunks, standard_input
from manyheads.cli.train import Freeze, Overwrite, Recipe, Resume, Set, ShowRecipe, Task, run


def train_classify(
    train: Annotated[
        list[str] | None,
        typer.Option(
            help="A .tsv, .csv or .jsonl with a text (or two) and a label, a .jsonl with context, choices and answer, "
            "or a folder with train.tsv and dev.tsv.",
            metavar="FILE…",
        ),
    ] = None,
    valid: Annotated[
        list[str] | None, typer.Option(help="Validation; none: every 10th example is held out.", metavar="FILE…")
    ] = None,
    columns: Annotated[
        list[str] | None,
        typer.Option(help="Columns of a .tsv by name or number (from 1), the label last.", metavar="A [B] LABEL"),
    ] = None,
    regression: Annotated[bool, typer.Option("--regression", help="Labels are numbers, to be met closely.")] = False,
    model: Annotated[
        Path | None,
        typer.Option(help="The pre-trained model: a run or model directory, or a bert, gpt2 or llama checkpoint."),
    ] = None,
    freeze: Freeze = False,
    out: Annotated[Path, typer.Option(help="The run directory.")] = Path("runs/classify"),
    preset: Annotated[
        str | None,
        typer.Option(
            help="Without --model, the size of an untrained one: bert_tiny, bert_mini, bert_small, bert_medium, "
            "bert_base, bert_large, or any that train language has."
        ),
    ] = None,
    recipe: Recipe = None,
    set_: Set = None,
    show_recipe: ShowRecipe = False,
    resume: Resume = False,
    overwrite: Overwrite = False,
) -> None:
    """Train a classifier of texts, pairs of texts or multiple choice: an encoder (BERT) or a decoder (GPT, Llama)."""
    from manyheads.tasks.classify_training import build_recipe, resumed_recipe, train_classifier

    given = {
        **{"train": train, "valid": valid, "columns": columns, "regression": regression or None},
        **{"model": model, "freeze": freeze or None},
    }
    task = Task("classify", build_recipe, resumed_recipe, train_classifier, "manyheads classify {out} < in.txt")
    options: dict[str, Any] = {"preset": preset, "recipe": recipe, "assignments": set_, "show_recipe": show_recipe}
    run(task, out, given, **options, resume=resume, overwrite=overwrite)


def classify(
    model: Annotated[Path, typer.Argument(help="A run directory or a model directory.")],
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
) -> None:
    """Label standard input, one example a line: a text, two with a tab between, or JSON with context and choices.

    Prints the likeliest label and its probability, or the number that a model of numbers gives.
    """
    from manyheads.core.log import warn
    from manyheads.tasks.classify import Classifier, Label

    classifier = Classifier.load(model, device=device)
    sys.stdout.reconfigure(encoding="utf-8", newline="\n")  # type: ignore
    examples, empty = _examples(classifier.form), 0
    for chunk in in_chunks(examples):
        empty += sum(not "".join(map(str, example)).strip() for example in chunk)
        for found in classifier(chunk):
            if not isinstance(found, Label):
                print(f"{found:.4f}")
                continue
            # A choice may have several lines.
            number = f"{found.index}\t" if classifier.form == "choice" else ""
            print(f"{number}{' '.join(found.name.split())}\t{found.probability:.4f}")
        sys.stdout.flush()
    if empty:
        warn(f"of the lines {empty:,} are empty; what is said of them means nothing")


def _examples(form: str) -> Iterator[Any]:
    """What each line of standard input says, as a classifier of this form takes it."""
    from manyheads.core.errors import DataError
    from manyheads.data.readers.examples import read_choices

    for number, line in enumerate(standard_input(), start=1):
        place = f"standard input, line {number}"
        if form == "choice":
            yield read_choices(line, place)
        elif form == "pair" or (form == "either" and "\t" in line):
            texts = line.split("\t")
            if len(texts) != 2:
                found = f"{len(texts) - 1} tabs" if len(texts) > 1 else "no tab"
                raise DataError(f"{place}: {found}; this model compares two texts: write them with one tab between")
            yield tuple(texts)
        else:
            yield line
