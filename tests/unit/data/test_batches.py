"""Batches: what all kinds of them owe, and who meets whom in those by token budget."""

import numpy as np
import pytest
import torch
from helpers import Marks, sentence_store
from hypothesis import given
from hypothesis import strategies as st

from manyheads.data.batches import SOURCE_ALLOWANCE, Batch, padded, together
from manyheads.data.examples import (
    answer_store,
    example_batches,
    example_store,
    similarity_batches,
    similarity_store,
    tag_store,
)
from manyheads.data.masked_rows import masked_batches
from manyheads.data.pairs import joined_batches, pair_batches, pair_store, write_pairs
from manyheads.data.ragged import Ragged, Store
from manyheads.data.readers.corpus import read_pairs
from manyheads.data.text import text_batches
from manyheads.text.tokenizer import Tokenizer

PAD = 7
COUNT = 300


def drawn_rows(seed=0, count=COUNT):
    generator = np.random.default_rng(seed)
    return [generator.integers(10, 90, size).tolist() for size in generator.integers(3, 20, count)]


def random_pairs():
    """Pairs whose first id on both sides is their number + 10."""
    generator = np.random.default_rng(0)
    lengths = generator.integers(1, 20, COUNT).tolist()
    sources = [[number + 10, *[1] * length] for number, length in enumerate(lengths)]
    targets = [[number + 10, *[2] * generator.integers(length, length + 4)] for number, length in enumerate(lengths)]
    return pair_store(sources, targets)


ROWS, OTHERS, NUMBERS = drawn_rows(), drawn_rows(1), [number / COUNT for number in range(COUNT)]
EXAMPLES = [[row] for row in ROWS]
CHOICES = [[row, other][: 1 + number % 2] for number, (row, other) in enumerate(zip(ROWS, OTHERS))]
MASKED = sentence_store([ROWS[first : first + 9] for first in range(0, COUNT, 9)])
TEXT = Store({"ids": np.arange(999, dtype=np.uint16)})
BY_ROW = {
    "pairs": lambda **how: pair_batches(random_pairs(), tokens=200, pad=PAD, **how),
    "joined": lambda **how: joined_batches(random_pairs(), tokens=200, pad=PAD, delimiter=8, counts="all", **how),
    "labels": lambda **how: example_batches(example_store(EXAMPLES, [0, 1] * (COUNT // 2)), size=9, **how),
    "numbers": lambda **how: example_batches(example_store(EXAMPLES, NUMBERS), size=9, **how),
    "choices": lambda **how: example_batches(example_store(CHOICES, [0] * COUNT), size=9, **how),
    "tags": lambda **how: example_batches(tag_store(ROWS, ROWS, range(COUNT)), size=9, **how),
    "answers": lambda **how: example_batches(answer_store(ROWS, [(1, 2)] * COUNT), size=9, **how),
    "scored": lambda **how: similarity_batches(similarity_store(list(zip(ROWS, OTHERS)), NUMBERS), size=9, **how),
    "together": lambda **how: similarity_batches(similarity_store(list(zip(ROWS, OTHERS)), None), size=9, **how),
}
KINDS = {
    **BY_ROW,
    "text": lambda **how: text_batches(TEXT, rows=3, length=20, **how),
    "masked": lambda **how: masked_batches(MASKED, Marks(90), rows=4, length=45, next_sentence=False, **how),
    "follows": lambda **how: masked_batches(MASKED, Marks(90), rows=4, length=45, next_sentence=True, **how),
}


def same(one, other):
    """Whether lists of batches are equal to the bit."""
    return len(one) == len(other) and all(
        a.target_tokens == b.target_tokens
        and a.tensors.keys() == b.tensors.keys()
        and all(
            left is right or torch.equal(left, right) for left, right in zip(a.tensors.values(), b.tensors.values())
        )
        for a, b in zip(one, other)
    )


# What all owe


@pytest.mark.parametrize("kind", KINDS)
def test_an_epoch_is_fixed_by_seed_and_epoch(kind):
    first = list(KINDS[kind](seed=1).epoch(1))
    assert same(first, list(KINDS[kind](seed=1).epoch(1)))
    assert not same(first, list(KINDS[kind](seed=1).epoch(2)))
    assert not same(first, list(KINDS[kind](seed=2).epoch(1)))


@pytest.mark.parametrize("shuffle", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_a_run_resumes_from_two_numbers(kind, shuffle):
    used = KINDS[kind](seed=3, shuffle=shuffle)
    for epoch in (0, 1):
        assert list(used.epoch(epoch))
    whole = list(used.epoch(2))
    assert len(whole) == len(used.plan(2)) > 9
    assert abs(len(used) - len(whole)) <= 2
    for start in (0, 1, 9, len(whole), len(whole) + 1):
        torch.manual_seed(start)
        assert same(list(KINDS[kind](seed=3, shuffle=shuffle).epoch(2, start)), whole[start:])


@pytest.mark.parametrize("kind", KINDS)
def test_without_shuffling_every_epoch_is_the_same(kind):
    batches = KINDS[kind](seed=3, shuffle=False)
    assert same(list(batches.epoch(0)), list(batches.epoch(5)))


@pytest.mark.parametrize("shuffle", [True, False])
@pytest.mark.parametrize("kind", BY_ROW)
def test_every_row_comes_once_an_epoch(kind, shuffle):
    batches = BY_ROW[kind](seed=5, shuffle=shuffle)
    orders = [np.concatenate(list(batches.plan(epoch))) for epoch in (0, 1)]
    assert all(sorted(order.tolist()) == list(range(COUNT)) for order in orders)
    assert np.array_equal(*orders) is not shuffle


@pytest.mark.parametrize("kind", KINDS)
def test_moving_a_batch_moves_all_of_it_and_keeps_its_count(kind):
    batch = next(KINDS[kind](seed=3).epoch(0))
    moved = batch.to("meta")
    assert moved.target_tokens == batch.target_tokens > 0
    assert moved.tensors.keys() == batch.tensors.keys()
    for name, tensor in batch.tensors.items():
        assert (moved.tensors[name] is None) == (tensor is None)
        assert tensor is None or (tensor.device.type, moved.tensors[name].device.type) == ("cpu", "meta")


def test_the_tensors_of_a_batch_are_its_attributes_and_nothing_else_is():
    batch = Batch(3, ids=torch.arange(2), labels=None)
    assert batch.ids.tolist() == [0, 1]
    assert batch.labels is None
    with pytest.raises(AttributeError, match="a batch of ids, labels has no lengths"):
        batch.lengths  # noqa: B018


def test_rows_are_padded_at_the_end_to_the_longest():
    for rows in ([[4], [5, 6, 7], [8, 9], []], Ragged.of([[4], [5, 6, 7], [8, 9], []], np.uint16)):
        ids, lengths = padded(list(rows))
        assert ids.tolist() == [[4, 0, 0], [5, 6, 7], [8, 9, 0], [0, 0, 0]]
        assert lengths.tolist() == [1, 3, 2, 0]
        assert ids.dtype == lengths.dtype == torch.long
    assert padded([[], [3]], fill=-1)[0].tolist() == [[-1], [3]]


class Counted(np.ndarray):
    """Values of which it is counted how many are taken."""

    taken = 0

    def __getitem__(self, places):
        found = np.asarray(super().__getitem__(places))
        Counted.taken += found.size
        return found


@pytest.mark.parametrize(
    ("store", "kind"),
    [
        (random_pairs(), lambda store: pair_batches(store, tokens=200, pad=PAD, seed=3)),
        (TEXT, lambda store: text_batches(store, rows=3, length=20, seed=3)),
        (MASKED, lambda store: masked_batches(store, Marks(90), rows=4, length=45, next_sentence=True, seed=3)),
    ],
    ids=["pairs", "text", "follows"],
)
def test_planning_takes_no_ids_and_a_batch_no_more_than_it_holds(store, kind):
    columns = {name: store[name] for name in ("source", "target", "ids", "document") if name in store}
    for name in columns.keys() - {"document"}:
        column = columns[name]
        ragged = isinstance(column, Ragged)
        columns[name] = Ragged(column.values.view(Counted), column.offsets) if ragged else column.view(Counted)
    batches, Counted.taken = kind(Store(columns)), 0
    assert len(batches.plan(1)) > 9
    assert Counted.taken == 0
    batch = next(batches.epoch(1))
    assert 0 < Counted.taken <= sum(batch.tensors[name].numel() for name in columns.keys() - {"document"})


# By count


@pytest.mark.parametrize("kind", ["labels", "choices", "tags", "answers"])
def test_batches_hold_rows_of_about_one_length(kind):
    batches = KINDS[kind](seed=5)
    assert {len(rows) for rows in batches.plan(0)} == {9, COUNT % 9}
    cells = sum(batch.ids.numel() for batch in batches.epoch(0))
    assert cells < 1.25 * sum(int(batch.lengths.sum()) for batch in batches.epoch(0))
    widths = [batch.ids.shape[1] for batch in batches.epoch(0)]
    assert widths != sorted(widths)
    widths = [batch.ids.shape[1] for batch in KINDS[kind](seed=5, shuffle=False).epoch(0)]
    assert widths == sorted(widths)


def test_batches_of_similarity_are_of_nearly_one_size():
    store = similarity_store(list(zip(ROWS, OTHERS))[:23], None)
    assert [len(rows) for rows in similarity_batches(store, size=6, seed=3).plan(0)] == [6, 6, 6, 5]


# By shape and token budget


def numbers(batches):
    return [(batch.source[:, 0] - 10).tolist() for batch in batches]


@given(
    lengths=st.lists(st.tuples(st.integers(1, 30), st.integers(1, 30)), min_size=1, max_size=60),
    tokens=st.integers(1, 100),
    seed=st.integers(0, 3),
    shuffle=st.booleans(),
)
def test_every_pair_is_in_one_batch_within_the_budget(lengths, tokens, seed, shuffle):
    sources = [[number + 10] * source for number, (source, _) in enumerate(lengths)]
    targets = [[number + 10] * target for number, (_, target) in enumerate(lengths)]
    store = pair_store(sources, targets)
    batches = list(pair_batches(store, tokens=tokens, pad=PAD, seed=seed, shuffle=shuffle).epoch(seed))
    assert sorted(number for batch in numbers(batches) for number in batch) == list(range(len(lengths)))
    for batch in batches:
        rows = len(batch.source)
        assert rows == 1 or (batch.target.numel() <= tokens and batch.source.numel() <= tokens * SOURCE_ALLOWANCE)
        assert batch.target_tokens == int((batch.target != PAD).sum())
        assert batch.source.dtype == batch.target.dtype == torch.long
        for row, number in enumerate((batch.source[:, 0] - 10).tolist()):
            for found, wanted in ((batch.source[row], sources[number]), (batch.target[row], targets[number])):
                assert found.tolist() == wanted + [PAD] * (len(found) - len(wanted))


def test_pairs_meet_others_in_the_next_epoch_and_batches_come_in_another_order():
    batches = KINDS["pairs"](seed=3)
    first, second = (numbers(batches.epoch(epoch)) for epoch in (0, 1))
    assert {frozenset(batch) for batch in first} != {frozenset(batch) for batch in second}
    for shuffle in (True, False):
        found = KINDS["pairs"](seed=3, shuffle=shuffle).epoch(0)
        longest = [max(batch.source.shape[1], batch.target.shape[1]) for batch in found]
        assert (longest == sorted(longest)) is not shuffle


@pytest.fixture(scope="module")
def captions(tmp_path_factory, multi30k):
    pairs = list(read_pairs(sources=[multi30k / "train.en.gz"], targets=[multi30k / "train.de.gz"]))
    tokenizer = Tokenizer.train((line for pair in pairs for line in pair), 8000)
    return write_pairs(tmp_path_factory.mktemp("multi30k") / "store", pairs, tokenizer, longest=256)


@pytest.mark.parametrize("tokens", [2000, 4096])
def test_less_than_six_percent_of_multi30k_is_padding(captions, tokens):
    batches = pair_batches(captions, tokens=tokens, pad=-1, seed=1)
    for epoch in range(3):
        sides = [side for batch in batches.epoch(epoch) for side in (batch.source, batch.target)]
        cells, real = sum(side.numel() for side in sides), sum(int((side >= 0).sum()) for side in sides)
        assert 1 - real / cells < 0.06


def test_rows_of_a_group_stand_side_by_side_and_groups_in_any_order():
    groups = np.array([0, 0, 1, 2, 2, 2, 3, 4, 4, 4, 4])
    plain = [batch.tolist() for batch in together(groups, 4, None)]
    assert plain == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10]]
    orders = [np.concatenate([*together(groups, 4, np.random.default_rng(seed))]) for seed in range(20)]
    for order in orders:
        assert sorted(order) == list(range(11))
        changes = np.flatnonzero(np.diff(groups[order]))
        assert len(changes) == 4  # each group in one piece
    assert len({tuple(order) for order in orders}) > 5
    again = np.concatenate([*together(groups, 4, np.random.default_rng(3))])
    assert again.tolist() == orders[3].tolist()
