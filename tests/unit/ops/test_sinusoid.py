import math

import pytest
import torch
from torch.testing import assert_close

from manyheads.ops.sinusoid import sinusoid


@pytest.mark.parametrize("width", [6, 7])
def test_every_entry_is_the_published_formula(width):
    table = sinusoid(torch.arange(5), width)
    assert table.shape == (5, width)
    assert table.dtype == torch.float32
    for position in range(5):
        for column in range(width):
            angle = position / 10_000 ** (2 * (column // 2) / width)
            expected = math.sin(angle) if column % 2 == 0 else math.cos(angle)
            assert table[position, column].item() == pytest.approx(expected, abs=1e-6)


def test_the_base_sets_the_longest_wavelength():
    table = sinusoid(torch.tensor([3]), 4, base=100.0)
    assert_close(table[0, 2:], torch.tensor([math.sin(0.3), math.cos(0.3)]))
    assert not torch.allclose(table, sinusoid(torch.tensor([3]), 4))


def test_positions_far_away_are_still_exact():
    far = 1_000_003
    table = sinusoid(torch.tensor([far]), 6)
    angle = far / 10_000 ** (2 / 6)
    assert table[0, 2].item() == pytest.approx(math.sin(angle), abs=1e-6)
    rounded = torch.tensor(angle, dtype=torch.float32).sin().item()
    assert abs(rounded - math.sin(angle)) > 1e-4  # float32 angles would not be


def test_a_shift_is_the_same_linear_map_from_every_position():
    table = sinusoid(torch.arange(303), 6).double()
    shift = torch.linalg.lstsq(table[:300], table[3:]).solution  # takes every position p to p + 3
    later = sinusoid(torch.arange(1000, 1005), 6).double()
    assert_close(later @ shift, sinusoid(torch.arange(1003, 1008), 6).double(), atol=1e-4, rtol=0)
    assert not torch.allclose(later @ shift, later, atol=0.1)
