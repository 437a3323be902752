import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from manyheads.ops.packing import Packing

B, T, W = 4, 7, 3
LENGTHS = [5, 2, 7, 2]


def rows(lengths, positions=T):
    """Numbers that are all different, none of them zero."""
    return torch.arange(1.0, 1 + len(lengths) * positions * W).view(len(lengths), positions, W)


def real(lengths, positions=T):
    return torch.arange(positions) < torch.tensor(lengths)[:, None]


def test_real_tokens_stand_end_to_end_with_the_shortest_rows_first():
    packing, x = Packing.of(torch.tensor(LENGTHS), T), rows(LENGTHS)
    found = packing.pack(x)
    assert packing.groups == [(2, 2), (1, 5), (1, 7)]
    assert_close(found, torch.cat([x[1, :2], x[3, :2], x[0, :5], x[2]]), atol=0, rtol=0)
    assert packing.places.tolist() == [7, 8, 21, 22, 0, 1, 2, 3, 4, *range(14, 21)]


def test_rows_of_one_length_stay_in_their_order():
    lengths = [3, 6, 3, 6, 3]
    packing, x = Packing.of(torch.tensor(lengths), T), rows(lengths)
    first, second = packing.pack(x).split([9, 12])
    assert torch.equal(first.view(3, 3, W), x[[0, 2, 4], :3])
    assert torch.equal(second.view(2, 6, W), x[[1, 3], :6])


def test_gradients_reach_real_tokens_and_no_padding():
    packing, x = Packing.of(torch.tensor(LENGTHS), T), rows(LENGTHS).requires_grad_()
    weights = torch.randn(B, T, W)
    (packing.unpack(packing.pack(x).square(), B, T) * weights).sum().backward()
    found, x.grad = x.grad, None
    (x.square() * weights * real(LENGTHS)[:, :, None]).sum().backward()
    assert_close(found, x.grad)
    assert not found[~real(LENGTHS)].any()
    assert found[real(LENGTHS)].all()


@settings(max_examples=150)
@given(lengths=st.lists(st.integers(0, 6), min_size=1, max_size=9), behind=st.integers(0, 3))
def test_packing_and_unpacking_is_the_identity_on_whatever_is_real(lengths, behind):
    positions = max(lengths) + behind
    packing, x = Packing.of(torch.tensor(lengths), positions), rows(lengths, positions)
    packed = packing.pack(x)
    assert packed.shape == (sum(lengths), W)
    assert sum(count for count, _ in packing.groups) == len(lengths)
    assert [length for count, length in packing.groups for _ in range(count)] == sorted(lengths)
    assert len({length for _, length in packing.groups}) == len(packing.groups)
    kept = real(lengths, positions)
    assert torch.equal(packing.unpack(packed, len(lengths), positions), x * kept[:, :, None])
    assert packing.unpack(packed.bfloat16(), len(lengths), positions).dtype == torch.bfloat16
    parts = packed.split([count * length for count, length in packing.groups])
    pieces = [piece for part, (count, _) in zip(parts, packing.groups) for piece in part.chunk(count) if len(part)]
    assert sorted(piece[:, 0].tolist() for piece in pieces) == sorted(
        row[:length, 0].tolist() for row, length in zip(x, lengths) if length
    )
