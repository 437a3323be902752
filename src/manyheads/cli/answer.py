"""`manyheads answer MODEL --context FILE QUESTION`, and `manyheads train answer`"""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from manyheads.cli.train import Encoder, EncoderPreset, Freeze, Overwrite, Recipe, Resume, Set, ShowRecipe, Task, run


def train_answer(
    data: Annotated[
        list[str] | None,
        typer.Option(help="Questions in the layout of SQuAD 1.1 or 2.0: .json, plain, .gz or .xz.", metavar="FILE…"),
    ] = None,
    valid: Annotated[
        list[str] | None, typer.Option(help="Validation; none: every 10th document is held out.", metavar="FILE…")
    ] = None,
    model: Encoder = None,
    freeze: Freeze = False,
    out: Annotated[Path, typer.Option(help="The run directory.")] = Path("runs/answer"),
    preset: EncoderPreset = None,
    recipe: Recipe = None,
    set_: Set = None,
    show_recipe: ShowRecipe = False,
    resume: Resume = False,
    overwrite: Overwrite = False,
) -> None:
    """Train a model that answers questions about a text with a stretch of that text: an encoder (BERT)."""
    from manyheads.tasks.answer_training import build_recipe, resumed_recipe, train_answerer

    given = {"data": data, "valid": valid, "model": model, "freeze": freeze or None}
    what_next = "manyheads answer {out} --context text.txt 'a question?'"
    task = Task("answer", build_recipe, resumed_recipe, train_answerer, what_next)
    options: dict[str, Any] = {"preset": preset, "recipe": recipe, "assignments": set_, "show_recipe": show_recipe}
    run(task, out, given, **options, resume=resume, overwrite=overwrite)


def answer(
    model: Annotated[Path, typer.Argument(help="A run directory or a model directory.")],
    question: Annotated[str, typer.Argument(help="What is asked.")],
    context: Annotated[
        Path | None, typer.Option(help="The text that may answer it; none, or -: standard input.", metavar="FILE")
    ] = None,
    best: Annotated[int, typer.Option(help="How many answers, the best first.", min=1, max=20)] = 1,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
) -> None:
    """Answer a question with a stretch of a text.

    Prints the answer, its probability and where it begins and ends in the text, counted in characters, with tabs
    between; without an answer, where the model knows of questions that have none, nothing before the first tab.
    """
    from manyheads.core.errors import DataError
    from manyheads.core.log import say

    if not question.strip():
        raise DataError("the question is empty; ask one")
    text, place = _text(context)
    if not text.strip():
        raise DataError(f"{place} is empty; give a text that may answer the question")
    from manyheads.tasks.answer import Answerer

    spans = Answerer.load(model, device=device).best(question, text, best)
    sys.stdout.reconfigure(encoding="utf-8", newline="\n")  # type: ignore
    for span in spans:
        # An answer may go over several lines.
        print(f"{' '.join(span.text.split())}\t{span.probability:.4f}\t{span.start}\t{span.end}")
    if not spans[0].end:
        say("the model finds no answer in this text")


def _text(path: Path | None) -> tuple[str, str]:
    """A whole text, of which every character counts, and the words for where it is from."""
    from manyheads.core.errors import DataError

    file = None if path is None or str(path) == "-" else path
    place = "standard input" if file is None else str(file)
    try:
        content = sys.stdin.buffer.read() if file is None else file.read_bytes()
        return content.decode("utf-8-sig"), place
    except UnicodeDecodeError as error:
        raise DataError(
            f"{place}: byte {error.start + 1} is not UTF-8 ({error.reason}); convert it, for example with iconv"
        ) from None
    except OSError as error:
        raise DataError(f"{place} cannot be read: {error.strerror}; check the path") from None
