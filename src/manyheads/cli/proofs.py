"""`manyheads selfcheck MODEL` and `manyheads prove-resume RECIPE`"""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from manyheads.cli.flags import Json, Model
from manyheads.cli.lines import print_json
from manyheads.tasks.run_directory import given_recipe


def selfcheck(
    model: Model,
    sentences: Annotated[int, typer.Option(help="How many sentences to check.")] = 24,
    beam: Annotated[int, typer.Option(help="Beam width of the searches compared.")] = 4,
    as_json: Json = False,
) -> None:
    """Show that a model gives the same answer cached or not, batched or alone, padded or not."""
    from manyheads.tasks.proofs.selfcheck import check

    findings = check(model, sentences=sentences, beam=beam)
    width = max(len(finding.claim) for finding in findings)
    for finding in findings:
        if as_json:
            print_json(asdict(finding))
        else:
            print(f"{'ok  ' if finding.holds else 'FAIL'}  {finding.claim:<{width}}  {finding.evidence}")
    if not all(finding.holds for finding in findings):
        raise typer.Exit(1)


def prove_resume(
    recipe: Annotated[
        Path,
        typer.Argument(
            help="A recipe in TOML, or a run directory, whose recipe is taken.", metavar="RECIPE", callback=given_recipe
        ),
    ],
    steps: Annotated[int, typer.Option(help="Steps to train.")] = 20,
    seed: Annotated[int | None, typer.Option(help="Fixes the step at which the run is killed.")] = None,
) -> None:
    """Train, train again and kill it with SIGKILL at a random step, resume, and compare every bit."""
    from manyheads.tasks.proofs.resume import prove

    difference = prove(recipe, steps=steps, seed=seed)
    if difference:
        print(f"the resumed run differs, first in: {difference}")
        raise typer.Exit(1)
    print("no tensor differs: the killed and resumed run is the uninterrupted one, bit for bit")
