"""A map of words: vectors of many numbers as points in the plane."""

from typing import TYPE_CHECKING

import numpy as np

from manyheads.look.drawing import COLOURS, TOKENS, drawing, put_title

if TYPE_CHECKING:
    from matplotlib.figure import Figure

INCHES = 7.0


def plane(vectors: np.ndarray) -> tuple[np.ndarray, float]:
    """The two directions in which vectors differ most (PCA), [words, 2], and their share of the variance."""
    centred = vectors.astype(np.float64) - vectors.mean(axis=0, dtype=np.float64)
    left, lengths, _ = np.linalg.svd(centred, full_matrices=False)
    points = np.zeros((len(vectors), 2))
    points[:, : min(2, len(lengths))] = (left * lengths)[:, :2]
    # A direction is as good as its opposite: the first word that is not in the middle is on the right, and above it.
    for column in points.T:
        first = np.flatnonzero(np.abs(column) > 1e-9)
        if len(first) and column[first[0]] < 0:
            column *= -1
    total = float((lengths**2).sum())
    return points, float((lengths[:2] ** 2).sum()) / total if total else 0.0


def draw_map(words: list[str], points: np.ndarray, share: float, title: str) -> "Figure":
    """Each word where it is; neighbours in the picture are so in truth as far as the share says."""
    with drawing():
        from matplotlib.figure import Figure

        figure = Figure(figsize=(INCHES, INCHES), layout="constrained")
        axes = figure.subplots()
        axes.scatter(*points.T, color=COLOURS[0], s=18)
        for word, (x, y) in zip(words, points):
            style = {"textcoords": "offset points", "xytext": (4, 4), "fontsize": TOKENS, "parse_math": False}
            axes.annotate(word, (x, y), **style)  # type: ignore
        axes.margins(0.2, 0.12)  # words stand to the right of their points
        axes.set_xlabel(f"the two directions that differ most, {100 * share:.0f} % of the variance")
        put_title(axes, title, INCHES)
    return figure
