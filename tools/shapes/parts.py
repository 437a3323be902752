"""The parts of the sample: scenes that are in no other part, with sentences, and questions that are hard to guess."""

import random
from collections import Counter
from dataclasses import dataclass

from tools.shapes.scenes import PAIRS, SEEN, WITHHELD, Scene, Thing, drawn
from tools.shapes.wording import Question, captions, questions

SENTENCES = 2  # that a picture of training comes with, where there are so many
QUESTIONS = 3  # about a picture
SHARES = {"colour": 3, "shape": 3, "beside": 5, "exists": 4, "number": 1, "count": 3, "relation": 5}
EVEN = ("exists", "number", "count", "relation")  # kinds of which each answer is right as often as each other


@dataclass(frozen=True)
class Example:
    """A scene with sentences and questions about it."""

    scene: Scene
    captions: tuple[str, ...]
    questions: tuple[Question, ...]


def draw_parts(seed: int, sizes: dict[str, int]) -> dict[str, list[Example]]:
    """Examples for each part; pairs that are withheld are in each picture of `unseen`, and in nothing of the others."""
    generator = random.Random(seed)
    used: set[frozenset[Thing]] = set()
    return {part: _part(generator, part, size, used) for part, size in sizes.items()}


def _part(generator: random.Random, part: str, size: int, used: set[frozenset[Thing]]) -> list[Example]:
    withheld = part == "unseen"
    scenes: list[Scene] = []
    while len(scenes) < size:
        scene = drawn(generator, withheld)
        if frozenset(scene.things) not in used:
            used.add(frozenset(scene.things))
            scenes.append(scene)
    asked = _asked(generator, scenes, withheld)
    return [
        Example(scene, _sentences(generator, scene, all_of_them=part != "train"), chosen)
        for scene, chosen in zip(scenes, asked)
    ]


def _sentences(generator: random.Random, scene: Scene, all_of_them: bool) -> tuple[str, ...]:
    right = captions(scene)
    return right if all_of_them else tuple(generator.sample(right, min(SENTENCES, len(right))))


def _asked(generator: random.Random, scenes: list[Scene], withheld: bool) -> list[tuple[Question, ...]]:
    """The questions of each scene, of different kinds; of a part with withheld pairs those about them."""
    offered: list[dict[str, list[Question]]] = []
    for scene in scenes:
        kinds: dict[str, list[Question]] = {}
        for question in questions(scene, PAIRS if withheld else SEEN):
            if not withheld or set(question.about) & set(WITHHELD):
                kinds.setdefault(question.kind, []).append(question)
        offered.append(kinds)
    balance = Balance(offered)
    return [balance.choose(generator, kinds) for kinds in offered]


class Balance:
    """Chooses questions so that their kinds keep their shares, and that a question does not tell its answer."""

    def __init__(self, offered: list[dict[str, list[Question]]]):
        self.uses: Counter[tuple[str, str]] = Counter()  # of a kind or a text with an answer
        self.kinds: Counter[str] = Counter()
        self.answers: dict[str, set[str]] = {}
        for kinds in offered:
            for kind, found in kinds.items():
                self.answers.setdefault(kind, set()).update(question.answer for question in found)

    def choose(self, generator: random.Random, kinds: dict[str, list[Question]]) -> tuple[Question, ...]:
        """Questions about one scene, each of another kind."""
        chosen: list[Question] = []
        for kind in sorted(kinds, key=lambda kind: (self.kinds[kind] / SHARES[kind], generator.random())):
            found = [question for question in kinds[kind] if kind not in EVEN or self._is_rare(question)]
            if found and len(chosen) < QUESTIONS:
                chosen.append(min(found, key=lambda question: (*self._use(question), generator.random())))
                self._count(chosen[-1])
        return tuple(chosen)

    def _is_rare(self, question: Question) -> bool:
        fewest = min(self.uses[question.kind, answer] for answer in self.answers[question.kind])
        return self.uses[question.kind, question.answer] <= fewest + 1

    def _use(self, question: Question) -> tuple[int, int]:
        """How often its kind has had its answer, and its text rather that answer than others."""
        with_others = sum(self.uses[question.text, answer] for answer in self.answers[question.kind])
        return (
            self.uses[question.kind, question.answer],
            len(self.answers[question.kind]) * self.uses[question.text, question.answer] - with_others,
        )

    def _count(self, question: Question) -> None:
        self.kinds[question.kind] += 1
        self.uses[question.kind, question.answer] += 1
        self.uses[question.text, question.answer] += 1
