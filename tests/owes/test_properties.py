"""What every model owes: one answer whatever the kernel, the batch, the padding, the cache and what is masked."""

from functools import partial

import pytest
import torch
from helpers import with_kernel
from torch.testing import assert_close as torchs_assert_close

from manyheads.nn.cache import Cache
from manyheads.ops.attention import reference, sdpa

WITHIN = {"rtol": 1e-4, "atol": 5e-5}
assert_close = partial(torchs_assert_close, **WITHIN)
without_gradients = pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])


def differ(found, expected) -> bool:
    return not any(torch.allclose(one, other, **WITHIN) for one, other in zip(found, expected, strict=True))


@torch.no_grad()
def test_the_fast_kernel_is_the_reference_kernel(attending):
    for rows in (attending.rows, attending.rows[:1]):  # of several lengths, and one that needs no padding
        with_kernel(attending.model, sdpa)
        fast = attending.each(rows)
        with_kernel(attending.model, reference)
        assert_close(attending.each(rows), fast)
        with_kernel(attending.model, lambda q, *others, **options: reference(-q, *others, **options))
        assert differ(attending.each(rows), fast)  # and the kernel matters


@torch.no_grad()
def test_each_output_sees_what_it_may_and_nothing_else(family):
    before = family.each(family.rows)
    row = family.rows[0]
    for place, sees in enumerate(family.sees(len(row))):
        changed = [*row[:place], 21, *row[place + 1 :]]
        after = family.each([changed, *family.rows[1:]])
        assert_close(after[1:], before[1:])
        assert ((after[0] - before[0]).abs().amax(dim=1) > 1e-5).tolist() == sees.tolist()


@torch.no_grad()
def test_in_a_batch_and_padded_a_row_is_as_alone(family):
    alone = [family.each([row])[0] for row in family.rows]
    for fill in family.fills:
        assert_close(family.each(family.rows, fill), alone)
    longest = max(map(len, family.rows))
    shorter = [place for place, row in enumerate(family.rows) if len(row) < longest]
    seen = family.with_padding_seen(family.rows)
    assert differ([seen[place] for place in shorter], [alone[place] for place in shorter])


@without_gradients
def test_pieces_through_the_cache_are_the_whole_at_once(cached, mode):
    with mode():
        step, ids = cached.stepping()
        whole, count = step(ids), ids.shape[1]
        for pieces in ([1] * count, [2, 1, count - 3]):
            cache = cached.model.decoding_state(count)
            assert_close(torch.cat([step(piece, cache=cache) for piece in ids.split(pieces, dim=1)], dim=1), whole)
            assert cache.length == count
        assert differ(step(ids[:, 1:]), whole[:, 1:])  # without a cache


@without_gradients
def test_rows_of_different_lengths_in_one_cache_are_as_alone(decoder, mode):
    model, rows, lengths = decoder.model, torch.tensor([row[:4] + row[:3] for row in decoder.rows]), [2, 4, 0]
    with mode():
        alone = [model(row[None, : length + 3])[0, length:] for row, length in zip(rows, lengths)]
        new = torch.stack([row[length : length + 3] for row, length in zip(rows, lengths)])
        for pieces in ([1, 1, 1], [2, 1]):
            cache = Cache(7)
            model(rows[:, :4], cache=cache)  # what is behind a row's length is padding
            cache.cut(lengths)
            found = torch.cat([model(piece, cache=cache) for piece in new.split(pieces, dim=1)], dim=1)
            assert_close(found, torch.stack(alone))
            assert cache.lengths.tolist() == [5, 7, 3]
        model(rows[:, :4], cache=(uncut := Cache(7)))
        assert differ(model(new, cache=uncut)[:1], alone[:1])  # padding that is not cut off is seen


@torch.no_grad()
def test_a_mask_can_only_hide(decoder):
    model, (_, ids) = decoder.model, decoder.stepping()
    mask = torch.ones(7, 7, dtype=torch.bool)
    assert_close(model(ids, mask), model(ids))
    mask[4:, 1] = False
    assert_close(model(ids, mask)[:, :4], model(ids)[:, :4])
    assert differ(model(ids, mask)[:, 4:], model(ids)[:, 4:])
