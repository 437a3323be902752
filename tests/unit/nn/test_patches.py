"""Patches, and where they stand: sines in two directions, alone and for a learned table to begin with."""

import pytest
import torch
from torch.testing import assert_close

from manyheads.nn.patches import Patches, Sinusoidal2D, as_product, sines_to_begin_with
from manyheads.ops.rotary import sinusoid


def added(positions, width: int, grid: int) -> torch.Tensor:
    """[1 + patches, width]: what is added to the classification token and to the patches."""
    return positions.add(torch.zeros(1, 1 + grid * grid, width), 0)[0]


@pytest.mark.parametrize("width", [24, 21])
def test_half_of_the_width_says_the_row_and_half_the_column(width):
    table = added(Sinusoidal2D(width, 3, base=50.0, amplitude=0.5), width, 3)
    assert not table[0].any()
    patches, half = table[1:].view(3, 3, width), width // 2
    for place in range(3):
        assert_close(patches[place, :, :half], 0.5 * sinusoid(torch.tensor([place] * 3), half, 50.0))
        assert_close(patches[:, place, half:], 0.5 * sinusoid(torch.tensor([place] * 3), width - half, 50.0))
    assert len({tuple(row) for row in table.tolist()}) == 10


def test_a_learned_table_begins_with_neighbours_alike_and_learns():
    learned = sines_to_begin_with(24, 5)
    table = added(learned, 24, 5)[1:].view(5, 5, 24)
    near = torch.cosine_similarity(table[2, 2], table[2, 3], dim=0)
    assert near > torch.cosine_similarity(table[2, 2], table[4, 0], dim=0) + 0.1
    assert learned.table.weight.requires_grad
    assert learned.table.weight.shape == (26, 24)


def test_it_can_be_made_where_nothing_is_stored():
    with torch.device("meta"):
        assert sines_to_begin_with(12, 3).table.weight.is_meta


def test_what_a_gpu_multiplies_is_what_the_convolution_finds():
    patches, pixels = Patches(4, 3, 10), torch.randn(2, 3, 8, 12)
    torch.nn.init.normal_(patches.projection.bias)  # type: ignore
    assert_close(as_product(patches.projection, pixels), patches(pixels), atol=1e-5, rtol=1e-5)
