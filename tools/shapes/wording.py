"""What is true of a scene: all sentences that say all there is, and all questions that have one right answer."""

from collections.abc import Iterable, Iterator
from itertools import permutations
from typing import NamedTuple

from tools.shapes.scenes import COLOURS, OPPOSITES, SHAPES, Pair, Scene, Thing, relation

NUMBERS = ("zero", "one", "two", "three")


class Question(NamedTuple):
    """A question about a scene with its one right answer."""

    kind: str
    text: str
    answer: str
    about: tuple[Pair, ...]
    """The pairs that it or its answer names or counts."""


def captions(scene: Scene) -> tuple[str, ...]:
    """Every sentence that names each thing, one of them first and then where it is as seen from the others.

    `a red circle`; `a red circle left of a blue square`; `a red circle left of a blue square and above a black star`,
    or `… and a black star` where it is left of both.
    """
    return tuple(sorted(_caption(first, others) for first, *others in permutations(scene.things)))


def _caption(first: Thing, others: list[Thing]) -> str:
    phrases: list[str] = []
    said = None
    for other in others:
        where = relation(first, other)
        phrases.append(f"a {other.pair}" if where == said else f"{where} a {other.pair}")
        said = where
    return f"a {first.pair} {' and '.join(phrases)}".rstrip()


def questions(scene: Scene, pairs: Iterable[Pair]) -> Iterator[Question]:
    """Every question about a scene that names no other pair than these."""
    yield from _what(scene)
    yield from _where(scene)
    there = [thing.pair for thing in scene.things]
    for pair in pairs:
        yield Question("exists", f"is there a {pair}?", "yes" if pair in there else "no", (pair,))
    yield Question("number", "how many shapes are there?", NUMBERS[len(there)], ())
    for shape in SHAPES:
        counted = tuple(pair for pair in there if pair.shape == shape)
        yield Question("count", f"how many {_several(shape)} are there?", NUMBERS[len(counted)], counted)


def _several(shape: str) -> str:
    return f"{shape}es" if shape.endswith("s") else f"{shape}s"


def _what(scene: Scene) -> Iterator[Question]:
    there = [thing.pair for thing in scene.things]
    for shape in SHAPES:
        found = tuple(pair for pair in there if pair.shape == shape)
        if len(found) == 1:
            yield Question("colour", f"what colour is the {shape}?", found[0].colour, found)
    for colour in COLOURS:
        found = tuple(pair for pair in there if pair.colour == colour)
        if len(found) == 1:
            yield Question("shape", f"what shape is {colour}?", found[0].shape, found)


def _where(scene: Scene) -> Iterator[Question]:
    for thing in scene.things:
        places = {other.pair: relation(other, thing) for other in scene.things if other != thing}
        for where in OPPOSITES:
            found = [pair for pair, place in places.items() if place == where]
            if len(found) == 1:
                text = f"what is {where} the {thing.pair}?"
                yield Question("beside", text, f"a {found[0]}", (thing.pair, found[0]))
            for pair, place in places.items():
                text = f"is the {pair} {where} the {thing.pair}?"
                yield Question("relation", text, "yes" if place == where else "no", (pair, thing.pair))
