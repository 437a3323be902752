"""What is seen of a model at work: its own weights over its own tokens, whatever the model, and as figures."""

import json
from html import escape
from pathlib import Path

import numpy as np
import pytest
import torch
from helpers import changed

from manyheads.core.errors import ConfigError, DataError
from manyheads.interop.directory import load_model, save_model
from manyheads.look import record
from manyheads.look.record import recorded_attention
from manyheads.look.rollout import cross_rollout, rollout
from manyheads.models.classifier import DecoderClassifier
from manyheads.ops import device
from manyheads.tasks.classify.use import Classifier
from manyheads.tasks.inside.look import SHOWS, look_inside, picture, tables
from manyheads.tasks.inside.prune import prune
from manyheads.tasks.language.use import LanguageModel
from manyheads.tasks.masked.use import Filler
from manyheads.tasks.translate.use import Translator
from tests.unit.tasks.tiny import ENCODER, LANGUAGE, MAKERS, NAMES, SECOND, TEXT, TRANSLATION, gpt, made, saved

ENCODERS = ("encoder", "masked", "classifier", "tagger", "answerer", "embedder")
every_model = pytest.mark.parametrize("name", [name for name in MAKERS if not name.startswith("of ")])


def labels(tokenizer, ids: list[int]) -> list[str]:
    return [piece or "␣" for piece in tokenizer.pieces(ids)]


def lens_of(inside):
    return tables(inside, "lens", None)[0]


def usual_second(name: str) -> str | None:
    """An answerer is asked about a text; the others read one."""
    return SECOND if name == "answerer" else None


def weights_of(path: Path, *rows: list[int]) -> dict[str, np.ndarray]:
    """What is recorded of a model, or of its body, on rows of ids."""
    model = load_model(path)[0]
    body = getattr(model, "body", model)
    with torch.inference_mode(), recorded_attention(body) as weights:
        body(*(torch.tensor([row]) for row in rows))
    return {name: each[0].numpy() for name, each in weights.items()}


def assert_layers(view, weights: dict[str, np.ndarray], pattern: str) -> None:
    found = [each for name, each in weights.items() if pattern in name]
    assert view.weights.shape == (len(found), *found[0].shape)
    assert (len(view.rows), len(view.columns)) == view.weights.shape[2:]
    np.testing.assert_allclose(view.weights, found, atol=1e-6)
    assert np.abs(np.roll(view.weights, 1, axis=1) - found).max() > 1e-2  # and the test can tell


# Each model


def test_a_translator_is_seen_at_its_own_translation(models):
    translator = Translator.load(models["translator"], device="cpu")
    (translation,) = translator.translate([TEXT])
    inside = look_inside(models["translator"], TEXT, device="cpu")
    assert inside.text == f"{TEXT} → {translation}"
    assert inside.model == "translator"
    assert [view.kind for view in inside.views] == ["cross", "encoder", "decoder"]
    cross, encoder, decoder = inside.views
    source = TRANSLATION.encode([TEXT])[0]
    assert cross.columns == encoder.rows == encoder.columns == labels(TRANSLATION, source)
    assert cross.rows[-1] == "</s>"
    assert 2 < len(cross.rows) < 50
    assert decoder.rows == decoder.columns == [*TRANSLATION.pieces([TRANSLATION.start]), *cross.rows[:-1]]
    assert (len(encoder.layers), len(cross.layers), len(decoder.layers)) == (2, 3, 3)
    assert inside.largest_difference < 1e-5


def test_a_translator_is_seen_at_the_translation_that_is_given(models):
    inside = look_inside(models["translator"], TEXT, "der Hund tanzte", device="cpu")
    assert inside.text == f"{TEXT} → der Hund tanzte"
    source, target = TRANSLATION.encode([TEXT, "der Hund tanzte"])
    assert inside.view().rows == labels(TRANSLATION, target)
    weights = weights_of(models["translator"], source, [TRANSLATION.start, *target[:-1]])
    assert_layers(inside.view("cross"), weights, "cross_attention")
    assert_layers(inside.view("encoder"), weights, "encoder.")
    assert_layers(
        inside.view("decoder"), {name: each for name, each in weights.items() if "cross" not in name}, "decoder."
    )


@pytest.mark.parametrize("name", ["gpt", "llama"])
def test_a_language_model_reads_and_goes_on_as_it_does_elsewhere(models, name):
    language = LanguageModel.load(models[name], device="cpu")
    row = language.encode([TEXT])[0]
    inside = look_inside(models[name], TEXT, device="cpu")
    assert inside.text == TEXT
    assert inside.view().rows == inside.view().columns == labels(LANGUAGE, row)
    assert_layers(inside.view("self"), weights_of(models[name], row), "attention")
    longer = look_inside(models[name], TEXT, tokens=5, device="cpu")
    assert longer.text == TEXT + language.generate(TEXT, tokens=5, temperature=0.0) != TEXT
    assert longer.view().rows[: len(row)] == inside.view().rows
    size = len(longer.view().rows)
    assert len(row) < size <= len(row) + 5
    np.testing.assert_allclose(longer.view().weights[:, :, : len(row), : len(row)], inside.view().weights, atol=1e-5)


def ending(model, token_id: int):
    """A model that says this token before any other."""
    with torch.no_grad():
        model.norm.weight.zero_()
        if hasattr(model.norm, "bias") and model.norm.bias is not None:
            model.norm.bias.fill_(1.0)
        else:
            model.norm.weight.fill_(1e-6)
        model.output.weight[token_id] = 5.0
    return model


def test_a_text_that_ends_is_seen_up_to_there(tmp_path):
    path = saved(tmp_path / "model", ending(gpt(tied=False), LANGUAGE.end))
    language = LanguageModel.load(path, device="cpu")
    assert language.generate(TEXT, tokens=5, temperature=0.0) == ""
    inside = look_inside(path, TEXT, tokens=5, device="cpu")
    assert inside.text == TEXT
    assert inside.view().rows == labels(LANGUAGE, language.encode([TEXT])[0])


def test_a_word_that_no_token_stands_for_is_shown_by_its_number(tmp_path):
    """Models often have more rows than their tokenizer has tokens."""
    unknown = len(LANGUAGE) + 1
    path = saved(tmp_path / "model", ending(gpt(tied=False, vocabulary=unknown + 2), unknown))
    assert set(lens_of(look_inside(path, TEXT, device="cpu")).cells[-1]) == {f"<{unknown}>"}


def test_a_chat_model_stops_at_each_of_its_ends(tmp_path):
    path = saved(tmp_path / "model", made("llama"))
    language = LanguageModel.load(path, device="cpu")
    first = language.encode([TEXT])[0]
    with torch.inference_mode():
        other = int(language.model(torch.tensor([first]))[0, -1, : len(LANGUAGE)].argmax())
    assert len(look_inside(path, TEXT, tokens=5, device="cpu").view().rows) > len(first)
    assert other != LANGUAGE.end
    changed(path, eos_token_id=[LANGUAGE.end, other])
    assert LanguageModel.load(path, device="cpu").generate(TEXT, tokens=5, temperature=0.0) == ""
    assert look_inside(path, TEXT, tokens=5, device="cpu").text == TEXT


@pytest.mark.parametrize(
    ("name", "second"),
    [
        *((name, None) for name in ENCODERS if name != "answerer"),
        *((name, SECOND) for name in ENCODERS if name not in ("classifier", "tagger")),
    ],
)
def test_an_encoder_reads_one_text_or_two_between_its_marks(models, name, second):
    inside = look_inside(models[name], TEXT, second, device="cpu")
    texts = [TEXT] if second is None else [TEXT, second]
    row = ENCODER.wrapped(*ENCODER.encode(texts))
    assert inside.text == " | ".join(texts)
    (view,) = inside.views
    assert (view.kind, view.rows, view.columns) == ("self", ENCODER.pieces(row), ENCODER.pieces(row))
    assert view.rows.count("[SEP]") == len(texts)
    assert_layers(view, weights_of(models[name], row), "attention")


def test_a_word_that_is_hidden_is_read_as_hidden(models):
    hidden = "the [MASK] danced"
    inside = look_inside(models["masked"], hidden, device="cpu")
    place = inside.view().rows.index("[MASK]")
    ((guesses,),) = Filler.load(models["masked"], device="cpu")([hidden], 1)
    grid = lens_of(inside)
    assert grid.cells[-1][place] == guesses[0].word
    assert grid.shades[-1, place] == pytest.approx(guesses[0].probability, abs=1e-5)


def test_a_decoder_s_classifier_is_seen_as_it_reads(models, tmp_path):
    inside = look_inside(models["decoder's classifier"], TEXT, device="cpu")
    row = Classifier.load(models["decoder's classifier"], device="cpu")._wrapping.rows([(TEXT,)])[0]
    assert inside.view().rows == labels(LANGUAGE, row)
    assert_layers(inside.view(), weights_of(models["decoder's classifier"], row), "attention")
    assert [grid.title for grid in inside.grids] == ["Residual norms", "Statistics of self-attention"]
    marks = ["<start>", "<delimiter>", "<extract>"]  # and with those that it was trained with
    tokenizer = LANGUAGE.with_special(marks).with_template([marks[0], "$A", marks[2]])
    model = DecoderClassifier(gpt(vocabulary=len(tokenizer)), NAMES)
    save_model(tmp_path / "model", model.eval(), tokenizer, "")
    rows = look_inside(tmp_path / "model", TEXT, device="cpu").view().rows
    assert rows == ["<start>", *labels(LANGUAGE, LANGUAGE.encode([TEXT])[0]), "<extract>"]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("classifier", "the [MASK] danced"),
        ("decoder's classifier", "a <|endoftext|> cat"),
        ("decoder's classifier", " a "),
    ],
)
def test_a_classifier_s_text_is_only_ever_text(models, name, text):
    classifier = Classifier.load(models[name], device="cpu")
    tokenizer = ENCODER if name == "classifier" else LANGUAGE
    expected = labels(tokenizer, classifier._wrapping.rows([(text,)])[0])
    assert look_inside(models[name], text, device="cpu").view().rows == expected


# What follows from the weights


@every_model
def test_rollouts_follow_the_weights_that_are_shown(models, name):
    inside = look_inside(models[name], TEXT, usual_second(name), device="cpu")
    assert [view.kind for view in inside.rollouts] == [f"{view.kind} rollout" for view in inside.views]
    for view, rolled in zip(inside.views, inside.rollouts):
        assert rolled.title == f"rollout of {view.title}"
        assert (rolled.rows, rolled.columns, rolled.layers, rolled.heads) == (
            *(view.rows, view.columns, view.layers),
            [0],
        )
        expected = (
            cross_rollout(view.weights, inside.view("encoder").weights)
            if view.kind == "cross"
            else rollout(view.weights)
        )
        np.testing.assert_allclose(rolled.weights[:, 0], expected, atol=1e-6)
        np.testing.assert_allclose(rolled.weights.sum(axis=-1), 1.0, atol=1e-5)
        assert inside.rollout(view.kind) is rolled
    assert inside.rollout() is inside.rollouts[0]


@pytest.mark.parametrize("name", ["translator", "gpt", "llama", "masked"])
@torch.inference_mode()
def test_the_last_row_of_the_lens_is_what_the_model_says_next(models, name):
    second = "der Hund tanzte" if name == "translator" else None
    inside = look_inside(models[name], TEXT, second, device="cpu")
    model, tokenizer = load_model(models[name])
    if name == "translator":
        source, target = tokenizer.encode([TEXT, second])
        logits = model(torch.tensor([source]), torch.tensor([[tokenizer.start, *target[:-1]]]))[0]
        assert lens_of(inside).columns == inside.view("decoder").rows
    else:
        row = tokenizer.wrapped(tokenizer.encode([TEXT])[0]) if name == "masked" else tokenizer.encode([TEXT])[0]
        logits = model(torch.tensor([row]))[0]
    grid = lens_of(inside)
    best = logits.softmax(dim=-1).max(dim=-1)
    assert grid.cells[-1] == labels(tokenizer, best.indices.tolist())
    np.testing.assert_allclose(grid.shades[-1], best.values, atol=1e-5)
    layers = len(inside.view("decoder" if name == "translator" else "self").layers)
    assert grid.rows == ["embedding", *(f"layer {layer}" for layer in range(layers))]
    assert grid.cells[0] != grid.cells[-1]


def test_norms_are_the_lengths_of_the_states(models):
    inside = look_inside(models["gpt"], TEXT, device="cpu")
    model = load_model(models["gpt"])[0]
    with torch.inference_mode():
        ids = torch.tensor([LANGUAGE.encode([TEXT])[0]])
        first = model.positions.add(model.embedding(ids), 0)[0].norm(dim=-1)
    grid = tables(inside, "norms", None)[0]
    np.testing.assert_allclose([float(cell) for cell in grid.cells[0]], first, atol=0.051)
    assert grid.columns == inside.view().rows
    assert len(grid.rows) == 3
    lines = [line.get_ydata() for line in picture(inside, "norms").get_lines()]
    np.testing.assert_allclose(lines, grid.numbers.T)
    np.testing.assert_allclose(lines, np.array(grid.cells, float).T, atol=0.051)
    translator = look_inside(models["translator"], TEXT, SECOND, device="cpu")
    titles = [grid.title for grid in translator.grids if grid.title.startswith("Residual")]
    assert titles == ["Residual norms of the encoder", "Residual norms of the decoder"]
    assert tables(translator, "norms", "encoder")[0].columns == translator.view("encoder").rows
    assert tables(translator, "norms", "decoder")[0].columns == translator.view("decoder").rows


@every_model
def test_there_is_a_line_of_statistics_for_each_head_of_each_kind(models, name):
    inside = look_inside(models[name], TEXT, usual_second(name), device="cpu")
    for view in inside.views:
        grid = tables(inside, "heads", view.kind)[0]
        layers, heads = view.weights.shape[:2]
        assert grid.rows == [f"layer {layer} head {head}" for layer in range(layers) for head in range(heads)]
        assert ("previous" in grid.columns) == (view.kind != "cross")
        assert all(len(row) == len(grid.columns) for row in grid.cells)


# Less than all


@pytest.mark.parametrize(("layer", "head"), [(1, 2), (1, None), (None, 0)])
def test_only_what_is_asked_for_is_recorded(models, monkeypatch, layer, head):
    whole = look_inside(models["gpt"], TEXT, device="cpu").view().weights
    computed, compute = [], record.attention_weights
    monkeypatch.setattr(
        record, "attention_weights", lambda *given, **how: computed.append(compute(*given, **how)) or computed[-1]
    )
    inside = look_inside(models["gpt"], TEXT, layer=layer, head=head, device="cpu")
    layers, heads = [0, 1] if layer is None else [layer], [0, 1, 2] if head is None else [head]
    assert [each.shape[1] for each in computed] == [len(heads)] * len(layers)
    for view in (inside.views[0], *inside.arrays()["attention"]):
        view = view if isinstance(view, dict) else vars(view)
        assert (view["layers"], view["heads"]) == (layers, heads)
        np.testing.assert_allclose(view["weights"], whole[layers][:, heads], atol=1e-6)
    assert inside.rollouts == []
    with pytest.raises(ConfigError, match="name neither a layer nor a head"):
        inside.rollout()
    assert lens_of(inside)  # which needs no weights
    translator = look_inside(models["translator"], TEXT, layer=2, head=1, device="cpu")
    found = [(view.kind, view.layers, view.heads) for view in translator.views]
    assert found == [("cross", [2], [1]), ("decoder", [2], [1])]  # a layer that only the decoder has


# Pruned models


@pytest.fixture(scope="module")
def pruned(models, tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("pruned") / "small"
    prune(models["gpt"], [(0, 1), (1, 0), (1, 2)], out)
    return out


def test_a_head_that_was_removed_is_shown_as_one_that_looks_nowhere(models, pruned):
    inside = look_inside(pruned, TEXT, device="cpu")
    view, whole = inside.view(), look_inside(models["gpt"], TEXT, device="cpu").view()
    assert view.weights.shape == whole.weights.shape
    np.testing.assert_allclose(view.weights[0, [0, 2]], whole.weights[0, [0, 2]], atol=1e-6)
    assert view.weights[1, 1].any()
    assert not any(view.weights[place].any() for place in ((0, 1), (1, 0), (1, 2)))
    (grid,) = tables(inside, "heads", None)
    looks = dict(zip(grid.rows, (row[0] for row in grid.cells)))
    gone = {name for name, word in looks.items() if word == "removed"}
    assert gone == {"layer 0 head 1", "layer 1 head 0", "layer 1 head 2"}
    assert len(inside.page().html) > 1000
    np.testing.assert_allclose(
        look_inside(pruned, TEXT, layer=0, head=2, device="cpu").view().weights[0, 0], whole.weights[0, 2], atol=1e-6
    )
    with pytest.raises(ConfigError, match=r"no head 0 in layer 1 .* has 1; others were removed"):
        look_inside(pruned, TEXT, layer=1, head=0, device="cpu")


def test_rollouts_and_figures_are_of_the_heads_that_are_left(models, pruned, tmp_path):
    inside = look_inside(pruned, TEXT, device="cpu")
    weights = inside.view().weights
    left = np.stack([weights[0, [0, 2]].mean(axis=0), weights[1, [1]].mean(axis=0)])[:, None]
    np.testing.assert_allclose(inside.rollout().weights[:, 0], rollout(left), atol=1e-6)
    drawn = picture(inside)
    assert "layer 1, mean of 1 heads" in words_of(drawn)
    np.testing.assert_allclose(drawn.images[0].get_array(), weights[1, 1])
    prune(models["translator"], [("cross", 0, 1), ("cross", 2, 0)], tmp_path / "small")
    translator = look_inside(tmp_path / "small", TEXT, SECOND, device="cpu")
    np.testing.assert_allclose(translator.rollout("cross").weights.sum(axis=-1), 1.0, atol=1e-5)


# As numbers and as a page


@every_model
def test_arrays_are_plain_and_say_what_was_seen(models, name):
    inside = look_inside(models[name], TEXT, usual_second(name), device="cpu")
    arrays = json.loads(json.dumps(inside.arrays()))
    assert (arrays["model"], arrays["text"]) == (inside.model, inside.text)
    assert arrays["largest_difference"] == inside.largest_difference < 1e-4
    for found, view in zip(arrays["attention"], [*inside.views, *inside.rollouts], strict=True):
        np.testing.assert_array_equal(np.array(found["weights"], np.float32), view.weights)
        for field in ("kind", "title", "layers", "heads", "rows", "columns"):
            assert found[field] == getattr(view, field)
    for found, grid in zip(arrays["tables"], inside.grids, strict=True):
        assert (found["title"], found["cells"]) == (grid.title, grid.cells)
        assert ("numbers" in found) == (grid.numbers is not None) == (not grid.title.startswith("Statistics"))
        if "numbers" in found:
            np.testing.assert_allclose(found["numbers"], grid.numbers)
            assert np.shape(found["numbers"]) == (len(grid.rows), len(grid.columns))


@pytest.mark.parametrize("name", ["translator", "gpt", "encoder"])
def test_the_page_has_the_text_and_all_tables_and_nothing_of_it_is_markup(models, name):
    text = '<b>the dog</b> & "cat" </script>'
    inside = look_inside(models[name], text, device="cpu")
    html = inside.page().html
    assert escape(inside.text).encode("ascii", "xmlcharrefreplace").decode() in html
    assert "<b>the" not in html
    assert f"<title>{name}</title>" in html
    for grid in inside.grids:
        assert grid.title in html
    assert escape(html) in inside._repr_html_()


# What cannot be


def test_more_weights_than_memory_holds_are_refused_and_those_of_one_head_are_not(models, monkeypatch):
    model = LanguageModel.load(models["gpt"], device="cpu")
    monkeypatch.setattr(device, "free_memory", lambda where: 5000)
    with pytest.raises(ConfigError, match=r"attention weights need about .* shorten the text, or name a layer and a"):
        look_inside(model, TEXT)
    assert look_inside(model, TEXT, layer=0, head=1).views


@pytest.mark.parametrize("name", ["gpt", "llama"])
def test_tokens_that_have_no_place_behind_the_text(models, name):
    tokens = len(LANGUAGE.encode([TEXT])[0])
    rest = 31 - tokens
    assert len(look_inside(models[name], TEXT, tokens=rest, device="cpu").view().rows) <= 31
    said = f"'{TEXT}' has {tokens} tokens and {rest + 1} more are asked for, but the model reads 31; shorten it, or ask"
    with pytest.raises(DataError, match=f"{said} for fewer"):
        look_inside(models[name], TEXT, tokens=rest + 1, device="cpu")


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("gpt", {"tokens": -1}, "-1 tokens are asked for; it must be at least 0"),
        *(
            (name, {"tokens": tokens}, "only a language model goes on from a text; this is none, so leave the tokens")
            for name in MAKERS
            if name not in ("gpt", "llama", "of pairs", "of numbers", "of choices")
            for tokens in (3, -1)
        ),
    ],
)
def test_what_a_model_cannot_do_is_refused(models, name, options, said):
    with pytest.raises(ConfigError) as refused:
        look_inside(models[name], TEXT, **options, device="cpu")
    assert str(refused.value).startswith(said)


# Figures


def words_of(drawn) -> str:
    """All that is written in a figure."""
    matplotlib = pytest.importorskip("matplotlib")
    figure = drawn.figure.figure
    texts = figure.findobj(matplotlib.text.Text)
    return " ".join(" ".join(text.get_text().split()) for text in texts)


LENSLESS = ("classifier", "decoder's classifier")


@pytest.mark.parametrize("name", ["translator", "gpt", "llama", "masked", *LENSLESS])
@pytest.mark.parametrize("show", SHOWS)
def test_every_figure_of_every_family_says_what_it_is_of(models, name, show):
    inside = look_inside(models[name], TEXT, device="cpu")
    lacking = {
        "lens": "this model has no logit lens: it predicts no words" if name in LENSLESS else None,
        "alignment": "only a translator aligns words; this is none" if name != "translator" else None,
        **{each: f"this model has no recurrent layers, so .* nothing called {each}" for each in ("hidden", "gates")},
    }
    if why := lacking.get(show):
        for shown in (lambda: picture(inside, show), lambda: tables(inside, show, None)):
            with pytest.raises(ConfigError, match=why):
                shown()
        return
    drawn = picture(inside, show)
    words, view = words_of(drawn), inside.views[0]
    last = view.layers[-1]
    wanted = {
        "attention": f"{name}: {view.title}, layer {last}, mean of {len(view.heads)} heads",
        "alignment": f"{name}: {view.title}, layer {last}, mean of {len(view.heads)} heads, by words",
        "heads": f"{name}: {view.title}",
        "rollout": f"{name}: rollout of {view.title}, up to layer {last}",
        "lens": f"{name}: logit lens",
        "norms": f"{name}: residual norms",
    }
    assert wanted[show] in words
    if show == "heads":
        assert f"layer {last}" in words
        assert "head 0" in words
    elif show != "norms":
        tokens = {"lens": lambda: lens_of(inside).columns, "alignment": TEXT.split}.get(show, lambda: view.columns)()
        assert [label.get_text() for label in drawn.get_xticklabels()] == tokens
    printed = {
        **{
            "attention": [],
            "alignment": ["Alignment"],
            "lens": ["Logit lens"],
            "rollout": [f"rollout of {view.title}"],
        },
        "heads": [f"Statistics of {each.title}" for each in inside.views],
        "norms": [grid.title for grid in inside.grids if "norms" in grid.title],
    }
    assert [grid.title for grid in tables(inside, show, None)] == printed[show]


def test_a_figure_of_one_head_says_its_layer_and_number(models):
    inside = look_inside(models["llama"], TEXT, layer=1, head=4, device="cpu")
    drawn = picture(inside)
    assert "llama: self-attention, layer 1, head 4" in words_of(drawn)
    np.testing.assert_allclose(drawn.images[0].get_array(), inside.view().weights[0, 0])


@pytest.mark.parametrize("kind", ["cross", "encoder", "decoder"])
def test_a_figure_of_a_translator_is_of_the_kind_that_is_asked_for(models, kind):
    inside = look_inside(models["translator"], TEXT, SECOND, device="cpu")
    view = inside.view(kind)
    drawn = picture(inside, "attention", kind)
    assert f"{view.title}, layer {view.layers[-1]}" in words_of(drawn)
    np.testing.assert_allclose(drawn.images[0].get_array(), view.weights[-1].mean(axis=0))
    assert f"rollout of {view.title}" in words_of(picture(inside, "rollout", kind))
    assert view.title in words_of(picture(inside, "heads", kind))
    assert [grid.title for grid in tables(inside, "heads", kind)] == [f"Statistics of {view.title}"]


@pytest.mark.parametrize("shown", [picture, tables])
def test_what_cannot_be_shown_is_refused_with_what_can(models, shown):
    inside = look_inside(models["gpt"], TEXT, device="cpu")
    for show in ("attention", "heads", "rollout"):
        with pytest.raises(ConfigError, match="there is no sideways attention in what is looked at; there is self"):
            shown(inside, show, "sideways")
    with pytest.raises(ConfigError) as refused:
        shown(inside, "soul", None)
    assert str(refused.value) == f"there is nothing called soul to show; there are {', '.join(SHOWS)}"
