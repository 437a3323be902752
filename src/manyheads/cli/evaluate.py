"""`manyheads evaluate MODEL …`"""

from pathlib import Path
from typing import Annotated, Any, get_args

import typer

from manyheads.cli.flags import Device, Json, flagged, flags_of, holding_vectors, set_only
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
    """With the flags of all tasks; one that several have says what it is for each."""
    flags: dict[str, Any] = {}
    for kind in evaluations().values():
        for flag in flags_of(kind):
            option, other = (get_args(each.annotation)[1] for each in (flags.setdefault(flag.name, flag), flag))
            if other.help not in option.help:
                option.help += f" {other.help}"
    return flagged(evaluate, flags.values())
