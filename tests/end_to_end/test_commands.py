import gzip
import json
import lzma
import random
import re
import signal
import subprocess
import time
import tomllib
from pathlib import Path

import pytest

from manyheads import Translator
from manyheads.core.errors import CheckpointError
from manyheads.interop.directory import load_model
from manyheads.train.checkpoint import Checkpoints, first_difference

from .conftest import SMALL, WORDS, called, command, environment, trained, typed


def words(line: str) -> str:
    return " ".join(WORDS[word] for word in line.split())


def checkpoints(run: Path) -> list[str]:
    return [path.name for path in Checkpoints(run / "checkpoints", 9, 1).paths()]


# Training


def test_a_run_directory_holds_all_that_a_run_is(run):
    assert {path.name for path in run.iterdir()} >= {
        "recipe.toml",
        "metrics.jsonl",
        "tensorboard",
        "checkpoints",
        "model",
    }
    assert {path.name for path in (run / "model").iterdir()} == {
        *("config.json", "generation_config.json", "model.safetensors", "README.md"),
        *("tokenizer.json", "tokenizer_config.json"),
    }
    assert json.loads((run / "model" / "config.json").read_text())["model_type"] == "marian"
    card = (run / "model" / "README.md").read_text()
    assert "800 sentence pairs" in card
    assert "batch_tokens = 300" in card
    losses = [line["loss"] for line in map(json.loads, (run / "metrics.jsonl").open()) if line["kind"] == "train"]
    assert losses[-1] < losses[0] / 4


@pytest.fixture(scope="module")
def formats(corpus, tmp_path_factory) -> dict[str, list]:
    """The same pairs in every way that they can be given."""
    folder = tmp_path_factory.mktemp("formats")
    english, german = ((corpus / f"train.{side}").read_text() for side in ("en", "de"))
    pairs = list(zip(english.splitlines(), german.splitlines()))
    tsv = "".join(f"{source}\t{target}\n" for source, target in pairs)
    jsonl = "".join(json.dumps({"source": s, "target": t, "n": n}) + "\n" for n, (s, t) in enumerate(pairs))
    nested = "".join(json.dumps({"id": 3, "translation": {"en": s, "de": t}}) + "\r\n" for s, t in pairs)
    (folder / "all.tsv").write_text(tsv)
    (folder / "swapped.tsv").write_text("".join(f"{target}\tx\t{source}\n" for source, target in pairs))
    (folder / "all.jsonl").write_text(jsonl)
    (folder / "all.jsonl.xz").write_bytes(lzma.compress(jsonl.encode()))
    (folder / "nested.jsonl.gz").write_bytes(gzip.compress(nested.encode()))
    (folder / "all.tsv.gz").write_bytes(gzip.compress(tsv.encode()))
    (folder / "train.en.gz").write_bytes(gzip.compress(english.encode()))
    (folder / "train.de.xz").write_bytes(lzma.compress(german.encode()))
    halves = []
    for name, text in (("en", english), ("de", german)):
        lines = text.splitlines(keepends=True)
        for part, chosen in (("one", lines[:150]), ("two", lines[150:])):
            (folder / f"{part}.{name}").write_text("".join(chosen))
        halves.append([folder / f"one.{name}", folder / f"two.{name}"])
    return {
        "parallel": ["--source", corpus / "train.en", "--target", corpus / "train.de"],
        "compressed": ["--source", folder / "train.en.gz", "--target", folder / "train.de.xz"],
        "several": ["--source", *halves[0], "--target", *halves[1]],
        "several flags": [
            *("--source", halves[0][0], "--source", halves[0][1]),
            *("--target", halves[1][0], "--target", halves[1][1]),
        ],
        "tsv": ["--pairs", folder / "all.tsv"],
        "tsv.gz": ["--pairs", folder / "all.tsv.gz"],
        "columns": ["--pairs", folder / "swapped.tsv", "--fields", "3", "1"],
        "jsonl": ["--pairs", folder / "all.jsonl"],
        "jsonl.xz": ["--pairs", folder / "all.jsonl.xz"],
        "fields": ["--pairs", folder / "nested.jsonl.gz", "--fields", "translation.en", "translation.de"],
    }


@pytest.fixture(scope="module")
def plain_run(formats, tmp_path_factory) -> Path:
    run = tmp_path_factory.mktemp("plain") / "run"
    result = trained(run, *formats["parallel"], steps=2)
    assert "784 training pairs, 16 validation pairs" in result.err  # every 50th was held out
    return run


@pytest.mark.parametrize(
    "name", ["compressed", "several", "several flags", "tsv", "tsv.gz", "columns", "jsonl", "jsonl.xz", "fields"]
)
def test_the_same_pairs_in_another_format_are_the_same_run(formats, plain_run, tmp_path, name):
    trained(tmp_path / "run", *formats[name], steps=2)
    for file in ("data/train/source.values", "data/train/target.values", "tokenizer/tokenizer.json"):
        assert (tmp_path / "run" / file).read_bytes() == (plain_run / file).read_bytes()
    ends = [run / "checkpoints" / "step-00000002" for run in (plain_run, tmp_path / "run")]
    assert first_difference(*ends) is None


def test_dropped_pairs_are_counted(corpus, tmp_path):
    lines = [(corpus / f"train.{side}").read_text().splitlines()[:100] for side in ("en", "de")]
    lines[0][3], lines[1][4], lines[0][6] = "", "   ", "the " * 50
    for side, chosen in zip(("en", "de"), lines):
        (tmp_path / f"t.{side}").write_text("\n".join(chosen))  # the last line has no end
    files = ["--source", tmp_path / "t.en", "--target", tmp_path / "t.de"]
    result = trained(tmp_path / "run", *files, "--set", "data.longest=40", steps=1)
    assert "95 training pairs, 2 validation pairs" in result.err
    assert "dropped: 1 pairs with a side over 40 tokens (data.longest), 2 with an empty side" in result.err


def test_a_tokenizer_can_be_brought_along(files, plain_run, tmp_path):
    trained(tmp_path / "run", *files, "--tokenizer", plain_run / "model" / "tokenizer.json", steps=1)
    first, second = ((run / "tokenizer" / "tokenizer.json").read_bytes() for run in (plain_run, tmp_path / "run"))
    assert first == second


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


# Recipes


def test_the_recipe_shown_is_toml_and_reproduces_itself(files, tmp_path):
    flags = [
        "--preset",
        "transformer_base",
        *files,
        "--set",
        "model.layers=4",
        "train.steps=7",
        "train.learning_rate=0.5",
    ]
    shown = called("train", "translate", *flags, "--show-recipe", "--out", tmp_path / "never")
    assert shown.code == 0
    table = tomllib.loads(shown.out)
    assert (table["model"]["layers"], table["model"]["width"], table["data"]["vocabulary"]) == (4, 512, 37_000)
    assert (table["train"]["steps"], table["train"]["learning_rate"]) == (7, 0.5)
    assert "# d_model: the size of every vector between blocks." in shown.out
    (tmp_path / "mine.toml").write_text(shown.out, encoding="utf-8")
    again = called("train", "translate", "--recipe", tmp_path / "mine.toml", "--show-recipe")
    assert again.out == shown.out
    changed = called(
        "train", "translate", "--recipe", tmp_path / "mine.toml", "--set", "train.steps=8", "--show-recipe"
    )
    assert changed.out == shown.out.replace("steps = 7", "steps = 8")
    assert not (tmp_path / "never").exists()
    unset = called(
        "train", "translate", "--recipe", tmp_path / "mine.toml", "--set", "train.learning_rate=unset", "--show-recipe"
    )
    assert "learning_rate" not in tomllib.loads(unset.out)["train"]


def test_without_anything_the_recipe_is_the_samples():
    table = tomllib.loads(called("train", "translate", "--show-recipe").out)
    assert table["data"]["source"] == []
    assert table["model"]["width"] < 512


def test_a_recipe_may_name_its_preset_and_a_flag_wins(tmp_path):
    (tmp_path / "mine.toml").write_text('preset = "transformer_base"\n[train]\nsteps = 5\n')
    for flags, width in (([], 512), (["--preset", "transformer_big"], 1024)):
        shown = called("train", "translate", "--recipe", tmp_path / "mine.toml", *flags, "--show-recipe")
        table = tomllib.loads(shown.out)
        assert (table["model"]["width"], table["train"]["steps"]) == (width, 5)


def test_a_recipe_trains_as_the_flags_did(plain_run, tmp_path):
    result = called("train", "translate", "--recipe", plain_run / "recipe.toml", "--out", tmp_path / "run")
    assert result.code == 0
    ends = [run / "checkpoints" / "step-00000002" for run in (plain_run, tmp_path / "run")]
    assert first_difference(*ends) is None
    assert (tmp_path / "run" / "recipe.toml").read_text() == (plain_run / "recipe.toml").read_text()


# Translating


def test_translate_is_a_filter(run):
    lines = ["the cat sees a dog", "", "old red bird", "the young house likes a tree", "a dog"]
    text = "\ufeff" + "\n".join(lines).replace(
        "bird\n", "bird\r\n"
    )  # one line as Windows ends it, and the last without an end
    found = typed("translate", run, stdin=text.encode())
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


def test_letters_beyond_ascii_go_in_and_come_out(run):
    found = called("translate", run, "--beam", 1, stdin="the dog\na bird\nżółć 🦜\n".encode())
    assert found.code == 0
    assert found.out.split("\n")[0] == "die Hündin"
    assert found.out.split("\n")[1] == "eine Möwe"
    assert found.out.count("\n") == 3


def test_nothing_in_is_nothing_out(run):
    assert called("translate", run, stdin=b"").out == ""
    assert called("translate", run, stdin=b"\n \n").out == "\n\n"


def test_candidates_come_with_number_and_score(run):
    found = called("translate", run, "--nbest", 3, stdin=b"the cat\n\nold tree\n")
    rows = [line.split("\t") for line in found.out.splitlines()]
    assert [int(row[0]) for row in rows] == [1, 1, 1, 2, 3, 3, 3]
    scores = [float(row[1]) for row in rows if row[0] == "1"]
    assert scores == sorted(scores, reverse=True)
    assert rows[0][2] == called("translate", run, stdin=b"the cat\n").out.strip()
    assert len({row[2] for row in rows if row[0] == "1"}) == 3
    assert called("translate", run, "--nbest", 6, stdin=b"the cat\n").out.count("\n") == 6  # more than the beam


def test_input_that_is_not_utf8_is_named_by_its_line(run):
    found = called("translate", run, stdin=b"the cat\nfine\nna\xefve\n")
    assert found.code == 2
    assert found.err.startswith("manyheads: standard input, line 3: not valid UTF-8")
    assert found.err.count("\n") == 1


def test_a_reader_that_leaves_is_no_error(run):
    found = subprocess.run(
        f"yes 'the cat' | head -n 3000 | {' '.join(command('translate', run, '--beam', 1))} | head -n 1",
        shell=True, capture_output=True, env=environment(), timeout=120, check=False,
    )  # fmt: skip
    assert found.stdout.decode() == "die Katze\n"
    assert found.stderr.decode() == ""


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


def test_selfcheck_says_ok_nine_times(run):
    found = called("selfcheck", run, "--sentences", 8)
    assert found.code == 0
    lines = found.out.splitlines()
    assert len(lines) == 9
    assert all(line.startswith("ok ") for line in lines)
    for claim in ("cache", "padded", "alone", "reference"):
        assert claim in found.out


def test_selfcheck_finds_a_model_that_leaks(run, monkeypatch):
    from manyheads.models.transformer import Transformer

    encode = Transformer.encode
    monkeypatch.setattr(Transformer, "encode", lambda self, source: (encode(self, source)[0], None))  # padding is seen
    found = called("selfcheck", run, "--sentences", 6)
    assert found.code == 1
    assert "FAIL  logits of a padded source = unpadded" in found.out
    assert "ok    logits through the cache" in found.out


# Stopping and going on


def test_an_existing_run_is_refused_without_being_told(plain_run, formats, tmp_path):
    before = {path: path.read_bytes() for path in plain_run.rglob("*") if path.is_file()}
    found = called("train", "translate", *formats["parallel"], "--out", plain_run)
    assert found.code == 2
    assert "exists; go on with --resume, start anew with --overwrite" in found.err
    assert called("train", "translate", "--out", plain_run, "--resume", "--overwrite").code == 2
    assert called("train", "translate", "--out", plain_run, "--resume", "--preset", "transformer_base").code == 2
    frozen = called("train", "translate", "--out", plain_run, "--resume", "--set", "model.layers=2")
    assert (frozen.code, "model of a run cannot change" in frozen.err) == (2, True)
    called("train", "translate", "--out", plain_run, "--resume", "--set", "train.steps=9", "--show-recipe")
    assert {path: path.read_bytes() for path in plain_run.rglob("*") if path.is_file()} == before


def test_a_run_is_made_longer_or_made_anew(formats, tmp_path):
    run = tmp_path / "run"
    trained(run, *formats["parallel"], steps=2)
    longer = called("train", "translate", "--out", run, "--resume", "--set", "train.steps=4")
    assert longer.code == 0
    assert "going on from step 2" in longer.err
    assert checkpoints(run) == ["step-00000004"]
    assert tomllib.loads((run / "recipe.toml").read_text())["train"]["steps"] == 4
    (tmp_path / "bad.tsv").write_text("one\ttwo\nthree\n")
    spoilt = called("train", "translate", "--out", run, "--overwrite", "--pairs", tmp_path / "bad.tsv")
    assert (spoilt.code, "bad.tsv" in spoilt.err) == (2, True)
    assert checkpoints(run) == ["step-00000004"]  # the old run is only given up for one that can start
    trained(run, *formats["parallel"], "--overwrite", steps=1)
    assert checkpoints(run) == ["step-00000001"]
    assert not run.with_name("run.previous").exists()


def started(run: Path, *arguments) -> subprocess.Popen:
    return subprocess.Popen(
        command("train", "translate", "--out", run, *arguments), stderr=subprocess.PIPE, env=environment()
    )


def steps_done(run: Path) -> int:
    try:
        return json.loads((run / "metrics.jsonl").read_text().splitlines()[-1])["step"]
    except (OSError, IndexError, ValueError):
        return 0


def stopped(process: subprocess.Popen, run: Path, number: int, step: int) -> tuple[int, str]:
    """Sends a signal once the step is done."""
    while process.poll() is None and steps_done(run) < step:
        time.sleep(0.005)
    assert process.poll() is None, "it was done before it could be stopped"
    process.send_signal(number)
    _, errors = process.communicate(timeout=60)
    return process.returncode, errors.decode()


LONG = [*SMALL, "train.steps=200", "train.log_every=1", "train.checkpoint_every=60", "model.dropout=0.1"]


@pytest.fixture(scope="module")
def whole(files, tmp_path_factory) -> Path:
    """The run that nobody disturbed."""
    run = tmp_path_factory.mktemp("whole") / "run"
    assert called("train", "translate", "--out", run, *files, "--set", *LONG).code == 0
    return run


def test_a_run_stopped_by_every_signal_ends_as_the_undisturbed_one(files, whole, tmp_path):
    run = tmp_path / "run"
    code, errors = stopped(started(run, *files, "--set", *LONG), run, signal.SIGTERM, 20)
    assert code == 143
    last = errors.strip().splitlines()[-1]
    assert last.startswith("manyheads: stopped after step ")
    assert last.endswith(f"go on with: manyheads train translate --out {run} --resume")
    assert "Traceback" not in errors
    assert len(checkpoints(run)) == 1

    code, errors = stopped(started(run, "--resume"), run, signal.SIGINT, 70)
    assert code == 130
    assert "Traceback" not in errors
    step = steps_done(run)
    assert checkpoints(run)[-1] == f"step-{step:08d}"

    code, _ = stopped(started(run, "--resume"), run, signal.SIGKILL, random.randint(step + 1, step + 40))
    assert code == -signal.SIGKILL

    assert called("train", "translate", "--out", run, "--resume").code == 0
    assert checkpoints(run)[-1] == checkpoints(whole)[-1] == "step-00000200"
    assert first_difference(*(each / "checkpoints" / "step-00000200" for each in (run, whole))) is None
    assert (run / "model" / "model.safetensors").read_bytes() == (whole / "model" / "model.safetensors").read_bytes()


@pytest.mark.slow
def test_a_run_killed_again_and_again_ends_as_the_undisturbed_one(files, whole, tmp_path):
    run = tmp_path / "run"
    process = started(run, *files, "--set", *LONG)
    for _ in range(8):
        time.sleep(random.uniform(1.0, 3.5))  # anywhere: in the data, in a step, in a checkpoint
        if process.poll() is not None:
            break
        process.kill()
        process.communicate()
        process = started(run, "--resume") if (run / "recipe.toml").exists() else started(run, *files, "--set", *LONG)
    process.communicate(timeout=120)
    assert first_difference(*(each / "checkpoints" / "step-00000200" for each in (run, whole))) is None


def test_prove_resume_proves_it(plain_run):
    found = called("prove-resume", plain_run, "--steps", 6, "--seed", 1)
    assert (found.code, found.out) == (
        0,
        "no tensor differs: the killed and resumed run is the uninterrupted one, bit for bit\n",
    )
    assert "killed with SIGKILL once it has done step 2" in found.err


@pytest.mark.slow
def test_prove_resume_watches_a_talkative_run_without_holding_it_up(plain_run):
    found = called("prove-resume", plain_run / "recipe.toml", "--steps", 1500, "--seed", 3)
    assert found.code == 0


def test_prove_resume_names_what_differs(monkeypatch, plain_run):
    monkeypatch.setattr(
        "manyheads.tasks.proofs.resume.prove", lambda *_, **__: "encoder.norm.weight in model.safetensors"
    )
    found = called("prove-resume", plain_run)
    assert (found.code, found.out) == (
        1,
        "the resumed run differs, first in: encoder.norm.weight in model.safetensors\n",
    )


# What a person gets wrong


def broken(folder: Path) -> dict[str, tuple[list, str]]:
    """Training commands that cannot be, and what they must say."""

    def written(name, content):
        (folder / name).write_bytes(content)
        return folder / name

    good = ["--source", written("g.en", b"a b\n" * 60), "--target", written("g.de", b"c d\n" * 60)]
    pairs = b"a\tb\n" * 60
    return {
        "mismatch": (
            ["--source", written("m.en", b"a b\n" * 59), "--target", good[3]],
            r"m\.en has 59 lines but .*g\.de has 60: line 60",
        ),
        "not utf-8": (
            ["--source", written("u.en", b"a b\n" * 40 + b"\xff\n" + b"a b\n" * 19), *good[2:]],
            r"u\.en, line 41",
        ),
        "tsv": (["--pairs", written("b.tsv", pairs + b"no tab\n")], r"b\.tsv, line 61: 1 columns"),
        "jsonl": (
            ["--pairs", written("b.jsonl", b'{"source": "a", "target": "b"}\n' * 60 + b"{\n")],
            r"b\.jsonl, line 61",
        ),
        "no field": (["--pairs", written("c.jsonl", b'{"source": "a"}\n')], r"c\.jsonl, line 1: no field 'target'"),
        "gz": (["--pairs", written("b.tsv.gz", gzip.compress(pairs)[:-9])], r"b\.tsv\.gz cannot be read"),
        "bad validation": ([*good, "--valid-pairs", written("v.tsv", b"a\tb\nx\n")], r"v\.tsv, line 2"),
        "missing": (["--source", folder / "no.en", *good[2:]], r"no\.en is not there"),
        "one side": (good[:2], r"1 files in data\.source, 0 in data\.target"),
        "empty": (["--pairs", written("e.tsv", b"")], "no validation pairs"),
        "few": (["--pairs", written("few.tsv", b"a\tb\n" * 30)], "no validation pairs: give them with --valid-source"),
        "preset": ([*good, "--preset", "transformer_huge"], "no preset transformer_huge; there are transformer_tiny"),
        "field": ([*good, "--set", "model.leyers=3"], r"model\.leyers is not a field of the recipe; model has: "),
        "type": ([*good, "--set", "model.layers=three"], r"model\.layers is 'three'; it must be of type int"),
        "heads": (
            [*good, "--set", "model.heads=7"],
            "width 256 does not split over 7 heads; the nearest that does is 252",
        ),
        "activation": ([*good, "--set", "model.activation=tanhh"], "no activation is called 'tanhh'"),
        "positions": ([*good, "--set", "model.positions.kind=rotari"], "no positions are called 'rotari'"),
        "shared heads": ([*good, "--set", "model.key_value_heads=3"], "4 heads do not share 3 keys"),
        "learned": (
            [*good, "--set", "model.positions.kind=learned", "model.positions.length=40"],
            r"pairs of 256 tokens in, but model\.positions\.length ends at 40",
        ),
        "seed": ([*good, "--set", "train.seed=-1"], r"train\.seed is -1; it must be at least 0"),
        "device": ([*good, "--set", "train.device=gpu"], "'gpu' is not a device"),
        "vocabulary": ([*good, "--set", "data.vocabulary=20"], "a vocabulary of 20 tokens cannot hold"),
        "assignment": ([*good, "--set", "model.layers"], "'model.layers' is not an assignment"),
        "recipe": (["--recipe", folder / "no.toml"], r"no\.toml cannot be read"),
        "toml": (["--recipe", written("b.toml", b"a = = 3")], r"b\.toml is not TOML"),
        "section": (["--recipe", written("s.toml", b"data = 3")], "data is a section"),
        "tokenizer": ([*good, "--tokenizer", folder / "no.json"], r"no\.json is not there"),
        "nothing to resume": (["--resume"], "holds no run to go on with"),
    }


CASES = [
    *("mismatch", "not utf-8", "tsv", "jsonl", "no field", "gz", "bad validation", "missing", "one side", "empty"),
    *("few", "preset", "field", "type", "heads", "activation", "positions", "shared heads", "device", "vocabulary"),
    *("assignment", "recipe", "toml", "section", "tokenizer", "nothing to resume", "learned", "seed"),
]


@pytest.mark.parametrize("case", CASES)
def test_what_cannot_be_trained_is_one_sentence_and_leaves_nothing_behind(tmp_path, case):
    cases = broken(tmp_path)
    assert sorted(cases) == sorted(CASES)
    arguments, sentence = cases[case]
    found = called("train", "translate", "--out", tmp_path / "run", *arguments)
    assert found.code == 2
    assert found.out == ""
    assert len(found.err.splitlines()) == 1, found.err
    assert found.err.startswith("manyheads: ")
    assert re.search(sentence, found.err), found.err
    assert not (tmp_path / "run").exists()


def test_a_run_that_could_not_start_is_not_deleted_by_overwrite(plain_run, tmp_path):
    before = sorted(plain_run.rglob("*"))
    for arguments in (["--set", "model.activation=tanhh"], ["--source", "no.en", "--target", "no.de"]):
        found = called("train", "translate", "--out", plain_run, "--overwrite", *arguments)
        assert found.code == 2
        assert sorted(plain_run.rglob("*")) == before


def test_errors_in_a_process_of_its_own_are_a_sentence_too(tmp_path):
    found = typed("train", "translate", "--source", "no.en", "--target", "no.de", cwd=tmp_path)
    assert found.code == 2
    assert found.err == "manyheads: no.en is not there; check the path\n"
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(CheckpointError):  # all of it for those who ask
        called("translate", tmp_path / "nowhere", "--debug")


def test_models_that_are_not_there_or_damaged_are_a_sentence(run, tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "started").mkdir()
    (tmp_path / "started" / "recipe.toml").touch()
    for name in ("cut", "odd", "list"):
        (tmp_path / name).mkdir()
        for file in (run / "model").iterdir():
            (tmp_path / name / file.name).write_bytes(file.read_bytes())
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
    }.items():
        for arguments in (["translate"], ["selfcheck"], ["evaluate", "--pairs", tmp_path / "t.tsv"]):
            (tmp_path / "t.tsv").write_text("a\tb\n")
            found = called(arguments[0], tmp_path / name, *arguments[1:], stdin=b"a\n")
            assert (found.code, found.out) == (2, "")
            assert sentence in found.err
            assert found.err.count("\n") == 1


def test_other_wrong_words_are_a_sentence(run, corpus):
    for arguments, sentence in (
        (["evaluate", run], "nothing to score a translator on: give --source and --target, or --pairs"),
        (["evaluate", run, "--source", corpus / "valid.en", "--target", corpus / "train.de"], "25 lines"),
        (["translate", run, "--beam", 0], "the beam must be at least 1"),
        (["prove-resume", run / "nowhere.toml"], "does not exist; give a recipe in TOML or a run directory"),
        (["prove-resume", run, "--steps", 1], "use at least 3"),
        (["translate", run, "--alpha", "nan"], "the length penalty alpha is nan; it must be at least 0"),
        (["translate", run, "--device", "mps"], "'mps' is not a device; use auto, cpu or cuda"),
        (["selfcheck", run, "--sentences", "0"], "both must be at least 1"),
        (["translate", run, "--beam", "many"], "many"),
        (["trnslate", run], "trnslate"),
        (["translate", run, "--bean", "4"], "--bean"),
        (["train", "translate", "--preset"], "--preset"),
    ):
        found = called(*arguments, stdin=b"a\n")
        assert found.code == 2, arguments
        assert sentence in found.err
        assert "Traceback" not in found.err


def test_version_and_help():
    import manyheads

    assert called("--version").out == f"manyheads {manyheads.__version__}\n"
    for arguments in (["--help"], ["train", "--help"], ["train", "translate", "-h"]):
        found = called(*arguments)
        assert found.code == 0
        assert "Usage" in found.out
