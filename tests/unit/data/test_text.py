"""Running text: its ids end to end, and the windows that they are predicted in."""

import numpy as np
import pytest
import torch
from helpers import Letters
from hypothesis import given
from hypothesis import strategies as st

from manyheads.core.errors import DataError
from manyheads.data import ragged
from manyheads.data.ragged import Store
from manyheads.data.readers.documents import Piece, read_documents
from manyheads.data.text import text_batches, write_text

END = 1


PIECES = [Piece("abé", False), Piece("cd", True), Piece("\ud800", True), Piece("f", True)]
IDS = [97, 98, 233, 99, 100, END, 0xD800, END, 102, END]


@pytest.mark.parametrize("chunk_letters", [1, 4, 1000])
@pytest.mark.parametrize(("size", "dtype"), [(65_536, "uint16"), (65_537, "uint32")])
def test_what_is_built_is_what_is_opened(tmp_path, monkeypatch, chunk_letters, size, dtype):
    monkeypatch.setattr(ragged, "CHUNK_LETTERS", chunk_letters)
    built = write_text(tmp_path / "store", iter(PIECES), Letters(size), end=END)
    for store in (built, Store.open(tmp_path / "store")):
        assert store["ids"].tolist() == IDS
        assert store["ids"].dtype == dtype
        assert store.about == {"documents": 3, "letters": 7, "bytes": 10}


def test_without_an_end_documents_follow_each_other(tmp_path):
    store = write_text(tmp_path / "store", PIECES, Letters(), end=None)
    assert store["ids"].tolist() == [each for each in IDS if each != END]


def test_a_text_is_encoded_in_calls_of_many_strings(tmp_path, monkeypatch):
    monkeypatch.setattr(ragged, "CHUNK_LETTERS", 400)
    text = "".join(f"line {number}\n" for number in range(300))
    (tmp_path / "a.txt").write_text(text)
    tokenizer, told = Letters(), []
    pieces = read_documents([tmp_path / "a.txt"], piece_letters=50)
    store = write_text(tmp_path / "store", pieces, tokenizer, end=END, on_progress=told.append)
    assert store["ids"].tolist() == [*map(ord, text), END]
    assert min(tokenizer.calls[:-1]) > 5
    assert len(told) == len(tokenizer.calls) > 5
    assert told == sorted(told)
    assert told[-1] == len(text)


def test_no_ids_are_an_error_and_leave_nothing(tmp_path):
    with pytest.raises(DataError, match="no ids came out of 0 letters"):
        write_text(tmp_path / "store", [], Letters(), end=END)
    assert not list(tmp_path.iterdir())


def numbered(count):
    """A store whose ids are their places."""
    return Store({"ids": np.arange(count, dtype=np.uint16)})


@given(
    count=st.integers(2, 120),
    rows=st.integers(1, 5),
    length=st.integers(1, 30),
    seed=st.integers(0, 3),
    epoch=st.integers(0, 3),
    shuffle=st.booleans(),
)
def test_windows_are_runs_of_the_text_in_which_no_id_is_predicted_twice(count, rows, length, seed, epoch, shuffle):
    batches = text_batches(numbered(count), rows=rows, length=length, seed=seed, shuffle=shuffle)
    found = list(batches.epoch(epoch))
    assert len(found) == len(batches.plan(epoch)) > 0
    predicted = []
    for batch in found:
        assert batch.ids.dtype == torch.long
        assert batch.counted is None
        assert (batch.ids.diff(dim=1) == 1).all()
        assert batch.target_tokens == batch.ids[:, 1:].numel() > 0
        predicted += batch.ids[:, 1:].flatten().tolist()
    assert len(set(predicted)) == len(predicted)
    shapes = [tuple(batch.ids.shape) for batch in found]
    if not shuffle:
        assert predicted == list(range(1, count))
        assert all(shape[0] == 1 or shape[1] == length + 1 for shape in shapes)
    elif len(found) > 1:
        assert set(shapes) == {(rows, length + 1)}
        # What an epoch leaves out: less than a window on either side, and less than a batch of windows.
        assert count - 1 - len(predicted) < 2 * length + (rows - 1) * length
    else:
        assert shapes[0][0] <= rows
        assert shapes[0][1] == min(length + 1, count)


def test_every_epoch_begins_elsewhere_and_is_shuffled():
    batches = text_batches(numbered(500), rows=3, length=5, seed=1)
    starts = [start for batch in batches.epoch(1) for start in batch.ids[:, 0].tolist()]
    assert starts != sorted(starts)
    assert {int(next(batches.epoch(epoch)).ids[0, 0]) % 5 for epoch in range(30)} == set(range(5))


def test_a_rest_is_a_batch_of_its_own_where_nothing_is_shuffled():
    batches = text_batches(numbered(50), rows=2, length=8, seed=1, shuffle=False)
    assert [tuple(batch.ids.shape) for batch in batches.epoch(0)] == [(2, 9), (2, 9), (2, 9), (1, 2)]


def test_two_ids_are_one_prediction():
    (batch,) = text_batches(numbered(2), rows=2, length=3, seed=1).epoch(0)
    assert batch.ids.tolist() == [[0, 1]]
