"""Files from elsewhere may say anything: each is a sentence, before it costs memory or time."""

import json
from itertools import product

import pytest
import torch
from helpers import changed, config_of

from manyheads.core.errors import CheckpointError, ManyheadsError
from manyheads.interop.directory import load_embedder, load_model
from manyheads.interop.families import FAMILIES
from manyheads.ops import device

KINDS = ("translator", "gpt", "llama", "own", "classifier", "encoder", "tagger", "answerer", "image classifier")
ANYTHING = ("no", [3], {"a": 3}, -1, 10**9, 10**30, float("inf"), float("nan"), True, None)


@pytest.mark.parametrize("name", KINDS)
def test_whatever_a_config_says_is_a_model_or_a_sentence(copied, name):
    directory = copied(name)
    whole = config_of(directory)
    places = [(key,) for key in whole] + [
        (key, inner) for key in ("manyheads", "rope_parameters") for inner in whole.get(key, {})
    ]
    told = []
    for key, *inner in places:
        for value in ANYTHING:
            said = {**whole[key], inner[0]: value} if inner else value
            try:
                load_model(changed(directory, **{key: said}))
            except ManyheadsError as error:
                told.append(str(error))
        changed(directory, **{key: whole[key]})
    assert all("\n" not in sentence and len(sentence) < 600 for sentence in told)
    assert len(told) > 5 * len(whole)  # the rest says nothing that a model follows from
    load_model(directory)


@pytest.mark.parametrize(
    ("name", "change", "sentence"),
    [
        ("gpt", {"n_layer": 10**9}, "says 1,000,000,000 layers, but the weights are"),
        ("gpt", {"layer_norm_epsilon": -1}, "epsilon is -1; it must be at least 0"),
        ("gpt", {"tie_word_embeddings": "no"}, "tie_word_embeddings is 'no'; it must be of type bool"),
        ("gpt", {"n_embd": "wide"}, "n_embd is 'wide'; it must be of type int"),
        ("gpt", {"n_embd": None}, "n_embd is None; it must be of type int"),
        ("gpt", {"n_embd": "gone"}, "has no n_embd"),
        ("gpt", {"n_embd": 3 * 10**9, "n_head": 3 * 10**9}, "says width 3,000,000,000, but no tensor is larger than"),
        (
            "own",
            {"manyheads": {"positions": {"base": float("inf")}}},
            "manyheads.positions.base is inf; it must be a fin",
        ),
        ("own", {"manyheads": None}, "has no manyheads"),
        ("translator", {"pad_token_id": 10**6}, "says pad 1000000, but ids end at"),
        ("translator", {"decoder_start_token_id": -1}, "says start -1, but ids end at"),
        ("translator", {"share_encoder_decoder_embeddings": "false"}, "must be of type bool"),
        ("llama", {"rope_parameters": {"rope_theta": "much"}}, "rope_parameters.rope_theta is 'much'"),
        ("llama", {"rope_parameters": {"rope_theta": 0}}, "base is 0.0 and must be finite and above 1"),
        ("llama", {"rope_scaling": {"rope_type": "linear", "factor": 0}}, "factor is 0.0; it is finite, and the least"),
        ("classifier", {"id2label": {"one": "no", "two": "yes"}}, "must name the labels 0 to 1"),
        ("answerer", {"manyheads": {"longest": "far"}}, "manyheads.longest is 'far'; it must be of type int"),
    ],
)
def test_a_config_that_cannot_be_is_told_by_its_entry(copied, name, change, sentence):
    directory = changed(copied(name), **change)
    with pytest.raises(CheckpointError, match=sentence) as refused:
        load_model(directory)
    assert str(directory) in str(refused.value)


@pytest.mark.parametrize("file", ["config.json", "tokenizer.json", "tokenizer_config.json"])
def test_brackets_without_end_are_a_sentence(copied, file):
    directory = copied("gpt")
    for brackets in ("[" * 200_000, '{"a":' * 200_000):
        (directory / file).write_text(brackets)
        with pytest.raises(ManyheadsError, match=file.replace(".", r"\.")):
            load_model(directory)


def test_whatever_says_how_images_are_read_is_one_way_or_a_sentence(copied):
    file = copied("image classifier") / "preprocessor_config.json"
    whole, told = json.loads(file.read_text()), []
    for key, value in [*product(whole, ANYTHING), *(("size", {"height": 9, "width": each}) for each in ANYTHING)]:
        file.write_text(json.dumps({**whole, key: value}))
        try:
            load_model(file.parent)
        except ManyheadsError as error:
            told.append(str(error))
    assert all("\n" not in sentence and len(sentence) < 600 for sentence in told)
    assert len(told) > 5 * len(whole)
    for content in ("", "[3]", "{", '{"size": ' * 100_000):
        file.write_text(content)
        with pytest.raises(ManyheadsError, match=r"preprocessor_config\.json"):
            load_model(file.parent)


def test_a_mistake_of_ours_is_not_called_a_damaged_directory(directories, monkeypatch):
    def mistaken(self, *given):
        raise AttributeError("a mistake")

    monkeypatch.setattr(type(FAMILIES[1].foreign), "build", mistaken)
    with pytest.raises(AttributeError, match="a mistake"):
        load_model(directories / "gpt")


def test_a_model_larger_than_memory_is_refused_before_it_is_built(directories, monkeypatch):
    monkeypatch.setattr(device, "free_memory", lambda where: 10_000)
    with pytest.raises(
        ManyheadsError, match=r"parameters need about .*, but 10,000 bytes are free on cpu, room for 2,500"
    ):
        load_model(directories / "gpt")
    monkeypatch.setattr(device, "free_memory", lambda where: None)
    assert isinstance(load_model(directories / "gpt")[0], torch.nn.Module)


@pytest.mark.parametrize("path", ["../gpt", "/etc", "\0", 3, None, "[deep]", "[other]"])
def test_modules_that_lead_out_of_their_directory_are_refused(copied, path):
    directory = copied("embedder")
    load_embedder(directory)
    modules = json.loads((directory / "modules.json").read_text())
    modules[1]["path"] = path
    others = {"[deep]": "[" * 200_000, "[other]": "[3]"}
    (directory / "modules.json").write_text(others.get(path) or json.dumps(modules))
    said = "leads out of|nested too deeply|it must list modules, each with a type and a path"
    with pytest.raises(CheckpointError, match=rf"modules\.json cannot be read \(.*({said})"):
        load_embedder(directory)


@pytest.mark.parametrize(
    ("file", "change", "sentence"),
    [
        ("1_Pooling/config.json", {"pooling_mode_mean_tokens": "no"}, "must be of type bool"),
        ("sentence_bert_config.json", {"max_seq_length": -5}, "max_seq_length is -5; it must be at least 1"),
        ("sentence_bert_config.json", {"max_seq_length": "long"}, "must be of type float"),
    ],
)
def test_what_is_said_of_sentences_is_checked_too(copied, file, change, sentence):
    path = copied("embedder") / file
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(ManyheadsError, match=sentence):
        load_embedder(path.parents[file.count("/")])
