"""What is held out is drawn by a seed, of each class its share."""

import pytest

from manyheads.data.held_out import held_out


def test_a_draw_follows_from_the_seed_and_is_spread_over_all():
    first, again, other = (held_out([range(1000)], every=10, seed=seed) for seed in (1, 1, 2))
    assert first == again != other
    assert len(first) == len(other) == 100
    assert len({number % 10 for number in first}) == 10
    assert min(first) < 100
    assert max(first) > 900


@pytest.mark.parametrize(
    ("sizes", "shares"), [((50, 50), [5, 5]), ((91, 9), [9, 1]), ((5, 95), [1, 9]), ((20, 30, 50), [2, 3, 5])]
)
def test_each_class_gives_its_share(sizes, shares):
    classes = [range(1000 * place, 1000 * place + size) for place, size in enumerate(sizes)]
    held = held_out(classes, every=10, seed=3)
    assert [len(held.intersection(numbers)) for numbers in classes] == shares


def test_no_more_than_asked_for_none_of_few_and_never_the_only_one_of_a_class():
    assert len(held_out([range(1000)], every=10, most=7, seed=1)) == 7
    assert not held_out([range(9)], every=10, seed=1)
    assert not held_out([], every=10, seed=1)
    alone = [[number] for number in range(90)]
    for seed in range(20):
        assert held_out([range(100, 110), *alone], every=10, seed=seed) <= set(range(100, 110))
