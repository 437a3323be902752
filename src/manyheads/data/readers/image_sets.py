"""Labelled images: a folder for each class, MNIST's and CIFAR's files, an .npz, and digits that a library brings."""

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from manyheads.core.errors import DataError, MissingExtra
from manyheads.core.log import say, warn
from manyheads.core.words import counted
from manyheads.data.readers import cifar, mnist, npz
from manyheads.data.readers.arrays import WHOLE, Labelled
from manyheads.data.readers.images import files_below, is_image, looks, natural
from manyheads.data.readers.pixels import reason_of

PARTS = {"train": ("train",), "valid": ("valid", "test", "train"), "test": ("test", "valid", "train")}
"""Which part is taken where one is asked for: the whole where there are none, else the first of these that is there."""
FOLDERS = {
    "train": "train", "training": "train", "test": "test", "testing": "test", "valid": "valid", "val": "valid",
    "validation": "valid",
}  # fmt: skip
"""What folders of parts are called."""
DIGITS, BRIGHTEST, EVERY = "scikit-learn's digits", 16, 5
ARCHIVE = re.compile(r"\.(zip|7z|rar|tgz|tar(\.\w+)?)$", re.IGNORECASE)
OF_SYSTEMS = ("thumbs.db", "desktop.ini")  # what they leave in folders of pictures unasked
SHOWN = 10  # names in a message


@dataclass(frozen=True)
class ImageSet:
    """Images and the class of each."""

    path: str
    """The place that they are from."""
    images: list[Any]
    """The paths of files that are not opened yet, or arrays, [height, width] or with colours behind."""
    labels: list[str]

    @property
    def size(self) -> tuple[int, int] | None:
        """Height and width where all images have the same, of files as their headers say."""
        return self._looks[0]

    @property
    def grey(self) -> bool:
        """Whether all images are in shades of grey, of files as their headers say."""
        return self._looks[1]

    @cached_property
    def _looks(self) -> tuple[tuple[int, int] | None, bool]:
        return looks(self.images)


def read_image_set(path: Path, part: str = "train") -> ImageSet:
    """The images of a place, of which a part where it is divided, all that there is where it is not.

    A place is a folder with a sub-folder for each class, or with train, test and valid folders of such (train and test
    also with -ing behind, valid also val or validation; of capitals as well); a folder of the files of MNIST or CIFAR;
    or an .npz.  Files of pictures are not opened yet, and arrays stay in their files, unless those are compressed.
    """
    found = _parts(Path(path))
    return found[_chosen(part, found, path)]()


def has_part(path: Path, part: str) -> bool:
    """Whether a place is divided, and one of its parts is this one."""
    return part in _parts(path)


def _parts(path: Path) -> dict[str, Callable[[], ImageSet]]:
    """What reads each part of a place, or the whole of one that is not divided."""
    if not path.exists():
        raise DataError(f"{path} is not there; check the path")
    if not path.is_dir() and not path.is_file():
        raise DataError(f"{path} is neither a folder nor a file; name a folder of images or an .npz")
    if path.is_file() and path.suffix.lower() != ".npz":
        what = "unpack it, and name the folder" if ARCHIVE.search(path.name) else "name the folder that it is in"
        raise DataError(f"{path} is a file, where a folder of images or an .npz is wanted; {what}")
    for kind in (npz,) if path.is_file() else (mnist, cifar):
        try:
            found = kind.parts(path)
        except OSError as error:
            raise DataError(f"the folder {path} cannot be read: {reason_of(error)}; check its permissions") from error
        if found:
            return {name: partial(_of_arrays, path, kind.read, files) for name, files in found.items()}
    return _folders(path)


def _of_arrays(path: Path, read: Callable[[Any], Labelled], files: Any) -> ImageSet:
    images, labels = read(files)
    return ImageSet(str(path), [image for array in images for image in array], labels)


def _chosen(part: str, there: Collection[str], path: Path) -> str:
    """The name of the part that is taken; where it is another than is asked for, that is said."""
    name = WHOLE if WHOLE in there else next((each for each in PARTS[part] if each in there), None)
    if name is None:
        raise DataError(f"{path} has no part to learn from, only {' and '.join(there)}; name another place")
    if name not in (WHOLE, part):
        (warn if name == "train" else say)(f"{path} has no {part} part; its {name} part is taken instead")
    return name


# Folders


def _folders(path: Path) -> dict[str, Callable[[], ImageSet]]:
    folders, _ = _held(path)
    named = [folder for folder in folders if folder.name.casefold() in FOLDERS]
    if named and len(named) < len(folders) and not any(map(is_image, _held(named[0])[1])):
        others = [folder for folder in folders if folder not in named]
        raise DataError(
            f"the folder {path} holds {_listed(named)}, as if it were divided, and also {_listed(others)}; name "
            f"{named[0]} itself, or move the others away"
        )
    if named and len(named) == len(folders):
        there = {FOLDERS[folder.name.casefold()]: folder for folder in named}
        if len(there) < len(named):
            raise DataError(
                f"the folder {path} holds {_listed(named)}, two of which are the same part; name one of them"
            )
        return {name: partial(_of_folder, folder) for name, folder in there.items()}
    return {WHOLE: partial(_of_folder, path)}


def _of_folder(path: Path) -> ImageSet:
    folders, files = _held(path)
    if not folders:
        raise DataError(
            f"the folder {path} holds {_listed(files) or 'nothing'}, neither a sub-folder for each class, nor MNIST's "
            "IDX files, nor CIFAR's batches with the file that names the classes; sort pictures into such folders, or "
            "name an .npz itself"
        )
    if loose := [file for file in files if is_image(file)]:
        warn(f"{path}: {counted(len(loose), 'picture')} beside the folders of classes, as {loose[0].name}, left out")
    return _of_classes(path, folders)


def _of_classes(path: Path, folders: list[Path]) -> ImageSet:
    images: list[Path] = []
    labels: list[str] = []
    others: list[Path] = []
    for folder in folders:
        files = [file for file in files_below(folder) if file.name.casefold() not in OF_SYSTEMS]
        found = [file for file in files if is_image(file)]
        if not found:
            held = f"no picture but {_listed(files)}" if files else "no picture"
            raise DataError(f"the folder {folder} of a class holds {held}; put pictures there, or remove it")
        images += found
        labels += [folder.name] * len(found)
        others += [file for file in files if not is_image(file)]
    if others:
        warn(f"{path}: {counted(len(others), 'file')} of no kind of picture that is read, as {others[0]}, left out")
    return ImageSet(str(path), images, labels)


def _held(folder: Path) -> tuple[list[Path], list[Path]]:
    """The folders and the files in a folder that are not hidden, in order."""
    try:
        there = sorted((each for each in folder.iterdir() if not each.name.startswith(".")), key=natural)
    except OSError as error:
        raise DataError(f"the folder {folder} cannot be read: {reason_of(error)}; check its permissions") from error
    return [each for each in there if each.is_dir()], [each for each in there if not each.is_dir()]


def _listed(paths: list[Path]) -> str:
    return ", ".join(path.name for path in paths[:SHOWN]) + (", …" if len(paths) > SHOWN else "")


# What a library brings


def digits(part: str) -> ImageSet:
    """1,797 digits that people wrote, of 8 × 8 pixels; every fifth is for testing."""
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        raise MissingExtra("scikit-learn", "images", "Learning from its digits, as without --data,") from None
    images, labels = load_digits(return_X_y=True)
    images = np.rint(images.reshape(-1, 8, 8) * (255 / BRIGHTEST)).astype(np.uint8)
    kept = [number for number in range(len(images)) if (number % EVERY == EVERY - 1) == (part == "test")]
    return ImageSet(DIGITS, [images[number] for number in kept], [str(labels[number]) for number in kept])
