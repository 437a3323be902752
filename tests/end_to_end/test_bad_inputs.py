"""Bad inputs by the hundred, over all commands: one sentence, and never a traceback, a hang or half a file.

Every case is a command line with something wrong in a file, a flag or a text; they are drawn by a seed.
"""

import contextlib
import gzip
import json
import random
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from checkpoints import ours_of, saved
from typer.main import get_command

from manyheads.cli.main import app

from .conftest import called, files_in
from .test_every_task import LINES, SIZES, TRAIN, TRIALS, data_of, folder  # noqa: F401 a fixture

pytestmark = pytest.mark.slow
SECONDS = 30  # of the processor, which a loaded machine does not use up

USES = {
    "MarianMTModel": [["translate"], ["look", "the cat"], ["walk", "the cat"], ["align", "the cat"], ["selfcheck"]],
    "GPT2LMHeadModel": [["generate", "--prompt", "the", "--tokens", "2"], ["look", "the cat"], ["selfcheck"]],
    "LlamaForCausalLM": [["generate", "--prompt", "the", "--tokens", "2"], ["walk", "the cat"]],
    "BertForMaskedLM": [["fill", "the [MASK]"], ["look", "the cat"]],
    "BertForSequenceClassification": [["classify"], ["walk", "the cat"]],
    "BertForTokenClassification": [["tag"]],
    "BertForQuestionAnswering": [["answer", "Who?"]],
    "BertModel": [["embed", "--out", "vectors.npy"], ["similar", "--to", "the cat"]],
}
TEXT = b"the cat danced\nunder the table\n"


class Hangs(BaseException):
    """What is not done after so many seconds of the processor."""


@contextlib.contextmanager
def alarm() -> Iterator[None]:
    def ring(*_):
        raise Hangs

    before = signal.signal(signal.SIGPROF, ring)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def fault(place: Path, *arguments, stdin: bytes = TEXT) -> str | None:
    """What is wrong with how a command ended that may be refused, or nothing; it may leave files only if it is not."""
    before = set(place.rglob("*"))
    try:
        with alarm(), contextlib.chdir(place):
            found = called(*arguments, stdin=stdin)
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        return f"{type(error).__name__}: {error}"
    if "Traceback" in found.err or "\x1b" in found.out + found.err:
        return found.err[-300:]
    if found.code == 0 or ("selfcheck" in arguments and found.code == 1 and "FAIL" in found.out):
        return None
    if found.code != 2:
        return f"exit code {found.code}: {found.err[-300:]}"
    if not (found.err.splitlines() or [""])[-1].startswith("manyheads: ") and "Usage" not in found.err:
        return f"no sentence: {found.err[-300:]!r}"
    left = {each.relative_to(place) for each in set(place.rglob("*")) - before}
    if (
        Path("run", "recipe.toml") in left and "the learning rate is most likely too high" in found.err
    ):  # it had begun, and its records tell how it went
        return None
    return f"left behind: {sorted(map(str, left))}" if left else None


def faults(place: Path, cases) -> list[str]:
    """Those of all cases, each with its command."""
    found = []
    for case, stdin in cases:
        if wrong := fault(place, *case, stdin=stdin):
            found.append(f"{' '.join(map(str, case))[:200]} < {stdin[:20]!r}\n  {wrong}")
    return found


@pytest.fixture(autouse=True)
def one_thread():
    """The processor's seconds are those of all threads, and those that wait for each other spend them on nothing."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def models(tmp_path_factory) -> dict[str, Path]:
    made = tmp_path_factory.mktemp("models")
    return {name: saved(made / name, ours_of(name)) for name in USES}


every_model = pytest.mark.parametrize("name", USES)


def with_model(name: str, directory: Path) -> list[list]:
    return [[each[0], directory, *each[1:]] for each in USES[name]]


DAMAGES = {
    "empty": lambda content, draw: b"",
    "half": lambda content, draw: content[: len(content) // 2],
    "random": lambda content, draw: draw.randbytes(200),
    "flipped": lambda content, draw: content[:9] + bytes(255 - byte for byte in content[9:10]) + content[10:],
    "null": lambda content, draw: b"null",
    "list": lambda content, draw: b"[]",
    "object": lambda content, draw: b"{}",
    "brackets": lambda content, draw: b"[" * 200_000,
    "objects": lambda content, draw: b'{"a":' * 200_000,
}


@every_model
def test_damaged_directories(models, name, tmp_path):
    draw, wrong = random.Random(1), []
    for file in sorted(each.relative_to(models[name]) for each in files_in(models[name])):
        for damage, make in DAMAGES.items():
            copy = shutil.copytree(models[name], tmp_path / "model", dirs_exist_ok=True)
            (copy / file).write_bytes(make((copy / file).read_bytes(), draw))
            wrong += [
                f"{file}, {damage}: {each}" for each in faults(tmp_path, [(draw.choice(with_model(name, copy)), TEXT)])
            ]
        for other in ("missing", "a folder"):
            copy = shutil.copytree(models[name], tmp_path / "model", dirs_exist_ok=True)
            (copy / file).unlink()
            if other == "a folder":
                (copy / file).mkdir()
            wrong += [
                f"{file} {other}: {each}" for each in faults(tmp_path, [(draw.choice(with_model(name, copy)), TEXT)])
            ]
            if (copy / file).is_dir():
                (copy / file).rmdir()
    assert not wrong, "\n".join(wrong)


VALUES = [-1, 0, 10**9, 10**30, 1.5, -1e-9, float("nan"), "word", "", "\x1b[2J", None, True, [], [3], {}, {"a": 1}]


@every_model
def test_configs_that_say_anything(models, name, tmp_path):
    draw, wrong = random.Random(2), []
    copy = shutil.copytree(models[name], tmp_path / "model")
    (copy / "manyheads.sha256").unlink(missing_ok=True)  # or that would be all that is found
    for file in sorted(copy.rglob("*.json")):
        whole = file.read_text(encoding="utf-8")
        table = json.loads(whole)
        fields = list(table) if isinstance(table, dict) else range(len(table))
        for field in fields:
            for value in draw.sample(VALUES, 5):
                changed = json.loads(whole)
                changed[field] = value
                file.write_text(json.dumps(changed), encoding="utf-8")
                case = draw.choice(with_model(name, copy))
                wrong += [f"{file.name}: {field} = {value!r}: {each}" for each in faults(tmp_path, [(case, TEXT)])]
        file.write_text(whole, encoding="utf-8")
    assert not wrong, "\n".join(wrong)


STREAMS = [
    b"",
    b"\n",
    b" \n\t\n",
    b"\0\n",
    b"\xff\xfe\n",
    b"the cat",
    "\U0001f600 \u202e\n".encode(),
    b"\x1b[2J\n",
    b"a " * 3000,
    b"{" * 3000,
]


@every_model
def test_texts_of_any_kind(models, name, tmp_path):
    cases = [(case, stream) for case in with_model(name, models[name]) for stream in STREAMS]
    wrong = faults(tmp_path, cases)
    assert not wrong, "\n".join(wrong)


NUMBERS = ["-1", "0", "1000000000", "1000000000000000000000", "x", "nan", "inf", "-inf", "1e400", ""]
PLACES = ["missing/folder/file", ".", "/", "/dev/null/x", "\x1b[2J", "a\tb", "x" * 300]


def flags_of(words: list[str]) -> list:
    """The flags of a command, as its help has them."""
    found = get_command(app)
    for word in words:
        found = found.get_command(None, word)
    return [
        each
        for each in found.params
        if getattr(each, "opts", [""])[0].startswith("--") and each.name not in ("help", "debug")
    ]


@every_model
def test_flags_with_values_that_cannot_be(models, name, tmp_path):
    cases = []
    for case in with_model(name, models[name]):
        for flag in flags_of(case[:1]):
            if flag.is_flag:
                cases.append(([*case, flag.opts[0], "x"], TEXT))
            else:
                cases += [([*case, flag.opts[0], value], TEXT) for value in (NUMBERS + PLACES)]
    draw = random.Random(3)
    wrong = faults(tmp_path, draw.sample(cases, min(len(cases), 120)))
    assert not wrong, "\n".join(wrong)


# fmt: off
SETTINGS = [
    "model.width=0", "model.width=7", "model.width=1e3", "model.width=word", "model.heads=-1",
    "model.layers=1000000000", "model.dropout=1", "model.context=1000000000", "model.dropout=nan",
    "model.positions.kind=up", "model=3", "model.x=1", "data.vocabulary=-5", "data.examples=0",
    "data.vocabulary=1000000000000", "data.rows=0", "data.batch_tokens=-1", "train.steps=0", "train.steps=-3",
    "train.learning_rate=inf", "train.learning_rate=nan", "train.learning_rate=1e30", "train.warmup=0",
    "train.clip=-1", "train.beta2=1", "train.optimizer=sgd", "train.schedule=up", "train.best_by=luck",
    "train.device=tpu", "train.seed=-1", "train.keep=0", "train.average=99", "train.accumulate=0",
    "train.smoothing=2", "=", "a", "train", "train.steps", "train.steps=", "train.steps=[1]", "task=other",
    "\x1b[2J=1", "fine_tune.epochs=0",
]
# fmt: on
CONTENTS = {
    "empty": b"",
    "blank": b"\n \n\t\n",
    "binary": bytes(range(256)) * 40,
    "latin": "naïve\tcafé\n".encode("latin-1") * 80,
    "short": b"a\tb\n",
    "columns": b"a\tb\tc\td\te\n" * 80,
    "ragged": b"a\tb\nc\nd\te\tf\n" * 80,
    "json": b'{"a": 1}\n' * 80,
    "brackets": b"[" * 300_000,
    "nul": b"a\0b\t\0\n" * 80,
    "long": b"a " * 300_000 + b"\tb\n",
    "cut.gz": gzip.compress(b"a\tb\n" * 500)[:-9],
    "no.gz": b"a\tb\n" * 80,
    "escapes": b"\x1b[2J\t\x1b]0;x\x07\n" * 80,
}


@pytest.mark.parametrize("trial", TRIALS, ids=lambda trial: trial.task)
def test_trainings_that_cannot_be(trial, folder, tmp_path):  # noqa: F811
    small = ["--set", *SIZES, *TRAIN, *trial.settings, "train.steps=2"]
    begin = ["train", trial.task, "--out", "run"]
    cases = [([*begin, *data_of(trial, folder), *small, setting], b"") for setting in SETTINGS]
    flag, name = trial.file
    for kind, content in CONTENTS.items():
        file = tmp_path / "files" / (kind if kind.endswith(".gz") else f"{kind}{Path(name).suffix}")
        file = file.with_name(f"{file.stem}{Path(name).suffix}.gz") if kind.endswith(".gz") else file
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(content)
        cases.append(([*begin, flag, file, *small], b""))
    for place in PLACES:
        if place == "/" and flag == "--text":
            continue  # all texts of the disk, which are many and no mistake
        cases += [
            ([*begin, flag, place, *small], b""),
            (["train", trial.task, "--out", place, *data_of(trial, folder), *small], b""),
        ]
    wrong = []
    for case in cases:
        wrong += faults(tmp_path, [case])
        shutil.rmtree(tmp_path / "run", ignore_errors=True)
    assert not wrong, "\n".join(wrong)


COMMANDS = [
    *("", "nothing", "train", "train nothing", "translate", "translate nowhere", "evaluate", "look", "walk nowhere x"),
    *("align", "prune", "selfcheck /", "prove-resume nowhere", "generate .", "embed /etc", "classify nowhere", "--x"),
    *("train tag --model nowhere", "evaluate nowhere --data x", "look --positions up", "demo --out /dev/null"),
]


def test_commands_that_are_none(tmp_path):
    wrong = faults(tmp_path, [(words.split(), b"") for words in COMMANDS])
    assert not wrong, "\n".join(wrong)


def test_and_that_a_fault_is_seen(tmp_path, monkeypatch):
    """A traceback, a hang, half a file and an exit code of its own."""
    import manyheads.tasks.task as task

    model = saved(tmp_path / "model", ours_of("BertForMaskedLM"))

    def broken(how):
        def predictor_of(path):
            if how == "file":
                Path("half").write_text("x")
                raise task.ConfigError("no")
            if how == "hang":
                while True:
                    pass
            raise {"error": ZeroDivisionError, "exit": SystemExit}[how](5)

        return predictor_of

    for how, said in (("error", "exit code 1"), ("exit", "exit code 5"), ("file", "left behind: ['half']")):
        monkeypatch.setattr(task, "predictor_of", broken(how))
        assert said in (fault(tmp_path, "evaluate", model) or ""), how
    monkeypatch.setattr(task, "predictor_of", broken("hang"))
    monkeypatch.setitem(globals(), "SECONDS", 1)
    assert "Hangs" in (fault(tmp_path, "evaluate", model) or "")
