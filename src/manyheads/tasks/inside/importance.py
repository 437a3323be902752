"""How much each head matters: what is lost without it (Michel et al. 2019; Voita et al. 2019)."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import nn

from manyheads.core.errors import ConfigError
from manyheads.core.log import counting
from manyheads.look.figures import bars
from manyheads.look.grid import Grid, shades_of
from manyheads.look.heads import attentions, heads_off
from manyheads.tasks.task import evaluation, predictor_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True)
class HeadImportance:
    """One head, the score of the model without it, and how much worse that is."""

    kind: str
    layer: int
    head: int
    score: float
    lost: float

    @property
    def name(self) -> str:
        """How the head is written: 0.3, or cross.0.3 of a translator."""
        return f"{self.layer}.{self.head}" if self.kind == "self" else f"{self.kind}.{self.layer}.{self.head}"


@dataclass(frozen=True)
class Measure:
    """A score of a model, as it stands, on the same data each time."""

    name: str
    network: nn.Module
    score: Callable[[], float]
    more_is_better: bool = False


@dataclass(frozen=True)
class Importance:
    """The heads of a model, the one most missed first."""

    measure: str
    whole: float
    """The score with all heads."""
    heads: list[HeadImportance]

    def table(self) -> Grid:
        """The same to be shown."""
        rows = [head.name for head in self.heads]
        cells = [[f"{head.score:.4f}", f"{head.lost:+.4f}"] for head in self.heads]
        shades = shades_of(np.array([[0.0, head.lost] for head in self.heads]))
        note = f"{self.measure} with all heads: {self.whole:.4f}"
        columns = [f"{self.measure} without it", "lost"]
        return Grid("What each head is worth", cells, rows, columns, shades, note=note)

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()


def importance_picture(model: str, importance: Importance) -> "Axes":
    """A bar for each head, the one most missed on top."""
    better = "lost" if importance.measure != "loss" else "gained"
    return bars(
        [head.lost for head in importance.heads],
        [head.name for head in importance.heads],
        title=f"{model}: what each head is worth ({importance.measure} {importance.whole:.3f} with all)",
        xlabel=f"{importance.measure} {better} without it",
    )


def rank_heads(measure: Measure) -> Importance:
    """Switches off one head after the other, and says what each is worth."""
    parts = list(attentions(measure.network))
    total = sum(len(part.module.numbers) for part in parts)
    with counting("heads switched off, one at a time", total) as show:
        whole, found = measure.score(), []
        if not math.isfinite(whole):
            raise ConfigError(f"the model's {measure.name} is {whole} with all its heads; there is nothing to lose")
        for part in parts:
            for head in part.module.numbers:
                where = (part.layer, head) if part.kind == "self" else (part.kind, part.layer, head)
                with heads_off(measure.network, {where}):
                    without = measure.score()
                lost = whole - without if measure.more_is_better else without - whole
                found.append(HeadImportance(part.kind, part.layer, head, without, lost))
                show(len(found))
    return Importance(measure.name, whole, sorted(found, key=lambda each: -each.lost))


def measure_of(model: Path, *, by: str | None = None, device: str = "auto", **given: Any) -> Measure:
    """What a model is scored by, on what is given for it to be evaluated on."""
    kind = predictor_of(model)
    if by not in (None, *kind.ranked_by):
        raise ConfigError(f"the heads of {kind.what} are not ranked by {by}, but by {' or '.join(kind.ranked_by)}")
    asked = evaluation(kind, given, str(model))
    return kind.load(model, device=device, **kind.exact).measure(asked, by)
