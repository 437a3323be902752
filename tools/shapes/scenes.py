"""Scenes of one to three coloured shapes, each plainly left of, right of, above or below each other one."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, product
from typing import NamedTuple

COLOURS = ("red", "green", "blue", "yellow", "purple", "black", "brown", "pink")
SHAPES = ("circle", "square", "triangle", "star", "diamond", "cross")
SIDE = 48  # pixels of a picture
SIZES = range(12, 19)  # pixels of the box around a shape
SHADES = 5  # of the background
MARGIN, GAP = 1, 2  # pixels of background at the edge, and at least between two shapes
OPPOSITES = {"left of": "right of", "right of": "left of", "above": "below", "below": "above"}
ALIKE = 0.15  # of the scenes are of one shape in several colours, so that there are threes of it to count
NUMBERS = {1: 2, 2: 4, 3: 4}  # how many shapes a scene has, each with how often


class Pair(NamedTuple):
    """A colour and a shape."""

    colour: str
    shape: str

    def __str__(self) -> str:
        return f"{self.colour} {self.shape}"


PAIRS = tuple(Pair(colour, shape) for colour, shape in product(COLOURS, SHAPES))
# One of each colour, one or two of each shape: the shape is still seen in six colours, and the colour on five shapes.
WITHHELD = (
    Pair("green", "circle"), Pair("yellow", "square"), Pair("blue", "triangle"), Pair("red", "star"),
    Pair("brown", "diamond"), Pair("pink", "cross"), Pair("purple", "square"), Pair("black", "triangle"),
)  # fmt: skip
SEEN = tuple(pair for pair in PAIRS if pair not in WITHHELD)


@dataclass(frozen=True)
class Thing:
    """A shape in its place: the corner of the box around it, and that box's side, in pixels."""

    pair: Pair
    left: int
    top: int
    size: int


@dataclass(frozen=True)
class Scene:
    """Things, no two of them of the same colour and shape, on a background of some shade."""

    things: tuple[Thing, ...]
    shade: int


def relation(thing: Thing, other: Thing) -> str | None:
    """Where the one is as seen from the other; None where that is in between, as above and left at once.

    It lies wholly to that side, and its middle at least twice as far to that side as to another.
    """
    across = 2 * (thing.left - other.left) + thing.size - other.size
    down = 2 * (thing.top - other.top) + thing.size - other.size
    longer, shorter = max(abs(across), abs(down)), min(abs(across), abs(down))
    if longer < 2 * shorter or longer < thing.size + other.size + 2 * GAP:
        return None
    if longer == abs(across):
        return "left of" if across < 0 else "right of"
    return "above" if down < 0 else "below"


def drawn(generator: random.Random, withheld: bool) -> Scene:
    """A random scene, of pairs that may be seen in training or with one or more among them that may not."""
    pairs = _pairs(generator, withheld)
    while True:
        things = tuple(_placed(generator, pair) for pair in pairs)
        if all(relation(one, other) for one, other in combinations(things, 2)):
            return Scene(things, generator.randrange(SHADES))


def _pairs(generator: random.Random, withheld: bool) -> list[Pair]:
    number = generator.choices(list(NUMBERS), list(NUMBERS.values()))[0]
    first = generator.choice(WITHHELD if withheld else SEEN)
    others: Sequence[Pair] = [pair for pair in (PAIRS if withheld else SEEN) if pair != first]
    if generator.random() < ALIKE:
        others = [pair for pair in others if pair.shape == first.shape]
    pairs = [first, *generator.sample(others, number - 1)]
    generator.shuffle(pairs)
    return pairs


def _placed(generator: random.Random, pair: Pair) -> Thing:
    size = generator.choice(SIZES)
    left, top = (MARGIN + generator.randrange(SIDE - size - 2 * MARGIN + 1) for _ in range(2))
    return Thing(pair, left, top, size)
