"""`manyheads translate MODEL < in > out`"""

import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Annotated

import typer

LINES_AT_ONCE = 1024


def translate(
    model: Annotated[Path, typer.Argument(help="A run directory or a model directory.")],
    beam: Annotated[int, typer.Option(help="Beam width; 1 is greedy search.")] = 4,
    alpha: Annotated[float, typer.Option(help="Length penalty; 0 is none.")] = 0.6,
    nbest: Annotated[int, typer.Option(help="Candidates a line, one a line, behind their number and score.")] = 0,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
) -> None:
    """Translate standard input, one sentence a line, to standard output, in order."""
    from manyheads.tasks.translate import Translator

    translator = Translator.load(model, device=device)
    sys.stdout.reconfigure(encoding="utf-8", newline="\n")  # type: ignore
    lines = _lines()
    done = 0
    # A person who types wants an answer after each line.
    while chunk := list(islice(lines, 1 if sys.stdin.isatty() else LINES_AT_ONCE)):
        if nbest:
            found = translator.candidates(chunk, beam=max(beam, nbest), alpha=alpha, count=nbest)
            for number, candidates in enumerate(found, start=done + 1):
                for candidate in candidates:
                    print(f"{number}\t{candidate.score:.4f}\t{candidate.text}")
        else:
            for text in translator.translate(chunk, beam=beam, alpha=alpha):
                print(text)
        sys.stdout.flush()
        done += len(chunk)


def _lines() -> Iterator[str]:
    from manyheads.core.errors import DataError

    for number, line in enumerate(sys.stdin.buffer, start=1):
        if number == 1:
            line = line.removeprefix(b"\xef\xbb\xbf")  # the mark that Windows puts before UTF-8
        try:
            yield line.decode("utf-8").removesuffix("\n").removesuffix("\r")
        except UnicodeDecodeError:
            raise DataError(
                f"standard input, line {number}: not valid UTF-8; convert it, for example with iconv"
            ) from None
