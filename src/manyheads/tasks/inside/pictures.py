"""What was seen of a model, as figures for a paper."""

from typing import TYPE_CHECKING

from manyheads.core.errors import ConfigError
from manyheads.look.figures import bars, grid_table, head_grid, heat_map, lines
from manyheads.look.grid import Grid, of_numbers
from manyheads.tasks.inside.importance import Importance
from manyheads.tasks.inside.look import Inside

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SHOWS = ("attention", "heads", "rollout", "lens", "norms")


def refuse_other(show: str) -> None:
    """What cannot be shown is refused."""
    if show not in SHOWS:
        raise ConfigError(f"there is nothing called {show} to show; there are {', '.join(SHOWS)}")


def picture(inside: Inside, show: str = "attention", kind: str | None = None) -> "Axes | Figure":
    """One of: the attention of a head, or the mean of the last layer's; all heads; rollout; logit lens; norms."""
    refuse_other(show)
    if show == "lens":
        grid = inside.grid("logit lens")
        return grid_table(grid.cells, grid.shades, grid.rows, grid.columns, title=f"{inside.model}: logit lens")
    if show == "norms":
        # Of a translator, in the decoder unless said otherwise.
        grid = _norm_grids(inside, kind)[-1]
        assert grid.numbers is not None
        title = f"{inside.model}: {grid.title[0].lower()}{grid.title[1:]}"
        return lines(grid.numbers.T, grid.columns, grid.rows, title=title, ylabel="length of the vector")
    view = inside.view(kind)
    if show == "heads":
        title = f"{inside.model}: {view.title}"
        return head_grid(view.weights, view.rows, view.columns, title=title, layers=view.layers, heads=view.heads)
    if show == "rollout":
        rolled = inside.rollout(kind)
        title = f"{inside.model}: {rolled.title}, up to layer {rolled.layers[-1]}"
        return heat_map(rolled.weights[-1, 0], rolled.rows, rolled.columns, title=title, label="share")
    heads = view.present(-1)
    which = f"head {view.heads[0]}" if len(view.heads) == 1 else f"mean of {len(heads)} heads"
    title = f"{inside.model}: {view.title}, layer {view.layers[-1]}, {which}"
    return heat_map(heads.mean(axis=0), view.rows, view.columns, title=title)


def _norm_grids(inside: Inside, kind: str | None) -> list[Grid]:
    """The norms of a stack, or of each."""
    inside.view(kind)
    found = [grid for grid in inside.grids if grid.title.startswith("Residual norms")]
    stack = "decoder" if kind == "cross" else kind
    return found if stack in (None, "self") else [grid for grid in found if grid.title.endswith(stack)]


def importance_picture(model: str, importance: Importance) -> "Axes":
    """A bar for each head, the one most missed on top."""
    better = "lost" if importance.measure != "loss" else "gained"
    return bars(
        [head.lost for head in importance.heads],
        [head.name for head in importance.heads],
        title=f"{model}: what each head is worth ({importance.measure} {importance.whole:.3f} with all)",
        xlabel=f"{importance.measure} {better} without it",
    )


def tables(inside: Inside, show: str, kind: str | None) -> list[Grid]:
    """What is printed of what is shown; of attention, which is a picture, nothing."""
    refuse_other(show)
    if show == "lens":
        return [inside.grid("logit lens")]
    if show == "norms":
        return _norm_grids(inside, kind)
    if show == "heads":
        wanted = f"Heads of {inside.view(kind).title if kind else ''}"
        return [grid for grid in inside.grids if grid.title.startswith(wanted)]
    if show == "rollout":
        rolled = inside.rollout(kind)
        return [of_numbers(rolled.title, rolled.weights[-1, 0], rolled.rows, rolled.columns)]
    inside.view(kind)
    return []
