"""Writes the pictures of shapes that the package ships: `python -m tools.shapes`; as files: `… --out FOLDER`."""

import argparse
import io
import lzma
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from manyheads.data.shapes import PARTS, PIXELS, TEXTS, shapes
from tools.shapes.drawing import palette, picture
from tools.shapes.parts import Example, draw_parts

SEED, SIZES = 1, {"train": 12_000, "valid": 500, "seen": 500, "unseen": 500}
# The numbers come in runs that begin anywhere, so that neither a number's place nor its bits foretell the next.
FILTERS = [{"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME, "lc": 0, "lp": 0, "pb": 0}]


def lines(parts: dict[str, list[Example]]) -> str:
    """The text of the sample, a line a picture: its part, its sentences, and its questions with their answers."""
    return "".join(
        "\t".join([part, *one.captions, *(f"{asked.text} {asked.answer}" for asked in one.questions)]) + "\n"
        for part, examples in parts.items()
        for one in examples
    )


def pixels(parts: dict[str, list[Example]]) -> bytes:
    """The pictures of the sample as two arrays of NumPy: the palette, and [picture, row, column] numbers in it."""
    file = io.BytesIO()
    np.save(file, palette())
    np.save(file, np.stack([picture(one.scene) for examples in parts.values() for one in examples]))
    return file.getvalue()


def write() -> None:
    """Writes the two files of the sample."""
    parts = draw_parts(SEED, SIZES)
    TEXTS.write_bytes(lzma.compress(lines(parts).encode(), preset=9 | lzma.PRESET_EXTREME))
    PIXELS.write_bytes(lzma.compress(pixels(parts), filters=FILTERS))
    for file in (TEXTS, PIXELS):
        print(f"{file}: {file.stat().st_size:,} bytes")


def unpack(folder: Path, parts: Iterable[str] = PARTS, *, blank: bool = False) -> None:
    """Writes the sample as a user would have it: a folder of PNG files for each part, and tables beside them.

    Of `blank` pictures nothing can be seen: what is learned of them shows how far the texts alone go.
    """
    from PIL import Image

    for part in parts:
        sample = shapes(part)
        names = [f"{part}/{number:05d}.png" for number in range(1, len(sample.pictures) + 1)]
        (folder / part).mkdir(parents=True, exist_ok=True)
        for name, each in zip(names, sample.pictures):
            Image.fromarray(np.full_like(each, 128) if blank else each).save(folder / name)
        captions = [
            f"{name}\t{sentence}\n" for name, all_of_it in zip(names, sample.captions) for sentence in all_of_it
        ]
        questions = [f"{names[number]}\t{question}\t{answer}\n" for number, question, answer in sample.questions]
        (folder / f"captions-{part}.tsv").write_text("".join(captions), "utf-8")
        (folder / f"questions-{part}.tsv").write_text("".join(questions), "utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tools.shapes", description=__doc__)
    parser.add_argument("--out", type=Path, help="a folder for the sample as PNG files with tables of their texts")
    parser.add_argument("--blank", action="store_true", help="with all pictures in one grey")
    given = parser.parse_args()
    unpack(given.out, blank=given.blank) if given.out else write()
