"""What a model that sees looked at, laid over its image."""

import json
import re
from base64 import b64decode
from dataclasses import replace
from io import BytesIO

import numpy as np
import pytest
import torch
from helpers import randomised, translation_tokenizer

from manyheads.core.errors import ConfigError, DataError
from manyheads.data.image_text import ImageTextProcessor
from manyheads.data.images import ImageProcessor
from manyheads.look.drawing import save_figure
from manyheads.look.overlay import MOST, image_overlays, numbered
from manyheads.look.page import build_page
from manyheads.look.rollout import cross_rollout, rollout
from manyheads.models.vision_encoder_decoder import (
    VisionEncoderDecoder,
    VisionEncoderDecoderConfig,
    VisionQuestionDecoder,
)
from manyheads.models.vit import ViT, ViTClassifier, ViTConfig
from manyheads.tasks.ask.use import ImageAnswerer
from manyheads.tasks.caption.use import Captioner
from manyheads.tasks.images.use import ImageClassifier
from manyheads.tasks.inside.forward import Picture
from manyheads.tasks.inside.look import Inside, look_inside, picture
from tests.unit.tasks.tiny import ready

pytest.importorskip("matplotlib")
Image = pytest.importorskip("PIL.Image", reason="pillow is not installed: pip install 'manyheads[images]'")

GRID, SIDE = 3, 12
SIZES = {"image_size": SIDE, "patch_size": 4, "width": 12, "layers": 2, "heads": 3, "inner": 14}
PIXELS = np.random.default_rng(5).integers(0, 256, (SIDE, SIDE, 3), dtype=np.uint8)
CAPTION, QUESTION = "the cat danced the cat", "the dog sleeps"


def panels_of(figure) -> dict[str, np.ndarray]:
    """The image of each panel that has one, by its title."""
    return {axes.get_title(): np.asarray(axes.images[0].get_array()) for axes in figure.axes if axes.images}


def frames(figure) -> dict[str, tuple[float, float, float, float]]:
    """Left, top, width and height of the frame in each panel that has one, in pixels of the image."""
    found = {axes.get_title(): axes.patches for axes in figure.axes if axes.patches}
    return {name: (*each[0].get_xy(), each[0].get_width(), each[0].get_height()) for name, each in found.items()}


def by_patches(pixels: np.ndarray, grid: int = GRID) -> np.ndarray:
    """The mean of each patch."""
    step = len(pixels) // grid
    return pixels.reshape(grid, step, grid, step, -1).mean(axis=(1, 3, 4))


# Of any weights


def test_the_image_comes_first_and_then_a_panel_for_each_weights():
    weights = np.random.default_rng(1).random((8, 9))
    for count in (1, 2, 5, 6, 7, 8):
        figure = image_overlays(PIXELS, GRID, {f"head {each}": weights[each] for each in range(count)}, title="All")
        found = panels_of(figure)
        assert [*found] == ["image", *(f"head {each}" for each in range(count))]
        np.testing.assert_allclose(found["image"], PIXELS / 255, atol=1e-6)
        assert all(each.shape == (SIDE, SIDE, 3) for each in found.values())
        assert not any(axes.axison for axes in figure.axes)
    assert figure.get_suptitle() == "All"


@pytest.mark.parametrize("place", [0, 2, 4, 5, 7, 8])
def test_the_brightest_patch_is_that_of_the_largest_weight(place):
    weights = np.full(9, 0.02)
    weights[place], weights[(place + 4) % 9] = 0.6, 0.15
    grey = np.full((SIDE, SIDE, 3), 128, np.uint8)
    bright = by_patches(panels_of(image_overlays(grey, GRID, {"it": weights}, title="x"))["it"]).flatten()
    assert bright.argsort()[::-1][:2].tolist() == [place, (place + 4) % 9]
    assert np.ptp(np.delete(bright, [place, (place + 4) % 9])) < 1e-6


def test_each_panel_is_as_bright_as_its_own_brightest_patch():
    weights = np.random.default_rng(1).random(9)
    found = panels_of(image_overlays(PIXELS, GRID, {"much": weights, "little": weights / 50}, title="x"))
    np.testing.assert_allclose(found["much"], found["little"], atol=1e-5)
    other = panels_of(image_overlays(PIXELS, GRID, {"it": weights[::-1].copy()}, title="x"))["it"]
    assert not np.allclose(found["much"], other, atol=0.05)
    nothing = panels_of(image_overlays(PIXELS, GRID, {"it": np.zeros(9)}, title="x"))["it"]
    assert np.isfinite(nothing).all()


def test_the_image_can_be_seen_behind_the_weights():
    halves = np.zeros((SIDE, SIDE, 3), np.uint8)
    halves[:, ::2] = 255
    found = panels_of(image_overlays(halves, GRID, {"it": np.arange(9.0)}, title="x"))["it"]
    for row in found:
        assert (np.abs(np.diff(row.mean(axis=1))) > 0.05).all()  # of the brightest patch too


def test_weights_of_tokens_before_the_patches_are_nowhere_on_the_image():
    weights = np.random.default_rng(1).random(9)
    before = np.array([9.0, 0.0, 5.0])
    plain, more = (
        panels_of(image_overlays(PIXELS, GRID, {"it": each}, title="x"))["it"]
        for each in (weights, np.concatenate([before, weights]))
    )
    np.testing.assert_array_equal(plain, more)


@pytest.mark.parametrize("pointed", [0, 1, 5, 8])
@pytest.mark.parametrize("count", [2, 12])
def test_the_patch_that_looks_is_framed_in_every_panel(pointed, count):
    panels = {f"head {each}": np.arange(9.0) for each in range(count)}
    figure = image_overlays(PIXELS, GRID, panels, title="x", pointed=pointed)
    place = (4 * (pointed % 3) - 0.5, 4 * (pointed // 3) - 0.5, 4.0, 4.0)
    assert frames(figure) == dict.fromkeys(["image", *panels], place)
    assert frames(image_overlays(PIXELS, GRID, panels, title="x")) == {}


def test_the_heads_of_a_layer_stand_in_a_row():
    panels = {f"layer {layer} head {head}": np.arange(9.0) for layer in range(2) for head in range(3)}
    figure = image_overlays(PIXELS, GRID, panels, title="x", across=3)
    spots = {axes.get_title(): axes.get_subplotspec() for axes in figure.axes if axes.images}
    rows = {name: (spot.rowspan.start, spot.colspan.start) for name, spot in spots.items()}
    assert rows == {"image": (0, 0)} | {
        f"layer {layer} head {head}": (1 + layer, head) for layer in range(2) for head in range(3)
    }


def test_more_panels_than_a_figure_holds_are_refused():
    weights = np.arange(9.0)
    with pytest.raises(ConfigError, match=f"{MOST + 1} panels do not fit a figure, which holds {MOST}; name a layer"):
        image_overlays(PIXELS, GRID, {str(each): weights for each in range(MOST + 1)}, title="x")


def test_words_that_come_again_are_numbered():
    assert numbered(["a", "cat", "a", "a"]) == ["a", "cat", "a (2)", "a (3)"]
    assert numbered(["a (2)", "a", "a"]) == ["a (2)", "a", "a (3)"]


def test_odd_names_and_a_long_title_are_drawn(tmp_path):
    names = ["$x_1$", "日本", "a" * 90, "", "␣", "</s>"]
    figure = image_overlays(PIXELS, GRID, dict.fromkeys(names, np.arange(9.0)), title="a long title of $it$ " * 12)
    save_figure(figure, tmp_path / "a.svg")
    written = (tmp_path / "a.svg").read_text()
    assert "$x_1$" in written
    assert "日本" in written
    assert "a" * 40 not in written


# Of models


@pytest.fixture(scope="module")
def photo(tmp_path_factory):
    path = tmp_path_factory.mktemp("photo") / "photo.png"
    Image.fromarray(PIXELS).save(path)
    return path


def classifier(**changes) -> ImageClassifier:
    torch.manual_seed(8)
    model = ViTClassifier(ViT(ViTConfig(**{**SIZES, **changes})), ("ant", "bee"))
    return ImageClassifier(randomised(model), ImageProcessor.of(SIDE, changes.get("channels", 3)))  # type: ignore


def writer(kind=Captioner, network=VisionEncoderDecoder):
    tokenizer = translation_tokenizer()
    ids = {"vocabulary": len(tokenizer), "pad": tokenizer.pad, "start": tokenizer.start, "end": tokenizer.end}
    torch.manual_seed(8)
    model = randomised(network(VisionEncoderDecoderConfig(**SIZES, **ids, decoder_layers=3)))
    return kind(model, ImageTextProcessor(ImageProcessor.of(SIDE, 3), tokenizer))


@pytest.fixture(scope="module")
def seen(photo) -> Inside:
    """A classifier that looked."""
    return look_inside(classifier(), photo)


@pytest.fixture(scope="module")
def said(photo) -> Inside:
    """A captioner that looked, and a caption in which words come again."""
    return look_inside(writer(), photo, CAPTION)


def assert_shows(panel: np.ndarray, weights: np.ndarray, pixels=PIXELS) -> None:
    """A panel shows these weights, of which those of the patches come last, and no others."""
    expected = panels_of(image_overlays(pixels, GRID, {"it": weights}, title="x"))["it"]
    np.testing.assert_allclose(panel, expected, atol=1e-6)


def test_tokens_are_the_classification_token_and_patches_by_row_and_column(seen):
    (view,) = seen.views
    assert view.rows == view.columns == ["[CLS]", *(f"{row},{column}" for row in range(3) for column in range(3))]
    assert view.weights.shape == (2, 3, 10, 10)
    np.testing.assert_allclose(view.weights.sum(axis=-1), 1, atol=1e-5)
    assert seen.picture is not None
    np.testing.assert_array_equal(seen.picture.pixels, PIXELS)


def test_the_classification_token_looks_unless_a_patch_is_named(seen):
    weights = seen.views[0].weights
    figure = picture(seen)
    found = panels_of(figure)
    assert [*found] == ["image", "mean", "head 0", "head 1", "head 2"]
    for head in range(3):
        assert_shows(found[f"head {head}"], weights[-1, head, 0])
    assert_shows(found["mean"], weights[-1].mean(axis=0)[0])
    assert frames(figure) == {}
    assert figure.get_suptitle().replace("\n", " ").endswith("from the classification token")


@pytest.mark.parametrize(("patch", "token"), [("1,2", 6), (" 2, 0 ", 7), ("0,0", 1)])
def test_a_patch_that_is_named_is_the_row_that_looks(seen, patch, token):
    weights = seen.views[0].weights
    figure = picture(seen, patch=patch)
    found = panels_of(figure)
    assert_shows(found["head 1"], weights[-1, 1, token])
    assert_shows(found["mean"], weights[-1].mean(axis=0)[token])
    row, column = divmod(token - 1, 3)
    assert frames(figure) == dict.fromkeys(found, (4 * column - 0.5, 4 * row - 0.5, 4.0, 4.0))
    assert " ".join(figure.get_suptitle().split()).endswith(f"from patch {patch.strip()}")
    assert not np.allclose(weights[-1, 1, token], weights[-1, 1, 0], atol=1e-3)


@pytest.mark.parametrize("patch", ["3,0", "0,3", "-1,0", "1", "1,", ",", "a,b", "1,2,3", "", "1.0,2", "²,1"])
def test_a_patch_that_is_nowhere_is_refused_in_a_sentence(seen, patch):
    said = f"there is no patch {patch}; write its row and its column, from 0,0 to 2,2"
    with pytest.raises(ConfigError, match=re.escape(said)):
        picture(seen, patch=patch)


def test_all_heads_and_the_rollout_are_drawn_by_layer(seen):
    weights = seen.views[0].weights
    found = panels_of(picture(seen, "heads", patch="2,1"))
    assert [*found] == ["image", *(f"layer {layer} head {head}" for layer in range(2) for head in range(3))]
    for layer in range(2):
        for head in range(3):
            assert_shows(found[f"layer {layer} head {head}"], weights[layer, head, 8])
    found = panels_of(picture(seen, "rollout"))
    assert [*found] == ["image", "up to layer 0", "up to layer 1"]
    rolled = rollout(weights)
    for layer in range(2):
        assert_shows(found[f"up to layer {layer}"], rolled[layer, 0])
    assert not np.allclose(rolled[1, 0, 1:], weights[1].mean(axis=0)[0, 1:], atol=1e-3)


def test_one_layer_and_one_head_alone(photo):
    whole = look_inside(classifier(), photo)
    one = look_inside(classifier(), photo, layer=0, head=2)
    found = panels_of(picture(one, patch="0,1"))
    assert [*found] == ["image", "head 2"]
    assert_shows(found["head 2"], whole.views[0].weights[0, 2, 2])
    assert [*panels_of(picture(one, "heads"))] == ["image", "layer 0 head 2"]
    with pytest.raises(ConfigError, match="a rollout goes through all layers and heads"):
        picture(one, "rollout")


def test_a_grey_picture_is_shown_grey():
    inside = look_inside(classifier(channels=1), PIXELS)
    shown = panels_of(picture(inside))["image"]
    assert shown.shape == (SIDE, SIDE, 3)
    assert np.ptp(shown, axis=2).max() == 0
    assert np.ptp(shown) > 0.1


def test_only_an_image_has_patches():
    with pytest.raises(ConfigError, match="only an image has patches to look from; leave the patch away"):
        picture(look_inside(ready("gpt"), "a cat"), patch="0,0")


def test_each_word_that_was_written_has_a_panel_of_what_it_looked_at(said):
    view = said.view("cross")
    assert said.views[0] is view  # what is most asked for
    tokenizer = translation_tokenizer()
    pieces = numbered([piece if piece.strip() else "␣" for piece in tokenizer.pieces(tokenizer.encode([CAPTION])[0])])
    found = panels_of(picture(said))
    assert len(found) == 1 + len(pieces) == 1 + len(view.rows)
    assert any(name.endswith("(2)") for name in found)
    for place, panel in enumerate([*found.values()][1:]):
        assert_shows(panel, view.weights[-1].mean(axis=0)[place])
    assert frames(picture(said)) == {}
    rolled = cross_rollout(view.weights, said.view("encoder").weights)
    panels = [*panels_of(picture(said, "rollout")).values()][1:]
    for place, panel in enumerate(panels):
        assert_shows(panel, rolled[-1, place])


def test_without_a_caption_that_is_given_the_one_that_is_written_looks(photo):
    captioner = writer()
    (caption,) = captioner([photo])
    inside = look_inside(captioner, photo)
    assert inside.text.replace("\n", " ") == f"{photo} → {caption}"
    given = look_inside(captioner, photo, CAPTION)
    assert given.text == f"{photo} → {CAPTION}"
    assert given.view("cross").rows != inside.view("cross").rows


def test_the_encoder_of_a_captioner_looks_as_a_vit_does(said):
    view = said.view("encoder")
    assert view.rows[0] == "[CLS]"
    found = panels_of(picture(said, kind="encoder", patch="1,0"))
    assert_shows(found["head 2"], view.weights[-1, 2, 4])
    with pytest.raises(
        ConfigError, match="words look at the patches here; a patch that looks goes with --attention enc"
    ):
        picture(said, patch="1,0")
    with pytest.raises(
        ConfigError, match="the heads of a cross-attention are on the page; name one with --layer and --"
    ):
        picture(said, "heads")


def test_no_patch_looks_where_nothing_lies_over_the_image(said, seen):
    for inside, show, kind in ((said, "attention", "decoder"), (seen, "norms", None)):
        with pytest.raises(ConfigError, match="no patch of the image looks here; leave the patch away"):
            picture(inside, show, kind, patch="0,0")


def test_a_head_that_was_taken_out_says_so(photo):
    model = classifier()
    model.model.body.blocks[1].attention.remove([1])
    names = [*panels_of(picture(look_inside(model, photo)))]
    assert "head 1: removed" in names
    assert "head 0" in names
    assert "layer 1 head 1: removed" in panels_of(picture(look_inside(model, photo), "heads"))


def test_words_that_look_at_words_have_no_image_under_them(said):
    axes = picture(said, kind="decoder")
    np.testing.assert_allclose(axes.images[0].get_array(), said.view("decoder").weights[-1].mean(axis=0))


@pytest.fixture(scope="module")
def asked(photo) -> Inside:
    """A model that answers, whose encoder reads a question before the patches."""
    return look_inside(writer(ImageAnswerer, VisionQuestionDecoder), photo, QUESTION)


def test_patches_stand_behind_the_words_of_a_question(asked):
    view, words = asked.view("encoder"), len(translation_tokenizer().encode([QUESTION])[0])
    assert view.rows[words : words + 2] == ["[CLS]", "0,0"]
    assert len(view.rows) == words + 10
    weights = view.weights[-1]
    assert_shows(panels_of(picture(asked, kind="encoder", patch="1,2"))["head 1"], weights[1, words + 6])
    found = panels_of(picture(asked, kind="encoder"))  # from the classification token, as its title says
    assert_shows(found["head 1"], weights[1, words])
    assert not np.allclose(weights[1, words], weights[1, 0], atol=1e-3)


def test_an_answer_looks_at_the_patches(asked):
    view = asked.view("cross")
    for place, panel in enumerate([*panels_of(picture(asked)).values()][1:]):
        assert_shows(panel, view.weights[-1].mean(axis=0)[place])


def test_what_goes_with_an_image_and_what_does_not(photo, tmp_path):
    with pytest.raises(ConfigError, match="this model looks at one image; leave the second away"):
        look_inside(classifier(), photo, "a text")
    with pytest.raises(DataError, match="this model answers a question about an image; give one behind it"):
        look_inside(writer(ImageAnswerer, VisionQuestionDecoder), photo)
    with pytest.raises(DataError, match="the text is empty"):
        look_inside(writer(), photo, "  ")
    with pytest.raises(ConfigError, match="only a language model goes on from a text"):
        look_inside(writer(), photo, tokens=3)
    with pytest.raises(DataError, match=r"'the cat the cat .* has \d+ tokens, but the model reads 64; shorten it"):
        look_inside(writer(), photo, "the cat " * 40)
    with pytest.raises(DataError, match=r"gone\.png is not there"):
        look_inside(classifier(), tmp_path / "gone.png")
    with pytest.raises(ConfigError, match="there is no layer 2"):
        look_inside(classifier(), photo, layer=2)


def test_a_patch_is_told_by_its_row_and_column():
    seen = Picture(PIXELS, 3)
    assert [seen.token_of(each) for each in (None, "0,0", "0,2", "2,0", "2,2")] == [0, 1, 3, 7, 9]
    assert [seen.tokens[seen.token_of(each)] for each in ("0,2", "1,1")] == ["0,2", "1,1"]


# The page


def page_data(inside: Inside) -> dict:
    """What the scripts of a page read."""
    found = re.search(r'<script type="application/json"[^>]*>(.*?)</script>', inside.page().html, re.DOTALL)
    assert found is not None
    return json.loads(found[1])


@pytest.mark.parametrize("name", ["seen", "said", "asked"])
def test_the_page_holds_the_image_and_its_patches(request, name):
    inside = request.getfixturevalue(name)
    data = page_data(inside)
    found = data["picture"]
    assert (found["rows"], found["columns"], found["special"]) == (3, 3, len(inside.views[0].columns) - 9)
    assert found["source"].startswith("data:image/png;base64,")
    assert_same_picture(found["source"])
    views = {each["kind"]: (each["rowsArePatches"], each["columnsArePatches"]) for each in data["views"]}
    if name == "seen":
        assert views == {"self": (True, True), "self rollout": (True, True)}
    else:
        assert views["cross"] == views["cross rollout"] == (False, True)
        assert views["encoder"] == (True, True)
        assert views["decoder"] == (False, False)


def test_words_are_no_patches_though_there_are_as_many(photo):
    words = look_inside(writer(), photo, CAPTION).view("decoder")
    over = replace(words, kind="cross", columns=[f"patch {number}" for number in range(len(words.rows))])
    page = build_page([over, words], image=PIXELS, patches=(1, len(words.rows) - 1), title="x")
    found = re.search(r'<script type="application/json"[^>]*>(.*?)</script>', page.html, re.DOTALL)
    assert found is not None
    views = json.loads(found[1])["views"]
    assert [each["columnsArePatches"] for each in views] == [True, False]


def assert_same_picture(source: str) -> None:
    with Image.open(BytesIO(b64decode(source.partition(",")[2]))) as image:
        shown = np.asarray(image.convert("RGB"))
    np.testing.assert_array_equal(shown[:: len(shown) // SIDE, :: len(shown) // SIDE], PIXELS)


def test_a_page_of_a_text_has_no_image():
    assert page_data(look_inside(ready("gpt"), "a cat"))["picture"] is None
