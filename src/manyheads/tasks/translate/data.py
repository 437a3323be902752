"""The data of a translator: which pairs, read and checked, as token ids on disk."""

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import cache, cached_property, partial
from pathlib import Path

from manyheads.core.errors import DataError
from manyheads.core.log import counting, say
from manyheads.core.words import counted
from manyheads.data.held_out import held_out, say_held_out
from manyheads.data.pairs import write_pairs
from manyheads.data.ragged import Store
from manyheads.data.readers.corpus import read_pairs
from manyheads.tasks.translate.recipe import PairData
from manyheads.text.tokenizer import Tokenizer

HELD_OUT_EVERY, HELD_OUT_MOST = 50, 1000

Pair = tuple[str, str]
Read = Callable[[], Iterator[Pair]]


class Corpus:
    """Pairs that are read anew each time they are gone through, since a corpus may be larger than memory.

    Without pairs for validation one in 50 is held out, drawn by the seed, at most `most`.
    """

    def __init__(self, read: Read, valid: Read | None, seed: int = 1, most: int = sys.maxsize):
        self.read, self._valid = read, valid
        """All pairs but those that are for validation alone."""
        self._seed, self._most = seed, most

    def train(self) -> Iterator[Pair]:
        """The pairs to learn from."""
        return self.read() if self._valid else self._split(validate=False)

    def valid(self) -> Iterator[Pair]:
        """The pairs to validate on."""
        return self._valid() if self._valid else self._split(validate=True)

    def _split(self, *, validate: bool) -> Iterator[Pair]:
        return (pair for number, pair in enumerate(self.read()) if (number in self._held_out) == validate)

    @cached_property
    def _held_out(self) -> frozenset[int]:
        """The numbers of the pairs that are held out, for which all are counted: each is as likely as another."""
        with counting("counting pairs") as show:
            count = sum(1 for _ in _counted(self.read(), show))
        held = held_out([range(count)], every=HELD_OUT_EVERY, most=self._most, seed=self._seed)
        if held:
            say_held_out(len(held), count, "pairs", self._seed)
        return held


def corpus_of(data: PairData, seed: int = 1) -> Corpus:
    """The pairs of a run; each file is looked for, and none read."""
    if not (data.source or data.pairs):
        return Corpus(lambda: iter(_sample("train")), lambda: iter(_sample("valid")))
    train = reader_of(data.source, data.target, data.pairs, data.fields)
    valid = reader_of(data.valid_source, data.valid_target, data.valid_pairs, data.fields)
    return Corpus(train, valid if data.valid_source or data.valid_pairs else None, seed, HELD_OUT_MOST)


def reader_of(source: Sequence[str], target: Sequence[str], pairs: Sequence[str], names: tuple[str, ...]) -> Read:
    """Reads files from the beginning; what can be known before reading is refused here."""
    sources, targets, both = ([Path(name) for name in group] for group in (source, target, pairs))
    fields = (names[0], names[1]) if names else None
    read = partial(read_pairs, sources=sources, targets=targets, pairs=both, fields=fields)
    read()
    return read


def train_tokenizer(corpus: Corpus, data: PairData) -> Tokenizer:
    """The tokenizer of both languages, or the one that is given."""
    if data.tokenizer:
        return Tokenizer.load(Path(data.tokenizer))
    with counting("reading pairs and training the tokenizer") as show:
        lines = (line for pair in _counted(corpus.train(), show) for line in pair)
        return Tokenizer.train(lines, data.vocabulary)


def store_pairs(corpus: Corpus, tokenizer: Tokenizer, data: PairData, directory: Path) -> None:
    """Lays token ids to learn from and texts to validate on down."""
    full = [pair for pair in corpus.valid() if all(side.strip() for side in pair)]
    valid = [pair for pair in full if max(map(len, tokenizer.encode(list(pair)))) <= data.longest]
    if len(valid) < len(full):
        say(f"dropped: {counted(len(full) - len(valid), 'validation pair')} with a side over {data.longest} tokens")
    if not valid:
        raise DataError(
            "there are no validation pairs: give them with --valid-source and --valid-target or --valid-pairs "
            f"(without them one training pair in {HELD_OUT_EVERY} is held out)"
        )
    lines = (json.dumps({"source": source, "target": target}) for source, target in valid)
    (directory / "valid.jsonl").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    with counting("cutting pairs into tokens") as show:
        train = directory / "train"
        store = write_pairs(train, corpus.train(), tokenizer, longest=data.longest, on_progress=show)
    say(
        f"{counted(len(store), 'training pair')}, {counted(len(valid), 'validation pair')}, "
        f"{len(tokenizer):,} tokens in the vocabulary"
    )
    say_dropped(store, data.longest, "data.longest")


def say_dropped(store: Store, longest: int, why: str) -> None:
    """Tells of the pairs that were left out."""
    if store.about["too_long"] or store.about["empty"]:
        say(
            f"dropped: {counted(store.about['too_long'], 'pair')} with a side over {longest} tokens ({why}), "
            f"{store.about['empty']:,} with an empty side"
        )


@cache
def _sample(part: str) -> list[Pair]:
    from manyheads.data.sample import sample_corpus

    return [(pair.source, pair.target) for pair in sample_corpus()[part]]


def _counted(pairs: Iterator[Pair], show: Callable[[int], None]) -> Iterator[Pair]:
    for number, pair in enumerate(pairs, start=1):
        if number % 10_000 == 0:
            show(number)
        yield pair
