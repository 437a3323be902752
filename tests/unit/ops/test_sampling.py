import pytest
import torch

from manyheads.ops.sampling import top


@pytest.mark.parametrize("vocabulary", [5, 63, 64, 65, 511, 512, 1021, 2048, 4099])
@pytest.mark.parametrize("count", [1, 2, 5, 8])
def test_it_is_topk(vocabulary, count):
    count = min(count, vocabulary)
    values = torch.randperm(7 * vocabulary).float().view(7, vocabulary)  # no two are equal, so places are unique
    expected = values.topk(count)
    found = top(values, count)
    assert torch.equal(found[0], expected.values)
    assert torch.equal(found[1], expected.indices)


def test_the_best_may_share_a_block_or_lie_behind_the_last_whole_one():
    values = torch.zeros(2, 64 * 40 + 3)
    values[0, 130:134] = torch.tensor([3.0, 4.0, 2.0, 1.0])  # all in one block
    values[1, [0, 64 * 40, 64 * 40 + 2]] = torch.tensor([1.0, 3.0, 2.0])  # in the tail
    found, places = top(values, 3)
    assert found.tolist() == [[4, 3, 2], [3, 2, 1]]
    assert places.tolist() == [[131, 130, 132], [2560, 2562, 0]]


def test_what_is_forbidden_comes_last():
    values = torch.full((1, 64 * 20), -torch.inf)
    values[0, 77] = -5.0
    found, places = top(values, 2)
    assert places[0, 0] == 77
    assert found.tolist() == [[-5.0, -torch.inf]]
