"""A reader of questions about texts, in the JSON of SQuAD 1.1 and 2.0, plain or packed."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from manyheads.core.errors import DataError
from manyheads.core.files import parse_json
from manyheads.core.log import warn
from manyheads.data.readers.corpus import longest_line, read_lines

LINES_IN_ONE = 100  # of any other file: published ones are all on one line
KINDS = {dict: "an object", list: "a list", str: "a string", int: "a whole number"}


@dataclass(frozen=True)
class Answer:
    """A stretch of a context."""

    text: str
    start: int
    """Which letter of the context it begins with, from 0."""


@dataclass(frozen=True)
class Question:
    """A question about a context, and the answers that are right."""

    id: str
    text: str
    context: str
    answers: tuple[Answer, ...]
    title: str
    """Of the document that the context is from; empty where the file has none."""

    @property
    def impossible(self) -> bool:
        """Whether the context does not answer it."""
        return not self.answers


def read_questions(path: Path) -> list[Question]:
    """All questions of a file that ask something; what is mended in them, and how many are left out, is told."""
    path = Path(path)
    if not path.exists():
        raise DataError(f"{path} is not there; check the path")
    try:
        content = parse_json("\n".join(read_lines(path, longest=LINES_IN_ONE * longest_line())))
    except ValueError as error:
        raise DataError(f"{path}: not JSON ({error}); give a file in the layout of SQuAD") from error
    questions, mended, left_out = [], 0, 0
    for found in _questions(content, str(path)):
        placed = tuple(_placed(answer, found.context) for answer in found.answers)
        if not all(placed):
            left_out += 1
            continue
        if not found.context.strip():
            raise DataError(f"{path}: the context of question {found.id!r} is empty; mend the file")
        mended += placed != found.answers
        questions.append(replace(found, answers=placed))
    if not questions:
        some = f"no question of {left_out:,} has its answers in its context"
        raise DataError(f"{path}: {some if left_out else 'it has no question'}; give a file in the layout of SQuAD")
    asked = [each for each in questions if each.text.strip()]
    told = {
        "whose answer stands elsewhere in the context, where the nearest place is taken": mended,
        "whose answer stands nowhere in the context, left out": left_out,
        "that are empty, left out": len(questions) - len(asked),
    }
    for what, count in told.items():
        if count:
            warn(f"{path}: questions {what}: {count:,}")
    return asked


def _questions(content: Any, place: str) -> Iterator[Question]:
    """The questions as they stand in the file."""
    for document, place_of_document in _each(content, "data", place):
        title = _at(document, "title", str, place_of_document) if "title" in document else ""
        for paragraph, place_of_paragraph in _each(document, "paragraphs", place_of_document):
            context = _at(paragraph, "context", str, place_of_paragraph)
            for entry, place_of_question in _each(paragraph, "qas", place_of_paragraph):
                number = entry.get("id") if type(entry.get("id")) is int else _at(entry, "id", str, place_of_question)
                text = _at(entry, "question", str, place_of_question)
                yield Question(str(number), text, context, _answers(entry, place_of_question), title)


def _answers(entry: dict, place: str) -> tuple[Answer, ...]:
    impossible = entry.get("is_impossible")
    if impossible is True and "answers" not in entry:
        return ()
    answers = tuple(
        Answer(_at(answer, "text", str, where), _at(answer, "answer_start", int, where))
        for answer, where in _each(entry, "answers", place)
    )
    if impossible is not None and impossible is not (not answers):
        raise DataError(
            f"{place}: is_impossible is {json.dumps(impossible)}, but the number of its answers is {len(answers)}; "
            "mend one of them"
        )
    return answers


def _each(entry: Any, key: str, place: str) -> Iterator[tuple[dict, str]]:
    """The objects of the list at a key, each with the words that say where it stands."""
    for number, found in enumerate(_at(entry, key, list, place)):
        where = f"{place}, {key}[{number}]" if key == "data" else f"{place}.{key}[{number}]"
        if not isinstance(found, dict):
            raise DataError(f"{where}: not an object; give a file in the layout of SQuAD")
        yield found, where


def _at(entry: Any, key: str, kind: type, place: str) -> Any:
    if not isinstance(entry, dict):
        raise DataError(f"{place}: a list or a value where SQuAD has an object with the key 'data'; give such a file")
    if key not in entry:
        raise DataError(
            f"{place}: no key {key!r}, which SQuAD's layout has there; its keys are {', '.join(entry) or 'none'}; "
            "mend the file"
        )
    if type(entry[key]) is not kind:
        raise DataError(f"{place}: {key!r} is not {KINDS[kind]}, as in SQuAD's layout; mend the file")
    return entry[key]


def _placed(answer: Answer, context: str) -> Answer | None:
    """The answer where its text stands in the context, as near as can be to where it was said to; None if nowhere."""
    text, start = answer.text, answer.start
    if not text.strip():
        return None
    if start >= 0 and context.startswith(text, start):
        return answer
    before, behind = context.rfind(text, 0, max(start, 0) + len(text)), context.find(text, max(start, 0))
    places = [place for place in (before, behind) if place >= 0]
    return Answer(text, min(places, key=lambda place: abs(place - start))) if places else None
