"""Arrays in files of images: left there until asked for where that can be, and as long as they say that they are."""

import math
from pathlib import Path
from typing import Any, BinaryIO, Literal

import numpy as np
import torch

from manyheads.core.errors import DataError
from manyheads.core.words import counted
from manyheads.ops.device import refuse_beyond_memory

Labelled = tuple[list[np.ndarray], list[str]]
"""Arrays of images, [images, height, width] or with colours behind, and the name of the class of each image."""
WHOLE = "whole"  # the part that a place is that is not divided into train, test and valid
Shape = tuple[int, ...]
Order = Literal["C", "F"]


def mapped(path: Path, kind: np.dtype, shape: Shape, offset: int = 0, order: Order = "C") -> np.ndarray:
    """Numbers of a file, which stay there until they are asked for."""
    # A plain array over the map: slices of np.memmap itself are several times slower.
    return np.asarray(np.memmap(path, dtype=kind, mode="r", offset=offset, shape=shape, order=order))


def in_memory(file: BinaryIO, name: str, kind: np.dtype, shape: Shape, order: Order = "C") -> np.ndarray:
    """The numbers that come next in a packed file; where memory does not hold them they are refused."""
    size = math.prod(shape) * kind.itemsize
    refuse_beyond_memory(shape[0], f"entries of {name}", size // shape[0], torch.device("cpu"), "unpack the file")
    content = file.read(size + 1)
    refuse_length(len(content), size, name, shape)
    return np.frombuffer(content, kind).reshape(shape, order=order)


def refuse_length(held: int, needed: int, name: str, shape: Shape) -> None:
    """What a file says that it holds must be what it holds."""
    if held < needed:
        raise DataError(f"{name} is cut off: {_told(shape)} need {needed:,} bytes, but it has {held:,}; copy it again")
    if held > needed:
        raise DataError(f"{name} goes on behind the {needed:,} bytes of {_told(shape)}; copy it again")


def _told(shape: Shape) -> str:
    return " × ".join(f"{each:,}" for each in shape) + " numbers"


def named(labels: Any, images: int, name: str, names: list[str] | None = None) -> list[str]:
    """The class of each image, by its name where numbers have names, else as it stands."""
    try:
        labels = np.asarray(labels)
        if labels.dtype.kind == "S":
            labels = np.char.decode(labels, "utf-8")
    except UnicodeDecodeError:
        raise DataError(f"{name} has labels that are not UTF-8; give names in UTF-8, or numbers") from None
    except ValueError:
        raise DataError(f"{name} has labels of which some are lists; give one number or name for each image") from None
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.ndim != 1:
        raise DataError(f"{name} has labels of the shape {list(labels.shape)}; give one number or name for each image")
    if len(labels) != images:
        raise DataError(
            f"{name} has {counted(images, 'image')}, but {counted(len(labels), 'label')}; there must be as many"
        )
    if labels.dtype.kind not in "iubUS":
        raise DataError(f"{name} has labels of the type {labels.dtype}; give whole numbers or names")
    if not names:
        return [str(label) for label in labels.tolist()]
    if labels.dtype.kind not in "iu":
        raise DataError(
            f"{name} has labels of the type {labels.dtype}; give the number of one of its names for each image"
        )
    if labels.min() < 0 or labels.max() >= len(names):
        raise DataError(f"{name} has labels from {labels.min()} to {labels.max()}, but there are {len(names)} names")
    return [names[label] for label in labels.tolist()]
