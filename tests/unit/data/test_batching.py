import time

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from manyheads.data.batching import SOURCE_ALLOWANCE, PairBatches
from manyheads.data.corpus import read_pairs
from manyheads.data.store import PairStore
from manyheads.text.tokenizer import Tokenizer

PAD = 7


def random_store(count=300, seed=0):
    """Pairs whose first id on both sides is their number + 10."""
    generator = np.random.default_rng(seed)
    lengths = generator.integers(1, 20, count)
    sources = [[number + 10, *[1] * int(length)] for number, length in enumerate(lengths)]
    targets = [
        [number + 10, *[2] * int(generator.integers(length, length + 4))] for number, length in enumerate(lengths)
    ]
    return PairStore.from_ids(sources, targets)


def same(one, other):
    return len(one) == len(other) and all(
        torch.equal(a.source, b.source) and torch.equal(a.target, b.target) for a, b in zip(one, other)
    )


def numbers(batches):
    return [(batch.source[:, 0] - 10).tolist() for batch in batches]


@given(
    lengths=st.lists(st.tuples(st.integers(1, 30), st.integers(1, 30)), min_size=1, max_size=60),
    tokens=st.integers(1, 100),
    seed=st.integers(0, 3),
    shuffle=st.booleans(),
)
@settings(deadline=None)
def test_every_pair_is_in_one_batch_within_the_budget(lengths, tokens, seed, shuffle):
    sources = [[number + 10] * source for number, (source, _) in enumerate(lengths)]
    targets = [[number + 10] * target for number, (_, target) in enumerate(lengths)]
    store = PairStore.from_ids(sources, targets)
    batches = list(PairBatches(store, tokens=tokens, pad=PAD, seed=seed, shuffle=shuffle).epoch(seed))
    assert sorted(number for batch in numbers(batches) for number in batch) == list(range(len(lengths)))
    for batch in batches:
        rows = len(batch.source)
        assert rows == 1 or (batch.target.numel() <= tokens and batch.source.numel() <= tokens * SOURCE_ALLOWANCE)
        assert batch.source_tokens == int((batch.source != PAD).sum())
        assert batch.target_tokens == int((batch.target != PAD).sum())
        assert batch.source.dtype == batch.target.dtype == torch.long
        for row, number in enumerate((batch.source[:, 0] - 10).tolist()):
            assert batch.source[row, : len(sources[number])].tolist() == sources[number]
            assert batch.target[row, : len(targets[number])].tolist() == targets[number]


def test_an_epoch_is_fixed_by_seed_and_epoch():
    def batches(seed, epoch):
        return list(PairBatches(random_store(), tokens=200, pad=PAD, seed=seed).epoch(epoch))

    assert same(batches(1, 1), batches(1, 1))
    assert not same(batches(1, 1), batches(1, 2))
    assert not same(batches(1, 1), batches(2, 1))


def test_an_epoch_does_not_depend_on_the_epochs_before():
    fresh, used = (PairBatches(random_store(), tokens=200, pad=PAD, seed=3) for _ in range(2))
    for epoch in (0, 1):
        assert list(used.epoch(epoch))
    assert same(list(fresh.epoch(2)), list(used.epoch(2)))


def test_starting_in_mid_epoch_gives_the_rest():
    batches = PairBatches(random_store(), tokens=200, pad=PAD, seed=3)
    whole = list(batches.epoch(4))
    assert len(whole) == batches.count(4) == len(batches.plan(4)) > 10
    assert same(list(batches.epoch(4, start=9)), whole[9:])
    assert not list(batches.epoch(4, start=len(whole)))


def test_pairs_meet_others_in_the_next_epoch_and_batches_come_in_another_order():
    batches = PairBatches(random_store(), tokens=200, pad=PAD, seed=3)
    first, second = (numbers(batches.epoch(epoch)) for epoch in (0, 1))
    assert {frozenset(batch) for batch in first} != {frozenset(batch) for batch in second}
    widths = [batch.target.shape[1] for batch in batches.epoch(0)]
    assert widths != sorted(widths)


def test_without_shuffling_every_epoch_is_the_same():
    batches = PairBatches(random_store(), tokens=200, pad=PAD, seed=3, shuffle=False)
    first = list(batches.epoch(0))
    assert same(first, list(batches.epoch(1)))
    longest = [max(batch.source.shape[1], batch.target.shape[1]) for batch in first]
    assert longest == sorted(longest)


def test_moving_a_batch_keeps_its_counts():
    batch = next(PairBatches(random_store(), tokens=200, pad=PAD, seed=3).epoch(0))
    moved = batch.to("meta")
    assert moved.source.device.type == moved.target.device.type == "meta"
    assert (moved.source_tokens, moved.target_tokens) == (batch.source_tokens, batch.target_tokens)


@pytest.fixture(scope="module")
def captions(tmp_path_factory, multi30k):
    pairs = list(read_pairs(sources=[multi30k / "train.en.gz"], targets=[multi30k / "train.de.gz"]))
    tokenizer = Tokenizer.train((line for pair in pairs for line in pair), 8000)
    return PairStore.build(tmp_path_factory.mktemp("multi30k") / "store", pairs, tokenizer, longest=256)


@pytest.mark.parametrize("tokens", [2000, 4096])
def test_less_than_six_percent_of_multi30k_is_padding(captions, tokens):
    batches = PairBatches(captions, tokens=tokens, pad=0, seed=1)
    for epoch in range(3):
        cells = real = 0
        for batch in batches.epoch(epoch):
            cells += batch.source.numel() + batch.target.numel()
            real += batch.source_tokens + batch.target_tokens
        assert 1 - real / cells < 0.06


def test_a_batch_of_multi30k_takes_little_time_to_make(captions):
    batches = PairBatches(captions, tokens=4096, pad=0, seed=1)
    count = batches.count(0)
    began = time.process_time()
    assert len(list(batches.epoch(0))) == count
    assert (time.process_time() - began) / count < 0.01  # about 0.5 ms measured; the rest is for busy machines
