"""Ends a small run at each of its file operations, goes on with it, and compares what comes of it with the whole run.

`python tests/crash_points.py FOLDER new|overwritten killed|cut|unsynced` says how many operations there were.
`cut` takes away what was not handed to the disk, as a power cut may; `unsynced` hands it no files, so that there must
be findings.
"""

import json
import os
import shutil
import stat
import sys
import traceback
from pathlib import Path
from typing import Any

import tensorboard.summary.writer.event_file_writer  # noqa: F401 here, and not in every process
import torch._dynamo

from manyheads.core import files
from manyheads.core.files import TEMPORARY
from manyheads.tasks.run import resolve, train
from manyheads.tasks.run_directory import recipe_file
from manyheads.tasks.task import TASKS

TASKS["reverse"] = "toy"
SETTINGS = ("train.steps=5", "train.checkpoint_every=2", "train.valid_every=2", "train.log_every=1", "train.keep=2")
SIZES = ("train.device=cpu", "model.width=16", "model.inner=16", "train.average=2", "data.batch_tokens=900")
STOPPED = 3
CHANGES = {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate"}


class Disk:
    """What a power cut leaves of a folder: of each file and each directory what it was when it was last synced."""

    def __init__(self, root: Path):
        self.root, self.known, self.pinned = root, {}, {}
        for path in (root, *root.rglob("*")):
            descriptor = os.open(path, os.O_RDONLY)
            self.sync(descriptor)
            os.close(descriptor)

    def key(self, path: str) -> tuple[int, bool]:
        place = os.stat(path)
        if place.st_ino not in self.pinned:  # so that no other file is given its number
            self.pinned[place.st_ino] = os.open(path, os.O_RDONLY)
        return place.st_ino, stat.S_ISDIR(place.st_mode)

    def sync(self, descriptor: int) -> None:
        path = f"/proc/self/fd/{descriptor}"
        number, is_folder = self.key(path)
        if is_folder:
            self.known[number] = {name: self.key(f"{path}/{name}") for name in os.listdir(path)}
        else:
            self.known[number] = Path(path).read_bytes()

    def cut(self) -> None:
        left = self.root.with_name("left")
        self._lay_down(left, *self.key(str(self.root)))
        shutil.rmtree(self.root)
        left.rename(self.root)

    def _lay_down(self, path: Path, number: int, is_folder: bool) -> None:
        if not is_folder:
            path.write_bytes(self.known.get(number, b""))
            return
        path.mkdir()
        for name, entry in self.known.get(number, {}).items():
            self._lay_down(path / name, *entry)


class Crash:
    """Counts what this process does to the files of a folder, and ends it before an operation."""

    def __init__(self, root: Path, at: int | None, how: str):
        self.root, self.at, self.how, self.done = root, at, how, 0
        self.disk, fsync = Disk(root), os.fsync

        def synced(descriptor: int) -> None:
            self.count()
            fsync(descriptor)
            self.disk.sync(descriptor)

        os.fsync = synced
        if how == "unsynced":
            sync = files.sync
            files.sync = lambda path: sync(path) if path.is_dir() else None
        sys.addaudithook(self.heard)

    def heard(self, event: str, arguments: Any) -> None:
        writes = event == "open" and isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR)
        if (writes or event in CHANGES) and not isinstance(arguments[0], int):
            path = os.fsdecode(arguments[0])
            # Only what removes whole trees names files without their folder.
            if path.startswith(f"{self.root}/") or (event in CHANGES and not path.startswith("/")):
                self.count()

    def count(self) -> None:
        self.done += 1
        if self.done == self.at:
            self.at = None
            if self.how != "killed":
                self.disk.cut()
            os._exit(STOPPED)


def recipe(root: Path, *more: str) -> Any:
    lines = {"data": {"lines": (str(root / "lines.txt"),)}}
    return resolve("reverse", flags=lines, assignments=(*SETTINGS, *SIZES, *more))


def attempt(root: Path, at: int | None = None, how: str = "killed", more: tuple[str, ...] = (), **asked: Any) -> int:
    """Trains in a process of its own; gives how it ended, and leaves how many operations there were."""
    process = os.fork()
    if process:
        return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    code = 1
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        crash = Crash(root, at, how)
        train(recipe(root, *more), root / "run", **asked)
        root.with_name("operations").write_text(str(crash.done))
        code = 0
    except BaseException:
        root.with_name("error").write_text(traceback.format_exc())
    finally:
        os._exit(code)


def ends(run: Path) -> dict[str, Any]:
    """All of a run but for times."""
    found: dict[str, Any] = {}
    for path in run.rglob("*"):
        name = path.relative_to(run)
        if path.is_dir() or "tensorboard" in name.parts:
            continue
        content: Any = path.read_bytes()
        if name.name == "metrics.jsonl":
            content = [{**json.loads(line), "tokens_per_second": 0} for line in content.splitlines()]
        if name.name == "state.json":
            content = {**json.loads(content)["progress"], "seconds": 0}
        found[str(name)] = content
    return found


def gone_on(root: Path, before: dict[str, Any], expected: dict[str, Any]) -> str | None:
    """Types what a person would, and says what is wrong with what comes of it."""
    run = root / "run"
    mine = recipe_file(run).exists() and "steps = 5" in recipe_file(run).read_text()
    if before and not mine:  # the new run had not begun
        left = {name: it for name, it in ends(run).items() if not any(map(TEMPORARY.fullmatch, Path(name).parts))}
        if left != before:
            return f"the old run is not what it was in {_differing(left, before)}"
    if attempt(root, resume=mine, overwrite=bool(before) and not mine):
        return root.with_name("error").read_text()
    found = ends(run)
    return f"differs in {_differing(found, expected)}" if found != expected else None


def _differing(one: dict[str, Any], other: dict[str, Any]) -> list[str]:
    return sorted(name for name in {**one, **other} if one.get(name) != other.get(name))


def main(folder: Path, scenario: str, how: str) -> None:
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # which, as threads, does not live through a fork
    torch.set_num_threads(1)
    first, root = folder / "first", folder / "root"
    root.mkdir(parents=True)
    (root / "lines.txt").write_text("".join(f"{a}{b}\n" for a in "abcdef" for b in "ghijkl"))
    recipe(root)  # imports the task, once
    overwritten = scenario == "overwritten"
    if overwritten:
        assert attempt(root, more=("train.steps=3",)) == 0, (folder / "error").read_text()
    before = ends(root / "run") if overwritten else {}
    shutil.copytree(root, first)
    assert attempt(root, overwrite=overwritten) == 0, (folder / "error").read_text()
    expected, operations = ends(root / "run"), int((folder / "operations").read_text())
    findings = 0
    for at in range(1, operations + 1):
        shutil.rmtree(root)
        shutil.copytree(first, root)
        ended = attempt(root, at, how, overwrite=overwritten)
        if ended == 0:  # a thread had less to do this time
            continue
        said = gone_on(root, before, expected) if ended == STOPPED else (folder / "error").read_text()
        if said:
            findings += 1
            print(f"operation {at}: {said}", flush=True)
            if how == "unsynced":
                break
    print(f"{operations} operations, {findings} findings")


if __name__ == "__main__":
    main(Path(sys.argv[1]).absolute(), *sys.argv[2:])
