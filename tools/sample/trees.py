"""The tree of a sentence's English side, made of the clauses that its words are made of, and checked against them."""

import re
from functools import partial

from tools.sample import wording
from tools.sample.brackets import (
    brackets,
    infinitive,
    members,
    phrase,
    question,
    question_word,
    statement,
    subordinate,
    without_subject,
)
from tools.sample.clauses import Clause, Sentence

TOKEN = re.compile(r"can(?=not\b)|'s|\w+|[,.?]", re.IGNORECASE)
LEAF = re.compile(r"\(\S+ ([^()]+)\)")


def tree_of(sentence: Sentence) -> str:
    """The tree in the Penn Treebank's brackets, with the very words and marks of the sentence as it is written."""
    made = sentence.wording
    given = made.args if isinstance(made, partial) else ()
    tree = TREES[made.func if isinstance(made, partial) else made](*given, *sentence.clauses)
    words = words_of(sentence.source)
    if words[0][0].isupper():
        tree = LEAF.sub(lambda leaf: _capital(leaf[0], leaf[1]), tree, count=1)
    if words[-1] in ".?":
        tree = tree.removesuffix(")") + f" (. {words[-1]}))"
    assert LEAF.findall(tree) == words, f"{tree} is not the tree of {sentence.source!r}"
    return brackets("TOP", tree)


def words_of(text: str) -> list[str]:
    """The words of a sentence as the treebank has them: marks, the genitive's ending and `not` on their own."""
    return TOKEN.findall(text)


def _capital(leaf: str, word: str) -> str:
    return leaf.removesuffix(f"{word})") + f"{word[0].upper()}{word[1:]})"


# One function for each of `wording`, with its name and its arguments; the German ones have no say here.


def stated(clause: Clause) -> str:
    """A statement."""
    return statement(clause)


def asked(clause: Clause) -> str:
    """A question that yes or no answers."""
    return question(clause)


def asked_with(word: str, _: str, clause: Clause) -> str:
    """A question behind a question word."""
    return brackets("SBARQ", question_word(word), question(clause))


def asked_who(clause: Clause) -> str:
    """A question about its own subject."""
    return brackets("SBARQ", phrase(clause.subject), brackets("SQ", members(without_subject(clause))))


def before_main(word: str, _: str, main: Clause, sub: Clause) -> str:
    """A subordinate clause and then the main one."""
    return brackets("S", subordinate(word, sub), "(, ,)", members(main))


def after_main(word: str, _: str, main: Clause, sub: Clause) -> str:
    """A main clause with the subordinate one below its verb."""
    return statement(main, subordinate(word, sub))


def side_by_side(word: str, first: Clause, second: Clause) -> str:
    """Two main clauses; the treebank has `so` between them as an adverb."""
    comma = "" if word == "and" else "(, ,)"
    return brackets("S", statement(first), comma, brackets("RB" if word == "so" else "CC", word), statement(second))


def attempted(main: Clause, inner: Clause) -> str:
    """A main clause with the infinitive of what is tried."""
    return statement(main, infinitive(inner))


def intended(main: Clause, inner: Clause) -> str:
    """A main clause with the infinitive of what it is done for."""
    return statement(main, brackets("SBAR", "(IN in) (NN order)", infinitive(inner)))


TREES = {
    wording.stated: stated,
    wording.asked: asked,
    wording.asked_with: asked_with,
    wording.asked_who: asked_who,
    wording.before_main: before_main,
    wording.after_main: after_main,
    wording.side_by_side: side_by_side,
    wording.attempted: attempted,
    wording.intended: intended,
}
