"""Token ids of running text, on disk and in batches.  Shapes:  B rows  T predictions"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from typing import BinaryIO

import numpy as np
import torch
from torch import Tensor

from manyheads.core.errors import ConfigError, DataError
from manyheads.core.files import directory_written_atomically
from manyheads.data.batching import PairBatches
from manyheads.data.documents import Piece
from manyheads.data.store import Encoder, PairStore

CHUNK_LETTERS = 4_000_000  # encoded in one call, whose strings the tokenizer shares out among the cores
SHARD_TOKENS = 2**27
FILE = re.compile(r"shard-\d{5,}\.ids|store\.json")


@dataclass(frozen=True)
class About:
    """What `store.json` says of a store."""

    dtype: str
    tokens: int
    shard_tokens: int
    documents: int
    letters: int
    bytes: int
    """Of the text in UTF-8, which losses are compared by across tokenizers."""


class TokenStore:
    """Token ids of a text in memory-mapped files.

    They are `shard-00000.ids`, `shard-00001.ids` and so on, all equally long but the last, with `store.json` about
    them.  `about` is that of the whole text for a part of it too, and None for a store in memory.
    """

    def __init__(self, shards: Sequence[np.ndarray], start: int, stop: int, about: About | None):
        self._shards = shards
        self._shard_tokens = len(shards[0])
        self._start, self._stop = start, stop
        self.about = about

    @classmethod
    def build(
        cls,
        directory: Path,
        pieces: Iterable[Piece],
        tokenizer: Encoder,
        *,
        end: int | None,
        shard_tokens: int = SHARD_TOKENS,
        on_progress: Callable[[int], None] | None = None,
    ) -> "TokenStore":
        """Encode all pieces into `directory`, in the place of a store that is there already.

        The ids are those that the tokenizer gives, and `end` behind each document.  `on_progress` is told the number
        of letters encoded so far.  The directory appears only when it is whole.
        """
        directory = Path(directory).absolute()
        if directory.exists() and not (directory.is_dir() and all(map(_of_a_store, directory.iterdir()))):
            raise DataError(f"{directory} holds something else than a store of tokens; name a new directory")
        try:
            with directory_written_atomically(directory) as unfinished:
                about = _write(unfinished, pieces, tokenizer, end, shard_tokens, on_progress)
                text = json.dumps(asdict(about), indent=2) + "\n"
                (unfinished / "store.json").write_text(text, encoding="utf-8")
        except OSError as error:
            raise DataError(f"{directory} cannot be written ({error}); check the free space and the rights") from error
        return cls.open(directory)

    @classmethod
    def open(cls, directory: Path) -> "TokenStore":
        """Map the files of a store into memory, without reading them."""
        directory = Path(directory)
        try:
            about = About(**json.loads((directory / "store.json").read_text(encoding="utf-8")))
            if min(about.tokens, about.shard_tokens) < 1:
                raise ValueError("store.json tells of no tokens")
            starts = range(0, about.tokens, about.shard_tokens)
            shards = [_mapped(_shard(directory, number), about, start) for number, start in enumerate(starts)]
        except (OSError, ValueError, TypeError) as error:
            raise DataError(f"{directory} is not a whole store of tokens ({error}); build it again") from error
        return cls(shards, 0, about.tokens, about)

    @classmethod
    def from_ids(cls, ids: Sequence[int] | np.ndarray) -> "TokenStore":
        """A store in memory, for tests and small texts."""
        return cls([np.asarray(ids, dtype=np.uint32)], 0, len(ids), None)

    def __len__(self) -> int:
        return self._stop - self._start

    def window(self, start: int, stop: int) -> np.ndarray:
        """The ids from `start` up to `stop`, wherever shards begin."""
        self._check(start, stop)
        size, start, stop = self._shard_tokens, self._start + start, self._start + stop
        if start == stop:
            return self._shards[0][:0]
        found = [
            self._shards[number][max(0, start - number * size) : stop - number * size]
            for number in range(start // size, (stop - 1) // size + 1)
        ]
        return found[0] if len(found) == 1 else np.concatenate(found)

    def part(self, start: int, stop: int) -> "TokenStore":
        """The ids from `start` up to `stop` as a store, over the same files."""
        self._check(start, stop)
        return TokenStore(self._shards, self._start + start, self._start + stop, self.about)

    def _check(self, start: int, stop: int) -> None:
        if not 0 <= start <= stop <= len(self):
            raise IndexError(f"ids {start} to {stop} of a store of {len(self)}")


class _ShardWriter:
    """Appends ids to a file, and begins the next when it is full."""

    def __init__(self, directory: Path, shard_tokens: int):
        self._directory = directory
        self._shard_tokens = shard_tokens
        self._file: BinaryIO | None = None
        self.count = 0

    def append(self, ids: np.ndarray) -> None:
        while len(ids):
            number, filled = divmod(self.count, self._shard_tokens)
            if filled == 0:
                self.close()
                self._file = _shard(self._directory, number).open("wb")
            fitting = ids[: self._shard_tokens - filled]
            assert self._file is not None
            fitting.tofile(self._file)
            self.count += len(fitting)
            ids = ids[len(fitting) :]

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


def _write(
    directory: Path,
    pieces: Iterable[Piece],
    tokenizer: Encoder,
    end: int | None,
    shard_tokens: int,
    on_progress: Callable[[int], None] | None,
) -> About:
    dtype = np.dtype(np.uint16 if len(tokenizer) <= 2**16 else np.uint32)
    writer = _ShardWriter(directory, shard_tokens)
    documents = letters = size = 0
    ending = [] if end is None else [end]
    try:
        for chunk in _chunks(pieces):
            rows = tokenizer.encode([piece.text for piece in chunk])
            parts = chain.from_iterable((row, ending if piece.ends else ()) for row, piece in zip(rows, chunk))
            writer.append(np.fromiter(chain.from_iterable(parts), dtype=dtype))
            documents += sum(piece.ends for piece in chunk)
            letters += sum(len(piece.text) for piece in chunk)
            # JSON may hold half a surrogate pair, which has no bytes; the sign that stands for it has as many as this.
            size += sum(len(piece.text.encode("utf-8", "surrogatepass")) for piece in chunk)
            if on_progress is not None:
                on_progress(letters)
    finally:
        writer.close()
    if not writer.count:
        raise DataError(f"no ids came out of {letters} letters of text; check the files and the tokenizer")
    return About(dtype.name, writer.count, shard_tokens, documents, letters, size)


def _chunks(pieces: Iterable[Piece]) -> Iterator[list[Piece]]:
    chunk: list[Piece] = []
    letters = 0
    for piece in pieces:
        chunk.append(piece)
        letters += len(piece.text)
        if letters >= CHUNK_LETTERS:
            yield chunk
            chunk, letters = [], 0
    if chunk:
        yield chunk


def _shard(directory: Path, number: int) -> Path:
    return directory / f"shard-{number:05d}.ids"


def _of_a_store(path: Path) -> bool:
    return FILE.fullmatch(path.name) is not None


def _mapped(path: Path, about: About, start: int) -> np.ndarray:
    dtype = np.dtype(about.dtype)
    expected = min(about.shard_tokens, about.tokens - start) * dtype.itemsize
    if path.stat().st_size != expected:
        raise ValueError(f"{path.name} has {path.stat().st_size} bytes where {expected} were written")
    # A plain array over the map: slices of np.memmap itself are several times slower.
    return np.asarray(np.memmap(path, dtype=dtype, mode="r"))


@dataclass(frozen=True)
class LanguageBatch:
    """Rows of ids, each to be predicted from those before it."""

    ids: Tensor
    """[B, T + 1]: all but the last are read, all but the first are predicted."""
    counted: Tensor | None
    """[B, T], True for the predictions that count; None where all do."""
    target_tokens: int
    """How many predictions count."""

    def to(self, device: torch.device | str) -> "LanguageBatch":
        return LanguageBatch(
            ids=self.ids.to(device, non_blocking=True),
            counted=None if self.counted is None else self.counted.to(device, non_blocking=True),
            target_tokens=self.target_tokens,
        )


class TokenBatches:
    """All batches of a text, `rows` windows of `length` predictions each, in an order fixed by seed and epoch.

    Windows overlap by one id, so that no id is predicted twice.  Shuffled, every epoch cuts the text at other places,
    and leaves out what fills no window and windows that fill no batch.  Not shuffled, every id but the first is
    predicted, those of a shorter window at the end in a batch of its own.  Nothing is remembered between batches, so
    a run resumes from two numbers.
    """

    def __init__(self, store: TokenStore, *, rows: int, length: int, seed: int, shuffle: bool = True):
        if len(store) < 2:
            raise DataError(f"a text of {len(store)} ids has nothing to predict; give one of at least 2, better many")
        self._store = store
        self._rows = rows
        self._length = min(length, len(store) - 1)
        self._seed = seed
        self._shuffle = shuffle

    def epoch(self, epoch: int, start: int = 0) -> Iterator[LanguageBatch]:
        """The batches of an epoch, from number `start` on."""
        generator, offset, windows = self._plan(epoch)
        order = np.arange(windows, dtype=np.int32 if windows < 2**31 else np.int64)
        if self._shuffle:
            order = generator.permutation(order)
        for batch in range(start, self.count(epoch)):
            visited = order[batch * self._rows : (batch + 1) * self._rows].tolist()
            if visited:
                yield self._filled([offset + window * self._length for window in visited], self._length)
            else:
                rest = (len(self._store) - 1) % self._length
                yield self._filled([len(self._store) - 1 - rest], rest)

    def count(self, epoch: int) -> int:
        """How many batches an epoch has; where it is cut decides whether there is one more."""
        windows = self._plan(epoch)[2]
        if self._shuffle:
            return max(1, windows // self._rows)
        return -(-windows // self._rows) + ((len(self._store) - 1) % self._length > 0)

    def _plan(self, epoch: int) -> tuple[np.random.Generator, int, int]:
        """The epoch's random numbers, where its first window begins, and how many whole windows there are."""
        generator = np.random.default_rng([self._seed, epoch])
        # A text of little more than one window must not lose it to the offset.
        offsets = min(self._length, len(self._store) - self._length)
        offset = int(generator.integers(offsets)) if self._shuffle else 0
        return generator, offset, (len(self._store) - 1 - offset) // self._length

    def _filled(self, starts: list[int], length: int) -> LanguageBatch:
        ids = np.empty((len(starts), length + 1), dtype=np.int64)
        for row, start in enumerate(starts):
            ids[row] = self._store.window(start, start + length + 1)
        return LanguageBatch(torch.from_numpy(ids), counted=None, target_tokens=len(starts) * length)


class JoinedBatches(PairBatches):
    """Batches of pairs as rows of `source delimiter target`, padded at the end: every batch is a LanguageBatch.

    Of the predictions count those of the target's ids (`counts="target"`), or those of all ids ("all"), and never
    those of padding.  The budget is that of the sides, each for itself, so that a row may be as long as both.
    """

    def __init__(
        self,
        store: PairStore,
        *,
        tokens: int,
        pad: int,
        delimiter: int,
        counts: str,
        seed: int,
        shuffle: bool = True,
    ):
        if counts not in ("target", "all"):
            raise ConfigError(f'the predictions of {counts!r} cannot be counted; write "target" or "all"')
        super().__init__(store, tokens=tokens, pad=pad, seed=seed, shuffle=shuffle)
        self._delimiter = delimiter
        self._counts = counts

    def _collated(self, pairs: np.ndarray) -> LanguageBatch:
        sources, targets = self._store.source_lengths[pairs], self._store.target_lengths[pairs]
        ends = sources + targets  # where the last prediction of a row is: one before the row's last id
        ids = np.full((len(pairs), ends.max() + 1), self._pad, dtype=np.int64)
        for row, (pair, source, end) in enumerate(zip(pairs.tolist(), sources.tolist(), ends.tolist())):
            ids[row, :source] = self._store.source(pair)
            ids[row, source] = self._delimiter
            ids[row, source + 1 : end + 1] = self._store.target(pair)
        places = np.arange(ids.shape[1] - 1)
        counted = places < ends[:, None]
        if self._counts == "target":
            counted &= places >= sources[:, None]
        return LanguageBatch(torch.from_numpy(ids), torch.from_numpy(counted), target_tokens=int(counted.sum()))
