"""How well trees agree with those of a treebank, counted as the program EVALB does with Collins' parameters."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

from manyheads.core.errors import DataError
from manyheads.core.words import counted
from manyheads.data.trees import TOP, Span, Tree, Word, constituents

PUNCTUATION = frozenset({",", ":", "``", "''", "."})
EQUAL = {"PRT": "ADVP"}


@dataclass(frozen=True)
class ParseScores:
    """How good trees are; all but `crossing` and `sentences` are percent."""

    precision: float
    recall: float
    f1: float
    exact: float
    """Sentences all of whose constituents are right, and none is missing."""
    crossing: float
    """Constituents found that cross one in truth, in a sentence on average."""
    no_crossing: float
    """Sentences without such a one."""
    tagging: float
    """Words with the right tag, punctuation included."""
    sentences: int


class _Counts(NamedTuple):
    """What is counted in a sentence."""

    matched: int
    gold: int
    found: int
    crossing: int
    right_tags: int
    words: int


def evalb(gold: Sequence[Tree], found: Sequence[Tree]) -> ParseScores:
    """The scores over all sentences, each constituent counting as much as any other."""
    return _scores(_counted(gold, found))


def by_length(
    gold: Sequence[Tree], found: Sequence[Tree], bins: Sequence[int] = (10, 20, 30, 40)
) -> list[tuple[str, ParseScores]]:
    """The scores of the sentences with at most so many words, punctuation included; lengths that none has are left out.

    `bins` are the largest lengths of each, from small to large; all that are longer come last.
    """
    counts = _counted(gold, found)
    names = [f"{low + 1} to {high} words" for low, high in zip((0, *bins), bins)]
    scores: list[tuple[str, ParseScores]] = []
    for name, low, high in zip([*names, f"more than {bins[-1]}"], (0, *bins), (*bins, None)):
        fitting = [each for each in counts if low < each.words and (high is None or each.words <= high)]
        if fitting:
            scores.append((name, _scores(fitting)))
    return scores


def _counted(gold: Sequence[Tree], found: Sequence[Tree]) -> list[_Counts]:
    if len(gold) != len(found) or not gold:
        raise DataError(
            f"there are {counted(len(gold), 'gold tree')} but {len(found):,} found; give one found tree for each"
            if gold
            else "there is no gold tree to compare with; give at least one"
        )
    return [_sentence(number, *pair) for number, pair in enumerate(zip(gold, found), start=1)]


def _sentence(number: int, gold: Tree, found: Tree) -> _Counts:
    truth, guess = gold.words, found.words
    _refuse_other_words(number, truth, guess)
    kept = [word.tag not in PUNCTUATION for word in truth]
    right, guessed = _brackets(gold, kept), _brackets(found, kept)
    return _Counts(
        matched=(Counter(right) & Counter(guessed)).total(),
        gold=len(right),
        found=len(guessed),
        crossing=sum(any(_cross(one, other) for other in right) for one in guessed),
        right_tags=sum(one.tag == other.tag for one, other in zip(truth, guess)),
        words=len(truth),
    )


def _refuse_other_words(number: int, gold: Sequence[Word], found: Sequence[Word]) -> None:
    for place, (one, other) in enumerate(zip(gold, found), start=1):
        if one.text != other.text:
            raise DataError(
                f"sentence {number}: word {place} is {one.text!r} in the gold tree but {other.text!r} in the one "
                "found; compare trees of the same sentences"
            )
    if len(gold) != len(found):
        shorter, longer = sorted((gold, found), key=len)
        raise DataError(
            f"sentence {number}: {counted(len(gold), 'word')} in the gold tree but {len(found)} in the one found, "
            f"the first without a partner is {longer[len(shorter)].text!r}; compare trees of the same sentences"
        )


def _brackets(tree: Tree, kept: Sequence[bool]) -> list[Span]:
    """The constituents that count, over the words that count."""
    before = [0, *accumulate(kept)]
    counting = (
        Span(before[first], before[behind], label) for first, behind, label in constituents(tree) if label != TOP
    )
    return [span._replace(label=EQUAL.get(span.label, span.label)) for span in counting if span.first < span.behind]


def _cross(one: Span, other: Span) -> bool:
    """Whether two constituents share words and each has some that the other has not."""
    return one.first < other.first < one.behind < other.behind or other.first < one.first < other.behind < one.behind


def _scores(counts: Sequence[_Counts]) -> ParseScores:
    total = _Counts(*map(sum, zip(*counts)))
    return ParseScores(
        precision=_percent(total.matched, total.found),
        recall=_percent(total.matched, total.gold),
        f1=_percent(2 * total.matched, total.gold + total.found),  # 2PR / (P + R), with the fractions cleared
        exact=_percent(sum(each.matched == each.gold == each.found for each in counts), len(counts)),
        crossing=total.crossing / len(counts),
        no_crossing=_percent(sum(not each.crossing for each in counts), len(counts)),
        tagging=_percent(total.right_tags, total.words),
        sentences=len(counts),
    )


def _percent(part: int, whole: int) -> float:
    return 100 * part / whole if whole else 0.0
