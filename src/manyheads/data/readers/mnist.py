"""MNIST's IDX files, and those of Fashion-MNIST and others by the same names, plain or packed."""

import math
import re
from pathlib import Path

import numpy as np

from manyheads.core.errors import DataError
from manyheads.data.readers.arrays import Labelled, in_memory, mapped, named, refuse_length
from manyheads.data.readers.corpus import COMPRESSED, UNREADABLE, opened, unpacked
from manyheads.data.readers.pixels import reason_of

NAME = re.compile(r"(train|t10k|test)-(images[-.]idx3|labels[-.]idx1)-ubyte")
PARTS = {"train": "train", "t10k": "test", "test": "test"}
BYTES = 8  # how IDX calls numbers from 0 to 255
Files = tuple[Path, Path | None]


def parts(folder: Path) -> dict[str, Files]:
    """The files of images and of labels in a folder, by the part that they are."""
    files: dict[tuple[str, str], Path] = {}
    # One that is not packed comes before its packed copy: it need not be read at once.
    for path in sorted(folder.iterdir(), key=lambda path: (path.suffix in COMPRESSED, path.name)):
        if (named := NAME.fullmatch(unpacked(path).name)) and path.is_file():
            files.setdefault((PARTS[named[1]], named[2][:6]), path)
    return {part: (path, files.get((part, "labels"))) for (part, what), path in files.items() if what == "images"}


def read(files: Files) -> Labelled:
    """The images of a part, and their labels."""
    images, labels = files
    if labels is None:
        name = re.sub(r"images(.)idx3", r"labels\1idx1", images.name)
        raise DataError(f"{images} is there without its labels; put {name} beside it")
    pixels = _read(images, 3)
    return [pixels], named(_read(labels, 1), len(pixels), str(images))


def _read(path: Path, dimensions: int) -> np.ndarray:
    try:
        with opened(path) as file:
            header = file.read(4 + 4 * dimensions)
            if header[:4] != bytes((0, 0, BYTES, dimensions)) or len(header) < 4 + 4 * dimensions:
                raise DataError(f"{path} is no IDX file of bytes as MNIST has them, or is cut off; copy it again")
            shape = tuple(np.frombuffer(header[4:], ">u4").tolist())
            if not all(shape):
                raise DataError(f"{path} is empty: it says that its shape is {list(shape)}; copy it again")
            if path.suffix in COMPRESSED:
                return in_memory(file, str(path), np.dtype(np.uint8), shape)
    except UNREADABLE as error:
        raise DataError(f"{path} cannot be read: {reason_of(error)}; copy it again") from error
    refuse_length(path.stat().st_size - len(header), math.prod(shape), str(path), shape)
    return mapped(path, np.dtype(np.uint8), shape, len(header))
