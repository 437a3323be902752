"""Word vectors as a person types them: learned, stopped and gone on with, looked up, scored, drawn, written."""

import json
import random
import shutil
from pathlib import Path

import numpy as np
import pytest

from manyheads import WordVectors
from manyheads.data.readers.vectors import read_vectors

from .conftest import called, checkpoints, files_in, newest_difference, refused, tables, taught

METHODS = ("skipgram", "cbow", "glove")
GROUPS = [["cat", "dog", "cow", "hen"], ["red", "blue", "green", "white"], ["one", "two", "three", "four"]]
SMALL = ["model.width=10", "data.words=500", "data.window=3", "train.device=cpu", "data.sample=0.0"]


@pytest.fixture(scope="module")
def text(tmp_path_factory) -> Path:
    """Lines in which the words of one group stand beside one another, and those of others do not."""
    source, file = random.Random(3), tmp_path_factory.mktemp("text") / "text.txt"
    lines = [" ".join(source.choices(source.choice(GROUPS), k=8)) for _ in range(400)]
    file.write_text("\n".join(lines), encoding="utf-8")
    return file


def learned(out: Path, text: Path, method: str, *settings: str, flags=()) -> str:
    return taught("vectors", out, "--text", text, "--method", method, *flags, settings=[*SMALL, *settings]).err


@pytest.fixture(scope="module", params=METHODS)
def run(request, text, tmp_path_factory) -> Path:
    """Vectors that have learned what stands beside what."""
    out = tmp_path_factory.mktemp("runs") / request.param
    learned(out, text, request.param, "train.epochs=40")
    return out


def test_words_that_stand_together_are_near_to_one_another(run):
    found = WordVectors.load(run)
    assert set(found.words) == {word for group in GROUPS for word in group}
    for group in GROUPS:
        for word in group:
            nearest = {each.word for each in found.neighbours(word, 3)}
            assert nearest == set(group) - {word}


def test_a_run_is_looked_up_and_written_and_read_by_commands(run, tmp_path):
    out = called("neighbours", run, "cat", "--count", 3).out.splitlines()
    assert {line.split("\t")[1] for line in out} == {"dog", "cow", "hen"}
    assert [each["word"] for each in tables("neighbours", run, "Cat", "--count", 3)] == [
        line.split("\t")[1] for line in out
    ]
    assert called("analogy", run, "cat", "dog", "red", "--count", 2).out.count("\n") == 2
    for name, flags in (("v.txt", []), ("v.bin", []), ("glove.txt", ["--glove"])):
        assert called("export-vectors", run, "--out", tmp_path / name, *flags).code == 0
        read = read_vectors(tmp_path / name)
        found = WordVectors.load(run, device="cpu")
        assert read.words == found.words
        np.testing.assert_array_equal(read.matrix, found.vectors.numpy())
        assert called("neighbours", tmp_path / name, "cat", "--count", 3).out.splitlines() == out
    assert called("info", run).out.startswith("kind        a set of word vectors (manyheads-vectors)")
    pytest.importorskip("matplotlib", reason="matplotlib is not installed: pip install 'manyheads[look]'")
    for figure in (tmp_path / "map.png", tmp_path / "map.svg"):
        flags = ["--words", "cat,dog,red,blue,one", f"--{figure.suffix[1:]}", figure]
        assert called("look", run, *flags, "--json", tmp_path / "map.json").code == 0
        assert figure.stat().st_size > 5000
    told = json.loads((tmp_path / "map.json").read_text())
    points = dict(zip(told["words"], np.array(told["points"])))
    assert np.linalg.norm(points["cat"] - points["dog"]) < np.linalg.norm(points["cat"] - points["red"])


@pytest.mark.parametrize("method", METHODS)
def test_a_run_goes_on_to_the_bit_without_its_files(method, text, tmp_path):
    mine = shutil.copy(text, tmp_path / "text.txt")
    often = ["train.checkpoint_every=4", "train.valid_every=3", "train.schedule=constant"]
    learned(tmp_path / "whole", mine, method, *often, "train.steps=11")
    learned(tmp_path / "part", mine, method, *often, "train.steps=6")
    Path(mine).unlink()
    shutil.rmtree(tmp_path / "part" / "checkpoints" / "step-00000006")  # as where it was killed before the last one
    assert "going on from step 4" in taught("vectors", tmp_path / "part", "--resume", "--set", "train.steps=11").err
    assert newest_difference(tmp_path / "whole", tmp_path / "part") is None
    models = [(tmp_path / each / "model" / "model.safetensors").read_bytes() for each in ("whole", "part")]
    assert models[0] == models[1]
    assert checkpoints(tmp_path / "part")[-1] == "step-00000011"
    carried = tmp_path / "part" / "checkpoints" / "step-00000011" / "carried.safetensors"
    assert carried.exists() == (method == "glove")  # AdaGrad's sums
    shutil.copy(text, mine)
    learned(tmp_path / "part", mine, method, "train.steps=1", flags=["--overwrite"])  # which nothing of it hinders
    assert checkpoints(tmp_path / "part") == ["step-00000001"]


@pytest.mark.slow
def test_prove_resume_proves_it(text, tmp_path):
    learned(tmp_path / "run", text, "skipgram", "train.steps=2")
    found = called("prove-resume", tmp_path / "run", "--steps", 8, "--seed", 1)
    assert (found.code, "no tensor differs" in found.out) == (0, True), found


def test_a_recipe_reproduces_itself_and_the_run(text, tmp_path):
    learned(tmp_path / "one", text, "cbow", "train.steps=3")
    again = taught("vectors", tmp_path / "two", "--recipe", tmp_path / "one" / "recipe.toml")
    assert "training on cpu" in again.err
    assert newest_difference(tmp_path / "one", tmp_path / "two") is None
    before = files_in(tmp_path / "one")
    assert "exists; go on with --resume" in refused("train", "vectors", "--text", text, "--out", tmp_path / "one")
    assert files_in(tmp_path / "one") == before


def test_nothing_said_is_a_sample(tmp_path, monkeypatch):
    from manyheads.data import sample

    few = {name: pairs[:800] for name, pairs in sample.sample_corpus().items()}
    monkeypatch.setattr(sample, "sample_corpus", lambda: few)
    taught("vectors", tmp_path / "run", "--set", "train.steps=2", "train.device=cpu")
    assert "the" in WordVectors.load(tmp_path / "run")


REFUSED = {
    "--preset small": "there is no preset small of word vectors; choose with --method",
    "--method glue": "--method is 'glue'; it can be skipgram, cbow, glove",
    "--set train.optimizer=adam": "train.optimizer is adam, but word vectors are learned by their own",
    "--set train.clip=1.0": "gradients of word vectors are not clipped",
    "--set train.smoothing=0.1": "word vectors are not smoothed",
    "--set model.method=cbow": "model.method is cbow, but --method skipgram; set the latter",
    "--set model.vocabulary=9": "model.vocabulary follows from the tokenizer",
    "--set data.least=100000": "no word of the text is there 100000 times",
}


@pytest.mark.parametrize("flags", REFUSED)
def test_what_cannot_be_learned_is_one_sentence_and_leaves_nothing(flags, text, tmp_path):
    asked = ["train", "vectors", "--text", text, "--out", tmp_path / "new", *flags.split()]
    assert REFUSED[flags] in refused(*asked, after_reading=True)
    assert not (tmp_path / "new").exists()


def test_an_optimizer_of_its_own_is_no_other_tasks(text, tmp_path):
    asked = ["train", "language", "--text", text, "--out", tmp_path / "new"]
    asked += ["--set", "data.vocabulary=300", "train.optimizer=own", "train.weight_decay=0.0"]
    assert "train.optimizer is own, but this task has none of its own" in refused(*asked)
    assert not (tmp_path / "new").exists()


def test_what_cannot_be_looked_up_is_one_sentence(run, text, tmp_path):
    assert "'ca' is not among the 12 words; the nearest spellings are cat" in refused("neighbours", run, "ca")
    assert "nowhere does not exist" in refused("neighbours", tmp_path / "nowhere", "cat")
    assert "'unknown' is not among the 12 words" in refused("analogy", run, "cat", "dog", "unknown")
    assert "must end in .txt or .vec or .bin" in refused("export-vectors", run, "--out", tmp_path / "v.npy")
    assert "is binary by its name" in refused("export-vectors", run, "--out", tmp_path / "v.bin", "--glove")
    assert "a map of 2 words says nothing" in refused("look", run, "--words", "cat,dog", "--png", tmp_path / "m.png")
    assert "has no part in --words" in refused("look", run, "cat", "--words", "cat,dog,red")
    assert "makes no claims that could be checked" in refused("selfcheck", run)
    assert "give --analogies or --similarities" in refused("evaluate", run)
    assert "is not scored with --text" in refused("evaluate", run, "--text", text)
    (tmp_path / "good.txt").write_text("cat 1 2\ndog 2 1\n")
    assert "good.txt is a set of word vectors and no model" in refused("look", tmp_path / "good.txt", "cat")
    (tmp_path / "bad.txt").write_text("2 3\ncat 1 2 3\ndog 1 2\n")
    assert "bad.txt, line 3: 2 numbers where the header says 3" in refused("neighbours", tmp_path / "bad.txt", "cat")


def test_scores_can_be_had_as_json(run, tmp_path):
    pytest.importorskip("sklearn", reason="scikit-learn is not installed: pip install 'manyheads[metrics]'")
    (tmp_path / "pairs.tsv").write_text("cat\tdog\t9\ncat\tred\t1\nred\tblue\t8\nred\tone\t2\n")
    told = tables("evaluate", run, "--similarities", tmp_path / "pairs.tsv")[0][str(tmp_path / "pairs.tsv")]
    assert told["spearman"] > 0.5
    assert f"{told['spearman']:.4f}" in called("evaluate", run, "--similarities", tmp_path / "pairs.tsv").out


def test_text_that_is_all_thinned_out_is_no_text_to_validate_on(text, tmp_path):
    typed = ["--text", text, "--sample", "1e-12", "--out", tmp_path / "run", "--set", "train.steps=1", *SMALL[:2]]
    said = refused("train", "vectors", *typed, after_reading=True)
    assert "every word to validate on is thinned out; give more text, or make --sample 0" in said
