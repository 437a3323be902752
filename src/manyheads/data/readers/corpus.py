"""Readers of sentence pairs: parallel text, TSV and JSON lines, plain or compressed."""

import gzip
import lzma
import os
import zlib
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import zip_longest
from pathlib import Path
from typing import Any, BinaryIO, cast

from manyheads.core.errors import ConfigError, DataError
from manyheads.core.files import parse_json
from manyheads.core.log import say
from manyheads.core.words import counted

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
TABLES = (".tsv", ".txt")
OBJECTS = (".jsonl",)
OPENERS = {".gz": gzip.open, ".xz": lzma.open}
COMPRESSED = tuple(OPENERS)
SIDES = {
    "source", "target", "src", "tgt", "trg", "english", "german", "french", "spanish", "italian", "dutch", "portuguese",
    "russian", "polish", "czech", "turkish", "chinese", "japanese", "korean", "arabic",
}  # fmt: skip
CODES = {"de", "fr", "es", "it", "nl", "pt", "ru", "pl", "cs", "tr", "zh", "ja", "ko", "ar"}
LONGEST_LINE, LONGEST_LINE_FROM = 5_000_000, "MANYHEADS_LONGEST_LINE"
UNREADABLE = (OSError, EOFError, zlib.error, lzma.LZMAError)  # what a missing, cut or damaged file raises

Pair = tuple[str, str]


def longest_line() -> int:
    """How many bytes a line may have: five million, or what the environment says."""
    asked = os.environ.get(LONGEST_LINE_FROM, str(LONGEST_LINE))
    if not asked.isdecimal() or int(asked) < 1:
        raise ConfigError(f"{LONGEST_LINE_FROM} is {asked!r}; it must be a number of bytes, as {LONGEST_LINE}")
    return int(asked)


def refuse_long(size: int, longest: int, place: str) -> None:
    """A line must not be longer than memory and patience allow; `place` begins the sentence."""
    if size > longest:
        raise DataError(
            f"{place}: it is longer than {longest:,} bytes, more than a line may have; break it up, or raise the "
            f"limit, as in {LONGEST_LINE_FROM}={10 * longest_line()}"
        )


def bounded_lines(file: BinaryIO, name: str, longest: int | None = None) -> Iterator[bytes]:
    """The lines of a file without their line feeds; one that is too long is refused before all of it is read."""
    longest = longest or longest_line()
    number = 0
    while line := file.readline(longest + 1):
        number += 1
        line = line.removesuffix(b"\n")
        refuse_long(len(line), longest, f"{name}, line {number}")
        yield line


def read_lines(path: Path, longest: int | None = None) -> Iterator[str]:
    """The lines of a UTF-8 text file, plain, .gz or .xz, without their ends, each of at most `longest` bytes.

    Only a line feed ends a line: the other separators of Unicode occur inside sentences, and would shift one side of
    a parallel corpus against the other.
    """
    path = Path(path)
    number = 0
    try:
        with opened(path) as file:
            for number, line in enumerate(bounded_lines(file, str(path), longest), start=1):
                if number == 1:
                    line = line.removeprefix(BYTE_ORDER_MARK)
                yield line.removesuffix(b"\r").decode("utf-8")
    except UnicodeDecodeError as error:
        raise DataError(
            f"{path}, line {number}: byte {error.start + 1} is not UTF-8 ({error.reason}); convert the file to UTF-8"
        ) from error
    except UNREADABLE as error:
        reason = getattr(error, "strerror", None) or error
        place = f" after line {number}" if number else ""
        raise DataError(f"{path} cannot be read{place}: {reason}; check that the file is there and whole") from error


def opened(path: Path) -> BinaryIO:
    """The bytes of a file, unpacked where its name says that they are packed."""
    return cast(BinaryIO, OPENERS.get(path.suffix, open)(path, "rb"))


def unpacked(path: Path) -> Path:
    """The name of a file, but for what says that it is packed."""
    return path.with_suffix("") if path.suffix in COMPRESSED else path


def read_pairs(
    *,
    sources: Sequence[Path] = (),
    targets: Sequence[Path] = (),
    pairs: Sequence[Path] = (),
    fields: tuple[str, str] | None = None,
) -> Iterator[Pair]:
    """The sentence pairs of parallel files (the i-th source with the i-th target), then those of `pairs` files.

    `fields` names the two columns of a TSV by number, from 1, or the two fields of JSON objects, as "translation.en".
    Pairs with a blank side come as they are, so that line numbers stay those of the file.  What can be known before
    reading is refused at the call, not at the first pair.
    """
    if len(sources) != len(targets):
        found = f"{counted(len(sources), 'source file')} but {counted(len(targets), 'target file')}"
        raise DataError(f"{found}; give one target for each source")
    for path in (*sources, *targets, *pairs):
        if not Path(path).exists():
            raise DataError(f"{path} is not there; check the path")
    readers = [_parallel(Path(source), Path(target)) for source, target in zip(sources, targets)]
    readers += [_paired(Path(path), fields) for path in pairs]
    return (pair for reader in readers for pair in reader)


def _parallel(source: Path, target: Path) -> Iterator[Pair]:
    lines = zip_longest(read_lines(source), read_lines(target))
    for number, (left, right) in enumerate(lines, start=1):
        if left is None or right is None:
            longer = number + sum(1 for _ in lines)
            source_count, target_count = (number - 1, longer) if left is None else (longer, number - 1)
            raise DataError(
                f"{source} has {counted(source_count, 'line')} but {target} has {target_count}: line {number} is the "
                f"first without a partner; make line i of one the translation of line i of the other"
            )
        yield left, right


def _paired(path: Path, fields: tuple[str, str] | None) -> Iterator[Pair]:
    kind = unpacked(path).suffix
    if kind in TABLES:
        return _table(path, None if fields is None else (_column(fields[0]), _column(fields[1])))
    if kind in OBJECTS:
        return _objects(path, fields or ("source", "target"))
    read = ", ".join((*TABLES, *OBJECTS))
    raise DataError(
        f"{path} is of no kind that is read as sentence pairs; rename or convert it to one of {read}, "
        f"each also with {' or '.join(COMPRESSED)} after it"
    )


def is_column_number(column: str) -> bool:
    return column.isascii() and column.isdigit() and int(column) > 0


def _column(field: str) -> int:
    if not is_column_number(field):
        raise ConfigError(
            f"{field!r} is no column of a TSV; columns have numbers from 1, so write 1 and 2 for the first two"
        )
    return int(field) - 1


def _table(path: Path, columns: tuple[int, int] | None) -> Iterator[Pair]:
    left, right = columns or (0, 1)
    for number, line in enumerate(read_lines(path), start=1):
        cells = line.split("\t")
        if not line:
            yield "", ""
        elif columns is None and len(cells) != 2:
            raise DataError(
                f"{path}, line {number}: {counted(len(cells), 'column')} where there must be 2, with one tab between; "
                f"mend the line, or name the two columns if there are always more"
            )
        elif len(cells) <= max(left, right):
            raise DataError(
                f"{path}, line {number}: {counted(len(cells), 'column')}, but column {max(left, right) + 1} is asked "
                f"for; mend the line or name other columns"
            )
        elif number == 1 and _are_names({cells[left].strip().lower(), cells[right].strip().lower()}):
            _say_header_once(path, 1, tuple(cells))
        else:
            yield cells[left], cells[right]


def _are_names(sides: set[str]) -> bool:
    """Whether two sides name languages; codes do so only beside English, since "es" and "it" may be a pair."""
    return len(sides) == 2 and (sides <= SIDES or ("en" in sides and sides <= {"en"} | CODES))


def say_header(path: Path, number: int, cells: Sequence[str]) -> None:
    """Tells that a line names the columns of a table."""
    say(f"{path}: line {number} names the columns ({', '.join(cells)}) and is left out")


_say_header_once = cache(say_header)  # a corpus is read more than once


def _objects(path: Path, fields: tuple[str, str]) -> Iterator[Pair]:
    for number, line in enumerate(read_lines(path), start=1):
        if not line:
            yield "", ""
            continue
        place = f"{path}, line {number}"
        entry = json_in(line, place)
        yield text_at(entry, fields[0], place), text_at(entry, fields[1], place)


def read_objects(path: Path) -> Iterator[tuple[int, Any]]:
    """What the lines of a file of JSON say that are not blank, each with its number."""
    for number, line in enumerate(read_lines(path), start=1):
        if line.strip():
            yield number, json_in(line, f"{path}, line {number}")


def json_in(line: str, place: str) -> Any:
    """What a line of JSON says; `place` begins the sentence where it is none."""
    try:
        return parse_json(line)
    except ValueError as error:
        raise DataError(f"{place}: not JSON ({error}); write one object on each line") from error


def text_at(entry: Any, field: str, place: str) -> str:
    """The string at a dotted path of a JSON object."""
    found = value_at(entry, field, place)
    if not isinstance(found, str):
        raise DataError(
            f"{place}: field {field!r} is {type(found).__name__} where it must be a string; "
            f"mend the line or name another field"
        )
    return found


def value_at(entry: Any, field: str, place: str) -> Any:
    """What is at a dotted path of a JSON object."""
    found = entry
    for key in field.split("."):
        if not isinstance(found, dict) or key not in found:
            known = f"its fields are {', '.join(entry)}" if isinstance(entry, dict) else "it is not an object"
            raise DataError(f"{place}: no field {field!r}; {known}; mend the line or name other fields")
        found = found[key]
    return found
