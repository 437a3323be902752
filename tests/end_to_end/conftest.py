"""The command line as a person uses it, and a small corpus to use it on."""

import contextlib
import io
import json
import os
import random
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

from manyheads.interop.directory import save_model
from manyheads.models.bert import Bert, BertConfig
from manyheads.models.gpt import GPT, GPTConfig
from manyheads.text.encoder import EncoderTokenizer
from manyheads.text.language import LanguageTokenizer
from manyheads.train.checkpoint import Checkpoints, first_difference

WORDS = dict(
    zip(
        ["the", "a", "cat", "dog", "bird", "house", "tree", "sees", "likes", "finds", "old", "young", "red"],
        ["die", "eine", "Katze", "Hündin", "Möwe", "Hütte", "Tanne", "sieht", "mag", "findet", "alte", "junge", "rote"],
    )
)
SMALL = [
    *("model.width=32", "model.heads=2", "model.layers=1", "model.inner=48", "model.dropout=0.0"),
    *("data.vocabulary=330", "data.batch_tokens=300", "train.warmup=20", "train.learning_rate=0.01"),
    *("train.valid_every=1000", "train.checkpoint_every=1000", "train.average=1", "train.device=cpu"),
]
TINY_SIZES = {"context": 24, "width": 24, "layers": 1, "heads": 2}


@dataclass(frozen=True)
class Result:
    """How a command ended."""

    code: int
    out: str
    err: str


def typed(*arguments, stdin: bytes = b"", cwd: Path | None = None) -> Result:
    """A command in a process of its own."""
    done = subprocess.run(command(*arguments), input=stdin, capture_output=True, cwd=cwd, env=environment())
    return Result(done.returncode, done.stdout.decode(), done.stderr.decode())


def command(*arguments) -> list[str]:
    return [sys.executable, "-m", "manyheads", *map(str, arguments)]


def environment() -> dict[str, str]:
    """Ours, and as many threads as we have, since their number decides the order of sums."""
    return {**os.environ, "OMP_NUM_THREADS": str(torch.get_num_threads())}


def started(*arguments, **streams) -> subprocess.Popen:
    """A command that goes on by itself and minds Ctrl-C, also where a shell in the background has it ignored."""
    handled = lambda: signal.signal(signal.SIGINT, signal.default_int_handler)  # noqa: E731
    return subprocess.Popen(command(*arguments), env=environment(), preexec_fn=handled, **streams)


def called(*arguments, stdin: bytes = b"") -> Result:
    """The same command in this process, which spares it the two seconds of importing torch."""
    from manyheads.cli.main import main

    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2))
    before, sys.stdin = sys.stdin, io.TextIOWrapper(io.BytesIO(stdin))
    code = 0
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            main([str(argument) for argument in arguments])
    except SystemExit as ended:
        code = int(ended.code or 0)
    finally:
        sys.stdin = before
    for stream in (out, err):
        stream.flush()
    return Result(code, out.buffer.getvalue().decode(), err.buffer.getvalue().decode())  # type: ignore


def tables(*arguments, stdin: bytes = b"") -> list[dict]:
    """What a command says as JSON."""
    found = called(*arguments, "--json", stdin=stdin)
    assert found.code == 0, found
    return [json.loads(line) for line in found.out.splitlines()]


def without_header(err: str) -> str:
    """What a command said but for the first lines of tables that it took for headers."""
    return "".join(line for line in err.splitlines(keepends=True) if "names the columns" not in line)


def refused(*arguments, stdin: bytes = b"", after_reading: bool = False) -> str:
    """The one sentence of a command that cannot be; what it found in files it may have said before."""
    found = called(*arguments, stdin=stdin)
    assert (found.code, found.out) == (2, ""), found
    *before, sentence = without_header(found.err).splitlines()
    assert after_reading or not before, found.err
    assert not any(line.startswith(("manyheads: ", "Traceback")) for line in before), found.err
    assert sentence.startswith("manyheads: ")
    return sentence.removeprefix("manyheads: ")


def taught(task: str, out: Path, *arguments, settings=(), by=called) -> Result:
    """A run of a task; `arguments` end in assignments, which come behind the settings, or in none."""
    place = arguments.index("--set") if "--set" in arguments else len(arguments)
    assignments = [*settings, *arguments[place + 1 :]]
    result = by("train", task, "--out", out, *arguments[:place], *(["--set", *assignments] if assignments else []))
    assert (result.code, result.out) == (0, ""), result.err
    return result


def trained(out: Path, *arguments, steps: int, by=called) -> Result:
    """A small run of a translator."""
    return taught("translate", out, *arguments, settings=[*SMALL, f"train.steps={steps}"], by=by)


def recorded(run: Path, kind: str = "valid") -> list[dict]:
    """What a run has written down of its steps or of its validations."""
    lines = map(json.loads, (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines())
    return [line for line in lines if line["kind"] == kind]


def checkpoints(run: Path) -> list[str]:
    return [path.name for path in Checkpoints(run / "checkpoints", 9, 1).paths()]


def newest_difference(one: Path, other: Path) -> str | None:
    """The first tensor in which the ends of two runs differ, or None."""
    assert checkpoints(one)[-1] == checkpoints(other)[-1]
    return first_difference(*(run / "checkpoints" / checkpoints(run)[-1] for run in (one, other)))


def files_in(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def saved_bert(path: Path, texts: list[str], head=Bert, vocabulary: int = 150, **sizes) -> Path:
    """A directory of an encoder that has learned nothing but the words of some texts."""
    tokenizer = EncoderTokenizer.train(texts, vocabulary, lowercase=False)
    config = BertConfig(vocabulary=len(tokenizer), separator=tokenizer.separator, **{**TINY_SIZES, **sizes})
    torch.manual_seed(3)
    save_model(path, head(config), tokenizer, "")
    return path


def saved_gpt(path: Path, texts: list[str], more_rows: int = 0, **sizes) -> Path:
    """A directory of a language model that has learned nothing but the words of some texts."""
    tokenizer = LanguageTokenizer.train(texts, 290)
    config = GPTConfig(vocabulary=len(tokenizer) + more_rows, end=tokenizer.end, **{**TINY_SIZES, **sizes})
    torch.manual_seed(3)
    save_model(path, GPT(config), tokenizer, "")
    return path


@pytest.fixture(scope="session")
def corpus(tmp_path_factory) -> Path:
    """train.en, train.de, valid.en and valid.de: German word for English word."""
    folder = tmp_path_factory.mktemp("corpus")
    source = random.Random(1)
    for name, count in (("train", 800), ("valid", 25)):
        lines = [" ".join(source.choices(list(WORDS), k=source.randint(1, 6))) for _ in range(count)]
        (folder / f"{name}.en").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        german = [" ".join(WORDS[word] for word in line.split()) for line in lines]
        (folder / f"{name}.de").write_text("".join(f"{line}\n" for line in german), encoding="utf-8")
    return folder


@pytest.fixture(scope="session")
def files(corpus) -> list:
    return [
        *("--source", corpus / "train.en", "--target", corpus / "train.de"),
        *("--valid-source", corpus / "valid.en", "--valid-target", corpus / "valid.de"),
    ]


@pytest.fixture(scope="session")
def run(corpus, files, tmp_path_factory) -> Path:
    """A run that has learned its words."""
    out = tmp_path_factory.mktemp("runs") / "mine"
    trained(out, *files, steps=600)
    return out
