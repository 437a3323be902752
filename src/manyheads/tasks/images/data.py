"""The data of an image classifier: pictures in folders or arrays, made one size and laid down as rows of pixels."""

import shutil
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from manyheads.core.errors import DataError
from manyheads.core.log import counting, say, warn
from manyheads.core.words import counted
from manyheads.data.images import ImageProcessor
from manyheads.data.ragged import Ragged, store_written
from manyheads.data.readers.image_sets import ImageSet, digits, has_test, read_image_set
from manyheads.ops.device import readable
from manyheads.tasks.images.recipe import ImageData
from manyheads.tasks.labelled import Split, label_names, split

Labelled = tuple[Any, str]
"""A file or an array, and the name of its class."""
AT_ONCE = 256  # images laid down together
NAMED = 5  # of the files that cannot be read
SHOWN = 20  # labels in a message
REMEDY = "give a sub-folder for each class, with several pictures in it"


def image_sets(names: Sequence[str], part: str) -> list[ImageSet]:
    """The images of all places; of one that has a test part, only that where it is asked for."""
    return [read_image_set(Path(name), part if part == "train" or has_test(Path(name)) else "train") for name in names]


def read_all(data: ImageData, seed: int = 1) -> Split[Labelled]:
    """Finds every image and its label, and refuses what cannot be learned from; no picture is opened yet."""
    sets = image_sets(data.data, "train") if data.data else [digits("train")]
    others = image_sets(data.valid, "test")
    counts = Counter(label for each in sets for label in each.labels)
    names = label_names(counts, sets[0].path, "image", REMEDY)
    for each in others:
        refuse_unknown(each, names)
    say("labels: " + ", ".join(f"{name} {count:,}" for name, count in counts.most_common(SHOWN)))
    sizes = {each.size for each in sets}
    size = next(iter(sizes)) if len(sizes) == 1 else None
    about = {"names": names, "side": size and max(size), "grey": all(each.grey for each in sets)}
    train, valid = ([pair for each in some for pair in zip(each.images, each.labels)] for some in (sets, others))
    if not valid:
        train, valid = split(train, "images", seed, lambda pair: pair[1])
    return Split(train, valid, about)


def refuse_unknown(found: ImageSet, names: Sequence[str]) -> None:
    """Every label must be one of the names."""
    unknown = sorted({*found.labels} - {*names})
    if unknown:
        known = ", ".join(names[:10]) + (", …" if len(names) > 10 else "")
        raise DataError(f"{found.path}: the label {unknown[0]!r} is not among those of the training images ({known})")


def store_images(found: Split[Labelled], processor: ImageProcessor, directory: Path) -> None:
    """Lays the pixels of all images down, with their labels; files that cannot be read are left out, and named."""
    count, size = len(found.train) + len(found.valid), processor.size**2 * processor.channels
    free = shutil.disk_usage(directory).free
    if count * size > free:
        raise DataError(
            f"{count:,} images of {processor.size} × {processor.size} pixels take {readable(count * size)} on the disk, "
            f"which has {readable(free)} left; make them smaller with --size, or give another --out"
        )
    numbers = {name: number for number, name in enumerate(found.about["names"])}
    kept: list[int] = []
    with counting("reading images", count) as show:
        for part, images in (("train", found.train), ("valid", found.valid)):
            kept.append(_store_part(directory / part, images, numbers, processor, found.about, show))
    side = f"{processor.size} × {processor.size} pixels in {'colour' if processor.channels > 1 else 'grey'}"
    parts = f"{counted(kept[0], 'image')} to learn from, {kept[1]:,} to validate on"
    say(f"{parts}, {counted(len(numbers), 'label')}, {side}")


def _store_part(
    directory: Path,
    images: Sequence[Labelled],
    numbers: dict[str, int],
    processor: ImageProcessor,
    about: dict[str, Any],
    show: Callable[[int], None],
) -> int:
    """How many images of a part could be laid down."""
    unread: list[str] = []
    with store_written(directory) as writer:
        writer.about = about
        rows: list[np.ndarray] = []
        labels: list[int] = []

        def flush() -> None:
            if rows:
                pixels = Ragged.of_equal(np.stack(rows).reshape(len(rows), -1))
                writer.append({"pixels": pixels, "labels": np.array(labels, dtype=np.int64)})
                rows.clear()
                labels.clear()

        for (_, label), pixels in zip(images, processor.many(source for source, _ in images)):
            if isinstance(pixels, DataError):
                unread.append(str(pixels))
                continue
            rows.append(pixels)
            labels.append(numbers[label])
            if len(rows) == AT_ONCE:
                flush()
                show(writer.rows)
        flush()
        _tell(unread, len(images))
    return writer.rows


def _tell(unread: Sequence[str], count: int) -> None:
    """Names images that were left out."""
    for message in unread[:NAMED]:
        warn(f"left out: {message}")
    if len(unread) > NAMED:
        warn(f"left out: {len(unread):,} of {count:,} images, of which the first {NAMED} are named above")
    if len(unread) == count:
        raise DataError(f"none of the {count:,} images can be read; the first: {unread[0]}")
