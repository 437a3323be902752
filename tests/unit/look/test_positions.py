import json

import numpy as np
import pytest
import torch

from manyheads.core.errors import ConfigError
from manyheads.look.figures import draw_studies as draw
from manyheads.look.positions import NAMES, Curves, Heat, Note, study, study_of
from manyheads.nn.patches import image_positions
from manyheads.nn.positions import Alibi, Buckets, Learned, Positions, PositionsConfig, Relative, Rotary, Sinusoidal
from manyheads.ops import relative, rotary
from manyheads.ops.rotary import sinusoid

UNTRAINED = [name for name in NAMES if name != "learned"]
SCALED = ("linear", "ntk", "dynamic_ntk", "yarn", "llama3")


def panel(found, name):
    [one] = [each for each in found.panels if getattr(each, "name", None) == name]
    return one


def by_distance(table: np.ndarray) -> dict[int, np.ndarray]:
    return {apart: np.diagonal(table, apart) for apart in range(1 - len(table), len(table))}


# Sinusoidal


@pytest.mark.parametrize(("width", "base"), [(64, 10_000.0), (7, 100.0), (1, 10_000.0)])
def test_wavelengths_of_sinusoidal_positions_are_those_of_the_paper(width, base):
    found = panel(study("sinusoidal", positions=9, width=width, base=base), "wavelengths").values[""]
    wanted = [2 * np.pi * base ** (2 * (dimension // 2) / width) for dimension in range(width)]
    np.testing.assert_allclose(found, wanted, rtol=1e-5)


def test_and_they_are_the_periods_that_the_table_has():
    """Measured where a wave goes through zero upwards, at every second of which a turn is complete."""
    found = study("sinusoidal", positions=4000, width=32)
    table, wavelengths = panel(found, "encoding").values, panel(found, "wavelengths").values[""]
    assert np.array_equal(table, sinusoid(torch.arange(4000), 32).double().numpy())
    for dimension in range(20):  # those that turn more than once in 4,000 positions
        wave = table[:, dimension]
        before = np.flatnonzero((wave[:-1] < 0) & (wave[1:] >= 0))
        crossings = before - wave[before] / (wave[before + 1] - wave[before])
        measured = (crossings[-1] - crossings[0]) / (len(crossings) - 1)
        assert measured == pytest.approx(wavelengths[dimension], rel=0.01)


def test_similarity_of_sinusoidal_positions_is_their_cosine():
    found = study("sinusoidal", positions=20, width=6)
    similarity = panel(found, "similarity").values
    one, other = sinusoid(torch.tensor([3, 11]), 6)
    assert similarity[3, 11] == pytest.approx(torch.nn.functional.cosine_similarity(one, other, dim=0).item(), abs=1e-6)
    np.testing.assert_allclose(np.diag(similarity), 1.0)


# Rotary


@pytest.mark.parametrize("kind", ["rotary", *SCALED])
def test_similarity_of_rotary_positions_depends_on_the_distance_alone(kind):
    similarity = panel(study(kind, positions=40, width=16), "similarity").values
    spread = [values.max() - values.min() for values in by_distance(similarity).values()]
    assert max(spread) < 1e-4
    assert similarity.max() - similarity.min() > 0.1  # and it does depend on that
    learned = study_of(Learned(16, 40), positions=40, width=16)
    spread = [values.max() - values.min() for values in by_distance(panel(learned, "similarity").values).values()]
    assert max(spread) > 0.1  # as that of others does not


def test_rotary_positions_are_drawn_as_cosines_then_sines_with_the_wavelengths_of_their_frequencies():
    found = study("rotary", positions=20, width=6, base=500.0)
    angles = torch.arange(20)[:, None] * rotary.frequencies(6, 500.0)
    expected = torch.cat((angles.cos(), angles.sin()), dim=1).numpy()
    np.testing.assert_allclose(panel(found, "encoding").values, expected, atol=1e-6)
    [lengths] = panel(found, "wavelengths").values.values()
    np.testing.assert_allclose(lengths, 2 * np.pi / rotary.frequencies(6, 500.0).numpy(), rtol=1e-5)


@pytest.mark.parametrize("kind", SCALED)
def test_scaled_wavelengths_stand_beside_the_unscaled_ones(kind):
    curves = panel(study(kind, positions=128, width=16), "wavelengths").values
    unscaled = rotary.frequencies(16)
    np.testing.assert_allclose(curves["unscaled"], 2 * np.pi / unscaled.numpy(), rtol=1e-5)
    scaled = {
        "linear": lambda: rotary.linear(unscaled, 4.0),
        "ntk": lambda: rotary.ntk(unscaled, 4.0),
        "dynamic_ntk": lambda: rotary.dynamic_ntk(unscaled, 4.0, 128, 32),
        "yarn": lambda: rotary.yarn(unscaled, 4.0, 10_000.0, 32)[0],
        "llama3": lambda: rotary.llama3(unscaled, 4.0, 32),
    }
    np.testing.assert_allclose(curves["scaled"], 2 * np.pi / scaled[kind]().numpy(), rtol=1e-5)
    assert curves["scaled"][-1] > 3 * curves["unscaled"][-1]


# Learned


def test_the_strongest_period_of_a_learned_table_is_found():
    module = Learned(3, 48)
    with torch.no_grad():
        waves = [torch.sin(2 * torch.pi * torch.arange(48) / period) + 5 for period in (12, 16, 4)]
        module.table.weight.copy_(torch.stack(waves, dim=1))
    found = study_of(module, positions=20, width=3)
    np.testing.assert_allclose(panel(found, "periods").values[""], [12, 16, 4])  # of all rows, not of those drawn
    assert np.array_equal(panel(found, "encoding").values, module.table.weight[:20].detach().double().numpy())


def test_a_table_too_short_for_periods_says_so():
    found = study_of(Learned(5, 3), positions=20, width=5)
    assert isinstance(found.panels[2], Note)
    assert panel(found, "similarity").values.shape == (3, 3)


# Biases


@pytest.mark.parametrize("bidirectional", [True, False])
def test_the_bias_of_alibi_is_that_of_the_module(bidirectional):
    found = study_of(Alibi(6, bidirectional), positions=9, width=5)
    slopes = relative.alibi_slopes(6)
    wanted = relative.alibi_bias(slopes, relative.distances(9, 9, 0), bidirectional)[0].numpy()
    seen = np.ones((9, 9), bool) if bidirectional else np.tri(9, dtype=bool)
    bias = panel(found, "bias").values
    np.testing.assert_allclose(bias[seen], wanted[seen])
    assert np.isnan(bias[~seen]).all()
    np.testing.assert_allclose(panel(found, "slopes").values[""], slopes.numpy())
    curves = panel(found, "bias_by_distance")
    assert list(curves.values) == [f"head {head}" for head in range(6)]
    assert curves.first == -8
    np.testing.assert_allclose(curves.values["head 3"][:9], -slopes[3].numpy() * np.arange(8, -1, -1))
    arrays = json.loads(json.dumps(found.arrays(), allow_nan=False))
    assert [each is None for each in arrays["bias"][0]] == (~seen[0]).tolist()  # what no query sees


def test_buckets_are_numbered_and_their_bias_is_shown_when_it_is_trained():
    module = Buckets(3, 8, 20, bidirectional=True)
    numbers = relative.t5_buckets(relative.distances(30, 30, 0), 8, 20, True).numpy()
    trained, untrained = (study_of(module, positions=30, width=5, trained=trained) for trained in (True, False))
    for found in (trained, untrained):
        assert np.array_equal(panel(found, "buckets").values, numbers)
    curve = panel(untrained, "buckets_by_distance")
    assert curve.first == -29
    for apart, values in by_distance(numbers).items():
        assert set(values) == {curve.values[""][apart + 29]}
    assert isinstance(untrained.panels[2], Note)
    np.testing.assert_allclose(panel(trained, "bias").values, module.table.weight[numbers, 0].detach().numpy())


def test_relative_vectors_are_shown_when_they_are_trained():
    module = Relative(3, 5, 4)
    found = study_of(module, positions=30, width=15)
    assert panel(found, "vectors").first == (-4, 0)
    assert np.array_equal(panel(found, "vectors").values, module.table_HLD[0].detach().double().numpy())
    assert panel(found, "similarity").values.shape == (9, 9)
    np.testing.assert_allclose(
        panel(found, "norms").values["head 2"], module.table_HLD[2].norm(dim=-1).detach().numpy(), rtol=1e-6
    )
    untrained = study("relative", positions=50, width=5)
    assert np.array_equal(
        panel(untrained, "clipped_distances").values, relative.clipped_distances(50, 50, 0, 16).numpy()
    )


# All


@pytest.mark.parametrize("kind", UNTRAINED)
def test_numbers_are_plain_lists_of_what_is_drawn(kind):
    found = study(kind, positions=9, width=8)
    assert found.name == kind
    arrays = json.loads(json.dumps(found.arrays(), allow_nan=False))
    assert len(arrays) == sum(not isinstance(each, Note) for each in found.panels)
    for each in found.panels:
        if isinstance(each, Heat):
            np.testing.assert_allclose(np.array(arrays[each.name], dtype=float), each.values)
        elif isinstance(each, Curves) and len(each.values) > 1:
            assert list(arrays[each.name]) == list(each.values)


def drawn_panels(figure, count: int) -> list:
    """The axes of the panels, without those of the colour bars."""
    parts = figure.subfigs
    assert len(parts) == count
    return [axes for part in parts for axes in part.axes if axes.get_label() != "<colorbar>"]


def test_a_picture_has_three_panels_for_each_kind_with_what_they_say():
    pytest.importorskip("matplotlib")
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    studies = [study(kind, positions=12, width=8) for kind in UNTRAINED]
    figure = draw(studies)
    panels = drawn_panels(figure, len(studies))
    assert len(panels) == 3 * len(studies)
    assert [part.get_suptitle() for part in figure.subfigs] == [each.title for each in studies]
    for axes, each in zip(panels, (each for one in studies for each in one.panels), strict=True):
        if isinstance(each, Heat):
            [image] = axes.images
            assert np.array_equal(image.get_array(), each.values)
            assert image.colorbar.ax.get_ylabel() == each.label
            assert (axes.get_xlabel(), axes.get_ylabel()) == (each.across, each.down)
        elif isinstance(each, Curves):
            assert [list(line.get_ydata()) for line in axes.lines] == [list(line) for line in each.values.values()]
            assert (axes.get_xlabel(), axes.get_ylabel()) == (each.across, each.up)
            assert axes.get_yscale() == ("log" if each.logarithmic else "linear")
        else:
            assert axes.texts[0].get_text() == each.text
    renderer = FigureCanvasAgg(figure).get_renderer()
    figure.draw(renderer)
    for part in figure.subfigs:
        above = part._suptitle.get_window_extent(renderer)
        boxes = [axes.get_tightbbox(renderer) for axes in part.axes]
        for box in boxes:
            assert box.y1 <= above.y0
            assert box.x0 >= 0
            assert box.x1 <= figure.bbox.x1
            assert box.y0 >= part.bbox.y0


def test_unscaled_wavelengths_are_dashed():
    pytest.importorskip("matplotlib")
    axes = drawn_panels(draw([study("yarn", positions=12, width=8)]), 1)[2]
    assert [(line.get_label(), line.get_linestyle()) for line in axes.lines] == [("scaled", "-"), ("unscaled", "--")]
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["scaled", "unscaled"]


def test_one_number_far_from_all_others_leaves_them_their_colours():
    pytest.importorskip("matplotlib")
    module = Learned(16, 40)
    with torch.no_grad():
        module.table.weight[7, 3] = 50.0
    axes = drawn_panels(draw([study_of(module, positions=40, width=16)]), 1)[0]
    assert axes.images[0].get_clim()[1] < 0.2
    assert axes.images[0].colorbar.extend == "both"


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (lambda: study("rotery"), f"no positions are called 'rotery'; choose from {', '.join(NAMES)}"),
        (lambda: study("none"), "positions none tell a model nothing"),
        (lambda: study("learned"), "learned positions .* give a trained model"),
        (lambda: study("rotary", width=7), "head width 7 is odd"),
        (lambda: study("relative", width=0), "width is 0, and the least it can be is 1"),
        (lambda: study("alibi", heads=0), "heads is 0, and the least it can be is 1"),
        (lambda: study("alibi", positions=1), "1 positions cannot be drawn; choose from 2 to 4096"),
        (lambda: study_of(Sinusoidal(6), positions=4097, width=6), "4097 positions cannot be drawn"),
        (lambda: study_of(Positions(), positions=5, width=6), "positions none tell a model nothing"),
    ],
)
def test_what_cannot_be_is_one_sentence(ask, said):
    with pytest.raises(ConfigError, match=said):
        ask()


def test_sines_in_two_directions_are_shown_as_they_are_added():
    module = image_positions(PositionsConfig(kind="sinusoidal"), 8, 3)
    found = study_of(module, positions=20, width=8)
    assert found.title.startswith("sinusoidal in two directions")
    added = module.add(torch.zeros(1, 10, 8), 0)[0]
    np.testing.assert_allclose(found.panels[0].values, added, atol=1e-6)
    assert not added[0].any()
    assert len({tuple(row) for row in added.tolist()}) == 10
    other = image_positions(PositionsConfig(kind="sinusoidal", base=10.0), 8, 3)
    assert not torch.allclose(other.add(torch.zeros(1, 10, 8), 0)[0], added)


def test_a_scaling_in_use_says_how_far_it_stretches():
    module = Rotary(8, scaling="linear", factor=2.5, original_length=2048)
    assert study_of(module, positions=5, width=8).title == (
        "rotary, scaled by linear: 2.5 times the 2,048 positions trained on"
    )
