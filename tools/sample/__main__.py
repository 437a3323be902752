"""Writes the sample corpus that the package ships, in about twenty seconds: `python -m tools.sample`."""

import lzma
from collections.abc import Iterator
from pathlib import Path

from tools.sample.alignment import align
from tools.sample.clauses import Sentence
from tools.sample.split import draw_sets

FILE = Path(__file__).parents[2] / "src" / "manyheads" / "data" / "sample.tsv.xz"
SEED, SIZES = 1, {"train": 20_000, "valid": 500, "test": 500}


def lines() -> Iterator[str]:
    """The lines of the file: the set, the English, the German, and the links between their words."""
    for name, sentences in draw_sets(SEED, SIZES).items():
        for sentence in sentences:
            yield f"{name}\t{sentence.source}\t{sentence.target}\t{written_links(sentence)}\n"


def written_links(sentence: Sentence) -> str:
    """The links as `0-0 1?2`, English word first, `?` where a link is only possible."""
    sure, possible = align(sentence)
    return " ".join(f"{link[0]}{'-' if link in sure else '?'}{link[1]}" for link in sorted(possible))


if __name__ == "__main__":
    FILE.write_bytes(lzma.compress("".join(lines()).encode(), preset=9 | lzma.PRESET_EXTREME))
    print(f"{FILE}: {FILE.stat().st_size:,} bytes")
