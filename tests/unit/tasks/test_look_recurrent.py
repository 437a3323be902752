"""Recurrent encoders and translators, whose states and whose attention are looked at together."""

import numpy as np
import pytest
import torch

from manyheads.core.errors import ConfigError
from manyheads.models import birnn, heads, rnn_translator
from manyheads.nn.recurrent import CELLS
from manyheads.tasks.classify.use import Classifier
from manyheads.tasks.inside.align import align, all_readings
from manyheads.tasks.inside.look import look_inside, tables
from manyheads.tasks.inside.walk import walk_through
from manyheads.tasks.tag.use import Tagger
from manyheads.tasks.translate.use import Translator
from tests.unit.tasks.tiny import ENCODER, NAMES, SECOND, TEXT, TRANSLATION, made

SIDES = [f"encoder.layers.{layer}.{way}" for layer in (0, 1) for way in ("onward", "backward")]


def translator(sees: str, cell: str = "gru") -> Translator:
    torch.manual_seed(8)
    special = {"pad": TRANSLATION.pad, "start": TRANSLATION.start, "end": TRANSLATION.end}
    sizes = {"vocabulary": len(TRANSLATION), "width": 10, "layers": 2, "sees": sees, "cell": cell, **special}
    model = rnn_translator.RNNTranslator(rnn_translator.RNNTranslatorConfig(**sizes))
    return Translator(made(model, 0.6), TRANSLATION)


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("sees", ["context", "bahdanau", "dot"])
def test_a_translator_s_states_are_those_of_both_its_sides(sees, cell):
    task = translator(sees, cell)
    model, found = task.model, {each.name: each for each in look_inside(task, TEXT, SECOND).states}
    assert [*found] == [*SIDES, "decoder.layers.0", "decoder.layers.1"]
    source, target = (torch.tensor([row]) for row in TRANSLATION.encode([TEXT, SECOND]))
    before = torch.cat([torch.tensor([[TRANSLATION.start]]), target[:, :-1]], dim=1)
    with torch.inference_mode():
        encoded = model.encoder(source, torch.ones_like(source, dtype=torch.bool))[0]
        memory, mask = model.encode(source)
        state, last = model.decoding_state(), []
        for position in before.split(1, dim=1):  # step by step, as it writes
            model.decode(position, memory, mask, state)
            last.append(state.layers[-1][0][0])
    both = np.concatenate([found[name].hidden for name in SIDES[2:]], axis=1)
    np.testing.assert_allclose(both, encoded, atol=1e-6)
    np.testing.assert_allclose(found["decoder.layers.1"].hidden, torch.stack(last), atol=1e-6)
    one = look_inside(task, TEXT, SECOND, layer=1).states
    assert [each.name for each in one] == [*SIDES[2:], "decoder.layers.1"]


@pytest.mark.parametrize("sees", ["bahdanau", "dot"])
def test_one_attention_is_aligned_and_walked_through(sees):
    task = translator(sees)
    assert len(all_readings(task)) == 2
    (found,) = align(task, [(TEXT, SECOND)])
    inside = look_inside(task, TEXT, SECOND)
    np.testing.assert_allclose(tables(inside, "alignment", None)[0].numbers, found.weights, atol=1e-6)
    view = inside.view()
    assert view.weights.shape == (1, 1, len(view.rows), len(view.columns))
    np.testing.assert_allclose(view.weights.sum(axis=-1), 1.0, atol=1e-6)
    assert inside.largest_difference < 1e-5
    walk = walk_through(task, TEXT, SECOND, layer=1)
    titles = [section.title for section in walk.sections]
    assert titles[1].startswith("Layer 1, GRU, at token")
    assert titles[3:] == ["Attention", "What the model says"]
    np.testing.assert_allclose(walk.sections[3].rows[0][0].numbers, view.weights[0, 0], atol=1e-6)


def test_one_context_has_no_words_to_align():
    inside = look_inside(translator("context"), TEXT, SECOND)
    for show in ("attention", "alignment"):
        with pytest.raises(ConfigError, match="has no attention to look at"):
            tables(inside, show, None)
    titles = [section.title for section in walk_through(translator("context"), TEXT, SECOND).sections]
    assert "Attention" not in titles


@pytest.mark.parametrize("head", [Classifier, Tagger])
def test_an_encoder_of_two_directions(head):
    torch.manual_seed(8)
    body = birnn.BiRNN(birnn.BiRNNConfig(vocabulary=len(ENCODER), width=10, embedding_width=7, layers=2))
    top = heads.EncoderClassifier if head is Classifier else heads.EncoderTagger
    task = head(made(top(body, NAMES)), ENCODER)
    inside = look_inside(task, TEXT)
    row = ENCODER.wrapped(ENCODER.encode([TEXT])[0])
    assert [each.name for each in inside.states] == [name.replace("encoder", "body") for name in SIDES]
    assert inside.states[0].tokens == ENCODER.pieces(row)
    with torch.inference_mode():
        expected = task.model.body(torch.tensor([row]))[0]
    np.testing.assert_allclose(np.concatenate([each.hidden for each in inside.states[2:]], axis=1), expected, atol=1e-6)
    titles = [section.title for section in walk_through(task, TEXT, token=1).sections]
    assert [title.split(",")[1] for title in titles if title.startswith("Layer 0")] == [" onward", " backward"]
