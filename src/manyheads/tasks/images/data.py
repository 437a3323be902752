"""The data of an image classifier: pictures in folders or arrays, made one size and laid down as rows of pixels."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from manyheads.core.errors import DataError
from manyheads.core.log import counting, say
from manyheads.core.words import counted
from manyheads.data.images import ImageProcessor
from manyheads.data.readers.image_sets import ImageSet, digits, has_part, read_image_set
from manyheads.tasks.images.recipe import ImageData
from manyheads.tasks.labelled import Split, label_names, split
from manyheads.tasks.pictures import refuse_full_disk, said_size, store_images

Labelled = tuple[Any, str]
"""A file or an array, and the name of its class."""
SHOWN = 20  # labels in a message
REMEDY = "give a sub-folder for each class, with several pictures in it"


def image_sets(names: Sequence[str], part: str) -> list[ImageSet]:
    """The images of all places; of one that is divided, those of the part."""
    return [read_image_set(Path(name), part) for name in names]


def read_all(data: ImageData, seed: int = 1) -> Split[Labelled]:
    """Finds every image and its label, and refuses what cannot be learned from; no picture is opened yet."""
    sets = image_sets(data.data, "train") if data.data else [digits("train")]
    others = image_sets(data.valid or _with_valid(data.data), "valid")
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


def _with_valid(names: Sequence[str]) -> list[str]:
    """Those of the places that bring a part to validate on."""
    found = [name for name in names if has_part(Path(name), "valid")]
    for name in found:
        say(f"{name} has a valid part, which is validated on; name others with --valid")
    return found


def refuse_unknown(found: ImageSet, names: Sequence[str]) -> None:
    """Every label must be one of the names."""
    unknown = sorted({*found.labels} - {*names})
    if unknown:
        known = ", ".join(names[:10]) + (", …" if len(names) > 10 else "")
        raise DataError(f"{found.path}: the label {unknown[0]!r} is not among those of the training images ({known})")


def store_labelled(found: Split[Labelled], processor: ImageProcessor, directory: Path) -> None:
    """Lays the pixels of all images down, with their labels; files that cannot be read are left out, and named."""
    count = len(found.train) + len(found.valid)
    refuse_full_disk(count, processor, directory)
    numbers = {name: number for number, name in enumerate(found.about["names"])}
    kept: list[int] = []
    with counting("reading images", count) as show:
        for part, images in (("train", found.train), ("valid", found.valid)):
            labels = {"labels": [numbers[label] for _, label in images]}
            sources = (source for source, _ in images)
            kept.append(len(store_images(directory / part, sources, labels, processor, found.about, show)))
    parts = f"{counted(kept[0], 'image')} to learn from, {kept[1]:,} to validate on"
    say(f"{parts}, {counted(len(numbers), 'label')}, {said_size(processor)}")
