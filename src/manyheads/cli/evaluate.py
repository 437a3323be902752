"""`manyheads evaluate MODEL …`"""

from typing import Any

from manyheads.cli.flags import Device, Json, Model, flagged, flags_of, set_only
from manyheads.cli.lines import print_json
from manyheads.tasks.task import evaluations


def evaluate(model: Model, *, as_json: Json = False, device: Device = "auto", **given: Any) -> None:
    """Score a model: BLEU of translations, perplexity of text, accuracy, F1, correlation or calibration on examples."""
    from manyheads.tasks.task import evaluate

    scores = evaluate(model, set_only(given), device=device)
    print_json(scores.numbers) if as_json else print(scores)


def command() -> Any:
    """With the flags of all tasks; one that several have is described by the first."""
    flags: dict[str, Any] = {}
    for kind in evaluations().values():
        for flag in flags_of(kind):
            flags.setdefault(flag.name, flag)
    return flagged(evaluate, flags.values())
