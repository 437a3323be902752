"""The data of a translator: which pairs, read and checked, as token ids on disk."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import islice
from pathlib import Path

from manyheads.core.errors import ConfigError, DataError
from manyheads.core.files import directory_written_atomically, write_atomically
from manyheads.core.log import counting, say
from manyheads.data.pairs import write_pairs
from manyheads.data.ragged import Store
from manyheads.data.readers.corpus import read_pairs
from manyheads.text.tokenizer import Tokenizer

HELD_OUT_EVERY, HELD_OUT_MOST = 50, 1000

Pair = tuple[str, str]


@dataclass(frozen=True, kw_only=True)
class PairData:
    """Which sentence pairs a translator learns from, and how they are cut into tokens and batches."""

    source: tuple[str, ...] = ()
    """Files with one source sentence a line, plain, .gz or .xz; no files at all: the sample corpus."""
    target: tuple[str, ...] = ()
    """Files with their translations, line by line."""
    pairs: tuple[str, ...] = ()
    """Files with both: .tsv or .jsonl, plain, .gz or .xz."""
    fields: tuple[str, ...] = ()
    """Which columns (from 1) or JSON fields of `pairs` are source and target; unset: 1 and 2, or source and target."""
    valid_source: tuple[str, ...] = ()
    """Validation files; without any, every 50th training pair is held out, up to 1,000."""
    valid_target: tuple[str, ...] = ()
    """Their translations."""
    valid_pairs: tuple[str, ...] = ()
    """Validation files with both."""
    tokenizer: str | None = None
    """A tokenizer.json; unset: byte-level BPE of `vocabulary` tokens is trained on both languages."""
    vocabulary: int = 8000
    """Tokens of the tokenizer that is trained."""
    longest: int = 256
    """Pairs with a side of more tokens are dropped, and counted."""
    batch_tokens: int = 4096
    """Target tokens of a batch, padding included."""

    def __post_init__(self):
        if self.fields and len(self.fields) != 2:
            raise ConfigError(f"data.fields names {len(self.fields)} fields; it must name two, source and target")
        for side in ("", "valid_"):
            sources, targets = getattr(self, f"{side}source"), getattr(self, f"{side}target")
            if len(sources) != len(targets):
                raise ConfigError(f"{len(sources)} files in data.{side}source, {len(targets)} in data.{side}target")
        if (self.valid_source or self.valid_pairs) and not (self.source or self.pairs):
            raise ConfigError("validation files are given, but no training files; give both or neither")
        if self.batch_tokens < 1 or self.longest < 2:
            raise ConfigError("data.batch_tokens must be at least 1 and data.longest at least 2")


@dataclass(frozen=True)
class Prepared:
    """The data of a run, ready to train on."""

    tokenizer: Tokenizer
    train: Store
    valid: list[Pair]


def prepare(data: PairData, run: Path) -> Prepared:
    """Reads and checks every pair, trains the tokenizer where none is given, and lays all that training needs down.

    A run that goes on finds it in `run/tokenizer`, `run/data` and `run/valid.jsonl` and asks for no file again.
    """
    tokenizer_directory, store_directory, valid_file = run / "tokenizer", run / "data", run / "valid.jsonl"
    if (store_directory / "store.json").exists():
        valid = list(read_pairs(pairs=[valid_file]))
        return Prepared(Tokenizer.load(tokenizer_directory), Store.open(store_directory), valid)
    valid = _valid_pairs(data)
    if data.tokenizer:
        tokenizer = Tokenizer.load(Path(data.tokenizer))
    else:
        with counting("reading pairs and training the tokenizer") as show:
            lines = (line for pair in _counted(_train_pairs(data), show) for line in pair)
            tokenizer = Tokenizer.train(lines, data.vocabulary)
    with directory_written_atomically(tokenizer_directory) as unfinished:
        tokenizer.save(unfinished)
    short = [pair for pair in valid if max(map(len, tokenizer.encode(list(pair)))) <= data.longest]
    if len(short) < len(valid):
        say(f"dropped: {len(valid) - len(short):,} validation pairs with a side over {data.longest} tokens")
    valid = short
    if not valid:
        raise DataError(
            "there are no validation pairs: give them with --valid-source and --valid-target or --valid-pairs "
            f"(without them every {HELD_OUT_EVERY}th training pair is held out)"
        )
    lines = (json.dumps({"source": source, "target": target}) for source, target in valid)
    write_atomically(valid_file, "".join(f"{line}\n" for line in lines))
    # The store last: once it is there, the data is whole.
    with counting("cutting pairs into tokens") as show:
        store = write_pairs(store_directory, _train_pairs(data), tokenizer, longest=data.longest, on_progress=show)
    say(f"{len(store):,} training pairs, {len(valid):,} validation pairs, {len(tokenizer):,} tokens in the vocabulary")
    if store.about["too_long"] or store.about["empty"]:
        say(
            f"dropped: {store.about['too_long']:,} pairs with a side over {data.longest} tokens (data.longest), "
            f"{store.about['empty']:,} with an empty side"
        )
    return Prepared(tokenizer, store, valid)


def check_files(data: PairData) -> None:
    """Looks for every file and its format, reading none."""
    for files in ((data.source, data.target, data.pairs), (data.valid_source, data.valid_target, data.valid_pairs)):
        _read(*files, data.fields)


@cache
def _sample(part: str) -> list[Pair]:
    from manyheads.data.sample import sample_corpus

    return [(pair.source, pair.target) for pair in sample_corpus()[part]]


def _all_pairs(data: PairData) -> Iterator[Pair]:
    if not (data.source or data.pairs):
        return iter(_sample("train"))
    return _read(data.source, data.target, data.pairs, data.fields)


def _train_pairs(data: PairData) -> Iterator[Pair]:
    if _has_valid(data):
        return _all_pairs(data)
    return (pair for number, pair in enumerate(_all_pairs(data)) if not _held_out(number))


def _valid_pairs(data: PairData) -> list[Pair]:
    if data.valid_source or data.valid_pairs:
        pairs = _read(data.valid_source, data.valid_target, data.valid_pairs, data.fields)
    elif _has_valid(data):
        pairs = iter(_sample("valid"))
    else:
        held_out = (pair for number, pair in enumerate(_all_pairs(data)) if _held_out(number))
        pairs = islice(held_out, HELD_OUT_MOST)
    return [pair for pair in pairs if all(side.strip() for side in pair)]


def _has_valid(data: PairData) -> bool:
    return bool(data.valid_source or data.valid_pairs or not (data.source or data.pairs))


def _held_out(number: int) -> bool:
    return number % HELD_OUT_EVERY == HELD_OUT_EVERY - 1 and number < HELD_OUT_EVERY * HELD_OUT_MOST


def _read(
    source: tuple[str, ...], target: tuple[str, ...], pairs: tuple[str, ...], names: tuple[str, ...]
) -> Iterator[Pair]:
    return read_pairs(
        sources=[Path(path) for path in source],
        targets=[Path(path) for path in target],
        pairs=[Path(path) for path in pairs],
        fields=(names[0], names[1]) if names else None,
    )


def _counted(pairs: Iterator[Pair], show: Callable[[int], None]) -> Iterator[Pair]:
    for number, pair in enumerate(pairs, start=1):
        if number % 10_000 == 0:
            show(number)
        yield pair
