"""Writes the sample corpus that the package ships, and trees of it, in half a minute: `python -m tools.sample`."""

import lzma
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

from tools.sample.alignment import align
from tools.sample.clauses import Sentence
from tools.sample.split import draw_sets
from tools.sample.trees import tree_of

FILE = Path(__file__).parents[2] / "src" / "manyheads" / "data" / "sample.tsv.xz"
TREES = FILE.with_name("trees.txt.xz")
SEED, SIZES = 1, {"train": 20_000, "valid": 500, "test": 500}
TREE_SIZES = {"train": 3_000, "valid": 250, "test": 250}


@cache
def sets() -> dict[str, list[Sentence]]:
    """The sentences of each set."""
    return draw_sets(SEED, SIZES)


def lines() -> Iterator[str]:
    """The lines of the file: the set, the English, the German, and the links between their words."""
    for name, sentences in sets().items():
        for sentence in sentences:
            yield f"{name}\t{sentence.source}\t{sentence.target}\t{written_links(sentence)}\n"


def written_links(sentence: Sentence) -> str:
    """The links as `0-0 1?2`, English word first, `?` where a link is only possible."""
    sure, possible = align(sentence)
    return " ".join(f"{link[0]}{'-' if link in sure else '?'}{link[1]}" for link in sorted(possible))


def tree_lines() -> Iterator[str]:
    """The lines of the file of trees: the set, and the tree of the English, of as many as each set begins with."""
    for name, size in TREE_SIZES.items():
        for sentence in sets()[name][:size]:
            yield f"{name}\t{tree_of(sentence)}\n"


def write(file: Path, text: Iterable[str]) -> None:
    """Writes lines as one compressed file."""
    file.write_bytes(lzma.compress("".join(text).encode(), preset=9 | lzma.PRESET_EXTREME))
    print(f"{file}: {file.stat().st_size:,} bytes")


if __name__ == "__main__":
    write(FILE, lines())
    write(TREES, tree_lines())
