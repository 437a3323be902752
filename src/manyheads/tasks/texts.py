"""What a user gives: any iterable of texts, or of pairs of them, checked before anything is computed."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from manyheads.core.errors import ConfigError


def listed(items: Any, who: str, what: str = "texts") -> list[Any]:
    """Any iterable as a list; one string, which would be taken for a list of its letters, is refused."""
    refuse_no_list(items, who, what)
    return list(items)


def texts_of(texts: Any, who: str, what: str = "texts") -> list[str]:
    """Any iterable of strings as a list."""
    found = listed(texts, who, what)
    for text in found:
        refuse_no_text(text, who)
    return found


def text_pairs(pairs: Any, who: str, what: str = "(text, text)") -> Iterator[tuple[str, str]]:
    """Any iterable of pairs of strings, one after the other; that it is none is said at the call."""
    refuse_no_list(pairs, who, what)
    return (_pair(each, who, what) for each in pairs)


def _pair(pair: Any, who: str, what: str) -> tuple[str, str]:
    if not is_sequence(pair) or len(pair) != 2 or not all(isinstance(text, str) for text in pair):
        raise ConfigError(f"{pair!r:.60} is given where {who} takes {what}")
    return pair[0], pair[1]


def is_sequence(value: Any) -> bool:
    """Whether it is a list or the like, and not a string."""
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


def refuse_no_list(items: Any, who: str, what: str) -> None:
    """One string is no list of them, and a number none of anything."""
    if isinstance(items, str):
        raise ConfigError(f"{who} takes a list of {what}, not one string")
    if not isinstance(items, Iterable):
        raise ConfigError(f"{who} takes a list of {what}, not {items!r:.60}")


def refuse_no_text(text: Any, who: str) -> None:
    """What should be a text must be one."""
    if not isinstance(text, str):
        raise ConfigError(f"{text!r:.60} is given where {who} takes a text")
