"""The data of an answerer: questions and contexts in windows, as BERT was fine-tuned on SQuAD (Devlin et al. 2019)."""

import json
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from manyheads.core.errors import ConfigError, DataError
from manyheads.core.files import parse_json
from manyheads.core.log import say, warn
from manyheads.core.words import counted
from manyheads.data.examples import answer_store
from manyheads.data.held_out import held_out, say_held_out
from manyheads.data.readers.questions import Answer, Question, read_questions
from manyheads.tasks.answer.recipe import LONGEST, STRIDE, AnswerData
from manyheads.tasks.labelled import HELD_OUT_EVERY, Split
from manyheads.text.encoder import EncoderTokenizer

LONGEST_QUESTION = 64  # tokens


def read_all(data: AnswerData, seed: int = 1) -> Split[Question]:
    """Reads every question, and refuses what cannot be learned from."""
    if not data.data:
        raise ConfigError("there are no questions to learn from; give a file in the layout of SQuAD with --data")
    files = (data.data, data.valid)
    train, valid = ([each for name in names for each in read_questions(Path(name))] for names in files)
    for part, names in zip((train, valid), files):
        if names and not part:
            raise DataError(f"{names[0]}: every question is empty; give a file with questions")
    if not valid:
        train, valid = _split_by_document(train, seed)
    if all(question.impossible for question in train):
        raise DataError(
            f"{data.data[0]}: no question to learn from, of {len(train):,}, has an answer; give some that have"
        )
    return Split(train, valid)


def _split_by_document(questions: list[Question], seed: int) -> tuple[list[Question], list[Question]]:
    """Questions to learn from and others, of documents that the first know nothing of."""
    for key, what in (("title", "documents"), ("context", "contexts")):
        found = list(dict.fromkeys(getattr(question, key) for question in questions))
        numbers = held_out([range(len(found))], every=HELD_OUT_EVERY, seed=seed)
        held = {found[number] for number in numbers}
        if held:
            say_held_out(len(held), len(found), what, seed)
            kept = [question for question in questions if getattr(question, key) not in held]
            return kept, [question for question in questions if getattr(question, key) in held]
    contexts = len({question.context for question in questions})
    raise DataError(f"too few contexts, {contexts}, to hold some out; give others with --valid")


@dataclass(frozen=True)
class ContextWindow:
    """`[CLS] question [SEP] part of the context [SEP]`."""

    ids: list[int]
    before: int
    """How many ids stand before those of the context."""
    first: int
    """Which token of the context is the first of the window."""

    @property
    def count(self) -> int:
        """How many tokens of the context it has."""
        return len(self.ids) - self.before - 1

    def within(self, place: tuple[int, int] | None) -> tuple[int, int]:
        """The positions of a stretch of the context; those of [CLS] where it is not all in the window."""
        if place is None or place[0] < self.first or place[1] >= self.first + self.count:
            return 0, 0
        return place[0] - self.first + self.before, place[1] - self.first + self.before


@dataclass(frozen=True)
class Read:
    """A question and its context as a model reads them."""

    offsets: list[tuple[int, int]]
    """The characters [begin, end) of each token of the context."""
    windows: list[ContextWindow]

    def place(self, answer: Answer) -> tuple[int, int] | None:
        """The first and the last token of the context that have a character of the answer; None where none has."""
        first = bisect_right(self.offsets, answer.start, key=lambda each: each[1])
        last = bisect_left(self.offsets, answer.start + len(answer.text), key=lambda each: each[0]) - 1
        return (first, last) if first <= last else None

    def targets(self, answers: Sequence[Answer]) -> list[tuple[int, int]]:
        """Of each window the positions of the first answer's ends; those of [CLS] where it is not all in the window."""
        place = self.place(answers[0]) if answers else None
        return [window.within(place) for window in self.windows]


class Reader:
    """Makes windows of questions and contexts; neighbours have half or more of their part of the context in common.

    A question has at most 64 tokens, and at most half of the window; what is behind them is cut off.
    """

    def __init__(self, tokenizer: EncoderTokenizer, context: int, *, longest: int = LONGEST, stride: int = STRIDE):
        self.tokenizer, self.longest, self.stride = tokenizer, min(longest, context), stride
        self.question = min(LONGEST_QUESTION, (self.longest - 3) // 2)
        if self.question < 1:
            raise ConfigError(
                f"a window of {self.longest} tokens, the less of data.longest and model.context, has no place for a "
                "question and a context; make it 5 or more"
            )
        self.cut = 0
        """Questions that were too long."""

    def __call__(self, pairs: Sequence[tuple[str, str]]) -> list[Read]:
        """The windows of each (question, context)."""
        questions, contexts = (list(dict.fromkeys(texts)) for texts in zip(*pairs)) if pairs else ([], [])
        asked = dict(zip(questions, self.tokenizer.encode(questions)))
        told = dict(zip(contexts, self.tokenizer.with_offsets(contexts)))  # many questions have the same one
        for question, context in pairs:
            if not told[context][0]:
                raise DataError(f"the context of the question {question!r:.60} has no words; give one that has")
            self.cut += len(asked[question]) > self.question
        return [Read(told[context][1], self._windows(asked[question], told[context][0])) for question, context in pairs]

    def _windows(self, question: list[int], context: list[int]) -> list[ContextWindow]:
        question = question[: self.question]
        room = self.longest - len(question) - 3
        step = min(self.stride, (room + 1) // 2)
        firsts = range(0, max(len(context) - room, 0) + step, step)
        parts = [(first, context[first : first + room]) for first in firsts]
        return [
            ContextWindow(self.tokenizer.wrapped(question, part), len(question) + 2, first) for first, part in parts
        ]


def stored_questions(directory: Path) -> list[Question]:
    """The questions to validate on, as they were laid down."""
    file = directory / "valid.json"
    try:
        found = parse_json(file.read_text(encoding="utf-8"))
        return [Question(**{**each, "answers": tuple(Answer(**one) for one in each["answers"])}) for each in found]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(f"{file} is damaged ({error}); begin the run again") from None


def pairs_of(questions: Sequence[Question]) -> list[tuple[str, str]]:
    """Each question with its context."""
    return [(question.text, question.context) for question in questions]


def store_questions(asked: Split[Question], reader: Reader, directory: Path) -> None:
    """Lays the windows to learn from and the questions to validate on down."""
    train, valid = _placed(asked.train, reader), _placed(asked.valid, reader)
    rows = [window.ids for _, read in train for window in read.windows]
    targets = [target for question, read in train for target in read.targets(question.answers)]
    impossible = sum(question.impossible for question, _ in train)
    store = answer_store(rows, targets)
    store.about = {"impossible": impossible > 0}
    store.save(directory / "train")
    (directory / "valid.json").write_text(json.dumps([asdict(question) for question, _ in valid]), encoding="utf-8")
    without = f", {impossible:,} of them without an answer" if impossible else ""
    say(f"{counted(len(train), 'question')} to learn from{without}, {len(valid):,} to validate on")
    say(
        f"{counted(len(rows), 'window')} of at most {reader.longest} tokens, {targets.count((0, 0)):,} of them without "
        "an answer"
    )
    if reader.cut:
        warn(f"questions longer than {reader.question} tokens, which lose their end: {reader.cut:,}")


def _placed(questions: list[Question], reader: Reader) -> list[tuple[Question, Read]]:
    """The questions as a model reads them, without those whose answer it cannot point at."""
    read = list(zip(questions, reader(pairs_of(questions))))
    placed = [(question, each) for question, each in read if question.impossible or each.place(question.answers[0])]
    if len(placed) < len(read):
        warn(f"questions with an answer of which no character is read, left out: {len(read) - len(placed):,}")
    if not placed:
        raise DataError("no question is left; give others")
    return placed
