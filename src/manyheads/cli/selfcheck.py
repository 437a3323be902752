"""`manyheads selfcheck MODEL`"""

from typing import Annotated

import typer

from manyheads.cli.flags import Model


def selfcheck(
    model: Model,
    sentences: Annotated[int, typer.Option(help="How many sentences to check.")] = 24,
    beam: Annotated[int, typer.Option(help="Beam width of the searches compared.")] = 4,
) -> None:
    """Show that a model gives the same answer cached or not, batched or alone, padded or not."""
    from manyheads.tasks.proofs.selfcheck import check

    findings = check(model, sentences=sentences, beam=beam)
    for finding in findings:
        print(f"{'ok  ' if finding.holds else 'FAIL'}  {finding.claim:<58} {finding.evidence}")
    if not all(finding.holds for finding in findings):
        raise typer.Exit(1)
