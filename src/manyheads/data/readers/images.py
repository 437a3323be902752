"""Pictures in files: each as a person sees it, and the files that names, folders and patterns stand for."""

import glob
import os
import re
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, BinaryIO

from manyheads.core.errors import ConfigError, DataError, MissingExtra
from manyheads.data.readers.pixels import LARGEST, as_seen, damaged, from_array, is_grey, reason_of, refuse_size

if TYPE_CHECKING:
    from PIL.Image import Image

    from manyheads.data.readers.pixels import Then

ENDINGS = frozenset({
    ".png", ".apng", ".jpg", ".jpeg", ".jpe", ".jfif", ".mpo", ".gif", ".webp", ".tif", ".tiff", ".bmp", ".dib", ".pbm",
    ".pgm", ".ppm", ".pnm", ".avif", ".jp2", ".j2k", ".ico", ".tga",
})  # fmt: skip
# Those that a picture comes in, and no more: to open some others, such as EPS, Pillow starts a program.
FORMATS = ("PNG", "JPEG", "MPO", "GIF", "WEBP", "TIFF", "BMP", "DIB", "PPM", "AVIF", "JPEG2000", "ICO", "TGA")
DEVICES = "/dev"  # where a shell puts what another program writes, as in <(cat photo.png)
_opening = Lock()


def require_pillow() -> None:
    """Refuses in a sentence where Pillow is not installed."""
    try:
        import PIL.Image  # noqa: F401 # pyright: ignore[reportUnusedImport]
    except ImportError:
        raise MissingExtra("pillow", "images", "Reading images") from None


def read_image(source: Any, then: "Then | None" = None) -> "Image":
    """A picture of mode RGB, or L where it is grey, from a file's path, a picture of PIL, or an array or tensor.

    It is turned as its EXIF says, laid over white where it is transparent, and of several frames it is the first, with
    a warning.  Arrays are [height, width] or [height, width, 1, 3 or 4], tensors also [1 or 3, height, width], of
    uint8, uint16, or floats from 0 to 1.  What is made of it `then` is made before another large one has its place in
    memory.
    """
    require_pillow()
    from PIL import Image

    if isinstance(source, Image.Image):
        return as_seen(source, str(getattr(source, "filename", "")), then)
    if isinstance(source, str | os.PathLike):
        path = Path(source)
        with _opened(path) as file, _identified(file, path) as image:
            return as_seen(image, str(path), then)
    return then(from_array(source)) if then else from_array(source)


# Files


def glance(path: Path) -> tuple[tuple[int, int], bool]:
    """Height and width of a picture, perhaps before it is turned, and whether it is grey, from its file's beginning."""
    require_pillow()
    with _opened(path) as file, _identified(file, path) as image:
        refuse_size(*image.size, str(path))
        return (image.height, image.width), is_grey(image)


def looks(images: Iterable[Any]) -> tuple[tuple[int, int] | None, bool]:
    """Height and width where all images have the same, and whether all are in shades of grey.

    Images are paths of files, at whose headers alone one looks, or arrays, [height, width] or with colours behind.
    """
    sizes, grey = set[tuple[int, int]](), True
    for size, shades in map(_look, images):
        sizes, grey = sizes | size, grey and shades
        if len(sizes) > 1 and not grey:  # as soon as with photos
            break
    return (sizes.pop() if len(sizes) == 1 else None), grey


def _look(image: Any) -> tuple[set[tuple[int, int]], bool]:
    if not isinstance(image, Path):
        return {image.shape[:2]}, image.ndim == 2 or image.shape[2] == 1
    try:
        size, grey = glance(image)
    except DataError:  # it is said when it is read
        return set(), True
    return {size}, grey


def _opened(path: Path) -> BinaryIO:
    try:
        if path.is_dir():
            raise DataError(f"{path} is a folder, not a picture; name the pictures in it")
        if path.exists() and not path.is_file() and not path.absolute().is_relative_to(DEVICES):
            raise DataError(f"{path} is a pipe or the like, for which one may wait for ever; name a picture's file")
        return path.open("rb")
    except FileNotFoundError:
        raise DataError(f"{path} is not there; check the path") from None
    except (OSError, ValueError) as error:  # a name with a null byte is a ValueError
        raise DataError(f"{path} cannot be read: {reason_of(error)}; check its name and its permissions") from error


def _identified(file: BinaryIO, path: Path) -> "Image":
    """A picture of which only the header is read as yet."""
    from PIL import Image, UnidentifiedImageError

    Image.init()
    formats = [each for each in FORMATS if each in Image.OPEN]
    try:
        # Filters of warnings belong to the process, so that one thread at a time changes them; LARGEST decides here.
        with _opening, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return Image.open(file, formats=formats)
    except UnidentifiedImageError:
        empty = os.fstat(file.fileno()).st_size == 0
        raise DataError(
            f"{path} {'is empty' if empty else 'is no picture of a kind that is read, or its beginning is damaged'}; "
            "give a PNG, JPEG, GIF, WebP, TIFF or BMP"
        ) from None
    except Image.DecompressionBombError:
        raise DataError(f"{path} has more than {LARGEST:,} pixels, which is too large; make it smaller") from None
    except Exception as error:
        raise damaged(str(path), error) from error


# Names of files


def image_files(named: Iterable[str | Path]) -> list[Path]:
    """The files that are named, in order and each once: themselves, those in folders and folders in them, by patterns.

    Of folders and patterns such as *.png, files with the ending of a picture count that are not hidden, in the order
    of their names, where 10 comes after 9.
    """
    if isinstance(named, str | os.PathLike):
        raise ConfigError("a list of files is needed, not one name; put it into a list")
    files: dict[str, Path] = {}
    for name in named:
        for path in _files_of(name):
            files.setdefault(os.path.realpath(path), path)
    return list(files.values())


def _files_of(name: str | Path) -> Iterable[Path]:
    path = Path(name)
    if path.is_dir():
        if found := [each for each in files_below(path) if is_image(each)]:
            return found
        raise DataError(f"the folder {path} holds no picture ({_some()}); name another")
    if path.exists():
        return [path]
    if not glob.has_magic(str(path)):
        raise DataError(f"{path} is not there; check the path")
    matches = sorted(map(Path, glob.glob(str(path), recursive=True)), key=natural)
    files = [file for match in matches for file in (files_below(match) if match.is_dir() else [match])]
    if found := [file for file in files if is_image(file)]:
        return found
    raise DataError(f"no picture ({_some()}) is named as {path}; check the pattern")


def _some() -> str:
    return ".png, .jpg and the like"


def is_image(path: Path) -> bool:
    """Whether a file's name ends as a picture's does."""
    return path.suffix.lower() in ENDINGS


def natural(path: Path | str) -> tuple[Any, ...]:
    """A key by which names are sorted as a person does: 9 before 10, capitals beside small letters."""
    parts = [re.split(r"([0-9]+)", part.casefold()) for part in Path(path).parts]
    # Every second piece is a number, so that like is compared with like; the name itself decides between 01 and 1.
    return [[int(piece) if place % 2 else piece for place, piece in enumerate(part)] for part in parts], str(path)


def files_below(folder: Path) -> list[Path]:
    """All files in a folder and in folders below it that are not hidden, in order.

    Links to folders are followed, but for those that lead back to where they are; pipes and the like are passed over.
    """
    above = {str(parent) for parent in Path(os.path.realpath(folder)).parents}
    return sorted(_walked(folder, above), key=natural)


def _walked(folder: Path, seen: set[str]) -> Iterator[Path]:
    here = os.path.realpath(folder)
    if here in seen:  # links may go round in a circle
        return
    seen.add(here)
    try:
        entries = sorted(entry for entry in folder.iterdir() if not entry.name.startswith("."))
    except OSError as error:
        raise DataError(f"the folder {folder} cannot be read: {reason_of(error)}; check its permissions") from error
    for entry in entries:
        if entry.is_dir():
            yield from _walked(entry, seen)
        elif entry.is_file() or not entry.exists():  # a link to nowhere is named when it is read
            yield entry
