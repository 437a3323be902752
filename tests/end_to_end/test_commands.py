"""Translators as a person uses them, and what the command line says of words that cannot be."""

import gzip
import json
import lzma
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import torch
from helpers import changed, unsealed

from manyheads import Translator
from manyheads.core.errors import CheckpointError
from manyheads.interop.directory import load_model

from .conftest import (
    SMALL,
    WORDS,
    called,
    command,
    environment,
    newest_difference,
    refused,
    saved_bert,
    started,
    tables,
    trained,
    typed,
)


def words(line: str) -> str:
    return " ".join(WORDS[word] for word in line.split())


# Training


@pytest.fixture(scope="module")
def formats(corpus, tmp_path_factory) -> dict[str, list]:
    """The same pairs in ways that they can be given, in one file or several, compressed or not."""
    folder = tmp_path_factory.mktemp("formats")
    english, german = ((corpus / f"train.{side}").read_text().splitlines(keepends=True) for side in ("en", "de"))
    pairs = [(source.strip(), target.strip()) for source, target in zip(english, german)]
    nested = "".join(json.dumps({"id": 3, "translation": {"en": s, "de": t}}) + "\r\n" for s, t in pairs)
    for name, text in {
        "one.en": "".join(english[:150]),
        "two.en.gz": "".join(english[150:]),
        "one.de.xz": "".join(german[:150]),
        "two.de": "".join(german[150:]),
        "all.tsv.gz": "".join(f"{source}\t{target}\n" for source, target in pairs),
        "swapped.tsv": "".join(f"{target}\tx\t{source}\n" for source, target in pairs),
        "all.jsonl": "".join(json.dumps({"source": s, "target": t}) + "\n" for s, t in pairs),
        "nested.jsonl.xz": nested,
    }.items():
        compressed = {".gz": gzip.compress, ".xz": lzma.compress}.get(Path(name).suffix, bytes)
        (folder / name).write_bytes(compressed(text.encode()))
    sources = [folder / "one.en", folder / "two.en.gz"]
    targets = [folder / "one.de.xz", folder / "two.de"]
    return {
        "several": ["--source", *sources, "--target", *targets],
        "several flags": ["--source", sources[0], "--source", sources[1], "--target", *targets],
        "tsv": ["--pairs", folder / "all.tsv.gz"],
        "columns": ["--pairs", folder / "swapped.tsv", "--fields", "3", "1"],
        "jsonl": ["--pairs", folder / "all.jsonl"],
        "fields": ["--pairs", folder / "nested.jsonl.xz", "--fields", "translation.en", "translation.de"],
    }


@pytest.fixture(scope="module")
def plain_run(corpus, tmp_path_factory) -> Path:
    run = tmp_path_factory.mktemp("plain") / "run"
    result = trained(run, "--source", corpus / "train.en", "--target", corpus / "train.de", steps=2)
    assert "784 training pairs, 16 validation pairs" in result.err  # one in 50 was held out
    return run


@pytest.mark.parametrize("name", ["several", "several flags", "tsv", "columns", "jsonl", "fields"])
def test_the_same_pairs_in_another_format_are_the_same_run(formats, plain_run, tmp_path, name):
    trained(tmp_path / "run", *formats[name], steps=2)
    for file in ("data/train/source.values", "data/train/target.values", "tokenizer/tokenizer.json"):
        assert (tmp_path / "run" / file).read_bytes() == (plain_run / file).read_bytes()
    assert newest_difference(plain_run, tmp_path / "run") is None


def test_dropped_pairs_are_counted(corpus, tmp_path):
    lines = [(corpus / f"train.{side}").read_text().splitlines()[:100] for side in ("en", "de")]
    lines[0][3], lines[1][4], lines[0][6] = "", "   ", "the " * 50
    for side, chosen in zip(("en", "de"), lines):
        (tmp_path / f"t.{side}").write_text("\n".join(chosen))  # the last line has no end
    files = ["--source", tmp_path / "t.en", "--target", tmp_path / "t.de"]
    result = trained(tmp_path / "run", *files, "--set", "data.longest=40", steps=1)
    assert "95 training pairs, 2 validation pairs" in result.err
    assert "dropped: 1 pair with a side over 40 tokens (data.longest), 2 with an empty side" in result.err


def test_every_kind_of_model_trains_and_loads_back(files, tmp_path):
    for name, fields in {
        "rotary": ["model.positions.kind=rotary", "model.norm_order=pre", "model.norm=rms", "model.activation=swiglu"],
        "learned": ["model.positions.kind=learned", "model.positions.length=40", "data.longest=40"],
        "none": ["model.positions.kind=none", "model.key_value_heads=1", "model.tied=false"],
    }.items():
        trained(tmp_path / name, *files, "--set", *fields, "train.optimizer=adamw", steps=2)
        model, _ = load_model(tmp_path / name)
        assert model.config.positions.kind == name
        assert json.loads((tmp_path / name / "model" / "config.json").read_text())["model_type"] != "marian"
        result = called("translate", tmp_path / name, "--beam", 2, stdin=b"the cat\n")
        assert (result.code, result.out.count("\n")) == (0, 1)


# Translating


def test_translate_is_a_filter(run):
    lines = ["the cat sees a dog", "", "old red bird", "the young house likes a tree", "a dog"]
    # One line as Windows ends it, and the last without an end.
    text = "\ufeff" + "\n".join(lines).replace("bird\n", "bird\r\n")
    found = called("translate", run, stdin=text.encode())
    assert (found.code, found.err) == (0, "")
    translated = found.out.split("\n")
    assert len(translated) == 6
    assert translated[-1] == translated[1] == ""  # it ends in a line feed, and an empty line stays one
    assert "\r" not in found.out
    assert translated[4] == words("a dog")
    assert translated[:5] == Translator.load(run).translate(lines)
    # in order, and the same whichever other lines there are
    backwards = called("translate", run / "model", stdin="\n".join(lines[::-1]).encode() + b"\n").out.split("\n")
    assert backwards[:5] == translated[:5][::-1]
    for nothing, out in ((b"", ""), (b"\n \n", "\n\n")):
        assert called("translate", run, stdin=nothing).out == out


def test_letters_beyond_ascii_go_in_and_come_out(run):
    found = called("translate", run, "--beam", 1, stdin="the dog\na bird\nżółć 🦜\n".encode())
    assert found.code == 0
    assert found.out.split("\n")[0] == "die Hündin"
    assert found.out.split("\n")[1] == "eine Möwe"
    assert found.out.count("\n") == 3


def test_candidates_come_with_number_and_score(run):
    found = called("translate", run, "--nbest", 3, stdin=b"the cat\n\nold tree\n")
    rows = [line.split("\t") for line in found.out.splitlines()]
    assert [int(row[0]) for row in rows] == [1, 1, 1, 2, 3, 3, 3]
    scores = [float(row[1]) for row in rows if row[0] == "1"]
    assert scores == sorted(scores, reverse=True)
    assert rows[0][2] == called("translate", run, stdin=b"the cat\n").out.strip()
    assert len({row[2] for row in rows if row[0] == "1"}) == 3
    assert called("translate", run, "--nbest", 6, stdin=b"the cat\n").out.count("\n") == 6  # more than the beam


def test_a_line_too_long_for_the_model_is_translated_sentence_by_sentence_and_named(run, monkeypatch):
    """What no training pair is as long as would come out as a few words of it."""
    monkeypatch.setattr("manyheads.cli.lines.LINES_AT_ONCE", 2)
    sentences = ["the old dog.", "the cat!", "a bird?"] * 60
    lines = ["the cat", "a bird", "the dog", " ".join(sentences), "the cat"]
    found = called("translate", run, stdin="\n".join(lines).encode())
    alone = called("translate", run, stdin="\n".join(sentences).encode()).out.splitlines()
    assert found.out.splitlines()[3] == " ".join(alone)
    assert "longer than the 256 tokens that are translated at once: line 4; split at the ends of sentences" in found.err
    numbered = called("translate", run, "--nbest", 2, "--beam", 2, stdin="\n".join(lines).encode())
    assert "line 4;" in numbered.err
    assert [int(row.split("\t")[0]) for row in numbered.out.splitlines()] == [1, 1, 2, 2, 3, 3, 4, 4, 5, 5]


def test_input_that_is_not_utf8_is_named_by_its_line(run):
    sentence = refused("translate", run, stdin=b"the cat\nfine\nna\xefve\n")
    assert sentence.startswith("standard input, line 3: not valid UTF-8")
    too_long = b"the cat\n" + b"a" * 5_000_001
    found = called("translate", run, stdin=too_long)  # what came before it was answered at once
    assert (found.code, found.out) == (2, "die Katze\n")
    assert "standard input, line 2: it is longer than 5,000,000 bytes" in found.err


def test_a_reader_that_leaves_is_no_error(run):
    typed = f"yes 'the cat' | head -n 3000 | {' '.join(command('translate', run, '--beam', 1))}"
    for reader, read, codes in (("head -n 1", "die Katze\n", (0, 141)), ("true", "", (141,))):
        script = f"{typed} | {reader}; exit ${{PIPESTATUS[2]}}"
        found = subprocess.run(["bash", "-c", script], capture_output=True, env=environment(), check=False)
        assert (found.stdout.decode(), found.stderr.decode()) == (read, "")
        assert found.returncode in codes


def test_files_are_read_in_place_of_standard_input_and_answers_can_be_json(run, tmp_path):
    (tmp_path / "one.txt").write_text("the cat\n\n")
    (tmp_path / "two.txt.gz").write_bytes(gzip.compress(b"old tree"))
    named = [tmp_path / "one.txt", tmp_path / "two.txt.gz"]
    plain = called("translate", run, *named).out
    assert plain == called("translate", run, "-", stdin=b"the cat\n\nold tree\n").out
    for count in (1, 2):
        found = called("translate", "--json", run, *named, "--nbest", count)
        tables = list(map(json.loads, found.out.splitlines()))
        assert [table["line"] for table in tables] == [1] * count + [2] + [3] * count
        best = {table["line"]: table for table in reversed(tables)}
        assert [best[line]["translation"] for line in (1, 2, 3)] == plain.splitlines()
        assert [best[line]["source"] for line in (1, 2, 3)] == ["the cat", "", "old tree"]
        assert best[1]["score"] < best[2]["score"] == 0.0


def test_whoever_writes_a_line_and_waits_is_answered(run):
    with started("translate", run, "--beam", 1, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        for line in ("the cat", "a bird", "a dog"):
            process.stdin.write(f"{line}\n".encode())
            process.stdin.flush()
            assert process.stdout.readline().decode() == f"{words(line)}\n"
        process.stdin.close()
    assert process.returncode == 0


def test_a_stream_that_is_closed_is_a_sentence(run):
    for arguments, closed, sentence in (
        (("translate", run), "<&-", "standard input is closed; give it a file with < FILE"),
        (("--version",), ">&-", "standard output is closed; give it a file with > FILE"),
        (("--version",), "> /dev/full", "No space left on device"),
    ):
        shell = f"{' '.join(command(*arguments))} {closed}"
        found = subprocess.run(shell, shell=True, capture_output=True, env=environment(), timeout=120, check=False)
        assert (found.returncode, found.stdout, found.stderr.count(b"\n")) == (2, b"", 1), found
        assert sentence in found.stderr.decode()


@pytest.mark.parametrize("module", ["typer", "manyheads.cli.train", "torch"])
def test_ctrl_c_while_modules_are_imported_ends_without_a_word(module, run):
    script = f"""
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # as where no shell has it ignored
class Interrupted:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interrupted())
sys.argv = ["manyheads", "translate", {str(run)!r}]
from manyheads.__main__ import main
main()
"""
    found = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, stdin=subprocess.DEVNULL, env=environment(), check=False
    )
    assert (found.returncode, found.stdout, found.stderr) == (130, b"", b"")


def test_evaluate_prints_bleu_and_chrf_with_their_signatures(run, corpus, tmp_path):
    files = ["--source", corpus / "valid.en", "--target", corpus / "valid.de"]
    found = called("evaluate", run, *files, "--out", tmp_path / "found.de")
    assert found.code == 0
    rows = {line.split("  ")[0].strip(): line for line in found.out.splitlines()}
    assert rows.keys() == {"BLEU", "BLEU, lower", "chrF"}
    assert "case:mixed" in rows["BLEU"]
    assert "tok:13a" in rows["BLEU"]
    assert "case:lc" in rows["BLEU, lower"]
    assert "chrF" in rows["chrF"]
    assert "version:" in rows["chrF"]
    assert 40 < float(rows["BLEU"].split()[1]) <= 100
    filtered = called("translate", run, stdin=(corpus / "valid.en").read_bytes())
    assert (tmp_path / "found.de").read_text() == filtered.out
    pairs = zip(*((corpus / f"valid.{side}").read_text().splitlines() for side in ("en", "de")))
    (tmp_path / "valid.tsv").write_text("".join(f"{s}\t{t}\n" for s, t in pairs))
    assert called("evaluate", run, "--pairs", tmp_path / "valid.tsv").out == found.out


def test_selfcheck_finds_a_model_that_leaks(run, monkeypatch):
    from manyheads.models.transformer import Transformer

    encode = Transformer.encode
    monkeypatch.setattr(Transformer, "encode", lambda self, source: (encode(self, source)[0], None))  # padding is seen
    found = called("selfcheck", run, "--sentences", 6)
    assert found.code == 1
    assert "FAIL  logits of a padded source = unpadded" in found.out
    assert "ok    logits through the cache" in found.out
    assert all(claim in found.out for claim in ("alone", "reference"))


@pytest.mark.slow
def test_prove_resume_watches_a_talkative_run_without_holding_it_up(plain_run):
    found = called("prove-resume", plain_run / "recipe.toml", "--steps", 1500, "--seed", 3)
    assert found.code == 0


def test_prove_resume_names_what_differs(monkeypatch, plain_run):
    monkeypatch.setattr(
        "manyheads.tasks.proofs.resume.prove", lambda *_, **__: "encoder.norm.weight in model.safetensors"
    )
    found = called("prove-resume", plain_run)
    assert found.code == 1
    assert found.out == "the resumed run differs, first in: encoder.norm.weight in model.safetensors\n"


# What a person gets wrong


WRONG_FILES = {
    **{"m.en": b"a b\n" * 59, "u.en": b"a b\n" * 40 + b"\xff\n" + b"a b\n" * 19, "g.en": b"a b\n" * 60},
    **{"g.de": b"c d\n" * 60, "b.tsv": b"a\tb\n" * 60 + b"no tab\n", "e.tsv": b"", "v.tsv": b"a\tb\nx\n"},
    **{"b.jsonl": b'{"source": "a", "target": "b"}\n' * 60 + b"{\n", "c.jsonl": b'{"source": "a"}\n'},
    **{"b.tsv.gz": gzip.compress(b"a\tb\n" * 60)[:-9], "few.tsv": b"a\tb\n" * 30},
}
GOOD = "--source g.en --target g.de"


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ("--source m.en --target g.de", "m.en has 59 lines but g.de has 60: line 60"),
        ("--source u.en --target g.de", "u.en, line 41"),
        ("--source no.en --target g.de", "no.en is not there"),
        ("--source g.en", "1 file in --source, 0 in --target"),
        ("--source g.en --set data.target=[] data.source=['g.en']", "1 file in data.source, 0 in data.target"),
        ("--pairs b.tsv", "b.tsv, line 61: 1 column"),
        ("--pairs b.jsonl", "b.jsonl, line 61"),
        ("--pairs c.jsonl", "c.jsonl, line 1: no field 'target'"),
        ("--pairs b.tsv.gz", "b.tsv.gz cannot be read"),
        ("--pairs e.tsv", "no validation pairs"),
        ("--pairs few.tsv", "no validation pairs: give them with --valid-source"),
        (f"{GOOD} --valid-pairs v.tsv", "v.tsv, line 2"),
        (f"{GOOD} --preset transformer_huge", "no preset transformer_huge; there are transformer_tiny"),
        (f"{GOOD} --set model.activation=tanhh", "no activation is called 'tanhh'"),
        (f"{GOOD} --set model.positions.kind=rotari", "no positions are called 'rotari'"),
        (f"{GOOD} --set model.key_value_heads=3", "4 heads do not share 3 keys"),
        (
            f"{GOOD} --set model.positions.kind=learned model.positions.length=40",
            "pairs of 256 tokens in, but model.positions.length ends at 40",
        ),
    ],
)
def test_what_cannot_be_trained_is_one_sentence_and_leaves_nothing(tmp_path, monkeypatch, flags, said):
    monkeypatch.chdir(tmp_path)
    for name, content in WRONG_FILES.items():
        Path(name).write_bytes(content)
    assert said in refused("train", "translate", "--out", "run", *flags.split())
    assert {path.name for path in tmp_path.iterdir()} == set(WRONG_FILES)


def test_errors_in_a_process_of_its_own_are_a_sentence_too(tmp_path):
    found = typed("train", "translate", "--source", "no.en", "--target", "no.de", cwd=tmp_path)
    assert found.code == 2
    assert found.err == "manyheads: no.en is not there; check the path\n"
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(CheckpointError):  # all of it for those who ask
        called("translate", tmp_path / "nowhere", "--debug")


def test_a_fault_of_our_own_looks_different_from_a_users(run, monkeypatch):
    def broken(*_, **__):
        raise AttributeError("'NoneType' has no\nshape")

    monkeypatch.setattr(Translator, "translate", broken)
    found = called("translate", run, stdin=b"the cat\n")
    assert (found.code, found.out, found.err.count("\n")) == (1, "", 1)
    assert "a fault of manyheads itself" in found.err
    assert "AttributeError: 'NoneType' has no shape" in found.err
    assert "--debug" in found.err
    with pytest.raises(AttributeError):
        called("translate", run, "--debug", stdin=b"the cat\n")


def test_memory_that_torch_cannot_have_is_no_fault_of_ours(run, monkeypatch):
    monkeypatch.setattr(Translator, "translate", lambda *_, **__: torch.empty(2**60))
    assert "there is not enough memory for this" in refused("translate", run, stdin=b"the cat\n")


def test_a_model_may_stand_anywhere_among_the_options(run, corpus, tmp_path):
    (tmp_path / "t.tsv").write_text("the cat\tdie Katze\n")
    pairs, sides = tmp_path / "t.tsv", ["--source", corpus / "valid.en", "--target", corpus / "valid.de"]
    said = called("evaluate", run, "--pairs", pairs, pairs, "--beam", 1)
    assert said.code == 0
    assert called("evaluate", "--pairs", pairs, pairs, run, "--beam", 1) == said
    assert called("evaluate", "--beam", 1, "--pairs", pairs, pairs, run) == said
    assert called("evaluate", "--beam", 1, "--pairs", pairs, pairs, "--", run) == said
    scored = called("evaluate", "--beam", 1, run, *sides)
    assert scored.code == 0
    assert called("evaluate", *sides[:2], run, "--beam", 1, *sides[2:]) == scored  # a directory among the files
    assert "nowhere does not exist; give a model" in refused("evaluate", "--pairs", pairs, "nowhere")
    assert "Missing argument 'MODEL'" in called("evaluate", "--pairs", pairs).err


def test_paths_that_lead_nowhere_are_answered_without_torch(tmp_path):
    (tmp_path / "file").touch()
    (tmp_path / "started").mkdir()
    (tmp_path / "started" / "recipe.toml").touch()
    model = tmp_path / "mine"
    model.mkdir()
    (model / "config.json").touch()
    script = """
import sys
from manyheads.cli.main import main
try:
    main()
finally:
    assert "torch" not in sys.modules
"""
    for arguments, sentence in (
        (["translate", "nowhere"], "nowhere does not exist"),
        (["translate", tmp_path / "file"], "file is a file; give a model directory"),
        (["look", tmp_path, "a text"], "holds no config.json"),
        (["selfcheck", tmp_path / "started"], "is a run that has not saved a model yet"),
        (["align", model, "--source", "nowhere"], "nowhere is not there"),
        (["align", model, "the cat", "die Katze", "--gold", "nowhere"], "nowhere is not there"),
        (["evaluate", model, "--choices", "nowhere"], "nowhere is not there"),
        (["prove-resume", "nowhere"], "nowhere does not exist; give a recipe"),
        (["prune", model, "--heads", "0.0", "--out", tmp_path], "exists already"),
        (["train", "translate", "--tokenizer", "nowhere", "--out", tmp_path / "run"], "nowhere is not there"),
        (["train", "tag", "--out", "nowhere", "--resume"], "nowhere holds no run to go on with"),
    ):
        found = subprocess.run(
            [sys.executable, "-c", script, *map(str, arguments)], capture_output=True, text=True, check=False
        )
        assert (found.returncode, found.stdout, found.stderr.count("\n")) == (2, "", 1), found.stderr
        assert sentence in found.stderr


def test_models_that_are_not_there_or_damaged_are_a_sentence(run, tmp_path):
    (tmp_path / "t.tsv").write_text("a\tb\n")
    (tmp_path / "empty").mkdir()
    (tmp_path / "started").mkdir()
    (tmp_path / "started" / "recipe.toml").touch()
    for name in ("cut", "odd", "list", "wide", "silent", "pickled"):
        unsealed(shutil.copytree(run / "model", tmp_path / name))
    changed(tmp_path / "wide", d_model=34)
    (tmp_path / "silent" / "tokenizer.json").unlink()
    (tmp_path / "pickled" / "model.safetensors").rename(tmp_path / "pickled" / "pytorch_model.bin")
    (tmp_path / "cut" / "model.safetensors").write_bytes((run / "model" / "model.safetensors").read_bytes()[:-9])
    (tmp_path / "odd" / "config.json").write_text('{"model_type": "t5"}')
    (tmp_path / "list" / "config.json").write_text("[]")
    for name, sentence in {
        "nowhere": "does not exist; give a model directory or a run directory",
        "empty": "holds no config.json",
        "started": "is a run that has not saved a model yet",
        "cut": "model.safetensors is damaged",
        "odd": "holds a model of type t5; ",
        "list": "config.json",
        "wide": "its config says",
        "silent": "tokenizer.json is not there",
        "pickled": "has only pytorch_model.bin, a pickle, which can run any code when opened",
    }.items():
        for arguments in (["translate"], ["selfcheck"], ["evaluate", "--pairs", tmp_path / "t.tsv"]):
            assert sentence in refused(arguments[0], tmp_path / name, *arguments[1:], stdin=b"a\n")


def test_other_wrong_words_are_a_sentence(run, corpus):
    for arguments, sentence in (
        (["evaluate", run], "nothing to score a translator on: give --source and --target, or --pairs"),
        (["evaluate", run, "--source", corpus / "valid.en", "--target", corpus / "train.de"], "25 lines"),
        (["evaluate", run, "--source", corpus / "valid.en"], "1 source file but 0 target files"),
        (["evaluate", run, "--text", corpus / "valid.en"], "is a translator, which is not scored with --text"),
        (["evaluate", run, "--target", corpus / "valid.de"], "0 source files but 1 target file"),
        (["translate", run, "--beam", 0, "--json"], "--beam is 0; it must be at least 1"),
        (["translate", run, "--nbest", -1], "--nbest is -1; it must be at least 0"),
        (["evaluate", run, "--pairs", run / "recipe.toml", "--fields", "1"], "--fields names 1 field; it must"),
        (["prove-resume", run / "nowhere.toml"], "does not exist; give a recipe in TOML or a run directory"),
        (["prove-resume", run, "--steps", 1], "use at least 3"),
        (["translate", run, "--alpha", "nan"], "the length penalty alpha is nan; it must be from 0"),
        (["translate", run, "--device", "mps"], "'mps' is not a device; use auto, cpu or cuda"),
        (["selfcheck", run, "--sentences", "0"], "--sentences is 0; it must be from 1"),
        (["selfcheck", run, "--sentences", 10**9], "--sentences is 1000000000; it must be from 1 to 10000"),
        (["translate", run, "--beam", "many"], "many"),
        (["trnslate", run], "trnslate"),
        (["translate", run, "--bean", "4"], "--bean"),
        (["train", "translate", "--preset"], "--preset"),
    ):
        found = called(*arguments, stdin=b"a\n")
        assert found.code == 2, arguments
        assert sentence in found.err
        assert "Traceback" not in found.err


def test_what_is_trained_can_be_said_in_flags(files, tmp_path):
    flags = ["train", "translate", "--out", tmp_path / "run", "--steps", 2, "--seed", 5, "--device", "cpu"]
    shown = tomllib.loads(called(*flags, "--show-recipe", "--set", "train.seed=6").out)["train"]
    assert (shown["steps"], shown["seed"], shown["device"]) == (2, 6, "cpu")  # what is set comes last
    settings = [each for each in SMALL if each != "train.device=cpu"]
    assert called(*flags, *files, "--set", *settings).code == 0
    again = called("train", "translate", "--out", tmp_path / "run", "--resume", "--steps", 3)
    assert again.code == 0, again.err
    assert "done after 3 steps" in again.err
    assert refused(*flags[:4], "--steps", 0) == "--steps is 0; it must be at least 1"
    assert refused(*flags[:4], "--set", "train.steps=0") == "train.steps is 0; it must be at least 1"


def test_quiet_leaves_news_away_and_keeps_warnings(files, tmp_path, run):
    rest = [*files, "--set", *SMALL, "train.steps=1", "train.warmup=1"]
    assert called("--quiet", "train", "translate", "--out", tmp_path / "a", *rest).err == ""
    assert called("train", "translate", "-q", "--out", tmp_path / "b", *rest).err == ""
    assert called("train", "translate", "--out", tmp_path / "c", *rest).err != ""
    encoder = saved_bert(tmp_path / "encoder", ["the cat"])
    assert "warning: lines that are empty" in called("similar", encoder, "-q", "--to", "a", stdin=b"the cat\n\n").err


def test_paths_for_results_are_checked_before_any_work(run, files, tmp_path, monkeypatch):
    def worked(*_, **__):
        raise AssertionError("this is work")

    monkeypatch.setattr(Translator, "load", worked)
    monkeypatch.setattr("manyheads.interop.directory.load_model", worked)
    monkeypatch.setattr("manyheads.tasks.run.resolve", worked)
    (tmp_path / "file").touch()
    below, nowhere = tmp_path / "file" / "run", tmp_path / "nowhere" / "file"
    for arguments, sentence in (
        (["train", "translate", "--out", below], "file is a file; give another --out"),
        (["demo", "--out", below], "file is a file; give another --out"),
        (["prune", run, "--heads", "cross.0.0", "--out", below], "file is a file; give another --out"),
        (["evaluate", run, *files[:4], "--out", nowhere], "there is no folder"),
        (["embed", run, "--out", nowhere], "there is no folder"),
        (["look", run, "the cat", "--json", nowhere.with_suffix(".json")], "there is no folder"),
    ):
        assert sentence in refused(*arguments, stdin=b"a\n")
    assert {path.name for path in tmp_path.iterdir()} == {"file"}


@pytest.mark.parametrize(
    "command", sorted({"look", "help", "presets", "evaluate", "train translate", "train language"})
)
def test_help_and_tables_keep_to_eighty_columns_or_to_those_that_are_asked_for(command, monkeypatch):
    for columns in (80, 60):
        monkeypatch.setenv("COLUMNS", str(columns))
        out = called(*command.split(), *(["--help"] if command not in ("help", "presets") else [])).out
        longest = max(map(len, out.splitlines()))
        assert longest <= (80 if command == "presets" else columns)


def test_presets_are_listed_with_the_parameters_that_models_have():
    rows = {table["name"]: table for table in tables("presets")}
    assert (rows["gpt2_small"]["vocabulary"], rows["gpt2_small"]["parameters"]) == (50_257, 124_439_808)
    assert rows["gpt2_small"]["tasks"] == ["language", "classify"]
    assert rows["bert_base"]["tasks"] == ["masked", "classify", "tag", "parse", "similarity", "answer"]
    shown = called("presets").out
    assert all(re.search(rf"^{name} .* {table['parameters']:,}$", shown, re.MULTILINE) for name, table in rows.items())


def test_version_and_help():
    import manyheads

    for flag in ("--version", "-V"):
        assert called(flag).out == f"manyheads {manyheads.__version__}\n"
    for arguments in (["--help"], ["train", "--help"], ["train", "translate", "-h"]):
        assert (called(*arguments).code, "Usage" in called(*arguments).out) == (0, True)
    for named in ([], ["train"], ["train", "tag"], ["look"]):
        assert called("help", *named).out == called(*named, "--help").out
    assert called("help", "nothing").code == 2


@pytest.mark.parametrize(
    ("words", "completed"),
    [
        ("pre", ["presets"]),
        ("train tag --pre", ["--preset"]),
        ("train tag --preset bert_m", ["bert_mini", "bert_medium"]),
    ],
)
def test_a_shell_completes_commands_flags_and_presets(words, completed):
    words = f"manyheads {words}"
    asked = {"_MANYHEADS_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
    found = subprocess.run(command(), env={**environment(), **asked}, capture_output=True, text=True, check=False)
    assert found.stdout.split() == completed
