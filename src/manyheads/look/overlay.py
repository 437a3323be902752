"""Weights of patches over the image that they are of."""

import itertools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from manyheads.core.errors import ConfigError
from manyheads.look import drawing as draw
from manyheads.look.drawing import TITLE, TOKENS, drawing, shown

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ACROSS = 6  # panels in a row, unless somebody says otherwise
SIDE = 2.2  # inches of a panel
MOST = 400  # panels
STRONGEST = 0.85  # how much of the image the brightest patch hides


def numbered(words: Sequence[str]) -> list[str]:
    """Words that are told apart: one that comes again has its number behind it."""
    found: dict[str, None] = {}
    for word in words:
        again = (f"{word} ({number})" for number in itertools.count(2))
        found[word if word not in found else next(each for each in again if each not in found)] = None
    return list(found)


@drawing()
def image_overlays(
    image: np.ndarray,
    grid: int,
    panels: Mapping[str, Any],
    *,
    title: str,
    across: int | None = None,
    pointed: int | None = None,
) -> "Figure":
    """The image alone, and then with the weights of each panel laid over it, each as bright as its brightest patch.

    Weights end with those of the patches, row by row; those before are of tokens that are nowhere on the image.
    `pointed` is the number of a patch that is framed.
    """
    from matplotlib.figure import Figure
    from matplotlib.patches import Rectangle

    if len(panels) > MOST:
        raise ConfigError(
            f"{len(panels)} panels do not fit a figure, which holds {MOST}; name a layer, or open the page"
        )
    across = across or min(ACROSS, 1 + len(panels))
    alone = across == 1 or (
        len(panels) % across == 0 and len(panels) > across
    )  # a row of its own keeps heads in columns
    count = len(panels) + (across if alone else 1)
    rows = -(-count // across)
    wide = max(across * SIDE, 4.5)
    title = draw.wrapped(title, wide)
    above = 0.2 + 0.3 * len(title.splitlines())
    figure = Figure(figsize=(wide, rows * (SIDE + 0.32) + above), layout="constrained")
    figure.suptitle(title, fontsize=TITLE, parse_math=False)
    axes = figure.subplots(rows, across, squeeze=False).flatten()
    for each in axes:
        each.axis("off")
    colour, side = _as_colour(image), image.shape[0]
    grey = np.repeat(colour.mean(axis=2, keepdims=True), 3, axis=2)
    axes[0].imshow(colour, interpolation="nearest")
    axes[0].set_title("image", fontsize=TOKENS)
    for panel, (name, weights) in zip(axes[across if alone else 1 :], panels.items()):
        heat = np.asarray(weights, dtype=np.float32)[-grid * grid :].reshape(grid, grid)
        panel.imshow(_heated(grey, heat), interpolation="nearest")
        panel.set_title(draw.cut(shown(name), SIDE - 0.1), fontsize=TOKENS, parse_math=False)
    if pointed is not None:
        step = side / grid
        place = (pointed % grid * step - 0.5, pointed // grid * step - 0.5)
        for panel in [axes[0], *axes[across if alone else 1 : count]]:
            panel.add_patch(Rectangle(place, step, step, fill=False, edgecolor="#56b4e9", linewidth=2))
    return figure


def _as_colour(image: np.ndarray) -> np.ndarray:
    """[side, side, 3] from 0 to 1."""
    return np.asarray(image, dtype=np.float32) / 255


def _heated(grey: np.ndarray, heat: np.ndarray) -> np.ndarray:
    """The image with each patch in the colour of its weight, on a square-root scale."""
    from matplotlib import colormaps

    strength = np.sqrt(heat.clip(min=0) / (heat.max() or 1.0))
    places = (np.arange(grey.shape[0]) * heat.shape[0]) // grey.shape[0]
    strength = strength[places][:, places]
    colours = colormaps["inferno"](strength)[:, :, :3]
    share = STRONGEST * strength[:, :, None] * 0.8 + 0.1
    return (1 - share) * grey * 0.8 + share * colours
