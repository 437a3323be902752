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


def test_sentences_are_dropped_and_reordered():
    cache, (keys, values) = filled(4, 2)
    memory = cache.remember("cross", lambda: new(2))
    kept = torch.tensor([2, 0])
    cache.select(None, kept)
    more = torch.randn(2, H, 1, D), torch.randn(2, H, 1, E)
    found = cache.extend("owner", *more)
    assert torch.equal(found[0], torch.cat([keys[kept], more[0]], dim=2))
    assert torch.equal(found[1], torch.cat([values[kept], more[1]], dim=2))
    assert torch.equal(cache.remember("cross", lambda: new(2))[0], memory[0][kept])


def test_a_beam_looks_at_the_keys_of_its_ancestors_which_do_not_move():
    sentences, beams = 2, 3
    cache = Cache(4, beams)
    pieces = [torch.randn(sentences * beams, H, 1, D) for _ in range(3)]
    # what copying would do: each beam's own keys, carried along whenever beams change places
    own = torch.empty(sentences, beams, H, 0, D)
    choices = [torch.tensor([[2, 2, 0], [1, 0, 0]]), torch.tensor([[0, 2, 1], [0, 1, 2]])]
    for step, piece in enumerate(pieces):
        keys, _ = cache.extend("owner", piece, piece)
        own = torch.cat([own, piece.unflatten(0, (sentences, beams))], dim=3)
        mask = cache.beam_mask(sentences, keys.device)
        for sentence in range(sentences):
            for beam in range(beams):
                seen = keys[sentence][:, mask[sentence, 0, beam]]
                assert torch.equal(seen, own[sentence, beam])
        cache.advance(1)
        if step < 2:
            cache.select(choices[step], None)
            own = own.gather(1, choices[step][:, :, None, None, None].expand_as(own))
    assert torch.equal(
        cache.extend("owner", piece, piece)[0][:, :, :3], pieces[0].unflatten(0, (2, 3)).squeeze(3).transpose(1, 2)
    )
