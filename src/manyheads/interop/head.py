"""The labels of models that have some, and what classifiers take: how a config.json says it."""

from typing import Any

from manyheads.core.errors import CheckpointError
from manyheads.interop.extra_fields import KEY

FORMS = ("text", "pair", "either", "choice")


def label_fields(table: dict[str, Any], names: tuple[str, ...], form: str | None = None) -> dict[str, Any]:
    """A config with the names of labels; without any there is one number, which only a choice does not mean as such.

    A classifier's `form` is what it takes.
    """
    shown = names or ("LABEL_0",)
    table = {
        **table,
        "id2label": {str(each): name for each, name in enumerate(shown)},
        "label2id": {name: each for each, name in enumerate(shown)},
    }
    if form is None:
        return table
    problem = {"problem_type": "single_label_classification"} if names else {}
    problem = {"problem_type": "regression"} if not names and form != "choice" else problem
    return {**table, **problem, KEY: {**table.get(KEY, {}), "form": form}}


def read_form(table: dict[str, Any]) -> tuple[tuple[str, ...], str]:
    """The labels' names, none where a number is given, and the form of what is classified."""
    form = table.get(KEY, {}).get("form", "either")  # elsewhere nothing says whether it takes one text or two
    if form not in FORMS:
        raise CheckpointError(f"this classifier is of the form {form}; known are {', '.join(FORMS)}")
    problem = table.get("problem_type")
    if problem == "multi_label_classification":
        raise CheckpointError("this classifier gives a text several labels at once; only one label each is known")
    names = names_of(table)
    numbers = problem == "regression" or (problem is None and len(names) == 1)
    if problem == "regression" and len(names) > 1:
        raise CheckpointError(f"this model gives a text {len(names)} numbers at once; only one number each is known")
    return (() if form == "choice" or numbers else names), form


def names_of(table: dict[str, Any]) -> tuple[str, ...]:
    """The names of all labels; where a config has none, those that transformers would give two."""
    labels = table.get("id2label") or {str(each): f"LABEL_{each}" for each in range(table.get("num_labels", 2))}
    return tuple(str(labels[each]) for each in sorted(labels, key=int))
