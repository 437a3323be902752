"""A picture learned as a function of its coordinates, as a person types it."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from .conftest import called, files_in, refused, started, tables

pytest.importorskip("matplotlib", reason="matplotlib is not installed: pip install 'manyheads[look]'")
Image = pytest.importorskip("PIL.Image", reason="pillow is not installed: pip install 'manyheads[images]'")

ARMS = ["raw", "sines", "random sines"]
TINY = ("--size", 12, "--steps", 9, "--device", "cpu")


@pytest.fixture
def photo(tmp_path) -> Path:
    path = tmp_path / "photo.png"
    Image.fromarray(np.random.default_rng(2).integers(0, 256, (15, 21, 3), dtype=np.uint8)).save(path)
    return path


def test_a_photo_becomes_a_picture_an_animation_and_numbers(photo, tmp_path):
    out = tmp_path / "new" / "out"
    found = tables("image-function", photo, "--out", out, *TINY)
    assert [each["arm"] for each in found] == ARMS
    assert [each["parameters"] for each in found] == [33_795, 49_923, 49_923]
    assert {path.name for path in out.iterdir()} == {"image-function.png", "image-function.webp", "metrics.jsonl"}
    with Image.open(out / "image-function.png") as picture:
        assert min(picture.size) > 1000
    with Image.open(out / "image-function.webp") as film:
        assert film.n_frames == 10
        first = np.asarray(film.convert("RGB")).astype(int)
        film.seek(9)
        assert np.abs(np.asarray(film.convert("RGB")) - first).max() > 30
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    assert [(line["arm"], line["step"]) for line in lines] == [(arm, step) for arm in ARMS for step in range(10)]
    assert set(lines[0]) == {"arm", "step", "seconds", "psnr"}
    last = {line["arm"]: line["psnr"] for line in lines}
    assert last == {each["arm"]: each["psnr"] for each in found}


def test_the_photo_that_ships_needs_no_name_and_a_gif_is_one_flag(tmp_path):
    found = called("image-function", "--out", tmp_path / "out", "--gif", *TINY)
    assert found.code == 0, found.err
    assert [line.split("\t")[0] for line in found.out.splitlines()] == ARMS
    assert "chelsea.png, 12 × 12 pixels" in found.err
    assert found.err.count("step ") >= 9  # a line at each tenth
    with Image.open(tmp_path / "out" / "image-function.gif") as film:
        assert (film.format, film.n_frames) == ("GIF", 10)


def test_it_takes_the_place_of_what_it_wrote_before_and_of_nothing_else(photo, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    (out / "mine.txt").write_text("mine")
    for steps in (1, 2):
        assert called("image-function", photo, "--out", out, *TINY, "--steps", steps).code == 0
        assert len((out / "metrics.jsonl").read_text().splitlines()) == 3 * (steps + 1)
    assert (out / "mine.txt").read_text() == "mine"
    assert len(files_in(out)) == 4
    (out / "recipe.toml").touch()
    before = files_in(out)
    assert "is a training run" in refused("image-function", photo, "--out", out, *TINY)
    assert files_in(out) == before


def test_what_cannot_be_is_one_sentence_and_leaves_nothing(photo, tmp_path, monkeypatch):
    (tmp_path / "text.png").write_text("no picture")
    Image.new("RGB", (1, 1)).save(tmp_path / "dot.png")
    out = tmp_path / "out"
    for arguments, sentence in (
        ([tmp_path / "text.png"], "is no picture"),
        ([tmp_path / "dot.png"], "1 × 1 pixels, which show nothing"),
        ([tmp_path / "nothing.png"], "nothing.png is not there"),
        ([tmp_path], "is a folder, not a picture"),
        ([photo, "--steps", 0], "steps is 0"),
        ([photo, "--size", 1], "size is 1; choose from 2"),
        ([photo, "--size", 5000], "size is 5000; choose from 2 to 1,024"),
        ([photo, "--seed", -1], "seed is -1"),
        ([photo, "--device", "tpu"], "'tpu' is not a device"),
        ([photo, "--out", photo], "is a file; give another --out"),
        ([photo, "--out", photo / "below"], "is a file; give another --out"),
    ):
        assert sentence in refused("image-function", "--out", out, *arguments)
    assert not out.exists()
    for package, named in (("PIL.Image", "pillow"), ("matplotlib", "matplotlib")):
        monkeypatch.setitem(sys.modules, package, None)
        assert f"needs {named}, which is not installed" in refused("image-function", photo, "--out", out)
    assert not out.exists()


def test_ctrl_c_keeps_what_was_drawn_by_then(photo, tmp_path):
    out = tmp_path / "out"
    arguments = ("--size", 12, "--steps", 100_000, "--device", "cpu")
    process = started("image-function", photo, "--out", out, *arguments, stderr=subprocess.PIPE)
    assert process.stderr is not None
    while b"step 0/" not in process.stderr.readline():
        assert process.poll() is None
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate()
    assert process.returncode == 130
    last = errors.decode().splitlines()[-1]
    assert last.startswith("manyheads: stopped after step ")
    assert "Traceback" not in errors.decode()
    steps = int(last.split()[4])
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    assert {line["arm"] for line in lines} == {*ARMS}
    assert abs(max(line["step"] for line in lines) - steps) <= 1
    for name in ("image-function.png", "image-function.webp"):
        with Image.open(out / name) as picture:
            picture.load()
    assert len(files_in(out)) == 3


def test_a_long_run_is_written_while_it_learns(photo, tmp_path, monkeypatch):
    from manyheads.labs import image_function as lab

    written = []
    monkeypatch.setattr(lab, "EVERY", 0.0)
    monkeypatch.setattr(lab, "_write", lambda comparison, out, ending: written.append(len(comparison.frames)))
    lab.compare(photo, tmp_path / "out", size=5, steps=3, device="cpu")
    assert written == [1, 2, 3, 4, 4]
