"""Pre-training as a person types it: hidden words and next sentences, guessed and scored."""

import json
import random
import re
import tomllib
from pathlib import Path

import pytest
import tokenizers
import torch
from helpers import randomised
from tokenizers import models

from manyheads import Filler
from manyheads.core.errors import ManyheadsError
from manyheads.data.ragged import Store
from manyheads.interop.directory import load_model, save_model
from manyheads.models.bert import Bert, BertConfig, MaskedBert
from manyheads.text.encoder import EncoderTokenizer

from .conftest import Result, called, newest_difference, recorded, refused, tables, taught

ROOT = Path(__file__).parents[2]
ANIMALS = {"cat": "meow", "dog": "woof", "cow": "moo", "duck": "quack", "sheep": "baa"}
TOPICS = [["tick", "tock", "bell"], ["milk", "salt", "bread"], ["rain", "snow", "fog"]]
TINY = [
    *("model.context=13", "model.width=32", "model.layers=1", "model.heads=2", "model.dropout=0.0"),
    *("model.attention_dropout=0.0", "data.vocabulary=120", "data.rows=32", "train.learning_rate=0.003"),
    *("train.warmup=20", "train.valid_every=1000", "train.checkpoint_every=1000", "train.device=cpu"),
    "train.steps=1",  # so that one which should have been refused is soon done
]
BOTH = ["a cat sat. it ran. a dog ran. it sat. a hen sat. the dog ate.", "one two three. four five. six. seven eight."]


def learned(out: Path, *arguments, steps: int) -> Result:
    """A tiny run, and what it said beside it."""
    result = taught("masked", out, *arguments, settings=[*TINY, f"train.steps={steps}"])
    (out.parent / f"{out.name}.log").write_text(result.err, encoding="utf-8")
    return result


def bytes_of(run: Path, *names: str) -> list[bytes]:
    return [(run / name).read_bytes() for name in names]


STORE = ("data/train/ids.values", "data/train/ids.offsets", "data/train/document.values")


# What is learned from


def tale(count: int, seed: int) -> str:
    """Each animal says what it says, and nothing else."""
    names = random.Random(seed).choices(list(ANIMALS), k=count)
    return " ".join(f"the {name} says {ANIMALS[name]} ." for name in names)


def documents(count: int, seed: int, topics=TOPICS) -> list[str]:
    """A document for each topic, of sentences of its words alone."""
    source = random.Random(seed)
    return [" ".join(f"{' '.join(source.choices(words, k=4))} ." for _ in range(count)) for words in topics]


def as_objects(texts: list[str], field: str = "body") -> str:
    return "".join(json.dumps({"n": 3, field: text}) + "\n" for text in texts)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    made = tmp_path_factory.mktemp("masked")
    everything = [word for words in TOPICS for word in words]
    for name, text in {
        "tale.txt": tale(800, seed=1),
        "short.txt": tale(60, seed=2),
        "train.jsonl": as_objects(documents(300, seed=1)),
        "valid.jsonl": as_objects(documents(70, seed=2)),
        "alike.jsonl": as_objects(documents(70, seed=3, topics=[everything] * 3)),
    }.items():
        (made / name).write_text(text, encoding="utf-8")
    return made


@pytest.fixture(scope="module")
def words(folder) -> Path:
    """A run that knows what animals say."""
    flags = ["--text", folder / "tale.txt", "--no-next-sentence"]
    settings = ["train.learning_rate=0.005", "data.rows=64", "train.valid_every=200"]
    learned(folder / "words", *flags, "--set", *settings, steps=400)
    return folder / "words"


@pytest.fixture(scope="module")
def both(folder) -> Path:
    """A run that knows which texts belong together."""
    flags = ["--text", folder / "train.jsonl", "--field", "body", "--valid", folder / "valid.jsonl"]
    learned(folder / "both", *flags, "--set", "model.layers=2", "train.valid_every=200", steps=400)
    return folder / "both"


every_kind = pytest.mark.parametrize("which", ["words", "both"])


# Training


@every_kind
def test_a_model_is_what_it_was_taught_to_be(which, request):
    run = request.getfixturevalue(which)
    architecture = {"words": "BertForMaskedLM", "both": "BertForPreTraining"}[which]
    config = json.loads((run / "model" / "config.json").read_text())
    assert config["architectures"] == [architecture]
    assert (config["hidden_size"], config["max_position_embeddings"]) == (32, 13)
    assert config["vocab_size"] == len(EncoderTokenizer.load(run / "tokenizer"))
    card = (run / "model" / "README.md").read_text()
    assert architecture in card
    assert ("next_accuracy" in card) == (which == "both")
    losses = [line["loss"] for line in recorded(run, "train")]
    assert losses[-1] < losses[0] / 2


@every_kind
def test_validation_prints_its_scores_and_keeps_them(which, request):
    run = request.getfixturevalue(which)
    names = ["loss", "accuracy", *(["next_loss", "next_accuracy"] if which == "both" else [])]
    lines = re.findall(r"^validation at step (\d+): (.*)$", (run.parent / f"{which}.log").read_text(), re.MULTILINE)
    records = recorded(run)
    assert [int(step) for step, _ in lines] == [line["step"] for line in records] == [200, 400]
    for (_, shown), record in zip(lines, records):
        assert list(record) == ["kind", "step", *names]
        assert shown.removesuffix("  (best so far)") == "  ".join(f"{name} {record[name]:.4g}" for name in names)
        assert all(0 <= record[name] <= 100 for name in names if "accuracy" in name)
    best = min(records, key=lambda record: record["loss"])
    assert f"the best model, of step {best['step']}" in (run.parent / f"{which}.log").read_text()
    assert f"| accuracy | {best['accuracy']:.4f} |" in (run / "model" / "README.md").read_text()


def test_a_word_that_follows_from_the_others_is_guessed(words, tmp_path):
    hidden = [
        *(f"the {name} says [MASK] ." for name in ANIMALS),
        *(f"the [MASK] says {said} ." for said in ANIMALS.values()),
    ]
    right = [*ANIMALS.values(), *ANIMALS]
    found = [places[0][0] for places in Filler.load(words, device="cpu")(hidden, 1)]
    assert [guess.word for guess in found] == right
    assert all(guess.probability > 0.5 for guess in found)
    assert recorded(words)[-1]["accuracy"] > 85
    # And the test can tell: of the sentences four words in ten are an animal or what it says.
    learned(tmp_path / "young", "--text", words.parent / "short.txt", "--no-next-sentence", steps=3)
    young = [places[0][0].word for places in Filler.load(tmp_path / "young", device="cpu")(hidden, 1)]
    assert sum(one == other for one, other in zip(young, right)) < 5


def test_texts_of_different_words_are_told_apart_and_texts_of_the_same_are_not(both, folder):
    assert recorded(both)[-1]["next_accuracy"] > 90
    told = evaluated(both, folder / "alike.jsonl", "--field", "body")["what follows, told"]
    assert told < 75


def test_the_sentences_of_a_document_are_one_document_whether_a_file_or_a_line(tmp_path):
    (tmp_path / "files").mkdir()
    for number, text in enumerate(BOTH * 7):
        (tmp_path / "files" / f"{number:02d}.txt").write_text(text)
    (tmp_path / "a.jsonl").write_text(as_objects(BOTH * 7, "page"))
    (tmp_path / "b.jsonl").write_text(as_objects(BOTH * 7, "text"))
    flags = {
        "files": ["--text", tmp_path / "files"],
        "pattern": ["--text", tmp_path / "files" / "*.txt"],
        "lines": ["--text", tmp_path / "a.jsonl", "--field", "page"],
        "usual": ["--text", tmp_path / "b.jsonl"],
    }
    for name, given in flags.items():
        result = learned(tmp_path / name / "run", *given, steps=2)
        assert "70 sentences in 14 documents" in result.err
    first = tmp_path / "files" / "run"
    for name in ("pattern", "lines", "usual"):
        run = tmp_path / name / "run"
        assert bytes_of(run, *STORE) == bytes_of(first, *STORE)
        assert newest_difference(run, first) is None
    learned(tmp_path / "other", "--text", tmp_path / "a.jsonl", "--field", "page", "--no-next-sentence", steps=2)
    assert bytes_of(tmp_path / "other", *STORE) == bytes_of(first, *STORE)
    assert newest_difference(tmp_path / "other", first) is not None


def test_without_next_sentences_a_model_has_no_part_for_them(tmp_path, folder):
    for flags, follows in (([], True), (["--no-next-sentence"], False)):
        run = tmp_path / f"{follows}"
        learned(run, "--text", folder / "short.txt", *flags, steps=1)
        assert (load_model(run)[0].follows is not None) is follows
        assert tomllib.loads((run / "recipe.toml").read_text())["data"]["next_sentence"] is follows
        (record,) = recorded(run)
        assert ("next_accuracy" in record) is follows


def test_the_older_vocabulary_of_a_bert_is_a_tokenizer_too(folder, tmp_path):
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "says", ".", *ANIMALS, *ANIMALS.values(), "##s"]
    (tmp_path / "bert").mkdir()
    (tmp_path / "bert" / "vocab.txt").write_text("\n".join(vocabulary) + "\n")
    learned(tmp_path / "run", "--text", folder / "short.txt", "--tokenizer", tmp_path / "bert", steps=1)
    store = Store.open(tmp_path / "run" / "data" / "train")
    written = [vocabulary[each] for each in store["ids"].flat]
    assert " ".join(written) == (folder / "short.txt").read_text()
    model, tokenizer = load_model(tmp_path / "run")
    assert model.config.vocabulary == len(tokenizer) == len(vocabulary)
    shown = called("fill", tmp_path / "run", "the cats say [MASK]", "--count", 99).out.split()[1::2]
    assert sorted(shown) == sorted(vocabulary)


# Guessing


def printed(guesses: list[list], mask: str = "[MASK]") -> list[str]:
    """What `fill` says of one text."""
    lines = []
    for number, place in enumerate(guesses, start=1):
        lines += [f"{mask} {number}"] if len(guesses) > 1 else []
        lines += [f"{guess.probability:8.4f}  {guess.word}" for guess in place]
    return lines


TEXTS = ["the duck says [MASK] .", "the [MASK] says moo . the cat [MASK] meow .", "[MASK]"]


def test_words_are_printed_with_their_probabilities_from_an_argument_and_from_lines(words):
    expected = [printed(each) for each in Filler.load(words, device="cpu")(TEXTS, 5)]
    assert [len(lines) for lines in expected] == [5, 12, 5]
    for text, lines in zip(TEXTS, expected):
        found = called("fill", words, text)
        assert (found.code, found.err) == (0, "")
        assert found.out.splitlines() == lines
    assert re.fullmatch(r"  0\.\d{4}  quack", expected[0][0])
    assert expected[1][0::6] == ["[MASK] 1", "[MASK] 2"]
    assert expected[1][1].endswith("  cow")
    assert expected[1][7].endswith("  says")
    # Behind each line's guesses comes a blank line; a blank line asks for nothing.
    together = called("fill", words / "model", stdin="\r\n \r\n".join(TEXTS).encode())
    assert (together.code, together.err) == (0, "")
    assert together.out.splitlines() == [line for lines in expected for line in [*lines, ""]]
    assert called("fill", words, stdin=b"").out == ""
    for told in (tables("fill", words, TEXTS[1]), tables("fill", words, stdin=f"{TEXTS[1]}\n\n".encode())):
        assert [each["text"] for each in told] == [TEXTS[1]]
        assert [len(hidden) for hidden in told[0]["guesses"]] == [5, 5]
        assert told[0]["guesses"][0][0]["word"] == "cow"


def test_more_lines_than_are_read_at_once_keep_their_order(words):
    lines = [TEXTS[number % 2] for number in range(1024 + 3)]
    found = called("fill", words, "--count", 1, stdin="\n".join(lines).encode())
    assert found.code == 0
    answers = found.out.removesuffix("\n\n").split("\n\n")
    assert len(answers) == len(lines)
    assert {len(answer.splitlines()) for answer in answers[0::2]} == {1}
    assert {len(answer.splitlines()) for answer in answers[1::2]} == {4}


@pytest.mark.parametrize("count", [1, 3])
def test_as_many_words_are_printed_as_are_asked_for(both, count):
    found = called("fill", both, "rain [MASK] snow . [MASK]", "--count", count)
    assert found.out.splitlines() == printed(Filler.load(both, device="cpu")(["rain [MASK] snow . [MASK]"], count)[0])
    assert len(found.out.splitlines()) == 2 * (1 + count)


# Scores


def evaluated(run: Path, text: Path, *flags) -> dict[str, float]:
    found = called("evaluate", run, "--text", text, *flags, "--device", "cpu")
    assert (found.code, found.err) == (0, "")
    rows = re.findall(r"^(\D+?)\s+([\d.]+)", found.out, re.MULTILINE)
    assert len(rows) == len(found.out.splitlines())
    return {name: float(value) for name, value in rows}


def test_a_text_is_scored_as_validation_scored_it_and_the_same_each_time(both, folder):
    first, again, model = (
        evaluated(run, folder / "valid.jsonl", "--field", "body") for run in (both, both, both / "model")
    )
    best = min(recorded(both), key=lambda record: record["loss"])
    assert first == again == model
    assert list(first) == ["hidden words guessed", "loss", "what follows, told"]
    accuracies = [first["hidden words guessed"], first["what follows, told"]]
    assert accuracies == pytest.approx([best["accuracy"], best["next_accuracy"]], abs=0.006)
    assert first["loss"] == pytest.approx(best["loss"], abs=1e-4)
    other = evaluated(both, folder / "train.jsonl", "--field", "body")
    assert other != first  # and the test can tell


def test_a_model_without_next_sentences_is_scored_by_its_words_alone(words, folder):
    scores = evaluated(words, folder / "short.txt")
    assert list(scores) == ["hidden words guessed", "loss"]
    assert scores["hidden words guessed"] > 80
    assert scores["loss"] < 1


# What a model owes


@pytest.fixture(scope="module")
def plain(folder) -> Path:
    """An encoder with nothing on top, whose context is odd and its weights of any size."""
    tokenizer = EncoderTokenizer.train([tale(60, seed=2)], 90)
    torch.manual_seed(5)
    sizes = {"context": 11, "width": 24, "layers": 2, "heads": 3, "separator": tokenizer.separator}
    save_model(folder / "plain", randomised(Bert(BertConfig(vocabulary=len(tokenizer) + 2, **sizes))), tokenizer, "")
    return folder / "plain"


@pytest.mark.parametrize("which", ["both", "plain"])
def test_selfcheck_says_ok_of_every_encoder(which, request):
    found = called("selfcheck", request.getfixturevalue(which), "--sentences", 13)
    assert (found.code, found.err, found.out.count("ok ")) == (0, "", 5)
    for claim in ("alone", "padding changes nothing", "reference kernel", "packed rows", "later token is seen"):
        assert claim in found.out


@pytest.mark.parametrize(
    ("name", "broken", "claim"),
    [
        ("packed", lambda self, x, lengths: self.through(x), "vectors in a batch, without its padding = alone"),
        ("through", lambda self, x, mask=None, groups=None: x, "a later token is seen by earlier ones"),
    ],
)
def test_selfcheck_finds_an_encoder_that_sees_its_padding_or_nothing_at_all(plain, monkeypatch, name, broken, claim):
    monkeypatch.setattr(Bert, name, broken)
    found = called("selfcheck", plain, "--sentences", 13)
    assert found.code == 1
    assert f"FAIL  {claim}" in found.out


# Others open it


@every_kind
def test_their_pipeline_guesses_the_same_words(which, request):
    transformers = pytest.importorskip("transformers")
    run = request.getfixturevalue(which)
    guess = transformers.pipeline("fill-mask", model=str(run / "model"), device="cpu")
    texts = {"words": "the [MASK] says moo . the dog says [MASK]", "both": "milk [MASK] salt . rain [MASK] snow ."}
    text = texts[which]
    theirs = guess(text, top_k=3)
    shown = called("fill", run, text, "--count", 3).out.splitlines()
    ours = [line.split() for line in shown if "[MASK]" not in line]
    assert [word for _, word in ours] == [each["token_str"] for place in theirs for each in place]
    expected = [each["score"] for place in theirs for each in place]
    assert [float(chance) for chance, _ in ours] == pytest.approx(expected, abs=2e-4)


# Recipes


@pytest.mark.parametrize(
    ("name", "data", "train"),
    [
        ("bert-mini", {"vocabulary": 16000, "rows": 256, "next_sentence": False}, {"steps": 20000, "warmup": 1000}),
        ("wikitext-2-bert", {"vocabulary": 8000, "rows": 128, "next_sentence": True}, {"steps": 8000, "warmup": 800}),
    ],
)
def test_the_recipes_that_come_along_resolve(name, data, train, folder):
    file = ROOT / "recipes" / f"{name}.toml"
    shown = called("train", "masked", "--recipe", file, "--text", folder / "short.txt", "--show-recipe")
    assert shown.code == 0, shown.err
    table = tomllib.loads(shown.out)
    assert tuple(table["model"][field] for field in ("width", "layers", "heads", "context")) == (256, 4, 4, 128)
    assert table["data"]["text"] == [str(folder / "short.txt")]
    assert table["data"] | data == table["data"]
    assert table["train"] | train | {"learning_rate": 1e-3, "optimizer": "adamw", "keep": 1} == table["train"]
    assert f"manyheads train masked --recipe recipes/{name}.toml" in file.read_text(encoding="utf-8")


# What a person gets wrong


WRONG_FILES = {
    "good.txt": tale(60, seed=2),
    "e.txt": " \n\n",
    "s.txt": "a.",
    "lines.jsonl": as_objects(BOTH * 9),
    "few.txt": tale(19, seed=1),  # one is held out, and nothing follows it
    "single.jsonl": as_objects(["a cat sat"] * 40, "text"),
    "one.txt": "the cat says meow .",
    "unknown.txt": "щука жук\nжук щука\n" * 9,
}
NO_PAIRS = "on: no document has two sentences that fit into a row of 13"


@pytest.fixture(scope="module")
def maskless(folder) -> Path:
    """A tokenizer that can hide nothing."""
    marks = {word: each for each, word in enumerate(("[PAD]", "[UNK]", "[CLS]", "[SEP]", "the"))}
    EncoderTokenizer(tokenizers.Tokenizer(models.WordPiece(marks, unk_token="[UNK]"))).save(folder / "maskless")
    return folder / "maskless"


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ("--text no.txt", "no.txt is not there; check the path"),
        ("--text good.txt no*.txt", "no*.txt is not there"),
        ("--text good.txt --valid no.txt", "no.txt is not there"),
        ("--text good.txt --valid unknown.txt", "unknown to the tokenizer"),
        ("--text good.txt --valid one.txt", f"of the text to validate {NO_PAIRS}"),
        ("--text few.txt", f"of the text to validate {NO_PAIRS}"),
        ("--text single.jsonl", f"of the text to train {NO_PAIRS}"),
        ("--valid good.txt", "--valid is given without --text"),
        ("--text e.txt", "there is no text in e.txt"),
        ("--text lines.jsonl", "lines.jsonl, line 1: no field 'text'; its fields are n, body"),
        ("--text s.txt", "of 1 sentence none can be held out for validation"),
        ("--text good.txt --tokenizer {maskless}", "maskless has no [MASK], which a word is hidden"),
        ("--text good.txt --set model.context=4", "model.context is 4, which leaves no place for two texts"),
        ("--text good.txt --set train.best_by=bleu", "use loss or accuracy"),
        ("--text good.txt --set train.compile=true", "train.compile is for language models and translators"),
        ("--text good.txt --set train.smoothing=0.1", "train.smoothing is 0.1, but words are not smoothed"),
        ("--text good.txt --set model.segments=1", "model.segments is 1, but two texts stand in a row"),
        ("--text good.txt --set model.separator=3", "follows from the tokenizer; leave it away"),
        ("--text good.txt --preset bert_huge", "there is no preset bert_huge; there are bert_tiny, bert_mini"),
    ],
)
def test_what_cannot_be_trained_is_one_sentence_and_leaves_nothing(maskless, tmp_path, monkeypatch, flags, said):
    monkeypatch.chdir(tmp_path)
    for name, text in WRONG_FILES.items():
        Path(name).write_text(text, encoding="utf-8")
    given = flags.format(maskless=maskless).split()
    assert said in refused("train", "masked", "--out", "run", "--set", *TINY, *given, after_reading=True)
    assert {path.name for path in tmp_path.iterdir()} == set(WRONG_FILES)


def test_what_cannot_be_guessed_is_one_sentence(words, both, plain, tmp_path):
    long = "the " * 11 + "[MASK]"
    for model, arguments, sentence in (
        (words, ["the cat"], r"'the cat' hides no word; write \[MASK\] where one is to be guessed"),
        (words, ["the cat [mask]"], r"hides no word; write \[MASK\]"),
        (words, [""], "hides no word"),
        (words, [long], "has 14 tokens, but the model reads 13; shorten it"),
        (both, [TEXTS[0], "--count", 0], "0 guesses are no guess; ask for at least 1"),
        (both, [TEXTS[0], "--device", "gpu"], "'gpu' is not a device"),
        (plain, [TEXTS[0]], r"holds an encoder \(bert\); a masked language model \(BERT\) is asked for here"),
        (tmp_path / "no", [TEXTS[0]], "does not exist; give a model directory or a run directory"),
    ):
        assert re.search(sentence, refused("fill", model, *arguments)), sentence
    assert called("fill", words, long.removeprefix("the ")).code == 0
    assert "'the cat' hides no word" in refused("fill", words, stdin=f"{TEXTS[0]}\nthe cat\n".encode())
    assert "standard input, line 2: not valid UTF-8" in refused("fill", words, stdin=b"a [MASK]\n\xff [MASK]\n")


def test_a_model_that_can_hide_nothing_is_told_so(maskless, tmp_path):
    tokenizer = EncoderTokenizer.load(maskless)
    config = BertConfig(vocabulary=len(tokenizer), context=7, width=12, layers=1, heads=2)
    save_model(tmp_path / "model", MaskedBert(config), tokenizer, "")
    assert "has no token that hides a word" in refused("fill", tmp_path / "model", "the [MASK]")
    with pytest.raises(ManyheadsError):
        Filler.load(tmp_path / "model")


def test_what_cannot_be_scored_is_one_sentence(words, both, tmp_path):
    (tmp_path / "one.txt").write_text("milk")
    for run, flags, sentence in (
        (words, ["--text", tmp_path / "no.txt"], "no.txt is not there"),
        (both, ["--text", tmp_path / "one.txt"], "no document has two sentences that fit into a row of 13 together"),
        (words, ["--data", tmp_path / "one.txt"], "not scored with --data; it takes --text"),
        (words, ["--text", tmp_path / "one.txt", "--data", tmp_path / "one.txt"], "is not scored with --data"),
    ):
        assert sentence in refused("evaluate", run, *flags)
