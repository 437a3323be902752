"""Texts as each model reads them: look and walk read them alike, and what a model cannot read is refused."""

from pathlib import Path

import pytest
import torch

from manyheads.core.errors import ConfigError, DataError
from manyheads.interop.directory import save_model
from manyheads.models.bert import Bert, BertAnswerer, BertClassifier, BertConfig, BertEmbedder, BertTagger, MaskedBert
from manyheads.models.classifier import DecoderClassifier
from manyheads.models.gpt import GPT, GPTConfig
from manyheads.models.transformer import Transformer, TransformerConfig
from manyheads.nn.positions import PositionsConfig
from manyheads.tasks.answer.use import Answerer
from manyheads.tasks.classify.use import Classifier
from manyheads.tasks.inside.forward import called, opened, read, tokens_of
from manyheads.tasks.inside.look import look_inside
from manyheads.tasks.inside.walk import walk_through
from manyheads.tasks.language.use import LanguageModel
from manyheads.tasks.tag.use import Tagger
from manyheads.tasks.translate.use import EXTRA_TOKENS, Translator
from manyheads.text.encoder import EncoderTokenizer
from manyheads.text.language import LanguageTokenizer
from manyheads.text.tokenizer import Tokenizer

LINES = ["a dog sleeps under the table", "the cat danced", "ein Hund schläft unter dem Tisch"] * 3
TEXT, SECOND = "the dog danced under a cat", "a table sleeps"
NAMES = ("bad", "so so", "good")
LANGUAGE = LanguageTokenizer.train(LINES, 270)
ENCODER = EncoderTokenizer.train(LINES, 60)
TRANSLATION = Tokenizer.train(LINES, 300)


def gpt() -> GPT:
    sizes = {"vocabulary": len(LANGUAGE), "context": 61, "width": 15, "layers": 2, "heads": 3}
    return GPT(GPTConfig(**sizes, end=LANGUAGE.end))


def bert(**options) -> Bert:
    sizes = {"context": 61, "width": 15, "layers": 2, "heads": 3, "separator": ENCODER.separator}
    return Bert(BertConfig(vocabulary=len(ENCODER), **sizes), **options)


def transformer(**changes) -> Transformer:
    special = {"pad": TRANSLATION.pad, "start": TRANSLATION.start, "end": TRANSLATION.end}
    sizes = {"vocabulary": len(TRANSLATION), "width": 15, "layers": 1, "heads": 3, "inner": 21}
    return Transformer(TransformerConfig(**sizes, **special, **changes))


MODELS = {
    "gpt": (gpt, LANGUAGE, [TEXT]),
    "translator": (transformer, TRANSLATION, [TEXT, SECOND]),
    "masked": (lambda: MaskedBert(bert().config), ENCODER, ["the [MASK] danced", SECOND]),
    "classifier": (lambda: BertClassifier(bert(), NAMES), ENCODER, [" the [MASK] danced"]),
    "of pairs": (lambda: BertClassifier(bert(), NAMES, "pair"), ENCODER, [TEXT, SECOND]),
    "decoder's classifier": (lambda: DecoderClassifier(gpt(), NAMES, "either"), LANGUAGE, [TEXT, " a cat "]),
    "tagger": (lambda: BertTagger(bert(pooler=False), NAMES), ENCODER, [" the  dog danced "]),
    "answerer": (lambda: BertAnswerer(bert(pooler=False)), ENCODER, [TEXT, SECOND]),
    "embedder": (lambda: BertEmbedder(bert(pooler=False)), ENCODER, [TEXT, SECOND]),
}


PREDICTORS = {
    "gpt": LanguageModel,
    "classifier": Classifier,
    "of pairs": Classifier,
    "tagger": Tagger,
    "answerer": Answerer,
}


@pytest.mark.parametrize("name", MODELS)
def test_look_and_walk_read_the_same(tmp_path, name):
    make, tokenizer, texts = MODELS[name]
    torch.manual_seed(5)
    save_model(tmp_path / name, make().eval(), tokenizer, "")
    who, predictor = opened(tmp_path / name, "cpu")
    reading = read(predictor, *texts)
    assert who == name
    inside, walk = (see(tmp_path / name, *texts, device="cpu") for see in (look_inside, walk_through))
    stacks = {"encoder", "decoder"} if name == "translator" else {"self"}
    assert set(reading.ids) == stacks
    for grid, (stack, ids) in zip(walk.sections[0].rows[0], reading.ids.items(), strict=True):
        assert [int(row[0]) for row in grid.cells] == ids
        assert inside.view(stack).rows == grid.rows == tokens_of(tokenizer, ids)


@pytest.mark.parametrize(
    ("name", "texts", "error", "said"),
    [
        ("gpt", [TEXT, SECOND], ConfigError, "a language model reads one text; leave the second away"),
        ("classifier", [TEXT, SECOND], ConfigError, "this model reads one text; leave the second away"),
        ("tagger", [TEXT, SECOND], ConfigError, "a tagger reads one text; leave the second away"),
        ("of pairs", [TEXT], DataError, "this model compares two texts; give the second behind the first"),
        ("answerer", [TEXT], DataError, "this model reads a question and a text; give the text behind the question"),
    ],
)
def test_one_text_in_place_of_two_and_two_in_place_of_one_are_refused(name, texts, error, said):
    make, tokenizer, _ = MODELS[name]
    with pytest.raises(error) as refused:
        read(PREDICTORS[name](make(), tokenizer), *texts)
    assert str(refused.value) == said


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


def test_what_is_no_model_is_refused(tmp_path):
    for nothing in (7, None, gpt()):
        with pytest.raises(ConfigError, match="is no model to look into; give its directory, or a Translator or the"):
            opened(nothing)


def test_a_model_is_called_by_the_last_part_of_its_path_that_says_something(monkeypatch, tmp_path):
    (tmp_path / "mine" / "model").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "mine")
    for path, name in ((".", "mine"), ("model", "mine"), ("other", "other"), ("../mine/model", "mine")):
        assert called(Path(path)) == name
