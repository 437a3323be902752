"""Pictures of attention."""

from pathlib import Path

import numpy as np

from manyheads.core.errors import MissingExtra


def heat_map(path: Path, weights: np.ndarray, rows: list[str], columns: list[str], *, title: str) -> None:
    """Saves a heat map of attention: a row for each token that looks, a column for each token looked at."""
    try:
        import matplotlib
    except ImportError:
        raise MissingExtra("matplotlib", "look", "A picture") from None
    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(2.2 + 0.75 * len(columns), 1.6 + 0.6 * len(rows)), layout="constrained")
    image = axes.imshow(weights, cmap="Blues", vmin=0.0, vmax=1.0)
    axes.set_xticks(range(len(columns)), columns, rotation=30, ha="right")
    axes.set_yticks(range(len(rows)), rows)
    axes.set_title(title)
    for row, column in np.ndindex(*weights.shape):
        weight = weights[row, column]
        axes.text(column, row, f"{weight:.2f}", ha="center", va="center", color="white" if weight > 0.5 else "black")
    figure.colorbar(image, label="attention weight")
    figure.savefig(path, dpi=120)
    pyplot.close(figure)
