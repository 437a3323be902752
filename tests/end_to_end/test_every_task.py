"""What every task owes a person who trains it, stated once over all of them."""

import json
import random
import re
import shlex
import shutil
import signal
import subprocess
import time
import tomllib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from helpers import unsealed
from PIL import Image

from manyheads.core.checksums import read_checksums
from manyheads.core.errors import ConfigError
from manyheads.data.images import ImageProcessor
from manyheads.data.ragged import Store
from manyheads.interop.directory import load_as_saved, load_model, save_model
from manyheads.interop.families import FAMILIES
from manyheads.models.vit import ViT, ViTConfig
from manyheads.tasks.task import TASKS, recipe_of

from .conftest import (
    Result,
    called,
    checkpoints,
    files_in,
    newest_difference,
    recorded,
    refused,
    saved_bert,
    saved_gpt,
    started,
    tables,
    taught,
    typed,
)

LINES = [
    f"the {noun} is {word}."
    for noun in ("film", "story", "actor", "scene", "song", "house", "river", "boat")
    for word in ("warm", "dull", "bright", "cold", "old", "young", "red", "blue")
]
TRAIN = [
    *("train.device=cpu", "train.steps=7", "train.learning_rate=0.01", "train.warmup=5", "train.schedule=constant"),
    *("train.checkpoint_every=3", "train.valid_every=100", "train.log_every=1", "model.dropout=0.2"),
]
SIZES = ["model.width=16", "model.heads=2", "model.layers=1"]
VOCABULARY = "data.vocabulary=300"
OF_EVERY_MODEL = {"config.json", "model.safetensors", "README.md", "manyheads.sha256"}
OF_A_TOKENIZER = {"tokenizer.json", "tokenizer_config.json"}
SENTENCE_TRANSFORMERS = {
    *("modules.json", "1_Pooling", "2_Normalize", "sentence_bert_config.json", "config_sentence_transformers.json")
}
NO_TENSOR_DIFFERS = "no tensor differs: the killed and resumed run is the uninterrupted one, bit for bit\n"


@dataclass(frozen=True)
class Trial:
    """A task, the flag for its files, what is set that it is small, and a command that uses its model."""

    task: str
    file: tuple[str, str]
    settings: tuple[str, ...]
    use: tuple[str, ...]
    presets: tuple[str, ...] = ("bert_base",)
    model_type: str = "bert"
    claims: int = 5
    more_files: frozenset[str] = frozenset()
    has_tokenizer: bool = True
    has_sample: bool = False
    """Whether it learns from a sample where no files are given."""
    pre_trained: str = "encoder"
    other_wiring: tuple[str, ...] = ("positions.kind=rotary", "heads=3", "key_width=6", "value_width=5")
    """Sizes of a model whose type is our own; none where all of them are of a published type."""

    @property
    def fine_tunes(self) -> bool:
        """Whether it can begin with a pre-trained model."""
        return "fine_tune" in recipe_of(self.task).__dataclass_fields__

    @property
    def sizes(self) -> list[str]:
        """What an untrained model is made so small by."""
        return [*SIZES, *([VOCABULARY] if self.has_tokenizer else []), *(["model.patch_size=8"] if self.sees else [])]

    @property
    def sees(self) -> bool:
        """Whether its models read pictures."""
        return "preprocessor_config.json" in self.more_files


PICTURE = "{folder}/pictures/dark/1.png"
GENERATES = {"more_files": frozenset({"generation_config.json"}), "has_sample": True}
SEES = {"more_files": frozenset({"preprocessor_config.json"}), "has_sample": True}
WRITES = {"presets": ("captioner_base",), "claims": 9}
TRIALS = [
    Trial("translate", ("--pairs", "pairs.tsv"), ("model.inner=20", "data.batch_tokens=300"), ("translate", "{run}"),
          ("transformer_base",), "marian", 9, **GENERATES),
    Trial("language", ("--text", "text.txt"), ("model.context=32", "data.rows=8"),
          ("generate", "{run}", "--tokens", "3"), ("gpt2_small", "llama_tiny", "transformer_decoder"), "gpt2", 10,
          **GENERATES),
    Trial("masked", ("--text", "text.txt"), ("model.context=32", "data.rows=8"), ("fill", "{run}", "a [MASK] boat"),
          has_sample=True),
    Trial("classify", ("--train", "labels.tsv"), ("data.examples=8",), ("classify", "{run}")),
    Trial("tag", ("--train", "words.conll"), ("data.examples=8",), ("tag", "{run}")),
    Trial("parse", ("--trees", "trees.mrg"), ("data.examples=8",), ("parse", "{run}"), has_sample=True),
    Trial("brackets", ("--trees", "trees.mrg"), ("model.inner=20", "data.batch_tokens=300"), ("parse", "{run}"),
          ("transformer_base",), "marian", 9, **GENERATES),
    Trial("similarity", ("--pairs", "pairs.tsv"), ("data.examples=16",), ("similar", "{run}", "--to", "a red boat"),
          more_files=frozenset(SENTENCE_TRANSFORMERS)),
    Trial("answer", ("--data", "questions.json"), ("data.examples=8",), ("answer", "{run}", "What is old?")),
    Trial("images", ("--data", "pictures"), ("data.examples=8",), ("classify-image", "{run}", PICTURE), ("vit_b16",),
          "vit", 3, has_tokenizer=False, pre_trained="vit", other_wiring=("positions.kind=sinusoidal",), **SEES),
    Trial("caption", ("--pairs", "captions.tsv"), ("data.examples=8",), ("caption", "{run}", PICTURE),
          model_type="vision-encoder-decoder", other_wiring=(),
          **{**SEES, **WRITES, "more_files": SEES["more_files"] | GENERATES["more_files"]}),
    Trial("ask", ("--data", "asked.tsv"), ("data.examples=8",), ("ask", "{run}", PICTURE, "What is bright?"),
          model_type="manyheads-vision-encoder-decoder", other_wiring=("activation=relu",), **SEES, **WRITES),
]  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A small file for each task, encoders to begin with, and recipes that are none."""
    made = tmp_path_factory.mktemp("files")
    pictures = drawn(made / "pictures")
    questions = []
    for number, line in enumerate(LINES):
        noun, word = line.removesuffix(".").split()[1::2]
        answer = {"text": noun, "answer_start": line.index(noun)}
        asked = {"id": str(number), "question": f"What is {word}?", "answers": [answer]}
        questions.append({"context": line, "qas": [asked]})
    blocks = ["\n".join(f"{word}\t{'B-thing' if place == 1 else 'O'}" for place, word in enumerate(line.split()))
              for line in LINES]  # fmt: skip
    for name, content in {
        "pairs.tsv": "".join(f"{line}\t{line.upper()}\n" for line in LINES),
        "text.txt": " ".join(LINES),
        "labels.tsv": "".join(f"{line}\t{'odd' if place % 2 else 'even'}\n" for place, line in enumerate(LINES)),
        "words.conll": "\n\n".join(blocks) + "\n",
        "trees.mrg": "".join(parsed(line) for line in LINES),
        "questions.json": json.dumps({"data": [{"title": "t", "paragraphs": questions}]}),
        "captions.tsv": "".join(f"{path}\ta {path.parts[1]} picture\n" for path in pictures),
        "asked.tsv": "".join(f"{path}\tWhat is it?\t{path.parts[1]}\n" for path in pictures),
        "bad.toml": "a = = 3",
        "section.toml": "data = 3",
    }.items():
        (made / name).write_text(content, encoding="utf-8")
    saved_bert(made / "encoder", LINES, context=32)
    saved_gpt(made / "gpt", LINES)
    torch.manual_seed(3)
    vit = ViT(ViTConfig(image_size=16, patch_size=8, width=24, layers=1, heads=2))
    save_model(made / "vit", vit, ImageProcessor.of(16, 3), "")
    return made


def parsed(line: str) -> str:
    """A tree of `the film is warm.`"""
    the, noun, verb, word = line.removesuffix(".").split()
    return f"( (S (NP-SBJ (DT {the}) (NN {noun})) (VP (VBZ {verb}) (ADJP-PRD (JJ {word}))) (. .)) )\n"


def drawn(folder: Path) -> list[Path]:
    """Noisy pictures, bright ones and dark ones, as their folder's own folder names them."""
    source, found = np.random.default_rng(5), []
    for number in range(24):
        name, least = (("bright", 140), ("dark", 10))[number % 2]
        (folder / name).mkdir(parents=True, exist_ok=True)
        pixels = source.integers(least, least + 100, (16, 16, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / name / f"{number}.png")
        found.append(Path(folder.name, name, f"{number}.png"))
    return found


@pytest.fixture(scope="module", params=TRIALS, ids=[each.task for each in TRIALS])
def trial(request) -> Trial:
    return request.param


def only(*tasks: str):
    return pytest.mark.parametrize("trial", [each for each in TRIALS if each.task in tasks], ids=tasks, indirect=True)


def with_any(field: str):
    """The tasks that have any of what the field says."""
    return only(*(each.task for each in TRIALS if getattr(each, field)))


def data_of(trial: Trial, folder: Path) -> list:
    return [trial.file[0], folder / trial.file[1]]


def use(trial: Trial, model: Path, folder: Path) -> list[str]:
    """The command that uses a model."""
    return [each.format(run=model, folder=folder) for each in trial.use]


def small(trial: Trial, out: Path, *flags, settings=()) -> Result:
    """A tiny run, by flags for its files and what else is asked for."""
    sizes = [] if "--model" in flags else trial.sizes
    return taught(trial.task, out, *flags, settings=[*sizes, *TRAIN, *trial.settings, *settings])


@pytest.fixture(scope="module")
def run(trial, folder, tmp_path_factory) -> Path:
    """A run that nobody disturbed, and that no test may change."""
    out = tmp_path_factory.mktemp(trial.task) / "run"
    small(trial, out, *data_of(trial, folder))
    return out


def test_every_task_is_tried():
    # Word vectors have neither layers nor presets: test_vectors.py asks the same of them.
    assert [each.task for each in TRIALS] == [task for task in TASKS if task != "vectors"]


def test_a_run_directory_holds_all_that_a_run_is(trial, run):
    names = {
        "recipe.toml",
        "metrics.jsonl",
        "tensorboard",
        "checkpoints",
        "model",
        "tokenizer",
        "data",
        "manyheads.sha256",
    }
    assert {path.name for path in run.iterdir()} == names
    files = OF_EVERY_MODEL | (OF_A_TOKENIZER if trial.has_tokenizer else set()) | trial.more_files
    assert {path.name for path in (run / "model").iterdir()} == files
    assert json.loads((run / "model" / "config.json").read_text())["model_type"] == trial.model_type
    assert checkpoints(run) == ["step-00000003", "step-00000006", "step-00000007"]
    card = (run / "model" / "README.md").read_text()
    assert ("vocabulary = 300" in card) == trial.has_tokenizer
    assert f'task = "{trial.task}"' in card
    assert trial.task != "translate" or "63 sentence pairs" in card  # one is held out
    assert [line["step"] for line in recorded(run, "train")] == [1, 2, 3, 4, 5, 6, 7]


def test_a_model_is_used_from_its_run_and_alone_and_in_a_process_of_its_own(trial, run, folder):
    stdin = "".join(f"{line}\n" for line in LINES[:2]).encode() if "fill" not in trial.use else b""
    whole = called(*use(trial, run, folder), stdin=stdin)
    assert (whole.code, whole.err) == (0, "")
    assert whole.out
    assert called(*use(trial, run / "model", folder), stdin=stdin) == whole
    assert typed(*use(trial, run, folder), stdin=stdin) == whole


def test_a_model_of_another_kind_is_refused_by_what_it_is(trial, folder):
    name, said = ("gpt", "a language model (gpt2)") if trial.task == "similarity" else ("encoder", "an encoder (bert)")
    sentence = refused(*use(trial, folder / name, folder), stdin=b"a text\n")
    assert f"holds {said}; " in sentence
    assert sentence.endswith(" is asked for here")


def test_selfcheck_says_ok_and_nothing_else(trial, run):
    found = called("selfcheck", run, "--sentences", 6)
    assert (found.code, found.err) == (0, "")
    assert [line[:3] for line in found.out.splitlines()] == ["ok "] * trial.claims, found.out


@with_any("other_wiring")
def test_other_positions_and_heads_of_any_width_are_trained_saved_and_used(trial, folder, tmp_path):
    settings = [f"model.{each}" for each in trial.other_wiring]
    small(trial, tmp_path / "run", *data_of(trial, folder), settings=[*settings, "train.steps=2"])
    table = json.loads((tmp_path / "run" / "model" / "config.json").read_text())
    assert table["model_type"].startswith("manyheads-")
    found = called(*use(trial, tmp_path / "run", folder), stdin=b"the film is old.\n")
    assert (found.code, found.err) == (0, "")
    assert found.out
    claims = called("selfcheck", tmp_path / "run", "--sentences", 6)
    assert [line[:3] for line in claims.out.splitlines()] == ["ok "] * trial.claims, claims.out


# Recipes


def test_the_recipe_shown_is_toml_and_reproduces_itself(trial, folder, tmp_path):
    settings = ["model.layers=3", "train.steps=7", "train.learning_rate=0.5"]
    for preset in (None, *trial.presets):
        flags = [*data_of(trial, folder), *(["--preset", preset] if preset else [])]
        shown = called("train", trial.task, *flags, "--show-recipe", "--out", tmp_path / "never", "--set", *settings)
        assert shown.code == 0, shown.err
        table = tomllib.loads(shown.out)
        assert (table["task"], table["model"]["layers"]) == (trial.task, 3)
        assert (table["train"]["steps"], table["train"]["learning_rate"]) == (7, 0.5)
        if (trial.task, preset) == ("translate", "transformer_base"):
            assert (table["model"]["width"], table["data"]["vocabulary"]) == (512, 37_000)
        assert "# What is trained." in shown.out
        (tmp_path / "mine.toml").write_text(shown.out, encoding="utf-8")
        again = ["train", trial.task, "--recipe", tmp_path / "mine.toml", "--show-recipe"]
        assert called(*again).out == shown.out
        assert called(*again, "--set", "train.steps=8").out == shown.out.replace("steps = 7", "steps = 8")
        unset = called(*again, "--set", "train.learning_rate=unset")
        assert "learning_rate" not in tomllib.loads(unset.out)["train"]
    assert not (tmp_path / "never").exists()


def test_a_recipe_may_name_its_preset_and_a_flag_wins(trial, folder, tmp_path):
    (tmp_path / "mine.toml").write_text(f'preset = "{trial.presets[0]}"\n[train]\nsteps = 5\n')
    tiny = trial.presets[0].replace("base", "tiny").replace("small", "tiny").replace("vit_b", "vit_ti")
    widths = []
    for flags in ([], ["--preset", tiny]):
        mine = ["--recipe", tmp_path / "mine.toml", *data_of(trial, folder), *flags]
        table = tomllib.loads(called("train", trial.task, *mine, "--show-recipe").out)
        assert table["train"]["steps"] == 5
        widths.append(table["model"]["width"])
    assert widths[0] > widths[1]


def test_a_recipe_trains_as_the_flags_did(trial, run, tmp_path):
    taught(trial.task, tmp_path / "again", "--recipe", run / "recipe.toml")
    assert newest_difference(run, tmp_path / "again") is None
    assert (tmp_path / "again" / "recipe.toml").read_text() == (run / "recipe.toml").read_text()


def test_a_recipe_of_another_task_is_refused_by_its_task(trial, folder, tmp_path):
    other = TRIALS[TRIALS.index(trial) - 1]
    shown = called("train", other.task, *data_of(other, folder), "--show-recipe").out
    for content in (shown, f'task = "{other.task}"\n'):
        (tmp_path / "other.toml").write_text(content, encoding="utf-8")
        sentence = refused("train", trial.task, "--recipe", tmp_path / "other.toml", "--out", tmp_path / "new")
        said = f"this recipe trains {other.task}, not {trial.task}: manyheads train {other.task} …"
        assert said in sentence
        assert not (tmp_path / "new").exists()


@only("translate", "language", "masked")
def test_a_tokenizer_can_be_brought_along_as_a_file_a_folder_or_a_model(trial, run, folder, tmp_path):
    for name in ("tokenizer/tokenizer.json", "tokenizer", "model"):
        out = tmp_path / name.replace("/", "-")
        small(trial, out, *data_of(trial, folder), "--tokenizer", run / name, settings=["train.steps=1"])
        mine, theirs = ((each / "tokenizer" / "tokenizer.json").read_bytes() for each in (out, run))
        assert mine == theirs
        assert tomllib.loads((out / "recipe.toml").read_text())["data"]["tokenizer"] == str(run / name)
    damaged = shutil.copytree(run / "model", tmp_path / "damaged") / "tokenizer.json"
    damaged.write_bytes(damaged.read_bytes().replace(b"  ", b"   ", 1))
    said = {folder / "no.json": "is not there", **dict.fromkeys((damaged, damaged.parent), "is not what it was when")}
    for file, sentence in said.items():
        asked = ["train", trial.task, *data_of(trial, folder), "--tokenizer", file, "--out", tmp_path / "new"]
        assert sentence in refused(*asked)
        assert not (tmp_path / "new").exists()


@only("translate", "language", "masked")
def test_without_any_files_there_is_a_sample(trial, tmp_path, monkeypatch):
    from manyheads.data import sample

    few = {"train": 200, "valid": 24, "test": 8}
    part = {name: pairs[: few[name]] for name, pairs in sample.sample_corpus().items()}
    monkeypatch.setattr(sample, "sample_corpus", lambda: part)
    result = small(trial, tmp_path / "run", settings=["train.steps=1", "data.vocabulary=400"])
    assert ("200 training pairs" if trial.task == "translate" else "in 25 documents") in result.err  # eight lines each
    data = tomllib.loads((tmp_path / "run" / "recipe.toml").read_text())["data"]
    assert data[trial.file[0].removeprefix("--")] == []
    _, tokenizer = load_model(tmp_path / "run")
    store, name = Store.open(tmp_path / "run" / "data" / "train"), "source" if trial.task == "translate" else "ids"
    first = store[name][:60] if trial.task == "language" else store[name][0]
    assert tokenizer.decode([first.tolist()])[0].lower().startswith(part["train"][0].source.lower())
    assert data.get("next_sentence", False) is False  # those of the sample follow one another by chance


# Stopping and going on


def test_an_existing_run_is_refused_and_left_as_it_is_whatever_is_asked(trial, run, folder):
    before = files_in(run)
    train = ["train", trial.task, "--out", run]
    assert "exists; go on with --resume, start anew with --overwrite" in refused(*train, *data_of(trial, folder))
    refused(*train, "--resume", "--overwrite")
    for flags in (["--preset", trial.presets[0]], data_of(trial, folder), ["--recipe", run / "recipe.toml"]):
        assert "a run goes on with its own recipe" in refused(*train, "--resume", *flags)
    data = "vocabulary=301" if trial.has_tokenizer else "size=24"
    for section, change in {"model": "layers=2", "data": data, "fine_tune": "epochs=9"}.items():
        if section in (run / "recipe.toml").read_text():
            sentence = refused(*train, "--resume", "--set", f"{section}.{change}")
            assert f"{section} of a run cannot change when it goes on" in sentence
    assert called(*train, "--resume", "--set", "train.steps=9", "--show-recipe").code == 0
    for flags in (["--set", "model.heads=7"], [trial.file[0], folder / "nowhere.tsv"]):  # it could not start
        refused(*train, "--overwrite", *data_of(trial, folder), *flags)
    assert files_in(run) == before


def test_a_run_is_only_given_up_for_one_that_can_start(trial, run, folder, tmp_path):
    shutil.copytree(run, tmp_path / "run")
    before = files_in(tmp_path / "run")
    (tmp_path / "empty.tsv").touch()
    flags = ["--out", tmp_path / "run", "--overwrite", trial.file[0], tmp_path / "empty.tsv"]
    refused("train", trial.task, *flags, "--set", *trial.sizes)
    assert files_in(tmp_path / "run") == before
    small(trial, tmp_path / "run", *data_of(trial, folder), "--overwrite", settings=["train.steps=1"])
    assert checkpoints(tmp_path / "run") == ["step-00000001"]
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == ["run"]


def test_a_run_goes_on_to_the_bit_without_its_files_and_its_pre_trained_model(trial, run, folder, tmp_path):
    given = tmp_path / "given"
    shutil.copytree(folder, given)
    whole, flags = run, data_of(trial, given)
    if trial.fine_tunes:
        whole, flags = tmp_path / "whole", [*flags, "--model", given / trial.pre_trained]
        small(trial, whole, *flags)
    small(trial, tmp_path / "part", *flags, settings=["train.steps=4"])
    shutil.rmtree(given)
    shutil.rmtree(tmp_path / "part" / "checkpoints" / "step-00000004")  # as where it was killed before the last one
    longer = taught(trial.task, tmp_path / "part", "--resume", "--set", "train.steps=7")
    assert "going on from step 3" in longer.err
    assert newest_difference(whole, tmp_path / "part") is None
    models = [each / "model" / "model.safetensors" for each in (whole, tmp_path / "part")]
    assert models[0].read_bytes() == models[1].read_bytes()
    assert tomllib.loads((tmp_path / "part" / "recipe.toml").read_text())["train"]["steps"] == 7


@only("classify", "tag", "answer", "images")
def test_a_frozen_encoder_stays_as_it_is(trial, folder, tmp_path):
    encoder = folder / trial.pre_trained
    result = small(trial, tmp_path / "run", *data_of(trial, folder), "--model", encoder, "--freeze")
    assert "of them learn)" in result.err
    before, after = load_model(encoder)[0].state_dict(), load_model(tmp_path / "run")[0].body.state_dict()
    assert {name for name in after if not after[name].equal(before[name])} <= {"pooler.weight", "pooler.bias"}
    fine_tune = tomllib.loads((tmp_path / "run" / "recipe.toml").read_text())["fine_tune"]
    assert (fine_tune["model"], fine_tune["freeze"]) == (str(encoder), True)


def steps_done(run: Path) -> int:
    try:
        return json.loads((run / "metrics.jsonl").read_text().splitlines()[-1])["step"]
    except (OSError, IndexError, ValueError):
        return 0


def stopped(trial: Trial, run: Path, *flags, number: int, step: int) -> tuple[int, str]:
    """Trains, and sends a signal once the step is done."""
    process = started("train", trial.task, "--out", run, *flags, stderr=subprocess.PIPE)
    while process.poll() is None and steps_done(run) < step:
        time.sleep(0.005)
    assert process.poll() is None, "it was done before it could be stopped"
    process.send_signal(number)
    _, errors = process.communicate()
    return process.returncode, errors.decode()


LONG = [*TRAIN, "train.steps=400", "train.checkpoint_every=150"]


EVERY_TASK_SLOWLY = pytest.mark.parametrize(
    "trial",
    [pytest.param(each, marks=() if each.task == "translate" else pytest.mark.slow) for each in TRIALS],
    ids=[each.task for each in TRIALS],
    indirect=True,
)


@EVERY_TASK_SLOWLY
def test_a_run_stopped_by_every_signal_ends_as_the_undisturbed_one(trial, folder, tmp_path):
    flags = [*data_of(trial, folder), "--set", *trial.sizes, *LONG, *trial.settings]
    whole, run = tmp_path / "whole", tmp_path / "run"
    assert called("train", trial.task, "--out", whole, *flags).code == 0
    code, errors = stopped(trial, run, *flags, number=signal.SIGTERM, step=20)
    assert code == 143
    last = errors.strip().splitlines()[-1]
    assert last.startswith("manyheads: stopped after step ")
    assert last.endswith(f"go on with: manyheads train {trial.task} --out {run} --resume")
    assert "Traceback" not in errors
    assert checkpoints(run) == [f"step-{steps_done(run):08d}"]
    code, errors = stopped(trial, run, "--resume", number=signal.SIGINT, step=90)
    assert (code, "Traceback" in errors) == (130, False)
    step = steps_done(run)
    assert checkpoints(run)[-1] == f"step-{step:08d}"
    if trial.task == "translate":
        code, _ = stopped(trial, run, "--resume", number=signal.SIGKILL, step=random.randint(step + 1, step + 40))
        assert code == -signal.SIGKILL
    assert called("train", trial.task, "--out", run, "--resume").code == 0
    assert checkpoints(run)[-1] == "step-00000400"
    assert newest_difference(run, whole) is None
    models = [each / "model" / "model.safetensors" for each in (whole, run)]
    assert models[0].read_bytes() == models[1].read_bytes()


@pytest.mark.slow
@only("translate", "answer")
def test_a_run_killed_again_and_again_ends_as_the_undisturbed_one(trial, folder, tmp_path):
    whole, run = tmp_path / "whole", tmp_path / "run"
    first = ["train", trial.task, "--out", run, *data_of(trial, folder)]
    first += ["--set", *trial.sizes, *LONG, *trial.settings]
    assert called(*first, "--out", whole).code == 0
    process = started(*first)
    for _ in range(8):
        time.sleep(random.uniform(1.0, 3.5))  # anywhere: in the data, in a step, in a checkpoint
        if process.poll() is not None:
            break
        process.kill()
        process.wait()
        process = started(*first[:4], "--resume") if (run / "recipe.toml").exists() else started(*first)
    process.wait()
    assert newest_difference(run, whole) is None


# Damage


@EVERY_TASK_SLOWLY
def test_a_byte_flipped_in_any_file_of_a_run_is_recognised_or_changes_nothing(trial, run, folder, tmp_path):
    flips, whole, unseen = random.Random(3), shutil.copytree(run, tmp_path / "whole"), set()
    goes_on = ["train", trial.task, "--resume", "--set", "train.steps=8", "train.average=3", "train.keep=9", "--out"]
    stdin = b"" if "fill" in trial.use else b"the film is warm.\n"

    def used(place: Path) -> Result:
        return called(*use(trial, place / "model", folder), stdin=stdin)

    assert called(*goes_on, whole).code == 0
    for file in sorted(path.relative_to(run) for path in run.rglob("*") if path.is_file()):
        damaged = shutil.copytree(run, tmp_path / "damaged")
        content = bytearray((damaged / file).read_bytes())
        content[flips.randrange(len(content))] ^= 1 << flips.randrange(8)
        (damaged / file).write_bytes(content)
        of_model = file.parts[0] == "model"
        found = used(damaged) if of_model else called(*goes_on, damaged)
        if found.code == 0:
            assert found == used(run) if of_model else newest_difference(whole, damaged) is None
            unseen |= {file.name if of_model else file.parts[0]} if "warning: " not in found.err else set()
        else:
            assert (found.code, found.err.count("manyheads: "), "Traceback" in found.err) == (2, 1, False), found
        shutil.rmtree(damaged)
    assert unseen <= {"metrics.jsonl", "tensorboard", "README.md"}


def test_a_recipe_changed_by_hand_is_recognised_with_checksums_and_without(trial, run, tmp_path):
    goes_on, copy = ["train", trial.task, "--resume", "--out", tmp_path / "run"], tmp_path / "run"
    shutil.copytree(run, copy)
    recipe = (run / "recipe.toml").read_text()
    for wrong in (recipe[: recipe.index("[train]")], recipe.replace("width = 16", "width = 18"), ""):
        (copy / "recipe.toml").write_text(wrong)
        sentence = refused(*goes_on)
        assert "recipe.toml is not what it was when it was written, as its checksum shows; undo the change" in sentence
        assert "give --set train.… beside --resume instead" in sentence
    (copy / "recipe.toml").write_text(recipe.replace("width = 16", "width = 18"))
    unsealed(copy)
    assert re.search(
        r"is of shape \[.*\] in the checkpoint and \[.*\] by the recipe; undo", refused(*goes_on, after_reading=True)
    )


def test_a_recipe_changed_by_set_is_what_the_run_follows_from_then_on(trial, run, tmp_path):
    copy = shutil.copytree(run, tmp_path / "run")
    for steps in (8, 9):
        taught(trial.task, copy, "--resume", settings=[f"train.steps={steps}"])
    taught(trial.task, copy, "--resume")
    assert "recipe.toml" in read_checksums(copy)
    (copy / "data" / "notes.txt").touch()  # is nobody's business
    taught(trial.task, copy, "--resume")


@only("translate")
def test_without_checksums_what_is_empty_is_a_sentence(trial, run, tmp_path):
    copy = unsealed(shutil.copytree(run, tmp_path / "run"))
    (copy / "data" / "valid.jsonl").write_text("")
    sentence = refused("train", trial.task, "--resume", "--out", copy)
    assert "valid.jsonl is empty; copy it back or start anew with --overwrite" in sentence


@only("masked", "tag")
def test_prove_resume_proves_it_of_a_run_and_of_a_recipe(trial, run):
    given, steps, seed, killed = (run, 6, 1, "2") if trial.task == "tag" else (run / "recipe.toml", 80, 2, "23, with a")
    found = called("prove-resume", given, "--steps", steps, "--seed", seed)
    assert (found.code, found.out) == (0, NO_TENSOR_DIFFERS)
    assert f"killed with SIGKILL once it has done step {killed}" in found.err


# What a person gets wrong

ALIKE = [
    ("--set train.device=gpu", "'gpu' is not a device"),
    ("--set train.seed=-1", "train.seed is -1; it must be at least 0"),
    ("--set train.learning_rate=inf", "train.learning_rate is inf; it must be above 0 and finite"),
    ("--set train.best_by=pearson", "train.best_by is pearson, which is not for this task; use "),
    ("--set model.leyers=3", "model.leyers is not a field of the recipe; model has: "),
    ("--set model.layers=three", "model.layers is 'three'; it must be of type int"),
    ("--set model.layers", "'model.layers' is not an assignment"),
    ("--set model.heads=7", "does not split over 7 heads; the nearest that does is "),
    ("--set model.vocabulary=99", "model.vocabulary follows from the tokenizer; leave it away"),
    ("--set data.vocabulary=20", "a vocabulary of 20 tokens cannot hold"),
    ("--preset nothing", "there is no preset nothing"),
    ("--recipe {folder}/no.toml", "no.toml cannot be read"),
    ("--recipe {folder}/bad.toml", "bad.toml is not TOML"),
    ("--recipe {folder}/section.toml", "data is a section"),
]
FINE_TUNED = [
    ("--model nowhere", "nowhere does not exist"),
    ("--model {folder}", "holds no config.json"),
    ("--model {encoder} --preset bert_tiny", "encoder has sizes of its own; leave the preset bert_tiny or the model"),
    ("--model {encoder} --set model.layers=3", "encoder is 1 and cannot change; leave it away"),
    ("--set train.compile=true", "train.compile is for language models and translators"),
    ("--set train.smoothing=0.1", "train.smoothing is 0.1, but labels are not smoothed"),
    ("--set data.examples=0", "data.examples is 0"),
]


def assert_refused(trial: Trial, folder: Path, out: Path, flags: str, said: str) -> None:
    given = [flag.format(folder=folder, encoder=folder / "encoder") for flag in flags.split()]
    sentence = refused("train", trial.task, "--out", out, *data_of(trial, folder), *given, after_reading=True)
    assert said in sentence
    assert not out.exists()


@pytest.mark.parametrize(("flags", "said"), ALIKE)
def test_what_cannot_be_trained_is_one_sentence_and_leaves_nothing(trial, folder, tmp_path, flags, said):
    if "vocabulary" in flags and not trial.has_tokenizer:
        said = "vocabulary is not a field of the recipe"
    assert_refused(trial, folder, tmp_path / "new", flags, said)


def test_what_could_not_be_saved_is_not_trained(trial, folder, tmp_path, monkeypatch):
    def fits(*_):
        raise ConfigError("no config.json can say this")

    for family in FAMILIES:
        monkeypatch.setattr(type(family.foreign), "fits", fits)
    assert_refused(trial, folder, tmp_path / "new", "", "no config.json can say this")


@only("classify", "tag", "similarity", "answer")
@pytest.mark.parametrize(("flags", "said"), FINE_TUNED)
def test_what_cannot_be_fine_tuned_is_one_sentence_and_leaves_nothing(trial, folder, tmp_path, flags, said):
    assert_refused(trial, folder, tmp_path / "new", flags, said)


def test_files_that_are_not_there_and_runs_that_are_not(trial, tmp_path):
    train = ["train", trial.task, "--out", tmp_path / "new"]
    assert "nowhere.tsv is not there" in refused(*train, trial.file[0], "nowhere.tsv")
    assert "holds no run to go on with" in refused(*train, "--resume")
    if not trial.has_sample:
        assert re.search("there are no .* to learn from; give", refused(*train))
    assert not list(tmp_path.iterdir())


LABELS = {
    "classify": {"even", "odd"},
    "tag": {"B-thing", "O"},
    "parse": {"S", "NP", "VP", "ADJP"},
    "images": {"bright", "dark"},
}


def test_what_a_model_is_can_be_asked(trial, run, folder, tmp_path):
    for directory, kind in ((run, trial.model_type), (run / "model", trial.model_type), (folder / "gpt", "gpt2")):
        told = tables("info", directory)[0]
        model, processor = load_as_saved(directory)
        assert (told["type"], told["tokens"]) == (kind, None if kind == "vit" else len(processor))
        assert told["parameters"] == sum(each.numel() for each in model.parameters())
        assert told["sizes"]["width"] == model.config.width
        shown = called("info", directory).out
        assert f"{told['parameters']:,}" in shown
        assert all(command in shown for command in told["commands"])
    told = tables("info", run)[0]
    assert any(command.startswith(f"manyheads {trial.use[0]} {run}") for command in told["commands"])
    mine = tmp_path / "my run"
    mine.symlink_to(run)
    assert all(str(mine) in shlex.split(command) for command in tables("info", mine)[0]["commands"])
    assert told["card"]
    assert set(told["labels"]) == LABELS.get(trial.task, set())
    (folder / "damaged").mkdir(exist_ok=True)
    (folder / "damaged" / "config.json").write_text('{"model_type": "gpt2"}')
    assert "damaged" in refused("info", folder / "damaged")


@only("translate", "language", "masked", "classify", "tag", "answer", "images", "caption", "ask")
def test_scores_can_be_had_as_json(trial, run, folder):
    files = ["--data" if trial.file[0] == "--train" else trial.file[0], folder / trial.file[1]]
    told = tables("evaluate", run, *files)
    assert len(told) == 1
    names = {"translate": "BLEU", "caption": "BLEU", "language": "perplexity", "answer": "f1", "ask": "f1"}
    name = names.get(trial.task, "accuracy")
    number = told[0][name]["score"] if name == "BLEU" else told[0][name]
    shown = called("evaluate", *files, run).out
    assert any(f"{value:.{digits}f}" in shown for value in (number, 100 * number) for digits in (2, 3))


@only("ask")
def test_a_picture_is_read_once_however_much_is_asked_about_it(trial, run, folder, tmp_path):
    (tmp_path / "bad.png").write_bytes(b"no picture")
    assert f"{tmp_path / 'bad.png'} is no picture" in refused("ask", run, tmp_path / "bad.png", "What?", "Where?")
    picture, questions = folder / "pictures" / "dark" / "1.png", ("What is it?", "What is bright?")
    alone = [table for question in questions for table in tables("ask", run, picture, question)]
    together = tables("ask", run, picture, *questions)
    assert [{**each, "score": pytest.approx(each["score"], abs=1e-4)} for each in alone] == together


@only("images")
def test_names_of_no_letters_are_shown_as_numbers_and_refused_for_what_is_saved(trial, run, folder, tmp_path):
    place = tmp_path / "a\udcff"
    try:
        shutil.copytree(folder / "pictures", place / "b\udcff")
    except OSError:
        pytest.skip("this system has names in UTF-8 alone")
    (place / "b\udcff" / "dark" / "c.png").write_bytes(b"no picture")
    found = typed("classify-image", run, place / "b\udcff" / "dark")
    assert (found.code, len(found.out.splitlines())) == (2, 12)
    assert all("a\\udcff/b\\udcff/dark" in line for line in (*found.out.splitlines(), found.err.splitlines()[0]))
    train = ["train", "images", "--out", tmp_path / "new", "--data"]
    assert r"a\udcff', which is not UTF-8, as a recipe is; rename it" in refused(*train, place)
    shutil.copytree(place / "b\udcff" / "dark", tmp_path / "all" / "dark")
    shutil.copytree(place / "b\udcff" / "dark", tmp_path / "all" / "\udcfe")
    assert r"all: the label '\udcfe' is not UTF-8" in refused(*train, tmp_path / "all", after_reading=True)
    assert not (tmp_path / "new").exists()
