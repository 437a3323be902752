"""`manyheads evaluate MODEL --source … --target …`"""

from pathlib import Path
from typing import Annotated

import typer


def evaluate(
    model: Annotated[Path, typer.Argument(help="A run directory or a model directory.")],
    source: Annotated[
        list[Path] | None, typer.Option(help="One sentence a line; plain, .gz or .xz.", metavar="FILE…")
    ] = None,
    target: Annotated[
        list[Path] | None, typer.Option(help="Reference translations, line by line.", metavar="FILE…")
    ] = None,
    pairs: Annotated[list[Path] | None, typer.Option(help="Both in one file: .tsv or .jsonl.", metavar="FILE…")] = None,
    fields: Annotated[
        list[str] | None, typer.Option(help="The columns (from 1) or JSON fields of source and target.", metavar="A B")
    ] = None,
    beam: Annotated[int, typer.Option(help="Beam width; 1 is greedy search.")] = 4,
    alpha: Annotated[float, typer.Option(help="Length penalty; 0 is none.")] = 0.6,
    out: Annotated[Path | None, typer.Option(help="Save the translations here, one a line.")] = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
) -> None:
    """Translate a test set and print BLEU and chrF with their signatures."""
    from manyheads.core.errors import ConfigError, DataError
    from manyheads.data.corpus import read_pairs
    from manyheads.tasks.translate import Translator, score

    if not pairs and not (source and target):
        raise ConfigError("nothing to evaluate on: give --source and --target, or --pairs")
    if fields and len(fields) != 2:
        raise ConfigError(f"--fields names {len(fields)} fields; it must name two, source and target")
    read = list(
        read_pairs(
            sources=source or (),
            targets=target or (),
            pairs=pairs or (),
            fields=(fields[0], fields[1]) if fields else None,
        )
    )
    if not read:
        raise DataError("the test set has no sentences")
    found = Translator.load(model, device=device).translate([pair[0] for pair in read], beam=beam, alpha=alpha)
    scores = score(found, [pair[1] for pair in read])
    print(f"BLEU        {scores.bleu:6.2f}   {scores.bleu_signature}")
    print(f"BLEU, lower {scores.bleu_lower:6.2f}   {scores.bleu_lower_signature}")
    print(f"chrF        {scores.chrf:6.2f}   {scores.chrf_signature}")
    if out:
        out.write_text("".join(f"{text}\n" for text in found), encoding="utf-8")
