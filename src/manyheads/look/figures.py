"""Figures as axes of matplotlib: arrays and tokens in, pictures that can be read on a slide out.

Without axes to draw on, a figure as large as its content is made.
"""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from manyheads.core.errors import ConfigError
from manyheads.look import drawing as draw
from manyheads.look.drawing import LETTERS, TITLE, TOKENS, Names, breadth, drawing, shown
from manyheads.look.positions import Curves, Heat, Note, Panel, Study

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_NUMBERS = 16  # tokens of a side up to which each cell can hold its number
WIDEST, TALLEST = 9.0, 200.0
UNITS = 75  # in an inch: each two pixels high
ABOVE, BELOW = draw.COLOURS[:2]


@drawing()
def heat_map(
    weights: Any,
    rows: Names,
    columns: Names,
    *,
    title: str = "",
    label: str = "attention weight",
    axes: "Axes | None" = None,
) -> "Axes":
    """Attention: a row for each token that looks, a column for each token looked at; `label` is what colours mean."""
    weights = draw.table(weights, len(rows), len(columns), "the weights")
    few = max(weights.shape) <= MOST_NUMBERS
    wide, high = (0.56, 0.42) if few else (0.225, 0.225)
    inside = min(max(5.0, wide * len(columns)), WIDEST), min(max(1.6, high * len(rows)), WIDEST)
    axes, inside = draw.placed(axes, inside, title, rows, columns, right=1.1)
    axes.set_xlabel("looks at", fontsize=LETTERS)
    axes.set_ylabel("looks from", fontsize=LETTERS)
    wide, high = draw.put_cells(axes, inside, weights, rows, columns, label, draw.highest(weights))
    if few and wide >= 0.4 and high >= 0.2:
        cells = [[f"{weight:.2f}" for weight in row] for row in weights]
        draw.write_in_cells(axes, cells, weights / draw.highest(weights))
    draw.put_title(axes, title, inside[0])
    return axes


@drawing()
def alignment_matrix(
    weights: Any, targets: Names, sources: Names, *, title: str = "", axes: "Axes | None" = None
) -> "Axes":
    """The picture of Bahdanau et al. (2015): source words along the top, target words down the side, grey squares."""
    weights = draw.table(weights, len(targets), len(sources), "the weights")
    side = min(0.42, WIDEST / max(weights.shape))
    inside = max(2.4, side * len(sources)), max(1.6, side * len(targets))
    axes, inside = draw.placed(axes, inside, title, targets, sources, right=1.1)
    draw.put_cells(axes, inside, weights, targets, sources, "attention weight", 1.0, colours="gray")
    axes.xaxis.tick_top()
    for label in axes.get_xticklabels():
        if label.get_rotation():
            label.set(ha="left", va="bottom" if label.get_rotation() < 90 else "center")
    draw.put_title(axes, title, inside[0])
    return axes


@drawing()
def unit_maps(panels: Sequence[tuple[Names, Mapping[str, Any]]], *, title: str) -> "Figure":
    """Values between -1 and 1 over time: for each layer its tokens and, side by side, one or several maps by name.

    A map is [tokens, units]; it is drawn with a row for each unit, none of which is left out.
    """
    from matplotlib.figure import Figure

    maps = [[draw.numbers(each) for each in found.values()] for _, found in panels]
    across, tokens = max(map(len, maps)), max(len(names) for names, _ in panels)
    wide, heights = min(max(3.0, 0.225 * tokens), WIDEST), [max(1.8, each[0].shape[1] / UNITS) for each in maps]
    named = [0.65 + max(map(breadth, map(shown, names))) for names, _ in panels]
    title = draw.wrapped(title, across * wide)
    above = 0.3 + 0.27 * len(title.splitlines())
    size = across * (wide + 0.9) + 1.3, sum(heights) + sum(named) + above
    figure = Figure(figsize=size, layout="constrained")
    ratios = [high + below for high, below in zip(heights, named)]
    axes = figure.subplots(len(panels), across, squeeze=False, gridspec_kw={"height_ratios": ratios})
    image: Any = None
    for row, ((names, found), high) in enumerate(zip(panels, heights)):
        for panel, (name, values) in zip(axes[row], found.items()):
            units = draw.table(values, len(names), len(draw.numbers(values)[0]), "the states").T
            image = panel.imshow(
                units, cmap="RdBu_r", vmin=-1.0, vmax=1.0, aspect="auto", interpolation="nearest", rasterized=True
            )
            draw.put_tokens(panel.xaxis, names, wide / len(names))
            draw.put_tokens(panel.yaxis, [str(unit) for unit in range(1, len(units) + 1)], high / len(units))
            panel.set_title(name, fontsize=LETTERS, parse_math=False)
        for panel in axes[row, len(found) :]:
            panel.axis("off")
        axes[row, 0].set_ylabel("unit", fontsize=LETTERS)
    figure.suptitle(title, fontsize=TITLE, parse_math=False)
    bar = figure.colorbar(image, ax=axes, fraction=0.25 / size[0], pad=0.15 / size[0], aspect=sum(heights) / 0.2)
    draw.label_bar(bar, "value")
    return figure


@drawing()
def head_grid(
    weights: Any, rows: Names, columns: Names, *, title: str, layers: Sequence[int], heads: Sequence[int]
) -> "Figure":
    """The attention of every head as a small picture: a row for each layer, a column for each head."""
    from matplotlib.figure import Figure

    weights = draw.numbers(weights)
    if weights.ndim != 4 or weights.shape[:2] != (len(layers), len(heads)):
        raise ConfigError(
            f"the weights are {list(weights.shape)}, but {len(layers)} layers of {len(heads)} heads "
            f"need [{len(layers)}, {len(heads)}, rows, columns]"
        )
    side = min(max(WIDEST / len(heads), 0.85), 2.0)
    wide = max(side * len(heads), 4.0)
    title = draw.wrapped(title, wide)
    named = max(len(rows), len(columns)) * 0.2 <= side  # else there is no room for the tokens
    beside, under = (max(map(breadth, map(shown, each))) if named else 0.0 for each in (rows, columns))
    left, right, below, above = 1.5 + beside, 1.35, 0.5 + under, 0.55 + 0.26 * len(title.splitlines())
    width, height = left + wide + right, below + side * len(layers) + above
    figure = Figure(figsize=(width, height))
    places = {"left": left / width, "right": 1 - right / width, "bottom": below / height, "top": 1 - above / height}
    spaces = {**places, "wspace": 0.08, "hspace": 0.08}
    axes = figure.subplots(len(layers), len(heads), squeeze=False, gridspec_kw=spaces)
    centred: dict[str, Any] = {"ha": "center", "va": "center"}
    for (row, column), panel in np.ndenumerate(axes):
        image = panel.imshow(weights[row, column], cmap="Blues", vmin=0.0, vmax=draw.highest(weights), aspect="auto")
        panel.set(xticks=[], yticks=[])
        if not weights[row, column].any():
            panel.text(0.5, 0.5, "removed", transform=panel.transAxes, color="grey", **centred)
        if named and row == len(layers) - 1:
            panel.set_xticks(range(len(columns)), map(shown, columns), fontsize=TOKENS, rotation=90, parse_math=False)
        if named and column == 0:
            panel.set_yticks(range(len(rows)), map(shown, rows), fontsize=TOKENS, parse_math=False)
        if row == 0:
            spelt = "head " if side > 0.9 or column == 0 else ""
            panel.set_title(f"{spelt}{heads[column]}", fontsize=TOKENS)
        if column == 0:
            style = {"ha": "right", "va": "center", "fontsize": TOKENS, "transform": panel.transAxes}
            panel.text(-(0.25 + beside) / side, 0.5, f"layer {layers[row]}", **style)
    middle = (left + wide / 2) / width
    figure.text(middle, 1 - 0.12 / height, title, fontsize=TITLE, ha="center", va="top", parse_math=False)
    figure.text(middle, 0.3 / height, "looks at", **centred)
    low, high = places["bottom"], places["top"]
    figure.text(0.25 / width, (low + high) / 2, "looks from", rotation=90, **centred)
    bar = figure.add_axes((places["right"] + 0.2 / width, low, 0.22 / width, high - low))
    draw.label_bar(figure.colorbar(image, cax=bar), "attention weight")
    return figure


@drawing()
def bars(values: Any, labels: Names, *, title: str, xlabel: str, axes: "Axes | None" = None) -> "Axes":
    """A bar to the side for each value, the first on top; those below zero have a colour of their own."""
    values = draw.numbers(values)
    if values.shape != (len(labels),):
        raise ConfigError(f"the values are {list(values.shape)}, but there are {len(labels)} labels")
    axes, inside = draw.placed(axes, (7.0, min(max(1.5, 0.26 * len(labels)), TALLEST)), title, labels)
    axes.barh(range(len(labels)), values, height=0.75, color=[BELOW if value < 0 else ABOVE for value in values])
    axes.axvline(0.0, color="black", linewidth=1)
    axes.set_ylim(len(labels) - 0.5, -0.5)
    axes.grid(axis="x", alpha=0.4)
    axes.set_axisbelow(True)
    # Of a tall picture only one end may be in sight.
    axes.tick_params(axis="x", labelsize=TOKENS, labeltop=inside[1] > WIDEST, top=inside[1] > WIDEST)
    axes.set_xlabel(xlabel, fontsize=LETTERS, parse_math=False)
    draw.put_tokens(axes.yaxis, labels, inside[1] / len(labels))
    draw.put_title(axes, title, inside[0])
    return axes


@drawing()
def lines(values: Any, labels: Names, points: Names, *, title: str, ylabel: str, axes: "Axes | None" = None) -> "Axes":
    """A line for each row of values, over points with these names: for instance layers."""
    values = draw.numbers(values)
    if values.shape != (len(labels), len(points)):
        raise ConfigError(
            f"the values are {list(values.shape)}, but {len(labels)} lines of {len(points)} points need "
            f"[{len(labels)}, {len(points)}]"
        )
    right = 0.9 + max(map(breadth, map(shown, labels)))
    axes, inside = draw.placed(axes, (8.0, 5.0), title, ["0.00"], points, right)
    many = len(labels) > len(draw.COLOURS)
    style: dict[str, Any] = {"linewidth": 1.6 if many else 2.4, "marker": "o", "markersize": 3 if many else 5}
    drawn = [axes.plot(row, color=each, **style)[0] for row, each in zip(values, draw.line_colours(len(labels)))]
    axes.tick_params(labelsize=TOKENS)
    draw.put_tokens(axes.xaxis, points, inside[0] / len(points))
    axes.grid(alpha=0.4)
    axes.set_ylabel(ylabel, fontsize=LETTERS, parse_math=False)
    step = math.ceil(len(labels) * 1.35 * TOKENS / 72 / inside[1])  # of as many as fit, the names are beside the lines
    legend = axes.legend(drawn[::step], labels[::step], loc="upper left", bbox_to_anchor=(1.01, 1.02), fontsize=TOKENS)
    for text, label in zip(legend.get_texts(), labels[::step], strict=True):
        text.set(text=shown(label), parse_math=False)
    draw.put_title(axes, title, inside[0])
    return axes


@drawing()
def grid_table(
    cells: Sequence[Names], shades: Any, rows: Names, columns: Names, *, title: str, axes: "Axes | None" = None
) -> "Axes":
    """Words in cells shaded by their probability, such as a model's guess after each layer at each token."""
    shades = draw.table(shades, len(rows), len(columns), "the shades")
    if [len(row) for row in cells] != [len(columns)] * len(rows):
        raise ConfigError(f"the cells are not {len(rows)} rows of {len(columns)}, as their shades are")
    words = [[shown(cell) for cell in row] for row in cells]
    wide = min(max(breadth(word) for row in words for word in row) + 0.16, 1.4)
    inside = max(5.0, wide * len(columns)), max(1.6, 0.36 * len(rows))
    axes, inside = draw.placed(axes, inside, title, rows, columns, right=1.1)
    wide, high = draw.put_cells(axes, inside, shades, rows, columns, "probability", 1.0)
    if wide >= 0.3 and high >= 0.2:
        draw.write_in_cells(axes, [[draw.cut(word, wide - 0.1) for word in row] for row in words], shades)
    draw.put_title(axes, title, inside[0])
    return axes


@drawing()
def draw_studies(studies: Sequence[Study]) -> "Figure":
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
    draw.colour_bar(axes, image, panel.label)


def _draw_curves(axes: Any, panel: Curves) -> None:
    from matplotlib.ticker import MaxNLocator

    for (name, line), colour in zip(panel.values.items(), draw.line_colours(len(panel.values))):
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
