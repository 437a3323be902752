"""English in the Penn Treebank's brackets: the phrases and clauses that `english.py` puts into words, as trees.

Where the treebank leaves a choice open, what follows the verb hangs on the lowest verb phrase.
"""

from dataclasses import replace

from tools.sample import english
from tools.sample.builder import PAST_TENSES, POSSESSIVES
from tools.sample.clauses import Adverbial, Clause, Phrase

DETERMINER_TAGS = {
    **dict.fromkeys(POSSESSIVES.values(), "PRP$"),
    **dict.fromkeys(("two", "three", "four"), "CD"),
    "many": "JJ",
}
QUESTION_ADVERBS = ("where", "when", "why")
SET_PHRASES = {
    "yesterday": "(NP (NN yesterday))",
    "today": "(NP (NN today))",
    "tomorrow": "(NP (NN tomorrow))",
    "last week": "(NP (JJ last) (NN week))",
    "last year": "(NP (JJ last) (NN year))",
    "every day": "(NP (DT every) (NN day))",
    "in the morning": "(PP (IN in) (NP (DT the) (NN morning)))",
    "in the evening": "(PP (IN in) (NP (DT the) (NN evening)))",
    "at night": "(PP (IN at) (NP (NN night)))",
    "in summer": "(PP (IN in) (NP (NN summer)))",
    "in winter": "(PP (IN in) (NP (NN winter)))",
    "on Monday": "(PP (IN on) (NP (NNP Monday)))",
    "on Friday": "(PP (IN on) (NP (NNP Friday)))",
    "on Sunday": "(PP (IN on) (NP (NNP Sunday)))",
    "by train": "(PP (IN by) (NP (NN train)))",
    "by bus": "(PP (IN by) (NP (NN bus)))",
    "by car": "(PP (IN by) (NP (NN car)))",
    "by bicycle": "(PP (IN by) (NP (NN bicycle)))",
    "by ship": "(PP (IN by) (NP (NN ship)))",
}
# prepositions of several words, and the one with a tag of its own; the noun phrase takes the place of {}
PREPOSITIONS = {
    "in front of": "(PP (IN in) (NP (NP (NN front)) (PP (IN of) {})))",
    "next to": "(ADVP (JJ next) (PP (TO to) {}))",
    "out of": "(PP (IN out) (PP (IN of) {}))",
    "to": "(PP (TO to) {})",
}
# what stands beside a verb: a particle if it can move to behind an object; all else opens a phrase around the object
PARTICLES = {
    **dict.fromkeys(("up", "on", "off", "back"), "(PRT (RP {}))"),
    "come back": "(ADVP (RB {}))",
    "fall asleep": "(ADJP (JJ {}))",
}


def brackets(label: str, *children: str) -> str:
    """A constituent, without those of its children that have no words; or a tag with its word."""
    return f"({label} {english.join(*children)})"


def phrase(part: Phrase, role: str = "subject") -> str:
    """A noun phrase or a pronoun."""
    if part.silent:
        return ""
    if part.pronoun == "who":
        return brackets("WHNP", brackets("WP", "who"))
    if part.pronoun:
        return brackets("NP", brackets("PRP", english.phrase(part, role)))
    assert part.noun is not None
    adjective = part.adjective.english if part.adjective else ""
    noun = part.noun.english_plural if part.plural else part.noun.english
    words = [*([brackets("JJ", adjective)] if adjective else []), brackets("NNS" if part.plural else "NN", noun)]
    text = brackets("NP", determiner(part, behind=adjective or noun), *words)
    if part.relative:
        text = brackets("NP", text, relative_clause(part))
    return brackets("NP", text, brackets("CC", "and"), phrase(part.partner, role)) if part.partner else text


def determiner(part: Phrase, behind: str) -> str:
    """What opens a noun phrase: its owner with the genitive's ending as a word of its own, or its determiner."""
    if part.owner:
        return phrase(part.owner).removesuffix(")") + " (POS 's))"
    words = english.determiner(part, behind).split()
    if words == ["all", "the"]:
        return "(PDT all) (DT the)"
    return english.join(*(brackets(DETERMINER_TAGS.get(word, "DT"), word) for word in words))


def relative_clause(part: Phrase) -> str:
    """The clause that hangs on a noun, behind the word that opens it."""
    assert part.noun is not None
    assert part.relative is not None
    person = "whom" if part.relative.case != "nominative" else "who"
    word = brackets("WP", person) if "person" in part.noun.tags else brackets("WDT", "that")
    return brackets("SBAR", brackets("WHNP", word), statement(part.relative.clause))


def adverbial(part: Adverbial | None) -> str:
    """A phrase of place, time, manner or quality."""
    if part is None:
        return ""
    if part.adjective:
        return quality(part)
    if part.phrase:
        return prepositional(part.english, phrase(part.phrase, "object"))
    return SET_PHRASES.get(part.english) or brackets("ADVP", brackets("RB", part.english))


def prepositional(preposition: str, text: str) -> str:
    """A noun phrase behind its preposition, which stands alone where the noun phrase has moved to the front."""
    template = PREPOSITIONS.get(preposition, f"(PP (IN {preposition}) {{}})")
    return template.format(text).replace(" )", ")")


def quality(part: Adverbial) -> str:
    """An adjective with its degree, or with what it is compared to."""
    words, compared = part.english.split(), ""
    if part.phrase:
        compared = brackets("PP", brackets("IN", words.pop()), phrase(part.phrase, "object"))
    *degree, adjective = words
    tags = ["RBR" if word == "more" else "RB" for word in degree]
    tags.append("JJ" if adjective == part.adjective else "JJR")
    return brackets("ADJP", *(brackets(tag, word) for tag, word in zip(tags, words, strict=True)), compared)


def verbs(clause: Clause, split: bool) -> tuple[list[str], bool]:
    """The verbs with the `to` between them, and whether the first is one that `not` can follow."""
    auxiliary, rest = english.verb_group(clause, split)
    tense, third = clause.tense, clause.subject.agreement == "he"
    modal = tense in english.PLAIN_AUXILIARIES
    finite = "MD" if modal else "VBD" if tense in PAST_TENSES else "VBZ" if third else "VBP"
    words = f"{auxiliary} {rest}".split()
    tags = ["TO" if word == "to" else "VBN" if tense == "perfect" else "VB" for word in words[1:]]
    return [brackets(tag, word) for tag, word in zip([finite, *tags], words, strict=True)], bool(auxiliary)


def verb_phrase(words: list[str], *below: str, adverbs: str = "") -> str:
    """The verbs, each one's phrase within that of the one before it; adverbs come behind the first."""
    first, *rest = words
    if not rest:
        return brackets("VP", first, adverbs, *below)
    inner = verb_phrase(rest, *below)
    return brackets("VP", first, adverbs, brackets("S", inner) if rest[0].startswith("(TO ") else inner)


def complements(clause: Clause) -> list[str]:
    """All that follows the verb."""
    direct, directed = phrase(clause.direct, "object") if clause.direct else "", adverbial(clause.directed)
    if direct and clause.directed and clause.directed.english == "without":  # tea without milk is a kind of tea
        direct, directed = brackets("NP", direct, directed), ""
    particle = clause.verb.particle
    template = PARTICLES.get(f"{clause.verb.english} {particle}") or PARTICLES.get(particle)
    if template:
        particle = template.format(particle)
    elif particle:
        particle, direct = prepositional(particle, direct), ""
    return [
        particle,
        phrase(clause.indirect, "object") if clause.indirect else "",
        direct,
        adverbial(clause.manner), directed, adverbial(clause.free),
        "" if clause.time_first else adverbial(clause.time),
    ]  # fmt: skip


def members(clause: Clause, *below: str) -> str:
    """What a statement consists of; what is `below` comes last in its lowest verb phrase."""
    words, auxiliary = verbs(clause, split=clause.negative)
    frequency = adverbial(clause.frequency)
    adverbs = english.join(brackets("RB", "not") if clause.negative else "", frequency if auxiliary else "")
    return english.join(
        adverbial(clause.time) if clause.time_first else "",
        phrase(clause.subject),
        "" if auxiliary else frequency,
        verb_phrase(words, *complements(clause), *below, adverbs=adverbs),
    )


def statement(clause: Clause, *below: str) -> str:
    """The clause as a statement."""
    return brackets("S", members(clause, *below))


def question(clause: Clause) -> str:
    """The clause with its auxiliary before the subject."""
    (first, *rest), _ = verbs(clause, split=True)
    negation = brackets("RB", "not") if clause.negative else ""
    below = complements(clause)
    remaining = verb_phrase(rest, *below) if rest else english.join(*below)
    return brackets("SQ", first, phrase(clause.subject), negation, adverbial(clause.frequency), remaining)


def infinitive(clause: Clause) -> str:
    """The clause without its subject, behind `to`."""
    words = [brackets("TO", "to"), brackets("VB", clause.verb.english)]
    return brackets("S", verb_phrase(words, *complements(clause)))


def question_word(word: str) -> str:
    """What a question is about: a thing, a person, or a place, a time or a reason."""
    if word in QUESTION_ADVERBS:
        return brackets("WHADVP", brackets("WRB", word))
    return brackets("WHNP", brackets("WP", word))


def subordinate(word: str, clause: Clause) -> str:
    """A clause behind the word that opens it; without one its own subject opens it."""
    if not word:
        return brackets("SBAR", phrase(clause.subject), statement(without_subject(clause)))
    return brackets(
        "SBAR", question_word(word) if word in QUESTION_ADVERBS else brackets("IN", word), statement(clause)
    )


def without_subject(clause: Clause) -> Clause:
    """The clause with a gap where its subject was."""
    return replace(clause, subject=replace(clause.subject, silent=True))
