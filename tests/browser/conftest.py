"""A browser for the page, which fails a test on any error of a script and on any use of the network.

What a test takes hold of:

- tabs: `[data-tab=lines|matrix|model|image|section-0…]`, their panels `#panel-model`, `#panel-lines`, …
- `#selection`: the line that says which kind, layer and heads are shown
- controls: `#kinds [data-kind=cross]`, `#layer` (a slider over places), `#layer-number`, `#heads [data-head=3]`,
  `#swap`, `#search`, `#found`, `#fit` (only where the matrix is larger than the window), `#theme`
- model view: `#model[data-painted]` once its thumbnails are painted; `#model button[data-layer=2][data-head=3]`
- lines: `#left` and `#right` hold `li[data-side=row|column][data-index=5]`, with `.token` and, beside it,
  `.weights [data-head=3]`; classes `lit`, `pinned`, `found`, `faded`; `#lines` is the canvas; `#lines-note` has
  data-drawn and data-lines
- matrix view: `#matrix` is the canvas, with data-left, data-top and data-cell in pixels; `#readout` has data-row,
  data-column and data-value
- image view: `#heat` is the canvas, `#query` the choice of the token; `#image-readout` has the same data as `#readout`

A layer is read a moment after it is chosen: wait for `#columns`, `#matrix` or `#heat` with [data-kind=…][data-layer=…].
The page's own policy forbids eval, and with it playwright's wait_for_function: wait for selectors.
Layers and heads in data-layer and data-head are numbers as shown; rows, columns and indices count from 0.
"""

import shutil

import pytest

OFF = ("gpu", "quic", "background-networking", "component-update", "sync")
ARGUMENTS = ["--no-sandbox", "--no-first-run", *(f"--disable-{each}" for each in OFF)]


@pytest.fixture(scope="session")
def browser():
    """Debian's chromium, driven by playwright."""
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: pip install playwright")
    program = shutil.which("chromium")
    if not program:
        pytest.skip("chromium is not installed")
    with api.sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=program, args=ARGUMENTS)
        yield opened
        opened.close()


@pytest.fixture
def browser_page(browser):
    """An empty page; whatever it complains of or asks the network for fails the test at its end."""
    page = browser.new_page(viewport={"width": 1280, "height": 860}, color_scheme="light")
    troubles = []
    page.on("console", lambda message: message.type == "error" and troubles.append(message.text))
    page.on("pageerror", lambda error: troubles.append(str(error)))

    def asked(request):
        if not request.url.startswith(("file:", "data:", "blob:", "about:")):
            troubles.append(f"asked for {request.url}")

    page.on("request", asked)
    page.set_default_timeout(120_000)  # a loaded machine is no fault
    yield page
    page.close()
    assert not troubles
