"""How clauses become a sentence: each function here puts the same clauses into English and into German."""

from tools.sample import english, german
from tools.sample.clauses import Clause


def stated(clause: Clause) -> tuple[str, str]:
    """A statement, finite verb second."""
    return english.order(clause), german.order(clause, "second")


def asked(clause: Clause) -> tuple[str, str]:
    """A question that yes or no answers, finite verb first."""
    return english.order(clause, question=True) + "?", german.order(clause, "first") + "?"


def asked_with(word: str, german_word: str, clause: Clause) -> tuple[str, str]:
    """A question behind a question word."""
    source = english.order(clause, question=True, opening=clause.sure("opening", word))
    return source + "?", german.order(clause, "first", clause.sure("opening", german_word)) + "?"


def asked_who(clause: Clause) -> tuple[str, str]:
    """A question about its own subject, in the order of a statement."""
    return english.order(clause) + "?", german.order(clause, "second") + "?"


def before_main(word: str, german_word: str, main: Clause, sub: Clause) -> tuple[str, str]:
    """A subordinate clause and then the main one, whose finite verb comes next."""
    source = f"{sub.sure('opening', word)} {english.order(sub)}, {english.order(main)}"
    opening = german.order(sub, "last", sub.sure("opening", german_word))
    return source, german.order(main, "second", opening + ",")


def after_main(word: str, german_word: str, main: Clause, sub: Clause) -> tuple[str, str]:
    """A main clause and then the subordinate one; without words where its own subject is the word that opens it."""
    opening, german_opening = sub.sure("opening", word), sub.sure("opening", german_word)
    source = english.join(english.order(main), opening, english.order(sub))
    return source, f"{german.order(main, 'second')}, {german.order(sub, 'last', german_opening)}"


def side_by_side(word: str, first: Clause, second: Clause) -> tuple[str, str]:
    """Two main clauses joined by and, but or so."""
    german_word = second.sure("opening", {"and": "und", "but": "aber", "so": "deshalb"}[word])
    comma = "" if word == "and" else ","
    source = f"{english.order(first)}{comma} {second.sure('opening', word)} {english.order(second)}"
    if word == "so":  # only this one takes the first place in its clause
        second_half = german.order(second, "second", german_word)
    else:
        second_half = f"{german_word} {german.order(second, 'second')}"
    return source, f"{german.order(first, 'second')}{comma} {second_half}"


def attempted(main: Clause, inner: Clause) -> tuple[str, str]:
    """A main clause with the infinitive of what is tried."""
    # a bare infinitive stands without a comma, an extended one needs it
    comma = "," if german.middle_field(inner) else ""
    target = f"{german.order(main, 'second')}{comma} {german.order(inner, 'zu')}"
    return f"{english.order(main)} {english.infinitive(inner)}", target


def intended(main: Clause, inner: Clause) -> tuple[str, str]:
    """A main clause with the infinitive of what it is done for."""
    purpose = english.join(*(inner.possible("opening", word) for word in ("in", "order")))
    source = f"{english.order(main)} {purpose} {english.infinitive(inner)}"
    german_purpose = inner.possible("opening", "um")
    return source, f"{german.order(main, 'second')}, {german_purpose} {german.order(inner, 'zu')}"
