"""Pictures of positions: what they add, how alike two are, and their wavelengths."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from manyheads.look.drawing import LETTERS, TITLE, TOKENS, colour_bar, drawing, line_colours
from manyheads.look.positions import Curves, Heat, Note, Panel, Study

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@drawing()
def draw(studies: Sequence[Study]) -> "Figure":
    """One picture with a row of three panels for each study."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(15.0, 4.7 * len(studies)), layout="constrained")
    figure.get_layout_engine().set(wspace=0.04, hspace=0.06)  # type: ignore
    for part, each in zip(figure.subfigures(len(studies), 1, squeeze=False)[:, 0], studies, strict=True):
        part.suptitle(each.title, fontsize=TITLE, fontweight="bold", parse_math=False)
        for axes, panel in zip(part.subplots(1, 3), each.panels, strict=True):
            _draw_panel(axes, panel)
    return figure


def _draw_panel(axes: Any, panel: Panel) -> None:
    if isinstance(panel, Note):
        axes.axis("off")
        axes.text(0.5, 0.5, panel.text, ha="center", va="center", fontsize=LETTERS, linespacing=1.5)
        return
    if isinstance(panel, Heat):
        _draw_heat(axes, panel)
        axes.set_ylabel(panel.down, fontsize=LETTERS)
    else:
        _draw_curves(axes, panel)
        axes.set_ylabel(panel.up, fontsize=LETTERS)
    axes.set_title(panel.title, fontsize=LETTERS)
    axes.set_xlabel(panel.across, fontsize=LETTERS)
    axes.tick_params(labelsize=TOKENS)


def _draw_heat(axes: Any, panel: Heat) -> None:
    from matplotlib import colormaps

    colours: Any = colormaps["RdBu_r" if panel.signed else "viridis"]
    finite = np.abs(panel.values[np.isfinite(panel.values)])
    high = float(finite.max()) or 1.0
    usual = 2 * float(np.percentile(finite, 98))
    if panel.outliers and 0 < usual < high:
        high, colours.colorbar_extend = usual, "both"
    low = -high if panel.signed else 0.0
    rows, columns = panel.values.shape
    down, across = panel.first
    extent = across - 0.5, across + columns - 0.5, down + rows - 0.5, down - 0.5
    image = axes.imshow(panel.values, cmap=colours, vmin=low, vmax=high, aspect="auto", extent=extent)
    colour_bar(axes, image, panel.label)


def _draw_curves(axes: Any, panel: Curves) -> None:
    from matplotlib.ticker import MaxNLocator

    for (name, line), colour in zip(panel.values.items(), line_colours(len(panel.values))):
        style = {"linestyle": "none", "marker": "o", "markersize": 5} if panel.dots else {"linewidth": 2.4}
        style |= {"linestyle": "--"} if name == "unscaled" else {}
        axes.plot(np.arange(len(line)) + panel.first, line, color=colour, label=name, **style)
    if panel.logarithmic:
        _draw_logarithms(axes)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=6))
    axes.grid(alpha=0.4)
    if len(panel.values) > 1:
        step = 1 + (len(panel.values) - 1) // 12  # as many names as fit
        beside = {"loc": "upper left", "bbox_to_anchor": (1.01, 1.02)} if len(panel.values) > 2 else {}
        axes.legend(handles=axes.lines[::step], fontsize=TOKENS, **beside)


def _draw_logarithms(axes: Any) -> None:
    """Tens on the upward axis, and 2 and 5 of each where tens alone are few, written out."""
    from matplotlib.ticker import LogLocator, NullLocator

    axes.set_yscale("log")
    low, high = axes.get_ylim()
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0,) if high / low > 1000 else (1.0, 2.0, 5.0)))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter("{x:,g}")
