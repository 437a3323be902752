"""Images with texts: found in files or in the sample, laid down as pixels and ids."""

import json
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from manyheads.core.errors import DataError
from manyheads.core.files import parse_json
from manyheads.core.log import counting, say
from manyheads.core.words import counted
from manyheads.data.held_out import held_out, say_held_out
from manyheads.data.image_text import ImageTextProcessor
from manyheads.data.ragged import Ragged, Store, id_type
from manyheads.data.readers.image_texts import ImageTexts, read_image_texts
from manyheads.data.readers.images import looks
from manyheads.data.shapes import shapes
from manyheads.tasks.caption.recipe import ImageTextData
from manyheads.tasks.labelled import HELD_OUT_EVERY, HELD_OUT_MOST
from manyheads.tasks.pictures import refuse_full_disk, said_size, store_images
from manyheads.tasks.task import Files

COLUMNS = ("question", "target")  # of texts as they are laid down: of captions the last alone
VALID = "valid.jsonl"


@dataclass(frozen=True)
class Asked:
    """An image by its number, what is asked of it, if anything is, and all that is right to write."""

    image: int
    question: str | None
    right: tuple[str, ...]


@dataclass(frozen=True)
class ImageTextSplit:
    """What a run learns from, and what it is validated on."""

    train: ImageTexts
    valid: ImageTexts
    about: dict[str, Any]
    """Of all images: their side, if all have one, and whether they are grey."""


def captions_of_shapes(part: str) -> ImageTexts:
    """A part of the sample: pictures of coloured shapes, with a line for each of their captions."""
    found = shapes(part)
    rows: list[tuple[int, *tuple[str, ...]]] = [
        (number, caption) for number, captions in enumerate(found.captions) for caption in captions
    ]
    return ImageTexts(list(found.pictures), rows)


def read_files(files: Files, names: tuple[str, ...]) -> ImageTexts:
    """The lines of all files; `names` are their columns behind the path, for a person."""
    images: dict[str, Path] = {}
    rows: list[tuple[int, *tuple[str, ...]]] = []
    for file in files:
        found = read_image_texts(Path(file), names)
        places = [os.path.realpath(image) for image in found.images]  # two files may name one image in two ways
        for place, image in zip(places, found.images):
            images.setdefault(place, image)
        numbers = {place: number for number, place in enumerate(images)}
        rows += [(numbers[places[image]], *texts) for image, *texts in found.rows]
    return ImageTexts(list(images.values()), rows)


def read_all(
    data: ImageTextData, names: tuple[str, ...], sample: Callable[[str], ImageTexts], seed: int
) -> ImageTextSplit:
    """Finds every image and its texts; no image is read yet."""
    files: Files = getattr(data, data.files)
    if not files:
        train, valid = sample("train"), sample("valid")
        return ImageTextSplit(train, valid, {"side": train.images[0].shape[0], "grey": False})
    train = read_files(files, names)
    size, grey = looks(train.images)
    if data.valid:
        valid = read_files(data.valid, names)
    else:
        train, valid = _held_out(train, seed)
    return ImageTextSplit(train, valid, {"side": size and max(size), "grey": grey})


def _held_out(found: ImageTexts, seed: int) -> tuple[ImageTexts, ImageTexts]:
    """Images to learn from, and others with all that is said of them."""
    held = held_out([range(len(found.images))], every=HELD_OUT_EVERY, most=HELD_OUT_MOST, seed=seed)
    if not held:
        raise DataError(f"too few images, {len(found.images)}, to hold some out; give others with --valid")
    say_held_out(len(held), len(found.images), "images", seed)
    return _chosen(found, held, kept=False), _chosen(found, held, kept=True)


def _chosen(found: ImageTexts, held: frozenset[int], *, kept: bool) -> ImageTexts:
    numbers = [number for number in range(len(found.images)) if (number in held) == kept]
    places = {number: place for place, number in enumerate(numbers)}
    rows: list[tuple[int, *tuple[str, ...]]] = [(places[row[0]], *row[1:]) for row in found.rows if row[0] in places]
    return ImageTexts([found.images[number] for number in numbers], rows)


def asked_of(found: ImageTexts) -> list[Asked]:
    """Each image, or each question about one, once, with all texts that are right."""
    groups: dict[tuple[Any, ...], dict[str, None]] = {}
    for *asked, text in found.rows:
        groups.setdefault(tuple(asked), {})[text] = None
    return [Asked(key[0], key[1] if key[1:] else None, tuple(texts)) for key, texts in groups.items()]


def store_image_texts(
    found: ImageTextSplit, processor: ImageTextProcessor, data: ImageTextData, directory: Path
) -> None:
    """Lays pixels and ids down, and what is to be validated on; images that cannot be read are left out, with their
    texts."""
    count = len(found.train.images) + len(found.valid.images)
    refuse_full_disk(count, processor.images, directory)
    parts: dict[str, ImageTexts] = {}
    with counting("reading images", count) as show:
        for part, each in (("train", found.train), ("valid", found.valid)):
            kept = store_images(directory / f"{part}_images", each.images, {}, processor.images, found.about, show)
            read = _chosen(each, frozenset(kept), kept=True)
            parts[part] = _fitting(read, processor, data.longest, f"{part} texts")
            _text_store(parts[part], processor).save(directory / part)
    lines = (json.dumps(asdict(each)) for each in asked_of(parts["valid"]))
    (directory / VALID).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    train, valid = parts["train"], parts["valid"]
    texts = f"{counted(len(train.rows), 'text')} of {counted(len(train.images), 'image')} to learn from"
    others = f"{len(valid.rows):,} of {len(valid.images):,} to validate on"
    say(f"{texts}, {others}, {len(processor):,} tokens in the vocabulary, {said_size(processor.images)}")


def _fitting(found: ImageTexts, processor: ImageTextProcessor, longest: int, what: str) -> ImageTexts:
    """Without the texts that are too long."""
    columns = [processor.text.encode(list(texts)) for texts in list(zip(*found.rows))[1:]]
    fits = [all(len(ids) <= longest for ids in row) for row in zip(*columns)]
    if not all(fits):
        say(f"dropped: {fits.count(False):,} of {len(fits):,} {what}, which have over {longest} tokens (data.longest)")
    if not any(fits):
        raise DataError(f"no {what} are left: each has more than {longest} tokens; raise data.longest")
    return ImageTexts(found.images, [row for row, fit in zip(found.rows, fits) if fit])


def _text_store(found: ImageTexts, processor: ImageTextProcessor) -> Store:
    images, *columns = zip(*found.rows)
    ids = [Ragged.of(processor.text.encode(list(texts)), id_type(processor.text)) for texts in columns]
    return Store({"image": np.array(images), **dict(zip(COLUMNS[-len(ids) :], ids))})


def stored_questions(directory: Path) -> list[Asked]:
    """What is to be validated on, as it was laid down."""
    file = directory / VALID
    try:
        tables = [parse_json(line) for line in file.read_text(encoding="utf-8").splitlines()]
        return [Asked(each["image"], each["question"], tuple(each["right"])) for each in tables]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(f"{file} is damaged ({error}); begin the run again") from None
