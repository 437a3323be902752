"""What figures share: letters for a slide, axes as large as their content, names along an axis, files.

Lengths are inches, sizes of letters points.
"""

import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from textwrap import fill
from types import MappingProxyType
from typing import TYPE_CHECKING, Any
from unicodedata import category

import numpy as np

from manyheads.core.errors import ConfigError, MissingExtra
from manyheads.core.files import write_result
from manyheads.core.log import warn

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TITLE, LETTERS, TOKENS = 15, 13, 12
# Asked for where the usual font has no such letter, if they are there.
FONTS = (
    *("Noto Sans CJK JP", "Noto Sans CJK SC", "Noto Sans CJK KR", "Hiragino Sans", "PingFang SC", "Microsoft YaHei"),
    *("Malgun Gothic", "WenQuanYi Micro Hei", "Noto Sans", "Noto Sans Arabic", "Noto Sans Devanagari"),
    *("Noto Sans Thai", "Noto Sans Symbols", "Noto Emoji", "Arial Unicode MS", "Segoe UI Symbol", "FreeSans"),
    "Unifont",
)
Size = tuple[float, float]
Names = Sequence[str]
# Which the colour-blind tell apart: Okabe and Ito (2008).
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#8c6d1f")


@contextmanager
def drawing(own: Mapping[str, Any] = MappingProxyType({})) -> Iterator[None]:
    """Letters for a slide, in the fonts that are there, and a figure's own settings; afterwards all is as before."""
    try:
        from matplotlib import font_manager, rc_context
    except ImportError:
        raise MissingExtra("matplotlib", "look", "A picture") from None
    there = set(font_manager.fontManager.get_font_names())
    settings: Any = {
        "font.family": ["DejaVu Sans", *(name for name in FONTS if name in there)],
        "font.size": LETTERS,
        "text.usetex": False,
        "svg.fonttype": "none",  # letters that can be searched and copied
        "svg.hashsalt": "manyheads",  # the same picture is the same file
        **own,
    }
    with rc_context(settings), warnings.catch_warnings():
        # A letter that no font has is drawn as a box.
        warnings.filterwarnings("ignore", message="Glyph .* missing from|Matplotlib currently does not support")
        yield


def save_figure(drawn: "Axes | Figure", path: Path, own: Mapping[str, Any] = MappingProxyType({})) -> None:
    """Writes a figure, or the one that axes are in, whole or not at all; its ending chooses the format."""
    kind = path.suffix.lower()[1:]
    if kind not in ("png", "svg"):
        raise ConfigError(f"the picture {path} must end in .png or .svg")
    written = BytesIO()
    with drawing(own):
        # Axes may be in a figure within a figure; the outermost one is its own.
        whole: Any = drawn.figure.figure  # type: ignore
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            whole.savefig(written, format=kind, dpi=150, metadata={"Date": None} if kind == "svg" else None)
    # An SVG keeps its letters, which are drawn where it is seen.
    if kind == "png" and any("missing from" in str(each.message) for each in said):
        warn("no font here has some of the letters, which are boxes in the picture; install one, such as Noto Sans CJK")
    write_result(path, written.getvalue())


def placed(
    axes: "Axes | None", inside: Size, title: str, beside: Names, below: Names = (), right: float = 0.2
) -> tuple["Axes", Size]:
    """Somebody's axes and the room in them, or axes alone in a figure that leaves `inside` to the drawing.

    The rest of that figure is for the title, the labels and a colour bar.
    """
    from matplotlib.figure import Figure

    if axes is not None:
        return axes, room_in(axes)
    wide, high = inside
    left = 0.6 + max((breadth(shown(token)) for token in beside), default=0.3)
    longest = max((breadth(shown(token)) for token in below), default=0.2)
    labels = {0: 0.25, 45: 0.75 * longest + 0.2, 90: longest + 0.1}[_slant(below, wide / max(len(below), 1))]
    above = 0.25 + 0.27 * len(wrapped(title, wide).splitlines())
    figure = Figure(figsize=(left + wide + right, above + high + labels + 0.45), layout="constrained")
    return figure.subplots(), inside


def line_colours(count: int) -> Any:
    """A colour for each line; of more than there are to tell apart, from dark to light in their order."""
    from matplotlib import colormaps

    return colormaps["viridis"](np.linspace(0, 0.92, count)) if count > len(COLOURS) else COLOURS


def put_title(axes: "Axes", title: str, wide: float) -> None:
    """The title in lines that fit, in which a $ is a dollar and not the beginning of a formula."""
    axes.set_title(wrapped(title, wide), fontsize=TITLE, parse_math=False, pad=10)


def put_tokens(axis: Any, tokens: Names, pitch: float) -> None:
    """Names the places along an axis; where they are too close, every second, third, … of them."""
    size = TOKENS + 2 if pitch >= 0.4 else TOKENS
    step = math.ceil(1.2 * size / 72 / pitch - 0.01)
    places = range(0, len(tokens), step)
    style: dict[str, Any] = {"fontsize": size, "parse_math": False}
    slant = _slant([tokens[place] for place in places], pitch * step) if axis.axis_name == "x" else 0
    if slant:
        style |= {"rotation": slant, "rotation_mode": "anchor", "ha": "right", "va": "center" if slant == 90 else "top"}
    axis.set_ticks(places, [shown(tokens[place]) for place in places], **style)


def put_cells(
    axes: "Axes",
    inside: Size,
    values: np.ndarray,
    rows: Names,
    columns: Names,
    label: str,
    most: float,
    colours: str = "Blues",
) -> Size:
    """Cells in blue with names along both axes and a bar for their colours; gives the size of a cell."""
    wide, high = inside[0] / len(columns), inside[1] / len(rows)
    image = axes.imshow(values, cmap=colours, vmin=0.0, vmax=most, aspect="auto")
    put_tokens(axes.xaxis, columns, wide)
    put_tokens(axes.yaxis, rows, high)
    colour_bar(axes, image, label)
    return wide, high


def colour_bar(axes: "Axes", image: Any, label: str) -> None:
    """What the colours mean, to the right."""
    wide, high = room_in(axes)
    bar = axes.figure.colorbar(image, ax=axes, pad=0.15 / wide, fraction=0.25 / wide, aspect=high / 0.2)
    label_bar(bar, label)


def label_bar(bar: Any, label: str) -> None:
    bar.set_label(label, fontsize=LETTERS, parse_math=False)
    bar.ax.tick_params(labelsize=TOKENS)
    bar.outline.set_visible(False)


def write_in_cells(axes: "Axes", words: list[list[str]], shades: np.ndarray) -> None:
    """Dark letters on light cells and light ones on dark."""
    for (row, column), shade in np.ndenumerate(shades):
        colour = "white" if shade > 0.6 else "black"
        style: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": TOKENS, "parse_math": False}
        axes.text(column, row, words[row][column], color=colour, clip_on=True, **style)


def shown(token: str, longest: int = 24) -> str:
    """A token on one line, cut where it is long; what cannot be seen, such as a line break, as Python writes it."""
    unseen = ("Cc", "Cs", "Zl", "Zp")
    seen = "".join(each.encode("unicode_escape").decode() if category(each) in unseen else each for each in token)
    return seen if len(seen) <= longest else f"{seen[: longest - 1]}…"


def cut(word: str, wide: float) -> str:
    """As much of a word as there is place for."""
    kept = word
    while len(kept) > 1 and breadth(word if kept == word else f"{kept}…") > wide:
        kept = kept[:-1]
    return word if kept == word else f"{kept}…"


def breadth(text: str, size: float = TOKENS) -> float:
    """How wide a text is."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import text_to_path

    return text_to_path.get_text_width_height_descent(text, FontProperties(size=size), ismath=False)[0] / 72


def wrapped(title: str, wide: float) -> str:
    lines = title.splitlines() or [""]
    fitting = (max(8, int(0.93 * len(line) * wide / max(breadth(line, TITLE), 0.1))) for line in lines)
    return "\n".join(fill(line, most, break_on_hyphens=False) for line, most in zip(lines, fitting))


def _slant(tokens: Names, pitch: float) -> int:
    """Degrees by which names below an axis are turned: no more than they must be."""
    if all(breadth(shown(token)) * 1.3 < pitch for token in tokens):
        return 0
    return 45 if pitch >= 0.4 else 90


def room_in(axes: "Axes") -> tuple[float, float]:
    """How large somebody's axes are, less what labels may yet take."""
    box: Any = axes.get_window_extent()
    return 0.7 * box.width / axes.figure.dpi, 0.7 * box.height / axes.figure.dpi


def highest(weights: np.ndarray) -> float:
    """The end of the colours; something even where all is nothing."""
    finite = weights[np.isfinite(weights)]
    return float(finite.max(initial=0.0)) or 1.0


def table(values: Any, rows: int, columns: int, what: str) -> np.ndarray:
    values = numbers(values)
    if values.shape != (rows, columns) or not values.size:
        raise ConfigError(f"{what} are {list(values.shape)}, but there are {rows} rows and {columns} columns to name")
    return values


def numbers(values: Any) -> np.ndarray:
    """An array of what may be a tensor, of any precision and anywhere."""
    values = values.detach().double().cpu() if hasattr(values, "detach") else values
    return np.asarray(values, dtype=np.float64)
