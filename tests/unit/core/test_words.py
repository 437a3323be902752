"""Numbers with their nouns."""

from manyheads.core.words import counted, is_utf8


def test_one_is_one_and_others_are_many():
    assert [counted(count, "pair") for count in (0, 1, 2, 1000)] == ["0 pairs", "1 pair", "2 pairs", "1,000 pairs"]
    assert [counted(count, "column is", "columns are") for count in (1, 2)] == ["1 column is", "2 columns are"]


def test_half_a_pair_and_a_byte_that_is_no_letter_have_no_form_in_utf8():
    assert all(map(is_utf8, ("", "grün", "\U0001f600", "a\0")))
    assert not any(map(is_utf8, ("\ud83d", "a\udcff")))
