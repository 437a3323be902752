"""Nothing of the user's is ever deleted: files beside what is written, a run that is in use, moved or interrupted."""

import os
import pty
import select
import shutil
import signal
import threading
from pathlib import Path

import pytest
from toy.training import Reversal

from manyheads.core.locks import locked
from manyheads.interop.directory import load_as_saved, load_model, save_model, saved_kind
from manyheads.interop.llama2c import convert_llama2c
from manyheads.tasks.task import TASKS
from tests.parity.test_llama2c import write_model, write_tokenizer

from .conftest import called, checkpoints, command, files_in, recorded, refused, saved_bert, trained

ENDINGS = (".previous", ".unfinished", ".tmp", ".bak", "-backup", "~", ".old", ".lock")
SETTINGS = ["train.steps=6", "train.checkpoint_every=2", "train.valid_every=2", "train.log_every=1", "train.device=cpu"]


@pytest.fixture(autouse=True)
def _registered(monkeypatch):
    monkeypatch.setitem(TASKS, "reverse", "toy")


@pytest.fixture
def lines(tmp_path) -> Path:
    (tmp_path / "lines.txt").write_text("".join(f"{a}{b}\n" for a in "abcdef" for b in "ghijkl"), encoding="utf-8")
    return tmp_path / "lines.txt"


def reverse(run: Path, *flags, settings=()) -> list:
    """The words that train the toy."""
    return [
        "train",
        "reverse",
        "--out",
        run,
        *flags,
        *(["--set", *SETTINGS, *settings] if "--resume" not in flags else []),
    ]


# Beside every path that is written


def guarded(*paths: Path) -> dict[Path, bytes]:
    """Files and folders of a user's own around some paths, by the names that programs like to give to theirs."""
    for path in paths:
        for ending in ENDINGS:
            own = path.with_name(path.name + ending)
            own.mkdir(parents=True)
            (own / "config.json").write_text("mine")
            path.with_name(f".{path.name}{ending}").write_text("mine")
        path.with_name("thesis.tex").write_text("years")
    return {path: content for path, content in files_in(paths[0].parents[2]).items() if content in (b"mine", b"years")}


def lost(own: dict[Path, bytes]) -> list[Path]:
    return [path for path, content in own.items() if not path.is_file() or path.read_bytes() != content]


RUN_PARTS = ["model", "data", "tokenizer", "checkpoints", "checkpoints/step-00000002", "checkpoints/step-00000004"]


def test_nothing_beside_a_run_and_its_parts_is_lost(lines, tmp_path):
    run = tmp_path / "deep" / "runs" / "mine"
    own = guarded(run)
    for flags in (["--lines", lines], ["--resume"], ["--lines", lines, "--overwrite"]):
        done = called(*reverse(run, *flags))
        assert done.code == 0, done.err
        assert not lost(own)
    inside = guarded(*(run / part for part in [*RUN_PARTS, "recipe.toml", "metrics.jsonl"]))
    inside[run / "model" / "model.gguf"] = b"mine"
    (run / "model" / "model.gguf").write_bytes(b"mine")
    assert called(*reverse(run, "--resume"), "--set", "train.steps=12").code == 0
    assert recorded(run)[-1]["step"] == 12
    before = files_in(run)
    assert "also holds" in refused(*reverse(run, "--lines", lines, "--overwrite"))
    assert files_in(run) == before
    assert len(inside) > 80
    assert not lost({**own, **inside})
    (run / "model" / "model.gguf").unlink()
    assert lost(inside) == [run / "model" / "model.gguf"]  # and the test can tell


@pytest.fixture(scope="module")
def models(corpus, files, tmp_path_factory) -> Path:
    """A translator, an encoder and labelled lines."""
    folder = tmp_path_factory.mktemp("models")
    trained(folder / "translator", *files, steps=1)
    texts = [f"the {word} cat" for word in ("old", "young", "red", "blue") for _ in range(10)]
    saved_bert(folder / "encoder", texts)
    (folder / "pairs.tsv").write_text("the cat\tdie Katze\nan old dog\tein Hund\n")
    (folder / "labels.tsv").write_text("".join(f"{text}\t{'ab'[place % 2]}\n" for place, text in enumerate(texts)))
    classifier = ["--train", folder / "labels.tsv", "--model", folder / "encoder", "--set", "train.steps=1"]
    assert called("train", "classify", "--out", folder / "classifier", *classifier, "train.device=cpu").code == 0
    return folder


WRITING = {
    "look": "look {models}/translator the-cat --out {out}.html --png {out}.png --svg {out}.svg --json {out}.json",
    "walk": "walk {models}/translator the-cat --html {out}.html",
    "prune": "prune {models}/translator --heads encoder.0.1 --out {out}.pruned",
    "embed": "embed {models}/encoder --out {out}.npy",
    "evaluate --out": "evaluate {models}/translator --pairs {models}/pairs.tsv --out {out}.de",
    "evaluate --plot": "evaluate {models}/classifier --data {models}/labels.tsv --plot {out}.png",
}


@pytest.mark.parametrize("name", WRITING)
def test_nothing_beside_what_a_command_writes_is_lost(models, tmp_path, name):
    out = tmp_path / "deep" / "folder" / "mine"
    given = [word.format(models=models, out=out) for word in WRITING[name].split()]
    written = [Path(word) for word in given if word.startswith(f"{out}.")]
    own = guarded(*written)
    done = called(*given, stdin=b"the cat\n")
    assert done.code == 0, done.err
    assert all(path.exists() for path in written)
    again = called(*given, stdin=b"the cat\n")  # over its own
    assert again.code == (2 if name == "prune" else 0)
    assert not lost(own)


def test_nothing_beside_what_is_converted_or_drawn_into_a_run_is_lost(models, tmp_path):
    run = tmp_path / "deep" / "folder" / "classifier"
    shutil.copytree(models / "classifier", run)
    own = guarded(run, run / "reliability.png")
    assert called("evaluate", run, "--data", models / "labels.tsv").code == 0
    assert (run / "reliability.png").exists()
    files = write_model(tmp_path / "model.bin", shared=True), write_tokenizer(tmp_path / "tokenizer.bin")
    own |= guarded(tmp_path / "deep" / "other" / "converted")
    convert_llama2c(*files, tmp_path / "deep" / "other" / "converted")
    assert not lost(own)


# A run that is interrupted, in use, or moved


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError(28, "No space left on device")])
def test_a_run_that_is_to_be_overwritten_is_there_until_the_new_one_can_start(lines, tmp_path, monkeypatch, error):
    run = tmp_path / "deep" / "runs" / "mine"
    own = guarded(run)
    flags = reverse(run, "--lines", lines)
    assert called(*flags).code == 0
    before = files_in(tmp_path)

    def interrupted(*_):
        raise error

    monkeypatch.setattr(Reversal, "store", interrupted)
    assert called(*flags, "--overwrite").code == (130 if error is KeyboardInterrupt else 2)
    assert called(*reverse(tmp_path / "new" / "run", "--lines", lines)).code in (130, 2)
    assert files_in(tmp_path) == before
    assert not (tmp_path / "new").exists()
    assert not lost(own)
    monkeypatch.undo()
    monkeypatch.setitem(TASKS, "reverse", "toy")
    assert called(*flags, "--overwrite").code == 0


def test_a_run_is_one_process_at_a_time(lines, tmp_path):
    run = tmp_path / "run"
    assert called(*reverse(run, "--lines", lines)).code == 0
    before = files_in(run)
    with locked(run):
        for flags in (["--resume"], ["--lines", lines, "--overwrite"], ["--lines", lines]):
            sentence = refused(*reverse(run, *flags))
            assert sentence.startswith(f"{run} is in use by process {os.getpid()} on ")
    assert files_in(run) == before
    assert called(*reverse(run, "--resume")).code == 0


@pytest.mark.parametrize("step", [1, 2, 3])  # before a validation, a checkpoint and a line of metrics
@pytest.mark.parametrize("how", ["renamed", "removed", "replaced"])
def test_a_run_directory_that_does_not_stay_is_a_sentence_and_is_not_made_again(
    lines, tmp_path, monkeypatch, capfd, how, step
):
    run, calls, loss = tmp_path / "run", [], Reversal.loss

    def moving(self, model, batch):
        calls.append(0)
        if len(calls) == step:
            shutil.rmtree(run) if how == "removed" else run.rename(tmp_path / "elsewhere")
            if how == "replaced":
                run.mkdir()
                (run / "mine").touch()
        return loss(self, model, batch)

    monkeypatch.setattr(Reversal, "loss", moving)
    found = called(*reverse(run, "--lines", lines, settings=["train.valid_every=3"]))
    assert found.code == 2
    assert found.err.splitlines()[-1].startswith(f"manyheads: {run} was renamed or removed while it was in use; ")
    assert (os.listdir(run) if run.exists() else []) == (["mine"] if how == "replaced" else [])
    assert "Traceback" not in capfd.readouterr().err
    if how == "renamed":
        monkeypatch.setattr(Reversal, "loss", loss)
        assert called(*reverse(tmp_path / "elsewhere", "--resume")).code == 0


def test_a_closed_terminal_saves_as_sigterm_does(lines, tmp_path, corpus, files):
    run, shown = tmp_path / "run", b""
    settings = ["train.steps=100000", "train.log_every=1", "train.device=cpu", "model.width=16", "model.layers=1"]
    words = command("train", "translate", "--out", run, *files, "--set", *settings, "data.vocabulary=330")
    process, terminal = pty.fork()
    if not process:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
        os.execv(words[0], words)
    while not (run / "metrics.jsonl").exists() or len(recorded(run, "train")) < 3:
        if select.select([terminal], [], [], 0.01)[0]:
            shown += os.read(terminal, 10_000)
    os.close(terminal)
    assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 129
    assert checkpoints(run) == [f"step-{recorded(run, 'train')[-1]['step']:08d}"]


def test_a_model_can_be_opened_while_it_is_being_replaced(models, tmp_path):
    model, tokenizer = load_model(models / "encoder")
    run = tmp_path / "run"
    save_model(run / "model", model, tokenizer, "")
    stop = threading.Event()

    def replace():
        while not stop.is_set():
            save_model(run / "model", model, tokenizer, "")

    writer = threading.Thread(target=replace)
    writer.start()
    try:
        for _ in range(60):
            for path in (run, run / "model"):
                assert load_model(path)[0].config == model.config
                assert load_as_saved(path)[0].config == model.config
                assert saved_kind(path)
    finally:
        stop.set()
        writer.join()


@pytest.mark.parametrize("moment", range(1, 4))
def test_a_model_that_is_replaced_between_two_of_its_files_is_read_again(models, tmp_path, monkeypatch, moment):
    """No config of one model with the weights of another."""
    model, tokenizer = load_model(models / "encoder")
    other, _ = load_model(saved_bert(tmp_path / "other", ["the old cat", "the red cat"], width=12))
    place, calls = tmp_path / "model", []
    save_model(place, model, tokenizer, "")
    from manyheads.interop import directory

    def replacing(name, read):
        def found(*arguments, **options):
            calls.append(name)
            if len(calls) == moment:
                save_model(place, other, load_model(tmp_path / "other")[1], "")
            return read(*arguments, **options)

        return found

    for name in ("read_json", "open_weights", "Undrawn"):
        monkeypatch.setattr(directory, name, replacing(name, getattr(directory, name)))
    assert load_model(place)[0].config.width == 12
    assert len(calls) > 3
