"""Labelled images: folders, MNIST, CIFAR and .npz are read as they were written, and refused in a sentence if not."""

import gzip
import os
import pickle
import subprocess
import sys
import zipfile
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from helpers import written

from manyheads.core.errors import ConfigError, DataError, MissingExtra
from manyheads.data.readers.image_sets import digits, read_image_set

PIL_Image = pytest.importorskip("PIL.Image", reason="pillow is not installed: pip install 'manyheads[images]'")
ROW = 3 * 32 * 32


def numbers(*shape: int, seed: int = 1, dtype: type = np.uint8) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, shape).astype(dtype)


def picture(path: Path, size: tuple[int, int] = (5, 7), mode: str = "RGB") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    PIL_Image.new(mode, size, 90).save(path)
    return path


def refused(path: Path, part: str = "train") -> str:
    with pytest.raises(DataError) as error:
        read_image_set(path, part)
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)
    return str(error.value)


# Folders


def test_a_folder_for_each_class_gives_its_pictures_in_order_none_of_them_opened(tmp_path):
    for name in ("cat/10.png", "cat/9.PNG", "cat/deeper/more/1.jpg", "dog/a.gif", "dog/.hidden.png", "dog/notes.txt"):
        written(tmp_path / name, "no picture at all")
    (tmp_path / ".git").mkdir()
    found = read_image_set(tmp_path)
    names = [str(path.relative_to(tmp_path)) for path in found.images]
    assert names == ["cat/9.PNG", "cat/10.png", "cat/deeper/more/1.jpg", "dog/a.gif"]
    assert found.labels == ["cat", "cat", "cat", "dog"]
    assert found.path == str(tmp_path)


@pytest.mark.parametrize(
    ("folders", "taken"),
    [
        (("train", "test"), {"train": "train", "test": "test", "valid": "test"}),
        (("train", "val"), {"train": "train", "test": "val", "valid": "val"}),
        (("Training", "validation", "TEST"), {"train": "Training", "test": "TEST", "valid": "validation"}),
        (("train",), {"train": "train", "test": "train", "valid": "train"}),
    ],
)
def test_of_a_divided_folder_the_part_is_taken_that_is_asked_for(tmp_path, folders, taken):
    for folder in folders:
        picture(tmp_path / folder / "cat" / "1.png")
        picture(tmp_path / folder / "dog" / "1.png")
    for part, folder in taken.items():
        found = read_image_set(tmp_path, part)
        assert found.images == [tmp_path / folder / name / "1.png" for name in ("cat", "dog")]
        assert found.labels == ["cat", "dog"]
    whole = read_image_set(tmp_path / folders[0], "test")  # a folder that is not divided is all that there is
    assert whole.images == read_image_set(tmp_path).images


def test_a_part_that_stands_in_for_another_is_told_of(tmp_path, capsys):
    picture(tmp_path / "a" / "train" / "cat" / "1.png")
    for part in ("train", "test", "valid"):
        read_image_set(tmp_path / "a", part)
        read_image_set(tmp_path / "a" / "train", part)  # which is not divided
    said = " ".join(capsys.readouterr().err.split())
    assert said.count("taken") == 2
    for part in ("test", "valid"):
        assert f"warning: {tmp_path / 'a'} has no {part} part; its train part is taken instead" in said
    np.savez(tmp_path / "a.npz", x_train=PIXELS, y_train=CLASSES, x_test=PIXELS[:2], y_test=CLASSES[:2])
    read_image_set(tmp_path / "a.npz", "valid")
    assert capsys.readouterr().err == f"{tmp_path / 'a.npz'} has no valid part; its test part is taken instead\n"


def test_a_class_may_be_called_train(tmp_path):
    for name in ("bus/1.png", "train/1.png", "train/2.png"):
        picture(tmp_path / name)
    assert read_image_set(tmp_path).labels == ["bus", "train", "train"]
    assert read_image_set(tmp_path, "test").labels == ["bus", "train", "train"]


def test_a_folder_that_may_be_divided_or_not_is_refused(tmp_path):
    picture(tmp_path / "train" / "cat" / "1.png")
    picture(tmp_path / "notes" / "1.png")
    assert "holds train, as if it were divided, and also notes; name" in refused(tmp_path)
    (tmp_path / "notes" / "1.png").unlink()
    (tmp_path / "notes").rmdir()
    (tmp_path / "val").mkdir()
    (tmp_path / "valid").mkdir()
    assert "holds train, val, valid, two of which are the same part" in refused(tmp_path)


def test_folders_without_what_is_needed_are_refused_by_name(tmp_path):
    picture(tmp_path / "cat" / "1.png")
    (tmp_path / "dog").mkdir()
    assert f"the folder {tmp_path / 'dog'} of a class holds no picture" in refused(tmp_path)
    assert "holds nothing, neither a sub-folder for each class" in refused(tmp_path / "dog")
    assert "holds 1.png, neither a sub-folder for each class" in refused(tmp_path / "cat")
    written(tmp_path / "more" / "a.npz", b"")
    assert "holds a.npz, neither" in refused(tmp_path / "more")
    assert "is not there; check the path" in refused(tmp_path / "none")
    assert "is a file, where a folder of images or an .npz is wanted; name the folder" in refused(
        tmp_path / "cat/1.png"
    )
    for name, said in (("cifar-10-python.tar.gz", "unpack it, and name the folder"), ("a.gz", "name the folder that")):
        assert said in refused(written(tmp_path / name, b""))
    picture(tmp_path / "divided" / "train" / "1.png")
    (tmp_path / "divided" / "test").mkdir()
    with pytest.raises(DataError, match=r"divided/train holds 1\.png, neither a sub-folder"):
        read_image_set(tmp_path / "divided")
    picture(tmp_path / "tested" / "test" / "cat" / "1.png")
    assert "has no part to learn from, only test; name another place" in refused(tmp_path / "tested")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes with a name here")
def test_a_place_that_is_a_pipe_or_a_device_is_refused_and_in_a_class_passed_over(tmp_path):
    os.mkfifo(tmp_path / "a.npz")
    for place in (tmp_path / "a.npz", Path(os.devnull)):
        assert "is neither a folder nor a file; name a folder of images or an .npz" in refused(place)
    for name in ("cat/1.png", "dog/1.png"):
        picture(tmp_path / "all" / name)
    os.mkfifo(tmp_path / "all" / "cat" / "2.png")
    assert read_image_set(tmp_path / "all").size == (7, 5)


def test_pictures_beside_the_folders_of_classes_are_told_of(tmp_path, capsys):
    for name in ("cat/1.png", "dog/1.png", "b.png", "a.png"):
        picture(tmp_path / name)
    assert read_image_set(tmp_path).labels == ["cat", "dog"]
    assert "2 pictures beside the folders of classes, as a.png, left out" in " ".join(capsys.readouterr().err.split())


def test_files_of_no_kind_of_picture_among_those_of_a_class_are_counted_and_one_of_them_is_named(tmp_path, capsys):
    for name in ("cat/1.png", "dog/1.png"):
        picture(tmp_path / name)
    for name in ("cat/Thumbs.db", "dog/desktop.ini", "dog/.DS_Store", "dog/.hidden/2.heic"):
        written(tmp_path / name, b"")
    assert len(read_image_set(tmp_path).images) == 2
    assert capsys.readouterr().err == ""
    for name in ("cat/2.heic", "cat/deeper/3", "dog/notes.txt"):
        written(tmp_path / name, b"")
    assert len(read_image_set(tmp_path).images) == 2
    said = " ".join(capsys.readouterr().err.split())
    place = tmp_path / "cat" / "2.heic"
    assert said == f"warning: {tmp_path}: 3 files of no kind of picture that is read, as {place}, left out"
    (tmp_path / "cat" / "1.png").unlink()
    assert f"the folder {tmp_path / 'cat'} of a class holds no picture but 2.heic, 3; put pict" in refused(tmp_path)


def test_size_and_shades_are_those_that_all_pictures_share(tmp_path):
    for name, size in (("a/1.png", (5, 7)), ("b/1.png", (5, 7))):
        picture(tmp_path / name, size, "L")
    written(tmp_path / "b" / "broken.png", "no picture")
    found = read_image_set(tmp_path)
    assert (found.size, found.grey) == ((7, 5), True)
    picture(tmp_path / "b" / "2.png", (5, 7), "RGB")
    found = read_image_set(tmp_path)
    assert (found.size, found.grey) == ((7, 5), False)
    picture(tmp_path / "b" / "3.png", (7, 5), "RGB")
    assert read_image_set(tmp_path).size is None


# MNIST


def idx(array: np.ndarray) -> bytes:
    shape = b"".join(length.to_bytes(4, "big") for length in array.shape)
    return bytes((0, 0, 8, array.ndim)) + shape + array.tobytes()


@pytest.mark.parametrize("mark", "-.")
@pytest.mark.parametrize("packing", ["", ".gz"])
def test_idx_files_read_back_as_written(tmp_path, mark, packing):
    sets = {"train": (numbers(11, 5, 7), numbers(11) % 10), "t10k": (numbers(3, 5, 7, seed=2), numbers(3) % 10)}
    for part, (images, labels) in sets.items():
        written(tmp_path / f"{part}-images{mark}idx3-ubyte{packing}", idx(images))
        written(tmp_path / f"{part}-labels{mark}idx1-ubyte{packing}", idx(labels))
    for part, kind in (("train", "train"), ("test", "t10k"), ("valid", "t10k")):
        found = read_image_set(tmp_path, part)
        assert (np.stack(found.images) == sets[kind][0]).all()
        assert found.labels == [str(label) for label in sets[kind][1]]
        assert (found.size, found.grey) == ((5, 7), True)


def test_idx_files_that_are_cut_off_or_do_not_belong_together_are_refused(tmp_path):
    images, labels = tmp_path / "train-images-idx3-ubyte", tmp_path / "train-labels-idx1-ubyte"
    whole = idx(numbers(11, 5, 7))
    written(images, whole)
    assert "is there without its labels; put train-labels-idx1-ubyte beside it" in refused(tmp_path)
    written(labels, idx(numbers(9)))
    assert "has 11 images, but 9 labels" in refused(tmp_path)
    written(labels, idx(numbers(11)))
    assert len(read_image_set(tmp_path).images) == 11
    for content, said in (
        (whole[:-1], "is cut off: 11 × 5 × 7 numbers need 385 bytes, but it has 384"),
        (whole + b"x", "goes on behind the 385 bytes"),
        (whole[:9], "is no IDX file of bytes as MNIST has them, or is cut off"),
        (b"", "is no IDX file"),
        (whole[:2] + b"\x0d" + whole[3:], "is no IDX file"),
        (idx(numbers(11)), "is no IDX file"),
        (idx(numbers(0, 5, 7)), "is empty: it says that its shape is [0, 5, 7]"),
    ):
        written(images, content)
        assert said in refused(tmp_path)
        images.unlink()
        packed = written(images.with_suffix(".gz"), content)
        assert said in refused(tmp_path)
        packed.unlink()
    packed.write_bytes(gzip.compress(whole)[:-9])
    assert "cannot be read" in refused(tmp_path)
    packed.write_bytes(b"no gzip")
    assert "cannot be read" in refused(tmp_path)
    vast = bytes((0, 0, 8, 3)) + b"\xff\xff\xff\xff" * 3
    packed.write_bytes(gzip.compress(vast))
    with pytest.raises(ConfigError, match=r"need about .* of memory, .*; unpack the file"):
        read_image_set(tmp_path)


def test_only_a_test_part_is_nothing_to_learn_from(tmp_path):
    written(tmp_path / "t10k-images-idx3-ubyte", idx(numbers(3, 5, 7)))
    written(tmp_path / "t10k-labels-idx1-ubyte", idx(numbers(3)))
    assert "has no part to learn from, only test" in refused(tmp_path)
    assert len(read_image_set(tmp_path, "test").images) == 3


def test_mnist_as_it_was_published(data_set):
    for part, count, first in (("train", 60_000, "5041921314"), ("test", 10_000, "7210414959")):
        found = read_image_set(data_set("mnist"), part)
        assert (len(found.images), "".join(found.labels[:10])) == (count, first)
        assert (found.size, found.grey) == ((28, 28), True)
        assert 30 < np.mean(found.images[:1000]) < 36  # black, with white digits


# CIFAR

NAMES = ["plane", "car", "bird", "cat", "deer"]


def rows(count: int, seed: int) -> tuple[np.ndarray, list[int]]:
    return numbers(count, ROW, seed=seed), (numbers(count, seed=seed) % len(NAMES)).tolist()


def as_pictures(pixels: np.ndarray) -> np.ndarray:
    """Red of all pixels, then green, then blue, each row by row: as CIFAR's page says."""
    return np.stack(
        [[[row[c * 1024 + 32 * y + x] for c in range(3)] for y in range(32) for x in range(32)] for row in pixels]
    ).reshape(-1, 32, 32, 3)


def cifar_binary(folder: Path, batches: dict, label_bytes: int = 1, names: str = "batches.meta.txt") -> Path:
    for name, (pixels, labels) in batches.items():
        marks = np.array([[7] * (label_bytes - 1) + [label] for label in labels], np.uint8)
        written(folder / name, np.hstack([marks, pixels]).tobytes())
    written(folder / names, "\n".join(NAMES) + "\n\n")
    return folder


def cifar_python(folder: Path, batches: dict, dumped, labels: str = "labels", names: str = "batches.meta") -> Path:
    key = labels.replace("labels", "label_names")
    for name, (pixels, classes) in batches.items():
        written(folder / name, dumped({"batch_label": name, labels: classes, "data": pixels, "filenames": ["x.png"]}))
    written(folder / names, dumped({"num_vis": ROW, key: NAMES}))
    return folder


def as_python_2(table: dict) -> bytes:
    """What cPickle of Python 2 wrote, instruction by instruction as in the files that are handed out."""

    def text(value: str) -> bytes:
        return b"U" + bytes([len(value)]) + value.encode()

    def value_of(value) -> bytes:
        if isinstance(value, np.ndarray):
            count, width = value.shape
            head = b"cnumpy.core.multiarray\n_reconstruct\nq\x07cnumpy\nndarray\nq\x08K\x00\x85U\x01b\x87Rq\t(K\x01"
            shape = b"M" + count.to_bytes(2, "little") + b"M" + width.to_bytes(2, "little") + b"\x86"
            kind = (
                b"cnumpy\ndtype\nq\nU\x02u1K\x00K\x01\x87Rq\x0b(K\x03U\x01|NNN" + b"J\xff\xff\xff\xff" * 2 + b"K\x00tb"
            )
            return head + shape + kind + b"\x89T" + value.size.to_bytes(4, "little") + value.tobytes() + b"tb"
        if isinstance(value, list):
            return b"]q\x05(" + b"".join(map(value_of, value)) + b"e"
        return text(value) if isinstance(value, str) else b"M" + value.to_bytes(2, "little")

    return b"\x80\x02}q\x01(" + b"".join(text(name) + b"q\x02" + value_of(each) for name, each in table.items()) + b"u."


def by_protocol(number: int):
    return lambda table: pickle.dumps(table, number)


def with_bytes(table: dict) -> bytes:
    """As Python 3 writes again what it read with encoding="bytes"."""
    return pickle.dumps({name.encode(): each for name, each in table.items()}, 4)


def with_arrays(table: dict) -> bytes:
    """Labels in an array, pixels column by column, a number of numpy."""
    changed = {name: np.asfortranarray(each) if name == "data" else each for name, each in table.items()}
    changed |= {name: np.array(each) for name, each in table.items() if name.endswith("labels")}
    return pickle.dumps({**changed, "num_vis": np.int64(ROW)}, 5)


WRITERS = {
    "Python 2": as_python_2, "2": by_protocol(2), "3": by_protocol(3), "4": by_protocol(4), "5": by_protocol(5),
    "bytes": with_bytes, "arrays": with_arrays,
}  # fmt: skip


def same(folder: Path, part: str, batches: list) -> None:
    found = read_image_set(folder, part)
    assert (np.stack(found.images) == np.concatenate([as_pictures(pixels) for pixels, _ in batches])).all()
    assert found.labels == [NAMES[label] for _, labels in batches for label in labels]
    assert (found.size, found.grey) == ((32, 32), False)


@pytest.mark.parametrize("kind", ["binary", *WRITERS])
def test_cifar_reads_back_as_written(tmp_path, kind):
    ten = {f"data_batch_{each}": rows(3 + each, each) for each in (2, 10, 1)}
    ordered = [ten[f"data_batch_{each}"] for each in (1, 2, 10)]
    hundred, test = rows(7, 8), rows(4, 9)
    if kind == "binary":
        files = {f"{name}.bin": batch for name, batch in ten.items()}
        cifar_binary(tmp_path / "ten", {**files, "test_batch.bin": test})
        cifar_binary(tmp_path / "hundred", {"train.bin": hundred, "test.bin": test}, 2, "fine_label_names.txt")
    else:
        cifar_python(tmp_path / "ten", {**ten, "test_batch": test}, WRITERS[kind])
        cifar_python(tmp_path / "hundred", {"train": hundred, "test": test}, WRITERS[kind], "fine_labels", "meta")
    same(tmp_path / "ten", "train", ordered)
    same(tmp_path / "hundred", "train", [hundred])
    for folder in ("ten", "hundred"):
        same(tmp_path / folder, "test", [test])
        same(tmp_path / folder, "valid", [test])


def test_cifar_that_is_cut_off_or_another_file_is_refused(tmp_path):
    folder = cifar_binary(tmp_path, {"data_batch_1.bin": rows(3, 1)})
    file = folder / "data_batch_1.bin"
    whole = file.read_bytes()
    for content in (whole[:-1], whole[:100], b"", whole + b"x"):
        file.write_bytes(content)
        assert f"data_batch_1.bin has {len(content):,} bytes, where CIFAR's images take 3,073 each" in refused(folder)
    file.write_bytes(bytes([len(NAMES)]) + whole[1:])
    assert "has labels from" in refused(folder)
    assert "but there are 5 names" in refused(folder)
    file.write_bytes(whole)
    (folder / "batches.meta.txt").unlink()
    assert "nor CIFAR's batches with the file that names the classes" in refused(folder)


def test_pickles_that_are_cut_off_or_hold_something_else_are_refused(tmp_path):
    pixels, labels = rows(3, 1)
    folder = cifar_python(tmp_path, {"data_batch_1": (pixels, labels)}, as_python_2)
    file = folder / "data_batch_1"
    whole = file.read_bytes()
    dumped = by_protocol(2)
    for content, said in (
        (whole[:-5], "is damaged or cut off"),
        (whole[:4000], "is damaged or cut off"),
        (b"", "cannot be read"),
        (b"\xff\xfe" + whole, "is no pickle of protocol 2 or higher"),
        (pickle.dumps({"data": pixels.tolist(), "labels": labels}, 0), "is no pickle of protocol 2 or higher"),
        (dumped([1, 2]), "is a pickle that holds no table"),
        (dumped({1: 2}), "is damaged or cut off"),
        (dumped({"data": pixels}), "has no labels, as CIFAR has it, but data"),
        (dumped({"labels": labels, "data": pixels.tolist()}), "has no data"),
        (dumped({"labels": labels, "data": pixels[:, 1:]}), "its data are uint8 of the shape [3, 3071]"),
        (dumped({"labels": labels, "data": pixels.astype(float)}), "its data are float64"),
        (dumped({"labels": labels[:2], "data": pixels}), "has 3 images, but 2 labels"),
        (dumped({"labels": [0, 1, 5], "data": pixels}), "has labels from 0 to 5, but there are 5 names"),
        (dumped({"labels": [0, 1, -1], "data": pixels}), "has labels from -1 to 1, but there are 5 names"),
        (dumped({"labels": [1, 1, [1, 2]], "data": pixels}), "has labels of which some are lists"),
        (dumped({"labels": ["a", "b", "c"], "data": pixels}), "has labels of the type <U1; give the number of one of"),
    ):
        file.write_bytes(content)
        assert said in refused(folder)


def test_names_of_classes_that_are_no_texts_are_refused(tmp_path):
    folder = cifar_python(tmp_path, {"data_batch_1": rows(3, 1)}, as_python_2)
    for names in ([1, 2, 3, 4, 5], [*NAMES[1:], None]):
        written(folder / "batches.meta", pickle.dumps({"label_names": names}, 2))
        assert "batches.meta: its label_names are not all texts, as CIFAR's are" in refused(folder)


EACH_REFUSED = """
import sys
from pathlib import Path
from manyheads.core.errors import DataError
from manyheads.data.readers.image_sets import read_image_set
for place in sys.argv[1:]:
    try:
        read_image_set(Path(place))
    except DataError as error:
        print(error, flush=True)
"""


def test_tuples_in_tuples_without_end_are_refused_by_the_machine_that_meets_them(tmp_path):
    nested = b")" + b"\x85" * 200_000  # Python's own stack is no higher
    text = b"X\x01\x00\x00\x00a"
    places = {
        "a key": b"}" + nested + b"K\x01s.",
        "keys": b"}(" + nested + b"K\x01" + nested + b"K\x01u.",
        "a module": nested + text + b"\x93.",
        "a name": text + nested + b"\x93.",
        "a codec": b"c_codecs\nencode\n" + text + nested + b"\x86R.",
        "what is called": nested + b")R.",
        "a shape": b"cnumpy\nndarray\n)R(K\x01" + nested + b"cnumpy\ndtype\nX\x02\x00\x00\x00u1\x85R\x89C\x00tb.",
        "a type": b"cnumpy\ndtype\n" + nested + b"\x85R.",
        "all": nested + b".",
    }
    for place, content in places.items():
        written(tmp_path / place / "data_batch_1", b"\x80\x02" + content)
        written(tmp_path / place / "batches.meta", pickle.dumps({"label_names": NAMES}, 2))
    command = [sys.executable, "-c", EACH_REFUSED, *(str(tmp_path / place) for place in places)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    said = done.stdout.splitlines()
    assert (done.returncode, done.stderr, len(said)) == (0, "", len(places)), said
    for place, line in zip(places, said):
        assert line.startswith(f"{tmp_path / place / 'data_batch_1'} is a pickle that"), line


class Runs:
    """What runs a command where a pickle is opened as usual."""

    def __reduce__(self):
        return Path.touch, (Path("ran"),)


def test_opening_a_pickle_runs_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pixels, labels = rows(3, 1)
    pickle.loads(pickle.dumps(Runs()))
    assert Path("ran").exists()  # it could
    Path("ran").unlink()
    folder = cifar_python(tmp_path / "c", {"data_batch_1": (pixels, labels)}, by_protocol(4))
    for held in (Runs(), np.array([Runs()]), [Runs()], np.zeros(2, [("a", "i4")]), {1, 2}, 1j):
        for protocol in (2, 3, 4, 5):
            (folder / "data_batch_1").write_bytes(pickle.dumps({"data": held, "labels": labels}, protocol))
            assert "others could run code; write an .npz instead" in refused(folder)
    assert not Path("ran").exists()


def test_a_damaged_pickle_is_never_more_than_a_sentence(tmp_path):
    """Whatever instructions come of changed bytes."""
    random = np.random.default_rng(5)
    tables = [dumped({"labels": [1, 2], "data": numbers(2, 5), "name": "x"}) for dumped in WRITERS.values()]
    said = set()
    file = written(tmp_path / "data_batch_1", b"")
    written(tmp_path / "batches.meta", pickle.dumps({"label_names": NAMES}, 4))
    for table in tables:
        for _ in range(60):
            changed = bytearray(table)
            for place in random.integers(2, len(changed), 3):
                changed[place] = random.integers(0, 256)
            file.write_bytes(changed)
            said.add(refused(tmp_path)[len(str(file)) :][:30])
    assert len(said) > 3  # and they were damaged in more than one way


# Arrays of numpy


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_an_npz_reads_back_as_written(tmp_path, save):
    parts = {"train": (numbers(11, 5, 7), numbers(11) % 3), "test": (numbers(4, 5, 7, seed=2), numbers(4) % 3)}
    names = {
        "keras.npz": {"train": ("x_train", "y_train"), "test": ("x_test", "y_test")},
        "medical.npz": {"train": ("train_images", "train_labels"), "test": ("test_images", "test_labels")},
        "words.npz": {"train": ("X_train", "target_train"), "test": ("val_data", "val_label")},
    }
    for name, called in names.items():
        save(tmp_path / name, **{called[part][each]: parts[part][each] for part in parts for each in (0, 1)})
        for part, (images, labels) in parts.items():
            found = read_image_set(tmp_path / name, part)
            assert (np.stack(found.images) == images).all()
            assert found.labels == [str(label) for label in labels]
    images, labels = parts["train"]
    for called in (("images", "labels"), ("data", "target"), ("X", "y")):
        save(tmp_path / "whole.npz", **dict(zip(called, (images, labels))))
        for part in ("train", "test", "valid"):
            assert (np.stack(read_image_set(tmp_path / "whole.npz", part).images) == images).all()


KINDS = {
    "colour": (numbers(5, 6, 7, 3), (6, 7), False),
    "alpha": (numbers(5, 6, 7, 4), (6, 7), False),
    "one": (numbers(5, 6, 7, 1), (6, 7), True),
    "deep": (numbers(5, 6, 7, dtype=np.uint16) * 257, (6, 7), True),
    "columns first": (np.asfortranarray(numbers(5, 6, 7, 3)), (6, 7), False),
    "floats": ((numbers(5, 6, 7) / 255).astype(np.float32), (6, 7), True),
}


@pytest.mark.parametrize("kind", KINDS)
def test_images_of_an_npz_may_be_of_several_kinds(tmp_path, kind):
    array, size, grey = KINDS[kind]
    np.savez(tmp_path / "a.npz", images=array, labels=np.arange(5)[:, None])
    found = read_image_set(tmp_path / "a.npz")
    assert (np.stack(found.images) == array).all()
    assert (found.size, found.grey, found.labels) == (size, grey, ["0", "1", "2", "3", "4"])


def test_colours_may_come_before_height_and_width(tmp_path):
    array = numbers(5, 3, 6, 7)
    np.savez(tmp_path / "a.npz", images=array, labels=np.array(["b", "a", "b", "é", "a"]))
    found = read_image_set(tmp_path / "a.npz")
    assert (np.stack(found.images) == array.transpose(0, 2, 3, 1)).all()
    assert (found.size, found.labels) == ((6, 7), ["b", "a", "b", "é", "a"])
    np.savez(tmp_path / "b.npz", images=array, labels=np.array([b"b", b"a", b"b", "é".encode(), b"a"]))
    assert read_image_set(tmp_path / "b.npz").labels == found.labels


PIXELS, CLASSES = numbers(5, 6, 7), np.arange(5)
BAD = [
    ({"pictures": PIXELS, "classes": CLASSES}, "holds pictures, classes; call the arrays x_train and y_train"),
    ({"x_train": PIXELS, "y": CLASSES}, "holds x_train and no labels for a part"),
    ({"x_test": PIXELS, "y_train": CLASSES}, "holds no images and y_train for a part"),
    ({"x_test": PIXELS, "y_test": CLASSES}, "has no part to learn from, only test"),
    ({"images": PIXELS, "data": PIXELS, "labels": CLASSES}, "holds images, data and labels for a part"),
    ({"images": PIXELS, "labels": CLASSES[1:]}, "has 5 images, but 4 labels"),
    ({"images": PIXELS, "labels": np.eye(5)}, "has labels of the shape [5, 5]"),
    ({"images": PIXELS, "labels": CLASSES / 2}, "has labels of the type float64"),
    ({"images": PIXELS, "labels": np.array([b"\xff", *b"abcd"], "S1")}, "has labels that are not UTF-8"),
    ({"images": PIXELS.reshape(5, -1), "labels": CLASSES}, "images has the shape [5, 42], of which it is not clear"),
    ({"images": numbers(5, 3, 6, 3), "labels": CLASSES}, "images has the shape [5, 3, 6, 3], of which it is not clear"),
    ({"images": numbers(5, 6, 6, 2), "labels": CLASSES}, "images has the shape [5, 6, 6, 2], of which it is not clear"),
    ({"images": PIXELS.astype(np.int64), "labels": CLASSES}, "images is of int64; give uint8, uint16, or floats"),
    ({"images": PIXELS > 3, "labels": CLASSES}, "images is of bool"),
    ({"images": PIXELS.astype(np.uint16), "labels": CLASSES}, "is of uint16, where white is 65,535, but goes to 25"),
    ({"images": PIXELS[:, :1], "labels": CLASSES}, "images: each picture has 7 × 1 pixels, which show nothing"),
    ({"images": PIXELS.astype(float), "labels": CLASSES}, "images has floats from"),
    ({"images": PIXELS / np.nan, "labels": CLASSES}, "images has floats from nan"),
    ({"images": PIXELS[:0], "labels": CLASSES[:0]}, "images has the shape [0, 6, 7], which is no row"),
    ({"images": PIXELS, "labels": np.array(3)}, "labels has the shape [], which is no row"),
    ({"images": PIXELS, "labels": np.array([*"abcde"], object)}, "labels holds objects of Python"),
    ({}, "holds no array"),
]


@pytest.mark.parametrize(("arrays", "said"), BAD)
@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_an_npz_of_something_else_is_refused(tmp_path, save, arrays, said):
    save(tmp_path / "a.npz", **arrays)
    assert said in refused(tmp_path / "a.npz")


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_a_damaged_npz_is_never_more_than_a_sentence(tmp_path, save):
    save(tmp_path / "a.npz", images=PIXELS, labels=CLASSES)
    file, whole = tmp_path / "a.npz", (tmp_path / "a.npz").read_bytes()
    for length in (0, 10, len(whole) // 2, len(whole) - 3):
        file.write_bytes(whole[:length])
        assert "cannot be read as an .npz" in refused(file)
    random = np.random.default_rng(4)
    for _ in range(150):
        changed = bytearray(whole)
        for place in random.integers(0, len(changed), 2):
            changed[place] = random.integers(0, 256)
        file.write_bytes(changed)
        with suppress(DataError, ConfigError):  # a label may become another one
            read_image_set(file)


@pytest.mark.parametrize(
    "header",
    [
        "{'descr': '|u1', 'fortran_order': False, 'shape': (10**12, 8, 8)}",
        "{'descr': '|u1', 'fortran_order': False, 'shape': " + 3000 * "(" + "}",
        "{'descr': '|u1', 'fortran_order': False, 'shape': (" + 3000 * "-" + "1,)}",
        "{'descr': 'nothing', 'fortran_order': False, 'shape': (5, 6, 7)}",
        "{'descr': '|u1'}",
        "[]",
        "",
    ],
)
@pytest.mark.parametrize("version", [1, 3])
def test_a_damaged_header_in_an_npz_is_refused_with_the_name_of_its_array(tmp_path, header, version):
    content = b"\x93NUMPY" + bytes((version, 0)) + (len(header) + 1).to_bytes(2, "little") + f"{header}\n".encode()
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        for name in ("images", "labels"):
            archive.writestr(f"{name}.npy", content)
    said = f"{tmp_path / 'a.npz'}: images has a header that is damaged or of another kind of file; copy it again"
    assert refused(tmp_path / "a.npz") == said


def test_a_vast_array_in_a_small_npz_is_refused(tmp_path):
    from numpy.lib import format as npy

    with zipfile.ZipFile(tmp_path / "a.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        for name in ("images", "labels"):
            with archive.open(f"{name}.npy", "w") as member:
                npy.write_array_header_1_0(
                    member, {"descr": "|u1", "fortran_order": False, "shape": (10**9, 10**4, 99)}
                )
    with pytest.raises(ConfigError, match=r"need about .* of memory, .*; unpack the file"):
        read_image_set(tmp_path / "a.npz")


# Memory


BOUNDED = """
import re, resource
from pathlib import Path
import numpy, torch
from manyheads.data.readers.image_sets import read_image_set

now = 1024 * int(re.search(r"VmData:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])
resource.setrlimit(resource.RLIMIT_DATA, (now + 60_000_000, now + 60_000_000))
sets = [read_image_set(place) for place in PLACES]
assert [len(each.images) for each in sets] == [30_000] * 4
assert all(each.size and not each.images[-1].any() for each in sets)
try:
    numpy.array(sets[0].images)
except MemoryError:
    print("bounded")
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory that is a process's own is read in /proc")
def test_arrays_stay_in_their_files_until_they_are_asked_for(tmp_path):
    """Four files of 92 MB are open at once where there is memory for 60 MB, in which an array of them has no place."""
    count, zeros = 30_000, np.zeros
    for kind, name, size in (
        ("idx", "train-images-idx3-ubyte", 16 + count * ROW),
        ("binary", "data_batch_1.bin", count * (ROW + 1)),
    ):
        start = bytes((0, 0, 8, 3)) + np.array([count, 48, 64], ">u4").tobytes() if kind == "idx" else b""
        with written(tmp_path / kind / name, start).open("ab") as file:
            file.truncate(size)
    written(tmp_path / "idx" / "train-labels-idx1-ubyte", idx(zeros(count, np.uint8)))
    written(tmp_path / "binary" / "batches.meta.txt", "plane\n")
    cifar_python(tmp_path / "pickle", {"data_batch_1": (zeros((count, ROW), np.uint8), [0] * count)}, by_protocol(4))
    np.savez(tmp_path / "a.npz", images=zeros((count, 48, 64), np.uint8), labels=zeros(count, np.uint8))
    places = [str(tmp_path / name) for name in ("idx", "binary", "pickle", "a.npz")]
    done = subprocess.run(
        [sys.executable, "-c", BOUNDED.replace("PLACES", repr(places))], capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == ("bounded\n", "")


# Digits


def test_the_digits_of_scikit_learn_are_divided_once_and_for_all():
    datasets = pytest.importorskip(
        "sklearn.datasets", reason="scikit-learn is not installed: pip install 'manyheads[images]'"
    )
    train, test = digits("train"), digits("test")
    assert (len(train.images), len(test.images)) == (1438, 359)
    whole = datasets.load_digits()
    assert [int(label) for label in test.labels] == whole.target[4::5].tolist()
    assert (np.round(np.stack(test.images) / 255 * 16) == whole.images[4::5]).all()
    assert (np.stack(train.images).min(), np.stack(train.images).max()) == (0, 255)
    assert (train.size, train.grey) == ((8, 8), True)
    both = {image.tobytes() for image in train.images} & {image.tobytes() for image in test.images}
    assert not both


def test_digits_need_scikit_learn(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with pytest.raises(
        MissingExtra, match=r"needs scikit-learn, which is not installed: pip install 'manyheads\[images\]'"
    ):
        digits("train")
