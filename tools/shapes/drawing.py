"""Scenes as pictures: numbers of the colours of a palette, by whole numbers throughout, so alike on any machine."""

import math
from functools import cache

import numpy as np

from tools.shapes.scenes import COLOURS, SHADES, SIDE, Scene, Thing

INK = {
    "red": (220, 30, 30), "green": (20, 150, 60), "blue": (30, 80, 220), "yellow": (240, 200, 0),
    "purple": (140, 40, 170), "black": (20, 20, 20), "brown": (130, 75, 30), "pink": (240, 130, 180),
}  # fmt: skip
PAPER = tuple((level, level, level) for level in range(245, 245 - 7 * SHADES, -7))
FINENESS = 4  # points on a pixel's side, by which it is known how much of it a shape covers
COVERED = 4  # the covers of a pixel that are told apart: quarters

Vertex = tuple[int, int]


def palette() -> np.ndarray:
    """The colours as [number, 3]: those of the backgrounds, then each ink by quarters over each background."""
    colours: list[tuple[int, ...]] = [*PAPER]
    for paper in PAPER:
        for ink in INK.values():
            for quarters in range(1, COVERED + 1):
                mixed = (under * (COVERED - quarters) + over * quarters for under, over in zip(paper, ink))
                colours.append(tuple((2 * part + COVERED) // (2 * COVERED) for part in mixed))
    return np.array(colours, np.uint8)


def picture(scene: Scene) -> np.ndarray:
    """The numbers of a scene's colours in the palette, as [row, column]."""
    drawing = np.full((SIDE, SIDE), scene.shade, np.uint8)
    for thing in scene.things:
        cover = _cover(thing.pair.shape, thing.size)
        box = drawing[thing.top : thing.top + thing.size, thing.left : thing.left + thing.size]
        box[cover > 0] = (_first_ink(scene, thing) + cover)[cover > 0]
    return drawing


def _first_ink(scene: Scene, thing: Thing) -> int:
    """The number before that of a thing's ink where it covers a quarter."""
    inks = scene.shade * len(COLOURS) + COLOURS.index(thing.pair.colour)
    return SHADES + inks * COVERED - 1


@cache
def _cover(shape: str, size: int) -> np.ndarray:
    """How many quarters of each pixel of its box a shape covers."""
    fine = size * FINENESS
    # Points lie in the middle of the squares of the fine grid, whose unit is half of their side.
    places = 2 * np.arange(fine) + 1
    x, y = np.meshgrid(places, places)
    inside = _inside(shape, x, y, fine)
    counts = inside.reshape(size, FINENESS, size, FINENESS).sum(axis=(1, 3))
    whole = FINENESS * FINENESS
    return ((2 * counts * COVERED + whole) // (2 * whole)).astype(np.uint8)


def _inside(shape: str, x: np.ndarray, y: np.ndarray, half: int) -> np.ndarray:
    """Which points belong to a shape in a box that is twice `half` wide and high."""
    if shape == "circle":
        return (x - half) ** 2 + (y - half) ** 2 <= half**2
    if shape == "square":  # a pixel smaller on each side, so that it does not look the largest
        return np.maximum(abs(x - half), abs(y - half)) < half - 2 * FINENESS
    if shape == "triangle":
        return 2 * abs(x - half) <= y
    if shape == "diamond":
        return abs(x - half) + abs(y - half) <= half
    if shape == "cross":
        across, down = abs(x - half), abs(y - half)
        return 3 * np.minimum(across, down) <= half
    return _inside_polygon(_star(half), x, y)


def _star(half: int) -> list[Vertex]:
    """The corners of a star with five points, as wide as its box."""
    widest, lowest = math.sin(math.radians(72)), math.cos(math.radians(36))
    vertices: list[Vertex] = []
    for number in range(10):
        angle, reach = math.radians(36 * number), (0.46 if number % 2 else 1) * half / widest
        middle = half + half * (1 - lowest) / 2 / widest
        vertices.append((round(half + reach * math.sin(angle)), round(middle - reach * math.cos(angle))))
    return vertices


def _inside_polygon(vertices: list[Vertex], x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Points from which a way to the left crosses the outline an odd number of times."""
    inside = np.zeros(x.shape, bool)
    for (x0, y0), (x1, y1) in zip(vertices, vertices[1:] + vertices[:1]):
        crosses = (y < y0) != (y < y1)
        beyond = (x - x0) * (y1 - y0) - (x1 - x0) * (y - y0)
        inside ^= crosses & ((beyond > 0) if y1 > y0 else (beyond < 0))
    return inside
