"""The page: what it is packed from comes back, what a user gives stays text, and it stays small."""

import base64
import json
import re
import zlib
from html import unescape

import numpy as np
import pytest
import torch

from manyheads.core.errors import ConfigError
from manyheads.look import page as module
from manyheads.look.page import attention_page, build_page, encoded
from manyheads.look.views import View


def random_weights(*shape, seed=7):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).softmax(-1).numpy()


def block(html, name):
    found = re.search(rf'id="{name}">([^<]*)</script>', html)
    assert found, f"no block {name}"
    return zlib.decompress(base64.b64decode(found[1]))


def data_of(html):
    found = re.search(r'id="page-data">([^<]*)</script>', html)
    assert found
    return json.loads(found[1])


def test_a_small_page_holds_the_weights_exactly():
    weights = random_weights(2, 3, 5, 7)
    html = build_page([View("cross", weights, list("abcde"), list("tuvwxyz"))], title="t").html
    assert data_of(html)["levels"] is None
    for layer in range(2):
        np.testing.assert_array_equal(
            np.frombuffer(block(html, f"weights-0-{layer}"), "<f4").reshape(3, 5, 7), weights[layer]
        )
    assert "weights-0-2" not in html
    assert "holds the weights exactly" in html


def test_weights_a_little_outside_are_clipped():
    weights = np.float32([[[[1.0005, -0.0005], [0.25, 0.75]]]])
    html = attention_page(weights, ["a", "b"]).html
    assert np.frombuffer(block(html, "weights-0-0"), "<f4").tolist() == [1, 0, 0.25, 0.75]
    assert list(block(html, "thumbnails")) == [255, 0, 128, 221]


def test_a_large_page_holds_them_to_the_precision_it_states():
    weights = random_weights(2, 3, 201, 203)
    html = build_page([View("cross", weights, ["a"] * 201, ["b"] * 203)], title="t").html
    assert data_of(html)["levels"] == 255
    codes = np.frombuffer(block(html, "weights-0-1"), np.uint8).reshape(3, 201, 203)
    shown = (codes / 255.0) ** 2
    assert (abs(shown - weights[1]) <= np.sqrt(weights[1]) / 255 + 1 / 255**2).all()
    assert abs(shown - weights[1]).max() > 0  # and the test can tell
    assert "255 steps" in html


@pytest.mark.parametrize("levels", [255, 127, 63])
def test_steps_keep_nothing_and_all(levels):
    codes = np.frombuffer(encoded(np.array([0.0, 1.0, 1.0004, -0.0004]), levels), np.uint8)
    assert codes.tolist() == [0, levels, levels, 0]


def test_steps_are_halved_until_the_page_fits(monkeypatch):
    weights = random_weights(2, 3, 201, 203)
    view = View("cross", weights, ["a"] * 201, ["b"] * 203)
    sizes = {}
    for room in (10_000_000, 1_200_000, 1_010_000):
        monkeypatch.setattr(module, "LARGEST_PAGE", room)
        page = build_page([view], title="t")
        sizes[data_of(page.html)["levels"]] = len(page.html)
    assert list(sizes) == [255, 127, 63]
    assert sizes[255] > sizes[127] > sizes[63]


def test_a_thumbnail_keeps_the_strongest_weight_of_each_tile():
    weights = np.zeros((2, 1, 100, 5), np.float32)
    weights[1, 0, 99, 3] = 1
    html = build_page([View("self", weights, ["a"] * 100, ["b"] * 5)], title="t").html
    small = np.frombuffer(block(html, "thumbnails"), np.uint8).reshape(2, 1, 32, 5)
    assert small[1, 0, 31, 3] == 255
    assert (small > 0).sum() == 1


def test_what_a_user_gives_stays_text():
    tokens = ["</script><script>alert(1)</script>", "<!--", "\ud83d", "{{weights}}"]
    page = attention_page(random_weights(1, 1, 4, 4), tokens, title="<b>{{style}}</b> & \ud83d")
    assert data_of(page.html)["views"][0]["rows"] == tokens
    assert "alert(1)</script>" not in page.html
    assert "<b>" not in page.html
    assert '<h1 dir="auto">&lt;b&gt;{{style}}&lt;/b&gt; &amp; &#55357;</h1>' in page.html
    page.html.encode("utf-8")


def test_nothing_is_fetched():
    html = build_page([View("self", random_weights(1, 1, 2, 2), ["a", "b"], ["a", "b"])], title="t").html
    modules = [base64.b64decode(text).decode() for text in re.findall(r"data:text/javascript;base64,([\w+/=]+)", html)]
    assert len(modules) > 5
    for text in (html, *modules):
        assert not re.search(r"https?:|//cdn|src=\"(?!data:)|\bfetch\(|innerHTML", text)
    assert "default-src 'none'" in html


def test_what_views_and_sections_say_of_themselves_is_kept_in_their_order():
    weights = random_weights(2, 3, 4, 5)
    weights[1, 2] = 0  # a head that was removed
    one = View("cross", weights, list("abcd"), list("vwxyz"), layers=[3, 5], heads=[0, 2, 7])
    two = View("self rollout", random_weights(1, 1, 4, 4), list("abcd"), list("abcd"), title="all layers as one")
    html = build_page([one, two], title="t", sections=[("A & B", "<table id='mine'></table>")]).html
    assert "<table id='mine'></table>" in html
    data = data_of(html)
    assert data["sections"] == ["A & B"]
    first, second = data["views"]
    assert (first["layers"], first["heads"], first["title"]) == ([3, 5], [0, 2, 7], "cross-attention")
    assert (second["kind"], second["title"]) == ("self rollout", "all layers as one")
    assert (first["removed"], first["rollout"]) == ([[1, 2]], False)
    assert (second["removed"], second["rollout"]) == ([], True)


def test_attention_of_transformers_is_a_tuple_of_layers_with_a_batch():
    layers = tuple(torch.randn(2, 3, 5, 5).softmax(-1) for _ in range(4))
    html = attention_page(layers, list("abcde"), row=1).html
    shown = np.frombuffer(block(html, "weights-0-3"), "<f4").reshape(3, 5, 5)
    np.testing.assert_array_equal(shown, layers[3][1].numpy())


@pytest.mark.parametrize(
    ("weights", "said"),
    [
        (np.full((1, 1, 2, 2), 3.5), "go from 3.5 to 3.5"),
        (np.full((1, 1, 2, 2), np.nan), "go from nan to nan"),
        (np.zeros((1, 0, 2, 2)), "leaves nothing to show"),
    ],
)
def test_what_is_no_weight_is_refused(weights, said):
    with pytest.raises(ConfigError, match=said):
        attention_page(weights, ["a", "b"])


def test_no_views_and_no_tokens_are_refused():
    with pytest.raises(ConfigError, match="no attention"):
        build_page([], title="t")
    image = np.zeros((4, 4, 3))
    for nothing in ([], (), {}, {"self": []}):
        for options in ({"tokens": ["a", "b"]}, {"image": image}):
            with pytest.raises(ConfigError, match="there is no attention to show on a page"):
                attention_page(nothing, **options)
    with pytest.raises(ConfigError, match="have 2 rows, but there are 3 tokens"):
        attention_page(random_weights(1, 1, 2, 2), ["a", "b", "c"])
    with pytest.raises(ConfigError, match="no tokens"):
        attention_page(random_weights(1, 1, 2, 2))


def test_a_page_is_saved_whole_and_else_refused_in_a_sentence(tmp_path):
    page = attention_page(random_weights(1, 1, 2, 2), ["é", "b"])
    page.save(tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text(encoding="utf-8") == page.html
    with pytest.raises(ConfigError, match=r"missing/page\.html cannot be written"):
        page.save(tmp_path / "missing" / "page.html")
    with pytest.raises(ConfigError, match="folder"):
        page.save(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["page.html"]


def test_a_notebook_shows_it_in_a_frame():
    page = attention_page(random_weights(1, 1, 2, 2), ['"', "b"], title='a "title"')
    found = re.fullmatch(r'<iframe title="attention" style="[^"]*" srcdoc="([^"]*)"></iframe>', page._repr_html_())
    assert found
    assert unescape(found[1]) == page.html


class TestImage:
    image = np.random.default_rng(7).integers(0, 256, (28, 42, 3), dtype=np.uint8)

    def picture(self, **options):
        return data_of(attention_page(random_weights(1, 2, 7, 7), **options).html)

    def test_the_grid_is_that_of_the_image(self):
        data = self.picture(image=self.image)
        assert [data["picture"][name] for name in ("rows", "columns", "special")] == [2, 3, 1]
        assert data["views"][0]["columns"] == ["[CLS]", "0,0", "0,1", "0,2", "1,0", "1,1", "1,2"]
        assert data["views"][0]["rowsArePatches"]

    def test_a_grid_given_is_taken(self):
        data = self.picture(image=self.image, patches=(1, 5))
        assert [data["picture"][name] for name in ("rows", "columns", "special")] == [1, 5, 2]
        assert data["views"][0]["columns"][:3] == ["[CLS]", "[1]", "0,0"]

    def test_the_points_come_back_from_the_png(self):
        source = self.picture(image=self.image)["picture"]["source"]
        content = base64.b64decode(source.removeprefix("data:image/png;base64,"))
        start = content.index(b"IDAT")
        length = int.from_bytes(content[start - 4 : start])
        lines = np.frombuffer(zlib.decompress(content[start + 4 : start + 4 + length]), np.uint8).reshape(
            28, 1 + 42 * 3
        )
        np.testing.assert_array_equal(lines[:, 1:].reshape(28, 42, 3), self.image)

    def test_channels_may_come_first_and_a_batch_of_one_before_them_and_floats_are_the_same_picture(self):
        expected = self.picture(image=self.image)
        first = self.image.transpose(2, 0, 1)
        assert expected != self.picture(image=self.image[::-1])  # and the test can tell
        for same in (first, first[None], self.image[None], torch.tensor(first)[None], torch.tensor(first / 255)):
            assert self.picture(image=same) == expected
        assert self.picture(image=self.image / 255) == expected

    def test_what_could_be_either_is_height_width_and_channels(self):
        high = self.image[:3]
        assert self.picture(image=high, patches=(1, 6)) == self.picture(image=high.transpose(2, 0, 1), patches=(1, 6))

    def test_what_cannot_be_is_refused(self):
        for shape in ((2, 28, 42, 3), (1, 1, 28, 42, 3), (4, 28, 42), (28, 3, 42), (28, 42)):
            with pytest.raises(ConfigError, match=r"must be one image, \[height, width, 3\] or \[3, height, width\]"):
                self.picture(image=np.zeros(shape))
        for image in (self.image.astype(np.int64), self.image / 127.5 - 1, self.image / 1.0):
            with pytest.raises(ConfigError, match="from 0 to 255 in uint8, or of fractions from 0 to 1"):
                self.picture(image=image)
        with pytest.raises(ConfigError, match="more than the 7 tokens"):
            self.picture(image=self.image, patches=(3, 3), tokens=list("abcdefg"))
        with pytest.raises(ConfigError, match="give patches"):
            self.picture(image=np.zeros((1, 900, 3)))
