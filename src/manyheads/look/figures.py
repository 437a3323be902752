"""Figures as axes of matplotlib: arrays and tokens in, pictures that can be read on a slide out.

Without axes to draw on, a figure as large as its content is made.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from manyheads.core.errors import ConfigError
from manyheads.look.drawing import (
    ABOVE,
    BELOW,
    COLOURS,
    LETTERS,
    MOST_NUMBERS,
    TALLEST,
    TITLE,
    TOKENS,
    WIDEST,
    breadth,
    colour_bar,
    cut,
    drawing,
    highest,
    label_bar,
    new_axes,
    numbers,
    put_legend,
    put_title,
    put_tokens,
    room_in,
    shown,
    table,
    wrapped,
    write_in_cells,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@drawing()
def heat_map(
    weights: Any,
    rows: Sequence[str],
    columns: Sequence[str],
    *,
    title: str = "",
    label: str = "attention weight",
    axes: "Axes | None" = None,
) -> "Axes":
    """Attention: a row for each token that looks, a column for each token looked at; `label` is what colours mean."""
    weights = table(weights, len(rows), len(columns), "the weights")
    if axes is None:
        wide, high = (0.56, 0.42) if max(weights.shape) <= MOST_NUMBERS else (0.225, 0.225)
        inside = min(max(5.0, wide * len(columns)), WIDEST), min(max(1.6, high * len(rows)), WIDEST)
        axes = new_axes(inside, title, beside=rows, below=columns, right=1.1)
    else:
        inside = room_in(axes)
    wide, high = inside[0] / len(columns), inside[1] / len(rows)
    image = axes.imshow(weights, cmap="Blues", vmin=0.0, vmax=highest(weights), aspect="auto")
    if max(weights.shape) <= MOST_NUMBERS and wide >= 0.4 and high >= 0.2:
        numbers = [[f"{weight:.2f}" for weight in row] for row in weights]
        write_in_cells(axes, numbers, weights / highest(weights))
    put_tokens(axes.xaxis, columns, wide)
    put_tokens(axes.yaxis, rows, high)
    axes.set_xlabel("looks at", fontsize=LETTERS)
    axes.set_ylabel("looks from", fontsize=LETTERS)
    colour_bar(axes, image, label)
    put_title(axes, title, inside[0])
    return axes


@drawing()
def head_grid(
    weights: Any,
    rows: Sequence[str],
    columns: Sequence[str],
    *,
    title: str,
    layers: Sequence[int],
    heads: Sequence[int],
) -> "Figure":
    """The attention of every head as a small picture: a row for each layer, a column for each head."""
    from matplotlib.figure import Figure

    weights = numbers(weights)
    if weights.ndim != 4 or weights.shape[:2] != (len(layers), len(heads)):
        raise ConfigError(
            f"the weights are {list(weights.shape)}, but {len(layers)} layers of {len(heads)} heads "
            f"need [{len(layers)}, {len(heads)}, rows, columns]"
        )
    side = min(max(WIDEST / len(heads), 0.85), 2.0)
    wide = max(side * len(heads), 4.0)
    title = wrapped(title, wide)
    named = max(len(rows), len(columns)) * 0.2 <= side  # else there is no room for the tokens
    beside, under = (max(map(breadth, map(shown, each))) if named else 0.0 for each in (rows, columns))
    left, right, below, above = 1.5 + beside, 1.35, 0.5 + under, 0.55 + 0.26 * len(title.splitlines())
    width, height = left + wide + right, below + side * len(layers) + above
    figure = Figure(figsize=(width, height))
    places = {"left": left / width, "right": 1 - right / width, "bottom": below / height, "top": 1 - above / height}
    axes = figure.subplots(
        len(layers), len(heads), squeeze=False, gridspec_kw={**places, "wspace": 0.08, "hspace": 0.08}
    )
    for (row, column), panel in np.ndenumerate(axes):
        image = panel.imshow(weights[row, column], cmap="Blues", vmin=0.0, vmax=highest(weights), aspect="auto")
        panel.set(xticks=[], yticks=[])
        if not weights[row, column].any():
            panel.text(0.5, 0.5, "removed", ha="center", va="center", transform=panel.transAxes, color="grey")
        if named and row == len(layers) - 1:
            panel.set_xticks(range(len(columns)), map(shown, columns), fontsize=TOKENS, rotation=90, parse_math=False)
        if named and column == 0:
            panel.set_yticks(range(len(rows)), map(shown, rows), fontsize=TOKENS, parse_math=False)
        if row == 0:
            panel.set_title(
                f"head {heads[column]}" if side > 0.9 or column == 0 else f"{heads[column]}", fontsize=TOKENS
            )
        if column == 0:
            panel.text(
                *(-(0.25 + beside) / side, 0.5, f"layer {layers[row]}"),
                **{"ha": "right", "va": "center", "fontsize": TOKENS, "transform": panel.transAxes},
            )
    middle = (left + wide / 2) / width
    figure.text(middle, 1 - 0.12 / height, title, fontsize=TITLE, ha="center", va="top", parse_math=False)
    figure.text(middle, 0.3 / height, "looks at", ha="center", va="center")
    figure.text(
        0.25 / width, (places["bottom"] + places["top"]) / 2, "looks from", ha="center", va="center", rotation=90
    )
    beside = figure.add_axes(
        (places["right"] + 0.2 / width, places["bottom"], 0.22 / width, places["top"] - places["bottom"])
    )
    label_bar(figure.colorbar(image, cax=beside), "attention weight")
    return figure


@drawing()
def bars(values: Any, labels: Sequence[str], *, title: str, xlabel: str, axes: "Axes | None" = None) -> "Axes":
    """A bar to the side for each value, the first on top; those below zero have a colour of their own."""
    values = numbers(values)
    if values.shape != (len(labels),):
        raise ConfigError(f"the values are {list(values.shape)}, but there are {len(labels)} labels")
    if axes is None:
        inside = 7.0, min(max(1.5, 0.26 * len(labels)), TALLEST)
        axes = new_axes(inside, title, beside=labels)
    else:
        inside = room_in(axes)
    axes.barh(range(len(labels)), values, height=0.75, color=[BELOW if value < 0 else ABOVE for value in values])
    axes.axvline(0.0, color="black", linewidth=1)
    axes.set_ylim(len(labels) - 0.5, -0.5)
    axes.grid(axis="x", alpha=0.4)
    axes.set_axisbelow(True)
    # Of a tall picture only one end may be in sight.
    axes.tick_params(axis="x", labelsize=TOKENS, labeltop=inside[1] > WIDEST, top=inside[1] > WIDEST)
    axes.set_xlabel(xlabel, fontsize=LETTERS, parse_math=False)
    put_tokens(axes.yaxis, labels, inside[1] / len(labels))
    put_title(axes, title, inside[0])
    return axes


@drawing()
def lines(
    values: Any, labels: Sequence[str], points: Sequence[str], *, title: str, ylabel: str, axes: "Axes | None" = None
) -> "Axes":
    """A line for each row of values, over points with these names: for instance layers."""
    from matplotlib import colormaps

    values = numbers(values)
    if values.shape != (len(labels), len(points)):
        raise ConfigError(
            f"the values are {list(values.shape)}, but {len(labels)} lines of {len(points)} points need "
            f"[{len(labels)}, {len(points)}]"
        )
    inside = (8.0, 5.0) if axes is None else room_in(axes)
    if axes is None:
        axes = new_axes(inside, title, beside=["0.00"], below=points, right=0.9 + max(map(breadth, map(shown, labels))))
    many = len(labels) > len(COLOURS)  # more than there are colours to tell apart: from dark to light, in their order
    colours = colormaps["viridis"](np.linspace(0, 0.92, len(labels))) if many else COLOURS
    drawn = [
        axes.plot(row, color=colour, linewidth=1.6 if many else 2.4, marker="o", markersize=3 if many else 5)[0]
        for row, colour in zip(values, colours)
    ]
    axes.tick_params(labelsize=TOKENS)
    put_tokens(axes.xaxis, points, inside[0] / len(points))
    axes.grid(alpha=0.4)
    axes.set_ylabel(ylabel, fontsize=LETTERS, parse_math=False)
    put_legend(axes, drawn, labels, inside[1])
    put_title(axes, title, inside[0])
    return axes


@drawing()
def grid_table(
    cells: Sequence[Sequence[str]],
    shades: Any,
    rows: Sequence[str],
    columns: Sequence[str],
    *,
    title: str,
    axes: "Axes | None" = None,
) -> "Axes":
    """Words in cells shaded by their probability, such as a model's guess after each layer at each token."""
    shades = table(shades, len(rows), len(columns), "the shades")
    if [len(row) for row in cells] != [len(columns)] * len(rows):
        raise ConfigError(f"the cells are not {len(rows)} rows of {len(columns)}, as their shades are")
    words = [[shown(cell) for cell in row] for row in cells]
    if axes is None:
        wide = min(max(breadth(word) for row in words for word in row) + 0.16, 1.4)
        inside = max(5.0, wide * len(columns)), max(1.6, 0.36 * len(rows))
        axes = new_axes(inside, title, beside=rows, below=columns, right=1.1)
    else:
        inside = room_in(axes)
    wide, high = inside[0] / len(columns), inside[1] / len(rows)
    image = axes.imshow(shades, cmap="Blues", vmin=0.0, vmax=1.0, aspect="auto")
    if wide >= 0.3 and high >= 0.2:
        write_in_cells(axes, [[cut(word, wide - 0.1) for word in row] for row in words], shades)
    put_tokens(axes.xaxis, columns, wide)
    put_tokens(axes.yaxis, rows, high)
    colour_bar(axes, image, "probability")
    put_title(axes, title, inside[0])
    return axes
