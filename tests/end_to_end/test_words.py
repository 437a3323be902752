"""Classifiers that count words, as a person types them: from labelled texts to labels, scores, walks and proofs."""

import json
import shutil
from pathlib import Path

import pytest

from manyheads.models.bag import BagClassifier
from manyheads.models.lexicon import LexiconClassifier
from manyheads.tasks.classify.use import Classifier
from manyheads.tasks.inside.walk import walk_through

from .conftest import called, newest_difference, recorded, refused, tables, taught
from .test_classify import sentences

SETTINGS = ["train.device=cpu", "train.valid_every=20", "fine_tune.epochs=25", "data.examples=8"]
ARMS = {
    "bag": ("--preset", "bag"),
    "counts": ("--preset", "bag", "--set", "model.weighting=counts", "model.ngrams=1"),
    "network": ("--preset", "bag", "--set", "model.layers=2", "model.hidden=9"),
    "lexicon": ("--preset", "lexicon"),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    made = tmp_path_factory.mktemp("words")
    lines = "".join(f"{text}\t{name}\n" for text, name in sentences(60))
    (made / "text.tsv").write_text(lines, encoding="utf-8")
    (made / "mine.tsv").write_text("# ours\nlovely\tnegative\ndull\tpositive\n", encoding="utf-8")
    (made / "pair.tsv").write_text("a\tb\tsame\nc\td\tother\n" * 30, encoding="utf-8")
    return made


@pytest.fixture(scope="module", params=ARMS)
def run(request, folder) -> Path:
    out = folder / request.param
    taught("classify", out, "--train", folder / "text.tsv", *ARMS[request.param], settings=SETTINGS)
    return out


def test_sixty_sentences_are_learned_and_told_apart(run, folder):
    texts = [text for text, _ in sentences(40, seed=9)]
    result = called("classify", run, stdin="".join(f"{text}\n" for text in texts).encode())
    names = [line.split("\t")[0] for line in result.out.splitlines()]
    assert sum(name == right for name, (_, right) in zip(names, sentences(40, seed=9), strict=True)) > 36
    (scores,) = tables("evaluate", run, "--data", folder / "text.tsv")
    assert scores["accuracy"] > 0.9
    assert "calibration" in called("evaluate", run, "--data", folder / "text.tsv").out
    assert max(line["accuracy"] for line in recorded(run)) > 80


def test_the_directory_is_three_files_of_our_own_type(run):
    table = json.loads((run / "model" / "config.json").read_text())
    name = "lexicon" if run.name == "lexicon" else "bag"
    assert table["model_type"] == f"manyheads-{name}"
    assert table["id2label"] == {"0": "bad", "1": "good"}
    assert {"model.safetensors", "tokenizer.json", "README.md"} < {each.name for each in (run / "model").iterdir()}
    model = Classifier.load(run, device="cpu").model
    assert type(model) is (LexiconClassifier if name == "lexicon" else BagClassifier)
    assert f"A {name}" in (run / "model" / "README.md").read_text()
    assert "labels" in called("info", run).out
    assert "manyheads look" not in called("info", run).out


def test_many_at_a_time_give_each_what_it_would_get_alone(run):
    classifier = Classifier.load(run, device="cpu")
    texts = ["the film is lovely", "dull", "a word nobody knows", "", "the song is bleak and the actor is warm"]
    together, alone = classifier.scores(texts), [classifier.scores([text])[0] for text in texts]
    assert all(one.allclose(other, atol=1e-6) for one, other in zip(together, alone))
    assert repr(classifier).startswith("Classifier(")


def test_a_run_that_was_stopped_goes_on_bit_for_bit(run, folder, tmp_path):
    arm = ARMS[run.name]
    settings = [*SETTINGS, "train.checkpoint_every=10", "train.steps=40"]
    for out, last in (("whole", 40), ("part", 20)):
        found = [*settings, f"train.steps={last}", "train.warmup=5", "train.schedule=constant"]
        taught("classify", tmp_path / out, "--train", folder / "text.tsv", *arm, settings=found)
    result = called("train", "classify", "--out", tmp_path / "part", "--resume", "--steps", "40")
    assert result.code == 0, result.err
    assert newest_difference(tmp_path / "whole", tmp_path / "part") is None


def test_what_a_model_claims_of_itself_holds(run):
    result = called("selfcheck", run)
    assert result.code == 0
    assert result.out.count("ok ") == (3 if run.name in ("counts", "lexicon") else 2)


def test_a_walk_adds_up_to_the_probability(run):
    text = "the film is lovely and the song is bright !"
    classifier = Classifier.load(run, device="cpu")
    walk = walk_through(classifier, text)
    table, sums = walk.steps[:2]
    products = [float(row[-1]) for row in table.cells]
    said = {name: float(row[0]) for name, row in zip(sums.rows, sums.cells)}
    assert sum(products) == pytest.approx(said["sum of products"], abs=2e-3)
    rest = "rest" if run.name == "network" else "bias"
    assert said["sum of products"] + said[rest] == pytest.approx(said["score z"], abs=2e-4)
    (label,) = classifier([text])
    assert said["1 / (1 + e^-z)"] == pytest.approx(label.probability, abs=1e-4)
    for row in table.cells:
        value, weight, product = map(float, row[-3:])
        if run.name != "network":  # whose value is not beside its weight's
            assert value * weight == pytest.approx(product, abs=1e-3)
    assert f"The class is {label.name}" in walk.text()
    printed = called("walk", run, text)
    assert (printed.code, printed.err) == (0, "")
    assert ("x₁ positive" if run.name == "lexicon" else "lovely") in printed.out


def test_a_word_that_is_there_twice_is_counted_twice(folder, run):
    table = walk_through(run, "lovely lovely film", device="cpu").steps[0]
    if run.name == "lexicon":
        assert table.cells[table.rows.index("x₁ positive")][1] == "2"
        return
    if run.name == "bag":  # which knows whether a word is there, and not how often
        assert [row[1] for row in table.cells] == ["1"] * len(table.rows)
    assert {name: row[0] for name, row in zip(table.rows, table.cells)} == {"lovely": "2", "film": "1"}


def test_a_lexicon_of_one_s_own_is_part_of_the_model(folder, tmp_path):
    shutil.copy(folder / "mine.tsv", tmp_path / "mine.tsv")
    flags = ("--train", folder / "text.tsv", "--preset", "lexicon", "--lexicon", tmp_path / "mine.tsv")
    taught("classify", tmp_path / "run", *flags, settings=SETTINGS)
    (tmp_path / "mine.tsv").unlink()
    table = walk_through(tmp_path / "run", "a lovely , lovely film , warm and dull", device="cpu").steps[0]
    assert [row[1] for row in table.cells[:2]] == ["1", "2"]
    assert "negative: lovely, lovely" in table.note
    result = called("train", "classify", "--out", tmp_path / "run", "--resume", "--steps", "100")
    assert result.code == 0, result.err


def test_what_cannot_be_is_one_sentence(folder, run, tmp_path):
    train = ["train", "classify", "--out", tmp_path / "new", "--train"]
    bad = tmp_path / "bad.tsv"
    bad.write_text("good\tpositive\ngood\tpositive\n", encoding="utf-8")
    lexicon = ["--preset", "lexicon", "--lexicon"]
    assert "bad.tsv, line 2: 'good' was there before" in refused(
        *train, folder / "text.tsv", *lexicon, bad, after_reading=True
    )
    assert "--lexicon is for --preset lexicon" in refused(*train, folder / "text.tsv", "--lexicon", bad)
    assert "is not there" in refused(*train, folder / "text.tsv", *lexicon, tmp_path / "none")
    pair = refused(*train, folder / "pair.tsv", "--preset", "bag", after_reading=True)
    assert "of the form pair" in pair
    assert "words of one text" in pair
    wrong = ["--preset", "bag", "--set", "model.weighting=bm25"]
    assert "binary, counts, tfidf" in refused(*train, folder / "text.tsv", *wrong)
    assert "vocabulary follows from" in refused(
        *train, folder / "text.tsv", "--preset", "bag", "--set", "model.vocabulary=9", after_reading=True
    )
    assert "asked for" in refused(*train, folder / "text.tsv", "--model", run)
    assert "no attention" in refused("look", run, "a film", "--out", tmp_path / "look.html")
    assert "leave the choice" in refused("walk", run, "a film", "--head", "1")
    assert "reads one text" in refused("walk", run, "a film", "another")
    assert not (tmp_path / "new").exists()


def test_numbers_can_be_met_by_a_bag(folder, tmp_path):
    lines = "".join(f"{text}\t{1.0 if name == 'good' else -1.0}\n" for text, name in sentences(60))
    (tmp_path / "numbers.tsv").write_text(lines, encoding="utf-8")
    flags = ("--train", tmp_path / "numbers.tsv", "--preset", "bag", "--regression")
    taught("classify", tmp_path / "run", *flags, settings=[*SETTINGS, "train.learning_rate=0.1"])
    low, high = Classifier.load(tmp_path / "run", device="cpu")(["the film is dull", "the film is lovely"])
    assert low < 0 < high
    assert "the number" in called("walk", tmp_path / "run", "the film is dull").out


def test_three_labels_have_a_softmax(folder, tmp_path):
    lines = "".join(f"{text}\t{name}\n" for text, name in [*sentences(40), *[("what is it ?", "question")] * 20])
    (tmp_path / "three.tsv").write_text(lines, encoding="utf-8")
    taught("classify", tmp_path / "run", "--train", tmp_path / "three.tsv", "--preset", "bag", settings=SETTINGS)
    (label,) = Classifier.load(tmp_path / "run", device="cpu")(["what is it ?"])
    assert label.name == "question"
    assert "a softmax of all scores" in called("walk", tmp_path / "run", "what is it ?").out.replace("\n", " ")


def test_the_presets_are_listed():
    listed = called("presets").out
    assert "bag" in listed
    assert "lexicon" in listed
