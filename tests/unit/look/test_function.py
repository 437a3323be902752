from io import BytesIO

import numpy as np
import pytest

from manyheads.labs.image_function import PHOTO
from manyheads.look.drawing import COLOURS
from manyheads.look.function import PANEL, Learned, animated, compared

pytest.importorskip("matplotlib", reason="matplotlib is not installed: pip install 'manyheads[look]'")
Image = pytest.importorskip("PIL.Image", reason="pillow is not installed: pip install 'manyheads[images]'")
ImageColor = pytest.importorskip("PIL.ImageColor", reason="pillow is not installed: pip install 'manyheads[images]'")


def grey(shade: int, side: int = 5) -> np.ndarray:
    return np.full((side, side, 3), shade, dtype=np.uint8)


LEARNED = [
    Learned("plain", "2 numbers", grey(90), [0.0, 0.5, 1.0], [5.0, 6.0, 7.25]),
    Learned("waves", "9 numbers", grey(120), [0.0, 0.7, 1.4], [5.0, 16.0, 27.5]),
]


def test_pictures_names_decibels_and_both_curves_are_drawn(tmp_path, monkeypatch):
    from matplotlib.figure import Figure

    figures, save = [], Figure.savefig
    monkeypatch.setattr(Figure, "savefig", lambda figure, *a, **k: (figures.append(figure), save(figure, *a, **k)))
    compared(grey(100), LEARNED, tmp_path / "a.png", title="costs $2 and $3")
    with Image.open(tmp_path / "a.png") as picture:
        assert picture.format == "PNG"
    *panels, by_step, by_second = figures[0].axes
    assert [panel.get_title() for panel in panels] == ["the picture", "plain", "waves"]
    assert [panel.get_xlabel().split("\n")[0] for panel in panels] == ["5 × 5 pixels", "7.2 dB", "27.5 dB"]
    assert [int(panel.images[0].get_array()[0, 0, 0]) for panel in panels] == [100, 90, 120]
    assert [line.get_xydata().tolist() for line in by_step.lines] == [
        [[0, 5], [1, 6], [2, 7.25]],
        [[0, 5], [1, 16], [2, 27.5]],
    ]
    assert by_second.lines[1].get_xdata().tolist() == [0, 0.7, 1.4]
    assert by_step.lines[0].get_color() == by_second.lines[0].get_color() != by_step.lines[1].get_color()


@pytest.mark.parametrize("ending", [".webp", ".gif"])
def test_each_frame_of_an_animation_shows_what_was_drawn_by_then(ending):
    frames = [(0, [grey(0), grey(10)]), (2, [grey(200), grey(250)])]
    with Image.open(BytesIO(animated(grey(100), frames, LEARNED, ending))) as film:
        assert (film.format, film.n_frames) == (ending[1:].upper(), 2)
        seen = []
        for number in range(2):
            film.seek(number)
            pixels = np.asarray(film.convert("RGB")).astype(int)
            third = pixels.shape[1] // 3
            seen.append([pixels[-40, place * third + third // 2, 0] for place in range(3)])
    assert np.abs(np.array(seen) - [[100, 0, 10], [100, 200, 250]]).max() < 6


@pytest.mark.parametrize("ending", [".webp", ".gif"])
def test_names_in_an_animation_keep_their_colours_beside_a_picture_of_many(ending):
    with Image.open(PHOTO) as photo:
        cat = np.asarray(photo.convert("RGB").resize((96, 96)))
    learned = [*LEARNED, Learned("more", "128 numbers", cat, [0.0, 0.7, 1.4], [6.0, 20.0, 35.0])]
    with Image.open(BytesIO(animated(cat, [(0, [cat] * 3), (2, [cat] * 3)], learned, ending))) as film:
        film.seek(film.n_frames - 1)
        above = np.asarray(film.convert("RGB")).astype(int)[:40]
    fourth = above.shape[1] // 4
    for place, colour in enumerate(COLOURS[:3], start=1):
        there = above[:, place * fourth : (place + 1) * fourth].reshape(-1, 3)
        assert np.abs(there - np.array(ImageColor.getrgb(colour))).sum(axis=1).min() < 60, colour


@pytest.mark.parametrize(("side", "panel"), [(2, PANEL), (100, 200), (PANEL, PANEL), (1000, PANEL)])
def test_panels_are_about_as_large_whatever_the_picture(side, panel):
    frames = [(1, [grey(90, side), grey(90, side)])]
    with Image.open(BytesIO(animated(grey(90, side), frames, LEARNED, ".webp"))) as film:
        assert 3 * panel < film.width < 3 * panel + 60
        assert panel < film.height < panel + 100
