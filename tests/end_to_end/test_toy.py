"""A new task costs a folder of four files and one line: a whole one, by the commands that every task has."""

from pathlib import Path

import pytest
import toy

from manyheads.tasks.task import TASKS

from .conftest import called


@pytest.fixture
def _registered(monkeypatch):
    """With the one line."""
    monkeypatch.setitem(TASKS, "reverse", "toy")


@pytest.fixture
def lines(tmp_path) -> Path:
    path = tmp_path / "lines.txt"
    path.write_text("".join(f"{a}{b}\n" for a in "abcdef" for b in "ghijkl"), encoding="utf-8")
    return path


def test_a_task_is_four_small_files():
    files = [path for path in Path(toy.__file__).parent.glob("*.py") if path.name != "__init__.py"]
    assert sorted(path.name for path in files) == ["data.py", "recipe.py", "training.py", "use.py"]
    assert sum(len(path.read_text(encoding="utf-8").splitlines()) for path in files) <= 150


@pytest.mark.usefixtures("_registered")
def test_it_has_help_flags_a_recipe_and_a_card(lines, tmp_path):
    helped = called("train", "reverse", "--help")
    assert "Train a model that writes lines backwards." in helped.out
    assert "--lines" in helped.out
    assert "Files of lines; every 10th line is held out." in " ".join(helped.out.replace("│", " ").split())
    shown = called("train", "reverse", "--lines", lines, "--batch-tokens", 70, "--show-recipe")
    assert "batch_tokens = 70" in shown.out
    refused = called("train", "reverse", "--out", tmp_path / "run")
    assert (refused.code, "give a file with --lines" in refused.err) == (2, True)
    assert not (tmp_path / "run").exists()


@pytest.mark.usefixtures("_registered")
def test_it_trains_resumes_to_the_same_bytes_and_is_evaluated(lines, tmp_path):
    for run, steps in (("whole", 120), ("stopped", 50)):
        flags = ["--set", f"train.steps={steps}", "train.checkpoint_every=25", "train.schedule=constant"]
        done = called("train", "reverse", "--lines", lines, "--out", tmp_path / run, *flags)
        assert done.code == 0, done.err
        assert f"try: manyheads evaluate {tmp_path / run} --lines lines.txt" in done.err
    lines.rename(tmp_path / "moved.txt")  # a run that goes on asks for no file again
    assert called("train", "reverse", "--out", tmp_path / "stopped", "--resume", "--set", "train.steps=120").code == 0
    models = [tmp_path / run / "model" for run in ("whole", "stopped")]
    assert models[0].joinpath("model.safetensors").read_bytes() == models[1].joinpath("model.safetensors").read_bytes()
    assert "It writes lines backwards, as it learned from 32;" in (models[0] / "README.md").read_text(encoding="utf-8")
    scored = called("evaluate", tmp_path / "whole", "--lines", tmp_path / "moved.txt")
    assert scored.out.startswith("reversed")
    assert float(scored.out.split()[1]) > 90
