"""Fine-tuning as a person types it: texts, pairs and multiple choice, from encoders, decoders or from nothing."""

import json
import random
import re
import shutil
import tomllib
from pathlib import Path

import pytest
import torch
from helpers import randomised
from torch.testing import assert_close

from manyheads.core.files import beside
from manyheads.interop.directory import load_model, save_model
from manyheads.models.bert import Bert, BertAnswerer, BertConfig, MaskedBert
from manyheads.models.heads import EncoderClassifier, EncoderTagger
from manyheads.models.transformer import Transformer, TransformerConfig
from manyheads.tasks.classify.use import Classifier
from manyheads.tasks.inside.prune import prune
from manyheads.text.encoder import EncoderTokenizer
from manyheads.text.tokenizer import Tokenizer

from .conftest import Result, called, newest_difference, recorded, refused, saved_gpt, tables, taught

GOOD, BAD = ["lovely", "bright", "charming", "warm"], ["dull", "cold", "boring", "bleak"]
NOUNS = ["film", "story", "actor", "scene", "song"]
SETTINGS = ["train.device=cpu", "train.learning_rate=0.01", "train.warmup=5"]
DECODER = ("--preset", "gpt2_tiny")
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
    return taught("classify", out, "--train", file, *flags, settings=settings)


@pytest.fixture(scope="module")
def run(folder) -> Path:
    """An encoder that has learned from nothing but the examples."""
    fine_tuned(folder / "run", folder / "text.tsv", "--valid", folder / "text.tsv")
    return folder / "run"


@pytest.fixture(scope="module")
def decoder_run(folder) -> Path:
    fine_tuned(folder / "decoder", folder / "text.tsv", "--valid", folder / "text.tsv", *DECODER)
    return folder / "decoder"


def accuracy(run: Path) -> float:
    return max(line["accuracy"] for line in recorded(run))


@pytest.mark.parametrize("which", ["run", "decoder_run"])
def test_sixty_sentences_are_learned_and_told_apart(which, request):
    run = request.getfixturevalue(which)
    model_type = json.loads((run / "model" / "config.json").read_text())["model_type"]
    assert model_type == ("bert" if which == "run" else "gpt2")
    assert accuracy(run) > 90
    right = [text for text, _ in sentences(40, seed=9)]
    result = called("classify", run, stdin="".join(f"{text}\n" for text in right).encode())
    assert result.code == 0, result.err
    rows = [line.split("\t") for line in result.out.splitlines()]
    assert sum(name == wanted for (name, _), (_, wanted) in zip(rows, sentences(40, seed=9), strict=True)) > 36
    assert all(0.5 <= float(probability) <= 1 for _, probability in rows)
    found = Classifier.load(run, device="cpu")(right)
    assert result.out.splitlines() == [f"{each.name}\t{each.probability:.4f}" for each in found]
    told = tables("classify", run, stdin=f"{right[0]}\n".encode())[0]
    assert (told["text"], told["label"]) == (right[0], found[0].name)
    assert set(told["probabilities"]) == {"good", "bad"}
    assert sum(told["probabilities"].values()) == pytest.approx(1)
    assert max(told["probabilities"].values()) == told["probability"] == pytest.approx(found[0].probability)


def test_the_steps_follow_from_the_examples_unless_they_are_set(folder):
    flags = ["train", "classify", "--train", folder / "text.tsv", "--show-recipe", "--set", "data.examples=10"]
    train = tomllib.loads(called(*flags).out)["train"]
    assert (train["steps"], train["valid_every"]) == (18, 2)  # 54 examples without those held out: 6 batches, 3 epochs
    assert tomllib.loads(called(*flags, "fine_tune.epochs=7").out)["train"]["steps"] == 42
    assert tomllib.loads(called(*flags, "train.steps=5").out)["train"]["steps"] == 5
    assert tomllib.loads(called(*flags, "train.steps=100000").out)["train"]["warmup"] == 10_000


@pytest.mark.parametrize("preset", [(), DECODER], ids=["encoder", "decoder"])
def test_pairs_and_choices_are_learned_too(folder, tmp_path, preset):
    for name in ("pair.tsv", "choice.jsonl"):
        fine_tuned(tmp_path / name, folder / name, "--valid", folder / name, *preset, epochs=60)
        assert accuracy(tmp_path / name) > 80
    lines = "the film is warm\tthe song is bright\nthe film is warm\tthe song is bleak\n"
    result = called("classify", tmp_path / "pair.tsv", stdin=lines.encode())
    assert [line.split("\t")[0] in ("same", "other") for line in result.out.splitlines()] == [True, True]
    line = json.dumps({"context": "the film is warm", "choices": ["a", "yes", "c"]})
    result = called("classify", tmp_path / "choice.jsonl", stdin=f"{line}\n".encode())
    assert result.out.startswith("1\tyes\t")
    told = tables("classify", tmp_path / "choice.jsonl", stdin=f"{line}\n".encode())[0]
    assert (told["index"], told["label"], told["choices"]) == (1, "yes", ["a", "yes", "c"])
    assert told["probability"] == max(told["probabilities"])
    assert tables("classify", tmp_path / "pair.tsv", stdin=b"a\tb\n")[0]["texts"] == ["a", "b"]


def test_a_line_without_its_tab_is_refused_by_number(folder, tmp_path):
    fine_tuned(tmp_path / "pair", folder / "pair.tsv", steps=1)
    assert re.search("line 2.*tab", refused("classify", tmp_path / "pair", stdin=b"a\tb\nalone\n"))


@pytest.fixture(scope="module")
def language_model(tmp_path_factory) -> Path:
    """A model directory with a tokenizer and more rows than it has tokens."""
    texts = [text for text, _ in sentences(60)]
    return saved_gpt(tmp_path_factory.mktemp("models") / "lm", texts, more_rows=1, context=32, layers=2)


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
    taught("classify", tmp_path / "again", "--recipe", tmp_path / "run" / "recipe.toml")
    assert newest_difference(tmp_path / "run", tmp_path / "again") is None


def test_texts_that_are_too_long_are_counted_once(folder, tmp_path):
    (tmp_path / "long.tsv").write_text((folder / "text.tsv").read_text() + f"{'the film ' * 90}\tgood\n" * 3)
    err = fine_tuned(tmp_path / "run", tmp_path / "long.tsv", steps=1).err
    assert err.count("warning: texts longer than the model's context, which lose their end: 3\n") == 1


@pytest.mark.parametrize("family", ["bert", "gpt", "llama"])
def test_the_model_opens_in_transformers_with_the_same_logits(folder, tmp_path, family):
    transformers = pytest.importorskip("transformers")
    assignments = ["model.width=24", "model.heads=2", "model.layers=2", "model.context=32", "data.vocabulary=300"]
    preset = {"bert": "bert_tiny", "gpt": "gpt2_tiny", "llama": "llama_tiny"}[family]
    fine_tuned(tmp_path, folder / "text.tsv", "--preset", preset, "--overwrite", assignments=[*assignments, *SETTINGS])
    theirs = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path / "model").eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "model")
    texts = [text for text, _ in sentences(7, seed=5)]
    with torch.no_grad():
        logits = theirs(**tokenizer(texts, padding=True, return_tensors="pt")).logits
    ours = Classifier.load(tmp_path, device="cpu")
    assert_close(ours.probabilities(texts), logits.softmax(dim=1))
    assert [label.name for label in ours(texts)] == [theirs.config.id2label[int(row.argmax())] for row in logits]


# Encoders

SIZES = {"context": 32, "width": 24, "layers": 2, "heads": 2}
KINDS = {
    "encoder": lambda config: Bert(config),
    "bare": lambda config: Bert(config, pooler=False),
    "words": lambda config: MaskedBert(config),
    "sentences": lambda config: MaskedBert(config, next_sentence=True),
    "classifier": lambda config: EncoderClassifier(Bert(config), ("a", "b", "c")),
    "number": lambda config: EncoderClassifier(Bert(config)),
    "tagger": lambda config: EncoderTagger(Bert(config, pooler=False), ("a", "b", "c")),
    "answerer": lambda config: BertAnswerer(Bert(config, pooler=False)),
}


@pytest.fixture(scope="module")
def encoders(tmp_path_factory) -> Path:
    """A directory for each kind of BERT, with more rows than the tokenizer has tokens, and one of a translator."""
    made = tmp_path_factory.mktemp("encoders")
    texts = [text for text, _ in sentences(60)]
    tokenizer = EncoderTokenizer.train(texts, 90)
    torch.manual_seed(3)
    for name, build in KINDS.items():
        config = BertConfig(vocabulary=len(tokenizer) + 1, separator=tokenizer.separator, **SIZES)
        save_model(made / name, randomised(build(config), 0.2), tokenizer, "")
    pieces = Tokenizer.train(texts, 290)
    ends = {"pad": pieces.pad, "start": pieces.start, "end": pieces.end}
    translator = Transformer(TransformerConfig(vocabulary=len(pieces), width=24, layers=1, heads=2, inner=37, **ends))
    save_model(made / "translator", translator, pieces, "")
    return made


def differing(one: torch.nn.Module, other: torch.nn.Module) -> set[str]:
    """Names of the weights in which two encoders differ, without the numbers of blocks."""
    weights = other.state_dict()
    changed = [name for name, tensor in one.state_dict().items() if name in weights and not tensor.equal(weights[name])]
    return {name.partition(".")[0] for name in changed}


@pytest.mark.parametrize("kind", KINDS)
def test_the_encoder_of_any_kind_of_bert_can_be_fine_tuned(folder, encoders, tmp_path, kind):
    flags = ["--model", encoders / kind]
    err = fine_tuned(tmp_path / "run", folder / "text.tsv", *flags, assignments=SETTINGS, steps=1).err
    (before, old), (after, new) = load_model(encoders / kind), load_model(tmp_path / "run", kinds=(EncoderClassifier,))
    before = getattr(before, "body", before)
    assert (after.names, after.form, after.config) == (("bad", "good"), "text", before.config)
    assert new.encode(["the film"]) == old.encode(["the film"])
    pooler = set() if before.pooler is None else {"pooler"}
    assert differing(after.body, before) == {"embedding", "positions", "segments", "norm", "blocks", *pooler}
    for name, tensor in before.state_dict().items():  # one step away from the weights it began with
        assert (after.body.state_dict()[name] - tensor).abs().max() < 0.02, name
    recipe = tomllib.loads((tmp_path / "run" / "recipe.toml").read_text())
    assert (recipe["family"], recipe["fine_tune"]["model"]) == ("bert", str(encoders / kind))
    assert recipe["fine_tune"]["auxiliary"] == 0
    assert ("the pre-trained model has no pooler; this one begins untrained" in err) == (before.pooler is None)
    assert after.body.pooler is not None


# Numbers


@pytest.fixture(scope="module")
def numbers(folder) -> Path:
    """Sentences with a number that follows from one word."""
    worth = {word: f"{place - 3.5:.2f}" for place, word in enumerate([*BAD, *GOOD])}
    lines = [f"{text}\t{worth[text.split()[-1]]}\n" for text, _ in sentences(60)]
    (folder / "numbers.tsv").write_text("sentence\tscore\n" + "".join(lines))
    return folder / "numbers.tsv"


@pytest.mark.parametrize("preset", [(), DECODER], ids=["encoder", "decoder"])
def test_numbers_are_met_and_printed(numbers, tmp_path, preset):
    fine_tuned(tmp_path / "run", numbers, "--valid", numbers, "--regression", *preset, epochs=60)
    assert max(line["pearson"] for line in recorded(tmp_path / "run")) > 90
    recipe = tomllib.loads((tmp_path / "run" / "recipe.toml").read_text())
    assert (recipe["data"]["regression"], recipe["train"]["best_by"]) == (True, "pearson")
    model, _ = load_model(tmp_path / "run")
    assert model.names == ()
    result = called("classify", tmp_path / "run", stdin=b"the film is warm\nthe song is dull\n")
    assert (result.code, result.err) == (0, "")
    warm, dull = result.out.splitlines()
    assert float(warm) > 1 > -1 > float(dull)  # 3.5 and -3.5
    found = Classifier.load(tmp_path / "run", device="cpu")(["the film is warm", "the song is dull"])
    assert [warm, dull] == [f"{each:.4f}" for each in found]


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ("text.tsv --model {decoder}", "holds a classifier (gpt2)"),
        ("text.tsv --model {lm} --preset gpt2_tiny", "lm has sizes of its own; leave the preset gpt2_tiny or the"),
        ("text.tsv --model {lm} --set model.layers=3", "cannot change"),
        ("text.tsv --model {encoders}/translator", "holds a translator (marian)"),
        ("text.tsv --model {encoders}/encoder --set fine_tune.auxiliary=0.5", "auxiliary is for language models"),
        ("text.tsv --set fine_tune.auxiliary=0.5", "fine_tune.auxiliary is for language models"),
        ("text.tsv --valid {folder}/pair.tsv", "of the form pair"),
        ("text.tsv --set model.context=4", "model.context is 4, which leaves no place for a text; raise it"),
        ("text.tsv --set model.context=4 --preset gpt2_tiny", "model.context is 4, which leaves no place for a text"),
        ("text.tsv --set train.best_by=bleu", "not for this task; use accuracy or loss"),
        ("text.tsv --set train.best_by=pearson", "use accuracy or loss"),
        ("text.tsv --columns sentence", "a text or two"),
        ("text.tsv --freeze", "an untrained model is not worth freezing; give a pre-trained one"),
        ("text.tsv --freeze --preset gpt2_tiny", "an untrained model is not worth freezing"),
        ("text.tsv --regression", "line 2: 'good' is not a number; mend the line"),
        ("choice.jsonl --regression", "these are choices with an answer"),
        ("numbers.tsv --regression --set train.best_by=accuracy", "use pearson or loss"),
        ("one.tsv", "every example has the label good; there must be two or more"),
    ],
)
def test_what_cannot_be_is_one_sentence_and_leaves_nothing(
    folder, numbers, encoders, decoder_run, language_model, tmp_path, flags, said
):
    (folder / "one.tsv").write_text("".join(f"{text}\tgood\n" for text, _ in sentences(20)))
    given = flags.format(folder=folder, encoders=encoders, decoder=decoder_run, lm=language_model).split()
    assert said in refused("train", "classify", "--out", tmp_path / "new", "--train", folder / given[0], *given[1:])
    assert not (tmp_path / "new").exists()


def test_a_model_that_has_lost_heads_is_refused(folder, encoders, language_model, tmp_path):
    for name, model in (("encoder", encoders / "encoder"), ("language", language_model)):
        prune(model, [(0, 1)], tmp_path / name)
        flags = ["--train", folder / "text.tsv", "--model", tmp_path / name]
        assert refused("train", "classify", "--out", tmp_path / "new", *flags) == (
            f"{tmp_path / name} has lost heads, which a run cannot learn without; train first, then prune"
        )
        assert not (tmp_path / "new").exists()


# Freezing


@pytest.mark.parametrize("kind", ["encoder", "words"])
def test_of_a_frozen_encoder_only_pooler_and_head_learn(folder, encoders, tmp_path, kind):
    flags = ["--model", encoders / kind, "--freeze"]
    settings = [*SETTINGS, "train.optimizer=adamw", "train.weight_decay=0.1"]  # which moves all that learns
    for steps in (1, 4):
        out = tmp_path / f"{steps}"
        err = fine_tuned(out, folder / "text.tsv", *flags, assignments=settings, steps=steps).err
        assert "(650 of them learn)" in err  # 24 · 24 + 24 and 24 · 2 + 2
    before, _ = load_model(encoders / kind)
    one, four = load_model(tmp_path / "1")[0], load_model(tmp_path / "4")[0]
    # Each began with the same head.
    assert differing(one, four) == {"body", "score"}
    assert differing(one.body, four.body) == {"pooler"}
    assert differing(four.body, getattr(before, "body", before)) == ({"pooler"} if kind == "encoder" else set())


def test_of_a_frozen_decoder_only_the_head_learns(folder, language_model, tmp_path):
    flags = ["--model", language_model, "--freeze"]
    fine_tuned(tmp_path / "run", folder / "text.tsv", *flags, assignments=SETTINGS, steps=4)
    (before, _), (after, _) = load_model(language_model), load_model(tmp_path / "run")
    rows = len(before.embedding.weight)
    for name, tensor in before.state_dict().items():
        assert torch.equal(after.body.state_dict()[name][: len(tensor)], tensor), name
    assert len(after.body.embedding.weight) > rows


@pytest.mark.parametrize("freeze", [True, False])
def test_a_run_goes_on_to_the_bit_without_its_files_and_its_model(folder, encoders, language_model, tmp_path, freeze):
    model = shutil.copytree(encoders / "encoder" if freeze else language_model, tmp_path / "model")
    shutil.copy(folder / "text.tsv", tmp_path / "text.tsv")
    flags = ["--model", model, *(["--freeze"] if freeze else [])]
    settings = [*SETTINGS, "model.dropout=0.2", "train.checkpoint_every=3", "train.schedule=constant"]
    fine_tuned(tmp_path / "whole", tmp_path / "text.tsv", *flags, assignments=settings, steps=7)
    fine_tuned(tmp_path / "part", tmp_path / "text.tsv", *flags, assignments=settings, steps=4)
    shutil.rmtree(model)
    (tmp_path / "text.tsv").unlink()
    taught("classify", tmp_path / "part", "--resume", "--set", "train.steps=7")
    assert newest_difference(tmp_path / "whole", tmp_path / "part") is None


# Files and lines


def test_what_is_usual_can_be_changed_without_being_repeated(folder):
    flags = ["train", "classify", "--train", folder / "text.tsv", "--show-recipe"]
    assert tomllib.loads(called(*flags).out)["train"]["optimizer"] == "adamw"
    result = called(*flags, "--set", "train.weight_decay=0.1")
    assert result.code == 0, result.err
    train = tomllib.loads(result.out)["train"]
    assert (train["optimizer"], train["weight_decay"]) == ("adamw", 0.1)


def test_a_folder_brings_its_own_validation(folder, tmp_path):
    made = tmp_path / "glue"
    made.mkdir()
    header, *lines = examples("text")
    (made / "train.tsv").write_text("\n".join([header, *lines]) + "\n")
    (made / "dev.tsv").write_text("\n".join([header, *lines[:7]]) + "\n")
    err = fine_tuned(tmp_path / "run", made, steps=1).err
    assert "60 examples to learn from, 7 to validate on, 2 labels" in err
    err = fine_tuned(tmp_path / "other", made, "--valid", folder / "text.tsv", steps=1).err
    assert "60 examples to learn from, 60 to validate on" in err
    (made / "dev.tsv").unlink()
    assert "54 examples to learn from, 6 to validate on" in fine_tuned(tmp_path / "held", made, steps=1).err


def test_lines_that_are_too_long_are_told_of_once(run):
    long = "the film is warm and " * 20
    texts = [long, "the film is warm", *["the song is dull"] * 5000, long]  # more than are read at once
    result = called("classify", run, stdin="".join(f"{text}\n" for text in texts).encode())
    assert result.code == 0
    assert len(result.out.splitlines()) == 5003
    assert result.err.startswith("warning: texts longer than the model reads, which lose their end: 1 of ")
    assert result.err.count("\n") == 1
    assert result.out.splitlines()[0] == result.out.splitlines()[-1]


def test_empty_lines_are_labelled_and_warned_of(run):
    result = called("classify", run, stdin=b"the film is warm\n\n  \nthe song is dull\n")
    assert result.code == 0
    assert len(result.out.splitlines()) == 4
    assert result.err == "warning: lines that are empty, of which what is said means nothing: 2\n"
    assert called("classify", run, stdin=b"").out == ""


def test_examples_without_a_text_are_left_out_and_warned_of(folder, tmp_path):
    (tmp_path / "a.tsv").write_text((folder / "text.tsv").read_text() + "\tgood\n  \tbad\n")
    err = fine_tuned(tmp_path / "run", tmp_path / "a.tsv", steps=1).err
    assert "warning: " in err
    assert "2 examples with an empty text are left out, the first of them in line 62" in err
    assert "54 examples to learn from" in err


def test_a_run_killed_while_it_wrote_its_first_checkpoint_begins_with_the_pre_trained_model_again(folder, tmp_path):
    few = ["train.steps=3", "train.valid_every=3"]
    flags = ["train", "classify", "--train", folder / "text.tsv"]
    assert called(*flags, "--out", tmp_path / "bert", "--set", *SMALL, *few).code == 0
    for run in ("whole", "killed"):
        assert called(*flags, "--model", tmp_path / "bert", "--out", tmp_path / run, "--set", *SETTINGS, *few).code == 0
    for path in (tmp_path / "killed" / "checkpoints").iterdir():
        path.rename(beside(path, "unfinished"))
    taught("classify", tmp_path / "killed", "--resume")
    assert newest_difference(tmp_path / "whole", tmp_path / "killed") is None


def test_a_classifier_from_elsewhere_takes_a_text_or_two(tmp_path):
    transformers = pytest.importorskip("transformers")
    tokenizer = EncoderTokenizer.train([text for text, _ in sentences(60)], 120)
    sizes = {"hidden_size": 18, "num_hidden_layers": 1, "num_attention_heads": 3, "intermediate_size": 20}
    theirs = transformers.BertForSequenceClassification(
        transformers.BertConfig(vocab_size=len(tokenizer), num_labels=3, initializer_range=0.5, **sizes)
    ).eval()
    theirs.save_pretrained(tmp_path)
    tokenizer.save(tmp_path)
    result = called("classify", tmp_path, stdin=b"the film is warm\nthe film is warm\tthe song is cold\n")
    assert result.code == 0, result.err
    inputs = transformers.AutoTokenizer.from_pretrained(tmp_path)
    with torch.inference_mode():
        for line, asked in zip(
            result.out.splitlines(), (("the film is warm",), ("the film is warm", "the song is cold"))
        ):
            chances = theirs(**inputs(*asked, return_tensors="pt")).logits.softmax(dim=1)[0]
            name, chance = line.split("\t")
            assert name == f"LABEL_{int(chances.argmax())}"
            assert abs(float(chance) - float(chances.max())) < 1e-4
    assert called("classify", tmp_path, stdin=b"one\ttwo\tthree\n").code == 2
