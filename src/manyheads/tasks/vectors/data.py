"""The data of word vectors: lines of word ids on disk, and how often words stand together."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from manyheads.core.errors import DataError
from manyheads.core.log import counting, say
from manyheads.core.words import counted
from manyheads.data.batches import Batch, Batches, shuffling
from manyheads.data.cooccurrence import cooccurrences
from manyheads.data.ragged import Ragged, Store, chunks, id_type, store_written
from manyheads.tasks.language.data import Texts
from manyheads.text.words import WordTokenizer

HELD_OUT_EVERY = 50
MOST_CELLS = 100_000  # that are validated on


def train_words(texts: Texts, data: Any) -> WordTokenizer:
    """The words that are to have a vector, the commonest first."""
    with counting("reading the text and counting words, letters") as show:
        found = WordTokenizer.train(texts.letters(show), data.vocabulary, lowercase=data.lowercase, least=data.least)
    if not found.vocabulary():
        raise DataError(f"no word of the text is there {data.least} times; give more text or lower data.least")
    return found


def store_lines(texts: Texts, words: WordTokenizer, directory: Path) -> None:
    """Lays the known words of each line down as ids."""
    with counting("cutting the text into words, letters") as show:
        store = _written(directory / "train", texts.documents(), words, show)
    if not texts.holds_out and texts.text:
        _written(directory / "valid", texts.documents("valid"), words, lambda done: None)
    ids = store["ids"]
    say(f"{counted(len(ids.flat), 'known word')} in {counted(len(ids), 'line')}, {len(words.vocabulary()):,} kinds")


def _written(directory: Path, pieces: Iterable[Any], words: WordTokenizer, show: Any) -> Store:
    dtype, unknown, letters = id_type(words), words.unknown, 0
    with store_written(directory) as writer:
        for lines in chunks(_lines(pieces), len):
            rows = [[each for each in row if each != unknown] for row in words.encode(lines)]
            writer.append({"ids": Ragged.of([row for row in rows if row], dtype)})
            letters += sum(map(len, lines))
            show(letters)
    return Store.open(directory)


def _lines(pieces: Iterable[Any]) -> Iterator[str]:
    return (line for piece in pieces for line in piece.text.split("\n") if line)


def open_lines(directory: Path, most: int) -> tuple[Store, Store]:
    """The lines to learn from and those to validate on, at most so many words of them."""
    train = Store.open(directory / "train")
    if (directory / "valid").exists():
        valid = Store.open(directory / "valid")
    else:
        offsets = train["ids"].offsets
        held = min(int(offsets[-1]) // HELD_OUT_EVERY, most)
        row = int(np.searchsorted(offsets, offsets[-1] - held, side="left"))
        row = min(row, len(train) - 1) if len(train) > 1 else len(train)
        train, valid = train.part(0, row), train.part(row, len(train))
    last = int(np.searchsorted(valid["ids"].offsets, valid["ids"].offsets[0] + most, side="right")) - 1
    valid = valid.part(0, max(last, min(1, len(valid))))
    for part, store in (("train on", train), ("validate on", valid)):
        if len(store["ids"].flat) < 2:
            raise DataError(f"there are fewer than two known words to {part}; give more text, of more than one line")
    return train, valid


def store_cells(directory: Path, train: Store, vocabulary: int, window: int, seed: int) -> None:
    """Lays down how often words stand together, and a hundredth of that to validate on."""
    with counting("counting which words stand together"):
        columns = dict(zip(("first", "second", "count"), cooccurrences(train["ids"], vocabulary, window)))
    count = len(columns["count"])
    if count < 2:
        raise DataError("no two known words stand together in the text; give more text")
    held = np.zeros(count, dtype=bool)
    most = max(1, min(count // 100, MOST_CELLS))
    held[np.random.default_rng(seed).choice(count, most, replace=False)] = True
    for part, chosen in (("cells", ~held), ("valid_cells", held)):
        Store({name: column[chosen] for name, column in columns.items()}).save(directory / part)
    say(f"{counted(count, 'pair')} of words that stand together, {most:,} of them to validate on")


def line_batches(store: Store, *, words: int, seed: int, shuffle: bool) -> Batches:
    """Stretches of so many words, in any order: `ids`, and of each the number of its `lines`, both [N]."""
    ids: Ragged = store["ids"]
    start, stop = int(ids.offsets[0]), int(ids.offsets[-1])

    def plan(epoch: int) -> Any:
        generator = shuffling(seed, epoch, shuffle)
        begins = np.arange(start, stop, words)
        return begins if generator is None else generator.permutation(begins)

    def collate(begin: int) -> Batch:
        end = min(int(begin) + words, stop)
        first, last = np.searchsorted(ids.offsets, (begin, end - 1), side="right") - 1
        bounds = np.clip(ids.offsets[first : last + 2], begin, end)
        lines = np.repeat(np.arange(last + 1 - first), np.diff(bounds))
        found = torch.from_numpy(ids.values[begin:end].astype(np.int64))
        return Batch(len(found), ids=found, lines=torch.from_numpy(lines))

    return Batches(plan, collate)


def cell_batches(store: Store, *, words: int, seed: int, shuffle: bool) -> Batches:
    """So many pairs, in any order: `first`, `second` and `count`, all [N]."""

    def plan(epoch: int) -> list[np.ndarray]:
        generator = shuffling(seed, epoch, shuffle)
        order = np.arange(len(store)) if generator is None else generator.permutation(len(store))
        return [order[begin : begin + words] for begin in range(0, len(order), words)]

    def collate(rows: np.ndarray) -> Batch:
        tensors = {name: torch.from_numpy(store[name][rows]) for name in ("first", "second", "count")}
        return Batch(len(rows), **{name: each.long() if name != "count" else each for name, each in tensors.items()})

    return Batches(plan, collate)
