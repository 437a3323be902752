"""Fine-tuning as a person types it: texts, pairs and multiple choice, from a language model or from nothing."""

import json
import random
import shutil
import tomllib
from pathlib import Path

import pytest
import torch
from torch.testing import assert_close

from manyheads.interop.directory import load_model, save_model
from manyheads.models.gpt import GPT, GPTConfig
from manyheads.tasks.classify import Classifier
from manyheads.text.language import LanguageTokenizer
from manyheads.train.checkpoint import Checkpoints, first_difference

from .conftest import Result, called

GOOD, BAD = ["lovely", "bright", "charming", "warm"], ["dull", "cold", "boring", "bleak"]
NOUNS = ["film", "story", "actor", "scene", "song"]
SETTINGS = ["train.device=cpu", "train.learning_rate=0.01", "train.warmup=5"]
SMALL = ["model.width=32", "model.heads=2", "model.layers=1", "model.context=32", "data.vocabulary=300", *SETTINGS]


def sentences(count: int, seed: int = 1) -> list[tuple[str, str]]:
    """A sentence, and whether what it says is good."""
    source = random.Random(seed)
    found = []
    for number in range(count):
        name, words = (("good", GOOD), ("bad", BAD))[number % 2]
        nouns = " and the ".join(source.sample(NOUNS, source.randint(1, 3)))
        found.append((f"the {nouns} is {source.choice(words)}", name))
    return found


def examples(form: str) -> list[str]:
    """Lines of a file with examples, the first a header where there is one."""
    if form == "text":
        return ["sentence\tlabel", *(f"{text}\t{name}" for text, name in sentences(60))]
    pairs = list(zip(sentences(64, seed=2), random.Random(3).sample(sentences(64, seed=4), 64)))
    if form == "pair":
        return [f"{a}\t{b}\t{'same' if one == other else 'other'}" for (a, one), (b, other) in pairs]
    lines = []
    for number, (text, _) in enumerate(sentences(60)):
        wrong = ["a", "b", "c"][: 1 + number % 3]
        choices = [*wrong, "yes"] if number % 4 else ["yes", *wrong]
        lines.append(json.dumps({"context": text, "choices": choices, "answer": choices.index("yes")}))
    return lines


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    made = tmp_path_factory.mktemp("classify")
    for form, name in (("text", "text.tsv"), ("pair", "pair.tsv"), ("choice", "choice.jsonl")):
        (made / name).write_text("".join(f"{line}\n" for line in examples(form)), encoding="utf-8")
    return made


def fine_tuned(out: Path, file: Path, *flags, assignments=SMALL, epochs=30, steps=None) -> Result:
    steps = [f"train.steps={steps}"] if steps else []
    settings = [*assignments, f"fine_tune.epochs={epochs}", "train.valid_every=20", *steps]
    result = called("train", "classify", "--train", file, "--out", out, *flags, "--set", *settings)
    assert result.code == 0, result.err
    return result


@pytest.fixture(scope="module")
def run(folder) -> Path:
    fine_tuned(folder / "run", folder / "text.tsv", "--valid", folder / "text.tsv")
    return folder / "run"


def accuracy(run: Path) -> float:
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return max(line["accuracy"] for line in lines if line["kind"] == "valid")


def test_sixty_sentences_are_learned_and_told_apart(run):
    assert accuracy(run) > 90
    right = [text for text, _ in sentences(40, seed=9)]
    result = called("classify", run, stdin="".join(f"{text}\n" for text in right).encode())
    assert result.code == 0, result.err
    rows = [line.split("\t") for line in result.out.splitlines()]
    assert sum(name == wanted for (name, _), (_, wanted) in zip(rows, sentences(40, seed=9), strict=True)) > 36
    assert all(0.5 <= float(probability) <= 1 for _, probability in rows)


def test_the_steps_follow_from_the_examples_unless_they_are_set(folder):
    flags = ["train", "classify", "--train", folder / "text.tsv", "--show-recipe", "--set", "data.examples=10"]
    train = tomllib.loads(called(*flags).out)["train"]
    assert (train["steps"], train["valid_every"]) == (18, 2)  # 54 examples without those held out: 6 batches, 3 epochs
    assert tomllib.loads(called(*flags, "fine_tune.epochs=7").out)["train"]["steps"] == 42
    assert tomllib.loads(called(*flags, "train.steps=5").out)["train"]["steps"] == 5


def test_pairs_and_choices_are_learned_too(folder, tmp_path):
    for name in ("pair.tsv", "choice.jsonl"):
        fine_tuned(tmp_path / name, folder / name, "--valid", folder / name, epochs=60)
        assert accuracy(tmp_path / name) > 80
    lines = "the film is warm\tthe song is bright\nthe film is warm\tthe song is bleak\n"
    result = called("classify", tmp_path / "pair.tsv", stdin=lines.encode())
    assert [line.split("\t")[0] in ("same", "other") for line in result.out.splitlines()] == [True, True]
    line = json.dumps({"context": "the film is warm", "choices": ["a", "yes", "c"]})
    result = called("classify", tmp_path / "choice.jsonl", stdin=f"{line}\n".encode())
    assert result.out.startswith("1\tyes\t")


def test_a_line_without_its_tab_is_refused_by_number(folder, tmp_path):
    fine_tuned(tmp_path / "pair", folder / "pair.tsv", steps=1)
    result = called("classify", tmp_path / "pair", stdin=b"a\tb\nalone\n")
    assert result.code == 2
    assert "line 2" in result.err
    assert "tab" in result.err


@pytest.fixture(scope="module")
def language_model(tmp_path_factory) -> Path:
    """A model directory with a tokenizer and more rows than it has tokens."""
    texts = [text for text, _ in sentences(60)]
    tokenizer = LanguageTokenizer.train(texts, 290)
    torch.manual_seed(3)
    sizes = {"context": 32, "width": 24, "layers": 2, "heads": 2, "end": tokenizer.end}
    model = GPT(GPTConfig(vocabulary=len(tokenizer) + 1, **sizes))
    path = tmp_path_factory.mktemp("models") / "lm"
    save_model(path, model, tokenizer, "")
    return path


def test_a_language_model_is_fine_tuned_with_its_own_tokens(folder, language_model, tmp_path):
    fine_tuned(tmp_path / "run", folder / "text.tsv", "--model", language_model, assignments=SETTINGS, steps=1)
    (before, old), (after, new) = load_model(language_model), load_model(tmp_path / "run")
    assert new.encode(["the film"]) == old.encode(["the film"])
    assert after.config.vocabulary == len(new) == len(old) + 3
    assert after.names == ("bad", "good")
    moved = (after.body.embedding.weight[: len(old)] - before.embedding.weight[: len(old)]).abs().max()
    assert 0 < moved < 0.05  # one step away from the weights it began with
    recipe = tomllib.loads((tmp_path / "run" / "recipe.toml").read_text())
    assert recipe["fine_tune"]["model"] == str(language_model)
    again = called("train", "classify", "--recipe", tmp_path / "run" / "recipe.toml", "--out", tmp_path / "again")
    assert again.code == 0, again.err
    assert newest_difference(tmp_path / "run", tmp_path / "again") is None


def newest_difference(one: Path, other: Path) -> str | None:
    newest = [Checkpoints(run / "checkpoints", 9, 1).paths()[-1] for run in (one, other)]
    assert newest[0].name == newest[1].name
    return first_difference(*newest)


def test_a_run_goes_on_to_the_bit_without_its_files_and_its_language_model(folder, language_model, tmp_path):
    shutil.copytree(language_model, tmp_path / "lm")
    shutil.copy(folder / "text.tsv", tmp_path / "text.tsv")
    flags = ["--model", tmp_path / "lm"]
    settings = [*SETTINGS, "model.dropout=0.2", "train.checkpoint_every=3", "train.schedule=constant"]
    fine_tuned(tmp_path / "whole", tmp_path / "text.tsv", *flags, assignments=settings, steps=7)
    fine_tuned(tmp_path / "part", tmp_path / "text.tsv", *flags, assignments=settings, steps=4)
    shutil.rmtree(tmp_path / "lm")
    (tmp_path / "text.tsv").unlink()
    result = called("train", "classify", "--out", tmp_path / "part", "--resume", "--set", "train.steps=7")
    assert result.code == 0, result.err
    assert newest_difference(tmp_path / "whole", tmp_path / "part") is None
    shutil.rmtree(tmp_path / "part" / "checkpoints" / "step-00000007")
    result = called("train", "classify", "--out", tmp_path / "part", "--resume", "--set", "data.examples=3")
    assert result.code == 2


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ([], "no examples to learn from"),
        (["--train", "nowhere.tsv"], "nowhere.tsv is not there"),
        (["--train", "{folder}/text.tsv", "--model", "nowhere"], "nowhere does not exist"),
        (["--train", "{folder}/text.tsv", "--model", "{run}"], "a language model"),
        (["--train", "{folder}/text.tsv", "--model", "{lm}", "--preset", "gpt2_tiny"], "preset"),
        (["--train", "{folder}/text.tsv", "--model", "{lm}", "--set", "model.layers=3"], "cannot change"),
        (["--train", "{folder}/text.tsv", "--valid", "{folder}/pair.tsv"], "of the form pair"),
        (["--train", "{folder}/text.tsv", "--set", "model.context=4"], "no place for a text"),
        (["--train", "{folder}/text.tsv", "--set", "train.best_by=bleu"], "accuracy or loss"),
        (["--train", "{folder}/text.tsv", "--set", "train.smoothing=0.1"], "smoothing"),
        (["--train", "{folder}/text.tsv", "--columns", "sentence"], "a text or two"),
    ],
)
def test_what_cannot_be_is_one_sentence_and_leaves_nothing(folder, run, language_model, tmp_path, flags, said):
    flags = [flag.format(folder=folder, run=run, lm=language_model) for flag in flags]
    result = called("train", "classify", "--out", tmp_path / "new", *flags)
    assert result.code == 2
    assert said in result.err
    assert len(result.err.strip().splitlines()) == 1
    assert not (tmp_path / "new").exists()


def test_texts_that_are_too_long_are_counted_once(folder, tmp_path):
    (tmp_path / "long.tsv").write_text((folder / "text.tsv").read_text() + f"{'the film ' * 90}\tgood\n" * 3)
    err = fine_tuned(tmp_path / "run", tmp_path / "long.tsv", steps=1).err
    assert err.count("longer than the model's context") == 1
    assert "warning: 3 texts" in err


@pytest.mark.parametrize("family", ["gpt", "llama"])
def test_the_model_opens_in_transformers_with_the_same_logits(folder, tmp_path, family):
    transformers = pytest.importorskip("transformers")
    assignments = ["model.width=24", "model.heads=2", "model.layers=2", "model.context=32", "data.vocabulary=300"]
    preset = {"gpt": "gpt2_tiny", "llama": "llama_tiny"}[family]
    fine_tuned(tmp_path, folder / "text.tsv", "--preset", preset, "--overwrite", assignments=[*assignments, *SETTINGS])
    theirs = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path / "model").eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "model")
    texts = [text for text, _ in sentences(7, seed=5)]
    with torch.no_grad():
        logits = theirs(**tokenizer(texts, padding=True, return_tensors="pt")).logits
    ours = Classifier.load(tmp_path, device="cpu")
    assert_close(ours.probabilities(texts), logits.softmax(dim=1))
    assert [label.name for label in ours(texts)] == [theirs.config.id2label[int(row.argmax())] for row in logits]
