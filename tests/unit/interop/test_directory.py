"""Model directories: whatever is wrong with one is a sentence that says what to do."""

import json
import re
import shutil
from dataclasses import dataclass
from types import SimpleNamespace

import pytest
import torch
from helpers import changed, config_of, language_tokenizer, rewritten
from safetensors.torch import load_file, save_file
from torch import nn

from manyheads.core.checksums import CHECKSUMS
from manyheads.core.errors import CheckpointError, ManyheadsError
from manyheads.interop.directory import load_model, save_model
from manyheads.interop.families import ENCODERS, FAMILIES, Family
from manyheads.interop.weights import Undrawn, own_views, read_into
from manyheads.models.bert import Bert, BertAnswerer, MaskedBert
from manyheads.models.classifier import DecoderClassifier
from manyheads.models.gpt import GPT, GPTConfig
from manyheads.models.heads import EncoderClassifier, EncoderTagger
from manyheads.models.llama import Llama
from manyheads.models.transformer import Transformer
from manyheads.text.encoder import EncoderTokenizer
from manyheads.text.language import LanguageTokenizer
from manyheads.text.tokenizer import Tokenizer

LANGUAGE = (GPT, Llama)
DECODERS = (DecoderClassifier,)
CLASSIFIERS = (DecoderClassifier, EncoderClassifier)
NAMES = ["translator", "gpt", "llama", "own", "classifier", "encoder", "tagger"]
MODELS = ("translator", "gpt", "llama", "own", "classifier", "encoder", "masked", "tagger")
ENCODING = ("encoder", "masked", "bert classifier", "tagger", "answerer")


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("translator", (Transformer,)),
        ("gpt", LANGUAGE),
        ("llama", LANGUAGE),
        ("own", (GPT,)),
        ("classifier", DECODERS),
        ("classifier", CLASSIFIERS),
        ("encoder", ENCODERS),
        ("tagger", (EncoderTagger,)),
        ("tagger", (EncoderClassifier, EncoderTagger)),
    ],
)
def test_what_was_asked_for_opens_ready_to_use(directories, name, kinds):
    for asked in (kinds, None):
        model, tokenizer = load_model(directories / name, asked)
        assert isinstance(model, kinds)
        assert not model.training
        kind = {"translator": Tokenizer, **dict.fromkeys(ENCODING, EncoderTokenizer)}
        assert isinstance(tokenizer, kind.get(name, LanguageTokenizer))
    assert (directories / name / "README.md").read_text() == "# A model\n"


@pytest.mark.parametrize(
    ("name", "kinds", "sentence"),
    [
        ("translator", LANGUAGE, "a translator (marian); a language model (GPT-2, GPT-1, Llama) is asked for here"),
        ("gpt", (Transformer,), "a language model (gpt2); a translator (Marian) is asked for here"),
        ("own", (Llama,), "a language model (manyheads-gpt); a language model (Llama) is asked for here"),
        ("classifier", LANGUAGE, "a classifier (gpt2); a language model (GPT-2, GPT-1, Llama) is asked for here"),
        ("llama", DECODERS, "a language model (llama); a classifier (GPT-2, GPT-1, Llama, "),
        ("translator", (GPT, *DECODERS), "a translator (marian); a language model (GPT-2, GPT-1) or a classifier ("),
        ("tagger", LANGUAGE, "a tagger (bert); a language model (GPT-2, GPT-1, Llama) is asked for here"),
        ("tagger", CLASSIFIERS, "a tagger (bert); a classifier (GPT-2, GPT-1, Llama, "),
        ("gpt", CLASSIFIERS, "a language model (gpt2); a classifier (GPT-2, GPT-1, Llama, "),
        ("gpt", (EncoderTagger,), "a language model (gpt2); a tagger (BERT"),
        ("encoder", (GPT,), "an encoder (bert); a language model (GPT-2, GPT-1) is asked for here"),
        ("masked", (EncoderTagger,), "a masked language model (bert); a tagger (BERT"),
        ("answerer", (EncoderTagger,), "a question answerer (bert); a tagger (BERT"),
        ("bert classifier", (MaskedBert, GPT), "a classifier (bert); a language model (GPT-2, GPT-1) or"),
        ("gpt", ENCODERS, "a language model (gpt2); an encoder (BERT)"),
    ],
)
def test_a_model_of_another_kind_is_refused(directories, name, kinds, sentence):
    with pytest.raises(CheckpointError) as error:
        load_model(directories / name, kinds)
    assert f"{directories / name} holds {sentence}" in str(error.value)


def test_an_unknown_type_is_told_the_known_ones(copied):
    directory = copied("gpt")
    changed(directory, model_type="t5")
    for kinds, sentence in {
        (Transformer,): "type t5; translators are of type marian or manyheads-transformer",
        LANGUAGE: "language models are of type gpt2, openai-gpt, manyheads-gpt, llama or manyheads-llama",
        ENCODERS: "models are of type bert, manyheads-bert",
        (Bert,): "holds a model of type t5; encoders are of type bert",
        (EncoderClassifier,): "classifiers are of type bert",
        (BertAnswerer,): "question answerers are of type bert",
        (GPT, EncoderTagger): "models are of type gpt2, openai-gpt, manyheads-gpt, bert",
        None: "models are of type marian, .*manyheads-gpt, .*bert, .* or manyheads-",
    }.items():
        with pytest.raises(CheckpointError, match=sentence):
            load_model(directory, kinds)
    changed(directory, model_type=["gpt2"])
    with pytest.raises(CheckpointError, match="holds a model of type"):
        load_model(directory)


@pytest.mark.parametrize("name", NAMES)
def test_a_file_that_is_cut_or_gone_is_a_sentence(copied, name):
    directory = copied(name)
    for file in ("model.safetensors", "config.json", "tokenizer.json"):
        whole = (directory / file).read_bytes()
        (directory / file).write_bytes(whole[: len(whole) // 2])
        with pytest.raises(ManyheadsError, match=file.replace(".", r"\.")):
            load_model(directory)
        (directory / file).unlink()
        with pytest.raises(ManyheadsError, match=file.replace(".", r"\.")):
            load_model(directory)
        (directory / file).write_bytes(whole)
    load_model(directory)


@pytest.mark.parametrize("value", ["gone", None, "wide", [3], -1, 0])
def test_a_config_may_say_anything(copied, value):
    sizes = {"n_embd", "n_head", "n_layer", "hidden_size", "num_attention_heads", "head_dim"}
    for name, keys in (
        *((name, sizes) for name in ("gpt", "llama", "classifier")),
        ("tagger", {"hidden_size", "num_attention_heads", "num_hidden_layers", "intermediate_size", "vocab_size"}),
    ):
        directory = copied(name)
        table = config_of(directory)
        for key in table.keys() & keys:
            if key == "head_dim" and value in ("gone", None):  # then it follows from the others
                continue
            with pytest.raises(ManyheadsError) as refused:
                load_model(changed(directory, **{key: value}))
            assert "\n" not in str(refused.value)
            changed(directory, **{key: table[key]})
        load_model(directory)


def test_a_tokenizer_that_knows_more_than_the_model_is_refused(copied):
    directory, words = copied("gpt"), language_tokenizer()
    words.with_special(["<one>", "<two>"]).save(directory)
    with pytest.raises(CheckpointError, match=f"has {len(words) + 2} tokens, the model only {len(words)}"):
        load_model(directory)


def test_a_translator_wider_than_its_config_says_is_refused(copied):
    """Its weights are put in another order, which may not cut them."""
    with pytest.raises(CheckpointError, match=r"of shape \[\d+, 12\]; its config says \[\d+, 9\]"):
        load_model(changed(copied("translator"), d_model=9))


@dataclass(frozen=True, kw_only=True)
class PictureConfig:
    """The sizes of a model that reads pictures."""

    pixels: int = 6


class PictureModel(nn.Module):
    """Pixels in, two numbers out: no attention, no vocabulary, no context."""

    def __init__(self, config: PictureConfig):
        super().__init__()
        self.config, self.score = config, nn.Linear(config.pixels, 2)


class PictureReader:
    """A processor that knows of no tokens."""

    def __init__(self, mean: float):
        self.mean = mean

    @classmethod
    def load(cls, path):
        return cls(json.loads((path / "preprocessor_config.json").read_text())["image_mean"])

    def save(self, directory, length=None):
        (directory / "preprocessor_config.json").write_text(json.dumps({"image_mean": self.mean}))


@pytest.mark.parametrize("published", [True, False])
def test_a_family_is_one_entry_whatever_its_models_read(tmp_path, monkeypatch, published):
    foreign = SimpleNamespace(
        TYPES=("picture",),
        SCHEMA={"image_size": int},
        fits=lambda model: published,
        write_config=lambda config: {"model_type": "picture", "image_size": config.pixels},
        read_config=lambda table: PictureConfig(pixels=table["image_size"]),
        kind=lambda table: PictureModel,
        build=lambda table, config, weights, reader: PictureModel(config),
        finish=lambda directory, table, model, reader: table,
        write_tensors=lambda model: {f"their.{name}": view.contiguous() for name, view in own_views(model).items()},
        read_tensors=lambda model, theirs: read_into(
            {f"their.{name}": view for name, view in own_views(model).items()}, theirs, "a picture model"
        ),
    )
    names = {
        "known_as": "Picture",
        "kinds": {PictureModel: "picture model"},
        "own": {"model_type": "manyheads-picture"},
    }
    family = Family(model=PictureModel, config=PictureConfig, foreign=foreign, processor=PictureReader, **names)
    monkeypatch.setattr("manyheads.interop.directory.FAMILIES", (*FAMILIES, family))
    model = PictureModel(PictureConfig(pixels=5))
    save_model(tmp_path / "model", model, PictureReader(0.25), "# A model\n")
    found, reader = load_model(tmp_path / "model", (PictureModel,))
    assert (type(found), type(reader), reader.mean) == (PictureModel, PictureReader, 0.25)
    assert torch.equal(found.score.weight, model.score.weight)
    assert config_of(tmp_path / "model")["model_type"] == ("picture" if published else "manyheads-picture")
    with pytest.raises(CheckpointError, match=r"holds a picture model \(.*picture\); a translator"):
        load_model(tmp_path / "model", (Transformer,))


@pytest.fixture
def shards(copied):
    """A model in two files and their index."""
    directory = copied("llama")
    tensors = load_file(directory / "model.safetensors")
    (directory / "model.safetensors").unlink()
    names = sorted(tensors)
    halves = {"model-00001-of-00002.safetensors": names[:4], "model-00002-of-00002.safetensors": names[4:]}
    for file, part in halves.items():
        save_file({name: tensors[name] for name in part}, directory / file)
    places = {name: file for file, part in halves.items() for name in part}
    (directory / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": places}))
    return directory


def test_shards_that_do_not_fit_their_index_are_a_sentence(shards):
    load_model(shards)
    first, index = shards / "model-00001-of-00002.safetensors", shards / "model.safetensors.index.json"
    whole, table = first.read_bytes(), json.loads(index.read_text())

    def refused(sentence):
        with pytest.raises(CheckpointError, match=sentence):
            load_model(shards)

    first.unlink()
    refused("model-00001-of-00002.safetensors, which model.safetensors.index.json names, is not there; fetch")
    first.write_bytes(whole[:-3])
    refused("model-00001-of-00002.safetensors is damaged")
    first.write_bytes(whole)
    for places, sentence in (
        ({**table["weight_map"], "model.more": first.name}, "has no tensor model.more, which model.safetensors.index"),
        ({**table["weight_map"], "lm_head.weight": "model-00002-of-00002.safetensors"}, "has no tensor lm_head.weight"),
        ({**table["weight_map"], "lm_head.weight": f"../{shards.name}/{first.name}"}, "leads out of"),
        ({**table["weight_map"], "lm_head.weight": str(first)}, "leads out of"),
        ({**table["weight_map"], "lm_head.weight": 3}, "has no weight_map"),
        (None, "has no weight_map"),
    ):
        index.write_text(json.dumps({"weight_map": places}))
        refused(sentence)
    index.write_text("[")
    refused("index.json cannot be read")


@pytest.mark.parametrize("name", ["pytorch_model.bin", "pytorch_model.bin.index.json"])
def test_a_pickle_is_refused(copied, name):
    directory = copied("gpt")
    (directory / "model.safetensors").rename(directory / name)
    with pytest.raises(CheckpointError, match=r"has only pytorch_model\.bin, a pickle"):
        load_model(directory)


def test_others_may_read_the_weights_if_they_may_read_the_config(directories):
    modes = {(directories / "gpt" / name).stat().st_mode for name in ("config.json", "model.safetensors")}
    assert len(modes) == 1


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
@pytest.mark.parametrize("name", MODELS)
def test_weights_that_are_not_finite_are_neither_read_nor_saved(copied, tmp_path, name, number):
    directory = copied(name)
    model, tokenizer = load_model(directory)
    spoilt = max(load_file(directory / "model.safetensors").items(), key=lambda each: each[1].numel())[0]

    def spoil(tensors):
        tensors[spoilt][-1, -2] = number
        return tensors

    with pytest.raises(CheckpointError, match=rf"{re.escape(spoilt)} holds numbers that are not finite \(NaN or inf"):
        load_model(rewritten(directory, spoil))
    with torch.no_grad():
        max(model.parameters(), key=torch.numel)[-1, -2] = number
    with pytest.raises(CheckpointError, match=r"holds numbers that are not finite .* it is not saved"):
        save_model(tmp_path / "new", model, tokenizer, "")
    assert not (tmp_path / "new").exists()


def test_large_weights_whose_sum_is_not_finite_are_read(copied):
    directory = rewritten(copied("gpt"), lambda tensors: {name: t.fill_(3e38) for name, t in tensors.items()})
    assert next(load_model(directory)[0].parameters())[0, 0].item() == pytest.approx(3e38)


def test_a_change_in_any_file_but_the_card_is_recognised(directories, tmp_path):
    for name in MODELS:
        directory = shutil.copytree(directories / name, tmp_path / name)
        (directory / "README.md").write_text("what people write")
        (directory / "notes.txt").touch()
        load_model(directory)
        names = [path.name for path in directory.iterdir() if path.name not in ("README.md", "notes.txt")]
        assert {"config.json", "model.safetensors", "tokenizer.json", CHECKSUMS} <= set(names)
        for file in (directory / each for each in names):
            content = file.read_bytes()
            for other in (content[:-2] + bytes([content[-2] ^ 1]) + content[-1:], content[:9], None):
                file.unlink() if other is None else file.write_bytes(other)
                if file.name == CHECKSUMS and other is None:
                    load_model(directory)  # as from elsewhere
                    continue
                with pytest.raises(
                    CheckpointError, match=rf"({CHECKSUMS} if you changed it|{CHECKSUMS} is damaged|no c)"
                ):
                    load_model(directory)
            file.write_bytes(content)


@pytest.mark.parametrize("line", ["", "x", "0" * 64 + "  ../gpt/config.json", "0" * 64 + "  /etc/hosts", "\xff"])
def test_checksums_that_are_none_or_of_files_elsewhere_are_refused(directories, tmp_path, line):
    directory = shutil.copytree(directories / "gpt", tmp_path / "gpt")
    with (directory / CHECKSUMS).open("a", encoding="latin-1") as file:
        file.write(f"{line}\n")
    with pytest.raises(CheckpointError, match=rf"{CHECKSUMS} is damaged; remove it if all other files are known"):
        load_model(directory)


@pytest.mark.parametrize("name", ["classifier", "bert classifier"])
@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"manyheads": {"form": "essay"}}, "of the form essay; known are text, pair, either, choice"),
        ({"problem_type": "multi_label_classification"}, "gives a text several labels at once; only one label each is"),
        ({"problem_type": "regression"}, "gives a text 2 numbers at once; only one number each is known"),
        ({"manyheads": {"shape": 3}}, "shape is not a field"),
    ],
)
def test_a_classifier_of_an_unknown_form_or_of_several_labels_is_refused(copied, name, change, sentence):
    with pytest.raises(ManyheadsError, match=sentence):
        load_model(changed(copied(name), **change))


def test_a_model_that_a_file_will_fill_draws_no_random_numbers():
    config = GPTConfig(vocabulary=11, width=12, layers=1, heads=3, context=5)
    before = torch.get_rng_state()
    with Undrawn():
        model = GPT(config)
    assert torch.equal(torch.get_rng_state(), before)
    assert not model.output.bias.any()  # what is no weight is as it should be
    GPT(config)
    assert not torch.equal(torch.get_rng_state(), before)
