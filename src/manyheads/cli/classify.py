"""`manyheads classify MODEL < in > out`, and `manyheads train classify`"""

import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import typer

from manyheads.cli.lines import standard_input
from manyheads.cli.train import Overwrite, Recipe, Resume, Set, ShowRecipe, Task, run

LINES_AT_ONCE = 1024


def train_classify(
    train: Annotated[
        list[str] | None,
        typer.Option(
            help="A .tsv with a text (or two) and a label, or a .jsonl with context, choices and answer.",
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
    model: Annotated[
        Path | None,
        typer.Option(help="The language model to fine-tune: a run or model directory, or a gpt2 or llama checkpoint."),
    ] = None,
    out: Annotated[Path, typer.Option(help="The run directory.")] = Path("runs/classify"),
    preset: Annotated[
        str | None,
        typer.Option(help="Without --model, the size of an untrained one: gpt2_tiny, or any that train language has."),
    ] = None,
    recipe: Recipe = None,
    set_: Set = None,
    show_recipe: ShowRecipe = False,
    resume: Resume = False,
    overwrite: Overwrite = False,
) -> None:
    """Train a classifier of texts, pairs of texts or multiple choice: a language model, fine-tuned as GPT-1 was."""
    from manyheads.tasks.classify_training import build_recipe, resumed_recipe, train_classifier

    given = {"train": train, "valid": valid, "columns": columns, "model": model}
    task = Task("classify", build_recipe, resumed_recipe, train_classifier, "manyheads classify {out} < in.txt")
    options: dict[str, Any] = {"preset": preset, "recipe": recipe, "assignments": set_, "show_recipe": show_recipe}
    run(task, out, given, **options, resume=resume, overwrite=overwrite)


def classify(
    model: Annotated[Path, typer.Argument(help="A run directory or a model directory.")],
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
) -> None:
    """Label standard input, one example a line: a text, two with a tab between, or JSON with context and choices."""
    from manyheads.tasks.classify import TextClassifier

    classifier = TextClassifier.load(model, device=device)
    sys.stdout.reconfigure(encoding="utf-8", newline="\n")  # type: ignore
    examples = _examples(classifier.form)
    # A person who types wants an answer after each line.
    while chunk := list(islice(examples, 1 if sys.stdin.isatty() else LINES_AT_ONCE)):
        for found in classifier(chunk):
            # A choice may have several lines.
            number = f"{found.index}\t" if classifier.form == "choice" else ""
            print(f"{number}{' '.join(found.name.split())}\t{found.probability:.4f}")
        sys.stdout.flush()


def _examples(form: str) -> Iterator[Any]:
    """What each line of standard input says, as a classifier of this form takes it."""
    from manyheads.core.errors import DataError
    from manyheads.data.examples import read_choices

    for number, line in enumerate(standard_input(), start=1):
        place = f"standard input, line {number}"
        if form == "choice":
            yield read_choices(line, place)
        elif form == "pair":
            texts = line.split("\t")
            if len(texts) != 2:
                found = f"{len(texts) - 1} tabs" if len(texts) > 1 else "no tab"
                raise DataError(f"{place}: {found}; this model compares two texts: write them with one tab between")
            yield tuple(texts)
        else:
            yield line
