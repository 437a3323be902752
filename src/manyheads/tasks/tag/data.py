"""The data of a tagger: sentences of labelled words as rows of ids, each label at the first piece of its word."""

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from pathlib import Path

from manyheads.core.errors import ConfigError, DataError
from manyheads.core.log import say
from manyheads.core.words import counted
from manyheads.data.examples import NOTHING, tag_store
from manyheads.data.ragged import Store
from manyheads.data.readers.columns import TaggedSentence, read_columns
from manyheads.tasks.labelled import Split, label_names, split
from manyheads.tasks.metrics import PREFIXES
from manyheads.tasks.tag.recipe import TagData
from manyheads.text.encoder import EncoderTokenizer

SHOWN = 20  # labels in a message


def read_all(data: TagData, seed: int = 1) -> Split[TaggedSentence]:
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
    more = ", …" if len(counts) > SHOWN else ""
    say("labels: " + ", ".join(f"{name} {count:,}" for name, count in counts.most_common(SHOWN)) + more)
    train, valid = (train, valid) if valid else split(train, "sentences", seed)
    entities = any(label.startswith(PREFIXES) for sentence in valid for label in sentence.labels)
    return Split(train, valid, {"names": names, "entities": entities})


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
class SentenceWindow:
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

    def windows(self, sentences: Sequence[Sequence[str]]) -> list[list[SentenceWindow]]:
        """The windows of each sentence; one without words has none."""
        return [self._windows(pieces) for pieces in self.tokenizer.encode_words([list(each) for each in sentences])]

    def _windows(self, pieces: list[list[int]]) -> list[SentenceWindow]:
        if sum(map(len, pieces)) > self.room:
            self.long += 1
            # So every window has room for half of the one before it and one more word.
            pieces = [word[: max(self.room // 2, 1)] for word in pieces]
        starts = [0, *accumulate(map(len, pieces))]
        found = []
        for (first, last), asked in zip(*spans(starts, self.room)):
            ids = self.tokenizer.wrapped([each for word in pieces[first:last] for each in word])
            if asked:
                found.append(SentenceWindow(ids, [1 + starts[word] - starts[first] for word in asked]))
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


def store_sentences(found: Split[TaggedSentence], windowing: Windowing, directory: Path) -> None:
    """Lays the windows of all sentences down, each label at the first piece of its word."""
    names = found.about["names"]
    found.save(directory, lambda sentences: _store(sentences, names, windowing))
    words = sum(len(sentence.words) for sentence in found.train)
    say(
        f"{counted(len(found.train), 'sentence')} to learn from with {counted(words, 'word')}, "
        f"{len(found.valid):,} to validate on, {counted(len(names), 'label')}"
    )
    if windowing.long:
        say(f"sentences longer than the model's context, read in overlapping windows: {windowing.long:,}")


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
