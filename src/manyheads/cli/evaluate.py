"""`manyheads evaluate MODEL …`"""

from pathlib import Path
from typing import Annotated, Any

import typer

from manyheads.cli.flags import Device, Json, flagged, holding_vectors, merged_flags, set_only
from manyheads.cli.lines import print_json
from manyheads.tasks.task import evaluations

Model = Annotated[
    Path,
    typer.Argument(
        help="A run directory, a model directory, or a file of word vectors.", metavar="MODEL", callback=holding_vectors
    ),
]


def evaluate(model: Model, *, as_json: Json = False, device: Device = "auto", **given: Any) -> None:
    """Score a model: BLEU of translations, perplexity of text, accuracy, F1, correlation or calibration on examples,
    analogies of words."""
    from manyheads.tasks.task import evaluate

    scores = evaluate(model, set_only(given), device=device)
    print_json(scores.numbers) if as_json else print(scores)


def command() -> Any:
    """With the flags of all tasks."""
    return flagged(evaluate, merged_flags(evaluations().values()))
