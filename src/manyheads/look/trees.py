"""Trees of constituents as pictures: in letters for a terminal, as SVG for a page."""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any, Protocol
from unicodedata import combining, east_asian_width

from manyheads.look.drawing import shown

NAMESPACE = "http://www.w3.org/2000/svg"
# Pixels of an SVG
LETTER, WIDE_LETTER, BETWEEN = 9, 16, 18
WIDE = ("W", "F")
ROW, WORD_ROW, MARGIN = 46, 20, 20
ABOVE, BELOW = 15, 6  # from the foot of a label to where a line from above ends, and one that goes down begins
LABEL = 'font-weight="bold" fill="#0072b2"'
TAG = 'font-size="12" fill="#595959"'
TEXT = 'fill="#000000"'


class TreeLike(Protocol):
    """A label over children; a child without children is a word, with its `tag` and its `text`."""

    @property
    def label(self) -> str: ...
    @property
    def children(self) -> tuple[Any, ...]: ...


@dataclass(slots=True, eq=False)
class _Node:
    """A label, or a tag and its word, and where it stands in a picture."""

    label: str
    word: str | None
    depth: int
    children: list["_Node"] = field(default_factory=list)
    left: int = 0
    width: int = 0
    axis: int = 0
    """Where the middle of the label is, from the left of the node."""

    @property
    def middle(self) -> int:
        return self.left + self.axis


def drawn(tree: TreeLike) -> str:
    """The tree in letters, its words in a row below it."""
    nodes = _placed(tree, lambda text: len(_cells(text)), between=1)
    bottom = 2 * max(node.depth for node in nodes)
    canvas = [[" "] * nodes[0].width for _ in range(bottom + 2)]
    for node in nodes:
        row = 2 * node.depth if node.word is None else bottom
        _write(canvas[row], node.label, node.middle)
        if node.word is not None:
            _write(canvas[row + 1], node.word, node.middle)
            for above in range(2 * node.depth, bottom):
                canvas[above][node.middle] = "│"
        elif node.children:
            _branch(canvas[row + 1], node)
    return "\n".join("".join(row).rstrip() for row in canvas)


def svg(tree: TreeLike) -> str:
    """The tree as an SVG document that needs nothing else."""
    nodes = _placed(tree, _pixels, between=BETWEEN)
    deepest = max(node.depth for node in nodes)
    wide, high = nodes[0].width + 2 * MARGIN, ROW * deepest + 2 * MARGIN + ABOVE + WORD_ROW
    sentence = escape(" ".join(node.word for node in nodes if node.word is not None))
    lines = [_line(node, child, deepest) for node in nodes for child in node.children]
    return "\n".join(
        [
            f'<svg xmlns="{NAMESPACE}" width="{wide}" height="{high}" viewBox="0 0 {wide} {high}" role="img">',
            f"<title>{sentence}</title>",
            f'<rect width="{wide}" height="{high}" fill="#ffffff"/>',
            '<g fill="none" stroke="#8c8c8c" stroke-width="1.2">',
            *lines,
            "</g>",
            '<g font-family="sans-serif" font-size="15" text-anchor="middle">',
            *(letters for node in nodes for letters in _letters(node, deepest)),
            "</g>",
            "</svg>\n",
        ]
    )


def _placed(tree: TreeLike, breadth: Callable[[str], int], between: int) -> list[_Node]:
    """The nodes of a tree, a node before those below it, each at its place in a row as wide as it must be."""
    nodes = _nodes(tree)
    for node in reversed(nodes):
        _arrange(node, breadth, between)
    for node in nodes:
        for child in node.children:
            child.left += node.left
    return nodes


def _nodes(tree: TreeLike) -> list[_Node]:
    nodes: list[_Node] = []
    waiting: list[tuple[Any, int, _Node | None]] = [(tree, 0, None)]
    while waiting:
        part, depth, above = waiting.pop()
        below: Sequence[Any] | None = getattr(part, "children", None)
        label, word = (part.tag, _seen(part.text)) if below is None else (part.label, None)
        node = _Node(_seen(label), word, depth)
        nodes.append(node)
        if above is not None:
            above.children.append(node)
        waiting.extend((child, depth + 1, node) for child in reversed(below or ()))
    return nodes


def _arrange(node: _Node, breadth: Callable[[str], int], between: int) -> None:
    """Puts children that are arranged themselves side by side, and the label over their middle."""
    behind = 0
    for child in node.children:
        child.left = behind
        behind += child.width + between
    if node.children:
        inside, axis = behind - between, (node.children[0].middle + node.children[-1].middle) // 2
    else:
        inside = breadth(node.word or "")
        axis = max(inside - 1, 0) // 2
    begin = axis - (breadth(node.label) - 1) // 2
    # A label that is wider than what it is over sticks out on both sides.
    moved = max(0, -begin)
    node.width, node.axis = moved + max(inside, begin + breadth(node.label)), moved + axis
    for child in node.children:
        child.left += moved


def _write(row: list[str], text: str, middle: int) -> None:
    cells = _cells(text)
    begin = middle - max(len(cells) - 1, 0) // 2
    row[begin : begin + len(cells)] = cells


def _cells(text: str) -> list[str]:
    """What stands in each column of a terminal: wide letters take two, marks stand over the letter before."""
    cells: list[str] = []
    for letter in text:
        if cells and combining(letter):
            cells[-1] += letter
        else:
            cells += [letter, ""] if east_asian_width(letter) in WIDE else [letter]
    return cells


def _branch(row: list[str], node: _Node) -> None:
    """The line between a label and those of its children."""
    places = [child.middle for child in node.children]
    if len(places) == 1:
        row[node.middle] = "│"
        return
    row[places[0] : places[-1] + 1] = "┌" + "─" * (places[-1] - places[0] - 1) + "┐"
    for place in places[1:-1]:
        row[place] = "┬"
    row[node.middle] = "┼" if node.middle in places else "┴"


def _line(node: _Node, child: _Node, deepest: int) -> str:
    """A line down to the next row and, to a word, straight on to the last, so that it crosses nothing."""
    begin, turn = _foot(node.depth) + BELOW, _foot(child.depth) - ABOVE
    end = _foot(deepest) - ABOVE if child.word is not None else turn
    start, across = MARGIN + node.middle, MARGIN + child.middle
    last = f" {across},{end}" if end != turn else ""
    return f'<polyline points="{start},{begin} {across},{turn}{last}"/>'


def _letters(node: _Node, deepest: int) -> list[str]:
    across = MARGIN + node.middle
    if node.word is None:
        return [f'<text x="{across}" y="{_foot(node.depth)}" {LABEL}>{escape(node.label)}</text>']
    foot = _foot(deepest)
    return [
        f'<text x="{across}" y="{foot}" {TAG}>{escape(node.label)}</text>',
        f'<text x="{across}" y="{foot + WORD_ROW}" {TEXT}>{escape(node.word)}</text>',
    ]


def _foot(depth: int) -> int:
    """Where the letters of a row stand."""
    return MARGIN + ABOVE + ROW * depth


def _pixels(text: str) -> int:
    return sum(WIDE_LETTER if east_asian_width(letter) in WIDE else LETTER for letter in text)


def _seen(text: str) -> str:
    """A text with what cannot be seen, such as a line break, as Python writes it."""
    return shown(text, sys.maxsize).translate({0xFFFE: "\ufffd", 0xFFFF: "\ufffd"})  # which XML cannot hold
