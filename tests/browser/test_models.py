"""Pages of models as `manyheads look` writes them: what is shown equals what was recorded."""

import numpy as np
import pytest
import torch

from manyheads.models.bert import BertConfig, MaskedBert
from manyheads.models.gpt import GPT, GPTConfig
from manyheads.models.transformer import Transformer, TransformerConfig
from manyheads.tasks.inside.look import look_inside
from manyheads.tasks.language.use import LanguageModel
from manyheads.tasks.masked.use import Filler
from manyheads.tasks.translate.use import Translator
from manyheads.text.encoder import EncoderTokenizer
from manyheads.text.language import LanguageTokenizer
from manyheads.text.tokenizer import Tokenizer

LINES = ["the cat danced with the old dog", "die Katze tanzte mit dem alten Hund"] * 5
SIZES = {"width": 24, "layers": 2, "heads": 3}


def translator():
    tokenizer = Tokenizer.train(LINES, 300)
    ends = {"pad": tokenizer.pad, "start": tokenizer.start, "end": tokenizer.end}
    model = Transformer(TransformerConfig(**SIZES, vocabulary=len(tokenizer), inner=36, **ends))
    return look_inside(Translator(_spread(model), tokenizer), "the cat danced", "die Katze tanzte")


def gpt():
    tokenizer = LanguageTokenizer.train(LINES, 300)
    model = GPT(GPTConfig(**SIZES, vocabulary=len(tokenizer), context=32, end=tokenizer.end))
    return look_inside(LanguageModel(_spread(model), tokenizer), "the cat danced", tokens=4)


def bert():
    tokenizer = EncoderTokenizer.train(LINES, 90)
    model = MaskedBert(
        BertConfig(**SIZES, vocabulary=len(tokenizer), context=32, inner=36, separator=tokenizer.separator)
    )
    return look_inside(Filler(_spread(model), tokenizer), "the cat [MASK]", "with the old dog")


def _spread(model):
    for name, weight in model.named_parameters():
        if name.endswith("projection.weight"):
            weight.data.normal_(std=0.8)
    return model


@pytest.mark.parametrize("make", [translator, gpt, bert])
def test_weights_of_a_model_are_shown_as_they_were_recorded(browser_page, tmp_path, make):
    torch.manual_seed(3)
    inside = make()
    inside.page().save(tmp_path / "look.html")
    browser_page.goto((tmp_path / "look.html").as_uri())
    browser_page.wait_for_selector("#model[data-painted]", state="attached")
    kinds = browser_page.locator("#kinds [data-kind]").evaluate_all("all => all.map(each => each.dataset.kind)")
    assert kinds == [view.kind for view in [*inside.views, *inside.rollouts]]
    for view in inside.views:
        browser_page.click("[data-tab=model]")
        browser_page.click(f"#kinds [data-kind={view.kind}]")
        browser_page.click("#model button[data-layer='1'][data-head='2']")
        browser_page.wait_for_selector(f"#columns[data-kind={view.kind}][data-layer='1']")
        assert browser_page.inner_text("#selection") == f"{view.title} · layer 1 · head 2"
        for row in (0, len(view.rows) - 1):
            browser_page.hover(f"li[data-side=row][data-index='{row}']")
            shown = browser_page.locator("li[data-side=column] .weights [data-head='2']").all_inner_texts()
            assert np.abs(np.array(shown, dtype=float) - view.weights[1, 2, row]).max() < 5.1e-4
            browser_page.keyboard.press("Escape")
        words = browser_page.locator("li[data-side=row] .token").all_inner_texts()
        assert [word for word in words if word.isalpha()] == [word for word in view.rows if word.isalpha()]


def test_what_else_was_seen_has_a_sheet_each(browser_page, tmp_path):
    inside = translator()
    inside.page().save(tmp_path / "look.html")
    browser_page.goto((tmp_path / "look.html").as_uri())
    tabs = browser_page.locator("[data-tab^=section]").all_inner_texts()
    assert tabs == ["Logit lens", "Residual norms", "Statistics"]
    browser_page.click("[data-tab=section-2]")
    rows = browser_page.locator("#panel-section-2 tbody tr").count()
    assert rows == 3 * 2 * 3  # kinds, layers, heads
