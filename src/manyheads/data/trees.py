"""Trees of constituents: their words, their spans, and how the field cleans them.  Nothing here recurses."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

TOP = "TOP"
TRACE = "-NONE-"
JOINED = "+"
OPENS_WITH, CLOSING = "⟨", "⟩"  # of trees that a model writes; no byte of a text is spelt as one
ROOTS = ("", TOP, "ROOT", "S1")
BARE = re.compile(r"-.*|.[^-=|]*", re.DOTALL)  # -LRB- and its like are names, not the tail of one


class Word(NamedTuple):
    """A leaf: a part of speech and a word."""

    tag: str
    text: str


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Tree:
    """A constituent and what it consists of."""

    label: str
    children: tuple["Tree | Word", ...]

    @property
    def words(self) -> tuple[Word, ...]:
        """The leaves, from left to right."""
        return tuple(node for node, _ in steps(self) if isinstance(node, Word))

    @property
    def texts(self) -> list[str]:
        """The words without their tags."""
        return [word.text for word in self.words]

    def __str__(self) -> str:
        """One line of the Penn Treebank's brackets, in which a bracket of the text is -LRB- or -RRB-."""
        pieces: list[str] = []
        for node, entering in steps(self):
            if isinstance(node, Word):
                pieces.append(f" ({_unbracketed(node.tag)} {_unbracketed(node.text)})")
            else:
                pieces.append(f" ({node.label}" if entering else ")")
        return "".join(pieces)[1:]

    def __repr__(self) -> str:
        return f"<Tree {self}>"

    # The usual ones go as deep as the tree, and Python gives up at a thousand levels.
    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tree) and _flat(self) == _flat(other)

    def __hash__(self) -> int:
        return hash(_flat(self))


class Span(NamedTuple):
    """The words first..behind-1 under a label; of several that each hold only the next, all joined by +, as S+VP."""

    first: int
    behind: int
    label: str


def steps(tree: Tree) -> Iterator[tuple[Tree | Word, bool]]:
    """Every node from left to right: a word once, a constituent when it is entered and again when it is left."""
    waiting: list[tuple[Tree | Word, bool]] = [(tree, True)]
    while waiting:
        node, entering = waiting.pop()
        yield node, entering
        if entering and isinstance(node, Tree):
            waiting.append((node, False))
            waiting.extend((child, True) for child in reversed(node.children))


def constituents(tree: Tree) -> list[Span]:
    """The root and all constituents below it, the outer before the inner, each with its own label."""
    found: list[Span] = []
    unfinished: list[int] = []
    words = 0
    for node, entering in steps(tree):
        if isinstance(node, Word):
            words += 1
        elif entering:
            unfinished.append(len(found))
            found.append(Span(words, words, node.label))
        else:
            place = unfinished.pop()
            found[place] = found[place]._replace(behind=words)
    return found


def spans(tree: Tree) -> list[Span]:
    """The constituents of a cleaned tree below its root, from left to right, of those that begin together the longest
    first, with one label for all that are over the same words."""
    same = groupby(constituents(tree)[1:], key=lambda span: span[:2])
    return [Span(*place, JOINED.join(span.label for span in chain)) for place, chain in same]


def tree_of(words: Sequence[Word], spans: Iterable[Span]) -> Tree:
    """The tree with these words and spans, which may come in any order: what `spans` takes apart, put together."""
    if not words:
        raise ValueError("a tree needs a word, and there is none")
    beginning = _by_first(spans, len(words))
    whole = Span(0, len(words), TOP)
    unfinished: list[tuple[Span, list[Tree | Word]]] = [(whole, [])]
    for place, word in enumerate(words):
        for span in beginning.get(place, ()):
            around = unfinished[-1][0]
            if span.behind > around.behind:
                raise ValueError(
                    f"{_named(span)} crosses {_named(around)}; of two constituents one must be in the other"
                )
            if span[:2] == around[:2] and around is not whole:
                raise ValueError(f"{_named(span)} has the words of {_named(around)}; join the labels by {JOINED}")
            unfinished.append((span, []))
        unfinished[-1][1].append(word)
        while len(unfinished) > 1 and unfinished[-1][0].behind == place + 1:
            span, children = unfinished.pop()
            unfinished[-1][1].append(_chain(span.label, children))
    return Tree(TOP, tuple(unfinished[0][1]))


def cleaned(tree: Tree) -> Tree | None:
    """The tree under the root TOP, with bare labels and without traces, or None where nothing else is in it."""
    unfinished: list[list[Tree | Word]] = [[]]
    for node, entering in steps(tree):
        if isinstance(node, Word):
            if node.tag != TRACE:
                unfinished[-1].append(node)
        elif entering:
            unfinished.append([])
        else:
            children = unfinished.pop()
            if children:
                unfinished[-1].append(Tree(bare(node.label), tuple(children)))
    for root in unfinished[0]:
        return Tree(TOP, root.children if isinstance(root, Tree) and root.label in ROOTS else (root,))
    return None


def bare(label: str) -> str:
    """The category in a label, without functions and indices: NP of NP-SBJ-1, NP=2 or NP|NX."""
    found = BARE.match(label)
    return found[0] if found else ""


def _by_first(spans: Iterable[Span], words: int) -> dict[int, list[Span]]:
    """The spans that begin at each word, the longest first."""
    beginning: dict[int, list[Span]] = {}
    for span in sorted(spans, key=lambda span: (span.first, -span.behind)):
        if not 0 <= span.first < span.behind <= words:
            raise ValueError(f"{_named(span)} is not within the words 1 to {words}")
        if "" in span.label.split(JOINED):
            raise ValueError(f"{_named(span)} has an empty label")
        beginning.setdefault(span.first, []).append(span)
    return beginning


def _chain(label: str, children: Sequence[Tree | Word]) -> Tree:
    """The constituents that are joined in a label, each in the one before it."""
    *outer, inner = label.split(JOINED)
    tree = Tree(inner, tuple(children))
    for name in reversed(outer):
        tree = Tree(name, (tree,))
    return tree


def _flat(tree: Tree) -> tuple[tuple[str, int] | Word, ...]:
    """What tells one tree from another, without depth."""
    entered = (node for node, entering in steps(tree) if entering)
    return tuple(node if isinstance(node, Word) else (node.label, len(node.children)) for node in entered)


def _unbracketed(text: str) -> str:
    return text.replace("(", "-LRB-").replace(")", "-RRB-")


def _named(span: Span) -> str:
    """A span for people, who count words from 1."""
    return f"{span.label or 'a constituent'} over the words {span.first + 1} to {span.behind}"
