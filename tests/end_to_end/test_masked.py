"""Pre-training as a person types it: hidden words and next sentences, guessed, scored, stopped and gone on with."""

import json
import random
import re
import shutil
import tomllib
from pathlib import Path

import pytest
import tokenizers
import torch
from tokenizers import models
from torch.testing import assert_close

from manyheads import Filler
from manyheads.core.errors import ManyheadsError
from manyheads.data.ragged import Store
from manyheads.data.sentences import document_bounds
from manyheads.interop.directory import load_model, save_model
from manyheads.models.bert import Bert, BertConfig, MaskedBert
from manyheads.text.encoder import EncoderTokenizer
from manyheads.train.checkpoint import first_difference

from .conftest import Result, called, typed

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


def taught(out: Path, *arguments, steps: int) -> Result:
    """A tiny run; `arguments` end in assignments, or in none."""
    flags = [*arguments]
    if "--set" not in flags:
        flags.append("--set")
    place = flags.index("--set") + 1
    result = called("train", "masked", "--out", out, *flags[:place], *TINY, f"train.steps={steps}", *flags[place:])
    assert result.code == 0, result.err
    assert result.out == ""
    (out.parent / f"{out.name}.log").write_text(result.err, encoding="utf-8")
    return result


def refused(*arguments, stdin: bytes = b"") -> str:
    """The one sentence of a command that cannot be, which comes last where it read files before."""
    found = called(*arguments, stdin=stdin)
    assert (found.code, found.out) == (2, ""), found
    *before, sentence = found.err.splitlines()
    assert sentence.startswith("manyheads: ")
    assert not any(line.startswith(("manyheads: ", "Traceback")) for line in before), found.err
    return sentence


def last(run: Path) -> Path:
    return sorted((run / "checkpoints").iterdir())[-1]


def recorded(run: Path, kind: str) -> list[dict]:
    lines = map(json.loads, (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines())
    return [line for line in lines if line["kind"] == kind]


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
    taught(folder / "words", *flags, "--set", *settings, steps=400)
    return folder / "words"


@pytest.fixture(scope="module")
def both(folder) -> Path:
    """A run that knows which texts belong together."""
    flags = ["--text", folder / "train.jsonl", "--field", "body", "--valid", folder / "valid.jsonl"]
    taught(folder / "both", *flags, "--set", "model.layers=2", "train.valid_every=200", steps=400)
    return folder / "both"


every_kind = pytest.mark.parametrize("which", ["words", "both"])


# Training


@every_kind
def test_a_run_directory_holds_all_that_a_run_is(which, request):
    run = request.getfixturevalue(which)
    names = {"recipe.toml", "metrics.jsonl", "tensorboard", "checkpoints", "model", "tokenizer", "data"}
    assert {path.name for path in run.iterdir()} == names
    assert {path.name for path in (run / "model").iterdir()} == {
        *("config.json", "model.safetensors", "README.md", "tokenizer.json", "tokenizer_config.json"),
    }
    architecture = {"words": "BertForMaskedLM", "both": "BertForPreTraining"}[which]
    config = json.loads((run / "model" / "config.json").read_text())
    assert (config["model_type"], config["architectures"]) == ("bert", [architecture])
    assert (config["hidden_size"], config["max_position_embeddings"]) == (32, 13)
    assert config["vocab_size"] == len(EncoderTokenizer.load(run / "tokenizer"))
    card = (run / "model" / "README.md").read_text()
    assert architecture in card
    assert "vocabulary = 120" in card
    assert ("next_accuracy" in card) == (which == "both")
    assert last(run).name == "step-00000400"
    losses = [line["loss"] for line in recorded(run, "train")]
    assert losses[-1] < losses[0] / 2


@every_kind
def test_validation_prints_its_scores_and_keeps_them(which, request):
    run = request.getfixturevalue(which)
    names = ["loss", "accuracy", *(["next_loss", "next_accuracy"] if which == "both" else [])]
    lines = re.findall(r"^validation at step (\d+): (.*)$", (run.parent / f"{which}.log").read_text(), re.MULTILINE)
    records = recorded(run, "valid")
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
    assert recorded(words, "valid")[-1]["accuracy"] > 85
    # And the test can tell: of the sentences four words in ten are an animal or what it says.
    taught(tmp_path / "young", "--text", words.parent / "short.txt", "--no-next-sentence", steps=3)
    young = [places[0][0].word for places in Filler.load(tmp_path / "young", device="cpu")(hidden, 1)]
    assert sum(one == other for one, other in zip(young, right)) < 5


def test_texts_of_different_words_are_told_apart_and_texts_of_the_same_are_not(both, folder):
    assert recorded(both, "valid")[-1]["next_accuracy"] > 90
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
        result = taught(tmp_path / name / "run", *given, steps=2)
        assert "70 sentences in 14 documents" in result.err
    first = tmp_path / "files" / "run"
    for name in ("pattern", "lines", "usual"):
        run = tmp_path / name / "run"
        assert bytes_of(run, *STORE) == bytes_of(first, *STORE)
        assert first_difference(last(run), last(first)) is None
    taught(tmp_path / "other", "--text", tmp_path / "a.jsonl", "--field", "page", "--no-next-sentence", steps=2)
    assert bytes_of(tmp_path / "other", *STORE) == bytes_of(first, *STORE)
    assert first_difference(last(tmp_path / "other"), last(first)) is not None


def test_without_next_sentences_a_model_has_no_part_for_them(tmp_path, folder):
    for flags, follows in (([], True), (["--no-next-sentence"], False)):
        run = tmp_path / f"{follows}"
        taught(run, "--text", folder / "short.txt", *flags, steps=1)
        assert (load_model(run)[0].follows is not None) is follows
        assert tomllib.loads((run / "recipe.toml").read_text())["data"]["next_sentence"] is follows
        (record,) = recorded(run, "valid")
        assert ("next_accuracy" in record) is follows


def test_text_for_validation_is_the_text_given_and_nothing_is_held_out(both):
    stores = [Store.open(both / "data" / part) for part in ("train", "valid")]
    assert [(len(store), len(document_bounds(store)) - 1) for store in stores] == [(900, 3), (210, 3)]


def test_without_any_text_there_is_a_sample(tmp_path, monkeypatch):
    from manyheads.data import sample

    whole = sample.sample_corpus()
    small = {"train": whole["train"][:200], "valid": whole["valid"][:24], "test": whole["test"][:8]}
    monkeypatch.setattr(sample, "sample_corpus", lambda: small)
    result = taught(tmp_path / "run", steps=2)
    assert "in 25 documents" in result.err  # eight sentences each
    data = tomllib.loads((tmp_path / "run" / "recipe.toml").read_text())["data"]
    assert (data["text"], data["next_sentence"]) == ([], False)
    assert len(document_bounds(Store.open(tmp_path / "run" / "data" / "valid"))) - 1 == 3
    result = called("fill", tmp_path / "run", "the [MASK] sleeps")
    assert len(result.out.splitlines()) == 5


# Tokenizers


def test_a_tokenizer_can_be_brought_along_as_a_file_a_folder_or_a_run(words, folder, tmp_path):
    given = ["tokenizer/tokenizer.json", "tokenizer", "model"]
    for number, name in enumerate(given):
        run = tmp_path / f"{number}"
        taught(run, "--text", folder / "short.txt", "--tokenizer", words / name, steps=1)
        assert bytes_of(run, "tokenizer/tokenizer.json") == bytes_of(words, "tokenizer/tokenizer.json")
        assert tomllib.loads((run / "recipe.toml").read_text())["data"]["tokenizer"] == str(words / name)
    taught(tmp_path / "own", "--text", folder / "short.txt", "--set", "data.vocabulary=60", steps=1)
    assert bytes_of(tmp_path / "own", "tokenizer/tokenizer.json") != bytes_of(words, "tokenizer/tokenizer.json")


def test_the_older_vocabulary_of_a_bert_is_a_tokenizer_too(folder, tmp_path):
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "says", ".", *ANIMALS, *ANIMALS.values(), "##s"]
    (tmp_path / "bert").mkdir()
    (tmp_path / "bert" / "vocab.txt").write_text("\n".join(vocabulary) + "\n")
    taught(tmp_path / "run", "--text", folder / "short.txt", "--tokenizer", tmp_path / "bert", steps=1)
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


def test_a_process_of_its_own_says_the_same(words):
    found = typed("fill", words, "--count", 2, stdin=f"{TEXTS[0]}\n{TEXTS[1]}\n".encode())
    assert (found.code, found.err) == (0, "")
    assert found.out == "".join(called("fill", words, text, "--count", 2).out + "\n" for text in TEXTS[:2])


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
    best = min(recorded(both, "valid"), key=lambda record: record["loss"])
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


# Stopping and going on


def test_a_run_killed_and_gone_on_with_is_the_undisturbed_one_to_the_bit(folder, tmp_path):
    settings = [*TINY, "model.width=16", "model.dropout=0.1", "model.attention_dropout=0.1", "data.rows=8"]
    flags = ["--text", folder / "train.jsonl", "--field", "body", "--set", *settings, "train.warmup=5"]
    (tmp_path / "tiny.toml").write_text(called("train", "masked", *flags, "--show-recipe").out, encoding="utf-8")
    found = called("prove-resume", tmp_path / "tiny.toml", "--steps", 80, "--seed", 2)
    assert (found.code, found.out) == (
        0,
        "no tensor differs: the killed and resumed run is the uninterrupted one, bit for bit\n",
    )
    assert "killed with SIGKILL once it has done step 23, with a checkpoint every 16" in found.err
    assert "it was done before it could be killed" not in found.err


def test_a_run_that_goes_on_asks_for_no_text_again_and_stays_what_it_is(folder, tmp_path):
    shutil.copy(folder / "short.txt", tmp_path / "t.txt")
    taught(tmp_path / "run", "--text", tmp_path / "t.txt", steps=2)
    taught(tmp_path / "whole", "--text", tmp_path / "t.txt", "--set", "train.schedule=constant", steps=3)
    taught(tmp_path / "part", "--text", tmp_path / "t.txt", "--set", "train.schedule=constant", steps=2)
    (tmp_path / "t.txt").unlink()
    longer = called("train", "masked", "--out", tmp_path / "part", "--resume", "--set", "train.steps=3")
    assert longer.code == 0, longer.err
    assert "going on from step 2" in longer.err
    assert first_difference(last(tmp_path / "part"), last(tmp_path / "whole")) is None
    for change, section in (("model.layers=2", "model"), ("data.next_sentence=false", "data")):
        frozen = refused("train", "masked", "--out", tmp_path / "run", "--resume", "--set", change)
        assert f"{section} of a run cannot change" in frozen
    assert "exists; go on with --resume" in refused(
        "train", "masked", "--out", tmp_path / "run", "--text", folder / "short.txt"
    )


def test_a_run_that_goes_on_takes_no_other_aim(folder, tmp_path):
    taught(tmp_path / "run", "--text", folder / "short.txt", steps=1)
    flags = ["--resume", "--no-next-sentence", "--set", "train.steps=2"]
    assert "a run goes on with its own recipe" in refused("train", "masked", "--out", tmp_path / "run", *flags)


# What a model owes


@pytest.fixture(scope="module")
def classifier(words, folder) -> Path:
    lines = [f"the {name} says {said}\t{'small' if len(name) < 4 else 'large'}\n" for name, said in ANIMALS.items()]
    (folder / "sizes.tsv").write_text("".join(lines * 5), encoding="utf-8")
    flags = ["--train", folder / "sizes.tsv", "--model", words, "--out", folder / "classifier"]
    result = called("train", "classify", *flags, "--set", "train.steps=1", "train.device=cpu")
    assert result.code == 0, result.err
    return folder / "classifier"


@pytest.fixture(scope="module")
def plain(folder) -> Path:
    """An encoder with nothing on top, whose context is odd and its weights of any size."""
    tokenizer = EncoderTokenizer.train([tale(60, seed=2)], 90)
    torch.manual_seed(5)
    sizes = {"context": 11, "width": 24, "layers": 2, "heads": 3, "separator": tokenizer.separator}
    model = Bert(BertConfig(vocabulary=len(tokenizer) + 2, **sizes))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    save_model(folder / "plain", model, tokenizer, "")
    return folder / "plain"


@pytest.mark.parametrize("which", ["words", "both", "classifier", "plain"])
def test_selfcheck_says_ok_and_nothing_else(which, request):
    found = called("selfcheck", request.getfixturevalue(which), "--sentences", 13)
    assert (found.code, found.err) == (0, "")
    lines = found.out.splitlines()
    assert len(lines) == 5
    assert all(line.startswith("ok ") for line in lines), found.out
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

PAIRS = [("the cat says meow .", "rain snow ."), ("milk", "the [MASK] says moo . bell"), ("[MASK] fog", "a")]


def their_inputs(run: Path, transformers) -> dict[str, torch.Tensor]:
    tokenizer = transformers.AutoTokenizer.from_pretrained(run / "model")
    first, second = zip(*PAIRS)
    return tokenizer(list(first), list(second), padding=True, truncation=True, return_tensors="pt")


@every_kind
def test_the_model_opens_in_transformers_with_the_same_logits(which, request):
    transformers = pytest.importorskip("transformers")
    run = request.getfixturevalue(which)
    inputs = their_inputs(run, transformers)
    lengths, real = inputs["attention_mask"].sum(dim=1), inputs["attention_mask"].bool()
    assert not real.all()
    model, _ = load_model(run)
    classes = {"words": ["BertForMaskedLM"], "both": ["BertForPreTraining", "BertForMaskedLM"]}[which]
    for name in classes:
        theirs, found = getattr(transformers, name).from_pretrained(run / "model", output_loading_info=True)
        assert not found["missing_keys"]
        with torch.no_grad():
            outputs = theirs.eval()(**inputs)
            states = model.body(inputs["input_ids"], lengths)
            logits = getattr(outputs, "prediction_logits", None)
            logits = outputs.logits if logits is None else logits
            assert_close(model.logits(states)[real], logits[real], rtol=0, atol=1e-4)
            assert logits[real].std() > 0.1  # and the test can tell
            if name == "BertForPreTraining":
                assert_close(model.following(states), outputs.seq_relationship_logits, rtol=0, atol=1e-4)


@every_kind
def test_their_pipeline_guesses_the_same_words(which, request):
    transformers = pytest.importorskip("transformers")
    run = request.getfixturevalue(which)
    guess = transformers.pipeline("fill-mask", model=str(run / "model"), device="cpu")
    text = {"words": "the [MASK] says moo . the dog says [MASK]", "both": "milk [MASK] salt . rain [MASK] snow ."}[
        which
    ]
    theirs = guess(text, top_k=3)
    shown = called("fill", run, text, "--count", 3).out.splitlines()
    ours = [line.split() for line in shown if "[MASK]" not in line]
    assert [word for _, word in ours] == [each["token_str"] for place in theirs for each in place]
    expected = [each["score"] for place in theirs for each in place]
    assert [float(chance) for chance, _ in ours] == pytest.approx(expected, abs=2e-4)


def test_a_model_of_theirs_fills_as_it_is(words, tmp_path):
    transformers = pytest.importorskip("transformers")
    tokenizer = transformers.AutoTokenizer.from_pretrained(words / "model")
    sizes = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 37}
    config = transformers.BertConfig(vocab_size=len(tokenizer) + 3, max_position_embeddings=15, **sizes)
    torch.manual_seed(3)
    for name in ("BertForMaskedLM", "BertForPreTraining"):
        theirs = getattr(transformers, name)(config)
        with torch.no_grad():
            for parameter in theirs.parameters():
                parameter.add_(0.2 * torch.randn_like(parameter))
        theirs.save_pretrained(tmp_path / name)
        tokenizer.save_pretrained(tmp_path / name)
        inputs = tokenizer(TEXTS[0], return_tensors="pt")
        with torch.no_grad():
            outputs = theirs.eval()(**inputs)
        logits = outputs.prediction_logits if name == "BertForPreTraining" else outputs.logits
        place = int((inputs["input_ids"][0] == tokenizer.mask_token_id).nonzero())
        best = logits[0, place].softmax(dim=0).topk(4)
        found = called("fill", tmp_path / name, TEXTS[0], "--count", 4)
        assert found.code == 0, found.err
        rows = [line.split() for line in found.out.splitlines()]
        assert [float(chance) for chance, _ in rows] == pytest.approx(best.values.tolist(), abs=2e-4)
        expected = [tokenizer.convert_ids_to_tokens(each) or f"<{each}>" for each in best.indices.tolist()]
        assert [word for _, word in rows] == expected


# Recipes

PUBLISHED = {  # width, layers, heads; what a row has here
    "bert_tiny": (128, 2, 2, 128),
    "bert_mini": (256, 4, 4, 128),
    "bert_small": (512, 4, 8, 512),
    "bert_medium": (512, 8, 8, 512),
    "bert_base": (768, 12, 12, 512),
    "bert_large": (1024, 24, 16, 512),
}


@pytest.mark.parametrize("preset", PUBLISHED)
def test_presets_are_the_published_sizes(preset, folder):
    flags = ["--preset", preset, "--text", folder / "short.txt", "--show-recipe"]
    table = tomllib.loads(called("train", "masked", *flags).out)
    assert tuple(table["model"][name] for name in ("width", "layers", "heads", "context")) == PUBLISHED[preset]
    assert (table["task"], table["data"]["next_sentence"]) == ("masked", True)
    assert table["train"]["best_by"] == "loss"


@pytest.mark.parametrize("preset", [None, "bert_base"])
def test_the_recipe_shown_is_toml_and_reproduces_itself(folder, tmp_path, preset):
    flags = ["--text", folder / "short.txt", "--no-next-sentence", "--set", "model.layers=3", "train.steps=7"]
    flags = [*(["--preset", preset] if preset else []), *flags]
    shown = called("train", "masked", *flags, "--show-recipe", "--out", tmp_path / "never")
    assert shown.code == 0, shown.err
    table = tomllib.loads(shown.out)
    assert (table["task"], table["model"]["layers"], table["train"]["steps"]) == ("masked", 3, 7)
    assert (table["data"]["next_sentence"], table["model"]["width"]) == (False, 768 if preset else 256)
    (tmp_path / "mine.toml").write_text(shown.out, encoding="utf-8")
    again = called("train", "masked", "--recipe", tmp_path / "mine.toml", "--show-recipe")
    assert again.out == shown.out
    assert not (tmp_path / "never").exists()


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
    assert tuple(table["model"][field] for field in ("width", "layers", "heads", "context")) == PUBLISHED["bert_mini"]
    assert table["data"]["text"] == [str(folder / "short.txt")]
    assert table["data"] | data == table["data"]
    assert table["train"] | train | {"learning_rate": 1e-3, "optimizer": "adamw", "keep": 1} == table["train"]
    assert f"manyheads train masked --recipe recipes/{name}.toml" in file.read_text(encoding="utf-8")


def test_a_recipe_trains_as_the_flags_did(folder, tmp_path):
    taught(tmp_path / "run", "--text", folder / "short.txt", steps=2)
    result = called("train", "masked", "--recipe", tmp_path / "run" / "recipe.toml", "--out", tmp_path / "again")
    assert result.code == 0, result.err
    assert first_difference(last(tmp_path / "run"), last(tmp_path / "again")) is None


# What a person gets wrong


def broken(made: Path) -> dict[str, tuple[list, str]]:
    """Training commands that cannot be, and what they must say."""

    def written(name: str, text: str) -> Path:
        (made / name).write_text(text, encoding="utf-8")
        return made / name

    good = ["--text", written("good.txt", tale(60, seed=2))]
    marks = {word: each for each, word in enumerate(("[PAD]", "[UNK]", "[CLS]", "[SEP]", "the"))}
    maskless = tokenizers.Tokenizer(models.WordPiece(marks, unk_token="[UNK]"))
    EncoderTokenizer(maskless).save(made / "maskless")
    lines = written("lines.jsonl", as_objects(BOTH * 9, "body"))
    return {
        "missing": (["--text", made / "no.txt"], r"no\.txt is not there, neither as a file or folder nor as a pattern"),
        "one missing": ([*good, made / "no*.txt"], r"no\*\.txt is not there"),
        "valid missing": ([*good, "--valid", made / "no.txt"], r"no\.txt is not there"),
        "valid alone": (["--valid", made / "good.txt"], r"data\.valid is given without data\.text"),
        "empty": (["--text", written("e.txt", " \n\n")], r"there is no text in .*e\.txt"),
        "field": (["--text", lines], r"lines\.jsonl, line 1: no field 'text'; its fields are n, body"),
        "one sentence": (["--text", written("s.txt", "a.")], "of 1 sentences none can be held out for validation"),
        "maskless": ([*good, "--tokenizer", made / "maskless"], r"maskless has no \[MASK\], which a word is hidden"),
        "no tokenizer": ([*good, "--tokenizer", made / "no.json"], r"no\.json is not there"),
        "vocabulary": ([*good, "--set", "data.vocabulary=20"], "a vocabulary of 20 tokens cannot hold"),
        "context": ([*good, "--set", "model.context=4"], r"model\.context is 4, which leaves no place for two texts"),
        "best": ([*good, "--set", "train.best_by=bleu"], r"train\.best_by is bleu, .*; use loss or accuracy"),
        "compile": ([*good, "--set", "train.compile=true"], r"train\.compile is for language models and translators"),
        "smoothing": ([*good, "--set", "train.smoothing=0.1"], r"train\.smoothing is 0\.1, but words are not smoothed"),
        "segments": ([*good, "--set", "model.segments=1"], r"model\.segments is 1, but two texts stand in a row"),
        "separator": ([*good, "--set", "model.separator=3"], "follows from the tokenizer; leave it away"),
        "heads": ([*good, "--set", "model.heads=3"], "width 32 does not split over 3 heads; the nearest"),
        "preset": ([*good, "--preset", "bert_huge"], "there is no preset bert_huge; there are bert_tiny, bert_mini"),
        "device": ([*good, "--set", "train.device=gpu"], "'gpu' is not a device"),
        "nothing to resume": (["--resume"], "holds no run to go on with"),
    }


CASES = [
    *("missing", "one missing", "valid missing", "valid alone", "empty", "field", "one sentence", "maskless"),
    *("no tokenizer", "vocabulary", "context", "best", "compile", "smoothing", "segments", "separator", "heads"),
    *("preset", "device", "nothing to resume"),
]


@pytest.mark.parametrize("case", CASES)
def test_what_cannot_be_trained_is_one_sentence_and_leaves_nothing_behind(tmp_path, case):
    cases = broken(tmp_path)
    assert sorted(cases) == sorted(CASES)
    before = sorted(tmp_path.rglob("*"))
    arguments, sentence = cases[case]
    found = refused("train", "masked", "--out", tmp_path / "run", "--set", *TINY, *arguments)
    assert re.search(sentence, found), found
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("case", ["few sentences", "single sentences", "short validation"])
def test_a_text_that_gives_no_pairs_of_sentences_leaves_nothing_behind(folder, tmp_path, case):
    texts = {
        "few sentences": (tale(19, seed=1), None),  # one is held out, and nothing follows it
        "single sentences": (as_objects(["a cat sat"] * 40, "text"), None),
        "short validation": (tale(40, seed=1), "the cat says meow ."),
    }
    text, valid = texts[case]
    name = "t.jsonl" if text.startswith("{") else "t.txt"
    (tmp_path / name).write_text(text)
    flags = ["--text", tmp_path / name]
    if valid:
        (tmp_path / "v.txt").write_text(valid)
        flags += ["--valid", tmp_path / "v.txt"]
    found = refused("train", "masked", "--out", tmp_path / "run", *flags, "--set", *TINY)
    part = "train" if case == "single sentences" else "validate"
    assert f"of the text to {part} on: no document has two sentences that fit into a row of 13" in found
    assert not (tmp_path / "run").exists()


def test_a_run_is_not_given_up_for_a_text_that_gives_no_pairs(folder, tmp_path):
    taught(tmp_path / "run", "--text", folder / "short.txt", steps=1)
    (tmp_path / "few.txt").write_text(tale(19, seed=1))
    flags = ["--text", tmp_path / "few.txt", "--overwrite", "--set", *TINY]
    before = {path: path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()}
    refused("train", "masked", "--out", tmp_path / "run", *flags)
    assert {path: path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()} == before


def test_a_text_without_a_known_word_is_a_sentence(words, tmp_path):
    (tmp_path / "t.txt").write_text("щука жук\nжук щука\n" * 9, encoding="utf-8")
    found = refused("evaluate", words, "--text", tmp_path / "t.txt")
    assert "every word of the text is unknown to the tokenizer" in found


def test_validation_without_a_known_word_is_refused_before_anything_is_trained(folder, tmp_path):
    (tmp_path / "v.txt").write_text("щука жук\nжук щука\n" * 9, encoding="utf-8")
    flags = ["--text", folder / "short.txt", "--valid", tmp_path / "v.txt", "--set", *TINY]
    assert "unknown to the tokenizer" in refused("train", "masked", "--out", tmp_path / "run", *flags)
    assert not (tmp_path / "run").exists()


def test_what_cannot_be_guessed_is_one_sentence(words, both, classifier, plain, tmp_path):
    long = "the " * 11 + "[MASK]"
    for model, arguments, sentence in (
        (words, ["the cat"], r"'the cat' hides no word; write \[MASK\] where one is to be guessed"),
        (words, ["the cat [mask]"], r"hides no word; write \[MASK\]"),
        (words, [""], "hides no word"),
        (words, [long], "has 14 tokens, but the model reads 13; shorten it"),
        (both, [TEXTS[0], "--count", 0], "0 guesses are no guess; ask for at least 1"),
        (both, [TEXTS[0], "--device", "gpu"], "'gpu' is not a device"),
        (classifier, [TEXTS[0]], r"holds a classifier \(bert\); a masked language model \(BERT\) is asked for here"),
        (plain, [TEXTS[0]], r"holds an encoder \(bert\); a masked language model \(BERT\) is asked for here"),
        (tmp_path / "no", [TEXTS[0]], "does not exist; give a model directory or a run directory"),
    ):
        found = called("fill", model, *arguments)
        assert len(found.err.splitlines()) == 1
        assert re.search(sentence, refused("fill", model, *arguments)), sentence
    assert called("fill", words, long.removeprefix("the ")).code == 0
    assert "'the cat' hides no word" in refused("fill", words, stdin=f"{TEXTS[0]}\nthe cat\n".encode())
    assert "standard input, line 2: not valid UTF-8" in refused("fill", words, stdin=b"a [MASK]\n\xff [MASK]\n")


def test_a_model_that_can_hide_nothing_is_told_so(tmp_path):
    arguments, _ = broken(tmp_path)["maskless"]
    tokenizer = EncoderTokenizer.load(arguments[-1])
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
        (
            words,
            ["--data", tmp_path / "one.txt"],
            "not scored with --data; it takes --text",
        ),
        (words, ["--text", tmp_path / "one.txt", "--data", tmp_path / "one.txt"], "is not scored with --data"),
    ):
        assert sentence in refused("evaluate", run, *flags)
