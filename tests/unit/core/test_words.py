"""Numbers with their nouns."""

from manyheads.core.words import counted


def test_one_is_one_and_others_are_many():
    assert [counted(count, "pair") for count in (0, 1, 2, 1000)] == ["0 pairs", "1 pair", "2 pairs", "1,000 pairs"]
    assert [counted(count, "column is", "columns are") for count in (1, 2)] == ["1 column is", "2 columns are"]
