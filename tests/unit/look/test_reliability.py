from collections import namedtuple

import numpy as np
import pytest

from manyheads.core.errors import ConfigError
from manyheads.look.reliability import reliability

pytest.importorskip("matplotlib")


Drawn = namedtuple("Drawn", "low high count confidence accuracy")


TOO_SURE = Drawn(0.8, 0.9, 30, 0.85, 0.5)
NOT_SURE_ENOUGH = Drawn(0.4, 0.5, 7, 0.45, 0.75)


@pytest.fixture
def figures(monkeypatch) -> list:
    """The figures that are saved, as they are saved."""
    from matplotlib.figure import Figure

    saved, save = [], Figure.savefig

    def kept(figure, *arguments, **options):
        saved.append(figure)
        return save(figure, *arguments, **options)

    monkeypatch.setattr(Figure, "savefig", kept)
    return saved


def bars(axes) -> set[tuple[float, float, float, float]]:
    """From where to where each bar reaches, to the side and upwards."""
    boxes = [(bar.get_x(), bar.get_x() + bar.get_width(), bar.get_y(), bar.get_height()) for bar in axes.patches]
    return {tuple(np.round([x0, x1, *sorted([y, y + height])], 6)) for x0, x1, y, height in boxes}


def test_accuracy_the_gap_to_confidence_and_counts_are_drawn(figures, tmp_path):
    reliability([NOT_SURE_ENOUGH, TOO_SURE], 0.344, tmp_path / "a.png", "A title")
    above, below = figures[0].axes
    accuracies = {(0.4, 0.5, 0.0, 0.75), (0.8, 0.9, 0.0, 0.5)}
    gaps = {(0.4, 0.5, 0.45, 0.75), (0.8, 0.9, 0.5, 0.85)}
    assert bars(above) == accuracies | gaps
    assert bars(below) == {(0.4, 0.5, 0.0, 7.0), (0.8, 0.9, 0.0, 30.0)}
    diagonal = above.lines[0].get_xydata().tolist()
    assert diagonal == [[0, 0], [1, 1]]
    assert figures[0].get_suptitle() == "A title\nECE 34.4 %"
    assert above.get_ylabel() == "accuracy"
    assert below.get_ylabel() == "examples"
    assert below.get_xlabel().startswith("confidence")


@pytest.mark.parametrize(
    ("bins", "named"),
    [
        ([TOO_SURE], {"too confident"}),
        ([NOT_SURE_ENOUGH], {"not confident enough"}),
        ([TOO_SURE, NOT_SURE_ENOUGH], {"too confident", "not confident enough"}),
        ([Drawn(0.5, 0.6, 4, 0.5625, 0.5625)], set()),
    ],
)
def test_the_legend_names_the_gaps_that_are_there(figures, tmp_path, bins, named):
    reliability(bins, 0.1, tmp_path / "a.png", "A title")
    legend = figures[0].axes[0].get_legend()
    assert {text.get_text() for text in legend.get_texts()} == named | {"accuracy", "perfect calibration"}


def test_nothing_is_drawn_over_anything_else(figures, tmp_path):
    """A legend, the title and the bars have a place of their own, whatever the accuracies and the title's length."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    full = [Drawn(place / 15, (place + 1) / 15, 99_999, (place + 0.5) / 15, 1.0) for place in range(15)]
    reliability(full, 0.5, tmp_path / "a.png", "a title that goes on and on " * 6)
    figure = figures[0]
    above, below = figure.axes
    renderer = FigureCanvasAgg(figure).get_renderer()
    figure.draw(renderer)
    title, whole = figure._suptitle.get_window_extent(renderer), figure.bbox
    legend = above.get_legend().get_window_extent(renderer)
    assert whole.x0 <= title.x0 < title.x1 <= whole.x1
    assert title.y1 <= whole.y1
    assert legend.y1 <= title.y0
    assert above.get_window_extent(renderer).y1 <= legend.y0
    assert below.get_tightbbox(renderer).y0 >= 0


@pytest.mark.parametrize(("name", "begins"), [("a.png", b"\x89PNG"), ("a.svg", b"<?xml"), ("A.PNG", b"\x89PNG")])
def test_the_ending_chooses_the_format_and_others_are_refused_before_anything_is_drawn(tmp_path, name, begins):
    reliability([TOO_SURE], 0.35, tmp_path / name, "A title")
    assert (tmp_path / name).read_bytes().startswith(begins)
    with pytest.raises(ConfigError, match=r"a\.gif must end in \.png or \.svg"):
        reliability([TOO_SURE], 0.35, tmp_path / "a.gif", "A title")
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_a_dollar_in_the_title_begins_no_formula(tmp_path):
    import matplotlib

    with matplotlib.rc_context({"svg.fonttype": "none"}):  # letters as letters, not as outlines
        reliability([TOO_SURE], 0.35, tmp_path / "a.svg", "costs $5 or $6")
    assert ">costs $5 or $6<" in (tmp_path / "a.svg").read_text(encoding="utf-8")
