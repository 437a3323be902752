"""Text in and out: standard input line by line, what was typed, and tables as wide as the terminal."""

import sys
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, TypeVar

LINES_AT_ONCE = 1024

Item = TypeVar("Item")


def standard_input() -> Iterator[str]:
    """The lines of standard input without their ends; one too long or not UTF-8 is refused by its number."""
    from manyheads.core.errors import DataError
    from manyheads.data.readers.corpus import bounded_lines

    for number, line in enumerate(bounded_lines(sys.stdin.buffer, "standard input"), start=1):
        if number == 1:
            line = line.removeprefix(b"\xef\xbb\xbf")  # the mark that Windows puts before UTF-8
        try:
            yield line.decode("utf-8").removesuffix("\r")
        except UnicodeDecodeError:
            raise DataError(
                f"standard input, line {number}: not valid UTF-8; convert it, for example with iconv"
            ) from None


def in_chunks(items: Iterable[Item]) -> Iterator[list[Item]]:
    """What standard input holds, many lines at a time; a person who types wants an answer after each line."""
    items = iter(items)
    while chunk := list(islice(items, 1 if sys.stdin.isatty() else LINES_AT_ONCE)):
        yield chunk


def refuse_other_text(text: str | None) -> None:
    """What was typed must be text."""
    from manyheads.core.errors import ConfigError

    try:
        (text or "").encode("utf-8")
    except UnicodeEncodeError:
        raise ConfigError("the text is not valid UTF-8; type it in a terminal that writes UTF-8") from None


def print_wide(written: Callable[[int], Any], width: int = 100) -> None:
    """Prints what is written for a width: the terminal's, or in a file always this one."""
    from rich.console import Console

    console = Console(highlight=False, width=None if sys.stdout.isatty() else width)
    console.print(written(console.width), soft_wrap=True)
