"""Recipes: nested frozen dataclasses, read from TOML, changed by `section.field=value`, written with their docs."""

import ast
import inspect
import json
import sys
import textwrap
import tomllib
import types
import typing
from collections.abc import Sequence
from dataclasses import Field, fields, is_dataclass, replace
from pathlib import Path
from reprlib import Repr
from typing import Any, TypeVar

from manyheads.core.errors import ConfigError
from manyheads.core.words import is_utf8

Config = TypeVar("Config")

LARGEST = 2**63  # whole numbers are below it
# Of a value that may be anything, as much as a sentence has room for.
_short = Repr()
_short.maxstring = _short.maxother = 60


def in_order(config: Any) -> list[Field[Any]]:
    """The fields of a dataclass as a person reads them: those that it shares with others stand behind its own."""
    own = (config if isinstance(config, type) else type(config)).__annotations__
    return sorted(fields(config), key=lambda each: each.name not in own)


def updated(config: Config, table: dict[str, Any], where: str = "") -> Config:
    """The config with the fields of a nested table in place of its own; an unknown field or a wrong type is refused."""
    types_of = typing.get_type_hints(type(config))
    hints = {field.name: types_of[field.name] for field in fields(config)}  # type: ignore[arg-type]
    changes = {}
    for name, value in table.items():
        path = f"{where}{name}"
        if name not in hints:
            raise ConfigError(f"{path} is not a field of the recipe; {where[:-1] or 'it'} has: {', '.join(hints)}")
        old = getattr(config, name)
        if is_dataclass(old):
            if not isinstance(value, dict):
                raise ConfigError(f"{path} is a section; set its fields, such as {path}.{in_order(old)[0].name}")
            changes[name] = updated(old, value, f"{path}.")
        else:
            changes[name] = fitted(value, hints[name], path)
    return replace(config, **changes)  # type: ignore


def assigned(config: Config, assignments: Sequence[str]) -> Config:
    """The config after `section.field=value` assignments, values written as in TOML; bare words are strings."""
    table: dict[str, Any] = {}
    for assignment in assignments:
        path, equals, text = assignment.partition("=")
        if not equals or not path.strip():
            raise ConfigError(f"'{assignment}' is not an assignment; write --set section.field=value")
        inner = table
        *sections, name = path.strip().split(".")
        for section in sections:
            inner = inner.setdefault(section, {})
            if not isinstance(inner, dict):
                raise ConfigError(f"{path.strip()} and {section} cannot both be set")
        inner[name] = _parsed(text.strip())
    # All at once: fields that must fit each other, such as a width and its heads, may come in any order.
    return updated(config, table)


def read_toml(path: Path) -> dict[str, Any]:
    """The tables of a TOML file."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not TOML: {error}") from None
    except RecursionError:
        raise ConfigError(f"{path} is not TOML: its brackets are nested too deeply") from None


def to_table(config: Any) -> dict[str, Any]:
    """The nested table that `updated` reads; fields that are unset stay away, as TOML has no null."""
    table = {}
    for field in fields(config):
        value = getattr(config, field.name)
        if value is not None:
            table[field.name] = to_table(value) if is_dataclass(value) else value
    return table


def to_toml(config: Any, *, documented: bool = False, section: str = "") -> str:
    """The config as TOML that reads back equal; documented: each field under its docstring."""
    docs = field_docs(type(config)) if documented else {}
    lines, sections = [], []
    for field in in_order(config):
        value = getattr(config, field.name)
        if is_dataclass(value):
            sections.append(to_toml(value, documented=documented, section=f"{section}.{field.name}".lstrip(".")))
            continue
        if documented and field.name in docs:
            lines += [f"# {line}" for line in docs[field.name].splitlines()]
        lines.append(f"# {field.name} is unset" if value is None else f"{field.name} = {_written(value)}")
    head = [f"[{section}]"] if section and lines else []
    return "\n".join([part for part in ("\n".join(head + lines), *sections) if part]) + ("\n" if not section else "")


def field_docs(config: type) -> dict[str, str]:
    """The docstring under each field, read from the source."""
    docs, name = {}, None
    for part in reversed(config.__mro__[:-1]):  # a field may be inherited
        try:
            tree = ast.parse(textwrap.dedent(inspect.getsource(part)))
        except OSError:
            continue
        for node in tree.body[0].body:  # type: ignore
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                name = node.target.id
            elif name and isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
                docs[name], name = inspect.cleandoc(str(node.value.value)), None
    return docs


class _Unset(str):
    """The bare word none or unset: no value for a field that may be without one, for others just a word."""


def _parsed(text: str) -> Any:
    if text.lower() in ("none", "unset"):
        return _Unset(text)
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (tomllib.TOMLDecodeError, RecursionError):
        return text


def _written(value: Any) -> str:
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_written(item) for item in value) + "]"
    if isinstance(value, bool):
        return str(value).lower()
    # JSON's strings are TOML's basic strings, but for the delete character.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f") if isinstance(value, str) else repr(value)


def fitted(value: Any, hint: Any, path: str) -> Any:
    """The value as its type says, a list for a tuple and a whole number for a float; any other is refused by `path`."""
    options = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
    if isinstance(value, _Unset) and type(None) in options:
        return None
    for option in options:
        origin = typing.get_origin(option) or option
        if option is type(None) and value is None:
            return None
        if origin is tuple and isinstance(value, list | tuple):
            return tuple(fitted(item, typing.get_args(option)[0], path) for item in value)
        if origin is dict and isinstance(value, dict):
            inner = typing.get_args(option)
            return {name: fitted(item, inner[1], f"{path}.{name}") for name, item in value.items()} if inner else value
        if origin is float and isinstance(value, int | float) and not isinstance(value, bool):
            if isinstance(value, int) and abs(value) > sys.float_info.max:
                raise ConfigError(f"{path} is {_short.repr(value)}, which is too large")
            return float(value)
        if origin is str and isinstance(value, str):
            if not is_utf8(value):
                raise ConfigError(f"{path} is {_short.repr(value)}, which is not UTF-8, as a recipe is; rename it")
            return str(value)
        if origin in (int, bool) and type(value) is origin:
            if abs(value) < LARGEST:
                return value
            raise ConfigError(f"{path} is {_short.repr(value)}; it must be below 2^63")
    names = " or ".join("unset" if option is type(None) else _type_name(option) for option in options)
    raise ConfigError(f"{path} is {_short.repr(value)}; it must be of type {names}")


def _type_name(option: Any) -> str:
    origin, inner = typing.get_origin(option) or option, typing.get_args(option)
    if origin is tuple:
        return f"list of {_type_name(inner[0])}"
    return "table" if origin is dict else getattr(option, "__name__", str(option))


def refuse_below_one(config: Any, *names: str) -> None:
    """Sizes of a model that are set must be at least 1."""
    for name in names:
        if getattr(config, name) is not None and getattr(config, name) < 1:
            raise ConfigError(f"model.{name} is {getattr(config, name)}; it must be at least 1")


def refuse_no_fraction(config: Any, *names: str) -> None:
    """Dropouts must leave something, and what a norm adds to a variance must be little."""
    for name in names:
        if not 0 <= getattr(config, name) < 1:
            raise ConfigError(f"model.{name} is {getattr(config, name)}; it must be at least 0 and below 1")


def refuse_uneven_heads(width: int, heads: int) -> None:
    """A width must split over its heads."""
    if width % heads:
        nearest = max(width // heads, 1) * heads
        raise ConfigError(f"width {width} does not split over {heads} heads; the nearest that does is {nearest}")
