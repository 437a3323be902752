"""Embedders as a person types it: trained from pairs with and without scores, then used to embed and to search."""

import io
import os
import pty
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

from manyheads.tasks.similarity.use import Embedder

from .conftest import Result, called, command, environment, recorded, refused, saved_bert, saved_gpt, tables, taught

COLOURS = ["red", "green", "blue", "white", "black", "brown"]
THINGS = ["car", "house", "bird", "coat", "boat", "chair", "stone"]
PAIRS = [(f"the {colour} {thing}", f"a {thing} that is {colour}") for colour in COLOURS for thing in THINGS]
SETTINGS = ["train.device=cpu", "train.learning_rate=0.01", "train.warmup=5"]
SMALL = ["model.width=32", "model.heads=2", "model.layers=1", "model.context=24", "data.vocabulary=150", *SETTINGS]


def scored() -> list[str]:
    """Pairs of things, of which the same colour is worth 2 and the same thing 3."""
    lines = []
    for number in range(72):
        colour, thing = number % 6, number % 7
        another, something = (colour + number % 2) % 6, (thing + number // 2 % 2) % 7
        score = 2 * (colour == another) + 3 * (thing == something)
        lines.append(f"{PAIRS[7 * colour + thing][0]}\t{PAIRS[7 * another + something][1]}\t{score}")
    return lines


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    made = tmp_path_factory.mktemp("similarity")
    (made / "pairs.tsv").write_text("".join(f"{first}\t{second}\n" for first, second in PAIRS))
    (made / "scored.tsv").write_text("sentence1\tsentence2\tscore\n" + "".join(f"{line}\n" for line in scored()))
    (made / "column.tsv").write_text("".join(f"{first}\t{second}\n" for first, second in PAIRS) + "alone\n")
    (made / "number.tsv").write_text("a\tb\t1\nc\td\thigh\n")
    (made / "below.tsv").write_text("a\tb\t1\nc\td\t-1\n")
    return made


@pytest.fixture(scope="module")
def models(tmp_path_factory) -> Path:
    """A plain BERT and a language model."""
    made = tmp_path_factory.mktemp("models")
    texts = [text for pair in PAIRS for text in pair]
    saved_bert(made / "bert", texts)
    saved_gpt(made / "gpt", texts)
    return made


def trained(out: Path, file: Path, *flags, assignments=SMALL, steps=60) -> Result:
    settings = [*assignments, f"train.steps={steps}", "train.valid_every=20"]
    return taught("similarity", out, "--pairs", file, *flags, settings=settings)


@pytest.fixture(scope="module")
def run(folder) -> Path:
    result = trained(folder / "run", folder / "pairs.tsv", "--valid", folder / "pairs.tsv")
    assert "pairs without scores: each first text is to find its own second text" in result.err
    return folder / "run"


def best(run: Path, name: str) -> float:
    return max(line[name] for line in recorded(run))


def test_pairs_without_scores_are_found_again(run):
    assert best(run, "accuracy") > 90
    assert tomllib.loads((run / "recipe.toml").read_text())["train"]["best_by"] == "accuracy"
    sentences = "".join(f"{second}\n" for _, second in PAIRS)
    right = 0
    for first, second in PAIRS[::9]:
        result = called("similar", run, "--to", first, "--top", "3", stdin=sentences.encode())
        assert result.code == 0, result.err
        rows = [line.split("\t") for line in result.out.splitlines()]
        cosines = [float(cosine) for cosine, _ in rows]
        assert len(rows) == 3
        assert cosines == sorted(cosines, reverse=True)
        right += rows[0][1] == second
        told = tables("similar", run, "--to", first, "--top", "3", stdin=sentences.encode())
        assert [[f"{each['cosine']:.4f}", each["text"]] for each in told] == rows
    assert right > 3


def test_scores_are_met_and_said_to_be(folder, tmp_path):
    pytest.importorskip("sklearn")
    file = folder / "scored.tsv"
    result = trained(tmp_path / "run", file, "--valid", file)
    assert "pairs with scores from 0 to 5: the cosine of two texts is to be their score / 5" in result.err
    assert best(tmp_path / "run", "spearman") > 80
    assert best(tmp_path / "run", "pearson") > 80
    assert tomllib.loads((tmp_path / "run" / "recipe.toml").read_text())["train"]["best_by"] == "spearman"
    card = (tmp_path / "run" / "model" / "README.md").read_text()
    assert "pipeline_tag: sentence-similarity" in card
    assert "the mean of its tokens' vectors" in card
    assert "| spearman |" in card


def test_without_scipy_that_is_said_before_training(folder, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "scipy", None)
    result = called("train", "similarity", "--pairs", folder / "scored.tsv", "--out", tmp_path / "run", "--set", *SMALL)
    assert result.code == 2
    assert "pip install 'manyheads[metrics]'" in result.err
    assert "training on" not in result.err
    assert not (tmp_path / "run").exists()


def test_the_pooling_of_the_model_and_its_length_stay(models, folder, tmp_path):
    settings = [*SMALL, "data.longest=9"]
    trained(tmp_path / "first", folder / "pairs.tsv", "--pooling", "max", steps=1, assignments=settings)
    trained(tmp_path / "second", folder / "pairs.tsv", "--model", tmp_path / "first", steps=1, assignments=SETTINGS)
    model = Embedder.load(tmp_path / "second").model
    assert (model.pooling, model.longest, model.config.context) == ("max", 9, 24)
    trained(tmp_path / "third", folder / "pairs.tsv", "--model", models / "bert", steps=1, assignments=SETTINGS)
    assert Embedder.load(tmp_path / "third").model.pooling == "mean"


# Embedding


def piped(*arguments, stdin: str) -> tuple[int, bytes, str]:
    done = subprocess.run(command(*arguments), input=stdin.encode(), capture_output=True, env=environment())
    return done.returncode, done.stdout, done.stderr.decode()


def test_vectors_come_in_order_as_a_numpy_file(run, tmp_path):
    texts = ["the red car", "", "a boat that is black", "the red car " * 9, "the green bird"]
    stdin = "".join(f"{text}\n" for text in texts)
    code, out, err = piped("embed", run, stdin=stdin)
    assert code == 0, err
    found = np.load(io.BytesIO(out), allow_pickle=False)
    assert found.shape == (5, 32)
    assert found.dtype == np.float32
    assert_allclose(found, Embedder.load(run)(texts), atol=1e-6)
    assert err.count("warning: lines that are empty, with the vector of an empty text: 1") == 1
    assert err.count("texts longer than the 24 tokens that the model reads, which lose their end: 1 of 5") == 1
    result = called("embed", run, "--out", tmp_path / "vectors.npy", stdin=stdin.encode())
    assert (result.code, result.out) == (0, "")
    assert (tmp_path / "vectors.npy").read_bytes() == out
    assert [path.name for path in tmp_path.iterdir()] == ["vectors.npy"]


def test_no_lines_are_no_rows(run, tmp_path):
    assert called("embed", run, "--out", tmp_path / "a.npy").code == 0
    assert np.load(tmp_path / "a.npy").shape == (0, 32)
    result = called("similar", run, "--to", "the red car", stdin=b"\n")
    assert (result.code, result.out) == (0, "")


def test_a_terminal_is_spared_the_bytes(run):
    reader, writer = pty.openpty()
    done = subprocess.run(command("embed", run), input=b"a\n", stdout=writer, stderr=subprocess.PIPE, env=environment())
    os.close(writer)
    os.close(reader)
    assert done.returncode == 2
    assert b"> vectors.npy" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["embed", "{models}/gpt"], "holds a language model (gpt2)"),
        (["embed", "nowhere"], "nowhere does not exist"),
        (["embed", "{models}/bert", "--pooling", "sum"], "pooling is 'sum'; it can be mean, cls, max"),
        (["embed", "{run}", "--pooling", "cls"], "leave it away"),
        (["embed", "{models}/bert", "--device", "abacus"], "not a device"),
        (["embed", "{run}"], "line 2"),
        (["similar", "{run}", "--to", " "], "--to is empty"),
        (["similar", "{run}", "--to", "a", "--top", "0"], "--top is 0"),
    ],
)
def test_what_cannot_be_embedded_is_one_sentence(models, run, tmp_path, flags, said):
    flags = [flag.format(models=models, run=run) for flag in flags]
    out = ["--out", tmp_path / "a.npy"] if flags[0] == "embed" else []
    assert said in refused(*flags, *out, stdin=b"a\n\xff\n")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ("column.tsv", "column.tsv, line 43: 1 column"),
        ("number.tsv", "number.tsv, line 2: 'high' is not a number"),
        ("below.tsv", "below.tsv, line 2: the score is -1"),
        ("scored.tsv --columns sentence1 sentence2 stars", "'stars'"),
        ("pairs.tsv --pooling sum", "--pooling is 'sum'; it can be mean, cls, max"),
        ("pairs.tsv --model {models}/gpt", "holds a language model (gpt2)"),
        ("pairs.tsv --set train.best_by=spearman", "use accuracy or loss"),
        ("pairs.tsv --set data.examples=1", "data.examples is 1"),
        ("pairs.tsv --set fine_tune.freeze=true", "nothing to learn"),
        ("pairs.tsv --set model.context=4", "no place for a text"),
    ],
)
def test_what_cannot_be_trained_is_one_sentence_and_leaves_nothing(folder, models, tmp_path, flags, said):
    file, *given = flags.format(models=models).split()
    train = ["train", "similarity", "--out", tmp_path / "new", "--pairs", folder / file]
    assert said in refused(*train, *given, after_reading=True)
    assert not (tmp_path / "new").exists()
