"""Language models as a person uses them: trained, asked to go on and scored."""

import gzip
import json
import lzma
import os
import re
import signal
import subprocess
import tomllib
from dataclasses import asdict
from pathlib import Path

import pytest

from manyheads import LanguageModel
from manyheads.core.errors import ConfigError
from manyheads.data.ragged import Store
from manyheads.data.readers.documents import Piece
from manyheads.tasks.language.scoring import score_text
from manyheads.text.language import LanguageTokenizer

from .conftest import Result, called, newest_difference, refused, started, taught

TINY = [
    *("model.context=16", "model.width=24", "model.layers=1", "model.heads=2", "data.vocabulary=300", "data.rows=8"),
    *("train.learning_rate=0.01", "train.warmup=10", "train.valid_every=1000", "train.checkpoint_every=1000"),
    "train.device=cpu",
]
SENTENCE = "the cat sees a dög and the old dog likes the young bird.\n"
GOES_ON = " sees a dög and the old dog likes the young bird.\n"
PAIRS = {
    "red bird": "Möwe",
    "old dog": "die alte Hündin",
    "tree": "Tanne",
    "the cat sees": "eine Katze sieht",
    "a house": "Hütte",
    "young": "jung",
    "the bird": "rote Möwe",
}


def learned(out: Path, *arguments, steps: int) -> Result:
    """A tiny run."""
    return taught("language", out, *arguments, settings=[*TINY, f"train.steps={steps}"])


@pytest.fixture(scope="session")
def text(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("text") / "tale.txt"
    path.write_text(SENTENCE * 60, encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def gpt(text, tmp_path_factory) -> Path:
    """A run that knows its sentence by heart."""
    out = tmp_path_factory.mktemp("gpt") / "run"
    learned(out, "--text", text, steps=150)
    return out


@pytest.fixture(scope="session")
def llama(text, tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("llama") / "run"
    learned(out, "--text", text, "--preset", "llama_tiny", steps=20)
    return out


@pytest.fixture(scope="session")
def pair_file(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("pairs") / "pairs.tsv"
    path.write_text("".join(f"{source}\t{target}\n" for source, target in PAIRS.items()), encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def completer(pair_file, tmp_path_factory) -> Path:
    """A T-D that knows a handful of pairs by heart."""
    out = tmp_path_factory.mktemp("completer") / "run"
    flags = ["--preset", "transformer_decoder", "--pairs", pair_file, "--valid-pairs", pair_file]
    larger = ["model.context=64", "model.width=32", "model.inner=64", "model.dropout=0", "model.attention_dropout=0"]
    learned(out, *flags, "--set", *larger, steps=150)
    return out


# Training


@pytest.fixture(scope="module")
def formats(tmp_path_factory) -> dict[str, list]:
    """The same two documents in every way that they can be given."""
    folder = tmp_path_factory.mktemp("formats")
    (folder / "both" / "below").mkdir(parents=True)
    one, two = SENTENCE * 20, "ein Vögelchen singt. " * 40
    for name, content in {
        "a.txt": one.encode(),
        "b.txt": two.encode(),
        "both/a.md": one.encode(),
        "both/below/b.txt": two.encode(),
        "both/notes.csv": b"no text",
        "a.txt.gz": gzip.compress(one.encode()),
        "b.txt.xz": lzma.compress(two.encode()),
        "both.jsonl": "".join(json.dumps({"n": 3, "page": {"body": each}}) + "\n" for each in (one, two)).encode(),
    }.items():
        (folder / name).write_bytes(content)
    return {
        "several": ["--text", folder / "a.txt", folder / "b.txt"],
        "several flags": ["--text", folder / "a.txt", "--text", folder / "b.txt"],
        "folder": ["--text", folder / "both"],
        "glob": ["--text", folder / "?.txt"],
        "compressed": ["--text", folder / "a.txt.gz", folder / "b.txt.xz"],
        "objects": ["--text", folder / "both.jsonl", "--field", "page.body"],
        "one of them": ["--text", folder / "a.txt"],
    }


@pytest.fixture(scope="module")
def plain(formats, tmp_path_factory) -> Path:
    run = tmp_path_factory.mktemp("plain") / "run"
    result = learned(run, *formats["several"], steps=2)
    assert "1,980 letters in 2 documents" in result.err
    return run


@pytest.mark.parametrize("name", ["several flags", "folder", "glob", "compressed", "objects", "one of them"])
def test_the_same_text_in_another_format_is_the_same_run_and_another_text_another(formats, plain, tmp_path, name):
    learned(tmp_path / "run", *formats[name], steps=2)
    same = name != "one of them"
    for file in ("data/train/ids.values", "tokenizer/tokenizer.json"):
        assert ((tmp_path / "run" / file).read_bytes() == (plain / file).read_bytes()) is same
    assert (newest_difference(plain, tmp_path / "run") is None) is same


def test_the_document_mask_matters_where_documents_meet_and_nowhere_else(formats, tmp_path):
    for name, same in (("several", False), ("one of them", True)):
        runs = [tmp_path / f"{name}{number}" for number in range(2)]
        # Twenty windows of 99 tokens: the border of the two documents is in some batch.
        how = ["--set", "model.context=99", "data.rows=2"]
        learned(runs[0], *formats[name], *how, steps=9)
        learned(runs[1], *formats[name], "--document-mask", *how, steps=9)
        assert tomllib.loads((runs[1] / "recipe.toml").read_text())["data"]["document_mask"] is True
        assert (newest_difference(*runs) is None) is same


def test_characters_can_be_the_tokens(text, tmp_path):
    learned(tmp_path / "run", "--text", text, "--tokenizer", "characters", steps=2)
    tokenizer = LanguageTokenizer.load(tmp_path / "run" / "model")
    assert len(tokenizer) == len(set(SENTENCE)) + 2  # the end of a text, and what is unknown
    assert len(tokenizer.encode([SENTENCE])[0]) == len(SENTENCE)
    found = called("generate", tmp_path / "run", "--prompt", "the", "--tokens", 12)
    assert set(found.out) <= set(SENTENCE)
    assert len(found.out) == len("the") + 12 + 1


def test_a_llama_is_a_llama(llama):
    assert json.loads((llama / "model" / "config.json").read_text())["model_type"] == "llama"
    assert tomllib.loads((llama / "recipe.toml").read_text())["family"] == "llama"
    assert called("generate", llama, "--prompt", "the", "--tokens", 3).code == 0


def test_text_for_validation_is_the_text_given_and_nothing_is_held_out(text, tmp_path):
    other = tmp_path / "other.txt"
    other.write_text("a young dog likes the old cat.\n" * 3, encoding="utf-8")
    learned(tmp_path / "run", "--text", text, "--valid", other, steps=1)
    tokenizer = LanguageTokenizer.load(tmp_path / "run" / "tokenizer")
    for part, path in (("train", text), ("valid", other)):
        ids = Store.open(tmp_path / "run" / "data" / part)["ids"].tolist()
        assert tokenizer.decode([ids]) == [path.read_text(encoding="utf-8")]
        assert ids[-1] == tokenizer.end


# Pairs


def test_a_pair_is_completed_and_its_source_not_repeated(completer):
    for source, target in PAIRS.items():
        found = called("generate", completer, "--prompt", source, "--temperature", 0)
        assert (found.code, found.out) == (0, f"{target}\n")
    lines = "".join(f"{source}\n" for source in PAIRS)
    together = called("generate", completer, "--temperature", 0, stdin=lines.encode())
    assert together.out == "".join(f"{target}\n" for target in PAIRS.values())
    shown = called("generate", completer, "--prompt", "tree", "--temperature", 0, "--json").out
    tokens = len(LanguageModel.load(completer).tokenizer.encode(["Tanne"])[0])
    assert json.loads(shown) == {"prompt": "tree", "text": "Tanne", "tokens": tokens, "reason": "end"}
    assert called("generate", completer, "--prompt", "tree", "--beam", 3).out == "Tanne\n"


def test_of_a_pair_the_target_is_learned_unless_all_is_asked_for(pair_file, tmp_path):
    for learn in ("target", "all"):
        flags = ["--pairs", pair_file, "--valid-pairs", pair_file, "--set", f"data.learn={learn}"]
        learned(tmp_path / learn, *flags, steps=2)
    assert newest_difference(tmp_path / "target", tmp_path / "all") is not None


def test_pairs_too_long_for_the_context_are_counted(tmp_path):
    (tmp_path / "p.tsv").write_text("a\tb\n" * 100 + "long " * 40 + "\tb\n" + "\tb\n", encoding="utf-8")
    result = learned(tmp_path / "run", "--pairs", tmp_path / "p.tsv", steps=1)
    assert "98 training pairs" in result.err  # one in 50 was held out
    assert "dropped: 1 pair with a side over 7 tokens (half of model.context), 1 with an empty side" in result.err


# What a model owes


@pytest.mark.parametrize("family", ["llama", "completer"])
def test_selfcheck_says_ok_of_every_family(request, family):
    found = called("selfcheck", request.getfixturevalue(family), "--sentences", 6)
    assert (found.code, found.out.count("ok ")) == (0, 10)
    for claim in ("cache", "padded", "alone", "reference", "later token", "sampled", "beam 4"):
        assert claim in found.out


def test_selfcheck_finds_a_model_that_looks_ahead(gpt, monkeypatch):
    from manyheads.models.gpt import GPT

    states = GPT.states
    monkeypatch.setattr(
        GPT, "states", lambda self, ids, *more, **others: states(self, ids, *more, **others) + ids.sum() / 1000
    )
    found = called("selfcheck", gpt, "--sentences", 3)
    assert found.code == 1
    assert "FAIL  a later token leaves earlier logits as they were" in found.out


# Generating


def test_greedy_search_goes_on_with_what_was_learned(gpt):
    found = called("generate", gpt, "--prompt", "the cat", "--temperature", 0, "--tokens", 40)
    assert (found.code, found.err) == (0, "")
    assert found.out.startswith("the cat" + GOES_ON + "the cat" + GOES_ON)  # 40 tokens, where the model sees 16
    beam = called("generate", gpt, "--prompt", "the cat", "--beam", 1, "--tokens", 40)
    assert beam.out == found.out
    assert called("generate", gpt, "--prompt", "the cat", "--beam", 4, "--tokens", 12).out.startswith("the cat sees a")


def test_text_comes_while_it_is_written_and_ctrl_c_ends_it_quietly(gpt):
    arguments = ["generate", gpt, "--prompt", "the cat", "--tokens", 100_000]
    process = started(*arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    seen = b""
    while len(seen) < 100:
        seen += os.read(process.stdout.fileno(), 1)
    assert process.poll() is None  # a hundred letters are here, a hundred thousand tokens are to come
    process.send_signal(signal.SIGINT)
    out, err = process.communicate()
    assert process.returncode == 130
    assert err == b""
    whole = (seen + out).decode("utf-8", "ignore")
    assert whole.startswith("the cat")
    assert 100 <= len(whole) < 100_000


def written(run: Path, *flags, stdin: bytes = b"") -> list[dict]:
    found = called("generate", run, *flags, "--json", stdin=stdin)
    assert found.code == 0, found.err
    return [json.loads(line) for line in found.out.splitlines()]


CHANCE = ["--temperature", 2, "--tokens", 12]


def test_the_same_seed_gives_the_same_text_and_another_another(gpt):
    first, again, other = (
        called("generate", gpt, "--prompt", "the cat", *CHANCE, "--seed", seed).out for seed in (5, 5, 6)
    )
    assert first == again
    assert first != other


def test_samples_are_different_texts_of_one_prompt(gpt):
    texts = [each["text"] for each in written(gpt, "--prompt", "the cat", *CHANCE, "--samples", 3)]
    assert len(set(texts)) == 3
    shown = called("generate", gpt, "--prompt", "the cat", *CHANCE, "--samples", 3)
    assert shown.out == "---\n".join(f"the cat{text}\n" for text in texts)
    assert called("generate", gpt, "--prompt", "the cat", *CHANCE).out == f"the cat{texts[0]}\n"


def test_prompts_on_standard_input_are_each_what_they_are_alone(gpt):
    prompts = ["the cat", "a", "", "the old dog likes the young", "a dög and", "bird.", "likes"]
    together = written(gpt, *CHANCE, "--samples", 2, stdin="\r\n".join(prompts).encode())
    alone = [each for prompt in prompts for each in written(gpt, "--prompt", prompt, *CHANCE, "--samples", 2)]
    assert together == alone
    assert [each["prompt"] for each in together[::2]] == prompts
    assert len({each["text"] for each in together}) > len(prompts)  # and the test can tell
    assert called("generate", gpt, stdin=b"").out == ""


def test_json_has_prompt_text_tokens_and_reason(gpt):
    flags = ["--prompt", "the cat", "--temperature", 0, "--tokens", 5]
    tokenizer = LanguageModel.load(gpt).tokenizer
    expected = tokenizer.decode([tokenizer.encode([GOES_ON])[0][:5]])[0]
    assert written(gpt, *flags) == [{"prompt": "the cat", "text": expected, "tokens": 5, "reason": "length"}]
    assert [(each["text"], each["reason"]) for each in written(gpt, *flags, "--stop", "a d")] == [(" sees ", "stop")]
    assert "dög" in called("generate", gpt, "--prompt", "dög", "--tokens", 1, "--json").out  # not as \\u00f6
    assert written(gpt, "--prompt", "the cat", "--beam", 2, "--tokens", 5)[0].keys() == {"prompt", "text"}


@pytest.mark.parametrize(
    ("stops", "expected"),
    [
        (["likes"], " sees a dög and the old dog "),
        (["likes the y"], " sees a dög and the old dog "),  # over several tokens, and within one
        (["ld do"], " sees a dög and the o"),
        (["ög"], " sees a d"),
        (["bird", "old"], " sees a dög and the "),  # the first that comes
        (["the cat sees"], GOES_ON),
    ],
)
def test_a_text_ends_before_a_stop_string(gpt, stops, expected):
    flags = ["--prompt", "the cat", "--temperature", 0, "--tokens", 60, "--stop", *stops]
    assert called("generate", gpt, *flags).out == f"the cat{expected}\n"
    assert [(each["text"], each["reason"]) for each in written(gpt, *flags)] == [(expected, "stop")]
    tokenizer = LanguageModel.load(gpt).tokenizer
    pieces = [tokenizer.decode([[each]])[0] for each in tokenizer.encode([" old dog likes the young"])[0]]
    assert not any(stop in "|".join(pieces) for stop in ("ld do", "likes the y"))  # which are of several tokens


def test_wrong_words_are_a_sentence(gpt):
    for flags, sentence in (
        (["--top-p", 2], "top-p is 2.0; it must be above 0 and at most 1"),
        (["--temperature", "nan"], "temperature is nan; it must be at least 0"),
        (["--top-k", -1], "top-k is -1"),
        (["--min-p", 2], "min-p is 2.0"),
        (["--repetition-penalty", 0], "repetition-penalty is 0.0"),
        (["--seed", -1], "seed is -1"),
        (["--tokens", 0], "both must be at least 1"),
        (["--tokens", 10**21], "a text can have at most 1,000,000,000"),
        (["--samples", 0], "both must be at least 1"),
        (["--beam", -1], "both must be at least 1"),
        (["--beam", 2, "--samples", 2], "--beam finds one text for each prompt"),
        (["--beam", 2, "--stop", "a"], "--beam finds one text for each prompt"),
        (["--device", "tpu"], "'tpu' is not a device"),
        (["--prompt", "caf\udce9"], "the text is not valid UTF-8; type it in a terminal that writes UTF-8"),  # Latin-1
        (["--prompt", "the cat " * 9], "has 19 tokens, but the model sees 16; shorten it"),
        (["--prompt", "the cat " * 9, "--beam", 2], "has 19 tokens, but the model sees 16; shorten it"),
    ):
        assert sentence in refused("generate", gpt, "--prompt", "the cat", *flags), flags
    assert "standard input, line 2: not valid UTF-8" in refused("generate", gpt, stdin=b"a\n\xff\n")


# Models of others, and ours elsewhere


@pytest.mark.parametrize("family", ["gpt", "llama"])
def test_transformers_opens_our_run_and_we_what_they_save_and_all_say_the_same(request, tmp_path, family):
    transformers = pytest.importorskip("transformers")
    run = request.getfixturevalue(family)
    theirs = transformers.AutoModelForCausalLM.from_pretrained(run / "model").eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(run / "model")
    theirs.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    for prompt in ("the cat", "a dög and", "likes"):
        ids = tokenizer(prompt, return_tensors="pt").input_ids
        whole = theirs.generate(ids, do_sample=False, max_new_tokens=8)[0]
        said = f"{prompt}{tokenizer.decode(whole[ids.shape[1] :], skip_special_tokens=True)}\n"
        for directory in (run, tmp_path):
            flags = ["--prompt", prompt, "--temperature", 0, "--tokens", 8]
            assert called("generate", directory, *flags).out == said
    assert called("selfcheck", tmp_path, "--sentences", 4).code == 0


def test_their_tokenizer_puts_the_delimiter_behind_a_source(completer):
    transformers = pytest.importorskip("transformers")
    tokenizer = transformers.AutoTokenizer.from_pretrained(completer / "model")
    ours = LanguageModel.load(completer)
    assert tokenizer("old dog")["input_ids"] == ours.encode(["old dog"])[0]
    assert tokenizer.convert_ids_to_tokens(tokenizer("old dog")["input_ids"])[-1] == "<delimiter>"


# In Python


def test_a_language_model_in_python(gpt):
    model = LanguageModel.load(gpt)
    found = model.generate("the cat", tokens=5, temperature=0.0)
    assert isinstance(found, str)
    assert GOES_ON.startswith(found)
    pieces = model.generate("the cat", tokens=12, temperature=2.0, seed=3, stream=True)
    assert not isinstance(pieces, str)
    listed = list(pieces)
    assert len(listed) > 3
    assert "".join(listed) == model.generate("the cat", tokens=12, temperature=2.0, seed=3)
    assert "".join(listed) != model.generate("the cat", tokens=12, temperature=2.0, seed=4)


def test_completions_in_python_are_those_of_the_command(gpt):
    found = LanguageModel.load(gpt).complete(["the cat", "a"], tokens=12, samples=2, temperature=2.0)
    shown = written(gpt, *CHANCE, "--samples", 2, stdin=b"the cat\na\n")
    assert [asdict(each) for row in found for each in row] == shown
    with pytest.raises(ConfigError, match="a list of prompts, not one string"):
        LanguageModel.load(gpt).complete("the cat")


# Scoring


def rows_of(out: str) -> dict[str, float]:
    found = re.findall(r"^(.+?) {2,}(-?[\d.]+)", out, flags=re.MULTILINE)
    return {name.strip(): float(number) for name, number in found}


ODD = "the cat sees 🦜 — ein Vögelchen.\nthe old dog likes the young bird.\nżółć\n"


@pytest.mark.parametrize("stride", [5, None])
def test_evaluate_prints_what_a_text_costs_and_of_how_much_it_is(gpt, tmp_path, stride):
    (tmp_path / "odd.txt").write_text(ODD, encoding="utf-8")
    flags = [] if stride is None else ["--stride", stride]
    found = called("evaluate", gpt, "--text", tmp_path / "odd.txt", *flags)
    assert (found.code, found.err) == (0, "")
    scores = score_text(LanguageModel.load(gpt), [Piece(ODD, True)], stride=stride)
    assert scores.tokens > 33  # more than two windows
    rows = rows_of(found.out)
    assert rows["perplexity"] == pytest.approx(scores.perplexity, rel=1e-3)
    assert rows["perplexity by word"] == pytest.approx(scores.word_perplexity, rel=1e-3)
    assert rows["bits per byte"] == pytest.approx(scores.bits_per_byte, abs=1e-3)
    assert rows["bits per character"] == pytest.approx(scores.bits_per_character, abs=1e-3)
    assert rows["loss"] == pytest.approx(scores.nats / scores.tokens, abs=1e-3)
    for said in (f"by token, {scores.tokens} of them", f"{len(ODD.encode())} bytes", f"{len(ODD)} characters"):
        assert said in found.out
    assert found.out.endswith(f"window 16 tokens, stride {stride or 8}\n")


def test_choices_that_were_learned_are_chosen(gpt, tmp_path):
    questions = [
        {"context": "the cat", "choices": [" young bird", " sees a", " the dog"], "answer": 1},
        {"context": "the old dog", "choices": [" likes the", " bird."], "answer": 0},
        {"context": "likes the", "choices": [" cat", " old", " young"], "answer": 2},
        {"context": "the cat sees a dög and" * 5, "choices": [" bird", " the old"], "answer": 1},  # beyond the context
    ]
    for shift, accuracy in ((0, 100.0), (1, 0.0)):
        shifted = [{**each, "answer": (each["answer"] + shift) % len(each["choices"])} for each in questions]
        (tmp_path / "q.jsonl").write_text("\n".join(map(json.dumps, shifted)) + "\n\n")
        found = called("evaluate", gpt, "--choices", tmp_path / "q.jsonl")
        assert found.code == 0
        rows = [float(re.findall(r"([\d.]+) %", line)[0]) for line in found.out.splitlines()]
        assert rows == [accuracy, accuracy]
        assert "of 4 questions" in found.out


def test_what_cannot_be_scored_is_a_sentence(gpt, tmp_path):
    (tmp_path / "t.txt").write_text("a\n")
    (tmp_path / "empty.txt").write_text("")
    good = '{"context": "a", "choices": ["b", "c"], "answer": 0}\n'
    (tmp_path / "good.jsonl").write_text(good)
    (tmp_path / "bad.jsonl").write_text(good + "\n" + '{"context": "a", "choices": ["b", "c"], "answer": 2}\n')
    for flags, sentence in (
        (["--text", tmp_path / "no.txt"], "no.txt is not there"),
        (["--text", tmp_path / "empty.txt"], "there is no text in"),
        (["--text", tmp_path / "t.txt", "--stride", 17], "at most the model's context, 16"),
        (["--text", tmp_path / "t.txt", "--stride", 0], "it must be at least 1"),
        (["--choices", tmp_path / "bad.jsonl"], "bad.jsonl, line 3: not a question"),
        (["--choices", tmp_path / "empty.txt"], "has no questions"),
        (["--choices", tmp_path / "good.jsonl", "--text", tmp_path / "t.txt"], "ask for different things"),
        (["--pairs", tmp_path / "t.txt"], "a language model, which is not scored with --pairs"),
    ):
        assert sentence in refused("evaluate", gpt, *flags), flags


# What a person gets wrong in training

WRONG_FILES = {
    **{"g.txt": SENTENCE.encode() * 20, "e.txt": b"", "w.txt": b" \n\n", "a.txt": b"a", "b.txt": b"ab\0"},
    **{"u.txt": b"na\xefve", "f.jsonl": b'{"body": "a"}\n', "c.txt.gz": gzip.compress(b"a b\n" * 60)[:-9]},
    **{"p.tsv": b"a\tb\n" * 60, "q.tsv": b"a\tb\n" * 40, "r.tsv": b"a\tb\n" * 60 + b"no tab\n"},
    "folder/notes.csv": b"no text",
}


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ("--text e.txt", "there is no text in e.txt"),
        ("--text w.txt", "there is no text in w.txt"),
        ("--text a.txt", "1 token to train on and 1 to validate on are too few to predict one from another"),
        ("--text b.txt", "b.txt holds binary data, not text (byte 3 is zero)"),
        ("--text u.txt", "u.txt: byte 3 is not UTF-8"),
        ("--text no.txt", "no.txt is not there"),
        ("--text no*.txt", "no*.txt is not there"),
        ("--text folder", "the folder folder holds no file that ends in .txt"),
        ("--text f.jsonl", "f.jsonl, line 1: no field 'text'"),
        ("--text c.txt.gz", "c.txt.gz cannot be read"),
        ("--text g.txt --pairs p.tsv", "both --text and --pairs are given"),
        ("--text g.txt --valid e.txt", "there is no text in e.txt"),
        ("--valid g.txt", "--valid is given without --text"),
        ("--pairs q.tsv", "no validation pairs; give them with"),
        ("--pairs r.tsv", "r.tsv, line 61: 1 column"),
        ("--pairs p.tsv --set data.learn=source", "data.learn is 'source'; it can be target or all"),
        ("--text g.txt --preset gpt9", "there is no preset gpt9; there are transformer_decoder, gpt1, gpt2_tiny"),
        ("--text g.txt --set train.best_by=bleu", "train.best_by is bleu"),
        ("--text g.txt --set family=llama", "family is llama, but the sizes are another's; choose it by --preset"),
    ],
)
def test_what_cannot_be_trained_is_one_sentence_and_leaves_nothing(tmp_path, monkeypatch, flags, said):
    monkeypatch.chdir(tmp_path)
    Path("folder").mkdir()
    for name, content in WRONG_FILES.items():
        Path(name).write_bytes(content)
    assert said in refused("train", "language", "--out", "run", *flags.split(), after_reading="a.txt" in flags)
    assert not Path("run").exists()
