"""What a picture of PIL or an array shows, as a person sees it: upright, over white, in colour or grey, 8 bits each."""

import os
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import count
from typing import TYPE_CHECKING, Any

import numpy as np

from manyheads.core.errors import DataError
from manyheads.core.log import warn

if TYPE_CHECKING:
    from PIL.Image import Image

    Then = Callable[[Image], Image]

LARGEST = 100_000_000  # pixels
LARGE = 2**24  # pixels, beyond which pictures are decoded one after another
PIXELS_AT_ONCE = 2**22  # of a transparent picture that are laid over white
FEWEST = 2  # pixels on a side
SEQUENCES = ("GIF", "WEBP", "PNG", "TIFF", "AVIF")  # a second picture in a photo's MPO is its preview, no frame
SCALED = ("PNG", "PPM")  # whose readers bring what is deeper than 8 bits to 16
BITS, MEANING, LEAST_IS_WHITE = 258, 262, 0  # tags of TIFF, which Pillow heeds up to 8 bits
NAMED = 5  # pictures of several frames that a person is told of, each for itself
GIVEN = "the picture given"
ROUNDED = 1e-5  # how far beyond 0 and 1 a float may be, as after interpolation


def damaged(name: str, error: Exception) -> DataError:
    """What is said where a decoder gave up."""
    return DataError(f"{name} cannot be decoded: {reason_of(error)}; it is damaged or cut off, copy or save it again")


def reason_of(error: Exception) -> str:
    """What an error says, without what Python puts around it."""
    return str(getattr(error, "strerror", None) or error or type(error).__name__).rstrip(".")


def refuse_size(width: int, height: int, name: str) -> None:
    """A picture must show something, and have its place in memory."""
    found = f"{name} has {width:,} × {height:,} pixels"
    if min(width, height) < FEWEST:
        raise DataError(f"{found}, which show nothing; there must be {FEWEST} or more on each side")
    if width * height > LARGEST:
        raise DataError(f"{found}; at most {LARGEST:,} are read, make it smaller")


# Pictures of PIL


def as_seen(image: "Image", name: str = "", then: "Then | None" = None) -> "Image":
    """A picture of PIL, of its first frame, or what is made of it then; where it is from begins sentences about it."""
    refuse_size(*image.size, name or GIVEN)
    if image.width * image.height <= LARGE:
        return _made(image, name, then)
    return _alone(os.getpid()).submit(_made, image, name, then).result()


@cache
def _alone(process: int) -> ThreadPoolExecutor:
    """The one thread that decodes large pictures, in turn; a process that forks leaves it behind.

    Each takes up to a gigabyte, and of what a thread has once used the system keeps much for this thread.
    """
    return ThreadPoolExecutor(1)


def _made(image: "Image", name: str, then: "Then | None") -> "Image":
    seen = _decoded(image, name)
    return then(seen) if then else seen


def _decoded(image: "Image", path: str) -> "Image":
    name = path or GIVEN
    try:
        frames = getattr(image, "n_frames", 1) if image.format in SEQUENCES else 1
        first = frames > 1 and image.tell() == 0  # of a picture that was moved to another frame, that one is meant
        image.load()
        refuse_size(*image.size, name)  # that of an icon is known only now
        seen = _flattened(_upright(image), name)
    except DataError:
        raise
    except Exception as error:  # decoders raise whatever they stumble over
        raise damaged(name, error) from error
    if first:
        (_warn_once if path else _warn)(name, frames)
    return seen


def _warn(name: str, frames: int) -> None:
    number = next(_moving)
    if number < NAMED:
        warn(f"{name} has {frames:,} frames; only the first is read")
    elif number == NAMED:
        warn("more pictures have several frames, of which only the first is read; they are not named")


_warn_once, _moving = cache(_warn), count()  # a picture is read more than once


def _upright(image: "Image") -> "Image":
    from PIL.Image import Transpose

    try:
        orientation = image.getexif().get(0x0112)
    except Exception:  # a viewer shows a picture with damaged notes, too
        orientation = None
    turns = {
        2: Transpose.FLIP_LEFT_RIGHT,
        3: Transpose.ROTATE_180,
        4: Transpose.FLIP_TOP_BOTTOM,
        5: Transpose.TRANSPOSE,
        6: Transpose.ROTATE_270,
        7: Transpose.TRANSVERSE,
        8: Transpose.ROTATE_90,
    }
    turn = turns.get(orientation) if isinstance(orientation, int) else None
    return image if turn is None else image.transpose(turn)


def _flattened(image: "Image", name: str) -> "Image":
    """A picture without transparency, of 8 bits, in colour or grey."""
    if _deep(image):
        return _of_deep_grey(image, name)
    mode = "L" if is_grey(image) or _grey_palette(image) else "RGB"
    seen = _over_white(image, mode) if image.has_transparency_data else image.convert(mode)  # always a copy
    seen.info.clear()  # what the file says of itself, such as how it is to be turned, does not hold for it
    return seen


def _over_white(image: "Image", mode: str) -> "Image":
    """A picture that lets something through, over white; some rows at once, as each of them is there several times."""
    from PIL import Image

    # From premultiplied colours a way leads to plain ones of their own kind alone.
    plain = {"La": "LA", "RGBa": "RGBA"}.get(image.mode)
    seen, rows = Image.new(mode, image.size, "white"), max(PIXELS_AT_ONCE // image.width, 1)
    for top in range(0, image.height, rows):
        part = image.crop((0, top, image.width, min(top + rows, image.height)))
        colours = (part.convert(plain) if plain else part).convert("RGBA")
        seen.paste(colours.convert(mode), (0, top), colours)
    return seen


def is_grey(image: "Image") -> bool:
    """Whether a picture can but be grey, whatever its pixels are."""
    return image.mode in ("1", "L", "LA", "La") or _deep(image)


def _deep(image: "Image") -> bool:
    return image.mode in ("I", "F") or image.mode.startswith("I;16")


def _grey_palette(image: "Image") -> bool:
    if image.mode not in ("P", "PA"):
        return False
    colours = np.asarray(image.getpalette("RGB")).reshape(-1, 3)
    return bool((colours == colours[:, :1]).all())


def _of_deep_grey(image: "Image", name: str) -> "Image":
    """A picture of 16 bits, or of numbers whose range is the first of 0 to 1, to 255 and to 65,535 that holds them."""
    from PIL import Image

    levels = np.asarray(image)
    lowest, highest = float(levels.min()), float(levels.max())
    tags = getattr(image, "tag_v2", {})  # what a TIFF says of itself
    if image.mode.startswith("I;16") or image.format in SCALED:
        tops = (2 ** tags.get(BITS, (16,))[0] - 1,)
    else:
        tops = (1, 255, 65535) if image.mode == "F" else (255, 65535)
    top = next((each for each in tops if lowest >= 0 and highest <= each), None)
    if top is None:
        raise DataError(
            f"{name} has brightness from {lowest:g} to {highest:g}, where it is read from 0 to {tops[-1]:,}; save it "
            "with 8 or 16 bits"
        )
    seen = _in_bytes(levels, top)
    if tags.get(MEANING) == LEAST_IS_WHITE:
        seen = 255 - seen
    clear = image.info.get("transparency")
    if isinstance(clear, int):
        seen[levels == clear] = 255
    return Image.fromarray(seen)


def _in_bytes(levels: np.ndarray, top: int) -> np.ndarray:
    shades = levels.astype(np.float32)  # which holds each of 65,535 × 255 exactly
    shades *= 255
    shades /= top
    return np.rint(shades, out=shades).astype(np.uint8)


# Arrays


def from_array(source: Any) -> "Image":
    """The picture that an array or a tensor is; anything else is refused."""
    from PIL import Image

    array = _plain_array(source)
    refuse_size(array.shape[1], array.shape[0], GIVEN)
    if array.dtype == np.uint16:
        array = _in_bytes(array, 65535)
    elif array.dtype.kind == "f":
        array = bytes_of_floats(array, GIVEN)
    elif array.dtype != np.uint8:
        raise DataError(f"{GIVEN} is an array of {array.dtype}; give uint8, uint16, or floats from 0 to 1")
    return _flattened(Image.fromarray(np.ascontiguousarray(array)), GIVEN)


def _plain_array(source: Any) -> np.ndarray:
    """An array [height, width], or with 3 or 4 channels behind."""
    torch: Any = sys.modules.get("torch")  # where it is not imported, there are no tensors
    if torch is not None and isinstance(source, torch.Tensor):
        tensor = source.detach().cpu()
        array = (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy()
        if array.ndim == 3 and array.shape[0] in (1, 3):
            array = array.transpose(1, 2, 0)
    elif isinstance(source, np.ndarray):
        array = source
    else:
        raise DataError(
            f"{type(source).__name__} is no picture; give the path of a file, a picture of PIL, an array or a tensor"
        )
    if array.ndim == 3 and array.shape[2] == 1:
        return array[:, :, 0]
    if array.ndim != 2 and not (array.ndim == 3 and array.shape[2] in (3, 4)):
        raise DataError(
            f"{GIVEN} is an array of shape {list(array.shape)}; give [height, width], or [height, width, channels] "
            "with 1, 3 or 4 channels"
        )
    return array


def bytes_of_floats(array: np.ndarray, name: str) -> np.ndarray:
    """Floats from 0 to 1 as bytes; `name` begins the sentence where they are others."""
    lowest, highest = float(array.min()), float(array.max())
    if not (lowest >= -ROUNDED and highest <= 1 + ROUNDED):  # said so that NaN is refused
        raise DataError(
            f"{name} has floats from {lowest:g} to {highest:g}, where they must be from 0 to 1; scale them, or give "
            "uint8"
        )
    return np.rint(array.clip(0, 1).astype(np.float32) * 255).astype(np.uint8)
