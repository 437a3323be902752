"""What a sentence of the sample corpus says, before either language has put it into words."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tools.sample.lexicon import Adjective, Noun
from tools.sample.marks import Thing
from tools.sample.verbs import Verb

Link = tuple[str, str]
DEFINITE_DETERMINERS = ("the", "this", "my", "your", "his", "her", "our", "their")


@dataclass(frozen=True, kw_only=True, slots=True)
class Phrase(Thing):
    """A noun phrase or a pronoun; a `silent` one is the gap that a relative or question word fills."""

    noun: Noun | None = None
    plural: bool = False
    determiner: str = ""
    adjective: Adjective | None = None
    owner: Phrase | None = None
    partner: Phrase | None = None
    relative: Relative | None = None
    pronoun: str = ""
    silent: bool = False

    @property
    def agreement(self) -> str:
        """The pronoun whose verb forms this phrase takes."""
        if self.pronoun:
            return {"she": "he", "it": "he", "who": "he", "they": "we"}.get(self.pronoun, self.pronoun)
        return "we" if self.plural or self.partner else "he"

    @property
    def indefinite(self) -> bool:
        """Whether negation turns this phrase into one with `kein`."""
        return self.noun is not None and self.determiner in ("a", "") and self.owner is None

    @property
    def definite(self) -> bool:
        """Whether this phrase names something known, so that negation can pass it by."""
        return bool(self.pronoun or self.owner) or self.determiner in DEFINITE_DETERMINERS

    def words(self) -> list[str]:
        """The content words of this phrase and of all that hangs on it."""
        found = [self.noun.english] if self.noun and not self.silent else []
        found += [self.adjective.english] if self.adjective else []
        for part in (self.owner, self.partner, self.relative and self.relative.clause):
            found += part.words() if part else []
        return found

    def heads(self) -> list[str]:
        """The nouns that a verb over this phrase combines with."""
        found = [self.noun.english] if self.noun else []
        return found + (self.partner.heads() if self.partner else [])

    def links(self) -> list[Link]:
        """The pairs of content words that this phrase puts into one construction."""
        found = []
        if self.noun and self.adjective:
            found.append((self.noun.english, self.adjective.english))
        if self.noun and self.owner:
            found += [(self.noun.english, head) for head in self.owner.heads()]
        for part in (self.owner, self.partner, self.relative and self.relative.clause):
            found += part.links() if part else []
        return found


@dataclass(frozen=True, slots=True)
class Adverbial(Thing):
    """A phrase of place, direction, time, manner or predicate; its noun phrase, if any, comes after a preposition."""

    english: str
    german: str
    case: str = ""
    phrase: Phrase | None = None
    adjective: str = ""
    link_words: tuple[str, ...] = ()

    def words(self) -> list[str]:
        """The content words of this phrase."""
        return self._own_words() + (self.phrase.words() if self.phrase else [])

    def heads(self) -> list[str]:
        """The words that a verb over this phrase combines with."""
        return self._own_words() + (self.phrase.heads() if self.phrase else [])

    def _own_words(self) -> list[str]:
        return [*self.link_words, *([self.adjective] if self.adjective else [])]


@dataclass(frozen=True, kw_only=True, slots=True)
class Clause(Thing):
    """A verb with everything that depends on it."""

    subject: Phrase
    verb: Verb
    tense: str = "present"
    indirect: Phrase | None = None
    direct: Phrase | None = None
    direct_case: str = "accusative"
    directed: Adverbial | None = None
    free: Adverbial | None = None
    manner: Adverbial | None = None
    time: Adverbial | None = None
    time_first: bool = False
    frequency: Adverbial | None = None
    negative: bool = False

    def _phrases(self) -> list[Phrase]:
        return [phrase for phrase in (self.subject, self.indirect, self.direct) if phrase]

    def _adverbials(self) -> list[Adverbial]:
        return [adverbial for adverbial in (self.directed, self.free) if adverbial]

    def _verb_words(self) -> list[str]:
        return [] if self.verb.english in ("be", "have") else [self.verb.english]

    def words(self) -> list[str]:
        """The content words of this clause: nouns, verbs and adjectives, by their English lemmas."""
        found = self._verb_words()
        for part in (*self._phrases(), *self._adverbials()):
            found += part.words()
        return found

    def links(self) -> list[Link]:
        """The pairs of content words in one construction: verb and noun, noun and adjective, owner and owned."""
        heads = [head for phrase in self._phrases() for head in phrase.heads()]
        heads += [head for adverbial in self._adverbials() for head in adverbial.heads()]
        found = [(verb, head) for verb in self._verb_words() for head in heads]
        if self.directed and self.directed.adjective:
            found += [(head, self.directed.adjective) for head in self.subject.heads()]
        for phrase in (*self._phrases(), *(adverbial.phrase for adverbial in self._adverbials())):
            found += phrase.links() if phrase else []
        return found


@dataclass(frozen=True, slots=True)
class Relative:
    """A relative clause: its subject, or its object where `case` is not nominative, is the noun it hangs on."""

    clause: Clause
    case: str


Wording = Callable[..., tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence pair with its content words and the pairs of them that stand in one construction."""

    source: str
    target: str
    words: frozenset[str]
    links: frozenset[Link]
    wording: Wording
    """What puts the clauses into English and German words."""
    clauses: tuple[Clause, ...]


def sentence(wording: Wording, *clauses: Clause) -> Sentence:
    """The sentence that two languages make of the same clauses."""
    words = frozenset(word for clause in clauses for word in clause.words())
    links = frozenset((min(pair), max(pair)) for clause in clauses for pair in clause.links() if pair[0] != pair[1])
    return Sentence(*worded(wording, clauses), words, links, wording, clauses)


def worded(wording: Wording, clauses: tuple[Clause, ...]) -> tuple[str, str]:
    """The clauses in both languages, the German commas put right."""
    source, target = wording(*clauses)
    return source, target.replace(",,", ",").replace(",?", "?").rstrip(",")
