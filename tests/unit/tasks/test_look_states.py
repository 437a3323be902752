"""Recurrent models looked into and walked through: their states and gates over their own tokens."""

import json

import numpy as np
import pytest
import torch
from torch import nn

from manyheads.core.errors import ConfigError
from manyheads.interop.directory import load_model
from manyheads.models.classifier import DecoderClassifier
from manyheads.models.conv import ConvSeq2Seq, ConvSeq2SeqConfig
from manyheads.models.rnn import RNN, RNNConfig
from manyheads.nn.recurrent import CELLS, LSTM, Recurrence, TwoDirections
from manyheads.ops import device
from manyheads.tasks.classify.use import Classifier
from manyheads.tasks.inside.align import align
from manyheads.tasks.inside.look import look_inside, picture, tables
from manyheads.tasks.inside.states import layer_numbers
from manyheads.tasks.language.use import LanguageModel
from manyheads.tasks.translate.use import Translator
from tests.unit.tasks.tiny import LANGUAGE, NAMES, SECOND, TEXT, TRANSLATION, made, saved

GATES = {"elman": [], "gru": ["reset", "update", "candidate"], "lstm": ["input", "forget", "output", "candidate"]}
cells = pytest.mark.parametrize("cell", CELLS)


def rnn(cell: str = "lstm", **changes) -> RNN:
    torch.manual_seed(8)
    sizes = {"width": 10, "layers": 2, "vocabulary": len(LANGUAGE), "end": LANGUAGE.end}
    return made(RNN(RNNConfig(cell=cell, **{**sizes, **changes})))


def language(cell: str = "lstm") -> LanguageModel:
    return LanguageModel(rnn(cell), LANGUAGE)


def conv() -> Translator:
    torch.manual_seed(8)
    special = {"pad": TRANSLATION.pad, "start": TRANSLATION.start, "end": TRANSLATION.end}
    return Translator(
        made(ConvSeq2Seq(ConvSeq2SeqConfig(vocabulary=len(TRANSLATION), width=20, **special))), TRANSLATION
    )


@cells
def test_a_language_model_s_states_are_those_of_its_layers(tmp_path, cell):
    path = saved(tmp_path / "model", rnn(cell))
    inside = look_inside(path, TEXT, tokens=4, device="cpu")
    model, begun = load_model(path)[0], LANGUAGE.encode([TEXT])[0]
    written = LanguageModel.load(path, device="cpu").continued(begun, 4)
    assert written
    assert inside.text == TEXT + LANGUAGE.decode([written])[0]
    ids = torch.tensor([begun + written])
    with torch.inference_mode():
        x = model.embedding(ids)
        for layer, found in zip(model.layers, inside.states, strict=True):
            x = layer.written_out(x)[0]
            np.testing.assert_allclose(found.hidden, x[0], atol=1e-6)
            assert [*found.gates] == GATES[cell]
    assert [found.name for found in inside.states] == ["layers.0", "layers.1"]
    assert inside.states[0].tokens == [piece or "␣" for piece in LANGUAGE.pieces(ids[0].tolist())]
    assert inside.views == []
    assert inside.largest_difference < 1e-6
    arrays = json.loads(json.dumps(inside.arrays()))
    np.testing.assert_allclose(arrays["states"][1]["hidden"], inside.states[1].hidden)
    assert [*arrays["states"][1]["gates"]] == GATES[cell]
    assert "Hidden states of layers.1" in inside._repr_html_()


def test_a_classifier_on_top_of_it_is_looked_into_by_its_body_s_names():
    classifier = Classifier(made(DecoderClassifier(rnn(), NAMES)), LANGUAGE)
    inside = look_inside(classifier, TEXT)
    assert [found.name for found in inside.states] == ["body.layers.0", "body.layers.1"]
    with torch.inference_mode():
        ids = torch.tensor([LANGUAGE.encode([TEXT])[0]])
        np.testing.assert_allclose(inside.states[1].hidden, classifier.model.states(ids)[0], atol=1e-6)


def test_one_layer_alone_is_shown_where_it_is_asked_for():
    inside = look_inside(language(), TEXT, layer=1)
    assert [found.name for found in inside.states] == ["layers.1"]
    np.testing.assert_array_equal(inside.states[0].hidden, look_inside(language(), TEXT).states[1].hidden)


@pytest.mark.parametrize("show", ["hidden", "gates"])
@pytest.mark.parametrize("cell", ["gru", "lstm"])
def test_pictures_and_tables_are_of_the_states(cell, show):
    pytest.importorskip("matplotlib", reason="matplotlib is not installed: pip install 'manyheads[look]'")
    inside = look_inside(language(cell), TEXT)
    grids, figure = tables(inside, show, None), picture(inside, show)
    assert figure.texts[0].get_text() == f"LanguageModel: {'hidden states' if show == 'hidden' else 'gates'}"
    *panels, _ = figure.axes
    if show == "hidden":
        assert [grid.title for grid in grids] == ["Hidden states of layers.0", "Hidden states of layers.1"]
        drawn = {each.name: each.hidden for each in inside.states}
        np.testing.assert_array_equal(grids[1].numbers, inside.states[1].hidden)
    else:
        drawn = {f"{each.name}: {name}": gate for each in inside.states for name, gate in each.gates.items()}
        assert [grid.columns for grid in grids] == [GATES[cell]] * 2
        means = [gate.mean(axis=1) for gate in inside.states[1].gates.values()]
        np.testing.assert_allclose(grids[1].numbers, np.stack(means, axis=1))
    assert [panel.get_title() for panel in panels] == [*drawn]
    for panel, values in zip(panels, drawn.values(), strict=True):
        np.testing.assert_allclose(panel.images[0].get_array(), values.T)
        assert [label.get_text() for label in panel.get_xticklabels()] == inside.states[0].tokens


def test_more_states_than_memory_holds_are_refused(monkeypatch):
    monkeypatch.setattr(device, "free_memory", lambda where: 5000)
    with pytest.raises(ConfigError, match=r"states and gates need about .* shorten the text"):
        look_inside(language(), TEXT)


def test_two_directions_are_one_layer_of_their_stack():
    stacks = {name: nn.ModuleList(TwoDirections(LSTM, 4, 4) for _ in range(2)) for name in ("encoder", "decoder")}
    model = nn.ModuleDict({**stacks, "last": LSTM(4, 3)})
    ways = ("onward", "backward")
    expected = {f"{side}.{layer}.{way}": layer for side in stacks for layer in range(2) for way in ways}
    assert layer_numbers(model) == {**expected, "last": 0}
    assert all(isinstance(model.get_submodule(name), Recurrence) for name in expected)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (
            lambda: tables(look_inside(language(), TEXT), "attention", None),
            "LanguageModel has no attention .*: show hidden",
        ),
        (
            lambda: tables(look_inside(language(), TEXT), "rollout", None),
            "has no attention to look at; .*hidden or gates",
        ),
        (
            lambda: tables(look_inside(language(), TEXT), "hidden", "cross"),
            "no states of kind cross; there are layers.0",
        ),
        (lambda: tables(look_inside(language("elman"), TEXT), "gates", None), "an Elman network has no gates"),
        (lambda: tables(look_inside(language(), TEXT), "alignment", None), "only a translator aligns words"),
        (lambda: tables(look_inside(conv(), TEXT), "hidden", None), "no recurrent layers, .* nothing called hidden"),
        (lambda: look_inside(language(), TEXT, layer=2), "there is no layer 2; the model has 2, counted from 0"),
        (lambda: look_inside(language(), TEXT, layer=-1), "there is no layer -1; the model has 2, counted from 0"),
        (lambda: look_inside(language(), TEXT, head=0), "RNN has no heads; leave the choice of one away"),
    ],
)
def test_what_is_not_there_is_refused(asked, said):
    with pytest.raises(ConfigError, match=said):
        asked()


# The convolutional translator: one head in each layer, and no attention in its encoder


def test_the_alignment_of_a_translator_with_one_head_is_drawn_by_words():
    pytest.importorskip("matplotlib", reason="matplotlib is not installed: pip install 'manyheads[look]'")
    translator = conv()
    (found,) = align(translator, [(TEXT, SECOND)])
    inside = look_inside(translator, TEXT, SECOND)
    (grid,) = tables(inside, "alignment", None)
    assert (grid.rows, grid.columns) == (SECOND.split(), TEXT.split())
    np.testing.assert_allclose(grid.numbers, found.weights, atol=1e-6)
    drawn = picture(inside, "alignment")
    np.testing.assert_allclose(drawn.images[0].get_array(), found.weights, atol=1e-6)
    last = len(translator.model.decoder.blocks) - 1
    assert " ".join(drawn.get_title().split()) == f"Translator: cross-attention, layer {last}, head 0, by words"
    other = tables(look_inside(translator, TEXT, SECOND, layer=0), "alignment", None)[0]
    assert np.abs(other.numbers - found.weights).max() > 1e-2
    assert not any(view.kind == "cross rollout" for view in inside.rollouts)
    with pytest.raises(ConfigError, match="and a model whose encoder has attention"):
        tables(inside, "rollout", None)
    with pytest.raises(ConfigError, match="it predicts no words, or not from the sum that its layers add to"):
        tables(inside, "lens", None)
    assert "cross-attention" in inside.page().html


def test_a_translation_without_words_has_nothing_to_align():
    inside = look_inside(conv(), TEXT, SECOND)
    object.__setattr__(inside, "aligned", lambda: next(align(conv(), [(TEXT, " ")])))
    with pytest.raises(ConfigError, match="no words on one of the sides"):
        inside.alignment()
