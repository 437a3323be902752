"""Images and labels in an .npz of numpy, by the names that are usual."""

import math
import zipfile
from collections.abc import Iterable
from pathlib import Path
from tokenize import TokenError
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy

from manyheads.core.errors import DataError
from manyheads.data.readers.arrays import WHOLE, Labelled, Order, in_memory, mapped, named, refuse_length
from manyheads.data.readers.corpus import UNREADABLE
from manyheads.data.readers.pixels import bytes_of_floats, reason_of, refuse_size

MEMBER = ".npy"
PARTS = {"train": ("train",), "test": ("test",), "valid": ("valid", "val")}
IMAGES = ("x", "images", "image", "data")
LABELS = ("y", "labels", "label", "targets", "target")
KNOWN = "x_train and y_train, x_test and y_test, or images and labels"
HEADERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
BYTE = 255  # the most that uint8 holds
AT_ONCE = 2**22  # numbers that are looked at together
BEFORE_NAME, BEHIND_SIZES = 26, 30  # where in the header of a file in a zip the lengths of its name and notes stand
DAMAGED = (*UNREADABLE, zipfile.BadZipFile, ValueError, KeyError, RuntimeError, NotImplementedError)
UNPARSED = (ValueError, TypeError, KeyError, SyntaxError, TokenError, RecursionError, MemoryError)  # a header, by numpy
Names = tuple[Path, list[str], list[str]]


def parts(path: Path) -> dict[str, Names]:
    """The names of arrays of images and of arrays of labels, by the part that they are."""
    try:
        with zipfile.ZipFile(path) as archive:
            there = [name.removesuffix(MEMBER) for name in archive.namelist() if name.endswith(MEMBER)]
    except DAMAGED as error:
        raise _damaged(path, error) from error

    def among(usual: Iterable[str]) -> list[str]:
        known = {*usual}
        return [name for name in there if name.lower() in known]

    found: dict[str, Names] = {}
    for part, words in PARTS.items():
        images, labels = (
            among(joined for word in words for name in names for joined in (f"{name}_{word}", f"{word}_{name}"))
            for names in (IMAGES, LABELS)
        )
        if images or labels:
            found[part] = path, images, labels
    whole = path, among(IMAGES), among(LABELS)
    if not found and not any(whole[1:]):
        raise DataError(f"{path} holds {', '.join(there) or 'no array'}; call the arrays {KNOWN}")
    return found or {WHOLE: whole}


def read(names: Names) -> Labelled:
    """The images of a part, and their labels."""
    path, images, labels = names
    if len(images) != 1 or len(labels) != 1:
        found = f"{', '.join(images) or 'no images'} and {', '.join(labels) or 'no labels'}"
        raise DataError(f"{path} holds {found} for a part, where there must be one of each; call them {KNOWN}")
    pixels = _pictures(_read(path, images[0]), f"{path}: {images[0]}")
    return [pixels], named(_read(path, labels[0]), len(pixels), str(path))


def _pictures(array: np.ndarray, name: str) -> np.ndarray:
    """Images of numbers that are known, with their colours behind."""
    before, behind = (array.ndim == 4 and array.shape[axis] in known for axis, known in ((1, (1, 3)), (-1, (1, 3, 4))))
    if array.ndim != 3 and before == behind:
        raise DataError(
            f"{name} has the shape {list(array.shape)}, of which it is not clear where height, width and colours are; "
            "give [images, height, width] or [images, height, width, colours] with 1, 3 or 4 colours"
        )
    if before:
        array = array.transpose(0, 2, 3, 1)
    refuse_size(array.shape[2], array.shape[1], f"{name}: each picture")
    rows = max(AT_ONCE // math.prod(array.shape[1:]), 1)
    some = (array[start : start + rows] for start in range(0, len(array), rows))
    if array.dtype.kind == "f":
        for each in some:
            bytes_of_floats(each, name)
    elif array.dtype == np.uint16:
        if not any((each > BYTE).any() for each in some):
            raise DataError(f"{name} is of uint16, where white is 65,535, but goes to {array.max()} alone; give uint8")
    elif array.dtype != np.uint8:
        raise DataError(f"{name} is of {array.dtype}; give uint8, uint16, or floats from 0 to 1")
    return array


def _read(path: Path, name: str) -> np.ndarray:
    """An array, which stays in the file until it is asked for, unless it is compressed."""
    place = f"{path}: {name}"
    try:
        with zipfile.ZipFile(path) as archive, archive.open(name + MEMBER) as member:
            shape, columns_first, kind = _header(member, place)
            if kind.hasobject:
                raise DataError(f"{place} holds objects of Python, which only a pickle could; give numbers or names")
            if not shape or 0 in shape:
                raise DataError(f"{place} has the shape {list(shape)}, which is no row; give one for each image")
            order: Order = "F" if columns_first else "C"
            told, start = archive.getinfo(name + MEMBER), member.tell()
            if told.compress_type != zipfile.ZIP_STORED:
                return in_memory(member, place, kind, shape, order)  # type: ignore
            refuse_length(told.file_size - start, math.prod(shape) * kind.itemsize, place, shape)
        with path.open("rb") as file:
            file.seek(told.header_offset + BEFORE_NAME)
            notes = sum(np.frombuffer(file.read(BEHIND_SIZES - BEFORE_NAME), "<u2").tolist())
        return mapped(path, kind, shape, told.header_offset + BEHIND_SIZES + notes + start, order)
    except DAMAGED as error:
        raise _damaged(path, error) from error


def _header(member: IO[bytes], place: str) -> Any:
    """The shape of an array, whether its columns come first, and the type of its numbers."""
    try:
        return HEADERS[npy.read_magic(member)](member)
    except UNPARSED as error:
        raise DataError(f"{place} has a header that is damaged or of another kind of file; copy it again") from error


def _damaged(path: Path, error: Exception) -> DataError:
    return DataError(f"{path} cannot be read as an .npz: {reason_of(error)}; copy it again")
