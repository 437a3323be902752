"""Words as points in the plane."""

import numpy as np
import pytest

from manyheads.look.map import draw_map, plane


def test_points_in_a_plane_keep_their_distances_wherever_that_lies():
    source = np.random.default_rng(4)
    flat = source.normal(size=(6, 2))
    turned, _ = np.linalg.qr(source.normal(size=(9, 9)))
    points, share = plane((flat @ turned[:2] + 3.0).astype(np.float32))
    assert share == pytest.approx(1.0)
    apart = [np.linalg.norm(each[:, None] - each[None], axis=2) for each in (flat, points)]
    np.testing.assert_allclose(*apart, atol=1e-5)
    again, less = plane(source.normal(size=(20, 9)))
    assert again.shape == (20, 2)
    assert 0.2 < less < 0.8


def test_the_same_vectors_give_the_same_map_and_equal_ones_a_point():
    vectors = np.random.default_rng(1).normal(size=(5, 4))
    assert (plane(vectors)[0][0] > 0).all()
    points, share = plane(np.ones((4, 3)))
    np.testing.assert_allclose(points, 0.0, atol=1e-9)
    assert share == 0.0


def test_every_word_is_drawn_where_it_is():
    pytest.importorskip("matplotlib", reason="matplotlib is not installed: pip install 'manyheads[look]'")
    points = np.array([[0.0, 1.0], [2.0, -1.0], [1.0, 0.5]])
    axes = draw_map(["cat", "$dog$", "cow"], points, 0.5, "a map").axes[0]
    assert [text.get_text() for text in axes.texts] == ["cat", "$dog$", "cow"]
    np.testing.assert_allclose([text.xy for text in axes.texts], points)
    assert "50 %" in axes.get_xlabel()
