import json
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from manyheads.core.errors import DataError
from manyheads.data import store as store_module
from manyheads.data.store import Dropped, PairStore


class Letters:
    """A tokenizer of one id per letter, 1 at the end."""

    def __init__(self, size=70_000):
        self.size = size

    def __len__(self):
        return self.size

    def encode(self, lines):
        return [[*(ord(letter) for letter in line), 1] for line in lines]


PAIRS = [("ab", "cde"), ("", "x"), ("y", " \t"), ("long" * 5, "z"), ("z", "long" * 5), ("f", "g")]


@pytest.fixture(params=[2, 10_000])
def chunks(request, monkeypatch):
    monkeypatch.setattr(store_module, "CHUNK_PAIRS", request.param)


@pytest.mark.parametrize(("size", "dtype"), [(65_536, "uint16"), (65_537, "uint32")])
def test_what_is_built_is_what_is_opened(tmp_path, chunks, size, dtype):
    built = PairStore.build(tmp_path / "store", iter(PAIRS), Letters(size), longest=10)
    for store in (built, PairStore.open(tmp_path / "store")):
        assert len(store) == 2
        assert [store.source(i).tolist() for i in range(2)] == Letters().encode(["ab", "f"])
        assert [store.target(i).tolist() for i in range(2)] == Letters().encode(["cde", "g"])
        assert store.source(0).dtype == dtype
        assert store.source_lengths.tolist() == [3, 2]
        assert store.target_lengths.tolist() == [4, 2]
        assert store.source_lengths.dtype == store.target_lengths.dtype == np.int32
        assert store.dropped == Dropped(empty=2, too_long=2)


def test_the_longest_side_allowed_is_kept(tmp_path):
    store = PairStore.build(tmp_path / "store", [("abc", "abcd"), ("abcde", "a")], Letters(), longest=5)
    assert store.target_lengths.tolist() == [5]
    assert store.dropped == Dropped(empty=0, too_long=1)


def test_progress_counts_the_pairs_read(tmp_path, monkeypatch):
    monkeypatch.setattr(store_module, "CHUNK_PAIRS", 4)
    told = []
    PairStore.build(tmp_path / "store", PAIRS, Letters(), longest=10, on_progress=told.append)
    assert told == [4, 6]


def test_long_documents_make_small_chunks(monkeypatch):
    monkeypatch.setattr(store_module, "CHUNK_LETTERS", 10)
    assert [len(chunk) for chunk in store_module._chunks([("abcd", "abcd")] * 5)] == [2, 2, 1]


def test_nothing_left_is_an_error_and_leaves_nothing(tmp_path):
    with pytest.raises(DataError, match="no pairs are left of 2 read: 1 have a blank side and 1 a side of more than 3"):
        PairStore.build(tmp_path / "store", [("", "a"), ("abcd", "a")], Letters(), longest=3)
    with pytest.raises(DataError, match="of 0 read"):
        PairStore.build(tmp_path / "store", [], Letters(), longest=3)
    assert not list(tmp_path.iterdir())


def test_a_build_that_fails_leaves_the_old_store(tmp_path):
    def failing():
        yield "new", "new"
        raise DataError("line 2")

    PairStore.build(tmp_path / "store", [("old", "old")], Letters(), longest=10)
    with pytest.raises(DataError, match="line 2"):
        PairStore.build(tmp_path / "store", failing(), Letters(), longest=10)
    assert PairStore.open(tmp_path / "store").source(0).tolist() == Letters().encode(["old"])[0]
    PairStore.build(tmp_path / "store", [("new", "new")], Letters(), longest=10)
    assert PairStore.open(tmp_path / "store").source(0).tolist() == Letters().encode(["new"])[0]
    assert [path.name for path in tmp_path.iterdir()] == ["store"]


def test_a_killed_build_does_not_look_finished(tmp_path):
    script = f"""
import os, signal
from pathlib import Path
from manyheads.data import store
class Bytes:
    def __len__(self): return 256
    def encode(self, lines): return [[*line.encode(), 1] for line in lines]
def pairs():
    for _ in range(25_000): yield "a", "b"
    os.kill(os.getpid(), signal.SIGKILL)
store.PairStore.build(Path({str(tmp_path / "store")!r}), pairs(), Bytes(), longest=9)
"""
    assert subprocess.run([sys.executable, "-c", script]).returncode == -9
    assert not (tmp_path / "store").exists()
    assert (tmp_path / "store.unfinished" / "source.ids").exists()  # it had begun


def test_a_damaged_store_is_an_error(tmp_path):
    directory = tmp_path / "store"
    PairStore.build(directory, PAIRS, Letters(), longest=10)
    ids = (directory / "target.ids").read_bytes()
    (directory / "target.ids").write_bytes(ids[:-4])
    with pytest.raises(DataError, match=r"target\.ids has 20 bytes where 24 were written"):
        PairStore.open(directory)
    (directory / "target.ids").write_bytes(ids)
    PairStore.open(directory)
    (directory / "store.json").write_text(json.dumps({"pairs": 2}))
    with pytest.raises(DataError, match="build it again"):
        PairStore.open(directory)
    with pytest.raises(DataError, match="build it again"):
        PairStore.open(tmp_path / "nowhere")


def test_other_files_are_never_overwritten(tmp_path):
    (tmp_path / "thesis.tex").write_text("years")
    with pytest.raises(DataError, match="something else"):
        PairStore.build(tmp_path, PAIRS, Letters(), longest=10)
    assert (tmp_path / "thesis.tex").read_text() == "years"


@given(rows=st.lists(st.tuples(*[st.lists(st.integers(0, 2**32 - 1), max_size=4)] * 2), max_size=5))
def test_a_store_in_memory_gives_back_its_rows(rows):
    store = PairStore.from_ids([row[0] for row in rows], [row[1] for row in rows])
    assert [(store.source(i).tolist(), store.target(i).tolist()) for i in range(len(store))] == rows
    assert store.target_lengths.tolist() == [len(row[1]) for row in rows]
    assert store.dropped == Dropped(empty=0, too_long=0)


def test_sides_of_different_number_are_an_error():
    with pytest.raises(DataError, match="1 sources but 0 targets"):
        PairStore.from_ids([[1]], [])
