"""A labelled matrix, shown in a terminal or on a page."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from pathlib import Path
from string import Template
from textwrap import wrap

import numpy as np
from rich.cells import cell_len, set_cell_size
from rich.text import Text

from manyheads.core.errors import ConfigError

WIDTH = 100  # of a terminal that does not say
MOST_ROWS = 32  # in a terminal
MOST_ON_A_PAGE = 64  # rows, and columns
LONGEST_LABEL = 18  # in a terminal
GAP = "…"
# Blue above zero and orange below, which the colour-blind tell apart.
MORE, LESS = (37, 99, 235), (217, 95, 2)
STRONGEST = 0.55  # of a colour, so that the number in front of it stays readable

FILES = Path(__file__).with_name("page_files")
GRID_CSS = Template((FILES / "grid.css").read_text(encoding="utf-8").strip()).substitute(
    more=" ".join(map(str, MORE)), less=" ".join(map(str, LESS))
)


@dataclass(frozen=True)
class Grid:
    """A labelled matrix of what is printed, perhaps coloured."""

    title: str
    cells: list[list[str]]
    """What is printed in each cell, row by row."""
    rows: list[str]
    columns: list[str]
    shades: np.ndarray | None = None
    """[rows, columns] in -1..1: the colour of each cell; None: none has one."""
    formula: str = ""
    note: str = ""
    numbers: np.ndarray | None = None
    """[rows, columns]: what the cells say or are shaded by, with all its digits."""

    def __post_init__(self):
        shape = (len(self.rows), len(self.columns))
        found = (len(self.cells), next((len(row) for row in self.cells if len(row) != shape[1]), shape[1]))
        shaded = shape if self.shades is None else self.shades.shape
        for what, size in (("cells", found), ("shades", shaded)):
            if size != shape:
                raise ConfigError(f"{self.title}: the {what} are {size}, but the labels are {shape}; give as many")

    def _repr_html_(self) -> str:
        return f"<style>{GRID_CSS}</style>{as_html(self)}"


def of_numbers(
    title: str,
    numbers: np.ndarray,
    rows: Sequence[str],
    columns: Sequence[str],
    *,
    digits: int = 2,
    formula: str = "",
    note: str = "",
    most: float | None = None,
) -> Grid:
    """A matrix of numbers, each coloured by its share of `most`; unset, that is the largest magnitude there is."""
    numbers = np.asarray(numbers, dtype=np.float64)
    cells = [[_written(number, digits) for number in row] for row in numbers]
    return Grid(title, cells, list(rows), list(columns), shades_of(numbers, most), formula, note, numbers)


def shades_of(numbers: np.ndarray, most: float | None = None) -> np.ndarray:
    """Numbers as colours: each as a share of `most`, unset the largest magnitude; what is not finite has none."""
    finite = np.where(np.isfinite(numbers), numbers, 0.0)
    most = most or float(np.abs(finite).max(initial=0.0))
    return np.clip(finite / most, -1.0, 1.0) if most else finite


def digits_for(numbers: np.ndarray) -> int:
    """Two, and more where all numbers are so small that two would show nothing."""
    largest = np.abs(numbers, where=np.isfinite(numbers), out=np.zeros_like(numbers)).max(initial=0.0)
    return 2 if largest >= 0.1 or not largest else min(1 - math.floor(math.log10(largest)), 6)


def _written(number: float, digits: int) -> str:
    if not np.isfinite(number):
        return {np.inf: "∞", -np.inf: "-∞"}.get(number, "?")
    # Adding zero makes a zero of a negative zero.
    return f"{round(float(number), digits) + 0.0:.{digits}f}"


def as_html(grid: Grid, most: int = MOST_ON_A_PAGE) -> str:
    """A figure for a page that has GRID_CSS; tables wider than the page scroll within their own box."""
    rows, columns = _kept(len(grid.rows), most), _kept(len(grid.columns), most)
    head = [_tag("th", grid.columns[place], ' scope="col" dir="auto"') for place in columns]
    lines = [f"<thead><tr><th></th>{_with_gap(head, columns)}</tr></thead>" if any(grid.columns) else "", "<tbody>"]
    for before, row in pairwise([-1, *rows]):
        if row > before + 1:
            lines.append(f"<tr><th>{GAP}</th></tr>")
        cells = [_cell(grid, row, place) for place in columns]
        label = _tag("th", grid.rows[row], ' scope="row" dir="auto"')
        lines.append(f"<tr>{label}{_with_gap(cells, columns)}</tr>")
    table = f'<div class="box" tabindex="0"><table>{"".join(lines)}</tbody></table></div>'
    caption = _tag("strong", grid.title) if grid.title else ""
    caption += _tag("span", grid.formula, ' class="formula"') if grid.formula else ""
    caption = f"<figcaption>{caption}</figcaption>" if caption else ""
    note = f"{grid.note} {_cut(grid, rows, columns)}".strip()
    note = _tag("p", note, ' class="note"') if note else ""
    return f'<figure class="grid">{caption}{table}{note}</figure>'


def _tag(name: str, content: str, attributes: str = "") -> str:
    return f"<{name}{attributes}>{escape(visible(content))}</{name}>"


def _with_gap(cells: list[str], columns: list[int]) -> str:
    """Cells side by side, with a mark where some are left out before the next."""
    gaps = [f"<td>{GAP}</td>" if place > before + 1 else "" for before, place in pairwise([-1, *columns])]
    return "".join(gap + cell for gap, cell in zip(gaps, cells))


def _cell(grid: Grid, row: int, column: int) -> str:
    shade = 0.0 if grid.shades is None else float(np.nan_to_num(grid.shades[row, column]))
    strength = round(STRONGEST * abs(shade), 2)
    colour = f' class="{"more" if shade > 0 else "less"}" style="--shade:{strength}"' if strength else ""
    return _tag("td", grid.cells[row][column], colour)


def as_text(grid: Grid, width: int = WIDTH, most: int = MOST_ROWS) -> Text:
    """Lines for a terminal, as wide as it at most; `.plain` is the string, and a rich console prints the colours."""
    labels = [_fitted(label) for label in grid.rows]
    names = [_fitted(label) for label in grid.columns]
    margin = max(map(cell_len, labels), default=0)
    cells = [[visible(cell) for cell in row] for row in grid.cells]
    sizes = [max(map(cell_len, column)) for column in zip(names, *cells)]
    rows, columns = _kept(len(labels), most), _kept(len(names), _fitting(sizes, width - margin))
    text = Text(no_wrap=True)
    text.append(visible(grid.title), style="bold")
    text.append(f"   {visible(grid.formula)}" if grid.formula else "", style="italic")
    if any(names):
        text.append("\n" + " " * margin)
        for before, place in pairwise([-1, *columns]):
            text.append(_gap(before, place) + "  " + _right(names[place], sizes[place]), style="dim")
    for before, row in pairwise([-1, *rows]):
        text.append(f"\n{GAP}" if row > before + 1 else "")
        text.append("\n" + set_cell_size(labels[row], margin))
        for left, place in pairwise([-1, *columns]):
            text.append(_gap(left, place) + " ")
            shade = 0.0 if grid.shades is None else float(np.nan_to_num(grid.shades[row, place]))
            text.append(_right(cells[row][place], sizes[place] + 1), style=_style(shade))
    for note in (grid.note, _cut(grid, rows, columns)):
        text.append("".join(f"\n{line}" for line in wrap(visible(note), max(width, LONGEST_LABEL))))
    return text


def _fitting(sizes: list[int], width: int) -> int:
    """How many columns there is place for; where not for all, the last is among them."""
    if sum(sizes) + 2 * len(sizes) <= width:
        return len(sizes)
    left, count = width - sizes[-1] - 2 - len(GAP) - 1, 1
    for size in sizes[:-1]:
        left -= size + 2
        if left < 0:
            break
        count += 1
    return max(count, 2)


def _kept(count: int, most: int) -> list[int]:
    """The places that are shown: all, or the first ones and the last."""
    return list(range(count)) if count <= most else [*range(most - 1), count - 1]


def _cut(grid: Grid, rows: list[int], columns: list[int]) -> str:
    """What is left out, in words."""
    said = [
        f"the first {len(kept) - 1} and the last of {total:,} {what}"
        for kept, total, what in ((rows, len(grid.rows), "rows"), (columns, len(grid.columns), "columns"))
        if len(kept) < total
    ]
    return f"({', '.join(said)})" if said else ""


def _gap(before: int, place: int) -> str:
    return f" {GAP}" if place > before + 1 else ""


def visible(label: str) -> str:
    """A label in which nothing is invisible: a newline is written \\n, and no character moves the cursor."""
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in label)


def _fitted(label: str) -> str:
    label = visible(label)
    return label if cell_len(label) <= LONGEST_LABEL else set_cell_size(label, LONGEST_LABEL - 1).rstrip() + GAP


def _right(content: str, size: int) -> str:
    return " " * (size - cell_len(content)) + content


def _style(shade: float) -> str:
    """Black on a pale colour, which can be read on any terminal; none for what is almost nothing."""
    strength = STRONGEST * abs(shade)
    if strength < 0.02:
        return ""
    mixed = (round(255 - strength * (255 - part)) for part in (MORE if shade > 0 else LESS))
    return f"black on rgb({','.join(map(str, mixed))})"
