"""Recurrent classifiers and taggers, and one of convolutions, as a person types them: from labels to proofs."""

import json
from pathlib import Path

import pytest
import torch
from torch.testing import assert_close

from manyheads.interop.directory import load_model
from manyheads.models.birnn import BiRNN
from manyheads.models.conv import ByteNet
from manyheads.models.rnn import RNN
from manyheads.tasks.classify.use import Classifier
from manyheads.tasks.tag.use import Tagger

from .conftest import called, newest_difference, recorded, refused, tables, taught, typed
from .test_classify import examples, sentences
from .test_tag import in_columns
from .test_tag import sentences as tagged_sentences

SETTINGS = ["train.device=cpu", "train.valid_every=20", "data.examples=8", "data.vocabulary=300", "model.layers=1"]
SETTINGS += ["model.dropout=0.1", "train.warmup=5", "fine_tune.epochs=12", "train.learning_rate=0.01"]
CLASSIFIERS = {
    "bilstm": ("--preset", "bilstm", "--set", "model.width=22", "model.embedding_width=13"),
    "bigru": ("--preset", "bilstm_tiny", "--set", "model.cell=gru", "model.width=22", "model.norm=true"),
    "lstm": ("--preset", "lstm", "--set", "model.width=21", "fine_tune.epochs=40"),
    "elman": ("--preset", "elman", "--set", "model.width=21", "fine_tune.epochs=40"),
    "bytenet": ("--preset", "bytenet_tiny", "--set", "model.width=22", "model.layers=3"),
}
TAGGERS = {"tagger": ("--preset", "bilstm", "--set", "model.width=22")}
MADE_OF = {
    "bilstm": (BiRNN, "birnn", "A recurrent network in two directions"),
    "bigru": (BiRNN, "birnn", "A recurrent network in two directions"),
    "lstm": (RNN, "rnn", "A recurrent network with"),
    "elman": (RNN, "rnn", "A recurrent network with"),
    "bytenet": (ByteNet, "bytenet", "A stack of dilated causal convolutions with"),
    "tagger": (BiRNN, "birnn", "A recurrent network in two directions"),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    made = tmp_path_factory.mktemp("recurrent")
    for form, name in (("text", "text.tsv"), ("pair", "pair.tsv"), ("choice", "choice.jsonl")):
        (made / name).write_text("".join(f"{line}\n" for line in examples(form)), encoding="utf-8")
    (made / "words.conll").write_text(in_columns(tagged_sentences(60)), encoding="utf-8")
    return made


def trained(out: Path, folder: Path, name: str, *more: str) -> Path:
    task, file = ("tag", "words.conll") if name in TAGGERS else ("classify", "text.tsv")
    flags = {**CLASSIFIERS, **TAGGERS}[name]
    taught(task, out, "--train", folder / file, *flags, settings=[*SETTINGS, *more])
    return out


@pytest.fixture(scope="module", params=[*CLASSIFIERS, *TAGGERS])
def run(request, folder) -> Path:
    return trained(folder / request.param, folder, request.param)


def test_what_was_learned_is_told_again(run, folder):
    if run.name in TAGGERS:
        result = called("tag", run, stdin=b"the Ada Lovelace sees an island")
        assert [line.split("\t")[1] for line in result.out.splitlines()[1:3]] == ["B-person", "I-person"]
        (scores,) = tables("evaluate", run, "--data", folder / "words.conll")
    else:
        texts = [text for text, _ in sentences(40, seed=9)]
        result = called("classify", run, stdin="".join(f"{text}\n" for text in texts).encode())
        names = [line.split("\t")[0] for line in result.out.splitlines()]
        assert sum(name == right for name, (_, right) in zip(names, sentences(40, seed=9), strict=True)) > 36
        (scores,) = tables("evaluate", run, "--data", folder / "text.tsv")
    assert scores["accuracy"] > 0.9
    assert max(line["accuracy"] for line in recorded(run)) > 80


def test_the_directory_says_what_it_is_and_opens_to_the_bit(run, tmp_path):
    body, kind, what = MADE_OF[run.name]
    assert json.loads((run / "model" / "config.json").read_text())["model_type"] == f"manyheads-{kind}"
    card = (run / "model" / "README.md").read_text()
    assert what in card
    assert not any(other in card for other in ("Transformer", "transformers", "BERT"))
    model, _ = load_model(run)
    assert type(model.body) is body
    told = called("info", run).out
    assert f"manyheads-{kind}" in told
    assert ("--show hidden" in told) == ("manyheads walk" in told) == (body is not ByteNet)
    assert "no attention" in refused("look", run, "a film", "--out", tmp_path / "look.html")
    if body is ByteNet:
        assert "no attention" in refused("walk", run, "a film")
    else:
        walked = called("walk", run, "a film")
        assert walked.code == 0
        assert "tanh(x W_p" not in walked.out  # which is BERT's


def test_many_at_a_time_give_each_what_it_would_get_alone(run):
    texts = ["the film is lovely", "dull", "a word nobody knows and more of them", "the song is bleak"]
    if run.name in TAGGERS:
        tagger = Tagger.load(run, device="cpu")
        pairs = zip(tagger.probabilities(texts), (tagger.probabilities([text])[0] for text in texts))
    else:
        classifier = Classifier.load(run, device="cpu")
        pairs = zip(classifier.scores(texts), (classifier.scores([text])[0] for text in texts))
    for together, alone in pairs:
        assert_close(together, alone, atol=1e-5, rtol=0)
        assert together.std() > 0


def test_what_a_model_claims_of_itself_holds(run):
    result = called("selfcheck", run)
    assert result.code == 0, result.out
    assert result.out.count("ok ") == (5 if run.name in ("lstm", "elman", "bytenet") else 4)


def test_a_run_that_was_stopped_goes_on_bit_for_bit(run, folder, tmp_path):
    for out, last in (("whole", 16), ("part", 9)):
        more = [f"train.steps={last}", "train.schedule=constant", "train.checkpoint_every=3"]
        trained(tmp_path / out, folder, run.name, *more)
    task = "tag" if run.name in TAGGERS else "classify"
    result = called("train", task, "--out", tmp_path / "part", "--resume", "--steps", "16")
    assert result.code == 0, result.err
    assert newest_difference(tmp_path / "whole", tmp_path / "part") is None
    other = tmp_path / "other"
    trained(other, folder, run.name, "train.steps=16", "train.schedule=constant", "train.seed=2")
    assert newest_difference(tmp_path / "whole", other) is not None  # and the test can tell


@pytest.mark.slow
def test_a_killed_run_is_proved_to_resume(folder, tmp_path):
    out = trained(tmp_path / "run", folder, "bilstm", "train.steps=7", "train.checkpoint_every=3")
    assert "bit for bit" in typed("prove-resume", out).out


@pytest.mark.parametrize("name", ["bilstm", "lstm"])
def test_pairs_and_choices_are_read_too(folder, tmp_path, name):
    for file, text in (("pair.tsv", ("a film", "a song")), ("choice.jsonl", ("a film", ["yes", "b"]))):
        flags = CLASSIFIERS[name]
        settings = [*SETTINGS, "train.steps=4"]
        taught("classify", tmp_path / file, "--train", folder / file, *flags, settings=settings)
        (label,) = Classifier.load(tmp_path / file, device="cpu")([text])
        assert 0 < label.probability < 1


@pytest.mark.parametrize("name", ["bilstm", "tagger"])
def test_a_trained_body_goes_on_under_another_head(folder, tmp_path, name):
    first, out = trained(tmp_path / "first", folder, name, "train.steps=3"), tmp_path / "next"
    task, file = ("tag", "words.conll") if name == "bilstm" else ("classify", "text.tsv")
    result = taught(task, out, "--train", folder / file, "--model", first, "--freeze", "--set", "train.steps=3")
    assert "of them learn" in result.err
    before, after = load_model(first)[0].body.state_dict(), load_model(out)[0].body.state_dict()
    assert all(torch.equal(before[name], after[name]) for name in before)
    sentence = "holds the encoder BiRNN; BERT is asked for"
    pairs = ["--pairs", folder / "pair.tsv", "--out", tmp_path / "new"]
    assert sentence in refused("train", "similarity", *pairs, "--model", first)


def test_what_cannot_be_is_one_sentence(folder, tmp_path):
    train = ["train", "classify", "--out", tmp_path / "new", "--train", folder / "text.tsv", "--preset", "bilstm"]
    assert "two directions; take 8" in refused(*train, "--set", "model.width=7")
    assert "elman, gru, lstm" in refused(*train, "--set", "model.cell=grid")
    assert "for language models" in refused(*train, "--set", "fine_tune.auxiliary=0.5")
    assert "separator is not a field" in refused(*train, "--set", "model.separator=3")
    recipe = tmp_path / "recipe.toml"
    recipe.write_text('task = "tag"\nfamily = "gpt"\n', encoding="utf-8")
    tag = ["train", "tag", "--out", tmp_path / "new", "--train", folder / "words.conll", "--recipe", recipe]
    assert "family is 'gpt'; it can be bert or birnn" in refused(*tag)
    assert not (tmp_path / "new").exists()


def test_a_language_model_of_any_kind_can_be_taught_to_classify(folder, tmp_path):
    (tmp_path / "text.txt").write_text(" ".join(text for text, _ in sentences(60)), encoding="utf-8")
    small = ["train.device=cpu", "train.steps=4", "data.vocabulary=300", "model.width=16", "model.layers=1"]
    for preset, body in (("lstm", RNN), ("bytenet_tiny", ByteNet)):
        lm, out = tmp_path / preset, tmp_path / f"{preset} classifier"
        taught("language", lm, "--text", tmp_path / "text.txt", "--preset", preset, settings=small)
        settings = ["train.device=cpu", "train.steps=3"]
        taught("classify", out, "--train", folder / "text.tsv", "--model", lm, settings=settings)
        model = load_model(out)[0]
        assert type(model.body) is body
        old = load_model(lm)[0].embedding.weight
        assert_close(model.body.embedding.weight[: len(old)], old, atol=0.02, rtol=0)
        assert len(model.body.embedding.weight) == len(old) + 3
