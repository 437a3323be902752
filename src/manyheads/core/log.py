"""Messages for a person: to stderr, so that stdout carries only results."""

import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from functools import cache
from typing import Any, TextIO

# All that could move a terminal's cursor, rename its window or worse; newlines and tabs are text.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def disarmed(text: str) -> str:
    """Text that may come from anywhere, such as a label, with control characters shown as their numbers: \\x1b."""
    return _CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", text)


class Terminal:
    """A stream to a terminal to which no control character gets as such, whatever is printed: names, texts, errors."""

    def __init__(self, stream: TextIO):
        self.rich_proxied_file = stream  # by the name under which rich, whose colours are ours, looks for one

    def write(self, text: str) -> int:
        return self.rich_proxied_file.write(disarmed(text))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.rich_proxied_file, name)


class Beneath:
    """Standard error as it is beneath all that stands before it: a bar of rich's puts something before `Terminal`."""

    def __getattr__(self, name: str) -> Any:
        stream: Any = sys.stderr
        while inner := getattr(stream, "rich_proxied_file", None):
            stream = inner
        return getattr(stream, name)


@cache
def console():
    """The console that writes to stderr."""
    from rich.console import Console  # slow to import, and --help needs none

    return Console(file=Beneath(), highlight=False, soft_wrap=True)  # type: ignore


_quiet = False


def be_quiet(quiet: bool = True) -> None:
    """Whether news and counts stay away; what the user should read is printed in any case."""
    global _quiet
    _quiet = quiet


def is_quiet() -> bool:
    return _quiet


def say(message: str) -> None:
    """Prints a line of news."""
    if not _quiet:
        console().print(disarmed(message), markup=False)


def warn(message: str) -> None:
    """Prints a line that the user should read."""
    console().print(disarmed(f"warning: {message}"), style="yellow", markup=False)


@contextmanager
def hushed() -> Iterator[None]:
    """Prints nothing meanwhile: for what is done once more later on."""
    console().quiet = True
    try:
        yield
    finally:
        console().quiet = False


_counting: ContextVar[bool] = ContextVar("counting", default=False)


@contextmanager
def counting(what: str, total: int | None = None) -> Iterator[Callable[[int], None]]:
    """Shows a growing count on a terminal; a count inside it is not shown.

    Elsewhere it is a line at each doubling past 100,000, or at each tenth of a total.
    """
    if _counting.get() or _quiet:
        yield lambda count: None
        return
    next_line = (total or 1_000_000) / 10

    def show(count: int) -> None:
        nonlocal next_line
        line = f"{what}: {count:,}" + (f" of {total:,}" if total else "")
        if status:
            status.update(line)
        elif count >= next_line:
            say(line)
            while count >= next_line:
                next_line = next_line + total / 10 if total else 2 * next_line

    token = _counting.set(True)
    try:
        with console().status(what) if console().is_terminal else nullcontext() as status:
            yield show
    finally:
        _counting.reset(token)
