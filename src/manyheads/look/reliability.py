"""How far probabilities can be trusted: accuracy by confidence, drawn."""

from collections.abc import Sequence
from pathlib import Path
from textwrap import fill
from typing import Any

from manyheads.look.drawing import drawing, save_figure

SETTINGS = {"font.size": 16, "axes.axisbelow": True, "hatch.linewidth": 1.5}
# The sign of confidence less accuracy, what it is called, its colour, which the colour-blind tell apart, and hatching.
TOO_SURE = (1, "too confident", "#d55e00", "//")
NOT_SURE_ENOUGH = (-1, "not confident enough", "#009e73", "\\\\")


def reliability(bins: Sequence[Any], calibration_error: float, path: Path, title: str) -> None:
    """Saves a reliability diagram: accuracy by confidence above, the examples in each bin of confidence below.

    A bin has the bounds of its confidence, low and high, the count of its examples, their mean confidence and accuracy.
    """
    with drawing(SETTINGS):
        from matplotlib.figure import Figure

        figure = Figure(figsize=(9, 8), layout="constrained")
        above, below = figure.subplots(2, 1, sharex=True, height_ratios=(4, 1))
        # A title is the user's text, in which a $ is a dollar and not the beginning of a formula.
        figure.suptitle(f"{fill(title, 60)}\nECE {100 * calibration_error:.1f} %", parse_math=False)
        _draw_accuracy(above, bins)
        _draw_counts(below, bins)
    save_figure(figure, path, SETTINGS)


def _draw_accuracy(axes: Any, bins: Sequence[Any]) -> None:
    """Bars of accuracy against the diagonal; what lies between accuracy and mean confidence is hatched."""
    lows, highs = [each.low for each in bins], [each.high for each in bins]
    accuracies = [each.accuracy for each in bins]
    _bars(axes, bins, accuracies, color="#a8c5de", edgecolor="white")
    for sign, label, colour, hatch in (TOO_SURE, NOT_SURE_ENOUGH):
        chosen = [each for each in bins if sign * (each.confidence - each.accuracy) > 0]
        if chosen:  # a legend has no place for what is not there
            gaps, bottom = [each.confidence - each.accuracy for each in chosen], [each.accuracy for each in chosen]
            _bars(axes, chosen, gaps, bottom=bottom, color="white", edgecolor=colour, hatch=hatch, label=label)
    axes.hlines(accuracies, lows, highs, color="black", linewidth=3, label="accuracy")
    axes.plot([0, 1], [0, 1], "--", color="black", linewidth=2, label="perfect calibration")
    axes.set(xlim=(0, 1), ylim=(0, 1.02), ylabel="accuracy")
    axes.grid(axis="y", alpha=0.4)
    # Above the bars, which can be anywhere below.
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2, frameon=False)


def _draw_counts(axes: Any, bins: Sequence[Any]) -> None:
    """How many examples each bar of accuracy stands for."""
    _bars(axes, bins, [each.count for each in bins], color="#bbbbbb", edgecolor="#555555")
    axes.set(xlabel="confidence (highest probability)", ylabel="examples")
    axes.locator_params(axis="y", nbins=3, integer=True)
    axes.yaxis.set_major_formatter("{x:,.0f}")


def _bars(axes: Any, bins: Sequence[Any], heights: Sequence[float], **style: Any) -> None:
    """A bar as wide as its bin for each."""
    lows = [each.low for each in bins]
    axes.bar(lows, heights, [each.high - each.low for each in bins], align="edge", **style)
