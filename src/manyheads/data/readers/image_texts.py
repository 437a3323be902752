"""A reader of images with texts: on each line the path of an image, and a text or two behind tabs."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from manyheads.core.errors import DataError
from manyheads.core.log import warn
from manyheads.core.words import counted
from manyheads.data.readers.corpus import read_lines, say_header
from manyheads.data.readers.images import is_image


@dataclass(frozen=True)
class ImageTexts:
    """Images, and what is said of them."""

    images: list[Any]
    """Paths, or of the sample arrays, each once, in the order in which they are first named."""
    rows: list[tuple[int, *tuple[str, ...]]]
    """The number of an image, and its texts."""


def read_image_texts(path: Path, names: tuple[str, ...]) -> ImageTexts:
    """The lines of a file as numbers of images with texts, which `names` are for a person; no image is opened.

    Paths begin at the file's own folder.  A first line that names the columns is passed over; lines with an empty text
    are left out, and counted.
    """
    path, numbers = Path(path), {}
    rows: list[tuple[int, *tuple[str, ...]]] = []
    empty: list[int] = []
    for number, line in enumerate(read_lines(path), start=1):
        cells = [cell.strip() for cell in line.split("\t")]
        if not line.strip():
            continue
        if len(cells) != 1 + len(names):
            raise DataError(
                f"{path}, line {number}: {counted(len(cells), 'column')} where there must be {1 + len(names)}, the "
                f"path of an image, {' and '.join(names)}, with tabs between; mend the line"
            )
        if "\0" in cells[0]:
            raise DataError(f"{path}, line {number}: the path of the image holds a null byte; mend the line")
        if number == 1 and _is_name(cells[0]) and not (path.parent / cells[0]).exists():
            say_header(path, number, cells)
        elif not all(cells):
            empty.append(number)
        else:
            rows.append((numbers.setdefault(path.parent / cells[0], len(numbers)), *cells[1:]))
    if empty:
        warn(f"{path}: {counted(len(empty), 'line')} with an empty column left out, the first of them line {empty[0]}")
    if not rows:
        raise DataError(f"{path} has no line with the path of an image and {' and '.join(names)}; give one that has")
    return ImageTexts(list(numbers), rows)


def _is_name(cell: str) -> bool:
    """Whether the first cell of a table may be its column's name: it leads through no folder, and to no picture."""
    return "/" not in cell and not is_image(Path(cell))
