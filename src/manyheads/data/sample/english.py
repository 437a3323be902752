"""English: noun phrases, verb groups with do-support, and the order of a clause."""

from manyheads.data.sample.clauses import Adverbial, Clause, Phrase
from manyheads.data.sample.german import join
from manyheads.data.sample.verbs import Verb

OBJECT_PRONOUNS = {"I": "me", "he": "him", "she": "her", "we": "us", "they": "them", "who": "whom"}
BE = {"present": {"I": "am", "he": "is"}, "past": {"I": "was", "he": "was"}}
PLAIN_AUXILIARIES = {"future": "will", "can": "can", "must": "must", "should": "should"}


def phrase(part: Phrase, role: str = "subject") -> str:
    """A noun phrase, or a pronoun in the form its role asks for."""
    if part.silent:
        return ""
    if part.pronoun:
        return OBJECT_PRONOUNS.get(part.pronoun, part.pronoun) if role == "object" else part.pronoun
    assert part.noun is not None
    noun = part.noun.english_plural if part.plural else part.noun.english
    text = join(part.adjective.english if part.adjective else "", noun)
    determiner = f"{phrase(part.owner)}'s" if part.owner else part.determiner
    if determiner == "this" and part.plural:
        determiner = "these"
    if determiner == "all":
        determiner = "all the"
    if determiner == "a" and text[0] in "aeiou":
        determiner = "an"
    text = join(determiner, text)
    if part.relative:
        person = "person" in part.noun.tags
        word = "that" if not person else "who" if part.relative.case == "nominative" else "whom"
        text = join(text, word, order(part.relative.clause))
    return join(text, "and", phrase(part.partner, role)) if part.partner else text


def third_person(base: str) -> str:
    """The form of the present that goes with he, she and it."""
    if base == "have":
        return "has"
    if base.endswith("y") and base[-2] not in "aeiou":
        return base[:-1] + "ies"
    return base + ("es" if base.endswith(("s", "x", "z", "ch", "sh", "o")) else "s")


def present(base: str, agreement: str) -> str:
    """The simple present, for I, you, he or we."""
    if base == "be":
        return BE["present"].get(agreement, "are")
    return third_person(base) if agreement == "he" else base


def verb_group(verb: Verb, tense: str, agreement: str, split: bool) -> tuple[str, str]:
    """The auxiliary and the rest; `split` asks for an auxiliary, as questions and negation do."""
    third = agreement == "he"
    if tense == "perfect":
        return ("has" if third else "have"), verb.past_participle
    if tense in PLAIN_AUXILIARIES:
        return PLAIN_AUXILIARIES[tense], verb.english
    if verb.english == "be":
        return (present("be", agreement) if tense == "present" else BE["past"].get(agreement, "were")), ""
    base, past, complement = verb.english, verb.past, ""
    if tense in ("want", "wanted"):
        base, past, complement = "want", "wanted", f"to {verb.english}"
    elif tense == "had to":
        base, past, complement = "have", "had", f"to {verb.english}"
    in_past = tense in ("past", "wanted", "had to")
    if split:
        return ("did" if in_past else "does" if third else "do"), join(base, complement)
    return "", join(past if in_past else present(base, agreement), complement)


def adverbial(part: Adverbial | None) -> str:
    """A phrase of place, time or manner."""
    if part is None:
        return ""
    return join(part.english, phrase(part.phrase, "object") if part.phrase else "")


def complements(clause: Clause) -> str:
    """All that follows the verb."""
    return join(
        clause.verb.particle,
        phrase(clause.indirect, "object") if clause.indirect else "",
        phrase(clause.direct, "object") if clause.direct else "",
        adverbial(clause.manner), adverbial(clause.directed), adverbial(clause.free),
        "" if clause.time_first else adverbial(clause.time),
    )  # fmt: skip


def order(clause: Clause, question: bool = False, opening: str = "") -> str:
    """The clause as a statement, or as a question with its auxiliary before the subject."""
    auxiliary, rest = verb_group(clause.verb, clause.tense, clause.subject.agreement, question or clause.negative)
    subject = phrase(clause.subject)
    frequency = adverbial(clause.frequency)
    if clause.time_first:
        opening = join(opening, adverbial(clause.time))
    if question:
        negation = "not" if clause.negative else ""
        return join(opening, auxiliary, subject, negation, frequency, rest, complements(clause))
    if clause.negative:
        auxiliary = "cannot" if auxiliary == "can" else f"{auxiliary} not"
    return join(opening, subject, auxiliary, frequency, rest, complements(clause))


def infinitive(clause: Clause) -> str:
    """The clause without its subject, as it follows "to"."""
    return join("to", clause.verb.english, complements(clause))
