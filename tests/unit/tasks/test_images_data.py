"""The data of an image classifier: what cannot be read is left out and named, and never all of it is in memory."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from helpers import PEAK, needs_peak

from manyheads.core.errors import ConfigError, DataError
from manyheads.data.images import ImageProcessor
from manyheads.data.ragged import Store
from manyheads.tasks.images.data import read_all, store_labelled
from manyheads.tasks.images.recipe import ImageData

Image = pytest.importorskip("PIL.Image", reason="pillow is not installed: pip install 'manyheads[images]'")


def folder(
    path: Path, count: int = 20, classes: tuple[str, ...] = ("black", "white"), size: tuple[int, int] = (6, 6)
) -> Path:
    """Pictures whose shade says which class and which one of it they are."""
    for number, name in enumerate(classes):
        (path / name).mkdir(parents=True)
        for each in range(count):
            Image.new("L", size, 100 * number + each).save(path / name / f"{each}.png")
    return path


def broken(path: Path) -> Path:
    path.write_bytes(b"no picture")
    return path


def told(capfd) -> str:
    return " ".join(capfd.readouterr().err.split())


def stored(found, directory: Path, size: int = 6) -> tuple[Store, Store]:
    directory.mkdir()
    store_labelled(found, ImageProcessor.of(size, 1), directory)
    train, valid = (Store.open(directory / part) for part in ("train", "valid"))
    return train, valid


def shades(store: Store) -> list[tuple[int, int]]:
    return [(int(store["pixels"][row][0]), int(store["labels"][row])) for row in range(len(store))]


def test_each_image_is_laid_down_with_its_label_and_a_tenth_of_each_class_apart(tmp_path, capfd):
    found = read_all(ImageData(data=(str(folder(tmp_path / "a")),)))
    assert found.about == {"names": ("black", "white"), "side": 6, "grey": True}
    train, valid = stored(found, tmp_path / "run")
    assert (len(train), len(valid)) == (36, 4)
    everything = [(100 * number + each, number) for number in (0, 1) for each in range(20)]
    assert sorted(shades(train) + shades(valid)) == everything
    assert sorted(valid["labels"]) == [0, 0, 1, 1]
    said = told(capfd)
    assert "labels: black 20, white 20" in said
    assert "36 images to learn from, 4 to validate on, 2 labels, 6 × 6 pixels in grey" in said


def test_files_that_cannot_be_read_are_left_out_named_and_counted(tmp_path, capfd):
    place = folder(tmp_path / "a", 40)
    bad = [broken(place / name / f"{each}.png") for name in ("black", "white") for each in (0, 7, 8, 9)]
    bad.append(broken(place / "white" / "new.jpg"))
    other = folder(tmp_path / "b", 3)
    broken(other / "white" / "1.png")
    found = read_all(ImageData(data=(str(place),), valid=(str(other),)))
    train, valid = stored(found, tmp_path / "run")
    everything = {(100 * number + each, number) for number in (0, 1) for each in range(40) if each not in (0, 7, 8, 9)}
    assert ({*shades(train)}, len(train)) == (everything, len(everything))  # what is behind them has its own label
    assert shades(valid) == [(0, 0), (1, 0), (2, 0), (100, 1), (102, 1)]
    said = told(capfd)
    assert [f"left out: {path} is no picture" in said for path in bad] == [True] * 5 + [False] * 4
    assert "left out: 9 of 81 images, of which the first 5 are named above" in said
    assert f"left out: {other / 'white' / '1.png'} is no picture" in said
    assert "72 images to learn from, 5 to validate on" in said


def test_where_no_image_can_be_read_nothing_is_stored(tmp_path):
    place = folder(tmp_path / "a", 3)
    for path in place.rglob("*.png"):
        broken(path)
    found = read_all(ImageData(data=(str(place),), valid=(str(folder(tmp_path / "b", 3)),)))
    with pytest.raises(DataError, match=r"none of the 6 images can be read; the first: .*0\.png is no picture"):
        stored(found, tmp_path / "run")
    assert [*(tmp_path / "run").iterdir()] == []


def test_labels_that_cannot_be_learned_are_refused(tmp_path):
    both = folder(tmp_path / "both")
    with pytest.raises(DataError, match="every image has the label black; there must be two or more"):
        read_all(ImageData(data=(str(folder(tmp_path / "one", classes=("black",))),)))
    with pytest.raises(DataError, match="a label of its own; give a sub-folder for each class"):
        read_all(ImageData(data=(str(folder(tmp_path / "each", 1, ("a", "b", "c"))),)))
    other = folder(tmp_path / "other", 2, ("black", "green", "white"))
    said = rf"{other}: the label 'green' is not among those of the training images \(black, white\)"
    with pytest.raises(DataError, match=said):
        read_all(ImageData(data=(str(both),), valid=(str(other),)))
    for name in ("\udcffcat", "\ud83d"):
        np.savez(tmp_path / "a.npz", images=np.zeros((4, 6, 6), np.uint8), labels=np.array([name, "b"] * 2))
        with pytest.raises(DataError, match=r"a\.npz: the label '\\ud.* is not UTF-8, as a model's files are; rename"):
            read_all(ImageData(data=(str(tmp_path / "a.npz"),)))
    with pytest.raises(ConfigError, match="valid is given without"):
        ImageData(valid=(str(both),))


def test_a_divided_folder_is_learned_from_in_one_part_and_validated_on_another(tmp_path):
    place = tmp_path / "all"
    for part, count in (("train", 9), ("val", 3), ("test", 2)):
        folder(place / part, count)
    found = read_all(ImageData(data=(str(place),), valid=(str(place),)))
    assert (len(found.train), len(found.valid)) == (18, 6)


def test_what_a_divided_place_brings_to_validate_on_is_taken_and_what_is_to_test_on_never(tmp_path, capfd):
    place, pixels = tmp_path / "all", np.arange(5 * 36, dtype=np.uint8).reshape(5, 6, 6)
    for part, count in (("train", 20), ("test", 2)):
        folder(place / part, count)
    labels = np.array([*"ababa"])
    np.savez(tmp_path / "a.npz", x_train=pixels, y_train=labels, x_val=pixels[:3], y_val=labels[:3])
    np.savez(tmp_path / "b.npz", x_train=pixels, y_train=labels, x_test=pixels[:3], y_test=labels[:3])
    for name, parts, said in (
        (place, (36, 4), "held out for validation: 4 of 40 images"),
        (tmp_path / "a.npz", (5, 3), f"{tmp_path / 'a.npz'} has a valid part, which is validated on; name others with"),
    ):
        found = read_all(ImageData(data=(str(name),)))
        assert (len(found.train), len(found.valid)) == parts
        assert said in told(capfd)
    with pytest.raises(DataError, match="too few images, 5, to hold some out; give others with --valid"):
        read_all(ImageData(data=(str(tmp_path / "b.npz"),)))
    folder(place / "val", 3)
    found = read_all(ImageData(data=(str(place),)))
    assert {source.parts[-3] for source, _ in found.train} == {"train"}
    assert {source.parts[-3] for source, _ in found.valid} == {"val"}
    assert (len(found.train), len(found.valid)) == (40, 6)
    assert f"{place} has a valid part, which is validated on" in told(capfd)
    found = read_all(ImageData(data=(str(place),), valid=(str(place / "test"),)))
    assert {source.parts[-3] for source, _ in found.valid} == {"test"}  # which somebody asked for
    assert "valid part" not in told(capfd)


def test_several_places_are_one_set_whose_size_is_that_of_all(tmp_path):
    small, large = folder(tmp_path / "a"), folder(tmp_path / "b", size=(8, 8))
    assert read_all(ImageData(data=(str(small), str(small)))).about["side"] == 6
    found = read_all(ImageData(data=(str(small), str(large))))
    assert (found.about["side"], found.about["grey"]) == (None, True)
    Image.new("RGB", (6, 6), "red").save(small / "black" / "red.png")
    assert not read_all(ImageData(data=(str(small), str(large)))).about["grey"]


def test_a_full_disk_is_told_before_anything_is_read(tmp_path, monkeypatch):
    found = read_all(ImageData(data=(str(folder(tmp_path / "a")),)))
    monkeypatch.setattr("manyheads.tasks.pictures.shutil.disk_usage", lambda path: type("Usage", (), {"free": 1000}))
    with pytest.raises(
        DataError, match=r"40 images of 6 × 6 pixels take 1,440 bytes on the disk, which has 1,000 bytes"
    ):
        stored(found, tmp_path / "run")
    assert [*(tmp_path / "run").iterdir()] == []


def test_nothing_at_all_is_the_digits(tmp_path):
    pytest.importorskip("sklearn", reason="scikit-learn is not installed: pip install 'manyheads[images]'")
    found = read_all(ImageData())
    assert found.about == {"names": tuple("0123456789"), "side": 8, "grey": True}
    train, valid = stored(found, tmp_path / "run", size=8)
    assert (len(train), len(valid)) == (1438 - 143, 143)
    assert train["pixels"][0].shape == (64,)


BOUNDED = f"""{PEAK}
import sys
from types import SimpleNamespace
import numpy as np
from PIL import Image
from manyheads.data import images
from manyheads.data.images import ImageProcessor
from manyheads.data.readers.images import read_image
from manyheads.tasks.images.data import read_all, store_labelled
from manyheads.tasks.images.recipe import ImageData

images.os = SimpleNamespace(cpu_count=lambda: 2)  # each core reads some ahead
read_image(sys.argv[1] + "/black/0.png")
found = read_all(ImageData(data=(sys.argv[1],)))
before = peak()
Path(sys.argv[2]).mkdir()
store_labelled(found, ImageProcessor.of(int(sys.argv[3]), 3), Path(sys.argv[2]))
stored = sum(each.stat().st_size for each in Path(sys.argv[2]).rglob("*"))
print(len(found.train) + len(found.valid), stored, 1024 * (peak() - before))
"""


@needs_peak
def test_images_that_are_larger_than_memory_together_are_stored_a_few_at_a_time(tmp_path):
    """3,000 pictures of 160 × 160 pixels, 230 MB, which are stored as 37 MB."""
    grown = grown_by(tmp_path, 3000, 160, size=64)
    assert grown < 20_000_000, f"{grown:,} bytes more"  # so that not even what is stored was there at once


@needs_peak
def test_and_fewer_where_each_is_large(tmp_path):
    """80 pictures that are made 1024 × 1024, 250 MB: 67 MB at once, and once more as what is written."""
    grown = grown_by(tmp_path, 80, 16, size=1024)
    assert grown < 300_000_000, f"{grown:,} bytes more"


def grown_by(tmp_path: Path, count: int, side: int, *, size: int) -> int:
    """How many bytes more a process has at most that stores so many pictures."""
    place = tmp_path / "a"
    for number, name in enumerate(("black", "white")):
        (place / name).mkdir(parents=True)
        Image.new("RGB", (side, side), (100 * number,) * 3).save(place / name / "0.png")
        for each in range(1, count // 2):
            (place / name / f"{each}.png").hardlink_to(place / name / "0.png")
    command = [sys.executable, "-c", BOUNDED, str(place), str(tmp_path / "run"), str(size)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found, stored, grown = map(int, done.stdout.split())
    assert (found, stored > count * size * size * 3) == (count, True)
    return grown
