"""Training, validation and test sets that share every word but not every combination of words."""

import hashlib
from collections import Counter
from itertools import combinations as pairs
from itertools import islice

from tools.sample.clauses import Clause, Link, Phrase, Sentence, sentence
from tools.sample.lexicon import NOUNS
from tools.sample.sentences import stream
from tools.sample.verbs import VERBS
from tools.sample.wording import stated
from tools.sample.writing import written_as

THE_CAT = Phrase(noun=NOUNS["cat"], determiner="the")
LECTURE = written_as(sentence(stated, Clause(subject=THE_CAT, verb=VERBS["dance/tanzen"], tense="past")))
RESERVED_PER_THOUSAND = {"valid": 20, "test": 20}
SENTENCES_PER_RESERVED_PAIR = 10
PATIENCE = 40


def reservation(first: str, second: str, seed: int) -> str:
    """The set that alone may hold these two content words together; "train" where they are not reserved."""
    if {first, second} == {"cat", "dance"}:
        return "train"
    digest = hashlib.sha256(f"{seed} {min(first, second)} {max(first, second)}".encode()).digest()
    draw = int.from_bytes(digest[:4], "big") % 1000
    for name, share in RESERVED_PER_THOUSAND.items():
        if draw < share:
            return name
        draw -= share
    return "train"


class Router:
    """Says which set a sentence belongs to."""

    def __init__(self, seed: int):
        self.seed = seed
        self.known: dict[tuple[str, str], str] = {}

    def reservation(self, first: str, second: str) -> str:
        """As the function of that name, remembered."""
        key = (first, second)
        if key not in self.known:
            self.known[key] = reservation(first, second, self.seed)
        return self.known[key]

    def counts(self, sentence: Sentence, uses: Counter[Link]) -> bool:
        """Whether a held-out sentence has a reserved pair that is not yet worn out; if so, counts its pairs as used."""
        reserved = [link for link in sorted(sentence.links) if self.reservation(*link) != "train"]
        fresh = any(uses[link] < SENTENCES_PER_RESERVED_PAIR for link in reserved)
        uses.update(reserved if fresh else ())
        return fresh

    def route(self, sentence: Sentence) -> str | None:
        """The one set that may hold this sentence, or None.

        Words that meet anywhere in a sentence count for keeping it out of training; a held-out sentence also needs a
        reserved pair within one construction, so that the model has to combine what it has only seen apart.
        """
        met = {self.reservation(*pair) for pair in pairs(sorted(sentence.words), 2)} - {"train"}
        if not met:
            return "train"
        linked = {self.reservation(*link) for link in sentence.links} - {"train"}
        return met.pop() if met == linked and len(met) == 1 else None


def draw_sets(seed: int, sizes: dict[str, int]) -> dict[str, list[Sentence]]:
    """Distinct sentences for each set; every word form of a held-out sentence is also a word form of training."""
    router = Router(seed)
    sets: dict[str, list[Sentence]] = {name: [] for name in sizes}
    waiting: dict[str, list[Sentence]] = {name: [] for name in sizes}
    seen = {LECTURE.source}
    # a stream is endless, so that a size it cannot serve has to be noticed by the count of what was tried
    limit = 20_000 + PATIENCE * sum(sizes.values())
    forms: Counter[tuple[str, str]] | None = None
    uses: Counter[Link] = Counter()
    for tried, drawn in enumerate(stream(seed)):
        if tried > limit:
            raise ValueError(f"the sample corpus has no {sizes} distinct sentences to offer; ask for fewer")
        name = router.route(drawn)
        if drawn.source not in seen and name is not None:
            seen.add(drawn.source)
            waiting[name].append(drawn)
        if forms is None and len(waiting["train"]) >= sizes["train"] - 1:
            train = waiting["train"][: max(sizes["train"] - 1, 0)]
            place = len(train) // 2
            sets["train"] = [*train[:place], LECTURE, *train[place:]] if sizes["train"] else []
            forms = Counter(word for one in sets["train"] for word in _forms(one))
            waiting["train"] = []
        if forms is not None:
            for held_out in ("valid", "test"):
                room = sizes[held_out] - len(sets[held_out])
                admitted = [one for one in waiting[held_out] if _well_shown(one, forms, sizes["train"])]
                sets[held_out] += islice((one for one in admitted if router.counts(one, uses)), room)
                waiting[held_out] = []
            if all(len(sets[name]) == size for name, size in sizes.items()):
                return sets
    raise AssertionError("the stream of sentences ended")


def _forms(sentence: Sentence) -> list[tuple[str, str]]:
    sides = {"English": sentence.source, "German": sentence.target}
    return [(language, word.strip(",?.")) for language, text in sides.items() for word in text.split()]


def _well_shown(sentence: Sentence, forms: Counter[tuple[str, str]], train: int) -> bool:
    """Whether training shows every word form of a sentence often enough to learn it."""
    enough = max(1, min(20, train // 1000))
    return all(forms[word] >= enough for word in _forms(sentence))
