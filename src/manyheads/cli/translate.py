"""`manyheads translate MODEL < in > out`"""

import sys
from typing import Annotated

import typer

from manyheads.cli.flags import Device, Model
from manyheads.cli.lines import in_chunks, standard_input


def translate(
    model: Model,
    beam: Annotated[int, typer.Option(help="Beam width; 1 is greedy search.")] = 4,
    alpha: Annotated[float, typer.Option(help="Length penalty; 0 is none.")] = 0.6,
    nbest: Annotated[int, typer.Option(help="Candidates a line, one a line, behind their number and score.")] = 0,
    device: Device = "auto",
) -> None:
    """Translate standard input, one sentence a line, to standard output, in order."""
    from manyheads.tasks.translate.use import Translator

    translator = Translator.load(model, device=device)
    lines = standard_input()
    done = 0
    for chunk in in_chunks(lines):
        if nbest:
            how = {"beam": max(beam, nbest), "alpha": alpha, "count": nbest, "first_line": done + 1}
            found = translator.candidates(chunk, **how)
            for number, candidates in enumerate(found, start=done + 1):
                for candidate in candidates:
                    print(f"{number}\t{candidate.score:.4f}\t{candidate.text}")
        else:
            for text in translator.translate(chunk, beam=beam, alpha=alpha, first_line=done + 1):
                print(text)
        sys.stdout.flush()
        done += len(chunk)
