"""Standard input, line by line."""

import sys
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TypeVar

LINES_AT_ONCE = 1024

Item = TypeVar("Item")


def standard_input() -> Iterator[str]:
    """The lines of standard input without their ends; a line that is not UTF-8 is refused by its number."""
    from manyheads.core.errors import DataError

    for number, line in enumerate(sys.stdin.buffer, start=1):
        if number == 1:
            line = line.removeprefix(b"\xef\xbb\xbf")  # the mark that Windows puts before UTF-8
        try:
            yield line.decode("utf-8").removesuffix("\n").removesuffix("\r")
        except UnicodeDecodeError:
            raise DataError(
                f"standard input, line {number}: not valid UTF-8; convert it, for example with iconv"
            ) from None


def in_chunks(items: Iterable[Item]) -> Iterator[list[Item]]:
    """What standard input holds, many lines at a time; a person who types wants an answer after each line."""
    items = iter(items)
    while chunk := list(islice(items, 1 if sys.stdin.isatty() else LINES_AT_ONCE)):
        yield chunk
