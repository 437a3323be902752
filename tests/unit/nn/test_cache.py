import pytest
import torch

from manyheads.nn.cache import Cache

B, H, D, E = 3, 2, 4, 5


def new(length):
    return torch.randn(B, H, length, D), torch.randn(B, H, length, E)


def filled(capacity, *lengths):
    cache, pieces = Cache(capacity), [new(length) for length in lengths]
    for keys, values in pieces:
        cache.extend("owner", keys, values)
        cache.advance(keys.shape[2])
    return cache, [torch.cat(each, dim=2) for each in zip(*pieces)]


def test_new_positions_come_behind_those_known():
    cache, (keys, values) = filled(6, 2, 1)
    more = new(2)
    found = cache.extend("owner", *more)
    assert torch.equal(found[0], torch.cat([keys, more[0]], dim=2))
    assert torch.equal(found[1], torch.cat([values, more[1]], dim=2))
    assert cache.length == 3  # only the model says that all its blocks are done


def test_owners_do_not_meet():
    cache = Cache(4)
    first, second = new(1), new(1)
    cache.extend("first", *first)
    assert torch.equal(cache.extend("second", *second)[0], second[0])
    assert torch.equal(cache.extend("first", *first)[0], first[0])


def test_it_holds_what_it_was_made_for_and_no_more():
    cache, _ = filled(3, 2)
    cache.extend("owner", *new(1))
    with pytest.raises(ValueError, match="4 positions do not fit a cache of 3"):
        cache.extend("owner", *new(2))


def test_a_memory_is_computed_once():
    cache, calls = Cache(1), []

    def compute():
        calls.append(1)
        return new(2)

    first = cache.remember("owner", compute)
    assert cache.remember("owner", compute) is first
    assert len(calls) == 1
    cache.remember("other", compute)
    assert len(calls) == 2


def test_rows_are_dropped_repeated_and_reordered():
    cache, (keys, values) = filled(4, 2)
    rows = torch.tensor([2, 0, 0, 1])
    cache.select(rows)
    more = torch.randn(4, H, 1, D), torch.randn(4, H, 1, E)
    found = cache.extend("owner", *more)
    assert torch.equal(found[0], torch.cat([keys[rows], more[0]], dim=2))
    assert torch.equal(found[1], torch.cat([values[rows], more[1]], dim=2))


def test_beams_move_without_moving_the_memory_they_share():
    cache, _ = filled(4, 1)
    memory = cache.remember("cross", lambda: new(2))
    cache.select(torch.tensor([1, 1]))
    assert cache.remember("cross", lambda: new(2)) is memory
    cache.select(torch.tensor([0]), torch.tensor([2, 0]))
    kept = cache.remember("cross", lambda: new(2))
    assert torch.equal(kept[0], memory[0][[2, 0]])
    assert torch.equal(kept[1], memory[1][[2, 0]])
