"""Text in and out: files and standard input line by line, JSON, and tables as wide as the terminal."""

import io
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from glob import has_magic
from itertools import islice
from pathlib import Path
from shutil import get_terminal_size
from typing import Annotated, Any

import typer

from manyheads.core.errors import ConfigError, DataError
from manyheads.core.words import is_utf8

LINES_AT_ONCE = 1024
BYTES_AT_ONCE = 2**16
NAME = "standard input"


def there(named: Any) -> Any:
    """Files that are not there are refused before anything is loaded; patterns are the reader's to look for."""
    for path in map(str, named if isinstance(named, list) else filter(None, [named])):
        if path != "-" and not Path(path).exists() and not has_magic(path):
            raise DataError(f"{path} is not there; check the path")
    return named


Files = Annotated[
    list[Path] | None,
    typer.Argument(
        help="Files to read, plain, .gz or .xz; none, or -: standard input.", metavar="FILE", callback=there
    ),
]


class Closed(io.RawIOBase):
    """A stream that whoever started us has closed; it is refused when somebody needs it."""

    refused = False

    def readable(self) -> bool:
        return True

    def writable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        raise ConfigError(f"{NAME} is closed; give it a file with < FILE, or pipe something into it")

    def write(self, content: Any) -> int:
        if self.refused:  # what is left is thrown away when the interpreter ends
            return len(content)
        self.refused = True
        raise ConfigError("standard output is closed; give it a file with > FILE, or leave >&- away")


def open_streams() -> None:
    """Makes the three streams UTF-8 with line feeds, and something of those that are closed."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # or the next file that is opened takes its number
    if sys.stdin is None:
        sys.stdin = io.TextIOWrapper(io.BufferedReader(Closed()))
    if sys.stdout is None:
        sys.stdout = io.TextIOWrapper(io.BufferedWriter(Closed()))
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115 for as long as we run
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # Names of files may be of any bytes, and those that are no UTF-8 are shown as numbers.
            stream.reconfigure(encoding="utf-8", errors="backslashreplace", newline="\n")


@dataclass(frozen=True)
class Lines:
    """Lines that are there at once: where they are from, the number of the first, and each without its end."""

    name: str
    first: int
    texts: list[str]

    def placed(self) -> Iterator[tuple[str, str]]:
        """Each with the words for its place."""
        return ((f"{self.name}, line {number}", text) for number, text in enumerate(self.texts, start=self.first))


def lines_of(files: Iterable[Path] | None) -> Iterator[Lines]:
    """The lines of files, or of standard input where there are none, as many at a time as there are by now.

    Whoever writes a line and waits for an answer gets one.
    """
    from manyheads.data.readers.corpus import read_lines

    for path in files or [Path("-")]:
        if str(path) == "-":
            yield from _standard_input()
            continue
        lines, number = read_lines(path), 1
        while texts := list(islice(lines, LINES_AT_ONCE)):
            yield Lines(str(path), number, texts)
            number += len(texts)


def all_lines(files: Iterable[Path] | None) -> list[str]:
    """The same all together, for what needs them all."""
    return [text for lines in lines_of(files) for text in lines.texts]


def _standard_input() -> Iterator[Lines]:
    number = 1
    for lines in _arriving(sys.stdin.buffer):
        texts = []
        for line in lines:
            if number == 1:
                line = line.removeprefix(b"\xef\xbb\xbf")  # the mark that Windows puts before UTF-8
            try:
                texts.append(line.decode("utf-8").removesuffix("\r"))
            except UnicodeDecodeError:
                raise DataError(f"{NAME}, line {number}: not valid UTF-8; convert it, for example with iconv") from None
            number += 1
        yield Lines(NAME, number - len(texts), texts)


def _arriving(stream: Any) -> Iterator[list[bytes]]:
    """The lines of a stream, each as soon as it is whole, many where they come at once."""
    from manyheads.data.readers.corpus import longest_line, refuse_long

    begun: list[bytes] = []  # pieces of a line whose end is not there yet
    longest, number = longest_line(), 1
    while piece := stream.read1(BYTES_AT_ONCE):
        first, *others = piece.split(b"\n")
        begun.append(first)
        refuse_long(sum(map(len, begun)), longest, f"{NAME}, line {number}")
        if others:
            *whole, last = others
            for line in whole:
                number += 1
                refuse_long(len(line), longest, f"{NAME}, line {number}")
            yield [b"".join(begun), *whole]
            begun, number = [last], number + 1
    if last := b"".join(begun):
        yield [last]


def print_json(table: dict[str, Any]) -> None:
    """One object on a line, as every command writes it."""
    try:
        print(json.dumps(table, ensure_ascii=False, allow_nan=False, default=float))
    except ValueError:
        raise ConfigError("the model gives what is no number, and JSON has none such; leave --json away") from None


def refuse_other_text(text: str | None) -> None:
    """What was typed must be text."""
    if not is_utf8(text or ""):
        raise ConfigError("the text is not valid UTF-8; type it in a terminal that writes UTF-8")


def width() -> int:
    """How many letters a line has: as many as COLUMNS says, or the terminal has, or 80."""
    if not sys.stdout.isatty() and not os.environ.get("COLUMNS", "").isdigit():
        return 80
    return max(get_terminal_size().columns, 20)


def print_wide(written: Callable[[int], Any]) -> None:
    """Prints what is written for this width."""
    from rich.console import Console

    Console(highlight=False, width=width()).print(written(width()), soft_wrap=True)
