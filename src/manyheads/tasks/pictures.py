"""What tasks on images share: how large images are made, how they are laid down, and which can be read."""

import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from manyheads.core.configs import read_toml
from manyheads.core.errors import ConfigError, DataError
from manyheads.core.log import say, warn
from manyheads.data.images import COLOUR, GREY, ImageProcessor
from manyheads.data.ragged import Ragged, store_written
from manyheads.data.sides import refuse_large_side
from manyheads.nn.patches import refuse_uneven_patches
from manyheads.ops.device import readable
from manyheads.tasks.task import Asked

AT_ONCE, BYTES_AT_ONCE = 256, 2**26  # images, or so much of them, laid down together
LARGEST_OWN = 256  # pixels along a side up to which images keep the size that all of them have
NAMED = 5  # of the files that cannot be read
PATCHES, MOST_PATCHES = 7, 16  # along a side, where nobody says how large a patch is


def fitted_to_images(model: Any, data: Any, about: Mapping[str, Any], asked: Asked, *, own: bool) -> Any:
    """The sizes of a model for images as large as asked for, or else as they all are, or else as the model's own are.

    They keep their own size up to a limit: photos may all have thousands of pixels, which nobody asked for. Where the
    model's sizes are our `own`, and nobody says how large a patch is, it is the largest of which there are still
    enough. What follows from the images is asked for by what makes them so.
    """
    own_side = about["side"] if (about["side"] or 0) <= LARGEST_OWN else None
    size = data.size or own_side or model.image_size
    refuse_large_side("model.image_size", size)
    by_usual = own and not asked.names("model", "patch_size")
    if by_usual and not usual_patch(size):
        near = next(each for apart in range(size) for each in (size - apart, size + apart) if usual_patch(each))
        if data.size:
            raise ConfigError(
                f"a side of {size} pixels splits into no {PATCHES} to {MOST_PATCHES} patches; give data.size {near}, "
                "or say model.patch_size"
            )
        say(f"images are made {near} pixels a side, not {size}, to be cut into patches of {usual_patch(near)}")
        size = near
    fitted = replace(model, image_size=size, channels=GREY if data.grey or about["grey"] else COLOUR)
    for name, instead in (("image_size", "data.size"), ("channels", "data.grey")):
        found, said = getattr(fitted, name), getattr(model, name)
        if asked.names("model", name) and found != said:
            raise ConfigError(f"model.{name} is {said}, but follows from the images, as {found}; set {instead} instead")
    if by_usual:
        fitted = replace(fitted, patch_size=usual_patch(size))
    refuse_uneven_patches(fitted.image_size, fitted.patch_size)
    return fitted


def usual_patch(size: int) -> int | None:
    """The largest patch of which there are still enough along the side, unless there are too many then."""
    patch = max(each for each in range(1, size + 1) if size % each == 0 and (size // each >= PATCHES or each == 1))
    return patch if size // patch <= MOST_PATCHES else None


def listed_images(images: Any, who: str) -> Iterable[Any]:
    """Any iterable of images; one image, which would be taken for a list of its rows or letters, is refused."""
    single = isinstance(images, str | Path) or hasattr(images, "convert") or getattr(images, "ndim", 4) < 4
    if single or not isinstance(images, Iterable):
        raise ConfigError(f"{who} takes a list of images; put one into brackets")
    return images


def called(image: Any) -> str:
    """What an image is called in a title."""
    return str(image) if isinstance(image, str | Path) else "an image"


def of_sample(run: Path | None, files: str) -> bool:
    """Whether a run learned from the sample: its recipe names no files."""
    recipe = run / "recipe.toml" if run else Path()
    return recipe.is_file() and not read_toml(recipe).get("data", {}).get(files)


def refuse_full_disk(count: int, processor: ImageProcessor, directory: Path) -> None:
    """So many images must have room before any is read."""
    size, free = count * processor.size**2 * processor.channels, shutil.disk_usage(directory).free
    if size > free:
        raise DataError(
            f"{count:,} images of {processor.size} × {processor.size} pixels take {readable(size)} on the disk, "
            f"which has {readable(free)} left; make them smaller with --size, or give another --out"
        )


def said_size(processor: ImageProcessor) -> str:
    """How large images are made, for a person."""
    return f"{processor.size} × {processor.size} pixels in {'colour' if processor.channels > 1 else 'grey'}"


def store_images(
    directory: Path,
    images: Iterable[Any],
    columns: Mapping[str, Sequence[int]],
    processor: ImageProcessor,
    about: dict[str, Any],
    show: Callable[[int], None],
) -> list[int]:
    """Lays down the pixels of images, with a number each in other columns; the numbers of those that could be read.

    The others are named, up to a few, and counted.
    """
    kept: list[int] = []
    unread: list[str] = []
    rows: list[np.ndarray] = []
    number = -1
    with store_written(directory) as writer:
        writer.about = about

        def flush() -> None:
            if rows:
                pixels = Ragged.of_equal(np.stack(rows).reshape(len(rows), -1))
                others = {name: np.array([each[row] for row in kept[-len(rows) :]]) for name, each in columns.items()}
                writer.append({"pixels": pixels, **others})
                rows.clear()

        for number, pixels in enumerate(processor.many(images)):
            if isinstance(pixels, DataError):
                unread.append(str(pixels))
                continue
            rows.append(pixels)
            kept.append(number)
            if len(rows) == AT_ONCE or len(rows) * pixels.nbytes >= BYTES_AT_ONCE:
                flush()
                show(writer.rows)
        tell_unread(unread, number + 1)
        flush()
    return kept


def tell_unread(unread: Sequence[str], count: int) -> None:
    """Names images that cannot be read and are left out, a few of them, and counts them; there must be others."""
    if unread and len(unread) == count:
        raise DataError(f"none of the {count:,} images can be read; the first: {unread[0]}")
    for message in unread[:NAMED]:
        warn(f"left out: {message}")
    if len(unread) > NAMED:
        warn(f"left out: {len(unread):,} of {count:,} images, of which the first {NAMED} are named above")
