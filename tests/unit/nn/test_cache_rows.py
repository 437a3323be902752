"""Rows of different lengths in one cache."""

import pytest
import torch
from torch.testing import assert_close

from manyheads.nn.attention import MultiHeadAttention
from manyheads.nn.cache import Cache

R, H, D, E = 3, 2, 4, 5
LENGTHS = [2, 4, 0]


def new(length, rows=R):
    return torch.randn(rows, H, length, D), torch.randn(rows, H, length, E)


def advanced(cache, keys, values):
    found = cache.extend("owner", keys, values)
    mask = cache.row_mask(keys.shape[2])
    cache.advance(keys.shape[2])
    return found, mask


def cut_at(lengths, capacity=9):
    """A cache of four positions, cut, and what each row should hold."""
    cache, (keys, values) = Cache(capacity), new(4)
    cache.extend("owner", keys, values)
    cache.advance(4)
    cache.cut(lengths)
    return cache, [(keys[row, :, :length], values[row, :, :length]) for row, length in enumerate(lengths)]


def check_that_each_sees_its_own(found, mask, expected, positions):
    """The last new query of a row sees all of its own row and nothing else."""
    for row, (keys, values) in enumerate(expected):
        seen = mask[row, 0, positions - 1]
        assert torch.equal(found[0][row][:, seen], keys)
        assert torch.equal(found[1][row][:, seen], values)


def longer(expected, keys, values):
    return [
        (torch.cat([k, keys[row]], dim=1), torch.cat([v, values[row]], dim=1)) for row, (k, v) in enumerate(expected)
    ]


@pytest.mark.parametrize("pieces", [[1], [1, 1, 1], [2, 1], [3, 2]])
def test_new_positions_come_behind_each_rows_own(pieces):
    cache, expected = cut_at(LENGTHS)
    for positions in pieces:
        more = new(positions)
        found, mask = advanced(cache, *more)
        expected = longer(expected, *more)
        check_that_each_sees_its_own(found, mask, expected, positions)
    assert cache.lengths.tolist() == [length + sum(pieces) for length in LENGTHS]
    assert cache.length == 4 + sum(pieces)


def test_the_mask_lets_each_new_position_see_one_more():
    cache, _ = cut_at(LENGTHS)
    mask = cache.row_mask(3)
    assert mask.shape == (R, 1, 3, 7)
    assert mask.sum(dim=-1)[:, 0].tolist() == [[3, 4, 5], [5, 6, 7], [1, 2, 3]]
    assert bool((mask.long().diff(dim=-1) <= 0).all())  # what is seen is the beginning
    assert cache.row_mask(3) is mask  # every layer of a step has the same
    cache.advance(3)
    assert cache.row_mask(1).sum(dim=-1).flatten().tolist() == [6, 8, 4]


def test_where_the_next_token_stands_and_how_far_attention_looks():
    cache = Cache(9)
    assert (cache.start, cache.reach(3)) == (0, 3)
    cache.extend("owner", *new(4))
    cache.advance(4)
    assert (cache.start, cache.reach(2)) == (4, 6)
    cache.cut(LENGTHS)
    assert cache.start.tolist() == LENGTHS
    assert cache.reach(2) == 6
    cache.cut([1, 2, 3])  # shorter still
    assert cache.reach(2) == 5


@pytest.mark.parametrize("rows", [[2, 0], [1], [0, 0, 1, 1, 2, 2], [2, 1, 0]])
def test_rows_are_dropped_repeated_and_reordered_with_their_lengths(rows):
    cache, expected = cut_at(LENGTHS)
    more = new(1)
    advanced(cache, *more)
    expected = longer(expected, *more)
    cache.row_mask(1)  # which is of no use any more
    cache.select(None, torch.tensor(rows))
    assert cache.lengths.tolist() == [LENGTHS[row] + 1 for row in rows]
    more = new(2, len(rows))
    found, mask = advanced(cache, *more)
    check_that_each_sees_its_own(found, mask, longer([expected[row] for row in rows], *more), 2)


def test_what_was_never_written_is_a_number_even_behind_rows_that_were_selected():
    """A mask gives it no weight, but no weight times what is not a number is not a number."""
    attention = MultiHeadAttention(12, 3, causal=True)
    torch.use_deterministic_algorithms(True)  # which fills new memory with what is not a number
    try:
        assert torch.empty(3).isnan().all()
        x, cache = torch.randn(3, 4, 12), Cache(9)
        attention(x, cache=cache)
        cache.advance(4)
        cache.cut(LENGTHS)
        cache.select(None, torch.tensor([0, 1, 0]))
        found = attention(x[:, :1], cache=cache)
    finally:
        torch.use_deterministic_algorithms(False)
    whole = attention(torch.cat([x[:1, :2], x[:1, :1]], dim=1))
    assert_close(found[0, 0], whole[0, -1])


def test_when_the_longest_row_leaves_there_is_room_again():
    cache, expected = cut_at([2, 4, 1], capacity=5)
    advanced(cache, *new(1))
    cache.select(None, torch.tensor([0, 2]))
    more = new(2, 2)
    found, _ = advanced(cache, *more)
    assert found[0].shape[2] == 5
    assert torch.equal(found[0][0, :, :2], expected[0][0])
    assert cache.lengths.tolist() == [5, 4]


def test_rows_are_given_the_contents_of_another_cache():
    cache, expected = cut_at(LENGTHS)
    other, (keys, values) = Cache(9), new(3, 2)
    other.extend("owner", keys, values)
    other.advance(3)
    cache.row_mask(1)
    cache.put([1, 2], other, [3, 2])
    assert cache.lengths.tolist() == [2, 3, 2]
    assert cache.length == 3  # of the longest, which has become shorter
    expected = [expected[0], (keys[0], values[0]), (keys[1, :, :2], values[1, :, :2])]
    more = new(1)
    found, mask = advanced(cache, *more)
    check_that_each_sees_its_own(found, mask, longer(expected, *more), 1)
    longest = Cache(9)
    longest.extend("owner", *new(6, 1))
    longest.advance(6)
    cache.put([2], longest, [6])
    assert (cache.lengths.tolist(), cache.reach(1)) == ([3, 4, 6], 7)


def test_it_holds_what_it_was_made_for_and_no_more():
    cache, _ = cut_at(LENGTHS, capacity=5)
    advanced(cache, *new(1))
    with pytest.raises(ValueError, match="6 positions do not fit a cache of 5"):
        cache.extend("owner", *new(1))
    cache.cut([2, 1, 0])
    advanced(cache, *new(3))


def test_beams_cannot_be_cut():
    with pytest.raises(ValueError, match="rows of different lengths cannot share their keys among beams"):
        Cache(5, beams=2).cut([1, 2])


def test_rows_of_different_lengths_take_no_other_mask():
    attention, cache = MultiHeadAttention(12, 3, causal=True), Cache(9)
    attention(torch.randn(3, 4, 12), mask=torch.ones(4, 4, dtype=torch.bool), cache=cache)  # equally long ones do
    cache.advance(4)
    cache.cut(LENGTHS)
    with pytest.raises(ValueError, match="have a mask of their own"):
        attention(torch.randn(3, 1, 12), mask=torch.ones(1, 5, dtype=torch.bool), cache=cache)
