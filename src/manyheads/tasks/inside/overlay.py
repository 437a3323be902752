"""What a model that sees looked at, as weights of patches over their image."""

from typing import TYPE_CHECKING

import numpy as np

from manyheads.core.errors import ConfigError
from manyheads.look.overlay import image_overlays, numbered
from manyheads.look.views import View
from manyheads.tasks.inside.forward import Picture

if TYPE_CHECKING:
    from matplotlib.figure import Figure

OVER_IMAGES = ("attention", "heads", "rollout")
"""What is shown over an image."""


def over_image(view: View, seen: Picture, show: str, title: str, patch: str | None) -> "Figure":
    """Weights of patches over their image: as one of them looks, or each word that was written."""
    if view.kind.startswith("cross"):
        if patch is not None:
            raise ConfigError("words look at the patches here; a patch that looks goes with --attention encoder")
        if show == "heads":
            raise ConfigError("the heads of a cross-attention are on the page; name one with --layer and --head")
        panels = dict(zip(numbered(view.rows), view.present(-1).mean(axis=0)))
        return image_overlays(seen.pixels, seen.grid, panels, title=title)
    token = seen.token_of(patch)
    looked, across = view.weights[:, :, token], None
    if show == "rollout":
        panels = {f"up to layer {layer}": looked[row, 0] for row, layer in enumerate(view.layers)}
    elif show == "heads":
        across = len(view.heads)
        panels = {
            f"layer {layer} {_head(head, looked[row, column])}": looked[row, column]
            for row, layer in enumerate(view.layers)
            for column, head in enumerate(view.heads)
        }
    else:
        panels = {_head(head, looked[-1, column]): looked[-1, column] for column, head in enumerate(view.heads)}
        if len(panels) > 1:
            panels = {"mean": view.present(-1).mean(axis=0)[token], **panels}
    title = f"{title}, from {'the classification token' if patch is None else f'patch {patch}'}"
    pointed = None if patch is None else token - seen.before - 1
    return image_overlays(seen.pixels, seen.grid, panels, title=title, across=across, pointed=pointed)


def _head(number: int, weights: np.ndarray) -> str:
    return f"head {number}" if weights.any() else f"head {number}: removed"
