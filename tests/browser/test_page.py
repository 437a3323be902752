"""The page in a browser: what is shown equals the arrays, by mouse and by keyboard, on a desk and on a phone."""

import time

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

    def open_page(page):
        page.save(tmp_path / "page.html")
        browser_page.goto((tmp_path / "page.html").as_uri())
        browser_page.wait_for_selector("#model[data-painted]")
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


def point_at_cell(page, down, across):
    """Moves to a cell of the matrix and gives what the readout says: a row, a column and a weight."""
    page.locator("#matrix").scroll_into_view_if_needed()
    box, place = (
        page.locator("#matrix").bounding_box(),
        page.locator("#matrix").evaluate("({ dataset }) => ({ ...dataset })"),
    )
    left, top, cell = (float(place[name]) for name in ("left", "top", "cell"))
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


def overflow(page):
    return page.evaluate("document.documentElement.scrollWidth - window.innerWidth")


def test_the_model_view_shows_every_head_and_opens_one(translator):
    assert translator.locator("#model button").count() == 12
    assert not blank(translator, "#model canvas")
    assert translator.inner_text("#selection") == "cross-attention · 3 layers × 4 heads"
    open_head(translator, 2, 3)
    assert translator.inner_text("#selection") == "cross-attention · layer 2 · head 3"
    assert translator.is_visible("#panel-head")
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


def test_the_matrix_reads_out_the_cell_pointed_at(translator, views):
    open_head(translator, 1, 2)
    translator.click("[data-tab=matrix]")
    translator.wait_for_selector("#matrix[data-layer='1']")
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
    every = int(translator.get_attribute("#head-note", "data-drawn"))
    translator.fill("#search", "UN")
    assert translator.locator("li.found .token").all_inner_texts() == ["runs", "Hund"]
    assert translator.inner_text("#found") == "2 found"
    assert int(translator.get_attribute("#head-note", "data-drawn")) == 6 + 5 - 1 < every == 30
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

    tab_to("#model button")
    press("ArrowDown", "ArrowRight", "ArrowRight", "Enter")
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
    translator.focus("#tab-head")
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
    for tab in ("model", "head", "matrix", "section-0"):
        translator.click(f"[data-tab={tab}]")
        assert overflow(translator) <= 0, tab
    translator.click("[data-tab=head]")
    translator.click("li[data-side=row][data-index='2']")
    assert overflow(translator) <= 0
    assert translator.locator("li[data-side=column][data-index='0'] .weights").is_visible()


def test_a_section_is_a_tab(translator):
    translator.click("text=Logit lens")
    assert translator.inner_text("#panel-section-0 td") == "0"
    assert translator.is_hidden("#controls #layer-control")
    assert translator.inner_text("#selection") == ""


def test_tokens_of_any_text_are_shown_as_text(opened):
    tokens = [
        "</script><script>window.ran = 1</script>",
        "<img src=x onerror='window.ran = 2'>",
        "",
        " ",
        "\n",
        "x" * 500,
    ]
    tokens += ["😀", "مرحبا", "\ud83d", "{{weights}}", '"&quot;']
    page = opened(attention_page(random_weights(1, 2, 11, 11), tokens, title="</title><script>window.ran = 3</script>"))
    for tab in ("head", "matrix", "model"):
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
    assert "means of 7 heads" in page.inner_text("#head-note")


def test_where_no_line_is_stronger_than_the_others_none_is_drawn(opened):
    page = opened(attention_page(np.full((1, 1, 70, 70), 1 / 70), ["a"] * 70))
    page.click('#model button[data-head="0"]')
    page.wait_for_selector("#columns[data-layer='0']")
    page.hover("h1")
    assert page.inner_text("#head-note").startswith("No line stands out: none weighs more than 0.014.")
    page.hover("li[data-side=row][data-index='1']")
    assert page.get_attribute("#head-note", "data-drawn") == "70"


def test_the_page_shown_in_a_notebook_works(browser_page, views):
    browser_page.set_content(f"<!doctype html><body>{build_page(views, title='x')._repr_html_()}</body>")
    frame = browser_page.frame_locator("iframe")
    frame.locator("#model[data-painted] button[data-layer='1'][data-head='0']").click()
    assert frame.locator("#selection").inner_text() == "cross-attention · layer 1 · head 0"


def test_a_long_text_opens_and_answers_at_once(browser_page, tmp_path):
    """512 tokens and 144 heads, of scores that have nothing in common: the largest page there is."""
    scores = np.random.default_rng(7).standard_normal((12, 12, 512, 512), dtype=np.float32)
    weights = softmax(scores)
    tokens = [f"word{number}" for number in range(512)]
    path = tmp_path / "long.html"
    attention_page(weights, tokens, title="a long text").save(path)
    assert path.stat().st_size <= 25_000_000
    began = time.perf_counter()
    browser_page.goto(path.as_uri(), wait_until="commit")
    browser_page.wait_for_selector("#model[data-painted]")
    assert time.perf_counter() - began < 2
    assert not blank(browser_page, "#model canvas")
    browser_page.wait_for_load_state()
    paints = browser_page.evaluate(
        "performance.getEntriesByType('paint').map(({ name, startTime }) => [name, startTime])"
    )
    assert dict(paints)["first-contentful-paint"] < 2000
    began = time.perf_counter()
    open_head(browser_page, 11, 7)
    assert time.perf_counter() - began < 1
    browser_page.hover("h1")
    drawn, lines = (int(browser_page.get_attribute("#head-note", name)) for name in ("data-drawn", "data-lines"))
    assert 0 < drawn <= 4096 < lines
    assert "strongest of" in browser_page.inner_text("#head-note")
    browser_page.hover("li[data-side=row][data-index='9']")
    shown = shown_weights(browser_page, "column", 7)
    np.testing.assert_allclose(shown, weights[11, 7, 9], atol=0.004)  # √0.05 / 63, and rounding
    browser_page.click("[data-tab=matrix]")
    browser_page.wait_for_selector("#matrix[data-layer='11']")
    assert not blank(browser_page, "#matrix")
    assert "127 steps" in browser_page.inner_text("footer")
