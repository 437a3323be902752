"""Random clauses that make sense: nouns, determiners, tenses and adverbs chosen to go together."""

import random
from dataclasses import replace
from functools import cache

from tools.sample.clauses import DEFINITE_DETERMINERS, Adverbial, Clause, Phrase
from tools.sample.lexicon import ADJECTIVES, Adjective, Noun, nouns_tagged
from tools.sample.prepositions import MANNERS, PLACES, PREPOSITIONS
from tools.sample.verbs import FRAMES, VERBS, Frame

PRONOUNS = ("I", "you", "he", "she", "we", "they")
POSSESSIVES = {"I": "my", "you": "your", "he": "his", "she": "her", "we": "our", "they": "their"}
PAST_TENSES = ("past", "wanted", "had to")
TENSES = {
    "present": 35, "past": 25, "perfect": 16, "future": 6, "can": 5, "must": 4, "want": 4, "should": 3, "wanted": 3,
    "had to": 3,
}  # fmt: skip
ANIMAL_TENSES = ("present", "past", "perfect", "future", "can")
THING_TENSES = ("present", "past", "perfect", "future")
TIMES = tuple(
    (Adverbial(english, german), tuple(tenses.split(",")))
    for english, german, tenses in (
        ("yesterday", "gestern", "past,wanted,had to"),
        ("last week", "letzte Woche", "past,wanted,had to"),
        ("last year", "letztes Jahr", "past,wanted"),
        ("today", "heute", "present,past,perfect,future,can,must,want,should,wanted,had to"),
        ("now", "jetzt", "present,can,must,want"),
        ("tomorrow", "morgen", "future,can,must,want,should"),
        ("in the morning", "am Morgen", "present,past,future"),
        ("in the evening", "am Abend", "present,past,future"),
        ("at night", "in der Nacht", "present,past"),
        ("in summer", "im Sommer", "present,past"),
        ("in winter", "im Winter", "present,past"),
        ("on Monday", "am Montag", "past,future,had to"),
        ("on Friday", "am Freitag", "past,future,had to"),
        ("on Sunday", "am Sonntag", "past,future,had to"),
        ("every day", "jeden Tag", "present,past,must,want,can,should"),
    )
)
_HABITS = (("often", "oft"), ("always", "immer"), ("never", "nie"), ("sometimes", "manchmal"), ("rarely", "selten"))
FREQUENCIES = {
    "present": _HABITS,
    "past": _HABITS,
    "perfect": (("often", "oft"), ("never", "nie"), ("already", "schon")),
}
BY_VEHICLE = tuple(
    Adverbial(f"by {english}", f"mit dem {german}", link_words=(english,))
    for english, german in (
        ("train", "Zug"), ("bus", "Bus"), ("car", "Auto"), ("bicycle", "Fahrrad"), ("ship", "Schiff"),
    )
)  # fmt: skip
FLAVOURS = (Adverbial("good", "gut", adjective="good"), Adverbial("delicious", "lecker", adjective="delicious"))
MANY_TRIES = 10_000
BE = VERBS["be/sein"]
UNGRADABLE = (
    "broken", "empty", "wild", "delicious", "white", "black", "brown", "grey", "red", "blue", "yellow", "green",
    "round",
)  # fmt: skip
EXCESSIVE = (
    "big", "small", "old", "young", "tired", "lazy", "expensive", "heavy", "cold", "hot", "long", "short", "dark",
)  # fmt: skip


@cache
def adjectives_for(noun: Noun) -> tuple[Adjective, ...]:
    """The adjectives that make sense with a noun."""
    return tuple(adjective for adjective in ADJECTIVES.values() if adjective.suits & noun.tags)


@cache
def _choices(tags: tuple[str, ...]) -> tuple[Noun, ...]:
    return nouns_tagged(*(tag.lstrip("+") for tag in tags))


class Builder:
    """A source of random phrases and clauses; the same generator state always gives the same ones."""

    def __init__(self, generator: random.Random):
        self.random = generator

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def weighted(self, weights: dict[str, int]) -> str:
        return self.random.choices(list(weights), list(weights.values()))[0]

    def noun(self, tags: tuple[str, ...], used: tuple[str, ...] = ()) -> Noun | None:
        """A noun that carries one of the tags and has not been used yet, or None where there is none."""
        free = [noun for noun in _choices(tags) if noun.english not in used] if used else _choices(tags)
        return self.random.choice(free) if free else None

    def phrase(self, noun: Noun, *, possessives: tuple[str, ...], plain: float = 0.5, adjective: float = 0.25,
               plural: bool | None = None, definite: bool = False, indefinite: bool = False) -> Phrase:  # fmt: skip
        """A phrase around a noun; `plain` is how often the article is simply "the"."""
        if "sky" in noun.tags:
            return Phrase(noun=noun, determiner="the")
        mass = "mass" in noun.tags
        plural = not mass and (self.chance(0.28) if plural is None else plural)
        owner = None
        if indefinite:
            determiner = "" if mass else self.weighted({"": 3, "two": 1, "three": 1}) if plural else "a"
        elif definite or self.chance(plain):
            determiner = "the"
        else:
            determiner = self._other_determiner(noun, mass, plural, possessives)
        owned = "own" in noun.tags and not (plural and "single" in noun.tags)
        if determiner == "the" and owned and self.chance(0.09):
            owner_noun = self.noun(("person",), (noun.english,))
            assert owner_noun is not None
            own = "own" in owner_noun.tags and self.chance(0.5)
            owner = Phrase(noun=owner_noun, determiner=self.random.choice(("my", "our")) if own else "the")
        suiting = adjectives_for(noun)
        chosen = self.random.choice(suiting) if suiting and self.chance(adjective) else None
        return Phrase(noun=noun, plural=plural, determiner=determiner, adjective=chosen, owner=owner)

    def _other_determiner(self, noun: Noun, mass: bool, plural: bool, possessives: tuple[str, ...]) -> str:
        weights = {"": 6} if mass else {"this": 2, "a": 6, "every": 1}
        if plural:
            weights = {"": 4, "this": 2, "two": 2, "three": 1, "four": 1, "many": 2, "some": 2, "all": 2}
        if "kin" in noun.tags and not plural:
            weights = {"this": 1}
        if "own" in noun.tags and possessives and not (plural and "single" in noun.tags):
            weights = {**weights, "own": 7}
        chosen = self.weighted(weights)
        return self.random.choice(possessives) if chosen == "own" else chosen

    def subject(self, tags: tuple[str, ...], *, negative: bool = False, pronouns: bool = True,
                exclude: tuple[str, ...] = ()) -> Phrase:  # fmt: skip
        """The subject of a clause: a pronoun, a noun phrase, or now and then two joined by "and"."""
        noun = self.noun(tags)
        assert noun is not None
        person = "person" in noun.tags
        if person and pronouns and "person" in tags and self.chance(0.22):
            return Phrase(pronoun=self.random.choice([word for word in PRONOUNS if word not in exclude]))
        possessives = ("my", "our", "his", "her", "their", "your")
        plain = 1.0 if negative else 0.6
        phrase = self.phrase(noun, possessives=possessives, plain=plain, adjective=0.2)
        partner_noun = self.noun(tags, (noun.english,))
        if partner_noun and phrase.definite and not (phrase.plural or phrase.owner) and self.chance(0.06):
            partner = self.phrase(partner_noun, possessives=(), plain=1.0, adjective=0.1, plural=False)
            return replace(phrase, partner=partner)
        return phrase

    def possessives_for(self, subject: Phrase) -> tuple[str, ...]:
        """The possessives that an object may take: the subject's own, or the speaker's."""
        if subject.pronoun:
            return (POSSESSIVES.get(subject.pronoun, "my"),)
        if subject.noun is None or "person" not in subject.noun.tags:
            return ("my", "our")
        if subject.plural or subject.partner:
            return ("their", "our")
        return {"m": ("his", "my"), "f": ("her", "our"), "n": ("my", "our")}[subject.noun.gender]

    def object_pronoun(self, subject: Phrase) -> Phrase:
        """A pronoun that does not point back at the subject."""
        blocked = {"I": ("I", "we"), "we": ("I", "we"), "you": ("you",)}.get(subject.pronoun, (subject.pronoun,))
        return Phrase(pronoun=self.random.choice([word for word in PRONOUNS if word not in blocked]))

    def object(self, tags: tuple[str, ...], subject: Phrase, used: tuple[str, ...], *, pronoun: float = 0.0,
               indefinite: bool = False) -> Phrase | None:  # fmt: skip
        """An object, or None where every noun that fits has been used."""
        noun = self.noun(tags, used)
        if noun is None:
            return None
        if "person" in noun.tags and "person" in tags and self.chance(pronoun):
            return self.object_pronoun(subject)
        plural = True if f"+{noun.english}" in tags else None
        possessives = self.possessives_for(subject)
        return self.phrase(noun, possessives=possessives, plain=0.42, plural=plural, indefinite=indefinite)

    def adverbial(self, name: str, subject: Phrase, used: tuple[str, ...], busy: bool = False) -> Adverbial | None:
        """The phrase that a frame calls for by name; someone `busy` with an object is not on a bed or a bench."""
        if name == "taste":
            return self.random.choice(FLAVOURS)
        if name == "by":
            return self.random.choice([by for by in BY_VEHICLE if by.link_words[0] not in used])
        if name == "place":
            tags = subject.noun.tags if subject.noun else frozenset(("person",))
            kind = next((kind for kind in ("person", "small") if kind in tags), "animal")
            name = self.random.choice(PLACES["person with an object" if kind == "person" and busy else kind])
        english, german, case, kinds = PREPOSITIONS[name]
        noun = self.noun(kinds, used)
        if noun is None:
            return None
        person = "person" in noun.tags
        if person and self.chance(0.14):
            return Adverbial(english, german, case, self.object_pronoun(subject))
        fixed = "mass" in noun.tags or noun.english == "wall"
        if name == "without-milk":
            phrase = Phrase(noun=noun)
        elif fixed:
            phrase = Phrase(noun=noun, determiner="the")
        else:
            plural = self.chance(0.25 if person else 0.2 if subject.plural or "landmark" in noun.tags else 0.0)
            phrase = self._place_phrase(noun, subject, plural, plain=0.6 if person else 0.75)
        return Adverbial(english, german, case, phrase)

    def _place_phrase(self, noun: Noun, subject: Phrase, plural: bool, plain: float) -> Phrase:
        own = self.possessives_for(subject)
        phrase = self.phrase(noun, possessives=own, plain=plain, adjective=0.15, plural=plural)
        # quantities after a preposition are right, but with places not what anyone would say
        usual = (*DEFINITE_DETERMINERS, "a", *(("two", "three", "many", "some") if "person" in noun.tags else ()))
        return phrase if phrase.determiner in usual else replace(phrase, determiner="the")

    def tense(self, frame: Frame, subject: Phrase, allowed: tuple[str, ...] | None) -> str | None:
        """A tense that the verb, the subject and the caller allow; None where there is none."""
        tags = subject.noun.tags if subject.noun else frozenset(("person",))
        names = set(TENSES if "person" in tags else ANIMAL_TENSES if "animal" in tags else THING_TENSES)
        if "state" in frame.flags:
            names &= {"present", "past"}
        if "posture" in frame.flags:
            names -= {"perfect"}
        if allowed is not None:
            names &= set(allowed)
        if subject.agreement == "you":
            names -= set(PAST_TENSES)
        if subject.noun and subject.determiner == "" and not subject.owner:
            names &= {"present"}  # "dogs bark" is about dogs; "dogs barked" asks which
        if frame.verb.past == frame.verb.english and subject.agreement != "he":
            names -= {"present", "past"}  # "they read": English would not say when
        weights = {name: weight for name, weight in TENSES.items() if name in names}
        return self.weighted(weights) if weights else None

    def clause(self, *, frame: Frame | None = None, subject: Phrase | None = None,
               tenses: tuple[str, ...] | None = None, adverbs: float = 1.0, negative: float = 0.14,
               pronouns: bool = True, time_first: bool = False, exclude: tuple[str, ...] = (),
               used: tuple[str, ...] = ()) -> Clause:  # fmt: skip
        """A clause that makes sense; `adverbs` scales how often it carries adverbs of manner, time and frequency."""
        for _ in range(MANY_TRIES):
            chosen = frame or self.random.choice(FRAMES)
            if subject is not None and not self.fits(chosen, subject):
                continue
            negate = self.chance(negative)
            given = subject or self.subject(chosen.subjects, negative=negate, pronouns=pronouns, exclude=exclude)
            tense = self.tense(chosen, given, tenses)
            if tense is None or set(given.heads()) & set(used):
                continue
            clause = self._complete(chosen, given, tense, used, pronouns)
            if clause is not None:
                clause = self._negated(clause) if negate else self._modified(clause, chosen, adverbs)
                return self._timed(clause, chosen, adverbs, time_first)
        raise AssertionError(f"no clause fits {frame}, {subject}, {tenses}")

    def fits(self, frame: Frame, subject: Phrase) -> bool:
        """Whether a subject that is given may do what the frame says."""
        if subject.noun is None:
            return "person" in frame.subjects
        return all(noun_tags & set(frame.subjects) for noun_tags in _all_tags(subject))

    def _complete(self, frame: Frame, subject: Phrase, tense: str, taken: tuple[str, ...],
                  pronouns: bool) -> Clause | None:  # fmt: skip
        used = (*taken, *subject.words())
        indirect = direct = directed = free = None
        if frame.case == "both":
            indirect = self.object(("person",), subject, used, pronoun=0.2 if pronouns else 0.0)
            used += tuple(indirect.words()) if indirect else ()
        if frame.case:
            # "picks up him" is not English, and neither is a pronoun after any other particle that can move
            movable = frame.verb.particle in ("up", "on", "off", "back")
            pronoun = 0.14 if pronouns and not movable and frame.case != "both" else 0.0
            direct = self.object(frame.objects, subject, used, pronoun=pronoun, indefinite="indefinite" in frame.flags)
            if direct is None:
                return None
            used += tuple(direct.words())
        name = self.random.choice(frame.directed)
        if name != "-":
            directed = self.adverbial(name, subject, used)
            if directed is None:
                return None
            used += tuple(directed.words())
        if frame.free and self.chance(0.35):
            free = self.adverbial(self.random.choice(frame.free), subject, used, busy=bool(frame.case))
        case = "dative" if frame.case == "dative" else "accusative"
        return Clause(subject=subject, verb=frame.verb, tense=tense, indirect=indirect, direct=direct, direct_case=case,
                      directed=directed, free=free)  # fmt: skip

    def _negated(self, clause: Clause) -> Clause:
        """The clause denied, where one German word order is plainly right; unchanged otherwise."""
        phrases = [clause.subject, clause.indirect, clause.directed and clause.directed.phrase]
        phrases += [clause.free.phrase] if clause.free else []
        known = all(phrase is None or phrase.definite for phrase in phrases)
        direct_fits = clause.direct is None or clause.direct.definite or clause.direct.indefinite
        crowded = clause.free and (clause.direct or clause.directed)
        unclear = clause.tense == "must" or (clause.directed and clause.directed.adjective)
        return clause if not known or not direct_fits or crowded or unclear else replace(clause, negative=True)

    def _modified(self, clause: Clause, frame: Frame, adverbs: float) -> Clause:
        definite = clause.direct is None or clause.direct.definite
        if frame.manners and definite and self.chance(0.22 * adverbs):
            manner = self.random.choice(frame.manners)
            return replace(clause, manner=Adverbial(manner, MANNERS[manner]))
        if "state" not in frame.flags and clause.tense in FREQUENCIES and definite and self.chance(0.14 * adverbs):
            return replace(clause, frequency=Adverbial(*self.random.choice(FREQUENCIES[clause.tense])))
        return clause

    def _timed(self, clause: Clause, frame: Frame, adverbs: float, time_first: bool) -> Clause:
        if "state" in frame.flags or clause.frequency or not self.chance(0.28 * adverbs):
            return clause
        times = [time for time, tenses in TIMES if clause.tense in tenses]
        time = self.random.choice([time for time in times if not (clause.negative and time.english == "every day")])
        pronoun_object = any(part is not None and part.pronoun for part in (clause.direct, clause.indirect))
        first = time_first and (self.chance(0.6) or clause.negative)
        if (first and pronoun_object and not clause.subject.pronoun) or (clause.negative and not first):
            return clause
        return replace(clause, time=time, time_first=first)

    def predicate(self, *, subject: Phrase | None = None, tenses: tuple[str, ...] = ("present", "past"),
                  tags: tuple[str, ...] = ("person", "animal"), negative: float = 0.15,
                  used: tuple[str, ...] = ()) -> Clause:  # fmt: skip
        """A clause that says what someone or something is like."""
        negate = self.chance(negative)
        if subject is None:
            subject = replace(self.subject(tags, negative=negate), adjective=None, partner=None)
            if subject.determiner in ("a", "every", ""):
                subject = replace(subject, determiner="the") if subject.noun else subject
        noun = subject.noun or self.noun(("man", "woman"))
        assert noun is not None
        adjective = self.random.choice([word for word in adjectives_for(noun) if word.english not in used])
        degree = self.weighted({"": 7, "very": 3}) if adjective.english not in UNGRADABLE else ""
        degree = "too" if adjective.english in EXCESSIVE and self.chance(0.12) else degree
        german_degree = {"": "", "very": "sehr ", "too": "zu "}[degree]
        quality = Adverbial(f"{degree} {adjective.english}".strip(), german_degree + adjective.german,
                            adjective=adjective.english)  # fmt: skip
        allowed = [tense for tense in tenses if not (subject.agreement == "you" and tense in PAST_TENSES)]
        tense = self.random.choice(allowed or ["present"])
        return Clause(subject=subject, verb=BE, tense=tense, directed=quality, negative=negate and subject.definite)


def _all_tags(subject: Phrase) -> list[frozenset[str]]:
    found = [subject.noun.tags] if subject.noun else []
    return found + (_all_tags(subject.partner) if subject.partner else [])
