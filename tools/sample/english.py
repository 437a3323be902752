"""English: noun phrases, verb groups with do-support, and the order of a clause."""

from tools.sample.clauses import Adverbial, Clause, Phrase
from tools.sample.german import join

OBJECT_PRONOUNS = {"I": "me", "he": "him", "she": "her", "we": "us", "they": "them", "who": "whom"}
BE = {"present": {"I": "am", "he": "is"}, "past": {"I": "was", "he": "was"}}
PLAIN_AUXILIARIES = {"future": "will", "can": "can", "must": "must", "should": "should"}


def phrase(part: Phrase, role: str = "subject") -> str:
    """A noun phrase, or a pronoun in the form its role asks for."""
    if part.silent:
        return ""
    if part.pronoun:
        word = OBJECT_PRONOUNS.get(part.pronoun, part.pronoun) if role == "object" else part.pronoun
        return part.sure("pronoun", word)
    assert part.noun is not None
    noun = part.noun.english_plural if part.plural else part.noun.english
    adjective = part.adjective.english if part.adjective else ""
    text = join(determiner(part, behind=adjective or noun), part.sure("adjective", adjective), part.sure("noun", noun))
    if part.relative:
        person = "person" in part.noun.tags
        word = "that" if not person else "who" if part.relative.case == "nominative" else "whom"
        text = join(text, part.sure("relative", word), order(part.relative.clause))
    return join(text, part.sure("and", "and"), phrase(part.partner, role)) if part.partner else text


def determiner(part: Phrase, behind: str) -> str:
    """What opens a noun phrase: its owner, or its determiner in the form that the word behind it asks for."""
    if part.owner:
        opening, _, owner = phrase(part.owner).rpartition(" ")
        # the ending shares in both German articles: the one of what is owned, and the genitive of the owner's
        return join(opening, part.possible("determiner", part.owner.possible("determiner", f"{owner}'s")))
    if part.determiner == "all":
        return join(part.sure("determiner", "all"), part.possible("determiner", "the"))
    word = "these" if part.determiner == "this" and part.plural else part.determiner
    return part.sure("determiner", "an" if word == "a" and behind[0] in "aeiou" else word)


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


def verb_group(clause: Clause, split: bool) -> tuple[str, str]:
    """The auxiliary and the rest; `split` asks for an auxiliary, as questions and negation do."""
    verb, tense, agreement = clause.verb, clause.tense, clause.subject.agreement
    third = agreement == "he"
    if tense == "perfect":
        return clause.sure("finite", "has" if third else "have"), clause.sure("verb", verb.past_participle)
    if tense in PLAIN_AUXILIARIES:
        return clause.sure("finite", PLAIN_AUXILIARIES[tense]), clause.sure("verb", verb.english)
    if verb.english == "be":
        form = present("be", agreement) if tense == "present" else BE["past"].get(agreement, "were")
        return clause.sure("verb", form), ""
    role, base, past, complement = "verb", verb.english, verb.past, ""
    if tense in ("want", "wanted", "had to"):
        role, base, past = "finite", *(("have", "had") if tense == "had to" else ("want", "wanted"))
        to = clause.possible("verb", "to")
        to = clause.possible("finite", to) if tense == "had to" else to
        complement = join(to, clause.sure("verb", verb.english))
    in_past = tense in ("past", "wanted", "had to")
    if split:
        support = "did" if in_past else "does" if third else "do"
        return clause.possible("support", support), join(clause.sure(role, base), complement)
    return "", join(clause.sure(role, past if in_past else present(base, agreement)), complement)


def particle(clause: Clause) -> str:
    """The particle of the verb: the counterpart of a German prefix, where there is one, and a share in the verb."""
    verb = clause.verb
    if verb.particle == "asleep":  # this one says what the German stem says, and the prefix what its verb says
        return clause.sure("verb", clause.possible("particle", verb.particle))
    return clause.possible("verb", clause.sure("particle", verb.particle))


def adverbial(part: Adverbial | None) -> str:
    """A phrase of place, time or manner."""
    if part is None:
        return ""
    return join(part.english, phrase(part.phrase, "object") if part.phrase else "")


def complements(clause: Clause) -> str:
    """All that follows the verb."""
    return join(
        particle(clause),
        phrase(clause.indirect, "object") if clause.indirect else "",
        phrase(clause.direct, "object") if clause.direct else "",
        adverbial(clause.manner), adverbial(clause.directed), adverbial(clause.free),
        "" if clause.time_first else adverbial(clause.time),
    )  # fmt: skip


def order(clause: Clause, question: bool = False, opening: str = "") -> str:
    """The clause as a statement, or as a question with its auxiliary before the subject."""
    auxiliary, rest = verb_group(clause, question or clause.negative)
    subject = phrase(clause.subject)
    frequency = adverbial(clause.frequency)
    if clause.time_first:
        opening = join(opening, adverbial(clause.time))
    if question:
        negation = clause.sure("negation", "not") if clause.negative else ""
        return join(opening, auxiliary, subject, negation, frequency, rest, complements(clause))
    if clause.negative:
        if clause.tense == "can":
            auxiliary = clause.sure("negation", f"{auxiliary}not")
        else:
            auxiliary = join(auxiliary, clause.sure("negation", "not"))
    return join(opening, subject, auxiliary, frequency, rest, complements(clause))


def infinitive(clause: Clause) -> str:
    """The clause without its subject, as it follows "to"."""
    return join(clause.sure("to", "to"), clause.sure("verb", clause.verb.english), complements(clause))
