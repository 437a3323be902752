"""CIFAR-10 and CIFAR-100, in their binary and in their "python version"."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from manyheads.core.errors import DataError
from manyheads.data.readers.arrays import Labelled, mapped, named
from manyheads.data.readers.corpus import read_lines
from manyheads.data.readers.images import natural
from manyheads.data.readers.pickles import read_pickle

SIDE, COLOURS = 32, 3
PIXELS = COLOURS * SIDE**2


@dataclass(frozen=True)
class Version:
    """What the files are called, and where in them the labels are."""

    train: str
    test: str
    meta: str
    """The file of the classes' names."""
    label_bytes: int = 0
    """How many come before the pixels of an image, the last of which counts; 0 for pickles."""
    labels: str = ""
    """What the labels are called in a pickle."""
    names: str = ""
    """What their names are called."""


VERSIONS = (
    Version(r"data_batch_\d+\.bin", "test_batch.bin", "batches.meta.txt", label_bytes=1),
    Version(r"train\.bin", "test.bin", "fine_label_names.txt", label_bytes=2),
    Version(r"data_batch_\d+", "test_batch", "batches.meta", labels="labels", names="label_names"),
    Version("train", "test", "meta", labels="fine_labels", names="fine_label_names"),
)
Files = tuple[Version, list[Path]]


def parts(folder: Path) -> dict[str, Files]:
    """The files in a folder by the part that they are; without the file that names the classes there are none."""
    files = [path for path in sorted(folder.iterdir(), key=natural) if path.is_file()]
    for version in VERSIONS:
        if (folder / version.meta).is_file():
            train = [path for path in files if re.fullmatch(version.train, path.name)]
            test = [path for path in files if path.name == version.test]
            return {part: (version, some) for part, some in (("train", train), ("test", test)) if some}
    return {}


def read(files: Files) -> Labelled:
    """The images of a part, and their classes, of CIFAR-100 the finer ones."""
    version, paths = files
    names = _names(version, paths[0].with_name(version.meta))
    images, labels = [], []
    for path in paths:
        pixels, numbers = _binary(path, version) if version.label_bytes else _pickled(path, version)
        images.append(pixels.reshape(-1, COLOURS, SIDE, SIDE).transpose(0, 2, 3, 1))
        labels += named(numbers, len(pixels), str(path), names)
    return images, labels


def _names(version: Version, path: Path) -> list[str]:
    if version.label_bytes:
        return [line.strip() for line in read_lines(path) if line.strip()]
    names = _at(read_pickle(path), version.names, list, path)
    if not all(isinstance(name, str) for name in names):
        raise DataError(f"{path}: its {version.names} are not all texts, as CIFAR's are; copy it again")
    return names


def _binary(path: Path, version: Version) -> tuple[np.ndarray, np.ndarray]:
    """The pixels of each image in a row, and its label."""
    size, row = path.stat().st_size, version.label_bytes + PIXELS
    if not size or size % row:
        raise DataError(
            f"{path} has {size:,} bytes, where CIFAR's images take {row:,} each; it is cut off or another file, copy "
            "it again"
        )
    rows = mapped(path, np.dtype(np.uint8), (size // row, row))
    return rows[:, version.label_bytes :], rows[:, version.label_bytes - 1].copy()


def _pickled(path: Path, version: Version) -> tuple[np.ndarray, Any]:
    """The same of a pickle."""
    table = read_pickle(path)
    pixels = _at(table, "data", np.ndarray, path)
    if pixels.dtype != np.uint8 or pixels.shape[1:] != (PIXELS,) or not len(pixels):
        raise DataError(
            f"{path}: its data are {pixels.dtype} of the shape {list(pixels.shape)}, where CIFAR has uint8, "
            f"[images, {PIXELS:,}]; copy it again"
        )
    return pixels, _at(table, version.labels, list | np.ndarray, path)


def _at(table: dict[str, Any], key: str, kind: Any, path: Path) -> Any:
    if not isinstance(table.get(key), kind):
        raise DataError(f"{path} has no {key}, as CIFAR has it, but {', '.join(table) or 'nothing'}; copy it again")
    return table[key]
