"""Labels of words as a person types it: names and parts of speech, from an encoder or from nothing."""

import random
import sys
import tomllib
from pathlib import Path

import pytest

from manyheads.data.readers.columns import read_columns
from manyheads.tasks.tag.use import Tagger, score_tags

from .conftest import Result, called, recorded, refused, saved_gpt, tables, taught

FIRST, LAST = ["Ada", "Alan", "Grace", "Kurt", "Emmy"], ["Lovelace", "Turing", "Hopper", "Gödel", "Noether"]
WORDS = ["sees", "the", "river", "likes", "an", "island", "and", "old", "bridges", "today"]
SETTINGS = ["train.device=cpu", "train.learning_rate=0.01", "train.warmup=5"]
SMALL = ["model.width=32", "model.heads=2", "model.layers=1", "model.context=24", "data.vocabulary=140", *SETTINGS]


def sentences(count: int, seed: int = 1) -> list[tuple[list[str], list[str]]]:
    """Words among which some are names, and labels that say which."""
    source, found = random.Random(seed), []
    for _ in range(count):
        words, labels = [], []
        for _ in range(source.randint(1, 3)):
            name = [source.choice(FIRST), source.choice(LAST)][: source.randint(1, 2)]
            rest = source.sample(WORDS, source.randint(1, 3))
            words += [*name, *rest]
            labels += [*["B-person", "I-person"][: len(name)], *["O"] * len(rest)]
        found.append((words, labels))
    return found


def in_columns(made: list[tuple[list[str], list[str]]], line="{word}\t{label}") -> str:
    return "\n".join(
        "".join(f"{line.format(word=word, label=label)}\n" for word, label in zip(words, labels))
        for words, labels in made
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    made = tmp_path_factory.mktemp("tag")
    (made / "train.conll").write_text(in_columns(sentences(60)), encoding="utf-8")
    (made / "dev.conll").write_text(in_columns(sentences(20, seed=2)), encoding="utf-8")
    (made / "four.txt").write_text(in_columns(sentences(60), "{word} x y {label}"), encoding="utf-8")
    (made / "one.conll").write_text(in_columns(sentences(12), "{word}\tO"), encoding="utf-8")
    (made / "strange.conll").write_text("Ada\tB-person\n\nsees\tO\nLeo\tB-animal\n", encoding="utf-8")
    (made / "missing.conll").write_text("Ada\tB-person\nsees\nit\tO\n", encoding="utf-8")
    (made / "short.txt").write_text("Ada x y B-person\nsees x\n", encoding="utf-8")
    (made / "parts.conll").write_text("".join("Ada\tNAME\nsees\tVERB\n\n" for _ in range(12)), encoding="utf-8")
    return made


def tagged(out: Path, file: Path, *flags, assignments=SMALL, epochs=30, steps=None) -> Result:
    steps = [f"train.steps={steps}"] if steps else []
    settings = [*assignments, f"fine_tune.epochs={epochs}", "train.valid_every=20", *steps]
    return taught("tag", out, "--train", file, *flags, settings=settings)


@pytest.fixture(scope="module")
def run(folder) -> Path:
    tagged(folder / "run", folder / "train.conll", "--valid", folder / "dev.conll")
    return folder / "run"


def test_names_are_learned_and_found(folder, run):
    best = max(recorded(run), key=lambda line: line["f1"])
    assert best["f1"] > 90
    assert best["accuracy"] > 90
    assert tomllib.loads((run / "recipe.toml").read_text())["train"]["best_by"] == "f1"
    scores = score_tags(Tagger.load(run, device="cpu"), read_columns(folder / "dev.conll"))
    assert scores.f1 is not None
    assert (100 * scores.f1, 100 * scores.accuracy) == pytest.approx((best["f1"], best["accuracy"]))


def test_words_come_out_in_columns_with_a_blank_line_behind_each_sentence(run, tmp_path):
    made = sentences(7, seed=5)
    lines = [" ".join(words) for words, _ in made]
    result = called("tag", run, stdin="\n".join([*lines, "", "  ", "Ada \t sees"]).encode())
    assert result.code == 0, result.err
    blocks = result.out.split("\n\n")
    assert result.out.endswith("\n\n")
    rows = [[line.split("\t") for line in block.split("\n")] for block in blocks[:7]]
    assert [[word for word, _, _ in block] for block in rows] == [words for words, _ in made]
    right = [label == wanted for block, (_, labels) in zip(rows, made) for (_, label, _), wanted in zip(block, labels)]
    assert sum(right) > 0.9 * len(right)
    assert all(0.33 < float(probability) <= 1 for block in rows for _, _, probability in block)
    told = tables("tag", run, stdin=f"{lines[0]}\n\n".encode())
    assert [[each["word"], each["label"], f"{each['probability']:.4f}"] for each in told[0]["words"]] == rows[0]
    assert told[1] == {"text": "", "words": []}
    # Two empty sentences are two blank lines more.
    rest = result.out.split("\n")[sum(len(words) + 1 for words, _ in made) :]
    assert [line.split("\t")[0] for line in rest] == ["", "", "Ada", "sees", "", ""]
    (tmp_path / "out.conll").write_text(result.out, encoding="utf-8")
    assert len(read_columns(tmp_path / "out.conll", ("1", "2"))) == 8  # what it prints it could learn from


def test_parts_of_speech_are_kept_by_accuracy(folder, tmp_path):
    tagged(tmp_path / "run", folder / "parts.conll", steps=2)
    assert tomllib.loads((tmp_path / "run" / "recipe.toml").read_text())["train"]["best_by"] == "accuracy"
    assert set(recorded(tmp_path / "run")[0]) == {"kind", "step", "loss", "accuracy"}


def test_columns_are_named_by_number_and_the_held_out_follow(folder):
    flags = ["train", "tag", "--train", folder / "four.txt", "--columns", "1", "4", "--show-recipe"]
    train = tomllib.loads(called(*flags, "--set", "data.examples=10").out)["train"]
    assert (train["steps"], train["valid_every"], train["best_by"]) == (18, 2, "f1")  # 54 are left: 6 batches, 3 epochs


def test_sentences_longer_than_the_model_are_cut_into_windows_and_counted_once(folder, tmp_path):
    long = [[word for words, _ in sentences(12, seed) for word in words] for seed in (3, 4)]
    labels = [[label for _, labels in sentences(12, seed) for label in labels] for seed in (3, 4)]
    text = (folder / "train.conll").read_text(encoding="utf-8")
    (tmp_path / "long.conll").write_text(f"{text}\n{in_columns(list(zip(long, labels)))}", encoding="utf-8")
    result = tagged(tmp_path / "run", tmp_path / "long.conll", "--valid", tmp_path / "long.conll")
    said = [line for line in result.err.splitlines() if "longer than the model's context" in line]
    assert len(said) == 1
    assert max(line["f1"] for line in recorded(tmp_path / "run")) > 90
    tagger = Tagger.load(tmp_path / "run", device="cpu")
    scores = score_tags(tagger, read_columns(tmp_path / "long.conll")[-2:])
    assert scores.words == len(long[0]) + len(long[1]) > 2 * 24
    assert scores.f1 is not None
    assert scores.f1 > 0.9


@pytest.fixture(scope="module")
def language_model(tmp_path_factory) -> Path:
    return saved_gpt(tmp_path_factory.mktemp("models") / "lm", ["the cat sees a tree"])


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ("one.conll", "every word has the label O"),
        ("missing.conll", "missing.conll, line 2: 1 column"),
        ("short.txt --columns 1 4", "short.txt, line 2: 2 columns"),
        ("train.conll --columns 1", "two numbers"),
        ("train.conll --columns 1 5", "line 1: 2 columns, but column 5 is asked for"),
        ("train.conll --valid {folder}/strange.conll", "from line 3 on: the label 'B-animal'"),
        ("train.conll --model {lm}", "holds a language model (gpt2)"),
        ("train.conll --preset gpt2_tiny", "no preset gpt2_tiny of encoders"),
        ("train.conll --freeze", "not worth freezing"),
        ("train.conll --set model.context=2", "no place for a word"),
        ("train.conll --set train.best_by=bleu", "f1 or accuracy or loss"),
        ("parts.conll --set train.best_by=f1", "use accuracy or loss"),
    ],
)
def test_what_cannot_be_is_one_sentence_and_leaves_nothing(folder, language_model, tmp_path, flags, said):
    file, *given = flags.format(folder=folder, lm=language_model).split()
    train = ["train", "tag", "--out", tmp_path / "new", "--train", folder / file]
    assert said in refused(*train, *given, after_reading=True)
    assert not (tmp_path / "new").exists()


def test_without_seqeval_it_is_said_before_anything_is_trained(folder, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "seqeval", None)
    flags = ["--train", folder / "train.conll", "--out", tmp_path / "new", "--set", *SMALL]
    result = called("train", "tag", *flags)
    assert result.code == 2
    assert "pip install 'manyheads[metrics]'" in result.err
    assert "step" not in result.err
    assert not (tmp_path / "new").exists()
