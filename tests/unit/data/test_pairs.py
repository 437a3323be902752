"""Pairs are encoded, dropped and counted, and joined for language models."""

from functools import partial

import pytest
import torch
from helpers import Letters

from manyheads.core.errors import DataError
from manyheads.data import ragged
from manyheads.data.pairs import joined_batches, pair_store, write_pairs
from manyheads.data.ragged import Store

letters = partial(Letters, end=(1,))
PAIRS = [("ab", "cde"), ("", "x"), ("y", " \t"), ("long" * 5, "z"), ("z", "long" * 5), ("f", "g")]


@pytest.mark.parametrize("items", [2, 10_000])
@pytest.mark.parametrize(("size", "dtype"), [(65_536, "uint16"), (65_537, "uint32")])
def test_what_is_built_is_what_is_opened(tmp_path, monkeypatch, items, size, dtype):
    monkeypatch.setattr(ragged, "CHUNK_ITEMS", items)
    built = write_pairs(tmp_path / "store", iter(PAIRS), letters(size), longest=10)
    for store in (built, Store.open(tmp_path / "store")):
        assert [row.tolist() for row in store["source"]] == letters().encode(["ab", "f"])
        assert [row.tolist() for row in store["target"]] == letters().encode(["cde", "g"])
        assert store["source"][0].dtype == dtype
        assert store.about == {"empty": 2, "too_long": 2}


def test_the_longest_side_allowed_is_kept_and_progress_counts_the_pairs_read(tmp_path, monkeypatch):
    monkeypatch.setattr(ragged, "CHUNK_ITEMS", 2)
    pairs, told = [("abc", "abcd"), ("abcde", "a"), ("", "a")], []
    store = write_pairs(tmp_path / "store", pairs, letters(), longest=5, on_progress=told.append)
    assert (store["target"].lengths.tolist(), store.about, told) == ([5], {"empty": 1, "too_long": 1}, [2, 3])


def test_an_end_stands_behind_every_target_and_no_letter_is_taken_for_one(tmp_path):
    store = write_pairs(tmp_path / "store", [("a\0", "b\0"), ("\0a", "b")], Letters(), longest=9, end=5)
    assert [row.tolist() for row in store["source"]] == [[97, 0], [0, 97]]  # JSON may hold such letters
    assert [row.tolist() for row in store["target"]] == [[98, 0, 5], [98, 5]]


def test_long_documents_make_small_chunks(monkeypatch):
    monkeypatch.setattr(ragged, "CHUNK_LETTERS", 10)
    assert [len(chunk) for chunk in ragged.chunks(["abcdabcd"] * 5, len)] == [2, 2, 1]


def test_nothing_left_is_an_error_and_leaves_nothing(tmp_path):
    with pytest.raises(DataError, match="no pairs are left of 2 read: 1 have a blank side and 1 a side of more than 3"):
        write_pairs(tmp_path / "store", [("", "a"), ("abcd", "a")], letters(), longest=3)
    with pytest.raises(DataError, match="of 0 read"):
        write_pairs(tmp_path / "store", [], letters(), longest=3)
    assert not list(tmp_path.iterdir())


PAD, DELIMITER, END = 7, 8, 1
SOURCES = [[11, 12, 13], [PAD], [], [14, 15]]
TARGETS = [[21, END], [22, 23, 24, END], [END], [25, END]]


@pytest.mark.parametrize("counts", ["target", "all"])
def test_joined_rows_hold_source_delimiter_and_target(counts):
    store = pair_store(SOURCES, TARGETS)
    batches = joined_batches(store, tokens=8, pad=PAD, delimiter=DELIMITER, counts=counts, seed=1)
    rows, predictions, found = [], [], list(batches.epoch(0))
    assert 1 < len(found) < 4
    for batch in found:
        assert batch.ids.dtype == torch.long
        assert batch.counted.shape == batch.ids[:, 1:].shape
        assert batch.target_tokens == int(batch.counted.sum())
        lengths = []
        for ids, counted in zip(batch.ids, batch.counted):
            row = ids.tolist()
            while row[-1] == PAD:
                row.pop()
            lengths.append(len(row))
            rows.append(row)
            predictions.append(ids[1:][counted].tolist())
        assert max(lengths) == batch.ids.shape[1]
    joined = [[*source, DELIMITER, *target] for source, target in zip(SOURCES, TARGETS)]
    assert sorted(rows) == sorted(joined)
    expected = {tuple(row): target if counts == "target" else row[1:] for row, target in zip(joined, TARGETS)}
    assert predictions == [expected[tuple(row)] for row in rows]
