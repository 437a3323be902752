import pytest
from hypothesis import given
from hypothesis import strategies as st

from manyheads.core.errors import DataError
from manyheads.tasks.answer.scores import AnswerScores, answer_scores, exact, normalised, overlap

WORDS = st.lists(
    st.sampled_from(["the", "a", "Cat", "cat,", "dog", "Dögs", "an", "!", "theme", "U.S.", "É"]), max_size=6
)
TEXTS = WORDS.map(" ".join) | st.text(max_size=12)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The Cat", "cat"),
        ("  a   cat\tand\nan owl ", "cat and owl"),
        ("U.S.", "us"),
        ("well-known", "wellknown"),  # punctuation goes without leaving a space
        ("a-b", "ab"),  # and before articles do
        ("theme of Athens", "theme of athens"),
        ("the", ""),
        ("…", "…"),  # ASCII punctuation only
        ("«The» end", "« » end"),
        ("", ""),
    ],
)
def test_texts_are_normalised_as_squad_does(text, expected):
    assert normalised(text) == expected


@given(TEXTS)
def test_what_is_normalised_has_single_spaces_and_no_articles(text):
    found = normalised(text)
    assert found == " ".join(found.split())
    assert not {"a", "an", "the"} & set(found.split())


@pytest.mark.parametrize(
    ("predicted", "gold", "same", "expected"),
    [
        ("the Eiffel Tower", "Eiffel tower!", 1, 1),
        ("Eiffel Tower in Paris", "Eiffel Tower", 0, 2 * (2 / 4) * 1 / (2 / 4 + 1)),
        ("dog dog cat", "dog cat cat cat", 0, 2 * (2 / 3) * (2 / 4) / (2 / 3 + 2 / 4)),  # one dog and one cat
        ("cat dog", "dog cat", 0, 1),
        ("cat", "dog", 0, 0),
        ("", "dog", 0, 0),
        ("dog", "", 0, 0),
        ("the", "", 1, 1),
        ("", "", 1, 1),
    ],
)
def test_exact_match_and_overlap_computed_by_hand(predicted, gold, same, expected):
    assert exact(predicted, gold) == same
    assert overlap(predicted, gold) == pytest.approx(expected)


@given(TEXTS, TEXTS)
def test_overlap_is_symmetric_and_at_least_the_exact_match(one, other):
    assert overlap(one, other) == overlap(other, one)
    assert exact(one, other) <= overlap(one, other) <= 1.0
    assert overlap(one, one) == 1.0


def test_the_nearest_right_answer_counts():
    assert answer_scores(["big cat"], [["dog", "a big cat", "cat"]]).exact == 100.0
    near = answer_scores(["big cat"], [["dog", "very big cat", "cat"]])
    assert (near.exact, near.f1) == (0.0, pytest.approx(100 * 4 / 5))


def test_questions_without_an_answer_are_right_when_nothing_is_answered():
    found = answer_scores(["cat", "", "dog", ""], [["cat"], [], [], ["owl"]])
    assert found == AnswerScores(50.0, 50.0, 4, 50.0, 50.0, 50.0)
    assert answer_scores(["", "cat"], [[""], [""]]) == AnswerScores(50.0, 50.0, 2, None, None, 50.0)


def test_the_kinds_of_questions_are_scored_apart():
    found = answer_scores(["cat", "the dog", "very big owl", "", ""], [["cat"], ["dog", "a wolf"], ["owl"], [], []])
    assert found.questions == 5
    assert found.answerable_exact == pytest.approx(100 * 2 / 3)
    assert found.answerable_f1 == pytest.approx(100 * 2.5 / 3)
    assert found.impossible_right == 100.0
    assert found.exact == pytest.approx(100 * 4 / 5)
    assert found.f1 == pytest.approx(100 * 4.5 / 5)


def test_without_impossible_questions_all_are_answerable():
    found = answer_scores(["cat", "owl"], [["cat"], ["dog"]])
    assert (found.exact, found.answerable_exact, found.impossible_right) == (50.0, 50.0, None)


def test_a_right_answer_that_is_nothing_once_normalised_is_passed_over():
    assert answer_scores([""], [["the", "cat"]]).exact == 0.0
    assert answer_scores(["cat"], [["the", "cat"]]).exact == 100.0
    assert answer_scores([""], [["the"]]) == AnswerScores(100.0, 100.0, 1, 100.0, 100.0, None)


def test_what_cannot_be_scored_is_refused_in_a_sentence():
    with pytest.raises(DataError, match="1 answers to 2 questions"):
        answer_scores(["cat"], [["cat"], ["dog"]])
    with pytest.raises(DataError, match="no question"):
        answer_scores([], [])
