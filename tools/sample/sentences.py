"""The sentence patterns of the sample corpus: each makes one sentence in both languages from the same clauses."""

import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache, partial

from tools.sample.builder import BE, PAST_TENSES, TIMES, Builder, adjectives_for
from tools.sample.clauses import Adverbial, Clause, Phrase, Relative, Sentence, sentence
from tools.sample.lexicon import ADJECTIVES, NOUNS, Adjective
from tools.sample.questions import POSTURES, lasting, location, open_question, takes_place, yes_or_no
from tools.sample.verbs import FRAMES, VERBS
from tools.sample.wording import (
    after_main,
    asked,
    attempted,
    before_main,
    intended,
    side_by_side,
    stated,
)
from tools.sample.writing import written

PRESENT_TENSES = ("present", "perfect", "can", "must", "want")
PURPOSES = (
    "read", "eat", "drink", "buy", "visit", "work", "play", "dance", "swim", "sleep", "meet", "help", "look", "cook",
    "sing", "wait", "pick", "photograph", "thank", "paint", "write", "congratulate",
)  # fmt: skip
ATTEMPTS = (
    "sleep", "read", "understand", "repair", "catch", "find", "open", "close", "dance", "cook", "bake", "call", "help",
    "swim", "get", "paint", "build", "carry", "push", "pull", "forget", "fall", "turn", "tidy", "take",
)  # fmt: skip
SHORTEST, LONGEST = 3, 16
JOURNEYS = ("go", "drive", "come")
HAULING = ("carry", "push", "pull")
DESCRIBED = (
    ("person",), ("animal",), ("building", "room"), ("vehicle",), ("thing", "clothing"), ("text", "song"),
    ("food", "dish", "drink"), ("outdoor", "waters", "plant", "stone", "span"),
)  # fmt: skip
PASSING = ("tired", "happy", "sad", "hungry", "friendly", "sick", "lazy", "brave", "polite", "angry", "curious")
REPORTS = (
    "know that", "believe that", "hope that", "see that", "hear that", "ask whether", "not know whether", "know where",
    "know why", "know who", "ask why", "ask where",
)  # fmt: skip
REPORTING_VERBS = {
    "know": VERBS["know/wissen"], "believe": VERBS["believe/glauben"], "hope": VERBS["hope/hoffen"],
    "see": VERBS["see/sehen"], "hear": VERBS["hear/hören"], "ask": VERBS["ask/fragen"],
}  # fmt: skip
WEATHER = (VERBS["rain/regnen"], VERBS["snow/schneien"])
RELATIVE_HEADS = ("the", "two", "three", "many", "some")
COMPARED = ("person", "animal", "building", "vehicle", "text", "furniture", "luggage", "clothing")


def _back_reference(subject: Phrase) -> Phrase | None:
    """The pronoun that clearly means a subject just named: a person whose German gender says he or she."""
    if subject.pronoun:
        return subject
    if subject.noun is None or "person" not in subject.noun.tags:
        return None
    if subject.plural or subject.partner:
        return Phrase(pronoun="they")
    return {"m": Phrase(pronoun="he"), "f": Phrase(pronoun="she"), "n": None}[subject.noun.gender]


def statement(builder: Builder) -> Sentence:
    """A main clause with the finite verb in second place, after the subject or after an adverb of time."""
    clause = builder.clause(time_first=True)
    return sentence(stated, clause)


def description(builder: Builder) -> Sentence:
    """What someone or something is like."""
    tags = builder.random.choice(DESCRIBED)
    tags = tuple(noun.english for noun in NOUNS.values() if noun.tags & set(tags) and adjectives_for(noun))
    living = tags[0] in ("man", "cat")
    clause = builder.predicate(tags=tags, tenses=("present", "past", "future") if living else ("present", "past"))
    passing = clause.directed is not None and clause.directed.adjective in PASSING
    if living and passing and builder.chance(0.5):
        times = [time for time, tenses in TIMES if clause.tense in tenses and time.english != "every day"]
        time = builder.random.choice(times)
        clause = replace(clause, time=time, time_first=True)
    return sentence(stated, clause)


def comparison(builder: Builder) -> Sentence:
    """Two of a kind compared, as more than or as much as."""
    kind = builder.random.choice(COMPARED)
    gradable = [word for word in ADJECTIVES.values() if word.comparative and _suited(word, kind)]
    adjective = builder.random.choice([word for word in gradable if len(_suited(word, kind)) > 1])
    first, second = builder.random.sample(_suited(adjective, kind), 2)
    subject = builder.phrase(NOUNS[first], possessives=("my", "our", "his"), plain=0.7, adjective=0.0)
    subject = replace(subject, determiner="the") if subject.determiner == "every" else subject
    generic = subject.determiner in ("", "a", "all")
    other = builder.phrase(NOUNS[second], possessives=(), plain=1.0, adjective=0.0, plural=generic and subject.plural)
    other = replace(other, determiner="" if other.plural else "a", owner=None) if generic else other
    assert adjective.comparative is not None
    words = (f"{adjective.comparative[0]} than", f"{adjective.comparative[1]} als")
    if builder.chance(0.4):
        words = (f"as {adjective.english} as", f"so {adjective.german} wie")
    quality = Adverbial(*words, "nominative", other, adjective.english)
    tense = "present" if generic else builder.random.choice(("present", "past"))
    negative = subject.definite and builder.chance(0.2)
    clause = Clause(subject=subject, verb=BE, tense=tense, directed=quality, negative=negative)
    return sentence(stated, clause)


@cache
def _suited(adjective: Adjective, kind: str) -> tuple[str, ...]:
    return tuple(noun.english for noun in NOUNS.values() if kind in noun.tags and adjective in adjectives_for(noun))


def _weather(builder: Builder, tense: str) -> Clause:
    return Clause(subject=Phrase(pronoun="it"), verb=builder.random.choice(WEATHER), tense=tense)


def weather(builder: Builder) -> Sentence:
    """Rain and snow."""
    time, tenses = builder.random.choice(TIMES)
    tense = builder.random.choice([tense for tense in tenses if tense in ("present", "past", "perfect", "future")])
    clause = replace(_weather(builder, tense), time=time, time_first=builder.chance(0.5))
    if clause.verb.english == "snow" and time.english == "in summer":
        return weather(builder)
    if builder.chance(0.3) and not clause.time_first:
        return sentence(asked, clause)
    return sentence(stated, clause)


def _second_clause(builder: Builder, first: Clause, tenses: tuple[str, ...], describe: float, rain: float = 0.0,
                   same: float = 0.45) -> Clause:  # fmt: skip
    """A clause that goes with another: about the same person by pronoun, about the weather, or about someone else."""
    subject = _back_reference(first.subject) if builder.chance(same) else None
    plain = tuple(tense for tense in tenses if tense in ("present", "past"))
    if subject is None and builder.chance(rain):
        return _weather(builder, builder.random.choice(plain))
    if builder.chance(describe) and (subject is None or subject.pronoun != "you" or "present" in plain):
        return builder.predicate(subject=subject, tenses=plain, tags=("person",))
    if subject is not None and subject.pronoun == "you" and set(tenses) <= set(PAST_TENSES):
        subject = None
    return builder.clause(subject=subject, tenses=tenses, adverbs=0.3, pronouns=False, used=tuple(first.words()))


CONJUNCTIONS = {
    "because": ("weil", "present past"), "although": ("obwohl", "present past"), "if": ("wenn", "present"),
    "when": ("als", "past"), "while": ("während", "present past"), "before": ("bevor", "past"),
}  # fmt: skip


def subordinate(builder: Builder) -> Sentence:
    """A main clause with a subordinate one, whose finite verb German puts last; either may come first."""
    word = builder.random.choice(tuple(CONJUNCTIONS))
    german_word, times = CONJUNCTIONS[word]
    past = builder.random.choice(times.split()) == "past"
    plain = word in ("when", "while", "before")
    main_tenses = ("past",) if past else ("present",) if plain else ("present", "can", "must", "want")
    main_tenses = ("past", "wanted", "had to") if past and word in ("because", "although") else main_tenses
    main_tenses = ("present", "future", "can", "must", "should") if word == "if" else main_tenses
    sub_tenses = ("past",) if past else ("present",) if plain or word == "if" else PRESENT_TENSES
    main = builder.clause(tenses=main_tenses, adverbs=0.3, pronouns=False, negative=0.08)
    describe, rain = (0.35, 0.1) if word in ("because", "although", "if") else (0.0, 0.1)
    sub = _second_clause(builder, main, sub_tenses, describe, rain, same=0.0 if word in ("when", "while") else 0.5)
    if word not in ("because", "although") and (lasting(main) or lasting(sub)):
        return subordinate(builder)
    if plain:
        main, sub = replace(main, negative=False), replace(sub, negative=False, time=None, frequency=None)
    comes_first = builder.chance(0.4) and sub.subject.pronoun in ("", "it")
    return sentence(partial(before_main if comes_first else after_main, word, german_word), main, sub)


def _simple(builder: Builder, tenses: tuple[str, ...], negative: float) -> Clause:
    if builder.chance(0.2):
        plain = tuple(tense for tense in tenses if tense in ("present", "past"))
        return builder.predicate(tenses=plain, negative=negative)
    return builder.clause(tenses=tenses, adverbs=0.25, negative=negative, pronouns=False)


def reported(builder: Builder) -> Sentence:
    """Someone knows, believes, hopes, sees, hears or asks something."""
    kind = builder.random.choice(REPORTS)
    verb = REPORTING_VERBS[kind.split()[-2]]
    word = kind.split()[-1]
    subject = builder.subject(("person",), negative=True)
    past = verb.english != "hope" and subject.agreement != "you" and builder.chance(0.35)
    negative = kind.startswith("not") or (kind in ("know that", "believe that") and builder.chance(0.15))
    main = Clause(subject=subject, verb=verb, tense="past" if past else "present", negative=negative)
    tenses = ("present", "future", "can") if verb.english == "hope" else ("present", "past", "perfect", "can", "must")
    tenses = ("past",) if past else tenses
    words = {"that": "dass", "whether": "ob", "where": "wo", "why": "warum"}
    while True:
        if word == "who":
            inner = builder.clause(subject=Phrase(pronoun="who"), tenses=tenses, adverbs=0.2, negative=0.0)
        else:
            inner = _simple(builder, tenses, 0.0 if negative or word == "whether" else 0.14)
        if set(inner.words()) & set(main.words()):
            continue
        if word != "where":
            break
        if inner.tense == "perfect":
            continue
        if inner.verb.english in POSTURES or (inner.directed is None and takes_place(inner)):
            inner = replace(inner, directed=None, free=None, negative=False, frequency=None, time=None)
            break
    joint = ("", "") if word == "who" else (word, words[word])
    return sentence(partial(after_main, *joint), main, inner)


def coordinate(builder: Builder) -> Sentence:
    """Two main clauses side by side."""
    tenses = builder.random.choice((("present",), ("past",), ("perfect",), ("present", "can", "want")))
    word = builder.random.choice(("and", "but", "so"))
    if word == "so":
        tenses = ("past",) if tenses == ("perfect",) else tenses
        first = builder.predicate(tenses=tenses[:1], tags=("person",))
        tenses = ("present",) if first.tense == "present" else tenses  # "you were" is not in the corpus
    else:
        first = builder.clause(tenses=tenses, adverbs=0.3, pronouns=False)
    second = _second_clause(builder, first, tenses, 0.0)
    if word == "so":
        second = replace(second, frequency=None)
    return sentence(partial(side_by_side, word), first, second)


def relative(builder: Builder) -> Sentence:
    """A noun with a relative clause, and a word on what it is like."""
    tenses = ("present", "past", "perfect")
    inner = builder.clause(tenses=tenses, adverbs=0.0, negative=0.05, pronouns=False)
    role = builder.random.choice(("subject", "object"))
    head = inner.subject if role == "subject" else inner.direct
    if head is None or head.noun is None or head.partner or head.owner or inner.verb.english == "have":
        return relative(builder)
    describable = any(word.english not in inner.words() for word in adjectives_for(head.noun))
    if not describable or head.determiner not in RELATIVE_HEADS:
        return relative(builder)
    gap = Phrase(noun=head.noun, plural=head.plural, silent=True)
    if role == "subject":
        hanging = Relative(replace(inner, subject=gap), "nominative")
    else:
        hanging = Relative(replace(inner, direct=gap, negative=False), inner.direct_case)
    subject = Phrase(noun=head.noun, plural=head.plural, determiner=head.determiner, relative=hanging)
    if builder.chance(0.35) and "person" in head.noun.tags:
        main = Clause(subject=builder.subject(("person",), negative=True), verb=VERBS["know/kennen"], direct=subject)
        if main.subject.noun and main.subject.noun.english in inner.words():
            return relative(builder)
        return sentence(stated, main)
    tense = "past" if inner.tense == "past" else "present"
    main = builder.predicate(subject=subject, negative=0.1, tenses=(tense,), used=tuple(inner.words()))
    return sentence(stated, main)


def purpose(builder: Builder) -> Sentence:
    """What someone goes somewhere for, or tries to do, with an infinitive that German puts last."""
    trying = builder.chance(0.5)
    verbs = ATTEMPTS if trying else PURPOSES
    if trying:
        subject = builder.subject(("person",), negative=True)
        tenses = ("present", "perfect") if subject.agreement == "you" else ("present", "past", "perfect")
        main = Clause(subject=subject, verb=VERBS["try/versuchen"], tense=builder.random.choice(tenses))
    else:
        journeys = [frame for frame in FRAMES if frame.verb.english in JOURNEYS and frame.directed != ("-",)]
        frame = builder.random.choice([frame for frame in journeys if {"person", "adult"} & set(frame.subjects)])
        tenses = ("present", "past", "perfect", "want", "must")
        main = builder.clause(frame=frame, adverbs=0.3, negative=0.0, tenses=tenses)
    if main.subject.noun and main.subject.determiner == "":
        return purpose(builder)
    fitting = [frame for frame in FRAMES if frame.verb.english in verbs and builder.fits(frame, main.subject)]
    if trying:
        fitting = [frame for frame in fitting if frame.directed == ("-",) or frame.verb.english in HAULING]
    else:
        fitting = [frame for frame in fitting if frame.case != "both"]
    inner = builder.clause(frame=builder.random.choice(fitting), subject=main.subject, tenses=("future",), adverbs=0.0,
                           negative=0.0, pronouns=False)  # fmt: skip
    if set(inner.words()) & set(main.words()) - set(main.subject.words()):
        return purpose(builder)
    return sentence(attempted if trying else intended, main, inner)


PATTERNS: tuple[tuple[Callable[[Builder], Sentence], int], ...] = (
    (statement, 36), (description, 7), (location, 4), (comparison, 4), (yes_or_no, 8), (open_question, 9), (weather, 1),
    (subordinate, 14), (reported, 10), (coordinate, 8), (relative, 6), (purpose, 5),
)  # fmt: skip


def stream(seed: int) -> Iterator[Sentence]:
    """An endless stream of sentences of usual length as they are written, the same for the same seed."""
    builder = Builder(random.Random(seed))
    patterns, weights = zip(*PATTERNS, strict=True)
    while True:
        made = builder.random.choices(patterns, weights)[0](builder)
        if SHORTEST <= len(made.source.split()) <= LONGEST:
            yield written(made)
