"""`manyheads translate MODEL [FILE]…`"""

import sys
from typing import Annotated

import typer

from manyheads.cli.flags import Device, Json, Model
from manyheads.cli.lines import Files, lines_of, print_json
from manyheads.core.errors import ConfigError


def translate(
    model: Model,
    files: Files = None,
    beam: Annotated[int, typer.Option(help="Beam width; 1 is greedy search.")] = 4,
    alpha: Annotated[float, typer.Option(help="Length penalty; 0 is none.")] = 0.6,
    nbest: Annotated[int, typer.Option(help="Candidates a line, one a line, behind their number and score.")] = 0,
    as_json: Json = False,
    device: Device = "auto",
) -> None:
    """Translate files or standard input, one sentence a line, to standard output, in order."""
    for flag, value, least in (("--beam", beam, 1), ("--nbest", nbest, 0)):
        if value < least:
            raise ConfigError(f"{flag} is {value}; it must be at least {least}")
    from manyheads.tasks.translate.use import Translator

    translator = Translator.load(model, device=device)
    done = 0
    for lines in lines_of(files):
        how = {"alpha": alpha, "first_line": lines.first}
        if nbest or as_json:
            count = max(nbest, 1)
            found = translator.candidates(lines.texts, beam=max(beam, count), count=count, **how)
        else:
            found = translator.translate(lines.texts, beam=beam, **how)
        for number, (text, each) in enumerate(zip(lines.texts, found), start=done + 1):
            if isinstance(each, str):
                print(each)
                continue
            for candidate in each:
                table = {"line": number, "source": text, "translation": candidate.text, "score": candidate.score}
                print_json(table) if as_json else print(f"{number}\t{candidate.score:.4f}\t{candidate.text}")
        sys.stdout.flush()
        done += len(lines.texts)
