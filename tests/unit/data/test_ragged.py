"""The store: what is written is what is read, whole or not at all."""

import json
import subprocess
import sys
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from manyheads.core.errors import DataError
from manyheads.core.files import beside
from manyheads.data.ragged import Ragged, Store, store_written

ROWS = [[3, 1, 4], [], [1, 5], [9, 2, 6, 5]]
NUMBERS = [0.5, 1.5, 2.5, 3.5]


def columns(start=0, stop=4, dtype=np.uint16):
    rows, numbers = ROWS[start:stop], NUMBERS[start:stop]
    return {"ids": Ragged.of(rows, dtype), "number": np.array(numbers, dtype=np.float32)}


def read(store):
    return [row.tolist() for row in store["ids"]], store["number"].tolist()


@pytest.mark.parametrize("dtype", ["uint16", "uint32", "int32", "int64"])
@pytest.mark.parametrize("cuts", [[0, 4], [0, 1, 3, 4], [0, 0, 2, 2, 4, 4]])
def test_what_is_appended_is_what_is_opened(tmp_path, dtype, cuts):
    with store_written(tmp_path / "store") as writer:
        for start, stop in pairwise(cuts):
            writer.append(columns(start, stop, dtype))
        writer.about = {"letters": 7}
    store = Store.open(tmp_path / "store")
    assert (read(store), len(store), store.about) == ((ROWS, NUMBERS), 4, {"letters": 7})
    assert store["ids"].values.dtype == dtype
    assert store["number"].dtype == "float32"
    assert store["ids"].lengths.tolist() == [3, 0, 2, 4]
    assert store["ids"].lengths.dtype == np.int32
    assert store["ids"].flat.tolist() == [each for row in ROWS for each in row]
    assert ("ids" in store, "nothing" in store) == (True, False)


@given(rows=st.lists(st.lists(st.integers(0, 2**32 - 1), max_size=4), max_size=6), data=st.data(), again=st.booleans())
def test_a_part_is_a_slice_of_every_column(rows, data, again):
    numbers = np.arange(len(rows), dtype=np.int64)
    store = Store({"ids": Ragged.of(rows, np.uint32), "number": numbers}, {"of": "the whole"})
    assert read(store) == (rows, numbers.tolist())
    start, stop = sorted(data.draw(st.tuples(*[st.integers(0, len(rows))] * 2)))
    part = store.part(start, stop)
    part = part.part(0, len(part)) if again else part
    assert read(part) == (rows[start:stop], list(range(start, stop)))
    assert part["ids"].flat.tolist() == [each for row in rows[start:stop] for each in row]
    assert part.about == store.about
    for bad in ((-1, 0), (0, len(part) + 1), (1, 0)):
        with pytest.raises(IndexError):
            part.part(*bad)
    with pytest.raises(IndexError):
        store["ids"][-1]


def test_a_store_in_memory_and_a_part_of_one_can_be_saved(tmp_path):
    store = Store(columns(), {"kind": "small"}).part(1, 3)
    store.save(tmp_path / "store")
    found = Store.open(tmp_path / "store")
    assert read(found) == read(store) == (ROWS[1:3], NUMBERS[1:3])
    assert found.about == {"kind": "small"}
    assert len(found["ids"].values) == 2  # and nothing of the rest


def test_columns_of_different_lengths_are_an_error(tmp_path):
    with pytest.raises(DataError, match="1 in source, 0 in target"):
        Store({"source": Ragged.of([[1]]), "target": Ragged.of([])})
    with pytest.raises(DataError, match="no columns"), store_written(tmp_path / "store") as writer:
        writer.append({})
    assert not list(tmp_path.iterdir())


def test_opening_a_store_does_not_read_it(tmp_path):
    count = 2**34  # more than the memory of most machines, in a file that takes no room
    with (tmp_path / "ids.values").open("wb") as file:
        file.truncate(2 * count)
    column = {"dtype": "uint16", "values": count, "ragged": False}
    (tmp_path / "store.json").write_text(json.dumps({"rows": count, "columns": {"ids": column}, "about": {}}))
    store = Store.open(tmp_path)
    assert len(store) == count
    assert store.part(5, count)["ids"][count - 8 :].tolist() == [0, 0, 0]


@pytest.mark.parametrize("wrong", [[1, 2, 3], [0, 2, 4], [0, 4, 3], [0, -1, 3]])
def test_rows_that_do_not_lie_end_to_end_are_an_error(tmp_path, wrong):
    Store({"ids": Ragged.of([[5, 6], [7]])}).save(tmp_path)
    np.array(wrong, dtype=np.int64).tofile(tmp_path / "ids.offsets")
    with pytest.raises(DataError, match=r"not a whole store \(ids.offsets do not go from 0 to 3, .*; build it again"):
        Store.open(tmp_path)


@pytest.mark.parametrize("name", ["ids.values", "ids.offsets", "number.values", "store.json"])
def test_a_damaged_store_is_an_error(tmp_path, name):
    Store(columns()).save(tmp_path / "store")
    path = tmp_path / "store" / name
    content = path.read_bytes()
    for wrong in (content[:-4], content + b"1234", b"", None):
        path.unlink() if wrong is None else path.write_bytes(wrong)
        with pytest.raises(DataError, match=r"store is not a whole store .*; build it again"):
            Store.open(tmp_path / "store")
    path.write_bytes(content)
    assert read(Store.open(tmp_path / "store")) == (ROWS, NUMBERS)


def test_what_was_cut_is_named_and_a_description_of_something_else_is_an_error(tmp_path):
    Store(columns()).save(tmp_path / "store")
    path, values = tmp_path / "store" / "store.json", tmp_path / "store" / "ids.values"
    told, whole = path.read_text(), values.read_bytes()
    values.write_bytes(b"12345678")
    with pytest.raises(DataError, match=r"ids\.values has 8 bytes where 18 were written"):
        Store.open(tmp_path / "store")
    values.write_bytes(whole)
    changes = {'"rows": 4': '"rows": 3', "uint16": "object", '"values": 9': '"values": "9"', '"about": {}': '"a": 1'}
    for wrong in ("[]", '{"rows": 4}', *(told.replace(*change) for change in changes.items())):
        assert wrong != told
        path.write_text(wrong)
        with pytest.raises(DataError, match="build it again"):
            Store.open(tmp_path / "store")
    with pytest.raises(DataError, match="build it again"):
        Store.open(tmp_path / "nowhere")


def test_writing_that_fails_leaves_the_old_store(tmp_path):
    def write_a_part():
        with store_written(tmp_path / "store") as writer:
            writer.append(columns(1, 2))
            raise DataError("line 2")

    Store(columns(0, 1)).save(tmp_path / "store")
    with pytest.raises(DataError, match="line 2"):
        write_a_part()
    assert read(Store.open(tmp_path / "store"))[0] == ROWS[:1]
    Store({"other": np.arange(3)}).save(tmp_path / "store")
    assert Store.open(tmp_path / "store")["other"].tolist() == [0, 1, 2]
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["other.values", "store", "store.json"]


def test_a_killed_build_does_not_look_finished(tmp_path):
    script = f"""
import os, signal
from pathlib import Path
from manyheads.data.pairs import write_pairs
class Bytes:
    def __len__(self): return 256
    def encode(self, lines): return [[*line.encode(), 1] for line in lines]
def pairs():
    for _ in range(25_000): yield "a", "b"
    os.kill(os.getpid(), signal.SIGKILL)
write_pairs(Path({str(tmp_path / "store")!r}), pairs(), Bytes(), longest=9)
"""
    assert subprocess.run([sys.executable, "-c", script]).returncode == -9
    assert not (tmp_path / "store").exists()
    assert (beside(tmp_path / "store", "unfinished") / "source.values").exists()  # it had begun


def test_other_files_are_never_overwritten(tmp_path):
    (tmp_path / "thesis.tex").write_text("years")
    for place in (tmp_path, tmp_path / "thesis.tex"):
        with pytest.raises(DataError, match="something else than a store"):
            Store(columns()).save(place)
    assert (tmp_path / "thesis.tex").read_text() == "years"
    with pytest.raises(DataError, match="cannot be written"):
        Store(columns()).save(tmp_path / "thesis.tex" / "store")
