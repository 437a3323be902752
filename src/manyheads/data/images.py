"""Images as a model reads them: made one size, then numbers; read by several threads, never all at once."""

import json
import math
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from manyheads.core.errors import CheckpointError, DataError
from manyheads.core.files import parse_json
from manyheads.data.batches import Batch, Batches, by_count, shuffling
from manyheads.data.ragged import Store
from manyheads.data.readers.images import read_image
from manyheads.data.sides import LARGEST

FILE = "preprocessor_config.json"
GREY, COLOUR = 1, 3
RESAMPLINGS = range(6)  # Pillow's: nearest, Lanczos, bilinear, bicubic, box and Hamming
READ_AHEAD = 4  # images for each thread that are read before they are asked for


@dataclass(frozen=True, kw_only=True)
class ImageProcessor:
    """What stands between pictures and a ViT; the same as a ViTImageProcessor of transformers, in the same file."""

    size: int = 224
    """Pixels along the side that every picture is made to have."""
    channels: int = COLOUR
    """Colours of a pixel: 3, or 1 for shades of grey."""
    mean: tuple[float, ...] = (0.5, 0.5, 0.5)
    """What is taken from each colour, which goes from 0 to 1."""
    deviation: tuple[float, ...] = (0.5, 0.5, 0.5)
    """What that is divided by."""
    resample: int = 2
    """How colours between pixels are found, as Pillow counts: 0 nearest, 2 bilinear, 3 bicubic, …"""

    @classmethod
    def of(cls, size: int, channels: int) -> Self:
        """The usual one."""
        return cls(size=size, channels=channels, mean=(0.5,) * channels, deviation=(0.5,) * channels)

    @classmethod
    def load(cls, path: Path) -> Self:
        """Opens a preprocessor_config.json, or the directory that holds one; what we have no part for is refused."""
        file = Path(path) / FILE if Path(path).is_dir() else Path(path)
        try:
            table = parse_json(file.read_text(encoding="utf-8"))
            return cls(**_read(table))
        except FileNotFoundError:
            raise CheckpointError(
                f"{file.parent} has no {FILE}, which says how images are read; copy it there"
            ) from None
        except (OSError, UnicodeDecodeError) as error:
            raise CheckpointError(f"{file} cannot be read: {getattr(error, 'strerror', None) or error}") from None
        except (ValueError, TypeError, AttributeError, KeyError) as error:
            raise CheckpointError(f"{file} is damaged or of another kind of model ({error})") from None

    def save(self, directory: Path, length: int | None = None) -> None:
        """Writes preprocessor_config.json; a model's length, which is its own, says nothing here."""
        table = {
            "image_processor_type": "ViTImageProcessor",
            "do_convert_rgb": self.channels == COLOUR,
            "do_normalize": True,
            "do_rescale": True,
            "do_resize": True,
            "image_mean": list(self.mean),
            "image_std": list(self.deviation),
            "resample": self.resample,
            "rescale_factor": 1 / 255,
            "size": {"height": self.size, "width": self.size},
        }
        directory = Path(directory)
        directory.mkdir(parents=True, exist_ok=True)
        (directory / FILE).write_text(json.dumps(table, indent=2) + "\n", encoding="utf-8")

    def resized(self, size: int) -> Self:
        """The same for images of another size."""
        return replace(self, size=size)

    def pixels(self, source: Any) -> np.ndarray:
        """[size, size, channels] in uint8 of a file, an image of Pillow or an array."""
        image = read_image(source, self._sized)
        return np.asarray(image).reshape(self.size, self.size, self.channels)

    def _sized(self, image: Any) -> Any:
        mode = "RGB" if self.channels == COLOUR else "L"
        image = image if image.mode == mode else image.convert(mode)
        if image.size != (self.size, self.size):
            image = image.resize((self.size, self.size), resample=self.resample)
        return image

    def many(self, sources: Iterable[Any]) -> Iterator[np.ndarray | DataError]:
        """The pixels of each, in order, read by several threads; in place of one that cannot be read, why."""

        def read(source: Any) -> np.ndarray | DataError:
            try:
                return self.pixels(source)
            except DataError as error:
                return error

        return in_threads(read, sources)

    def normalised(self, pixels: Tensor) -> Tensor:
        """What the model takes, [batch, channels, height, width], of [batch, height, width, channels] in uint8."""
        return self.shifted(pixels.movedim(-1, -3).float() / 255)

    def shifted(self, shades: Tensor) -> Tensor:
        """The same of shades from 0 to 1, [batch, channels, height, width]."""
        mean, deviation = (_by_colour(each, shades.device) for each in (self.mean, self.deviation))
        return (shades - mean) / deviation


@cache  # or a GPU is waited for with each batch
def _by_colour(values: tuple[float, ...], device: torch.device) -> Tensor:
    with torch.inference_mode(False):  # what is first needed while classifying must still serve training
        return torch.tensor(values, device=device)[:, None, None]


def image_batches(store: Store, shape: tuple[int, int, int], *, size: int, seed: int, shuffle: bool = True) -> Batches:
    """Batches of `size` images: `pixels`, [images, height, width, channels] in uint8, and what is right, `labels`."""

    def collate(numbers: np.ndarray) -> Batch:
        pixels = np.stack([store["pixels"][number] for number in numbers]).reshape(len(numbers), *shape)
        labels = torch.from_numpy(store["labels"][numbers])
        return Batch(len(numbers), pixels=torch.from_numpy(pixels), labels=labels)

    same = np.zeros(len(store), dtype=np.int32)  # no image is longer than another
    return Batches(lambda epoch: by_count(same, size, shuffling(seed, epoch, shuffle)), collate)


def in_threads(function: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
    """What a function gives of each, in order; a few are ahead of those that were asked for, and never more."""
    workers = os.cpu_count() or 1
    waiting: deque[Future[Any]] = deque()
    with ThreadPoolExecutor(workers) as pool:
        try:
            for item in items:
                waiting.append(pool.submit(function, item))
                if len(waiting) == READ_AHEAD * workers:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            pool.shutdown(cancel_futures=True)


def _read(table: dict[str, Any]) -> dict[str, Any]:
    """Our fields of their file."""
    unchanged = {"do_center_crop": False, "do_pad": False, "do_flip_channel_order": False}
    for name, plain in {"do_rescale": True, "do_resize": True, **unchanged}.items():
        if table.get(name, plain) not in (plain, None):
            raise CheckpointError(
                f"its {FILE} says {name} {str(table[name]).lower()}; only images without are read here"
            )
    if abs(table.get("rescale_factor", 1 / 255) - 1 / 255) > 1e-6:
        raise CheckpointError(f"its {FILE} scales colours by {table['rescale_factor']}; only 1/255 is known")
    mean, deviation = (tuple(map(float, table.get(name) or (0.5,) * 3)) for name in ("image_mean", "image_std"))
    if not table.get("do_normalize", True):
        mean, deviation = (0.0,) * len(mean), (1.0,) * len(mean)
    if len(mean) != len(deviation) or len(mean) not in (GREY, COLOUR):
        raise CheckpointError(f"its {FILE} shifts {len(mean)} colours and scales {len(deviation)}; 1 or 3 are known")
    if not all(map(math.isfinite, mean)) or not all(each > 0 and math.isfinite(each) for each in deviation):
        raise CheckpointError(f"its {FILE} divides colours by {list(deviation)}; numbers above 0 are needed")
    size = table.get("size", 224)
    height, width = (size["height"], size["width"]) if isinstance(size, dict) else (size, size)
    if height != width or not isinstance(height, int) or height < 1:
        raise CheckpointError(f"its {FILE} makes images of {height} × {width} pixels; only squares are known")
    if height > LARGEST:
        raise CheckpointError(f"its {FILE} makes images of {height:,} × {width:,} pixels; at most {LARGEST:,} are")
    resample = table.get("resample", 2)
    if resample not in RESAMPLINGS:
        raise CheckpointError(
            f"its {FILE} says resample {resample}; known are 0 to {RESAMPLINGS[-1]}, as Pillow counts"
        )
    return {
        "size": height,
        "channels": len(mean),
        "mean": mean,
        "deviation": deviation,
        "resample": int(resample),
    }
