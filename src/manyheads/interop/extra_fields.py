"""What a foreign config has no place for, and no logit depends on: kept beside it, under "manyheads"."""

from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar

from manyheads.core.configs import updated
from manyheads.core.errors import CheckpointError

KEY = "manyheads"
HEADS = ("form", "impossible", "longest")  # what is kept there of a model on top, and is no field of a config

Config = TypeVar("Config")


def with_extra_fields(
    table: dict[str, Any], config: Config, read: Callable[[dict[str, Any]], Config]
) -> dict[str, Any]:
    """Their config.json, with those of our fields that reading it would not give back, such as a dropout they lack."""
    rest = _difference(config, read(table))
    return {**table, KEY: rest} if rest else table


def read_extra_fields(table: dict[str, Any], config: Config) -> Config:
    """Our config as their fields say it, with those that were kept beside them."""
    return updated(config, {name: value for name, value in table.get(KEY, {}).items() if name not in HEADS})


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


def ends(table: dict[str, Any], otherwise: int | None) -> list[int]:
    """The ids that end a text; `otherwise` is what transformers takes where the config says nothing.

    An id outside the vocabulary never comes: tiny models often keep the published one.
    """
    found = table.get("eos_token_id", otherwise)
    found = found if isinstance(found, list) else [] if found is None else [found]
    return [each for each in found if 0 <= each < table["vocab_size"]]


def refuse_more_tokens(tokenizer: Any, config: Any) -> None:
    """A tokenizer may not give ids that its model has no row for."""
    if len(tokenizer) > config.vocabulary:
        raise ValueError(f"the tokenizer has {len(tokenizer)} tokens, the model only {config.vocabulary}")


def refuse(table: dict[str, Any], what: str, **plain: Any) -> None:
    """A setting with a value that this model has no part for is an error; `plain` are those it can have."""
    for name, value in plain.items():
        if table.get(name) not in (None, value):
            other = "without it" if value is None else f"with {value}"
            raise CheckpointError(f"{what} has {name} = {table[name]}; only one {other} can be opened")
