"""The proof that a killed run resumes bit for bit, on the user's own recipe."""

import filecmp
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from manyheads.core.configs import read_toml
from manyheads.core.errors import ConfigError, ManyheadsError
from manyheads.core.files import parse_json
from manyheads.core.log import counting, say
from manyheads.tasks.run_directory import given_recipe
from manyheads.tasks.task import TASKS, task_of
from manyheads.train.checkpoint import Checkpoints, first_difference


def prove(recipe: Path, *, steps: int = 20, seed: int | None = None) -> str | None:
    """The first tensor in which an uninterrupted run and one killed at a random step and resumed differ, or None."""
    file = given_recipe(recipe)
    if steps < 3:
        raise ConfigError(f"--steps is {steps}, which leaves nothing to kill in the middle of; use at least 3")
    every = max(steps // 5, 1)
    kill_at = random.Random(seed).randint(every, steps - 1)
    changes = [f"train.steps={steps}", f"train.checkpoint_every={every}", "train.keep=5", "train.average=3"]
    changes += [f"train.valid_every={steps + 1}", "train.log_every=1"]
    with tempfile.TemporaryDirectory(prefix="manyheads-prove-") as directory:
        whole, killed, log = (Path(directory) / name for name in ("whole", "killed", "log"))
        table = read_toml(file)
        task = str(table.get("task", "translate"))
        own = task_of(task).own_data if task in TASKS else ()
        if own and not set(own) & set(table.get("data", {})):
            say("the recipe names no data: this proof runs on the sample corpus")
        say(f"a run of {steps} steps, undisturbed")
        _finish(_start(log, task, "--recipe", str(file), "--out", str(whole), "--set", *changes), log, whole, steps)
        say(f"the same run, killed with SIGKILL once it has done step {kill_at}, with a checkpoint every {every}")
        process = _start(log, task, "--recipe", str(file), "--out", str(killed), "--set", *changes)
        _finish(process, log, killed, steps, kill_at)
        say("that run, resumed")
        _finish(_start(log, task, "--out", str(killed), "--resume"), log, killed, steps)
        ends = [Checkpoints(run / "checkpoints", keep=5, every=every).newest() for run in (whole, killed)]
        if ends[0] is None or ends[1] is None or ends[0].name != ends[1].name:
            raise ManyheadsError(f"the two runs ended at different checkpoints: {ends[0]} and {ends[1]}")
        models = [run / "model" / "model.safetensors" for run in (whole, killed)]
        same = filecmp.cmp(*models, shallow=False)
        return first_difference(ends[0], ends[1]) or (None if same else "the saved model, model/model.safetensors")


def _start(log: Path, task: str, *arguments: str) -> subprocess.Popen:
    command = [sys.executable, "-m", "manyheads", "train", task, *arguments]
    # Into a file, not a pipe: nobody reads while the run is watched, and a full pipe would stop it.
    with log.open("w", encoding="utf-8") as errors:
        return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=errors)


def _finish(process: subprocess.Popen, log: Path, run: Path, steps: int, kill_at: int | None = None) -> None:
    """Waits for the end of a run, which is killed at a step if one is given."""
    with counting("steps", steps) as show:
        while process.poll() is None:
            done = _last_step(run / "metrics.jsonl")
            show(done)
            if kill_at is not None and done >= kill_at:
                process.send_signal(signal.SIGKILL)
                process.wait()
                return
            time.sleep(0.01)
    if process.returncode:
        errors = log.read_text(encoding="utf-8").strip()
        raise ManyheadsError(f"training failed: {errors.splitlines()[-1] if errors else 'no word why'}")
    if kill_at is not None:
        say("it was done before it could be killed; more --steps make a better proof")


def _last_step(metrics: Path) -> int:
    lines = metrics.read_text(encoding="utf-8").splitlines() if metrics.exists() else []
    try:
        return parse_json(lines[-1])["step"] if lines else 0
    except ValueError:
        return 0
