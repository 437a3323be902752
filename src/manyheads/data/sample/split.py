"""Training, validation and test sets that share every word but not every combination of words."""

import hashlib
from collections import Counter
from itertools import combinations as pairs

from manyheads.core.errors import DataError
from manyheads.data.sample.sentences import Sentence, stream

LECTURE = ("the cat danced", "die Katze tanzte")
RESERVED_PER_THOUSAND = {"valid": 10, "test": 10}
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
    seen = {LECTURE[0]}
    lecture = Sentence(*LECTURE, frozenset(("cat", "dance")), frozenset((("cat", "dance"),)))
    # a stream is endless, so that a size it cannot serve has to be noticed by the count of what was tried
    limit = 100_000 + PATIENCE * sum(sizes.values())
    forms: Counter[str] | None = None
    for tried, sentence in enumerate(stream(seed)):
        if tried > limit:
            raise DataError(f"the sample corpus has no {sizes} distinct sentences to offer; ask for fewer")
        name = router.route(sentence)
        if sentence.source not in seen and name is not None:
            seen.add(sentence.source)
            waiting[name].append(sentence)
        if forms is None and len(waiting["train"]) >= sizes["train"] - 1:
            train = waiting["train"][: max(sizes["train"] - 1, 0)]
            place = len(train) // 2
            sets["train"] = [*train[:place], lecture, *train[place:]] if sizes["train"] else []
            forms = Counter(word for sentence in sets["train"] for word in _forms(sentence))
            waiting["train"] = []
        if forms is not None:
            _admit(sets, waiting, sizes, forms)
            if all(len(sets[name]) == size for name, size in sizes.items()):
                return sets
    raise AssertionError("the stream of sentences ended")


def _forms(sentence: Sentence) -> list[str]:
    return [*sentence.source.split(), *sentence.target.split()]


def _admit(sets: dict, waiting: dict, sizes: dict[str, int], forms: Counter[str]) -> None:
    """Moves held-out sentences whose every form training has shown often enough from waiting into their sets."""
    enough = max(1, min(20, sizes["train"] // 1000))
    for name in ("valid", "test"):
        for sentence in waiting[name]:
            if len(sets[name]) < sizes[name] and all(forms[word] >= enough for word in _forms(sentence)):
                sets[name].append(sentence)
        waiting[name] = []
