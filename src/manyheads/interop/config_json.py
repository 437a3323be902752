"""What a config.json says in one way whatever the family: fields of ours beside theirs, labels, ends, removed heads."""

import tomllib
from collections.abc import Callable, Collection
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, TypeVar

from torch import nn

from manyheads.core.configs import updated
from manyheads.core.errors import CheckpointError, ConfigError
from manyheads.interop.schema import HEADS, check_types, needed, our_fields
from manyheads.interop.weights import read_json
from manyheads.nn.parts import Part, attention_parts

KEY = "manyheads"
"""Under which stands what a foreign config has no place for, and no logit depends on."""
PRUNED = "pruned_heads"
"""As transformers before version 5 wrote it: the number of a layer to the numbers of the heads it has lost. Of a
translator's layers the kind of attention is said too: "cross.0"."""
FORMS = ("text", "pair", "either", "choice")
# Ours to theirs, and more names of theirs to ours.
ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "gelu_tanh": "gelu_new", "silu": "silu"}
ALIASES = {"gelu_pytorch_tanh": "gelu_tanh", "gelu_fast": "gelu_tanh", "swish": "silu"}

# What each family is called elsewhere; the file says how it is read.
NAMES: dict[str, Any] = tomllib.loads(Path(__file__).with_name("names.toml").read_text(encoding="utf-8"))

Config = TypeVar("Config")


def usual_but_for(free: Collection[str], config: Any) -> bool:
    """Whether every field of ours but these is what it is where nobody sets it."""
    usual = type(config)()
    others = (field.name for field in fields(config) if field.name not in free)
    return all(getattr(config, name) == getattr(usual, name) for name in others)


def write_fields(entries: dict[str, Any], config: Any, **derived: Any) -> dict[str, Any]:
    """Our config in their entries; `derived` are fields that are said in another way there."""
    ours = {**vars(config), **derived}
    return {theirs: ours[name] for theirs, name in our_fields(entries).items()}


def read_fields(entries: dict[str, Any], table: dict[str, Any]) -> dict[str, Any]:
    """The reverse: our fields as a config.json says them."""
    found: dict[str, Any] = {}
    for theirs, each in entries.items():
        if isinstance(each, str):
            found.setdefault(each, needed(table, theirs))
        else:
            found.setdefault(each[0], table.get(theirs, *each[1:]))
    return found


def with_extra_fields(
    table: dict[str, Any], config: Config, read: Callable[[dict[str, Any]], Config]
) -> dict[str, Any]:
    """Their config.json, with those of our fields that reading it would not give back, such as a dropout they lack."""
    rest = _difference(config, read(table))
    return {**table, KEY: rest} if rest else table


def read_extra_fields(table: dict[str, Any], config: Config) -> Config:
    """Our config as their fields say it, with those that were kept beside them."""
    kept = table.get(KEY) or {}
    check_types(kept, HEADS, f"{KEY}.")
    return updated(config, {name: value for name, value in kept.items() if name not in HEADS})


def _difference(config: Any, other: Any) -> dict[str, Any]:
    table = {}
    for field in fields(config):
        value, theirs = getattr(config, field.name), getattr(other, field.name)
        if value != theirs:
            table[field.name] = _difference(value, theirs) if is_dataclass(value) else value
    return table


def architectures(table: dict[str, Any]) -> list[str]:
    """The classes that a config.json names."""
    found = table.get("architectures") or []
    if not isinstance(found, list):
        raise CheckpointError(f"architectures in this config.json is {found!r}, not a list; the file is damaged")
    return [str(name) for name in found]


def read_activation(theirs: str, names: dict[str, str] = ACTIVATIONS, aliases: dict[str, str] = ALIASES) -> str:
    """What we call an activation."""
    known = {name: ours for ours, name in names.items()} | aliases
    if theirs not in known:
        raise CheckpointError(f"activation {theirs} is not known; known are {', '.join(known)}")
    return known[theirs]


def read_ends(table: dict[str, Any], otherwise: int | None) -> dict[str, Any]:
    """Our fields for the ids that end a text; `otherwise` is what transformers takes where the config says nothing.

    An id outside the vocabulary never comes: tiny models often keep the published one.
    """
    size = needed(table, "vocab_size")
    found = [each for each in _listed(table.get("eos_token_id", otherwise)) if 0 <= each < size]
    return {"end": found[0] if found else None, "other_ends": tuple(found[1:])}


def with_further_ends(table: dict[str, Any], directory: Path) -> dict[str, Any]:
    """A config.json that names the ends of generation_config.json, which stands beside it, as well as its own."""
    file = directory / "generation_config.json"
    found, further = (_listed(each.get("eos_token_id")) for each in (table, read_json(file) if file.is_file() else {}))
    more = [each for each in further if each not in found]
    return {**table, "eos_token_id": [*found, *more]} if more else table


def write_ends(config: Any) -> int | list[int] | None:
    """The reverse: one id where there is but one."""
    return [config.end, *config.other_ends] if config.other_ends else config.end


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]


def refuse_more_tokens(tokenizer: Any, config: Any) -> None:
    """A tokenizer may not give ids that its model has no row for."""
    if len(tokenizer) > config.vocabulary:
        raise CheckpointError(f"the tokenizer has {len(tokenizer)} tokens, the model only {config.vocabulary}")


def refuse(table: dict[str, Any], what: str, **plain: Any) -> None:
    """A setting with a value that this model has no part for is an error; `plain` are those it can have."""
    for name, value in plain.items():
        if table.get(name) not in (None, value):
            other = "without it" if value is None else f"with {value}"
            raise CheckpointError(f"{what} has {name} = {table[name]}; only one {other} can be opened")


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
    if names or form != "choice":
        table["problem_type"] = "single_label_classification" if names else "regression"
    return {**table, KEY: {**table.get(KEY, {}), "form": form}}


def read_form(table: dict[str, Any]) -> tuple[tuple[str, ...], str]:
    """The labels' names, none where a number is given, and the form of what is classified."""
    form = (table.get(KEY) or {}).get("form") or "either"  # elsewhere nothing says whether it takes one text or two
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
    labels = table.get("id2label") or {str(each): f"LABEL_{each}" for each in range(table.get("num_labels") or 2)}
    numbers = [str(each) for each in range(len(labels))]
    if set(labels) != set(numbers):
        raise CheckpointError(
            f"id2label of this config.json must name the labels 0 to {len(labels) - 1}; it is damaged"
        )
    return tuple(str(labels[each]) for each in numbers)


def removed_heads(model: nn.Module) -> dict[str, list[int]]:
    """What a config.json says of a model from which heads were removed; nothing where none were."""
    return {_layer(part): part.module.removed for part in attention_parts(model) if part.module.removed}


def remove_again(model: nn.Module, table: dict[str, Any]) -> None:
    """Makes a model as small as its config.json says."""
    parts = {_layer(part): part.module for part in attention_parts(model)}
    for name, heads in (table.get(PRUNED) or {}).items():
        attention = parts.get(str(name))
        if attention is None or not set(heads) < set(attention.numbers):
            raise CheckpointError(f"{PRUNED} of this config.json names heads {heads} of layer {name}, which it has not")
        try:
            attention.remove(heads)
        except ConfigError as error:
            raise CheckpointError(f"{PRUNED} of this config.json cannot be: {error}") from None


def _layer(part: Part) -> str:
    return str(part.layer) if part.kind == "self" else f"{part.kind}.{part.layer}"
