import sys
import warnings
from collections import namedtuple
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
import torch

from manyheads.core.errors import ConfigError, MissingExtra
from manyheads.look import drawing
from manyheads.look.drawing import save_figure
from manyheads.look.figures import alignment_matrix, bars, grid_table, head_grid, heat_map, lines, unit_maps
from manyheads.look.figures import draw_studies as draw
from manyheads.look.positions import study
from manyheads.look.reliability import reliability

pytest.importorskip("matplotlib")

LONG = "a model in a directory with a long name, layer 3 of decoder self-attention, head 11: " + "one more word " * 9
WORDS = ["the", "quick", "Straßenbahn", ",", "unbelievable", "日本", "$5", "_x", "العربية"]


def tokens(count: int) -> list[str]:
    return [f"{WORDS[place % len(WORDS)]}{place}" for place in range(count)]


def softmax(*shape: int) -> np.ndarray:
    values = np.exp(3 * np.random.default_rng(5).standard_normal(shape))
    return values / values.sum(axis=-1, keepdims=True)


Bin = namedtuple("Bin", "low high count confidence accuracy")
DRAWN = {
    "heat map": lambda title, **axes: heat_map(softmax(3, 5), tokens(3), tokens(5), title=title, **axes),
    "alignment": lambda title, **axes: alignment_matrix(softmax(3, 5), tokens(3), tokens(5), title=title, **axes),
    "bars": lambda title, **axes: bars([0.5, -0.25, 0.0], tokens(3), title=title, xlabel="loss", **axes),
    "lines": lambda title, **axes: lines(softmax(3, 5), tokens(3), tokens(5), title=title, ylabel="norm", **axes),
    "grid table": lambda title, **axes: grid_table(
        [tokens(5)] * 3, softmax(3, 5), tokens(3), tokens(5), title=title, **axes
    ),
}
WHOLE = {
    **DRAWN,
    "head grid": lambda title: head_grid(
        softmax(2, 3, 5, 7), tokens(5), tokens(7), title=title, layers=[0, 4], heads=[1, 2, 6]
    ),
    "unit maps": lambda title: unit_maps(
        [(tokens(5), {"one": softmax(5, 40), "other": softmax(5, 40)}), (tokens(3), {"one": softmax(3, 7)})],
        title=title,
    ),
}


SAVED = {
    **{name: lambda path, title, draw=draw: save_figure(draw(title), path) for name, draw in WHOLE.items()},
    "positions": lambda path, title: save_figure(draw([replace(study("alibi", positions=5), title=title)]), path),
}
saved_figures = pytest.mark.parametrize("save", SAVED.values(), ids=SAVED)
EVERY = SAVED | {"reliability": lambda path, title: reliability([Bin(0.8, 0.9, 30, 0.85, 0.5)], 0.35, path, title)}
every_picture = pytest.mark.parametrize("save", EVERY.values(), ids=EVERY)


def rendered(figure):
    """A renderer, after the figure was laid out with it."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    renderer = FigureCanvasAgg(figure).get_renderer()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # letters that no font here has
        figure.draw(renderer)
    return renderer


def overlap(one, other) -> bool:
    return one.x0 < other.x1 - 1 and other.x0 < one.x1 - 1 and one.y0 < other.y1 - 1 and other.y0 < one.y1 - 1


def labels(axis) -> list[str]:
    return [label.get_text() for label in axis.get_ticklabels()]


def assert_apart(axis, renderer) -> None:
    """No label is written over the next one, upright, turned or on a slant."""
    marks = [label for label in axis.get_ticklabels() if label.get_text()]
    turn = marks[0].get_rotation()
    if turn == 45:
        # Parallel lines of letters: what counts is how far apart they are across, against how high the letters are.
        places = [axis.axes.transData.transform((mark.get_position()[0], 0))[0] for mark in marks]
        heights = [mark.get_fontsize() * axis.axes.figure.dpi / 72 for mark in marks]
        assert np.diff(places).min() * np.sin(np.pi / 4) >= max(heights)
    else:
        assert turn in (0, 90)
        extents = [mark.get_window_extent(renderer) for mark in marks]
        assert not any(overlap(one, other) for one, other in combinations(extents, 2))


@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (3, 3), (5, 16), (17, 4), (40, 40), (3, 60), (200, 150)])
def test_attention_is_drawn_with_its_tokens(rows, columns):
    weights = softmax(rows, columns)
    axes = heat_map(weights, tokens(rows), tokens(columns), title=LONG)
    renderer = rendered(axes.figure)
    [image] = axes.images
    assert np.array_equal(image.get_array(), weights)
    for axis, count in ((axes.yaxis, rows), (axes.xaxis, columns)):
        places, named = axis.get_ticklocs(), labels(axis)
        assert named == [tokens(count)[int(place)] for place in places]
        assert len(named) == count or count > 40
        assert len(named) >= 20 or len(named) == count
        assert all(label.get_fontsize() >= 12 for label in axis.get_ticklabels())
        assert_apart(axis, renderer)
    assert (axes.get_ylabel(), axes.get_xlabel()) == ("looks from", "looks at")
    bar = axes.figure.axes[1]
    assert bar.get_ylabel() == "attention weight"
    assert image.colorbar.ax is bar
    numbers = [text.get_text() for text in axes.texts]
    assert numbers == ([f"{weight:.2f}" for weight in weights.flat] if max(rows, columns) <= 16 else [])
    for text in axes.texts:  # each stays in its cell
        box = text.get_window_extent(renderer).transformed(axes.transData.inverted())
        assert abs(box.x1 - box.x0) < 1
        assert abs(box.y1 - box.y0) < 1


@pytest.mark.parametrize("name", WHOLE)
@pytest.mark.parametrize("title", ["short", LONG, "日本語の長い文章" * 12])
def test_nothing_is_cut_off_and_a_long_title_has_lines(name, title):
    drawn = WHOLE[name](title)
    figure = drawn.figure
    renderer = rendered(figure)
    titles = [axes.title for axes in figure.axes] if name in DRAWN else figure.texts
    [shown] = [text for text in titles if text.get_text().split() and text.get_fontsize() == 15]
    assert shown.get_text().replace("\n", "").replace(" ", "") == title.replace(" ", "")
    extent = shown.get_window_extent(renderer)
    assert figure.bbox.x0 <= extent.x0 < extent.x1 <= figure.bbox.x1
    assert extent.y1 <= figure.bbox.y1
    for axes in figure.axes:
        box = axes.get_tightbbox(renderer)
        assert box.x0 >= -1
        assert box.y0 >= -1
        assert box.x1 <= figure.bbox.x1 + 1
        if name not in DRAWN:
            assert box.y1 <= extent.y0  # the title is the figure's


def test_every_head_is_drawn_in_its_place_on_one_scale():
    weights = softmax(2, 3, 5, 7)
    figure = head_grid(weights, tokens(5), tokens(7), title="A title", layers=[0, 4], heads=[1, 2, 6])
    *panels, bar = figure.axes
    for panel, wanted in zip(panels, weights.reshape(6, 5, 7), strict=True):
        assert np.array_equal(panel.images[0].get_array(), wanted)
        assert panel.images[0].get_clim() == (0.0, weights.max())
    assert [panel.get_title() for panel in panels[:3]] == ["head 1", "head 2", "head 6"]
    assert [panel.texts[0].get_text() for panel in panels[::3]] == ["layer 0", "layer 4"]
    assert [labels(panel.yaxis) for panel in panels] == [tokens(5), [], [], tokens(5), [], []]
    assert [labels(panel.xaxis) for panel in panels] == [[], [], [], tokens(7), tokens(7), tokens(7)]
    assert bar.get_ylabel() == "attention weight"
    assert {"looks at", "looks from"} < {text.get_text() for text in figure.texts}


@pytest.mark.parametrize("sides", [(12, 12), (1, 1), (3, 32)])
def test_the_names_of_many_heads_stand_apart(sides):
    layers, heads = sides
    sizes = {"layers": range(layers), "heads": range(heads)}
    figure = head_grid(softmax(layers, heads, 5, 5), tokens(5), tokens(5), title="A title", **sizes)
    renderer = rendered(figure)
    named = [text for panel in figure.axes[:-1] for text in (panel.title, *panel.texts) if text.get_text()]
    assert len(named) == layers + heads
    assert all(text.get_fontsize() >= 12 for text in named)
    extents = [text.get_window_extent(renderer) for text in [*named, *figure.texts]]
    assert not any(overlap(one, other) for one, other in combinations(extents, 2))


def test_the_words_of_an_alignment_stand_along_the_top_and_down_the_side_of_grey_squares():
    weights = softmax(9, 30)
    axes = alignment_matrix(weights, tokens(9), tokens(30), title="A title")
    renderer = rendered(axes.figure)
    [image] = axes.images
    assert np.array_equal(image.get_array(), weights)
    assert image.get_clim() == (0.0, 1.0)
    assert np.ptp(image.to_rgba(weights)[..., :3], axis=-1).max() == 0  # grey
    assert (labels(axes.yaxis), labels(axes.xaxis)) == (tokens(9), tokens(30))
    assert_apart(axes.xaxis, renderer)
    inside, title = (each.get_window_extent(renderer) for each in (axes, axes.title))
    above = [label.get_window_extent(renderer) for label in axes.get_xticklabels()]
    assert all(inside.y1 <= each.y0 < each.y1 <= title.y0 for each in above)


@pytest.mark.parametrize("units", [1, 5, 650])
def test_every_unit_is_drawn_over_time_for_each_layer_on_one_scale(units):
    values = [2 * softmax(count, units) - 1 for count in (4, 4, 7)]
    panels = [(tokens(4), {"one": values[0], "two": values[1]}), (tokens(7), {"three": values[2]})]
    figure = unit_maps(panels, title="A title")
    renderer = rendered(figure)
    *drawn, bar = [axes for axes in figure.axes if axes.axison]
    assert [axes.get_title() for axes in drawn] == ["one", "two", "three"]
    for axes, wanted in zip(drawn, values, strict=True):
        [image] = axes.images
        assert np.array_equal(image.get_array(), wanted.T)
        assert image.get_clim() == (-1.0, 1.0)
        assert axes.get_window_extent(renderer).height / figure.dpi * 150 >= units  # pixels of the file
        assert labels(axes.xaxis) == tokens(len(wanted))
        assert labels(axes.yaxis)[0] == "1"
        assert_apart(axes.xaxis, renderer)
        assert_apart(axes.yaxis, renderer)
    assert bar.get_ylabel() == "value"


@pytest.mark.parametrize("count", [1, 8, 144])
def test_bars_are_in_the_order_given_with_a_colour_for_those_below_zero(count):
    values = np.random.default_rng(5).standard_normal(count)
    axes = bars(values, tokens(count), title="A title", xlabel="loss without the head")
    renderer = rendered(axes.figure)
    assert [bar.get_width() for bar in axes.patches] == list(values)
    heights = [bar.get_window_extent(renderer).y0 for bar in axes.patches]
    assert heights == sorted(heights, reverse=True)
    colours = {
        sign: {bar.get_facecolor() for bar in axes.patches if (bar.get_width() < 0) is sign} for sign in (True, False)
    }
    assert not colours[True] & colours[False]
    assert all(len(each) <= 1 for each in colours.values())
    assert labels(axes.yaxis) == tokens(count)
    assert all(label.get_fontsize() >= 12 for label in axes.yaxis.get_ticklabels())
    assert_apart(axes.yaxis, renderer)
    assert axes.get_xlabel() == "loss without the head"


@pytest.mark.parametrize("count", [1, 6, 40])
def test_lines_are_drawn_and_named(count):
    values = softmax(count, 13)
    axes = lines(values, tokens(count), tokens(13), title="A title", ylabel="norm")
    renderer = rendered(axes.figure)
    assert labels(axes.xaxis) == tokens(13)
    assert [list(line.get_ydata()) for line in axes.lines] == values.tolist()
    assert len({tuple(np.atleast_1d(line.get_color())) for line in axes.lines}) == count
    legend = axes.get_legend()
    named = [text.get_text() for text in legend.get_texts()]
    colours = [line.get_color() for line in legend.get_lines()]
    places = [tokens(count).index(each) for each in named]
    assert places == list(range(0, count, max(1, places[1] if len(places) > 1 else 1)))
    assert len(named) == min(count, 20)
    assert all(
        np.array_equal(colour, axes.lines[place].get_color()) for colour, place in zip(colours, places, strict=True)
    )
    assert not overlap(legend.get_window_extent(renderer), axes.get_window_extent(renderer))
    assert axes.get_ylabel() == "norm"
    assert all(float(place).is_integer() for place in axes.get_xticks())


def test_a_table_has_words_in_shaded_cells_which_they_are_cut_to():
    cells = [["a", "Donaudampfschifffahrtsgesellschaft"], ["$b$", "\n"], ["c", "d"]]
    shades = np.array([[0.0, 1.0], [0.25, 0.5], [0.75, 0.125]])
    axes = grid_table(cells, shades, ["layer 0", "layer 1", "layer 2"], ["x", "y"], title="A title")
    many = grid_table([["Straßenbahnhaltestelle"] * 9] * 4, np.zeros((4, 9)), tokens(4), tokens(9), title="A title")
    for each in (axes, many):
        renderer = rendered(each.figure)
        extents = [text.get_window_extent(renderer) for text in each.texts]
        assert not any(overlap(one, other) for one, other in combinations(extents, 2))
    [image] = axes.images
    assert np.array_equal(image.get_array(), shades)
    assert image.get_clim() == (0.0, 1.0)
    assert image.colorbar.ax.get_ylabel() == "probability"
    assert [text.get_text() for text in axes.texts] == ["a", "Donaudampfschifffahrtsg…", "$b$", "\\n", "c", "d"]
    assert [text.get_color() for text in axes.texts[:2]] == ["black", "white"]
    assert (labels(axes.yaxis), labels(axes.xaxis)) == (["layer 0", "layer 1", "layer 2"], ["x", "y"])
    assert all(text.get_text().endswith("…") and text.get_text().startswith("Straß") for text in many.texts)


@pytest.mark.parametrize("name", DRAWN)
def test_somebody_elses_axes_are_drawn_on_and_given_back(name):
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 7), layout="constrained")
    given, other = figure.subplots(1, 2)
    assert DRAWN[name]("A title", axes=given) is given
    assert given.has_data()
    assert not other.has_data()


def test_in_a_small_place_there_are_fewer_labels_and_no_numbers():
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 5), layout="constrained")
    panels = figure.subplots(2, 2).flat
    for axes in panels:
        heat_map(softmax(16, 16), tokens(16), tokens(16), title="A title", axes=axes)
    renderer = rendered(figure)
    for axes in figure.axes[:4]:
        assert not axes.texts
        assert 1 < len(labels(axes.yaxis)) < 16
        assert_apart(axes.yaxis, renderer)


def test_what_cannot_be_seen_is_written_out_and_long_tokens_are_cut():
    rows = ["a\nb", "\t", "\ud800", "x" * 99, ""]
    axes = heat_map(softmax(5, 1), rows, ["y"], title="A title")
    rendered(axes.figure)
    assert labels(axes.yaxis) == ["a\\nb", "\\t", "\\ud800", "x" * 23 + "…", ""]


def test_weights_of_nothing_numbers_that_are_none_and_tensors_are_drawn(tmp_path):
    tensor = torch.tensor(softmax(3, 2), dtype=torch.bfloat16, requires_grad=True)
    for number, drawn in enumerate((np.zeros((3, 2)), np.array([[np.nan, 0.5]]), tensor)):
        axes = heat_map(drawn, tokens(len(drawn)), tokens(2), title="A title")
        save_figure(axes, tmp_path / f"{number}.png")
        weights = drawn.detach().double().numpy() if drawn is tensor else drawn
        assert np.array_equal(axes.images[0].get_array().filled(np.nan), weights, equal_nan=True)
        assert [text.get_text() for text in axes.texts] == [f"{weight:.2f}" for weight in weights.flat]


THREE, FIVE = tokens(3), tokens(5)


@pytest.mark.parametrize(
    ("draw", "said"),
    [
        (lambda **no: heat_map(softmax(3, 5), FIVE, THREE, **no), r"weights are \[3, 5\].* 5 rows and 3 columns"),
        (lambda **no: heat_map(softmax(3, 5)[None], THREE, FIVE, **no), r"weights are \[1, 3, 5\]"),
        (lambda **no: heat_map(np.zeros((0, 0)), [], [], **no), r"weights are \[0, 0\]"),
        (
            lambda **no: head_grid(softmax(2, 3, 5, 7), [], [], layers=[0], heads=[0], **no),
            r"\[2, 3, 5, 7\], but 1 layers",
        ),
        (lambda **no: alignment_matrix(softmax(3, 5), FIVE, THREE, **no), r"weights are \[3, 5\]"),
        (lambda **no: unit_maps([(FIVE, {"one": softmax(3, 2)})], **no), r"states are \[3, 2\], but there are 5 rows"),
        (lambda **no: bars([1.0], tokens(2), xlabel="", **no), r"values are \[1\], but there are 2 labels"),
        (lambda **no: lines([1.0], ["a"], ["b"], ylabel="", **no), r"\[1\], but 1 lines of 1 points need \[1, 1\]"),
        (lambda **no: grid_table([["a"]], softmax(1, 2), ["x"], tokens(2), **no), "cells are not 1 rows of 2"),
    ],
)
def test_sizes_that_do_not_fit_are_one_sentence(draw, said):
    with pytest.raises(ConfigError, match=said):
        draw(title="")


@pytest.mark.parametrize(("name", "begins"), [("a.png", b"\x89PNG"), ("a.svg", b"<?xml"), ("A.PNG", b"\x89PNG")])
@saved_figures
def test_the_ending_chooses_the_format_and_letters_no_font_has_are_no_noise(tmp_path, name, begins, save):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        save(tmp_path / name, "日本 A title")
    assert (tmp_path / name).read_bytes().startswith(begins)
    assert [path.name for path in tmp_path.iterdir()] == [name]


@saved_figures
def test_text_stays_text_a_dollar_a_dollar_and_the_same_picture_the_same_file(tmp_path, save):
    for name in ("a.svg", "b.svg"):
        save(tmp_path / name, "costs $5 or $6")
    written = (tmp_path / "a.svg").read_text(encoding="utf-8")
    assert ">costs $5 or $6<" in written
    assert save not in (SAVED[name] for name in DRAWN) or ">quick1<" in written
    assert (tmp_path / "b.svg").read_text(encoding="utf-8") == written


def test_tokens_with_dollars_begin_no_formula(tmp_path):
    odd = ["$a$", "$", "_b"]
    save_figure(heat_map(softmax(3, 3), odd, odd, title="A title"), tmp_path / "a.svg")
    save_figure(bars([1, 2, 3], odd, title="A title", xlabel="$x$"), tmp_path / "b.svg")
    save_figure(lines(softmax(3, 3), odd, odd, title="A title", ylabel="$y$"), tmp_path / "c.svg")
    save_figure(grid_table([odd], softmax(1, 3), ["r"], odd, title="A title"), tmp_path / "d.svg")
    for path in tmp_path.iterdir():
        written = path.read_text(encoding="utf-8")
        assert all(f">{token}<" in written for token in odd), path


def test_axes_in_a_figure_within_a_figure_are_saved_with_all_of_it(tmp_path):
    from matplotlib.figure import Figure

    figure = Figure()
    first, second = figure.subfigures(1, 2)
    second.suptitle("beside it")
    save_figure(bars([1.0], ["a"], title="A title", xlabel="x", axes=first.subplots()), tmp_path / "a.svg")
    assert ">beside it<" in (tmp_path / "a.svg").read_text(encoding="utf-8")


@saved_figures
def test_other_endings_are_refused_and_so_is_what_cannot_be_written(tmp_path, save):
    (tmp_path / "folder.png").mkdir()
    for name, said in {
        "a.gif": r"^the picture .*a\.gif must end in \.png or \.svg$",
        "nowhere/a.png": r"nowhere/a\.png cannot be written: there is no folder .*nowhere$",
        "folder.png": r"folder\.png is a folder; name a file$",
    }.items():
        with pytest.raises(ConfigError, match=said):
            save(tmp_path / name, "A title")
    assert [path.name for path in tmp_path.iterdir()] == ["folder.png"]


def test_letters_that_no_font_has_are_warned_of_where_they_are_drawn(tmp_path, monkeypatch):
    said = []
    monkeypatch.setattr(drawing, "warn", said.append)
    monkeypatch.setattr(drawing, "FONTS", ())
    odd = bars([1.0, 2.0], ["\N{CUNEIFORM SIGN A}", "a"], title="A title", xlabel="x")
    save_figure(odd, tmp_path / "a.svg")  # which keeps its letters
    save_figure(bars([1.0], ["ä"], title="A title", xlabel="x"), tmp_path / "b.png")
    assert not said
    save_figure(odd, tmp_path / "c.png")
    (sentence,) = said
    assert sentence.startswith("no font here has some of the letters, which are boxes in the picture")


def test_a_heat_map_may_have_no_title_and_says_what_its_colours_mean():
    def written(axes):
        return " ".join(text.get_text() for part in axes.figure.axes for text in (part.yaxis.label, part.title))

    usual = heat_map(softmax(3, 5), tokens(3), tokens(5))
    other = heat_map(softmax(3, 5), tokens(3), tokens(5), label="share")
    assert usual.get_title() == ""
    assert "attention weight" in written(usual)
    assert "share" in written(other)
    assert "attention weight" not in written(other)


def test_a_head_that_was_removed_says_so_in_its_panel():
    weights = softmax(2, 3, 5, 7)
    weights[1, 2] = 0.0
    figure = head_grid(weights, tokens(5), tokens(7), title="A title", layers=[0, 4], heads=[1, 2, 6])
    written = [[text.get_text() for text in panel.texts] for panel in figure.axes[:6]]
    assert [place for place, texts in enumerate(written) if "removed" in texts] == [5]


@every_picture
def test_drawing_leaves_the_settings_of_matplotlib_alone(tmp_path, save):
    import matplotlib

    with matplotlib.rc_context({"font.size": 7, "font.family": ["serif"]}):
        before, filters = dict(matplotlib.rcParams), list(warnings.filters)
        save(tmp_path / "a.png", "A title")
        assert dict(matplotlib.rcParams) == before
        assert warnings.filters == filters
    assert "matplotlib.pyplot" not in sys.modules or not sys.modules["matplotlib.pyplot"].get_fignums()


@every_picture
def test_without_matplotlib_a_sentence_says_what_to_do(monkeypatch, tmp_path, save):
    save(tmp_path / "a.png", "A title")
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtra, match=r"^A picture needs matplotlib, .* pip install 'manyheads\[look\]'$"):
        save(tmp_path / "b.png", "A title")
    assert [path.name for path in tmp_path.iterdir()] == ["a.png"]
