"""Exact match and F1 of answers to questions, as SQuAD's own evaluation counts them."""

import re
import string
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import compress

from manyheads.core.errors import DataError
from manyheads.core.words import counted

ARTICLES = re.compile(r"\b(?:a|an|the)\b")
NO_PUNCTUATION = str.maketrans("", "", string.punctuation)


@dataclass(frozen=True)
class AnswerScores:
    """How well questions are answered, in percent; None is of questions that there are none of."""

    exact: float
    f1: float
    questions: int
    answerable_exact: float | None
    answerable_f1: float | None
    impossible_right: float | None
    """How many of the questions without an answer are left without one."""


def normalised(text: str) -> str:
    """The text in lower case, without ASCII punctuation and English articles, with single spaces between words."""
    return " ".join(ARTICLES.sub(" ", text.lower().translate(NO_PUNCTUATION)).split())


def exact(predicted: str, gold: str) -> float:
    """1 where both are the same text once normalised, 0 otherwise."""
    return float(normalised(predicted) == normalised(gold))


def overlap(predicted: str, gold: str) -> float:
    """F1 of the words that both have, each as often as both have it; of nothing and nothing it is 1."""
    found, right = normalised(predicted).split(), normalised(gold).split()
    if not found or not right:
        return float(found == right)
    return 2 * (Counter(found) & Counter(right)).total() / (len(found) + len(right))


def answer_scores(predicted: Sequence[str], golds: Sequence[Sequence[str]]) -> AnswerScores:
    """Compares each answer with the nearest of its question's right ones; none, or only "", means there is no answer.

    As in SQuAD 2.0, a right answer of nothing but articles and punctuation is passed over where there are others.
    """
    if len(predicted) != len(golds):
        raise DataError(
            f"there are {len(predicted)} answers to {len(golds)} questions; give one to each, or an empty one"
        )
    if not golds:
        raise DataError("there is no question to score")
    exacts, overlaps = ([_best(measure, *pair) for pair in zip(predicted, golds)] for measure in (exact, overlap))
    answerable = [any(each) for each in golds]
    return AnswerScores(
        exact=_percent(exacts) or 0.0,
        f1=_percent(overlaps) or 0.0,
        questions=len(golds),
        answerable_exact=_percent(compress(exacts, answerable)),
        answerable_f1=_percent(compress(overlaps, answerable)),
        impossible_right=_percent(compress(exacts, (not each for each in answerable))),
    )


def _best(measure: Callable[[str, str], float], predicted: str, golds: Sequence[str]) -> float:
    return max(measure(predicted, gold) for gold in [gold for gold in golds if normalised(gold)] or [""])


def _percent(values: Iterable[float]) -> float | None:
    kept = list(values)
    return 100 * sum(kept) / len(kept) if kept else None


def answer_table(scores: AnswerScores) -> str:
    """The scores as lines to print."""
    lines = [
        f"exact match {scores.exact:7.2f}   of {counted(scores.questions, 'question')}",
        f"F1          {scores.f1:7.2f}",
    ]
    if scores.impossible_right is not None:
        lines.append(f"without an answer, and said so {scores.impossible_right:7.2f} %")
    if scores.impossible_right is not None and scores.answerable_f1 is not None:
        lines.append(f"with an answer: exact match {scores.answerable_exact:7.2f}, F1 {scores.answerable_f1:7.2f}")
    return "\n".join(lines)
