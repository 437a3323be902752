"""What a language model makes of text it has not seen: perplexity and bits, and questions with choices."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from manyheads.core.errors import ConfigError, DataError
from manyheads.core.log import counting
from manyheads.core.words import counted
from manyheads.data.readers.corpus import json_in, read_lines
from manyheads.data.readers.documents import Piece
from manyheads.data.readers.examples import choices_in
from manyheads.generate.score import log_probabilities, windows

if TYPE_CHECKING:
    from manyheads.tasks.language.use import LanguageModel

WINDOWS_AT_ONCE = 256


@dataclass(frozen=True)
class TextScores:
    """How well a text is predicted, by four yardsticks of its length; `nats` are all of it together."""

    nats: float
    tokens: int
    letters: int
    bytes: int
    words: int
    """Words between spaces, and newlines, as word-level corpora count them."""
    window: int
    stride: int

    @property
    def loss(self) -> float:
        """In nats by token."""
        return self.nats / self.tokens

    @property
    def perplexity(self) -> float:
        return math.exp(self.loss)

    @property
    def word_perplexity(self) -> float:
        return math.exp(min(self.nats / self.words, 700.0))

    @property
    def bits_per_byte(self) -> float:
        return self.nats / math.log(2) / self.bytes

    @property
    def bits_per_character(self) -> float:
        return self.nats / math.log(2) / self.letters


def score_text(model: "LanguageModel", pieces: Iterable[Piece], *, stride: int | None = None) -> TextScores:
    """Predicts every token of every document once, in windows of the model's context that move on by `stride`.

    Unset, the stride is half of the context: behind the first window each token is predicted from at least half a
    context before it. A document's first token is predicted from what begins a text; its end is not predicted.
    """
    context: int = model.model.config.context
    stride = max(context // 2, 1) if stride is None else stride
    if not 1 <= stride <= context:
        raise ConfigError(f"stride is {stride}; it must be at least 1 and at most the model's context, {context}")
    begun = model.tokenizer.start or list(model.special.stop_ids[:1])
    nats, tokens, letters, size, words = 0.0, 0, 0, 0, 0
    ids: list[int] = []
    with counting("predicting tokens") as show:
        for piece in pieces:
            ids += model.tokenizer.encode([piece.text])[0]
            letters, size = letters + len(piece.text), size + len(piece.text.encode("utf-8", "replace"))
            words += len(piece.text.split()) + piece.text.count("\n")
            if not piece.ends:
                continue
            document, ids = ids, []
            # Without anything that begins a text, its first token is read and not predicted.
            before, rest = (begun, document) if begun else (document[:1], document[1:])
            rows = windows(rest, before, context, stride)
            for first in range(0, len(rows), WINDOWS_AT_ONCE):
                found = log_probabilities(model.model, rows[first : first + WINDOWS_AT_ONCE])
                nats -= sum(each.total for each in found)
                tokens += sum(each.tokens for each in found)
                show(tokens)
    if not tokens:
        raise DataError("there is no token to predict in this text")
    return TextScores(nats, tokens, letters, size, max(words, 1), context, stride)


def text_table(scores: TextScores) -> str:
    """The scores as lines to print."""
    words = counted(scores.words, "word")
    return (
        f"perplexity          {scores.perplexity:10.3f}   by token, {scores.tokens:,} of them\n"
        f"perplexity by word  {scores.word_perplexity:10.3f}   {words}, newlines counted as such\n"
        f"bits per byte       {scores.bits_per_byte:10.4f}   {counted(scores.bytes, 'byte')}\n"
        f"bits per character  {scores.bits_per_character:10.4f}   {counted(scores.letters, 'character')}\n"
        f"loss                {scores.loss:10.4f}   nats by token\n"
        f"window {counted(scores.window, 'token')}, stride {scores.stride}"
    )


@dataclass(frozen=True)
class ChoiceScores:
    """How often the right candidate is the likeliest: as it is, and by the log-probability of a character."""

    questions: int
    accuracy: float
    normalised: float


@dataclass(frozen=True)
class ChoiceQuestion:
    """A beginning, candidates to go on with, and the number of the right one."""

    context: str
    choices: list[str]
    answer: int


def read_choice_questions(path: Path) -> list[ChoiceQuestion]:
    """One JSON object a line: {"context": …, "choices": […], "answer": number from 0}."""
    questions = []
    for number, line in enumerate(read_lines(path), start=1):
        if not line.strip():
            continue
        place = f"{path}, line {number}: not a question"
        context, choices = choices_in(entry := json_in(line, place), place)
        answer = entry.get("answer")
        if not all(choices) or type(answer) is not int or not 0 <= answer < len(choices):
            raise DataError(
                f'{place}; write {{"context": "…", "choices": ["…", "…"], "answer": 0}}, with at least two choices '
                "and the answer's number counted from 0"
            )
        questions.append(ChoiceQuestion(context, choices, answer))
    if not questions:
        raise DataError(f"{path} has no questions")
    return questions


def score_choices(model: "LanguageModel", questions: Iterable[ChoiceQuestion]) -> ChoiceScores:
    """Zero-shot, as GPT-2 was tested: each candidate's log-probability behind the context, nothing being trained."""
    questions = list(questions)
    rows = [(question.context, choice) for question in questions for choice in question.choices]
    totals = (each.total for each in model.log_probabilities(rows))
    plain = normalised = 0
    for question in questions:
        found = list(islice(totals, len(question.choices)))
        by_letter = [total / len(choice) for total, choice in zip(found, question.choices)]
        plain += found.index(max(found)) == question.answer
        normalised += by_letter.index(max(by_letter)) == question.answer
    return ChoiceScores(len(questions), plain / len(questions), normalised / len(questions))


def choice_table(scores: ChoiceScores) -> str:
    """The scores as lines to print."""
    return (
        f"accuracy             {100 * scores.accuracy:6.2f} %   "
        f"of {counted(scores.questions, 'question')}, by log-probability\n"
        f"accuracy, normalised {100 * scores.normalised:6.2f} %   by log-probability a character"
    )
