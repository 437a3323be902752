"""`--vectors` and `--freeze-vectors` as a person types them, for models of several tasks."""

import random
from pathlib import Path

import numpy as np
import pytest
import torch

from manyheads.data.readers.vectors import write_vectors
from manyheads.interop.directory import load_model
from manyheads.tasks.embedding import embeddings_of

from .conftest import WORDS, called, newest_difference, refused, taught

WIDTH = 24
SIZES = [f"model.width={WIDTH}", "model.heads=2", "model.layers=1", "model.dropout=0.0"]
OFTEN = ["train.warmup=2", "train.valid_every=1000", "train.checkpoint_every=1000", "train.device=cpu"]
OFTEN += ["train.learning_rate=0.001"]
LANGUAGE = [*SIZES, *OFTEN, "model.context=16", "data.vocabulary=300", "train.weight_decay=0.1"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """English text, the same with labels, and vectors of its words but for the last."""
    made, source = tmp_path_factory.mktemp("vectors"), random.Random(2)
    english = list(WORDS)
    lines = [" ".join(source.choices(english, k=6)) for _ in range(150)]
    (made / "text.txt").write_text("\n".join(lines), encoding="utf-8")
    labelled = "".join(f"{line}\t{'dog' in line}\n" for line in lines)
    (made / "train.tsv").write_text(labelled, encoding="utf-8")
    matrix = np.random.default_rng(1).normal(size=(len(english) - 1, WIDTH)).astype(np.float32)
    write_vectors(made / "v.txt", english[:-1], matrix)
    return made


def rows_of(run: Path, folder: Path) -> tuple[torch.Tensor, torch.Tensor]:
    """What the embedding of a trained model gives for the words of the file, and their vectors there."""
    from manyheads.data.readers.vectors import read_vectors

    model, tokenizer = load_model(run / "model")
    found = read_vectors(folder / "v.txt")
    place = {word: row for row, word in enumerate(found.words)}
    both = [(each, place[word]) for each, word in tokenizer.words().items() if word in place]
    assert len(both) > 3
    embedding = embeddings_of(model)[0]
    ids, rows = zip(*both)
    return embedding(torch.tensor(ids)).detach(), torch.from_numpy(found.matrix)[list(rows)]


TASKS = {
    "language": ["--text", "text.txt", "--set", *LANGUAGE, "model.tied=false"],
    "classify": ["--train", "train.tsv", "--set", *SIZES, *OFTEN, "model.context=16", "data.vocabulary=120"],
    "translate": ["--set", *SIZES, *OFTEN, "data.vocabulary=330", "data.batch_tokens=300", "model.tied=false"],
}


def asked(task: str, folder: Path, corpus: Path, *flags) -> list:
    """What is typed for a run of a task that begins with the vectors."""
    files = [folder / each if (folder / str(each)).is_file() else each for each in TASKS[task]]
    pairs = ["--source", corpus / "train.en", "--target", corpus / "train.de"] if task == "translate" else []
    return [*pairs, "--vectors", folder / "v.txt", *flags, *files]


@pytest.mark.parametrize("task", TASKS)
def test_frozen_vectors_stay_as_they_are_and_others_learn(task, folder, corpus, tmp_path):
    said = taught(task, tmp_path / "frozen", *asked(task, folder, corpus, "--freeze-vectors"), "train.steps=4").err
    assert "have vectors in" in said
    assert "of them learn)" in said
    found, given = rows_of(tmp_path / "frozen", folder)
    torch.testing.assert_close(found, given)
    taught(task, tmp_path / "learning", *asked(task, folder, corpus), "train.steps=4")
    found, given = rows_of(tmp_path / "learning", folder)
    assert not torch.allclose(found, given, atol=1e-4)
    assert float((found - given).abs().mean()) < 0.1  # but it began there


@pytest.mark.parametrize("frozen", [True, False])
def test_a_run_goes_on_to_the_bit_without_the_file(frozen, folder, tmp_path):
    flags = ["--freeze-vectors"] if frozen else []
    file = tmp_path / "moved.txt"
    file.write_bytes((folder / "v.txt").read_bytes())
    typed = ["--text", folder / "text.txt", "--vectors", file, *flags, "--set", *LANGUAGE, "model.tied=false"]
    typed += ["train.checkpoint_every=3", "train.schedule=constant", "train.average=2"]
    for run, steps in (("whole", 7), ("stopped", 4)):
        taught("language", tmp_path / run, *typed, f"train.steps={steps}")
    file.unlink()
    taught("language", tmp_path / "stopped", "--resume", "--set", "train.steps=7")
    assert newest_difference(tmp_path / "whole", tmp_path / "stopped") is None
    if frozen:
        found, given = rows_of(tmp_path / "stopped", folder)
        torch.testing.assert_close(found, given)


def test_an_encoder_of_hidden_words_begins_with_vectors_but_cannot_freeze_them(folder, tmp_path):
    typed = ["--text", folder / "text.txt", "--no-next-sentence", "--vectors", folder / "v.txt"]
    settings = ["--set", *SIZES, *OFTEN, "model.context=13", "data.vocabulary=120", "data.rows=8", "train.steps=2"]
    taught("masked", tmp_path / "run", *typed, *settings)
    found, given = rows_of(tmp_path / "run", folder)
    assert float((found - given).abs().mean()) < 0.1
    said = refused("train", "masked", "--out", tmp_path / "no", *typed, "--freeze-vectors", *settings)
    assert "guesses are compared with its embedding, which --freeze-vectors would keep from learning" in said
    assert not (tmp_path / "no").exists()


def test_what_cannot_be_is_refused_with_a_way_out(folder, tmp_path):
    text, out = ["--text", folder / "text.txt"], ["--out", tmp_path / "run"]
    vectors = ["--vectors", folder / "v.txt"]
    said = refused("train", "language", *text, *vectors, *out, "--set", "model.width=32")
    assert f"has vectors of {WIDTH} numbers, but the model's embedding has 32; make it --set model.width=24" in said
    said = refused("train", "language", *text, *vectors, "--freeze-vectors", *out, "--set", *LANGUAGE)
    assert "the output layer is the embedding" in said
    assert "add --set model.tied=false" in said
    assert "--vectors" in refused("train", "language", *text, "--freeze-vectors", *out)
    assert "is not there" in refused("train", "language", *text, "--vectors", folder / "none.txt", *out)
    said = refused("train", "classify", "--preset", "bag", "--train", folder / "train.tsv", *vectors, *out)
    assert "--vectors are for a model with an embedding, which BagClassifier has none of" in said
    (tmp_path / "bad.txt").write_text("the 1 2\nold 1\n", encoding="utf-8")
    typed = ["--vectors", tmp_path / "bad.txt", *out, "--set", *LANGUAGE, "model.width=2", "model.heads=1"]
    said = refused("train", "language", *text, *typed, after_reading=True)
    assert "bad.txt, line 2: 1 number where the first line has 2" in said
    assert called("train", "language", *text, *out, "--show-recipe").out.count("freeze_vectors = false") == 1
