"""A reader of trees in the Penn Treebank's brackets: (S (NP (DT The) (NN cat)) (VP (VBD danced)))."""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from manyheads.core.errors import DataError
from manyheads.core.words import counted
from manyheads.data.readers.corpus import read_lines
from manyheads.data.trees import JOINED, Tree, Word, bare, cleaned

PIECE = re.compile(
    r"[()]|[^()\s]+", re.ASCII
)  # other spaces of Unicode, such as the one that does not break, are letters
SAMPLE = "(S (NP (DT The) (NN cat)) (VP (VBD danced)))"

Item = str | Tree | Word
"""What stands within brackets: a label, a tag or a word as it is written, or what stands in brackets itself."""


class Bracketed(NamedTuple):
    """A tree, cleaned, and the line of its file at which it begins."""

    line: int
    tree: Tree


def read_trees(path: Path) -> list[Bracketed]:
    """All trees of a file, plain, .gz or .xz, or of the .mrg files in a folder and the folders in it, in their order.

    They are cleaned as the field does; those in which only traces stand are left out.
    """
    path = Path(path)
    if not path.exists():
        raise DataError(f"{path} is not there; check the path")
    files = sorted(path.rglob("*.mrg")) if path.is_dir() else [path]
    if not files:
        raise DataError(f"{path} is a folder without a file whose name ends in .mrg; give a file of trees")
    found = [(line, cleaned(tree)) for file in files for line, tree in _trees(file, read_lines(file))]
    trees = [Bracketed(line, tree) for line, tree in found if tree is not None]
    if not trees:
        raise DataError(f"{path} holds no tree with a word in it; give a file of trees such as {SAMPLE}")
    return trees


def trees_of(lines: Iterable[str], path: Path) -> list[Tree]:
    """The trees of lines that stand in a file with more than trees; each is cleaned, and has a word."""
    found = (cleaned(tree) for _, tree in _trees(path, lines))
    return [tree for tree in found if tree is not None]


def _trees(path: Path, lines: Iterable[str]) -> Iterator[Bracketed]:
    """The trees of a file as they are written."""
    unfinished: list[tuple[int, list[Item]]] = []
    for number, line in enumerate(lines, start=1):
        for piece in PIECE.findall(line):
            if piece == "(":
                unfinished.append((number, []))
            elif not unfinished:
                raise DataError(f"{path}, line {number}: {_stray(piece)}")
            elif piece != ")":
                unfinished[-1][1].append(piece)
            else:
                began, items = unfinished.pop()
                node = _node(items, f"{path}, line {began}", is_root=not unfinished)
                if unfinished:
                    unfinished[-1][1].append(node)
                else:
                    yield Bracketed(began, node if isinstance(node, Tree) else Tree("", (node,)))
    if unfinished:
        raise DataError(
            f"{path}, line {unfinished[0][0]}: the tree that begins here never closes; "
            f"{counted(len(unfinished), 'closing bracket')} more must be in it"
        )


def _stray(piece: str) -> str:
    if piece == ")":
        return "a closing bracket too many; remove it, or add the one that opens"
    return f"{piece!r} is outside of all brackets; write each tree as {SAMPLE}"


def _node(items: list[Item], place: str, *, is_root: bool) -> Tree | Word:
    """What a pair of brackets holds: a tag and a word, or a label and what is below it."""
    head, rest = (items[0], items[1:]) if items and isinstance(items[0], str) else ("", items)
    inner = tuple(item for item in rest if not isinstance(item, str))
    written = [item for item in rest if isinstance(item, str)]
    if not rest:
        raise DataError(f"{place}: ({head}) holds nothing; write a word as (NN cat), or remove the brackets")
    if written and len(rest) > 1:
        raise DataError(
            f"{place}: {written[0]!r} shares the brackets of {head or 'a constituent'}; "
            "give each word a tag and brackets of its own, as (NN cat)"
        )
    if not head and not is_root:
        raise DataError(f"{place}: a constituent has no label; only the outermost one may go without")
    node = Word(head, written[0]) if written else Tree(head, inner)
    if isinstance(node, Tree) and JOINED in bare(node.label):
        name = bare(node.label)
        raise DataError(f"{place}: the label {name} has a {JOINED}, which joins labels here; rename it in the file")
    return node
