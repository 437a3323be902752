"""`manyheads answer MODEL --context FILE QUESTION`"""

import sys
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from manyheads.cli.flags import Device, Json, Model
from manyheads.cli.lines import NAME, print_json


def answer(
    model: Model,
    question: Annotated[str, typer.Argument(help="What is asked.", metavar="QUESTION")],
    context: Annotated[
        Path | None, typer.Option(help="The text that may answer it; none, or -: standard input.", metavar="FILE")
    ] = None,
    best: Annotated[int, typer.Option(help="How many answers, the best first.", min=1, max=20)] = 1,
    as_json: Json = False,
    device: Device = "auto",
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
    from manyheads.tasks.answer.use import Answerer

    spans = Answerer.load(model, device=device).best(question, text, best)
    for span in spans:
        if as_json:
            print_json({"question": question, **asdict(span)})
            continue
        # An answer may go over several lines.
        print(f"{' '.join(span.text.split())}\t{span.probability:.4f}\t{span.start}\t{span.end}")
    if not spans[0].end:
        say("the model finds no answer in this text")


def _text(path: Path | None) -> tuple[str, str]:
    """A whole text, of which every character counts, and the words for where it is from."""
    from manyheads.core.errors import DataError
    from manyheads.data.readers.corpus import longest_line, refuse_long

    file = None if path is None or str(path) == "-" else path
    place = NAME if file is None else str(file)
    try:
        with nullcontext(sys.stdin.buffer) if file is None else file.open("rb") as stream:
            content = stream.read(longest_line() + 1)
        refuse_long(len(content), longest_line(), place)
        return content.decode("utf-8-sig"), place
    except UnicodeDecodeError as error:
        raise DataError(
            f"{place}: byte {error.start + 1} is not UTF-8 ({error.reason}); convert it, for example with iconv"
        ) from None
    except OSError as error:
        raise DataError(f"{place} cannot be read: {error.strerror}; check the path") from None
