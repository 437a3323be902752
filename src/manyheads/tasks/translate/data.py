"""The data of a translator: which pairs, read and checked, as token ids on disk."""

import json
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import islice
from pathlib import Path

from manyheads.core.errors import DataError
from manyheads.core.log import counting, say
from manyheads.data.pairs import write_pairs
from manyheads.data.ragged import Store
from manyheads.data.readers.corpus import read_pairs
from manyheads.tasks.translate.recipe import PairData
from manyheads.text.tokenizer import Tokenizer

HELD_OUT_EVERY, HELD_OUT_MOST = 50, 1000

Pair = tuple[str, str]


class Corpus:
    """The pairs of a run, read anew each time they are gone through: a corpus may be larger than memory."""

    def __init__(self, data: PairData):
        self.data = data
        self.own = bool(data.source or data.pairs)
        self.valid = self._valid()

    def train(self) -> Iterator[Pair]:
        """The pairs to learn from."""
        if self._holds_out:
            return (pair for number, pair in enumerate(self._all()) if not _is_held_out(number))
        return self._all()

    def _valid(self) -> list[Pair]:
        if not self.own:
            pairs = iter(_sample("valid"))
        elif self._holds_out:
            pairs = islice((pair for number, pair in enumerate(self._all()) if _is_held_out(number)), HELD_OUT_MOST)
        else:
            pairs = _read(self.data.valid_source, self.data.valid_target, self.data.valid_pairs, self.data.fields)
        return [pair for pair in pairs if all(side.strip() for side in pair)]

    @property
    def _holds_out(self) -> bool:
        return self.own and not (self.data.valid_source or self.data.valid_pairs)

    def _all(self) -> Iterator[Pair]:
        if not self.own:
            return iter(_sample("train"))
        return _read(self.data.source, self.data.target, self.data.pairs, self.data.fields)


def check_files(data: PairData) -> None:
    """Looks for every file and its format, reading none."""
    if data.source or data.pairs:
        for files in ((data.source, data.target, data.pairs), (data.valid_source, data.valid_target, data.valid_pairs)):
            _read(*files, data.fields)


def train_tokenizer(corpus: Corpus) -> Tokenizer:
    """The tokenizer of both languages, or the one that is given."""
    if corpus.data.tokenizer:
        return Tokenizer.load(Path(corpus.data.tokenizer))
    with counting("reading pairs and training the tokenizer") as show:
        lines = (line for pair in _counted(corpus.train(), show) for line in pair)
        return Tokenizer.train(lines, corpus.data.vocabulary)


def store_pairs(corpus: Corpus, tokenizer: Tokenizer, directory: Path) -> None:
    """Lays token ids to learn from and texts to validate on down."""
    data = corpus.data
    valid = [pair for pair in corpus.valid if max(map(len, tokenizer.encode(list(pair)))) <= data.longest]
    if len(valid) < len(corpus.valid):
        say(f"dropped: {len(corpus.valid) - len(valid):,} validation pairs with a side over {data.longest} tokens")
    if not valid:
        raise DataError(
            "there are no validation pairs: give them with --valid-source and --valid-target or --valid-pairs "
            f"(without them every {HELD_OUT_EVERY}th training pair is held out)"
        )
    lines = (json.dumps({"source": source, "target": target}) for source, target in valid)
    (directory / "valid.jsonl").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    with counting("cutting pairs into tokens") as show:
        train = directory / "train"
        store = write_pairs(train, corpus.train(), tokenizer, longest=data.longest, on_progress=show)
    say(f"{len(store):,} training pairs, {len(valid):,} validation pairs, {len(tokenizer):,} tokens in the vocabulary")
    say_dropped(store, data.longest, "data.longest")


def say_dropped(store: Store, longest: int, why: str) -> None:
    """Tells of the pairs that were left out."""
    if store.about["too_long"] or store.about["empty"]:
        say(
            f"dropped: {store.about['too_long']:,} pairs with a side over {longest} tokens ({why}), "
            f"{store.about['empty']:,} with an empty side"
        )


@cache
def _sample(part: str) -> list[Pair]:
    from manyheads.data.sample import sample_corpus

    return [(pair.source, pair.target) for pair in sample_corpus()[part]]


def _is_held_out(number: int) -> bool:
    return number % HELD_OUT_EVERY == HELD_OUT_EVERY - 1 and number < HELD_OUT_EVERY * HELD_OUT_MOST


def _read(source: Sequence[str], target: Sequence[str], pairs: Sequence[str], names: tuple[str, ...]) -> Iterator[Pair]:
    sources, targets, both = ([Path(name) for name in group] for group in (source, target, pairs))
    return read_pairs(sources=sources, targets=targets, pairs=both, fields=(names[0], names[1]) if names else None)


def _counted(pairs: Iterator[Pair], show: Callable[[int], None]) -> Iterator[Pair]:
    for number, pair in enumerate(pairs, start=1):
        if number % 10_000 == 0:
            show(number)
        yield pair
