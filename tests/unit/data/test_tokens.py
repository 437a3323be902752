import json
import time
from itertools import islice

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from manyheads.core.errors import ConfigError, DataError
from manyheads.data import tokens as tokens_module
from manyheads.data.documents import Piece, read_documents
from manyheads.data.store import PairStore
from manyheads.data.tokens import About, JoinedBatches, TokenBatches, TokenStore

END = 1


class Letters:
    """A tokenizer of one id per letter, which remembers how many strings it was given at a time."""

    def __init__(self, size=70_000):
        self.size = size
        self.calls = []

    def __len__(self):
        return self.size

    def encode(self, lines):
        self.calls.append(len(lines))
        return [[ord(letter) for letter in line] for line in lines]


PIECES = [Piece("abé", False), Piece("cd", True), Piece("\ud800", True), Piece("f", True)]
IDS = [97, 98, 233, 99, 100, END, 0xD800, END, 102, END]


@pytest.mark.parametrize("shard_tokens", [1, 3, 5, 10, 100])
@pytest.mark.parametrize("chunk_letters", [1, 4, 1000])
@pytest.mark.parametrize(("size", "dtype"), [(65_536, "uint16"), (65_537, "uint32")])
def test_what_is_built_is_what_is_opened(tmp_path, monkeypatch, shard_tokens, chunk_letters, size, dtype):
    monkeypatch.setattr(tokens_module, "CHUNK_LETTERS", chunk_letters)
    directory = tmp_path / "store"
    built = TokenStore.build(directory, iter(PIECES), Letters(size), end=END, shard_tokens=shard_tokens)
    for store in (built, TokenStore.open(directory)):
        assert len(store) == 10
        assert store.window(0, 10).tolist() == IDS
        assert store.window(0, 10).dtype == dtype
        assert store.about == About(dtype, 10, shard_tokens, documents=3, letters=7, bytes=10)
    sizes = [path.stat().st_size // np.dtype(dtype).itemsize for path in sorted(directory.glob("shard-*.ids"))]
    assert set(sizes[:-1]) <= {shard_tokens}
    assert sum(sizes) == 10
    assert sizes[-1] > 0


def test_without_an_end_documents_follow_each_other(tmp_path):
    store = TokenStore.build(tmp_path / "store", PIECES, Letters(), end=None)
    assert store.window(0, len(store)).tolist() == [each for each in IDS if each != END]


def test_a_text_is_encoded_in_calls_of_many_strings(tmp_path, monkeypatch):
    monkeypatch.setattr(tokens_module, "CHUNK_LETTERS", 400)
    text = "".join(f"line {number}\n" for number in range(300))
    (tmp_path / "a.txt").write_text(text)
    tokenizer, told = Letters(), []
    pieces = read_documents([tmp_path / "a.txt"], piece_letters=50)
    store = TokenStore.build(tmp_path / "store", pieces, tokenizer, end=END, on_progress=told.append)
    assert store.window(0, len(store)).tolist() == [*map(ord, text), END]
    assert min(tokenizer.calls[:-1]) > 5
    assert len(told) == len(tokenizer.calls) > 5
    assert told == sorted(told)
    assert told[-1] == len(text)


@given(ids=st.lists(st.integers(0, 2**32 - 1), max_size=20), size=st.integers(1, 7), data=st.data())
def test_windows_and_parts_are_slices_whatever_the_shards(ids, size, data):
    array = np.array(ids, dtype=np.uint32)
    shards = [array[at : at + size] for at in range(0, len(ids), size)] or [array]
    store = TokenStore(shards, 0, len(ids), None)
    assert len(store) == len(ids)
    start, stop = sorted(data.draw(st.tuples(*[st.integers(0, len(ids))] * 2)))
    assert store.window(start, stop).tolist() == ids[start:stop]
    part = store.part(start, stop)
    assert len(part) == stop - start
    inner, outer = sorted(data.draw(st.tuples(*[st.integers(0, len(part))] * 2)))
    for found in (part.window(inner, outer), part.part(inner, outer).window(0, outer - inner)):
        assert found.tolist() == ids[start:stop][inner:outer]
    for bad in ((-1, 0), (0, len(part) + 1), (1, 0)):
        with pytest.raises(IndexError):
            part.window(*bad)
        with pytest.raises(IndexError):
            part.part(*bad)


def test_opening_a_store_does_not_read_it(tmp_path):
    tokens = 2**34  # more than the memory of most machines, in a file that takes no room
    with (tmp_path / "shard-00000.ids").open("wb") as file:
        file.truncate(2 * tokens)
    about = {"dtype": "uint16", "tokens": tokens, "shard_tokens": tokens, "documents": 1, "letters": 1, "bytes": 1}
    (tmp_path / "store.json").write_text(json.dumps(about))
    store = TokenStore.open(tmp_path)
    assert len(store) == tokens
    assert store.part(5, tokens).window(tokens - 8, tokens - 5).tolist() == [0, 0, 0]


def test_a_damaged_store_is_an_error(tmp_path):
    directory = tmp_path / "store"
    TokenStore.build(directory, PIECES, Letters(), end=END, shard_tokens=4)
    last, about = directory / "shard-00002.ids", (directory / "store.json").read_text()
    content = last.read_bytes()
    last.write_bytes(content[:-4])
    with pytest.raises(DataError, match=r"not a whole store of tokens \(shard-00002\.ids has 4 bytes where 8 were"):
        TokenStore.open(directory)
    last.unlink()
    with pytest.raises(DataError, match="build it again"):
        TokenStore.open(directory)
    last.write_bytes(content)
    assert TokenStore.open(directory).window(0, 10).tolist() == IDS
    for wrong in ("", "[]", '{"tokens": 3}', about.replace(": 4", ": 0"), about.replace(": 4", ': "4"')):
        assert wrong != about
        (directory / "store.json").write_text(wrong)
        with pytest.raises(DataError, match="build it again"):
            TokenStore.open(directory)
    with pytest.raises(DataError, match="build it again"):
        TokenStore.open(tmp_path / "nowhere")


def test_no_ids_are_an_error_and_leave_nothing(tmp_path):
    with pytest.raises(DataError, match="no ids came out of 0 letters"):
        TokenStore.build(tmp_path / "store", [], Letters(), end=END)
    assert not list(tmp_path.iterdir())


def test_a_build_that_fails_leaves_the_old_store(tmp_path):
    def failing():
        yield Piece("new", True)
        raise DataError("byte 2")

    TokenStore.build(tmp_path / "store", PIECES, Letters(), end=END, shard_tokens=3)
    with pytest.raises(DataError, match="byte 2"):
        TokenStore.build(tmp_path / "store", failing(), Letters(), end=END)
    assert TokenStore.open(tmp_path / "store").window(0, 10).tolist() == IDS
    TokenStore.build(tmp_path / "store", [Piece("x", True)], Letters(), end=END)
    assert TokenStore.open(tmp_path / "store").window(0, 2).tolist() == [ord("x"), END]
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["shard-00000.ids", "store", "store.json"]


def test_other_files_are_never_overwritten(tmp_path):
    (tmp_path / "thesis.tex").write_text("years")
    for place in (tmp_path, tmp_path / "thesis.tex"):
        with pytest.raises(DataError, match="something else"):
            TokenStore.build(place, PIECES, Letters(), end=END)
    assert (tmp_path / "thesis.tex").read_text() == "years"


def numbered(count, shard=7):
    """A store whose ids are their places, in several shards."""
    ids = np.arange(count, dtype=np.uint16)
    return TokenStore([ids[at : at + shard] for at in range(0, count, shard)], 0, count, None)


def same(one, other):
    return len(one) == len(other) and all(torch.equal(a.ids, b.ids) for a, b in zip(one, other))


@given(
    count=st.integers(2, 120),
    rows=st.integers(1, 5),
    length=st.integers(1, 30),
    seed=st.integers(0, 3),
    epoch=st.integers(0, 3),
    shuffle=st.booleans(),
)
def test_windows_are_runs_of_the_text_in_which_no_id_is_predicted_twice(count, rows, length, seed, epoch, shuffle):
    batches = TokenBatches(numbered(count), rows=rows, length=length, seed=seed, shuffle=shuffle)
    found = list(batches.epoch(epoch))
    assert len(found) == batches.count(epoch) > 0
    predicted = []
    for batch in found:
        assert batch.ids.dtype == torch.long
        assert batch.counted is None
        assert (batch.ids.diff(dim=1) == 1).all()
        assert batch.target_tokens == batch.ids[:, 1:].numel() > 0
        predicted += batch.ids[:, 1:].flatten().tolist()
    assert len(set(predicted)) == len(predicted)
    for start in range(len(found) + 2):  # a run goes on anywhere, also with a fresh object
        again = TokenBatches(numbered(count, shard=11), rows=rows, length=length, seed=seed, shuffle=shuffle)
        assert same(list(again.epoch(epoch, start)), found[start:])
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


def test_an_epoch_is_fixed_by_seed_and_epoch_and_shuffled():
    def batches(seed, epoch):
        return list(TokenBatches(numbered(500), rows=3, length=5, seed=seed).epoch(epoch))

    assert same(batches(1, 1), batches(1, 1))
    assert not same(batches(1, 1), batches(1, 2))
    assert not same(batches(1, 1), batches(2, 1))
    starts = [start for batch in batches(1, 1) for start in batch.ids[:, 0].tolist()]
    assert starts != sorted(starts)
    offsets = {int(batches(1, epoch)[0].ids[0, 0]) % 5 for epoch in range(30)}
    assert offsets == set(range(5))


def test_without_shuffling_every_epoch_is_the_same():
    batches = TokenBatches(numbered(50), rows=2, length=8, seed=1, shuffle=False)
    assert same(list(batches.epoch(0)), list(batches.epoch(1)))
    assert [tuple(batch.ids.shape) for batch in batches.epoch(0)] == [(2, 9), (2, 9), (2, 9), (1, 2)]


def test_a_text_without_a_prediction_is_an_error():
    for ids in ([], [5]):
        with pytest.raises(DataError, match=f"a text of {len(ids)} ids has nothing to predict"):
            TokenBatches(TokenStore.from_ids(ids), rows=2, length=3, seed=1)
    (batch,) = TokenBatches(TokenStore.from_ids([5, 6]), rows=2, length=3, seed=1).epoch(0)
    assert batch.ids.tolist() == [[5, 6]]


def test_a_batch_takes_little_time_to_make(tmp_path):
    text = "abcdefgh" * 50_000
    TokenStore.build(tmp_path / "store", [Piece(text, True)], Letters(256), end=END, shard_tokens=30_000)
    batches = TokenBatches(TokenStore.open(tmp_path / "store"), rows=64, length=256, seed=1)
    list(batches.epoch(0))
    began = time.process_time()
    count = len(list(batches.epoch(1)))
    assert (time.process_time() - began) / count < 0.005  # about 0.1 ms measured; the rest is for busy machines


PAD, DELIMITER = 7, 8
SOURCES = [[11, 12, 13], [PAD], [], [14, 15]]
TARGETS = [[21, END], [22, 23, 24, END], [END], [25, END]]


@pytest.mark.parametrize("counts", ["target", "all"])
def test_joined_rows_hold_source_delimiter_and_target(counts):
    store = PairStore.from_ids(SOURCES, TARGETS)
    batches = JoinedBatches(store, tokens=8, pad=PAD, delimiter=DELIMITER, counts=counts, seed=1)
    rows, predictions, found = [], [], list(batches.epoch(0))
    assert 1 < len(found) == batches.count(0) < 4
    for batch in found:
        assert batch.counted is not None
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
    resumed = list(islice(batches.epoch(0, 1), 1))
    assert same(resumed, found[1:2])


def test_only_targets_or_all_can_be_counted():
    with pytest.raises(ConfigError, match='"target" or "all"'):
        JoinedBatches(PairStore.from_ids([], []), tokens=8, pad=PAD, delimiter=DELIMITER, counts="source", seed=1)


def test_moving_a_batch_keeps_its_counts():
    store = PairStore.from_ids(SOURCES, TARGETS)
    batch = next(JoinedBatches(store, tokens=9, pad=PAD, delimiter=DELIMITER, counts="all", seed=1).epoch(0))
    moved = batch.to("meta")
    assert moved.ids.device.type == moved.counted.device.type == "meta"
    assert moved.target_tokens == batch.target_tokens
    plain = next(TokenBatches(numbered(9), rows=2, length=3, seed=1).epoch(0)).to("meta")
    assert plain.ids.device.type == "meta"
    assert plain.counted is None
