"""Rows that go through a model together."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manyheads.core.grouping import grouped

SETTINGS = {
    "lengths": st.lists(st.integers(1, 30), max_size=40),
    "cells": st.integers(1, 200),
    "longest_first": st.booleans(),
    "most": st.none() | st.integers(1, 5),
}


@given(**SETTINGS)
def test_every_row_is_in_one_group_that_is_as_large_as_it_may_be(lengths, cells, longest_first, most):
    groups = list(grouped(lengths, cells, longest_first=longest_first, most=most))
    order = [place for group in groups for place in group]
    assert order == sorted(range(len(lengths)), key=lambda place: -lengths[place] if longest_first else lengths[place])
    for group, following in zip(groups, [*groups[1:], []]):
        assert len(group) == 1 or len(group) * max(lengths[place] for place in group) <= cells
        assert most is None or len(group) <= most
        if following:
            more = [*group, following[0]]
            assert len(more) * max(lengths[place] for place in more) > cells or len(group) == most


@pytest.mark.parametrize(("longest_first", "expected"), [(False, [[1, 3], [0, 4], [2]]), (True, [[2], [0, 4], [1, 3]])])
def test_the_shortest_come_first_or_the_longest(longest_first, expected):
    assert list(grouped([5, 2, 9, 2, 5], 12, longest_first=longest_first)) == expected
    assert not list(grouped([], 12))
