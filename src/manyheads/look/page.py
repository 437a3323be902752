"""A page that shows attention: one HTML file that needs neither a network nor a server."""

import json
import re
import struct
import zlib
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np

from manyheads.core.errors import ConfigError
from manyheads.core.files import write_result
from manyheads.look.grid import FILES
from manyheads.look.views import View, views_of

LARGEST_PAGE = 25_000_000
EXACT_WEIGHTS = 200_000  # as many as stay under about a megabyte when each is kept as it is
LEVELS = (255, 127, 63)
THUMBNAIL = 32
LONGEST_IMAGE_SIDE = 1024
NOTHING = "there is no attention to show on a page"
SPECIAL_TOKENS = 8  # more than any known image model puts before its patches


@dataclass(frozen=True)
class Page:
    """A page as it is saved to a file or shown in a notebook."""

    html: str
    """The whole file."""

    def save(self, path: Path) -> None:
        """Writes the page, whole or not at all."""
        write_result(Path(path), self.html)

    def _repr_html_(self) -> str:
        # A frame keeps the page's style and scripts apart from the notebook's.
        style = "width: 100%; height: 760px; border: 0"
        return f'<iframe title="attention" style="{style}" srcdoc="{escape(self.html)}"></iframe>'


def attention_page(
    weights: Any,
    tokens: Sequence[str] | None = None,
    source: Sequence[str] | None = None,
    *,
    title: str = "attention",
    row: int = 0,
    image: Any = None,
    patches: tuple[int, int] | None = None,
) -> Page:
    """The page of weights and tokens of any library; of an image the tokens may be left out.

    An image is [height, width, 3] or, as `pixel_values` are, [3, height, width], with a batch of one or without.
    """
    image = None if image is None else _pixels(image)
    if tokens is None:
        if image is None:
            raise ConfigError("there are no tokens; only the tokens of an image can be left out")
        count = _columns(weights)
        patches = patches or _grid(count, image)
        tokens = patch_names(count, patches)
    return build_page(views_of(weights, tokens, source, row=row), title=title, image=image, patches=patches)


def build_page(
    views: Sequence[View],
    *,
    title: str,
    subtitle: str = "",
    sections: Sequence[tuple[str, str]] = (),
    image: Any = None,
    patches: tuple[int, int] | None = None,
) -> Page:
    """The page of these views; each section, a title and an HTML fragment of our own, is a further tab of it."""
    if not views:
        raise ConfigError(NOTHING)
    for view in views:
        _refuse(view)
    picture = None if image is None else _picture(views[0], _pixels(image), patches)
    panels = "".join(
        f'<section class="panel section" role="tabpanel" id="panel-section-{number}" '
        f'aria-labelledby="tab-section-{number}" tabindex="0" hidden>{fragment}</section>'
        for number, (_, fragment) in enumerate(sections)
    )
    room = LARGEST_PAGE - 1_000_000 - len(panels) - (len(picture["source"]) if picture else 0)
    levels, blocks = _packed(views, room)
    data = {
        "views": [_described(view, views[0].columns if picture else None) for view in views],
        "sections": [name for name, _ in sections],
        "picture": picture,
        "levels": levels,
    }
    # Each script under the name by which the others import it, so that several plain files need no build step.
    scripts = {
        f"manyheads/{path.stem}": f"data:text/javascript;base64,{b64encode(path.read_bytes()).decode()}"
        for path in sorted(FILES.glob("*.js"))
    }
    parts = {
        "title": _references(escape(title)),
        "subtitle": _references(escape(subtitle)),
        "style": (FILES / "page.css").read_text(encoding="utf-8"),
        "modules": json.dumps({"imports": scripts}),
        "panels": _references(panels),
        "precision": _precision(levels),
        # A token may read </script>, which would end the block that it stands in.
        "data": json.dumps(data).replace("<", "\\u003c"),
        "thumbnails": _block(b"".join(_thumbnails(view.weights).tobytes() for view in views)),
        "weights": "\n".join(blocks),
    }
    template = (FILES / "page.html").read_text(encoding="utf-8")
    # In one pass, so that a title which looks like a place in the template stays a title.
    return Page(re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found[1]], template))


def _refuse(view: View) -> None:
    """Only numbers between 0 and 1 are weights."""
    if not view.weights.size:
        raise ConfigError(
            f"the weights of {view.title} are of shape {view.weights.shape}, which leaves nothing to show"
        )
    low, high = float(view.weights.min()), float(view.weights.max())
    if not (low >= -1e-3 and high <= 1 + 1e-3):  # written so that what is not a number is refused too
        raise ConfigError(
            f"the weights of {view.title} go from {low:.3g} to {high:.3g}; they must lie between 0 and 1, "
            "as they do after the softmax"
        )


def _described(view: View, of_image: Sequence[str] | None) -> dict[str, Any]:
    """All of a view but its weights; `of_image` are the tokens that lie on an image, if there is one."""
    return {
        **{name: getattr(view, name) for name in ("kind", "title", "rows", "columns", "layers", "heads")},
        "removed": np.argwhere(view.weights.max(axis=(2, 3)) <= 0).tolist(),  # places of layers and heads
        "rollout": view.kind.endswith(" rollout"),
        "rowsArePatches": view.rows == of_image,
        "columnsArePatches": view.columns == of_image,
    }


def _references(html: str) -> str:
    """HTML in ASCII, so that half a surrogate pair, which has no place in UTF-8, can be saved."""
    return html.encode("ascii", "xmlcharrefreplace").decode()


def _precision(levels: int | None) -> str:
    if levels is None:
        return "This file holds the weights exactly; the page shows them rounded to 2 or 3 decimal places."
    return (
        f"To keep this file small, the square root of each weight is rounded to one of {levels} steps from 0 to 1: "
        f"a weight near 1 is off by at most {1 / levels:.3f}, one near 0.01 by at most {0.1 / levels:.4f}."
    )


def encoded(weights: np.ndarray, levels: int | None) -> bytes:
    """Weights as they are kept: float32, or the number of the nearest of so many steps of their square root."""
    weights = weights.clip(0, 1)  # of what rounding left outside, the page could take no square root
    if levels is None:
        return weights.astype("<f4").tobytes()
    # Most weights of a long text are small, and it is among small numbers that a square root has its steps.
    return np.round(levels * np.sqrt(weights)).astype(np.uint8).tobytes()


def _block(content: bytes) -> str:
    return b64encode(zlib.compress(content, 6)).decode()


def _packed(views: Sequence[View], room: int) -> tuple[int | None, list[str]]:
    """A block for each layer of each view, and in how many steps; the finest that fit into the room are taken."""
    exact = sum(view.weights.size for view in views) <= EXACT_WEIGHTS
    for levels in (None,) if exact else LEVELS:
        blocks = [
            f'<script type="application/octet-stream" id="weights-{number}-{layer}">{_block(content)}</script>'
            for number, view in enumerate(views)
            for layer, content in enumerate(encoded(weights, levels) for weights in view.weights)
        ]
        if sum(map(len, blocks)) <= room:
            break
    return levels, blocks


def _thumbnails(weights: np.ndarray) -> np.ndarray:
    """The largest weight of each tile of at most 32 × 32 of every head, in the steps of `encoded`."""
    for axis in (2, 3):
        size = weights.shape[axis]
        tiles = min(size, THUMBNAIL)
        weights = np.maximum.reduceat(weights, np.arange(tiles) * size // tiles, axis=axis)
    return np.frombuffer(encoded(weights, 255), np.uint8)


def _columns(weights: Any) -> int:
    """How many tokens the weights look at, whatever they come in."""
    if isinstance(weights, Mapping):
        weights = next(iter(weights.values()), ())
    if isinstance(weights, list | tuple) and weights and hasattr(weights[0], "shape"):
        weights = weights[0]
    shape = np.shape(weights)
    if not shape or not shape[-1]:
        raise ConfigError(NOTHING)
    return int(shape[-1])


def _grid(tokens: int, image: np.ndarray) -> tuple[int, int]:
    """The rows and columns of patches that have the image's proportions."""
    proportion = image.shape[0] / image.shape[1]
    for special in range(min(SPECIAL_TOKENS, tokens - 1) + 1):
        rows = max(1, round(sqrt((tokens - special) * proportion)))
        columns = (tokens - special) // rows
        if rows * columns == tokens - special and round(columns * proportion) == rows:
            return rows, columns
    raise ConfigError(f"{tokens} tokens are no grid of the image's proportions; give patches=(rows, columns)")


def patch_names(tokens: int, patches: tuple[int, int]) -> list[str]:
    """[CLS] for the first token before the patches, and then the row and column of each."""
    rows, columns = patches
    before = ["[CLS]", *(f"[{number}]" for number in range(1, SPECIAL_TOKENS))][: max(0, tokens - rows * columns)]
    return before + [f"{row},{column}" for row in range(rows) for column in range(columns)]


def _pixels(image: Any) -> np.ndarray:
    """[height, width, 3] of an image of any library."""
    if hasattr(image, "detach"):
        image = image.detach().cpu()
        image = (image.float() if image.is_floating_point() else image).numpy()
    image = given = np.asarray(image)
    if image.ndim == 4 and len(image) == 1:
        image = image[0]
    if image.ndim == 3 and image.shape[0] == 3 and image.shape[2] != 3:
        image = image.transpose(1, 2, 0)
    if image.ndim != 3 or image.shape[2] != 3 or not image.size:
        raise ConfigError(
            f"the image is of shape {given.shape}; it must be one image, [height, width, 3] or [3, height, width]"
        )
    return image


def _picture(view: View, image: np.ndarray, patches: tuple[int, int] | None) -> dict[str, Any]:
    """The image, and where on it the tokens lie."""
    fractions = np.issubdtype(image.dtype, np.floating) and -1e-3 <= np.nanmin(image) <= np.nanmax(image) <= 1 + 1e-3
    if image.dtype != np.uint8 and not fractions:
        raise ConfigError(
            "the image must be of whole numbers from 0 to 255 in uint8, or of fractions from 0 to 1, "
            "as it is before a model's processor shifts its colours"
        )
    rows, columns = patches or _grid(len(view.columns), image)
    if rows < 1 or columns < 1:
        raise ConfigError(f"an image of {rows} × {columns} patches is none")
    special = len(view.columns) - rows * columns
    if special < 0:
        raise ConfigError(f"{rows} × {columns} patches are more than the {len(view.columns)} tokens of the weights")
    if image.dtype != np.uint8:
        image = np.round(np.nan_to_num(image.astype(np.float32)).clip(0, 1) * 255).astype(np.uint8)
    step = -(-max(image.shape[:2]) // LONGEST_IMAGE_SIDE)
    source = "data:image/png;base64," + b64encode(_png(image[::step, ::step])).decode()
    return {"rows": rows, "columns": columns, "special": special, "source": source}


def _png(image: np.ndarray) -> bytes:
    """An image as a PNG file: a signature and three chunks, each with its length and checksum."""
    height, width, _ = image.shape
    # Every line begins with the number of its filter; 0 is none.
    lines = np.concatenate([np.zeros((height, 1), np.uint8), image.reshape(height, -1)], axis=1)
    chunks = (
        (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)),
        (b"IDAT", zlib.compress(lines.tobytes(), 6)),
        (b"IEND", b""),
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))
        for name, content in chunks
    )
