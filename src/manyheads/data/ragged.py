"""One store for token ids and whatever goes with them, on disk, so that a corpus may be larger than memory."""

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import DTypeLike

from manyheads.core.errors import DataError
from manyheads.core.files import directory_written_atomically, parse_json

ABOUT = "store.json"
FILE = re.compile(r"store\.json|\w+\.(values|offsets)")
TYPES = ("uint8", "uint16", "uint32", "int32", "int64", "float32")
OFFSETS = np.dtype(np.int64)
CHUNK_ITEMS = 10_000  # encoded in one call, which shares them out among the cores
CHUNK_LETTERS = 4_000_000  # so that ten thousand whole documents do not fill the memory


@dataclass(frozen=True)
class Ragged:
    """Rows of different lengths, end to end."""

    values: np.ndarray
    """Those of all rows; a part of a column shares them, so that its first row need not begin at the first."""
    offsets: np.ndarray
    """Where each row begins in `values`, and at last where the final one ends."""

    @classmethod
    def of(cls, rows: Sequence[Sequence[int]], dtype: DTypeLike = np.int32) -> "Ragged":
        values = np.fromiter(chain.from_iterable(rows), dtype=dtype)
        return cls(values, np.cumsum([0, *map(len, rows)], dtype=OFFSETS))

    @classmethod
    def of_equal(cls, rows: np.ndarray) -> "Ragged":
        """Rows of one length, [rows, length]."""
        return cls(rows.reshape(-1), np.arange(len(rows) + 1, dtype=OFFSETS) * rows.shape[1])

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, row: int) -> np.ndarray:
        return self.values[self.span(row)]

    def span(self, row: int) -> slice:
        """Where a row lies in `values`."""
        if row < 0:
            raise IndexError(f"row {row}; rows are counted from the first")
        return slice(self.offsets[row], self.offsets[row + 1])

    @cached_property
    def lengths(self) -> np.ndarray:
        return np.diff(self.offsets).astype(np.int32)

    @property
    def flat(self) -> np.ndarray:
        """The values of all rows, one after another."""
        return self.values[self.offsets[0] : self.offsets[-1]]

    def part(self, start: int, stop: int) -> "Ragged":
        return Ragged(self.values, self.offsets[start : stop + 1])


Column = Ragged | np.ndarray
"""Rows of values, or one value a row."""


class Store:
    """Named columns, equally long, in memory or mapped from the files of a directory.

    The files are `<name>.values` of each column, `<name>.offsets` of a ragged one, and `store.json`, which says what
    there is; `about` is what else is known of it, the same for a part as for the whole.
    """

    def __init__(self, columns: Mapping[str, Column], about: dict[str, Any] | None = None):
        lengths = {name: len(column) for name, column in columns.items()}
        if len(set(lengths.values())) != 1:
            told = ", ".join(f"{length} in {name}" for name, length in lengths.items()) or "no columns"
            raise DataError(f"the columns of a store must be equally long, but there are {told}; give as many in each")
        self._columns, self.about = dict(columns), about or {}

    @classmethod
    def open(cls, directory: Path) -> "Store":
        """Map the files of a store into memory, without reading more of them than where rows begin."""
        directory = Path(directory)
        try:
            told = parse_json((directory / ABOUT).read_text(encoding="utf-8"))
            columns = {name: _mapped(directory, name, told["rows"], **kind) for name, kind in told["columns"].items()}
            return cls(columns, dict(told["about"]))
        except (OSError, ValueError, KeyError, TypeError, AttributeError, DataError) as error:
            raise DataError(f"{directory} is not a whole store ({error}); build it again") from error

    def save(self, directory: Path) -> None:
        """Writes the store, in the place of one that is there already."""
        with store_written(directory) as writer:
            writer.append(self._columns)
            writer.about = self.about

    def __len__(self) -> int:
        return len(next(iter(self._columns.values())))

    def __contains__(self, name: str) -> bool:
        return name in self._columns

    def __getitem__(self, name: str) -> Any:
        """A column; which kind it is, whoever asks for it knows."""
        return self._columns[name]

    def part(self, start: int, stop: int) -> "Store":
        """The rows from `start` up to `stop` as a store, over the same files."""
        if not 0 <= start <= stop <= len(self):
            raise IndexError(f"rows {start} to {stop} of a store of {len(self)}")
        parts = {
            name: column.part(start, stop) if isinstance(column, Ragged) else column[start:stop]
            for name, column in self._columns.items()
        }
        return Store(parts, self.about)


class Writer:
    """Appends rows to the files of a store."""

    def __init__(self, directory: Path):
        self._directory, self.rows = directory, 0
        self._columns: dict[str, dict[str, Any]] = {}
        self.about: dict[str, Any] = {}

    def append(self, columns: Mapping[str, Column]) -> None:
        """More rows, with the same columns each time."""
        for name, column in columns.items():
            ragged = isinstance(column, Ragged)
            values = column.flat if ragged else column
            first = int(name in self._columns)  # where the rows before it end is known already
            known = self._columns.setdefault(name, {"dtype": values.dtype.name, "values": 0, "ragged": ragged})
            if ragged:
                self._write(f"{name}.offsets", column.offsets[first:] + (known["values"] - column.offsets[0]))
            self._write(f"{name}.values", values)
            known["values"] += len(values)
        self.rows += len(Store(columns))

    def _write(self, name: str, values: np.ndarray) -> None:
        with (self._directory / name).open("ab") as file:
            values.tofile(file)

    def finish(self) -> None:
        told = {"rows": self.rows, "columns": self._columns, "about": self.about}
        (self._directory / ABOUT).write_text(json.dumps(told, indent=2) + "\n", encoding="utf-8")


@contextmanager
def store_written(directory: Path) -> Iterator[Writer]:
    """A writer whose store appears when the block ends well, in the place of one that is there already."""
    directory = Path(directory).absolute()
    if directory.exists() and not (directory.is_dir() and all(map(FILE.fullmatch, os.listdir(directory)))):
        raise DataError(f"{directory} holds something else than a store; name a new directory")
    try:
        with directory_written_atomically(directory) as unfinished:
            writer = Writer(unfinished)
            yield writer
            writer.finish()
    except OSError as error:
        raise DataError(f"{directory} cannot be written ({error}); check the free space and the rights") from error


def _mapped(directory: Path, name: str, rows: int, *, dtype: str, values: int, ragged: bool) -> Column:
    if dtype not in TYPES:
        raise ValueError(f"{name} is of the type {dtype}, which no store has")
    array = _array(directory / f"{name}.values", np.dtype(dtype), values)
    if not ragged:
        return array
    offsets = _array(directory / f"{name}.offsets", OFFSETS, rows + 1)
    if offsets[0] != 0 or offsets[-1] != values or (offsets[1:] < offsets[:-1]).any():
        raise ValueError(f"{name}.offsets do not go from 0 to {values}, where rows begin and end")
    return Ragged(array, offsets)


def _array(path: Path, dtype: np.dtype, count: int) -> np.ndarray:
    size = path.stat().st_size
    if size != count * dtype.itemsize:
        raise ValueError(f"{path.name} has {size} bytes where {count * dtype.itemsize} were written")
    # A plain array over the map: slices of np.memmap itself are several times slower.
    return np.asarray(np.memmap(path, dtype=dtype, mode="r")) if size else np.zeros(0, dtype)


# What fills a store with text: a tokenizer, and so much text at a time

Item = TypeVar("Item")
Told = Callable[[int], None]
"""Who is told how much has been read so far."""


def nobody(done: int) -> None:
    """Who need not be told."""


class Encoder(Protocol):
    """What a store needs of a tokenizer."""

    def encode(self, lines: list[str], /) -> list[list[int]]: ...

    def __len__(self) -> int: ...


def id_type(tokenizer: Encoder) -> np.dtype:
    """The smallest type that holds every id."""
    return np.dtype(np.uint16 if len(tokenizer) <= 2**16 else np.uint32)


def chunks(items: Iterable[Item], letters_of: Callable[[Item], int]) -> Iterator[list[Item]]:
    """The items in lists that are encoded together."""
    chunk: list[Item] = []
    letters = 0
    for item in items:
        chunk.append(item)
        letters += letters_of(item)
        if len(chunk) == CHUNK_ITEMS or letters >= CHUNK_LETTERS:
            yield chunk
            chunk, letters = [], 0
    if chunk:
        yield chunk
