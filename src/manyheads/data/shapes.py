"""The sample of pictures: coloured shapes with sentences and questions about them, written by `tools/shapes`."""

import io
import lzma
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.lib import format as npy

from manyheads.core.errors import ConfigError
from manyheads.data.readers.corpus import read_lines

TEXTS = Path(__file__).with_suffix(".tsv.xz")
PIXELS = Path(__file__).with_suffix(".npy.xz")
PARTS = ("train", "valid", "seen", "unseen")
TELL_ALL = "what is there?"


@dataclass(frozen=True)
class Shapes:
    """Pictures with what is said and asked about them."""

    part: str
    captions: list[tuple[str, ...]]
    """The sentences of each picture: one or two of the right ones for training, else all that are right."""
    questions: list[tuple[int, str, str]]
    """The number of a picture, from 0, a question about it, and its one right answer; for training also what is there,
    with each of its sentences: what they teach of shapes helps with the other questions."""
    first: int
    """The number of the first picture among those of all parts."""

    @cached_property
    def pictures(self) -> np.ndarray:
        """All pictures, [picture, row, column, 3] uint8, read when first asked for."""
        file = io.BytesIO(lzma.decompress(PIXELS.read_bytes()))
        palette, numbers = npy.read_array(file), npy.read_array(file)
        return palette.take(numbers[self.first : self.first + len(self.captions)], axis=0)


def shapes(part: str) -> Shapes:
    """A part of the sample: "train", "valid", or one of two tests, "seen" and "unseen".

    Eight of the 48 pairs of a colour and a shape (green circle, yellow square, blue triangle, red star, brown diamond,
    pink cross, purple square, black triangle) occur in "unseen" alone: there in each picture, and each question is
    about one of them.  No picture is in two parts.
    """
    if part not in PARTS:
        raise ConfigError(f"the shapes have no part {part!r}; name one of {', '.join(PARTS)}")
    rows = [line.split("\t") for line in read_lines(TEXTS)]
    captions: list[tuple[str, ...]] = []
    questions: list[tuple[int, str, str]] = []
    for _, *texts in (row for row in rows if row[0] == part):
        asked = [text.partition("? ") for text in texts if "?" in text]
        questions += [(len(captions), f"{question}?", answer) for question, _, answer in asked]
        captions.append(tuple(text for text in texts if "?" not in text))
        if part == "train":
            questions += [(len(captions) - 1, TELL_ALL, sentence) for sentence in captions[-1]]
    return Shapes(part, captions, questions, [row[0] for row in rows].index(part))
