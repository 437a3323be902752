"""Questions of the sample corpus: finite verb first, or second after where, when, why, what, whom or who."""

from dataclasses import replace
from functools import partial

from tools.sample.builder import BE, Builder
from tools.sample.clauses import Clause, Phrase, Sentence, sentence
from tools.sample.verbs import FRAMES
from tools.sample.wording import asked, asked_who, asked_with, stated

GOALS = ("run", "go", "drive", "travel", "ride", "fly", "jump", "climb")
POSTURES = ("sit", "stand", "lie", "live")


def yes_or_no(builder: Builder) -> Sentence:
    """A question that opens with the finite verb."""
    if builder.chance(0.15):
        clause = builder.predicate(negative=0.0)
        clause = replace(clause, subject=Phrase(pronoun="she")) if clause.subject.pronoun == "I" else clause
    else:
        clause = builder.clause(adverbs=0.5, negative=0.0, exclude=("I",))
    if _clashing(clause):
        return yes_or_no(builder)
    if clause.frequency and clause.frequency.english not in ("often", "always"):
        clause = replace(clause, frequency=None)
    return sentence(asked, clause)


def _clashing(clause: Clause) -> bool:
    """Whether a pronoun object would meet a noun subject after the verb, where German may order them either way."""
    objects = (clause.direct, clause.indirect)
    return not clause.subject.pronoun and any(part is not None and part.pronoun for part in objects)


def _asked(clause: Clause, word: str, german_word: str) -> Sentence:
    return sentence(partial(asked_with, word, german_word), clause)


def open_question(builder: Builder) -> Sentence:
    """A question that opens with where, when, why, what, whom or who."""
    word = builder.random.choice(("where", "where to", "when", "why", "what", "whom", "who"))
    tenses = ("present", "past", "future", "can", "must", "want", "should", "wanted", "had to")
    if word == "why":
        clause = builder.clause(adverbs=0.3, negative=0.2, exclude=("I",))
        clause = builder.predicate(negative=0.1, tags=("person",)) if builder.chance(0.2) else clause
        usable = clause.subject.pronoun != "I" and not _clashing(clause)
        return _asked(clause, "why", "warum") if usable else open_question(builder)
    if word == "who":
        clause = builder.clause(subject=Phrase(pronoun="who"), adverbs=0.5, negative=0.0)
        clause = replace(clause, frequency=None)
        return sentence(asked_who, clause)
    clause = builder.clause(adverbs=0.2, negative=0.0, exclude=("I",), tenses=tenses, pronouns=word != "whom")
    clause = replace(clause, time=None, frequency=None)
    verb, direct = clause.verb.english, clause.direct
    if _clashing(clause):
        return open_question(builder)
    if word == "when" and clause.directed is None and not lasting(clause):
        return _asked(clause, "when", "wann")
    if word == "where" and (verb in POSTURES or (clause.directed is None and takes_place(clause))):
        return _asked(replace(clause, directed=None, free=None), "where", "wo")
    if word == "where to" and verb in GOALS and clause.directed:
        return _asked(replace(clause, directed=None), "where", "wohin")
    if word in ("what", "whom") and direct and direct.noun and clause.verb.english not in ("put", "have"):
        person = "person" in direct.noun.tags
        if person == (word == "whom") and (person or clause.direct_case == "accusative"):
            case = {"accusative": "wen", "dative": "wem"}[clause.direct_case] if person else "was"
            return _asked(replace(clause, direct=None, indirect=clause.indirect, manner=None), word, case)
    return open_question(builder)


def lasting(clause: Clause) -> bool:
    """Whether the verb can name a state, which has no moment."""
    return any("state" in frame.flags for frame in FRAMES if frame.verb == clause.verb)


def takes_place(clause: Clause) -> bool:
    """Whether "where" is a fair question about the verb."""
    return any("place" in frame.free for frame in FRAMES if frame.verb == clause.verb)


def location(builder: Builder) -> Sentence:
    """Where someone or something is, or a question about it."""
    tags = builder.random.choice((("person",), ("animal",), ("flat",), ("upright",)))
    subject = builder.subject(tags, negative=True)
    names = {"flat": ("on-table", "on-seat", "under-furniture", "in-cupboard"), "upright": ("on-table", "in-cupboard")}
    name = builder.random.choice(names.get(tags[0], ("place",)))
    place = builder.adverbial(name, subject, tuple(subject.words()))
    assert place is not None
    tense = "past" if subject.agreement != "you" and builder.chance(0.45) else "present"
    definite = place.phrase is not None and place.phrase.definite
    clause = Clause(subject=subject, verb=BE, tense=tense, directed=place, negative=definite and builder.chance(0.2))
    if builder.chance(0.2) and subject.pronoun != "I":
        clause = replace(clause, negative=False)
        if builder.chance(0.3):
            return _asked(replace(clause, directed=None), "where", "wo")
        return sentence(asked, clause)
    return sentence(stated, clause)
