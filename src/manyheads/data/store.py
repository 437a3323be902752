"""Token ids on disk, so that a corpus may be larger than memory."""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from manyheads.core.errors import DataError
from manyheads.core.files import directory_written_atomically

CHUNK_PAIRS = 10_000
CHUNK_LETTERS = 4_000_000  # so that ten thousand whole documents do not fill the memory either
SIDES = ("source", "target")
FILES = ("source.ids", "source.offsets", "target.ids", "target.offsets", "store.json")


class Encoder(Protocol):
    """What a store needs of a tokenizer."""

    def encode(self, lines: list[str], /) -> list[list[int]]: ...

    def __len__(self) -> int: ...


@dataclass(frozen=True)
class Dropped:
    """How many pairs were left out of a store, by reason."""

    empty: int = 0
    too_long: int = 0


class PairStore:
    """Token ids of sentence pairs in memory-mapped files.

    They are `source.ids`, `source.offsets`, `target.ids` and `target.offsets`, with `store.json` about them.  The ids
    of pair i lie from offset i up to offset i + 1.
    """

    def __init__(
        self,
        source: tuple[np.ndarray, np.ndarray],
        target: tuple[np.ndarray, np.ndarray],
        dropped: Dropped,
    ):
        self._source_ids, self._source_offsets = source
        self._target_ids, self._target_offsets = target
        self.dropped = dropped
        self.source_lengths = np.diff(self._source_offsets).astype(np.int32)
        self.target_lengths = np.diff(self._target_offsets).astype(np.int32)

    @classmethod
    def build(
        cls,
        directory: Path,
        pairs: Iterable[tuple[str, str]],
        tokenizer: Encoder,
        *,
        longest: int,
        on_progress: Callable[[int], None] | None = None,
    ) -> "PairStore":
        """Encode all pairs into `directory`, in the place of a store that is there already.

        Pairs with a blank side, or with a side of more than `longest` ids, are dropped and counted.  `on_progress` is
        told the number of pairs read so far.  The directory appears only when it is whole.
        """
        directory = Path(directory).absolute()
        if directory.exists() and (not directory.is_dir() or {each.name for each in directory.iterdir()} - {*FILES}):
            raise DataError(f"{directory} holds something else than a store of pairs; name a new directory")
        try:
            with directory_written_atomically(directory) as unfinished:
                _write(unfinished, pairs, tokenizer, longest, on_progress)
        except OSError as error:
            raise DataError(f"{directory} cannot be written ({error}); check the free space and the rights") from error
        return cls.open(directory)

    @classmethod
    def open(cls, directory: Path) -> "PairStore":
        """Map the files of a store into memory, without reading them."""
        directory = Path(directory)
        try:
            about = json.loads((directory / "store.json").read_text(encoding="utf-8"))
            sides = [_mapped(directory, side, about) for side in SIDES]
            dropped = Dropped(**about["dropped"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise DataError(f"{directory} is not a whole store of pairs ({error}); build it again") from error
        return cls(sides[0], sides[1], dropped)

    @classmethod
    def from_ids(cls, sources: list[list[int]], targets: list[list[int]]) -> "PairStore":
        """A store in memory, for tests and small validation sets."""
        if len(sources) != len(targets):
            raise DataError(f"{len(sources)} sources but {len(targets)} targets; give one target for each source")
        return cls(_in_memory(sources), _in_memory(targets), Dropped())

    def __len__(self) -> int:
        return len(self.source_lengths)

    def source(self, i: int) -> np.ndarray:
        return self._source_ids[self._source_offsets[i] : self._source_offsets[i + 1]]

    def target(self, i: int) -> np.ndarray:
        return self._target_ids[self._target_offsets[i] : self._target_offsets[i + 1]]


class _SideWriter:
    """Appends rows of ids to the two files of one side."""

    def __init__(self, directory: Path, side: str, dtype: np.dtype):
        self._dtype = dtype
        self._ids = (directory / f"{side}.ids").open("wb")
        self._offsets = (directory / f"{side}.offsets").open("wb")
        self.count = 0
        np.zeros(1, dtype=np.int64).tofile(self._offsets)

    def append(self, rows: Sequence[list[int]]) -> None:
        ends = self.count + np.cumsum([len(row) for row in rows], dtype=np.int64)
        np.fromiter((each for row in rows for each in row), dtype=self._dtype).tofile(self._ids)
        ends.tofile(self._offsets)
        self.count = int(ends[-1])

    def close(self) -> None:
        self._ids.close()
        self._offsets.close()


def _write(
    directory: Path,
    pairs: Iterable[tuple[str, str]],
    tokenizer: Encoder,
    longest: int,
    on_progress: Callable[[int], None] | None,
) -> None:
    dtype = np.dtype(np.uint16 if len(tokenizer) <= 2**16 else np.uint32)
    writers = [_SideWriter(directory, side, dtype) for side in SIDES]
    read = empty = too_long = 0
    try:
        for chunk in _chunks(pairs):
            full = [pair for pair in chunk if pair[0].strip() and pair[1].strip()]
            rows = zip(tokenizer.encode([pair[0] for pair in full]), tokenizer.encode([pair[1] for pair in full]))
            kept = [row for row in rows if len(row[0]) <= longest and len(row[1]) <= longest]
            if kept:
                for side, writer in enumerate(writers):
                    writer.append([row[side] for row in kept])
            read += len(chunk)
            empty += len(chunk) - len(full)
            too_long += len(full) - len(kept)
            if on_progress is not None:
                on_progress(read)
    finally:
        for writer in writers:
            writer.close()
    count = read - empty - too_long
    if not count:
        raise DataError(
            f"no pairs are left of {read} read: {empty} have a blank side and {too_long} a side of more "
            f"than {longest} ids; check the files or raise the limit"
        )
    about = {
        "pairs": count,
        "dtype": dtype.name,
        "source_ids": writers[0].count,
        "target_ids": writers[1].count,
        "dropped": asdict(Dropped(empty=empty, too_long=too_long)),
    }
    (directory / "store.json").write_text(json.dumps(about, indent=2) + "\n", encoding="utf-8")


def _chunks(pairs: Iterable[tuple[str, str]]) -> Iterator[list[tuple[str, str]]]:
    chunk: list[tuple[str, str]] = []
    letters = 0
    for pair in pairs:
        chunk.append(pair)
        letters += len(pair[0]) + len(pair[1])
        if len(chunk) == CHUNK_PAIRS or letters >= CHUNK_LETTERS:
            yield chunk
            chunk, letters = [], 0
    if chunk:
        yield chunk


def _mapped(directory: Path, side: str, about: dict) -> tuple[np.ndarray, np.ndarray]:
    arrays = []
    for name, dtype, count in (
        ("ids", np.dtype(about["dtype"]), about[f"{side}_ids"]),
        ("offsets", np.dtype(np.int64), about["pairs"] + 1),
    ):
        path = directory / f"{side}.{name}"
        if path.stat().st_size != count * dtype.itemsize:
            raise ValueError(f"{path.name} has {path.stat().st_size} bytes where {count * dtype.itemsize} were written")
        # A plain array over the map: slices of np.memmap itself are several times slower.
        arrays.append(np.asarray(np.memmap(path, dtype=dtype, mode="r")))
    return arrays[0], arrays[1]


def _in_memory(rows: list[list[int]]) -> tuple[np.ndarray, np.ndarray]:
    ids = np.fromiter((each for row in rows for each in row), dtype=np.uint32)
    offsets = np.cumsum([0, *(len(row) for row in rows)], dtype=np.int64)
    return ids, offsets
