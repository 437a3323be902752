"""Which German word renders which English word, known because both were written from the same clauses.

A sentence's clauses are put into words once more with marks on the words, and words that carry the mark of the same
thing in the same role are linked: surely where each plainly renders the thing, possibly where one only shares in it.
"""

from collections.abc import Iterator
from dataclasses import fields, replace
from itertools import count
from typing import Any

from tools.sample.clauses import Adverbial, Clause, Phrase, Relative, Sentence, worded
from tools.sample.marks import is_sure, marks_of, weakened

WordLinks = frozenset[tuple[int, int]]

# English and German words of set phrases that are not rendered one by one, by how many words each side has:
# "next to" neben, "in front of" vor, "at night" in der Nacht, "in the morning" am Morgen
SHAPES = {(2, 1): "0-0 1?0", (3, 1): "0?0 1-0 2?0", (2, 3): "0-0 1?1 1-2", (3, 2): "0-0 1?0 2-1"}
COMPARATIVE = "0?0 1-0 2-1"  # "more beautiful than" schöner als


def align(sentence: Sentence) -> tuple[WordLinks, WordLinks]:
    """The sure links of a sentence and the possible ones, which include them, as pairs of word numbers from 0."""
    numbers = count(1)
    marked = tuple(_numbered(clause, numbers) for clause in sentence.clauses)
    source, target = ([marks_of(word) for word in text.split()] for text in worded(sentence.wording, marked))
    sure, possible = set(), set()
    for source_place, source_marks in enumerate(source):
        for target_place, target_marks in enumerate(target):
            shared = _shared(source_marks, target_marks)
            if shared:
                possible.add((source_place, target_place))
            if any(shared):
                sure.add((source_place, target_place))
    return frozenset(sure), frozenset(possible)


def _shared(source_marks: str, target_marks: str) -> list[bool]:
    """For each thing and role that two words have in common, whether both plainly render it."""
    return [
        is_sure(one) and is_sure(other)
        for one in source_marks
        for other in target_marks
        if weakened(one) == weakened(other)
    ]


def _numbered(part: Any, numbers: Iterator[int]) -> Any:
    """A copy of a clause or a part of one, in which everything that words can render has a number of its own."""
    inner = {
        field.name: _numbered(value, numbers)
        for field in fields(part)
        if isinstance(value := getattr(part, field.name), Adverbial | Clause | Phrase | Relative)
    }
    if isinstance(part, Relative):
        return replace(part, **inner)
    part = replace(part, number=next(numbers), **inner)
    return _with_marked_words(part) if isinstance(part, Adverbial) else part


def _with_marked_words(part: Adverbial) -> Adverbial:
    source, target = part.english.split(), part.german.split()
    for link in _word_links(source, target).split():
        place, kind, role = link
        source[int(place)] = (part.sure if kind == "-" else part.possible)(role, source[int(place)])
    target = [part.sure(str(place), word) for place, word in enumerate(target)]
    return replace(part, english=" ".join(source), german=" ".join(target))


def _word_links(source: list[str], target: list[str]) -> str:
    if source[0] == "more":
        return COMPARATIVE
    if len(source) == len(target):
        return " ".join(f"{place}-{place}" for place in range(len(source)))
    return SHAPES[len(source), len(target)]
