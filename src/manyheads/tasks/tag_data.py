"""The data of a tagger: sentences of labelled words as rows of ids, each label at the first piece of its word."""

import json
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, pairwise
from pathlib import Path

import numpy as np

from manyheads.core.errors import ConfigError, DataError
from manyheads.core.log import say
from manyheads.data.batches import Batches
from manyheads.data.examples import NOTHING, tag_batches, tag_store
from manyheads.data.ragged import Store
from manyheads.data.readers.columns import TaggedSentence, read_columns
from manyheads.tasks.preparing import label_names, prepared, split
from manyheads.tasks.scores import PREFIXES
from manyheads.text.encoder import EncoderTokenizer

SHOWN = 20  # labels in a message


@dataclass(frozen=True, kw_only=True)
class TagData:
    """Which sentences a tagger learns from, and how they are cut into tokens and batches."""

    train: tuple[str, ...] = ()
    """Files in CoNLL's columns, plain, .gz or .xz: a word and its label a line, a blank line between sentences."""
    valid: tuple[str, ...] = ()
    """Sentences for validation; without any, every 10th is held out, up to 1,000."""
    columns: tuple[str, ...] = ()
    """Numbers (from 1) of the columns of the word and of its label; unset: the first and the last."""
    vocabulary: int = 8000
    """Tokens of the tokenizer that is trained, where no pre-trained model brings its own."""
    lowercase: bool = False
    """Whether the tokenizer that is trained makes capitals small; names are told by theirs."""
    examples: int = 32
    """Sentences in a batch, or windows of those that are longer than the model reads."""

    def __post_init__(self):
        if self.valid and not self.train:
            raise ConfigError("data.valid is given without data.train; give both or neither")
        if self.examples < 1:
            raise ConfigError(f"data.examples is {self.examples}; it must be at least 1")


@dataclass(frozen=True)
class Tagged:
    """What the files of a run hold."""

    names: tuple[str, ...]
    train: list[TaggedSentence]
    valid: list[TaggedSentence]

    @property
    def entities(self) -> bool:
        """Whether validation has entities to find."""
        return are_entities(label for sentence in self.valid for label in sentence.labels)


def are_entities(labels: Iterable[str]) -> bool:
    """Whether any of the labels begins as those of entities do: B-, I-, …"""
    return any(label.startswith(PREFIXES) for label in labels)


def read_all(data: TagData, *, quiet: bool = False) -> Tagged:
    """Reads every sentence, and refuses what cannot be learned from."""
    if not data.train:
        raise ConfigError("there are no sentences to learn from; give a file in CoNLL's columns with --train")
    train = [sentence for name in data.train for sentence in read_columns(Path(name), data.columns)]
    counts = Counter(label for sentence in train for label in sentence.labels)
    remedy = "say which columns are the word and its label, as in --columns 1 4"
    names = label_names(counts, data.train[0], "word", remedy)
    valid: list[TaggedSentence] = []
    for name in data.valid:
        sentences = read_columns(Path(name), data.columns)
        refuse_unknown(name, sentences, names, "the training sentences")
        valid += sentences
    if not quiet:
        more = ", …" if len(counts) > SHOWN else ""
        say("labels: " + ", ".join(f"{name} {count:,}" for name, count in counts.most_common(SHOWN)) + more)
    return Tagged(names, train, valid) if valid else Tagged(names, *split(train, "sentences"))


def refuse_unknown(path: str | Path, sentences: Sequence[TaggedSentence], names: tuple[str, ...], whose: str) -> None:
    """Every label must be one of the names."""
    known = set(names)
    for sentence in sentences:
        for word, label in zip(sentence.words, sentence.labels):
            if label not in known:
                some = ", ".join(names[:10]) + (", …" if len(names) > 10 else "")
                raise DataError(
                    f"{path}, in the sentence from line {sentence.line} on: the label {label!r} of {word!r} is not "
                    f"among those of {whose} ({some}); mend it or name other --columns"
                )


@dataclass(frozen=True)
class Window:
    """A part of a sentence that the model reads at once, or all of it."""

    ids: list[int]
    """With the marks around."""
    places: list[int]
    """Where the words begin that are asked about here; those of a sentence's windows are all its words in order."""


class Windowing:
    """Words as a model reads them: `[CLS] pieces [SEP]`.

    A sentence that is longer than the model reads is taken in windows, which share half of their pieces or more, and
    each word is asked about in the one whose cuts are farthest from it. A word of it that would fill more than half of
    a window loses its end.
    """

    def __init__(self, tokenizer: EncoderTokenizer, context: int):
        self.tokenizer, self.room = tokenizer, room_of(context)
        self.long = 0
        """Sentences that were too long for one window."""

    def windows(self, sentences: Sequence[Sequence[str]]) -> list[list[Window]]:
        """The windows of each sentence; one without words has none."""
        return [self._windows(pieces) for pieces in self.tokenizer.encode_words([list(each) for each in sentences])]

    def _windows(self, pieces: list[list[int]]) -> list[Window]:
        if sum(map(len, pieces)) > self.room:
            self.long += 1
            # So every window has room for half of the one before it and one more word.
            pieces = [word[: max(self.room // 2, 1)] for word in pieces]
        starts = [0, *accumulate(map(len, pieces))]
        found = []
        for (first, last), asked in zip(*spans(starts, self.room)):
            ids = self.tokenizer.wrapped([each for word in pieces[first:last] for each in word])
            if asked:
                found.append(Window(ids, [1 + starts[word] - starts[first] for word in asked]))
        return found


def room_of(context: int) -> int:
    """How many pieces fit between the marks."""
    if context < 3:
        raise ConfigError(f"model.context is {context}, which leaves no place for a word; raise it")
    return context - 2


def spans(starts: list[int], room: int) -> tuple[list[tuple[int, int]], list[range]]:
    """Windows of at most `room` pieces: the first word and the one behind the last of each, and the words asked about.

    Words begin at `starts`, whose last is where the final word ends. Each is asked about where it has most context.
    """
    found, first, count = [], 0, len(starts) - 1
    while first < count:
        last = bisect_right(starts, starts[first] + room) - 1
        if last == count:
            first = bisect_left(starts, starts[count] - room)  # as far back as there is room
        found.append((first, last))
        first = count if last == count else bisect_left(starts, starts[last] - room // 2)
    # Of two windows a word has more context in the second once more pieces lie before it there than behind it here.
    borders = [
        next(word for word in range(begin, end + 1) if starts[word] - starts[begin] > starts[end] - starts[word + 1])
        for (_, end), (begin, _) in pairwise(found)
    ]
    return found, [range(*pair) for pair in pairwise([0, *borders, count])] if found else []


def least_windows(sentences: Sequence[TaggedSentence], context: int) -> int:
    """How many windows the sentences have if every word is one piece, which needs no tokenizer to be known."""
    room = room_of(context)
    longer = [len(each.words) for each in sentences if len(each.words) > room]
    return len(sentences) - len(longer) + sum(len(spans(list(range(words + 1)), room)[0]) for words in longer)


@dataclass(frozen=True)
class Prepared:
    """The data of a run, ready to train on."""

    tokenizer: EncoderTokenizer
    names: tuple[str, ...]
    train: Store
    valid: Store

    @property
    def entities(self) -> bool:
        """Whether validation has entities to find."""
        return are_entities(self.names[number] for number in np.unique(self.valid["labels"].flat) if number != NOTHING)

    def batches(self, data: TagData, *, seed: int, shuffle: bool) -> Batches:
        """Batches of the training data, shuffled, or of the validation data, in order."""
        return tag_batches(self.train if shuffle else self.valid, size=data.examples, seed=seed, shuffle=shuffle)


def prepare(data: TagData, context: int, tokenizer: EncoderTokenizer | None, run: Path) -> Prepared:
    """Reads all sentences, trains a tokenizer where none is given, and lays the token ids down in the run.

    A run that goes on finds them in `run/tokenizer` and `run/data` and asks for no file again.
    """

    def train(found: Tagged) -> EncoderTokenizer:
        texts = (" ".join(sentence.words) for sentence in found.train)
        return EncoderTokenizer.train(texts, data.vocabulary, lowercase=data.lowercase)

    def write(found: Tagged, own: EncoderTokenizer, directory: Path) -> None:
        _write(found, Windowing(own, context), directory)

    read = partial(read_all, data)
    tokenizer, directory = prepared(run, EncoderTokenizer, context, tokenizer, read=read, train=train, write=write)
    names = tuple(json.loads((directory / "tags.json").read_text(encoding="utf-8"))["names"])
    stores = [Store.open(directory / part) for part in ("train", "valid")]
    return Prepared(tokenizer, names, *stores)


def _write(found: Tagged, windowing: Windowing, directory: Path) -> None:
    for part, sentences in (("train", found.train), ("valid", found.valid)):
        _store(sentences, found.names, windowing).save(directory / part)
    about = {"names": found.names}
    (directory / "tags.json").write_text(json.dumps(about, ensure_ascii=False) + "\n", encoding="utf-8")
    words = sum(len(sentence.words) for sentence in found.train)
    say(
        f"{len(found.train):,} sentences to learn from with {words:,} words, {len(found.valid):,} to validate on, "
        f"{len(found.names)} labels"
    )
    if windowing.long:
        say(f"{windowing.long:,} sentences are longer than the model's context and are read in overlapping windows")


def _store(sentences: list[TaggedSentence], names: tuple[str, ...], windowing: Windowing) -> Store:
    numbers = {name: number for number, name in enumerate(names)}
    rows, labels, sentence_of_row = [], [], []
    for sentence, windows in enumerate(windowing.windows([each.words for each in sentences])):
        right = iter(sentences[sentence].labels)
        for window in windows:
            row = [NOTHING] * len(window.ids)
            for place in window.places:
                row[place] = numbers[next(right)]
            rows.append(window.ids)
            labels.append(row)
            sentence_of_row.append(sentence)
    return tag_store(rows, labels, sentence_of_row)
