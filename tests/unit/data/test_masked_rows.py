"""Rows of masked sentences: what is in them, and what they tell."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from helpers import Marks, sentence_store
from hypothesis import given, settings
from hypothesis import strategies as st

from manyheads.core.errors import DataError
from manyheads.data.masked_rows import masked_batches
from manyheads.data.sentences import document_bounds

PAD, START, SEPARATOR, MASK, UNKNOWN = Marks.pad, Marks.start, Marks.separator, Marks.mask, Marks.unknown
FIRST = 10


def corpus(documents, longest=12, seed=0):
    """Documents of so many sentences of drawn lengths, whose ids are their places, counted from FIRST."""
    generator, at, found = np.random.default_rng(seed), FIRST, []
    for count in documents:
        lengths = generator.integers(1, longest + 1, size=count).tolist()
        found.append([])
        for length in lengths:
            found[-1].append(list(range(at, at + length)))
            at += length
    return sentence_store(found)


def batches_of(store, *, rows=4, length=40, next_sentence=True, **order):
    marks = Marks(FIRST + len(store["ids"].values))
    return masked_batches(store, marks, rows=rows, length=length, next_sentence=next_sentence, **{"seed": 1, **order})


def rows_of(batches, epoch):
    """All rows of an epoch."""
    return batches.plan(epoch)[0][0]


def texts_of(batch):
    """The texts of each row as they were before words were hidden; marks and padding are where they belong."""
    ids = batch.ids.flatten().clone()
    ids[batch.places] = batch.targets
    found = []
    for row, length in zip(ids.view_as(batch.ids).tolist(), batch.lengths.tolist()):
        assert row[length:] == [PAD] * (len(row) - length)
        assert (row[0], row[length - 1]) == (START, SEPARATOR)
        ends = [place for place, each in enumerate(row) if each == SEPARATOR]
        assert len(ends) == (1 if batch.follows is None else 2)
        found.append([row[first + 1 : end] for first, end in pairwise([0, *ends])])
        assert not {PAD, START, MASK} & {each for text in found[-1] for each in text}
    assert int(batch.lengths.max()) == batch.ids.shape[1]
    return found


def sentences_in(store, text):
    """The numbers of the sentences that a text is, and it is nothing else."""
    assert text == list(range(text[0], text[-1] + 1))
    begin = store["ids"].offsets
    first, end = np.searchsorted(begin, [text[0] - FIRST, text[-1] + 1 - FIRST])
    assert begin[[first, end]].tolist() == [text[0] - FIRST, text[-1] + 1 - FIRST]
    document, last = np.searchsorted(document_bounds(store), [first, end - 1], "right")
    assert document == last
    return range(first, end), document


@settings(max_examples=60)
@given(
    documents=st.lists(st.integers(1, 9), min_size=1, max_size=12),
    length=st.integers(14, 40),
    rows=st.integers(1, 5),
    epoch=st.integers(0, 2),
    shuffle=st.booleans(),
)
def test_rows_are_whole_sentences_each_seen_once(documents, length, rows, epoch, shuffle):
    store = corpus(documents)
    batches = batches_of(store, rows=rows, length=length, next_sentence=False, shuffle=shuffle)
    found = list(batches.epoch(epoch))
    seen = []
    for batch in found:
        assert batch.follows is None
        assert batch.ids.shape[0] <= rows
        assert batch.ids.shape[1] <= length
        for (text,) in texts_of(batch):
            seen += sentences_in(store, text)[0]
    assert sorted(seen) == list(range(len(store)))


@settings(max_examples=60)
@given(
    documents=st.lists(st.integers(1, 9), min_size=1, max_size=12).filter(lambda counts: max(counts) > 1),
    length=st.integers(27, 60),
    epoch=st.integers(0, 2),
    shuffle=st.booleans(),
)
def test_second_texts_follow_where_it_says_so_and_never_else(documents, length, epoch, shuffle):
    store = corpus(documents)  # any two sentences fit into a row
    one_document = 2 * max(documents) > sum(documents)
    for batch in batches_of(store, length=length, shuffle=shuffle).epoch(epoch):
        assert batch.ids.shape[1] <= length
        assert batch.follows is not None
        for (first, second), follows in zip(texts_of(batch), batch.follows.tolist()):
            (before, here), (after, there) = sentences_in(store, first), sentences_in(store, second)
            assert follows == (before.stop == after.start)
            if follows:
                assert here == there
            else:
                assert not set(before) & set(after)
                assert one_document or here != there


def test_a_text_never_meets_itself_in_the_shortest_corpora():
    batches = batches_of(corpus([9]), length=27)
    mixed = 0
    for epoch in range(150):
        rows = rows_of(batches, epoch)
        apart = (rows.first + rows.first_length <= rows.second) | (rows.second + rows.second_length <= rows.first)
        assert apart.all()
        mixed += (~rows.follows).sum()
    assert mixed > 75


@pytest.mark.parametrize("documents", [[6000], [12] * 500, [1, 2, 3, 4, 5] * 400, [5400, 600]])
def test_almost_every_sentence_is_seen_once_an_epoch(documents):
    store = corpus(documents)
    seen = np.zeros(len(store), dtype=int)
    rows = rows_of(batches_of(store, rows=32), 1)
    for places, lengths in ((rows.first, rows.first_length), (rows.second, rows.second_length)):
        for first, end in np.searchsorted(store["ids"].offsets, np.stack([places, places + lengths], axis=1)):
            seen[first:end] += 1
    fit = seen[np.repeat(documents, documents) > 1]  # the others have no neighbour
    assert (fit > 0).mean() > 0.99
    assert (fit == 1).mean() > 0.9
    assert fit.max() < 6


def guessed_right(lengths, follows):
    """How often the commoner answer for a length is right, learned on one half of the rows and asked on the other."""
    right = 0
    for learned in (slice(0, None, 2), slice(1, None, 2)):
        asked = slice(1 - learned.start, None, 2)
        votes = np.bincount(lengths[learned], 2.0 * follows[learned] - 1, lengths.max() + 1)
        right += ((votes[lengths[asked]] > 0) == follows[asked]).sum()
    return right / len(lengths)


@pytest.mark.parametrize("documents", [[20_000], [20] * 1000, [3] * 6000, [18_000, 2000]])
def test_lengths_do_not_tell_whether_the_second_text_follows(documents):
    rows = rows_of(batches_of(corpus(documents, longest=18), rows=32), 0)
    follows = rows.follows
    assert follows.mean() == pytest.approx(0.5, abs=0.02)
    for lengths in (rows.lengths, rows.first_length, rows.second_length, rows.first_length * 40 + rows.second_length):
        assert guessed_right(lengths, follows) < 0.55
    assert guessed_right(rows.lengths + 4 * follows, follows) > 0.55  # and the test can tell four tokens more


def test_words_are_hidden_and_marks_and_unknown_words_never_are():
    store = corpus([30] * 100)
    store["ids"].values[::3] = UNKNOWN
    words = predicted = 0
    for batch in batches_of(store, rows=16).epoch(0):
        assert batch.target_tokens == len(batch.places) == len(batch.targets)
        hidden = batch.ids.flatten()[batch.places]
        assert (batch.targets >= FIRST).all()
        assert ((hidden >= FIRST) | (hidden == MASK)).all()
        assert int((batch.ids == MASK).sum()) == int((hidden == MASK).sum())
        rest = torch.ones(batch.ids.numel(), dtype=torch.bool)
        rest[batch.places] = False
        words += int((batch.ids.flatten()[rest] >= FIRST).sum()) + len(hidden)
        predicted += len(hidden)
    assert predicted / words == pytest.approx(0.15, abs=0.015)


def test_a_batch_without_words_to_hide_can_still_be_divided_by():
    store = sentence_store([[[UNKNOWN] * 3] * 4])
    (batch,) = batches_of(store, length=30).epoch(0)
    assert len(batch.places) == 0
    assert batch.target_tokens == 1


@pytest.mark.parametrize("documents", [[4000], [40] * 100])
def test_every_epoch_cuts_the_text_elsewhere(documents):
    batches = batches_of(corpus(documents), next_sentence=False)
    starts = [set(rows_of(batches, epoch).first.tolist()) for epoch in range(5)]
    shared = [len(one & other) / len(one) for one, other in pairwise(starts)]
    assert max(shared) < 0.8


def test_most_rows_are_full_and_little_is_padded():
    batches = list(batches_of(corpus([3000]), rows=16, length=64).epoch(0))
    lengths = torch.cat([batch.lengths for batch in batches])
    assert (lengths > 64 - 12).float().mean() > 0.8
    assert 0.02 < (lengths < 40).float().mean() < 0.12
    cells = sum(batch.ids.numel() for batch in batches)
    assert lengths.sum() / cells > 0.95
    rows = sum(len(batch.lengths) for batch in batches)
    assert lengths.sum() / (rows * 64) < 0.92  # and the test can tell: less than if every row had 64


def test_a_corpus_that_gives_no_rows_is_refused():
    empty = corpus([3]).part(1, 1)
    with pytest.raises(DataError, match="there are no sentences"):
        batches_of(empty)
    single = sentence_store([[[10, 11]], [[12, 13]]])
    with pytest.raises(DataError, match="no document has two sentences"):
        batches_of(single)
    assert [len(text) for (text,) in texts_of(next(batches_of(single, next_sentence=False).epoch(0)))] == [2, 2]
    long = sentence_store([[list(range(10, 31)), [31]]])
    with pytest.raises(DataError, match="the longest sentence has 21 tokens, and a row of 23 has room for 20"):
        batches_of(long, length=23)
    with pytest.raises(DataError, match="no document has two sentences that fit into a row of 24 together"):
        batches_of(long, length=24)
    # A corpus of one row has nothing to put in the place of its second text.
    (batch,) = batches_of(long, length=25).epoch(0)
    assert batch.follows is not None
    assert batch.follows.tolist() == [1]
