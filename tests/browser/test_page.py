"""The page in a browser: what is shown equals the arrays, by mouse and by keyboard, on a desk and on a phone."""

import numpy as np
import pytest

from manyheads.look.page import attention_page, build_page
from manyheads.look.views import View

SOURCE = ["Ein", "Hund", "läuft", "über", "Gras", "."]
TARGET = ["<s>", "A", "dog", "runs", "</script>"]


def softmax(scores):
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    return (powers / powers.sum(-1, keepdims=True)).astype(np.float32)


def random_weights(*shape, seed=7):
    return softmax(2 * np.random.default_rng(seed).standard_normal(shape))


@pytest.fixture(scope="module")
def views():
    """A translator's, in which layers, heads, rows and columns all differ in number."""
    return [
        View("cross", random_weights(3, 4, 5, 6), TARGET, SOURCE),
        View("encoder", random_weights(2, 3, 6, 6, seed=8), SOURCE, SOURCE, layers=[1, 4]),
        View("decoder", random_weights(3, 4, 5, 5, seed=9), TARGET, TARGET),
    ]


@pytest.fixture
def opened(browser_page, tmp_path):
    """A function that saves a page and opens it from its file."""

    def open_page(page, address=""):
        page.save(tmp_path / "page.html")
        browser_page.goto("about:blank")  # of one file, another address alone would not be opened anew
        browser_page.goto((tmp_path / "page.html").as_uri() + address)
        browser_page.wait_for_selector("#model[data-painted]", state="attached")
        return browser_page

    return open_page


@pytest.fixture
def translator(opened, views):
    sections = [("Logit lens", "<table><tr><th>layer</th></tr><tr><td>0</td></tr></table>")]
    return opened(build_page(views, title="A translator", subtitle="of a few words", sections=sections))


def open_head(page, layer, head):
    page.click("[data-tab=model]")
    page.click(f'#model button[data-layer="{layer}"][data-head="{head}"]')
    page.wait_for_selector(f"#columns[data-layer='{layer}']")


def shown_weights(page, side, head):
    return [float(text) for text in page.locator(f'li[data-side={side}] [data-head="{head}"]').all_inner_texts()]


def cells_of(page):
    """Where the cells of the matrix begin, and the side of one."""
    return [float(page.get_attribute("#matrix", f"data-{name}")) for name in ("left", "top", "cell")]


def open_matrix(page, layer):
    page.click("[data-tab=matrix]")
    page.wait_for_selector(f"#matrix[data-layer='{layer}']")


def point_at_cell(page, down, across):
    """Moves to a cell of the matrix and gives what the readout says: a row, a column and a weight."""
    page.locator("#matrix").scroll_into_view_if_needed()
    box, (left, top, cell) = page.locator("#matrix").bounding_box(), cells_of(page)
    page.mouse.move(box["x"] + left + (across + 0.5) * cell, box["y"] + top + (down + 0.5) * cell)
    said = page.locator("#readout").evaluate("({ dataset }) => ({ ...dataset })")
    return int(said["row"]), int(said["column"]), float(said["value"])


def blank(page, selector):
    """Whether all points of a canvas are of one colour."""
    script = """canvas => {
      const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
      const colours = new Set(new Uint32Array(data.buffer));
      return colours.size < 2;
    }"""
    return page.locator(selector).first.evaluate(script)


def colours_in(page, selector, box=None):
    """The colours of a canvas, or of a box of it: left, top, width and height in pixels."""
    script = """(canvas, box) => {
      const all = box ?? [0, 0, canvas.width, canvas.height];
      const { data } = canvas.getContext("2d").getImageData(...all);
      const colours = new Set();
      for (let at = 0; at < data.length; at += 4) if (data[at + 3] > 250) colours.add(data.slice(at, at + 3).join());
      return [...colours];
    }"""
    found = page.locator(selector).evaluate(script, box)
    return {tuple(int(part) for part in colour.split(",")) for colour in found}


def hash_of(page):
    return page.evaluate("location.hash")


def overflow(page):
    return page.evaluate("document.documentElement.scrollWidth - window.innerWidth")


def test_the_page_opens_where_words_are_seen(translator, opened):
    assert translator.locator("#tabs button").all_inner_texts() == ["Lines", "Matrix", "Model", "Logit lens"]
    assert translator.inner_text("#selection") == "cross-attention · layer 2 · head 0"
    assert translator.locator("#left .token").all_inner_texts() == TARGET
    translator.wait_for_selector("#columns[data-layer='2']")
    assert not blank(translator, "#lines")
    page = opened(attention_page(random_weights(3, 2, 5, 5), TARGET))  # of one text the first layer
    assert page.inner_text("#selection") == "self-attention · layer 0 · head 0"


def test_nothing_moves_from_one_tab_to_the_next_nor_under_the_pointer(translator):
    still = "h1", "#tabs", "[data-tab=model]", "#kinds", "[data-kind=decoder]", "#controls", "#selection"

    def places():
        return [translator.locator(each).bounding_box() | {"of": each} for each in still]

    first = places()
    for tab in ("matrix", "model", "lines"):
        translator.click(f"[data-tab={tab}]")
        assert places() == first, tab
    translator.click("#heads [data-head='1']")
    translator.fill("#search", "a")
    assert places() == first
    words = [translator.locator(each).bounding_box() for each in ("#left", "#right", "footer")]
    translator.hover("li[data-side=row][data-index='1']")
    assert [translator.locator(each).bounding_box() for each in ("#left", "#right", "footer")] == words
    translator.evaluate("location.hash = '#matrix'")  # which is the name of a part of the page too
    translator.wait_for_selector("#panel-matrix")
    assert translator.evaluate("window.scrollY") == 0


def test_a_large_window_has_larger_rows_and_pictures(translator):
    def sizes():
        rows, lines = (translator.locator(each).first.bounding_box() for each in ("#left li", "#lines"))
        return rows["height"], lines["width"]

    found = []
    for width, height in ((1000, 600), (1900, 1200)):
        translator.set_viewport_size({"width": width, "height": height})
        translator.wait_for_selector(f"#columns[style*='--row: {28 if height == 600 else 44}px']")
        found.append(sizes())
    assert all(large > small for small, large in zip(*found))


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_legend_of_the_matrix_has_the_colours_of_its_cells(opened, theme):
    weights = np.array([[1.0, 0.0], [0.0, 1.0]])
    page = opened(attention_page(weights[None, None], list("ab")))
    page.emulate_media(color_scheme=theme)
    open_matrix(page, 0)
    ends = page.locator("#bar-colours").evaluate("bar => getComputedStyle(bar).backgroundImage.match(/rgb[^)]*/g)")
    named = [tuple(int(part) for part in end.removeprefix("rgb(").split(",")) for end in (ends[0], ends[-1])]
    assert set(named) <= colours_in(page, "#matrix")


def test_the_model_view_shows_every_head_and_opens_one(translator):
    translator.click("[data-tab=model]")
    assert translator.locator("#model button").count() == 12
    assert not blank(translator, "#model canvas")
    assert translator.inner_text("#selection") == "cross-attention · 3 layers × 4 heads"
    assert "square-root scale" in translator.inner_text("#model-note")
    open_head(translator, 2, 3)
    assert translator.inner_text("#selection") == "cross-attention · layer 2 · head 3"
    assert translator.is_visible("#panel-lines")
    assert translator.is_hidden("#panel-model")
    assert not blank(translator, "#lines")


def test_a_token_pointed_at_shows_the_weights_of_the_array(translator, views):
    open_head(translator, 2, 1)
    translator.hover("li[data-side=row][data-index='3']")
    np.testing.assert_allclose(shown_weights(translator, "column", 1), views[0].weights[2, 1, 3], atol=5.1e-4)
    translator.hover("li[data-side=column][data-index='4']")
    np.testing.assert_allclose(shown_weights(translator, "row", 1), views[0].weights[2, 1, :, 4], atol=5.1e-4)
    assert shown_weights(translator, "column", 1) == []


def test_a_click_pins_and_escape_clears(translator, views):
    open_head(translator, 0, 0)
    translator.click("li[data-side=row][data-index='2']")
    translator.hover("h1")
    np.testing.assert_allclose(shown_weights(translator, "column", 0), views[0].weights[0, 0, 2], atol=5.1e-4)
    translator.keyboard.press("Escape")
    assert shown_weights(translator, "column", 0) == []


def test_several_heads_are_shown_each_in_its_own_colour(translator, views):
    open_head(translator, 1, 0)
    translator.click("#heads [data-head='2']")
    assert translator.inner_text("#selection") == "cross-attention · layer 1 · heads 0, 2"
    translator.hover("li[data-side=row][data-index='1']")
    for head in (0, 2):
        np.testing.assert_allclose(shown_weights(translator, "column", head), views[0].weights[1, head, 1], atol=5.1e-4)
    colour = "element => getComputedStyle(element).backgroundColor"
    assert len({translator.locator(f"#heads [data-head='{head}']").evaluate(colour) for head in (0, 2)}) == 2
    for head in (0, 2):  # the last one stays
        translator.click(f"#heads [data-head='{head}']")
    assert translator.inner_text("#selection") == "cross-attention · layer 1 · head 2"


def test_lines_of_several_heads_lie_side_by_side(opened):
    weights = np.broadcast_to(np.eye(3, dtype=np.float32), (1, 4, 3, 3))
    page = opened(attention_page(weights, list("abc")))
    open_head(page, 0, 2)
    for head in (0, 3):
        page.click(f"#heads [data-head='{head}']")
    page.wait_for_selector("#lines-note[data-drawn='9']")
    first, second, third = (0, 114, 178), (213, 94, 0), (0, 158, 115)
    assert {first, second, third} <= colours_in(page, "#lines")
    for way in (page.hover, page.click):
        way("li[data-side=row][data-index='1']")
        assert page.get_attribute("#lines-note", "data-drawn") == "3"
        assert {first, second, third} <= colours_in(page, "#lines")
    # In the order of their numbers, although head 2 was chosen first.
    numbers = "li[data-side=column][data-index='0'] .weights [data-head]"
    assert page.locator(numbers).evaluate_all("all => all.map(each => each.dataset.head)") == ["0", "2", "3"]
    middle = page.locator("#lines").evaluate("canvas => canvas.width / 2")
    height = page.locator("#left li").first.bounding_box()["height"]
    row = [colours_in(page, "#lines", [middle, 1.5 * height + down, 1, 2]) for down in (-5, -1, 3)]
    assert [colour in found for colour, found in zip((second, first, third), row)] == [True, True, True]


@pytest.fixture
def pruned(opened):
    """A model of which one head of the first layer and all of the last were removed."""
    weights = random_weights(3, 4, 5, 5)
    weights[0, 1] = weights[2] = 0
    return opened(attention_page(weights, TARGET))


def test_a_head_that_was_removed_says_so_and_cannot_be_opened(pruned):
    pruned.click("[data-tab=model]")
    gone = pruned.locator('#model button[data-layer="0"][data-head="1"]')
    assert gone.is_disabled()
    assert gone.inner_text() == "removed"
    assert pruned.locator("#model button:disabled").count() == 5
    gone.click(force=True)
    assert pruned.is_visible("#panel-model")
    pruned.focus('#model button[data-layer="0"][data-head="0"]')
    pruned.keyboard.press("ArrowRight")  # past it
    assert pruned.locator("#model button:focus").get_attribute("data-head") == "2"
    pruned.keyboard.press("Enter")
    pruned.wait_for_selector("#columns[data-layer='0']")
    chip = pruned.locator("#heads [data-head='1']")
    assert chip.evaluate("button => button.disabled")
    chip.click(force=True)
    assert pruned.inner_text("#selection") == "self-attention · layer 0 · head 2"


def test_a_layer_without_the_chosen_head_shows_another(pruned):
    open_head(pruned, 1, 1)
    pruned.fill("#layer", "0")
    pruned.wait_for_selector("#columns[data-layer='0']")
    assert pruned.inner_text("#selection") == "self-attention · layer 0 · head 0"
    assert not blank(pruned, "#lines")
    pruned.fill("#layer", "2")
    assert pruned.inner_text("#selection") == "self-attention · layer 2 · every head removed"
    pruned.fill("#layer", "1")
    assert pruned.inner_text("#selection") == "self-attention · layer 1 · head 1"


def test_a_rollout_has_layers_but_no_heads(opened, views):
    rolled = View("cross rollout", random_weights(3, 1, 5, 6), TARGET, SOURCE, title="rollout of cross-attention")
    page = opened(build_page([views[0], rolled], title="t"), "#model")
    assert page.locator("#model .label").all_inner_texts()[1:5] == ["0", "1", "2", "3"]
    page.click("[data-kind='cross rollout']")
    page.wait_for_selector("#model[data-painted='1']")
    assert page.inner_text("#selection") == "rollout of cross-attention · 3 layers"
    assert page.locator("#model .label").all_inner_texts()[1:] == ["", "0", "1", "2"]
    assert "head" not in page.inner_text("#model .corner")
    page.click("#model button[data-layer='1']")
    for tab in ("lines", "matrix"):
        page.click(f"[data-tab={tab}]")
        assert page.inner_text("#selection") == "rollout of cross-attention · up to layer 1"
        assert page.is_hidden("#heads-control")
    page.click("[data-kind=cross]")
    assert page.is_visible("#heads-control")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_small_matrix_has_its_numbers_in_its_cells(opened, theme):
    weights = np.tile(np.float32([0.85, 0.05, 0.04, 0.03, 0.02, 0.01]), (1, 1, 6, 1))
    page = opened(attention_page(weights, list("abcdef")))
    page.emulate_media(color_scheme=theme)
    open_matrix(page, 0)
    left, top, cell = cells_of(page)
    assert 56 <= cell <= 64
    used = set()
    for column in range(6):
        box = [round(left + column * cell + 3), round(top + 3), int(cell) - 6, int(cell) - 6]
        found = colours_in(page, "#matrix", box)
        ink = found & {(255, 255, 255), (12, 16, 22)}
        ground = colours_in(page, "#matrix", [*box[:2], 1, 1]).pop()
        used |= ink
        assert max(contrast(ground, each) for each in ink) > 4.2
    assert len(used) == 2  # dark on light, and light on dark


def contrast(one, other):
    def brightness(colour):
        parts = np.array(colour) / 255
        return np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4) @ [0.2126, 0.7152, 0.0722]

    dark, light = sorted((brightness(one), brightness(other)))
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize(("tokens", "numbered"), [(16, True), (17, False)])
def test_a_larger_matrix_has_colours_only(opened, tokens, numbered):
    page = opened(attention_page(np.full((1, 1, tokens, tokens), 1 / tokens), ["a"] * tokens))
    open_matrix(page, 0)
    left, top, cell = cells_of(page)
    size = int(cell) - 2
    assert (len(colours_in(page, "#matrix", [int(left) + 2, int(top) + 2, size, size])) > 1) == numbered


@pytest.mark.parametrize(("tokens", "inner"), [(16, False), (40, False), (41, True)])
def test_columns_grow_before_they_scroll(opened, tokens, inner):
    page = opened(attention_page(random_weights(1, 2, tokens, tokens), ["a"] * tokens))
    page.set_viewport_size({"width": 1280, "height": 800})
    open_head(page, 0, 1)
    assert page.locator("#columns").evaluate("({ scrollHeight, clientHeight }) => scrollHeight > clientHeight") == inner
    assert (page.locator("#lines").evaluate("canvas => canvas.clientHeight") < 28 * tokens) == inner


def test_a_phone_hints_at_what_is_beyond_the_edge(opened, views):
    rollouts = [View(f"{each.kind} rollout", each.weights[:, :1], each.rows, each.columns) for each in views]
    sections = [(name, "<p>x</p>") for name in ("Logit lens", "Residual norms", "Statistics")]
    page = opened(build_page([*views, *rollouts], title="t", sections=sections))
    for row in ("#tabs", "#kinds"):
        assert page.get_attribute(row, "data-more") == ""
    page.set_viewport_size({"width": 380, "height": 800})
    hint = "(row, side) => getComputedStyle(row, side).display"
    for row, last in (("#tabs", "[data-tab=section-2]"), ("#kinds", "[data-kind='decoder rollout']")):
        page.wait_for_selector(f"{row}[data-more=after]")
        assert [page.locator(row).evaluate(hint, side) for side in ("::before", "::after")] == ["none", "grid"]
        assert page.locator(row).evaluate("row => row.clientHeight") < 60
        page.locator(row).evaluate("row => { row.scrollLeft = 9999; }")
        page.wait_for_selector(f"{row}[data-more=before]")
        box = page.locator(last).bounding_box()
        assert box["x"] + box["width"] <= 380
    for tab in ("model", "section-2", "lines"):  # what is chosen from elsewhere is scrolled to
        page.evaluate("tab => { location.hash = tab; }", tab)
        page.wait_for_selector(f"[data-tab={tab}][aria-selected=true]")
        box = page.locator(f"[data-tab={tab}]").bounding_box()
        assert 0 <= box["x"] < box["x"] + box["width"] <= 380
    assert overflow(page) <= 0


def test_the_address_follows_what_is_chosen(translator):
    assert hash_of(translator) == ""
    open_head(translator, 1, 2)
    assert hash_of(translator) == "#lines/cross/1/2"
    translator.click("#heads [data-head='0']")
    assert hash_of(translator) == "#lines/cross/1/0,2"
    translator.click("[data-tab=matrix]")
    assert hash_of(translator) == "#matrix/cross/1/0"
    translator.click("[data-kind=encoder]")
    assert hash_of(translator) == "#matrix/encoder/4/0"  # by the layer's number, not by its place
    translator.click("[data-tab=model]")
    assert hash_of(translator) == "#model/encoder"
    translator.click("[data-tab=section-0]")
    assert hash_of(translator) == "#section-0"


@pytest.mark.parametrize(
    ("address", "tab", "said"),
    [
        ("#cross/1/2", "lines", "cross-attention · layer 1 · head 2"),
        ("#lines/cross/1/3,0", "lines", "cross-attention · layer 1 · heads 0, 3"),
        ("#matrix/encoder/4/1", "matrix", "encoder self-attention · layer 4 · head 1"),
        ("#model/decoder", "model", "decoder self-attention · 3 layers × 4 heads"),
        ("#matrix/cross%20rollout/2", "matrix", "rollout of cross-attention · up to layer 2"),
        ("#section-0", "section-0", ""),
        *(
            (unknown, "lines", "cross-attention · layer 2 · head 0")
            for unknown in ("#", "#nowhere/1/2", "#cross/9/2", "#cross/1/4", "#cross/1/2/3", "#%", "#section-1/cross")
        ),
        ("#cross/0/1", "lines", "cross-attention · layer 2 · head 0"),  # which was removed
    ],
)
def test_an_address_opens_what_it_names(opened, views, address, tab, said):
    cross = View("cross", views[0].weights.copy(), TARGET, SOURCE)
    cross.weights[0, 1] = 0
    rolled = View("cross rollout", random_weights(3, 1, 5, 6), TARGET, SOURCE, title="rollout of cross-attention")
    page = opened(build_page([cross, *views[1:], rolled], title="t", sections=[("Lens", "<p>l</p>")]), address)
    assert page.locator("[role=tab][aria-selected=true]").get_attribute("data-tab") == tab
    assert page.inner_text("#selection") == said


def test_an_address_changed_by_hand_is_followed(translator, views):
    translator.evaluate("location.hash = '#lines/decoder/2/3'")
    translator.wait_for_selector("#columns[data-kind=decoder][data-layer='2']")
    assert translator.inner_text("#selection") == "decoder self-attention · layer 2 · head 3"
    translator.hover("li[data-side=row][data-index='1']")
    np.testing.assert_allclose(shown_weights(translator, "column", 3), views[2].weights[2, 3, 1], atol=5.1e-4)


def test_weights_a_little_outside_are_shown_at_the_edge(opened):
    weights = np.float32([[[[1.0005, -0.0005], [0.5, 0.5]]]])
    page = opened(attention_page(weights, ["a", "b"]))
    open_head(page, 0, 0)
    page.hover("li[data-side=row][data-index='0']")
    assert page.locator("li[data-side=column] .weights").all_inner_texts() == ["1.000", "0.000"]
    assert page.inner_text("#lines-note") == "Every line of “a” is drawn; the most opaque weighs 1.000."


def test_the_matrix_reads_out_the_cell_pointed_at(translator, views):
    open_head(translator, 1, 2)
    open_matrix(translator, 1)
    assert "square-root scale" in translator.inner_text("#bar")
    assert not blank(translator, "#matrix")
    assert point_at_cell(translator, 3, 4) == (3, 4, pytest.approx(views[0].weights[1, 2, 3, 4], abs=5.1e-4))
    assert translator.inner_text("#readout").startswith("“runs” looks at “Gras” with")
    translator.click("#swap")
    assert point_at_cell(translator, 5, 1) == (1, 5, pytest.approx(views[0].weights[1, 2, 1, 5], abs=5.1e-4))


def test_the_slider_changes_the_layer(translator, views):
    open_head(translator, 0, 1)
    translator.fill("#layer", "2")
    translator.wait_for_selector("#columns[data-layer='2']")
    assert translator.inner_text("#selection") == "cross-attention · layer 2 · head 1"
    translator.hover("li[data-side=row][data-index='0']")
    np.testing.assert_allclose(shown_weights(translator, "column", 1), views[0].weights[2, 1, 0], atol=5.1e-4)


def test_another_kind_has_its_own_layers_and_tokens(translator, views):
    open_head(translator, 2, 3)
    translator.click("[data-kind=encoder]")
    translator.wait_for_selector("#columns[data-kind=encoder]")
    assert translator.inner_text("#selection") == "encoder self-attention · layer 4 · head 0"
    assert translator.locator("#left .token").all_inner_texts() == SOURCE
    translator.hover("li[data-side=row][data-index='5']")
    np.testing.assert_allclose(shown_weights(translator, "column", 0), views[1].weights[1, 0, 5], atol=5.1e-4)


def test_swapped_sides_change_places(translator):
    open_head(translator, 0, 0)
    assert translator.locator("#left .token").all_inner_texts() == TARGET
    translator.click("#swap")
    assert translator.locator("#left .token").all_inner_texts() == SOURCE
    assert translator.inner_text("#left-title") == "source (keys)"


def test_a_search_marks_tokens_and_isolates_their_lines(translator):
    open_head(translator, 0, 0)
    translator.hover("h1")
    every = int(translator.get_attribute("#lines-note", "data-drawn"))
    translator.fill("#search", "UN")
    assert translator.locator("li.found .token").all_inner_texts() == ["runs", "Hund"]
    assert translator.inner_text("#found") == "2 found"
    assert int(translator.get_attribute("#lines-note", "data-drawn")) == 6 + 5 - 1 < every == 30
    translator.click("[data-tab=matrix]")
    assert translator.input_value("#search") == "UN"


def test_all_of_it_can_be_done_by_keyboard(translator, views):
    def press(*keys):
        for key in keys:
            translator.keyboard.press(key)

    def tab_to(selector):
        for _ in range(30):
            press("Tab")
            if translator.evaluate("selector => document.activeElement.matches(selector)", selector):
                return
        raise AssertionError(f"Tab does not reach {selector}")

    translator.focus("#tab-lines")
    press("ArrowRight", "ArrowRight")
    tab_to("#model button")
    press("ArrowUp", "ArrowRight", "ArrowRight", "Enter")
    assert translator.inner_text("#selection") == "cross-attention · layer 1 · head 2"
    tab_to("#layer")
    press("ArrowRight")
    translator.wait_for_selector("#columns[data-layer='2']")
    tab_to("#heads button")
    press("ArrowRight", "Enter")
    assert translator.inner_text("#selection") == "cross-attention · layer 2 · heads 2, 3"
    press("ArrowLeft", "Enter")
    tab_to("#left li")
    press("ArrowDown", "ArrowDown")
    np.testing.assert_allclose(shown_weights(translator, "column", 3), views[0].weights[2, 3, 2], atol=5.1e-4)
    assert translator.locator("#left li:focus").evaluate("element => getComputedStyle(element).outlineStyle") == "solid"
    press("Enter", "ArrowRight")
    assert translator.locator("#right li:focus").get_attribute("data-index") == "2"
    assert translator.locator("li.pinned .token").all_inner_texts() == ["dog"]
    press("Escape")
    assert translator.locator("li.pinned").count() == 0
    translator.focus("#tab-lines")
    press("ArrowRight")
    translator.wait_for_selector("#matrix[data-layer='2']")
    tab_to("#matrix")
    press("ArrowDown", "ArrowDown", "ArrowRight", "Enter")
    readout = translator.locator("#readout").evaluate("element => ({...element.dataset})")
    assert (readout["row"], readout["column"]) == ("1", "1")
    assert float(readout["value"]) == pytest.approx(views[0].weights[2, 3, 1, 1], abs=5.1e-4)


def test_dark_follows_the_system_and_the_button(translator):
    ground = "getComputedStyle(document.body).backgroundColor"
    light = translator.evaluate(ground)
    translator.click("#theme")
    dark = translator.evaluate(ground)
    assert light != dark
    translator.click("#theme")
    assert translator.evaluate(ground) == light
    translator.reload()
    translator.emulate_media(color_scheme="dark")
    assert translator.evaluate(ground) == dark


def test_a_phone_never_scrolls_sideways(translator):
    translator.set_viewport_size({"width": 360, "height": 740})
    for tab in ("model", "lines", "matrix", "section-0"):
        translator.click(f"[data-tab={tab}]")
        assert overflow(translator) <= 0, tab
    translator.click("[data-tab=lines]")
    translator.click("li[data-side=row][data-index='2']")
    assert overflow(translator) <= 0
    assert translator.locator("li[data-side=column][data-index='0'] .weights").is_visible()


def test_a_section_is_a_tab(translator):
    translator.click("text=Logit lens")
    assert translator.inner_text("#panel-section-0 td") == "0"
    assert translator.is_hidden("#controls #layer-control")
    assert translator.inner_text("#selection") == ""


def test_tokens_of_any_text_are_shown_as_text(opened):
    tokens = ["</script><script>window.ran = 1</script>", "<img src=x onerror='window.ran = 2'>"]
    tokens += ["", " ", "\n", "x" * 500, "😀", "مرحبا", "\ud83d", "{{weights}}", '"&quot;']
    page = opened(attention_page(random_weights(1, 2, 11, 11), tokens, title="</title><script>window.ran = 3</script>"))
    for tab in ("lines", "matrix", "model"):
        page.click(f"[data-tab={tab}]")
        assert overflow(page) <= 0
    assert page.evaluate("window.ran") is None
    shown = page.locator("#left .token").all_text_contents()
    assert shown[:2] == tokens[:2]
    assert shown[2:5] == ["∅", "␣", "↵"]
    assert shown[6:8] == tokens[6:8]
    assert page.inner_text("h1") == "</title><script>window.ran = 3</script>"


def test_the_image_shows_the_weights_of_the_patch_clicked(opened):
    rows, columns = 3, 5
    weights = random_weights(2, 3, 16, 16)
    image = np.random.default_rng(7).integers(0, 256, (30, 50, 3), dtype=np.uint8)
    page = opened(attention_page(weights, image=image, patches=(rows, columns), title="A painter"))
    assert page.is_visible("#panel-image")
    page.click("[data-tab=model]")
    page.click('#model button[data-layer="1"][data-head="2"]')
    page.wait_for_selector("#heat[data-layer='1']")
    assert not blank(page, "#heat")
    assert page.evaluate("document.getElementById('grey').naturalWidth") == 50
    assert f"[CLS] {weights[1, 2, 0, 0]:.3f}" in page.inner_text("#image-note")
    box = page.locator("#heat").bounding_box()

    def patch(row, column):
        return {"x": box["width"] * (column + 0.5) / columns, "y": box["height"] * (row + 0.5) / rows}

    page.click("#heat", position=patch(1, 3))
    assert page.input_value("#query") == str(1 + 1 * columns + 3)
    page.hover("#heat", position=patch(2, 0))
    data = page.locator("#image-readout").evaluate("element => ({...element.dataset})")
    assert (data["row"], data["column"]) == ("9", "11")
    assert float(data["value"]) == pytest.approx(weights[1, 2, 9, 11], abs=5.1e-4)
    page.set_viewport_size({"width": 360, "height": 740})
    assert overflow(page) <= 0


def test_words_that_look_at_an_image_are_chosen_from_a_list(opened):
    weights = random_weights(1, 2, 3, 6)
    view = View("cross", weights, ["a", "red", "dog"], [str(number) for number in range(6)])
    page = opened(build_page([view], title="A captioner", image=np.zeros((20, 30, 3)), patches=(2, 3)))
    page.click("[data-tab=model]")
    page.click('#model button[data-head="1"]')
    page.select_option("#query", "2")
    page.wait_for_selector("#heat[data-layer='0']")
    box = page.locator("#heat").bounding_box()
    page.click("#heat", position={"x": box["width"] * 5 / 6, "y": box["height"] * 3 / 4})
    assert page.inner_text("#image-readout") == f"“dog” looks at “5” with {weights[0, 1, 2, 5]:.3f}"
    page.click("#swap")
    assert "not over the image" in page.inner_text("#image-note")


def test_no_more_heads_than_colours_are_shown_at_once(opened):
    page = opened(attention_page(random_weights(1, 9, 3, 3), list("abc")))
    open_head(page, 0, 0)
    for head in range(1, 9):
        page.click(f"#heads [data-head='{head}']", force=True)  # also one that says that it is disabled
    assert page.inner_text("#selection") == "self-attention · layer 0 · heads 0, 1, 2, 3, 4, 5, 6"
    page.hover("li[data-side=row][data-index='0']")
    assert "means of 7 heads" in page.inner_text("#lines-note")


def test_where_no_line_is_stronger_than_the_others_none_is_drawn(opened):
    page = opened(attention_page(np.full((1, 1, 70, 70), 1 / 70), ["a"] * 70))
    page.wait_for_selector("#columns[data-layer='0']")
    page.hover("h1")
    assert page.inner_text("#lines-note").startswith("No line stands out: none weighs more than 0.014.")
    page.hover("li[data-side=row][data-index='1']")
    assert page.get_attribute("#lines-note", "data-drawn") == "70"


def test_the_page_shown_in_a_notebook_works(browser_page, views):
    browser_page.set_content(f"<!doctype html><body>{build_page(views, title='x')._repr_html_()}</body>")
    frame = browser_page.frame_locator("iframe")
    frame.locator("[data-tab=model]").click()
    frame.locator("#model[data-painted] button[data-layer='1'][data-head='0']").click()
    assert frame.locator("#selection").inner_text() == "cross-attention · layer 1 · head 0"


def test_a_long_text_is_painted_before_its_weights_are_read_and_answers(browser_page, tmp_path):
    """512 tokens and 144 heads, of scores that have nothing in common: the largest page there is."""
    scores = np.random.default_rng(7).standard_normal((12, 12, 512, 512), dtype=np.float32)
    weights = softmax(scores)
    tokens = [f"word{number}" for number in range(512)]
    path = tmp_path / "long.html"
    attention_page(weights, tokens, title="a long text").save(path)
    assert path.stat().st_size <= 25_000_000
    whole = path.read_text(encoding="utf-8")
    path.with_name("cut.html").write_text(whole[: whole.index('<script type="application/octet-stream" id="weights-')])
    browser_page.goto(path.with_name("cut.html").as_uri())  # of which no weights are read
    browser_page.wait_for_selector("#model[data-painted]", state="attached")
    assert browser_page.locator("#model button").count() == 144
    assert not blank(browser_page, "#model canvas")
    assert browser_page.locator("#left li").count() == 512
    browser_page.goto(path.as_uri(), wait_until="commit")
    open_head(browser_page, 11, 7)
    browser_page.hover("h1")
    drawn, lines = (int(browser_page.get_attribute("#lines-note", name)) for name in ("data-drawn", "data-lines"))
    assert 0 < drawn <= 4096 < lines
    assert "strongest of" in browser_page.inner_text("#lines-note")
    browser_page.hover("li[data-side=row][data-index='9']")
    shown = shown_weights(browser_page, "column", 7)
    np.testing.assert_allclose(shown, weights[11, 7, 9], atol=0.004)  # √0.05 / 63, and rounding
    open_matrix(browser_page, 11)
    assert not blank(browser_page, "#matrix")
    assert "127 steps" in browser_page.inner_text("footer")
