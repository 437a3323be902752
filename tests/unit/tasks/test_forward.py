"""Texts as each model reads them: look and walk read them alike, and what a model cannot read is refused."""

from pathlib import Path

import pytest
import torch

from manyheads.core.errors import CheckpointError, ConfigError, DataError, ManyheadsError
from manyheads.models.classifier import DecoderClassifier
from manyheads.nn.positions import PositionsConfig
from manyheads.tasks.classify.use import Classifier
from manyheads.tasks.inside.forward import called, opened, read, tokens_of
from manyheads.tasks.inside.look import look_inside
from manyheads.tasks.inside.walk import walk_through
from manyheads.tasks.translate.use import EXTRA_TOKENS, Translator
from tests.unit.tasks.tiny import (
    ENCODER,
    LANGUAGE,
    NAMES,
    PREDICTORS,
    SECOND,
    TEXT,
    TRANSLATION,
    gpt,
    ready,
    saved,
    transformer,
)

TEXTS = {
    **{name: [TEXT, SECOND] for name in ("translator", "encoder", "of pairs", "of numbers", "answerer", "embedder")},
    **{"gpt": [TEXT], "llama": [TEXT], "masked": ["the [MASK] danced", SECOND], "tagger": [" the  dog danced "]},
    **{"classifier": [" the [MASK] danced"], "decoder's classifier": [" a <|endoftext|> cat "]},
}
both = pytest.mark.parametrize("see", [look_inside, walk_through])


@pytest.mark.parametrize("name", TEXTS)
def test_look_and_walk_read_the_same_of_a_directory_and_of_what_is_ready_to_use(models, name):
    texts = TEXTS[name]
    who, predictor = opened(models[name], "cpu")
    assert (who, type(predictor)) == (name, PREDICTORS[name])
    reading = read(predictor, *texts)
    inside, walk = (see(models[name], *texts, device="cpu") for see in (look_inside, walk_through))
    assert set(reading.ids) == ({"encoder", "decoder"} if name == "translator" else {"self"})
    for grid, (stack, ids) in zip(walk.sections[0].rows[0], reading.ids.items(), strict=True):
        assert [int(row[0]) for row in grid.cells] == ids
        assert inside.view(stack).rows == grid.rows == tokens_of(predictor.tokenizer, ids)
    again = look_inside(predictor, *texts)
    assert again.model == PREDICTORS[name].__name__
    assert {**again.arrays(), "model": name} == inside.arrays()
    assert walk_through(predictor, *texts).text() == walk.text()


ONE = "reads one text; leave the second away"


@both
@pytest.mark.parametrize(
    ("name", "texts", "error", "said"),
    [
        ("gpt", [TEXT, SECOND], ConfigError, f"a language model {ONE}"),
        ("llama", [TEXT, SECOND], ConfigError, f"a language model {ONE}"),
        ("classifier", [TEXT, SECOND], ConfigError, f"this model {ONE}"),
        ("decoder's classifier", [TEXT, SECOND], ConfigError, f"this model {ONE}"),
        ("tagger", [TEXT, SECOND], ConfigError, f"a tagger {ONE}"),
        ("of pairs", [TEXT], DataError, "this model compares two texts; give the second behind the first"),
        ("answerer", [TEXT], DataError, "this model reads a question and a text; give the text behind the question"),
    ],
)
def test_one_text_in_place_of_two_and_two_in_place_of_one_are_refused(models, see, name, texts, error, said):
    with pytest.raises(error) as refused:
        see(models[name], *texts, device="cpu")
    assert str(refused.value) == said


@both
@pytest.mark.parametrize("name", TEXTS)
def test_no_text_is_refused(models, see, name):
    for texts in (("",), (" \n\t", SECOND), (TEXT, ""), (TEXT, " ")):
        with pytest.raises(DataError, match="the text is empty; give a sentence behind the model, in quotes"):
            see(models[name], *texts, device="cpu")


@both
@pytest.mark.parametrize("name", [name for name in TEXTS if name != "translator"])
def test_a_text_that_the_model_cannot_read_is_refused_with_both_numbers(models, see, name):
    tokenizer, texts = opened(models[name], "cpu")[1].tokenizer, [TEXT * 9, *TEXTS[name][1:]]
    rows = tokenizer.encode(texts)
    tokens = len(tokenizer.wrapped(*rows) if tokenizer is not LANGUAGE and hasattr(tokenizer, "wrapped") else rows[0])
    most = 29 if name == "embedder" else 31
    said = rf"has {tokens} tokens, but the model (reads|sees) {most}; shorten it"
    with pytest.raises(ManyheadsError, match=said):
        see(models[name], *texts, device="cpu")


@both
def test_two_texts_that_are_too_long_together_are_refused_by_the_first(models, see):
    tokens = len(ENCODER.wrapped(*ENCODER.encode([TEXT, TEXT * 4])))
    with pytest.raises(DataError, match=f"^'{TEXT}' has {tokens} tokens, but the model reads 31; shorten it"):
        see(models["encoder"], TEXT, TEXT * 4, device="cpu")


@both
@pytest.mark.parametrize("texts", [(TEXT * 5,), (TEXT * 5, "x"), (TEXT, TEXT * 5)])
def test_a_translator_with_a_table_of_positions_ends_where_that_ends(see, texts):
    tokens = max(len(row) for row in TRANSLATION.encode(texts))
    with pytest.raises(DataError, match=rf"has {tokens} tokens, but the model reads 23; shorten it"):
        see(ready("translator", positions=PositionsConfig(kind="learned", length=23)), *texts)


@both
@pytest.mark.parametrize("texts", [("a " * 2000,), (TEXT, "a " * 2000)])
def test_a_translator_of_any_length_is_not_looked_into_for_hours(models, see, texts):
    with pytest.raises(DataError, match=r"has [24],\d{3} tokens, but the model reads 1,024; shorten it"):
        see(models["translator"], *texts)


@both
@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("gpt", {"layer": 2}, "there is no layer 2; the model has 2, counted from 0"),
        ("gpt", {"layer": -1}, "there is no layer -1; the model has 2"),
        ("gpt", {"head": 3}, "there is no head 3 in layer 0 of self-attention, which has 3, counted from 0"),
        ("llama", {"layer": 1, "head": 6}, "there is no head 6 in layer 1 of self-attention, which has 6"),
        ("translator", {"layer": 3}, "there is no layer 3; the model has 3"),
    ],
)
def test_layers_and_heads_that_are_not_there_are_refused(models, see, name, options, said):
    with pytest.raises(ConfigError) as refused:
        see(models[name], TEXT, **options, device="cpu")
    assert str(refused.value).startswith(said)


def test_a_classifier_of_either_form_reads_one_text_or_two():
    model = DecoderClassifier(gpt(), NAMES, "either").eval()
    for texts in ((TEXT,), (TEXT, SECOND)):
        reading = read(Classifier(model, LANGUAGE), *texts)
        expected = Classifier(model, LANGUAGE).probabilities([texts if len(texts) > 1 else TEXT])[0]
        with torch.inference_mode():
            torch.testing.assert_close(reading.run()[0].softmax(dim=0), expected)
        assert reading.texts == texts


@pytest.mark.parametrize("length", [None, 31])
def test_a_translation_that_is_cut_at_its_limit_has_no_end(length):
    torch.manual_seed(6)
    positions = {} if length is None else {"positions": PositionsConfig(kind="learned", length=length)}
    model = transformer(**positions).eval()
    source = TRANSLATION.encode([TEXT])[0]
    limit = length or len(source) + EXTRA_TOKENS
    model.output.bias.data[TRANSLATION.end] = -1e4
    reading = read(Translator(model, TRANSLATION), TEXT)
    assert len(reading.written) == len(reading.ids["decoder"]) == limit
    assert TRANSLATION.end not in reading.written
    assert reading.says == Translator(model, TRANSLATION).translate([TEXT])[0]
    model.output.bias.data[TRANSLATION.end] = 1e4
    assert read(Translator(model, TRANSLATION), TEXT).written == [TRANSLATION.end]


def test_a_space_has_a_mark():
    ids = LANGUAGE.encode(["a  dog"])[0]
    assert "␣" in tokens_of(LANGUAGE, ids)
    assert "" not in tokens_of(LANGUAGE, ids)


@pytest.mark.parametrize("see", [look_inside, walk_through, lambda source, _: opened(source)])
def test_what_is_no_model_is_refused(tmp_path, see):
    for nothing in (7, None, gpt()):
        with pytest.raises(ConfigError, match="is no model to look into; give its directory, or a Translator or the"):
            see(nothing, TEXT)
    with pytest.raises(CheckpointError, match="does not exist"):
        see(tmp_path / "nothing", TEXT)


def test_a_model_is_called_by_the_last_part_of_its_path_that_says_something(monkeypatch, tmp_path):
    path = saved(tmp_path / "mine" / "model", gpt())
    for run in (tmp_path / "mine", str(path)):
        assert look_inside(run, TEXT, device="cpu").model == "mine"
    monkeypatch.chdir(tmp_path / "mine")
    for path, name in ((".", "mine"), ("model", "mine"), ("other", "other"), ("../mine/model", "mine")):
        assert called(Path(path)) == name
