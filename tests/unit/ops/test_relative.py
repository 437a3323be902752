import pytest
import torch
from torch.testing import assert_close

from manyheads.ops import relative


def test_distances_count_from_the_query_to_the_key():
    assert relative.distances(2, 5, 3).tolist() == [[-3, -2, -1, 0, 1], [-4, -3, -2, -1, 0]]


def test_clipped_distances_stop_at_the_clip_on_both_sides():
    assert relative.clipped_distances(3, 5, 0, 2).tolist() == [[0, 1, 2, 2, 2], [-1, 0, 1, 2, 2], [-2, -1, 0, 1, 2]]


@pytest.mark.parametrize("bidirectional", [True, False])
@pytest.mark.parametrize(("buckets", "furthest"), [(32, 128), (6, 11), (4, 3)])
def test_buckets_equal_transformers(buckets, furthest, bidirectional):
    pytest.importorskip("transformers")
    from transformers.models.t5.modeling_t5 import T5Attention

    distances = torch.arange(-300, 301)[None]
    expected = T5Attention._relative_position_bucket(distances, bidirectional, buckets, furthest)
    assert torch.equal(relative.t5_buckets(distances, buckets, furthest, bidirectional), expected)
    assert set(expected.flatten().tolist()) <= set(range(buckets))
    assert len(expected.unique()) > 2


def test_the_other_direction_has_buckets_only_where_it_is_seen():
    later = torch.tensor([[1, 2, 3]])
    assert relative.t5_buckets(later, 8, 16, bidirectional=False).tolist() == [[0, 0, 0]]
    assert (relative.t5_buckets(later, 8, 16, bidirectional=True) >= 4).all()


def test_slopes_of_eight_heads_halve_from_a_half():
    assert_close(relative.alibi_slopes(8), torch.tensor([0.5**power for power in range(1, 9)]))


def test_slopes_of_twelve_heads_are_those_of_eight_and_every_other_of_sixteen():
    slopes = relative.alibi_slopes(12)
    assert_close(slopes[:8], relative.alibi_slopes(8))
    assert_close(slopes[8:], relative.alibi_slopes(16)[0:8:2])


@pytest.mark.parametrize("heads", [1, 2, 3, 6, 7, 8, 12])
def test_slopes_equal_transformers(heads):
    pytest.importorskip("transformers")
    from transformers.models.bloom.modeling_bloom import build_alibi_tensor

    bias = build_alibi_tensor(torch.ones(1, 2, dtype=torch.long), heads, torch.float32)  # slopes times 0 and 1
    assert_close(relative.alibi_slopes(heads), bias[:, 0, 1])


def test_the_penalty_of_alibi_grows_to_one_side_or_to_both():
    slopes, distances = torch.tensor([0.5, 0.25, 0.125]), relative.distances(2, 5, 2)
    back = relative.alibi_bias(slopes, distances, bidirectional=False)
    both = relative.alibi_bias(slopes, distances, bidirectional=True)
    assert back.shape == (3, 2, 5)
    assert back[1, 0].tolist() == [-0.5, -0.25, 0.0, 0.25, 0.5]
    assert both[1, 0].tolist() == [-0.5, -0.25, 0.0, -0.25, -0.5]
    assert_close(back[0], 2 * back[1])
