"""What heads do: exact numbers and words for heads that are built to do one thing."""

from math import log2

import numpy as np
import pytest

from manyheads.look.statistics import HeadStatistics, head_statistics, is_punctuation, is_separator
from manyheads.look.views import View

WORDS = ["The", "cat", "sat", "on", "the", "mat", "today"]
SENTENCES = ["[CLS]", "a", "cat", ".", "the", "end", "[SEP]"]
SIZE = 7


def looking(targets: list[int], columns: int = SIZE) -> np.ndarray:
    """A head of which each row looks at one column."""
    return np.eye(columns, dtype=np.float32)[targets]


def even(causal: bool = False, size: int = SIZE) -> np.ndarray:
    """A head that looks at all it may alike."""
    weights = np.tri(size) if causal else np.ones((size, size))
    return (weights / weights.sum(axis=1, keepdims=True)).astype(np.float32)


def statistics(*heads: np.ndarray, tokens: list[str] = WORDS, kind: str = "self") -> list[HeadStatistics]:
    rows = tokens if kind != "cross" else [f"target {row}" for row in range(len(heads[0]))]
    return head_statistics(View(kind, np.stack(heads)[None], rows, tokens))


PREVIOUS = looking([0, 0, 1, 2, 3, 4, 5])
ITSELF = looking(list(range(7)))
NEXT = looking([1, 2, 3, 4, 5, 6, 6])
FIRST = looking([0] * 7)


def test_a_head_that_looks_back_one_token():
    (head,) = statistics(PREVIOUS)
    assert head.looks == "back one token"
    # In a view that never looks ahead the first row has no choice, so that it does not count.
    assert (head.previous, head.next, head.entropy, head.relative_entropy, head.distance) == (1, 0, 0, 0, 1)
    assert (head.itself, head.first) == (0, pytest.approx(1 / 6))
    assert (head.layer, head.head, head.order) == (0, 0, None)


def test_beside_a_head_that_looks_ahead_all_rows_count():
    head, other = statistics(PREVIOUS, NEXT)
    assert (head.previous, head.itself, head.distance) == (
        pytest.approx(6 / 7),
        pytest.approx(1 / 7),
        pytest.approx(6 / 7),
    )
    assert (other.next, other.previous, other.first) == (pytest.approx(6 / 7), 0, 0)
    assert (head.looks, other.looks) == ("back one token", "ahead one token")


def test_a_head_that_looks_at_itself_or_at_the_first():
    itself, first = statistics(ITSELF, FIRST)
    assert (itself.looks, itself.itself, itself.distance) == ("at itself", 1, 0)
    assert (first.looks, first.first, first.distance) == (
        "at the first token",
        1,
        pytest.approx(np.mean([1, 2, 3, 4, 5, 6])),
    )


@pytest.mark.parametrize("causal", [False, True])
def test_a_head_that_looks_at_all_alike(causal):
    (head,) = statistics(even(causal))
    allowed = range(2, 8) if causal else [7] * 7
    assert head.looks == "everywhere"
    assert head.entropy == pytest.approx(np.mean([log2(count) for count in allowed]))
    assert head.relative_entropy == pytest.approx(1)
    assert head.first == pytest.approx(np.mean([1 / count for count in allowed]))


def test_the_highest_entropy_is_that_of_what_may_be_looked_at():
    narrow, ahead = even(causal=True), even()
    (alone,) = statistics(narrow)
    beside, _ = statistics(narrow, ahead)
    most = np.mean([log2(count) for count in range(1, 8)]) / log2(7)
    assert alone.relative_entropy == pytest.approx(1)
    assert beside.relative_entropy == pytest.approx(most, abs=1e-6)


def test_a_head_that_looks_at_punctuation():
    (head,) = statistics(0.75 * looking([3] * 7) + 0.25 * even(), tokens=SENTENCES)
    assert head.looks == "at punctuation"
    assert head.punctuation == pytest.approx(0.75 + 0.25 / 7)
    assert head.separators == pytest.approx(0.25 * 2 / 7)


def test_a_head_that_looks_at_separators_is_told_from_one_that_looks_at_the_first():
    both = 0.5 * looking([0] * 7) + 0.5 * looking([6] * 7)
    separators, first = statistics(both, FIRST, tokens=SENTENCES)
    assert (separators.looks, separators.separators, separators.first) == ("at separators", 1, 0.5)
    assert (first.looks, first.separators) == ("at the first token", 1)


def test_a_short_text_does_not_mislead():
    """Of two tokens half the weight is what chance gives; of many it is a habit."""
    short = np.array([[1, 0], [0.6, 0.4]], dtype=np.float32)
    (head,) = statistics(short, tokens=WORDS[:2])
    assert (head.previous, head.looks) == (pytest.approx(0.6), "everywhere")
    long = 0.6 * looking([max(row - 1, 0) for row in range(40)], 40) + 0.4 * even(causal=True, size=40)
    (head,) = statistics(long, tokens=["word"] * 40)
    assert 0.6 < head.previous < 0.7
    assert head.looks == "back one token"


def test_heads_without_a_place_of_their_own():
    scattered = looking([4, 2, 5, 1, 6, 3, 2])
    halves = 0.5 * scattered + 0.5 * looking([2, 5, 6, 5, 2, 1, 4])
    one, mixed, leaning = statistics(scattered, halves, 0.4 * scattered + 0.6 * even())
    assert (one.looks, one.entropy) == ("at one place", 0)
    assert (mixed.looks, mixed.entropy) == ("mixed", pytest.approx(1))
    assert mixed.relative_entropy == pytest.approx(1 / log2(7))
    assert (leaning.looks, 0.7 < leaning.relative_entropy < 0.9) == ("mixed", True)


def test_rows_that_look_at_nothing_do_not_count():
    weights = PREVIOUS.copy()
    weights[[2, 5]] = 0
    head, whole, nothing = statistics(weights, NEXT, np.zeros_like(weights))
    assert (head.previous, head.looks) == (pytest.approx(4 / 5), "back one token")
    assert whole.next == pytest.approx(6 / 7)
    assert (nothing.looks, nothing.entropy, nothing.relative_entropy, nothing.first) == ("nowhere", 0, None, 0)


def test_a_text_of_one_token_has_no_choice():
    (head,) = statistics(np.ones((1, 1), dtype=np.float32), tokens=["Hello"])
    assert (head.itself, head.first, head.entropy, head.relative_entropy) == (1, 1, 0, None)
    assert head.looks == "mixed"


def test_cross_attention():
    tokens = ["ein", "Haus", ",", "sagt", "man", ".", "</s>"]
    ahead = looking([0, 1, 3, 4, 6])
    heads = statistics(
        *(ahead, ahead[::-1], looking([6] * 5), looking([2, 5, 2, 5, 5]), even()[:5], looking([0] * 5)),
        tokens=tokens,
        kind="cross",
    )
    words = ["in order", "at one place", "at separators", "at punctuation", "everywhere", "at one place"]
    assert [head.looks for head in heads] == words
    straight = np.corrcoef(range(5), [0, 1, 3, 4, 6])[0, 1]
    assert [head.order for head in heads[:2]] == pytest.approx([straight, -straight])
    assert heads[2].order is None  # what stays where it is neither advances nor goes back
    assert (heads[0].separators, heads[2].separators, heads[3].punctuation) == (pytest.approx(1 / 5), 1, 1)
    assert {head.distance for head in heads} == {head.previous for head in heads} == {None}


def test_cross_attention_between_texts_of_one_length_is_no_self_attention():
    (cross,), (own,) = statistics(ITSELF, kind="cross"), statistics(ITSELF)
    assert (cross.itself, cross.looks) == (None, "in order")
    assert own.itself == 1


def test_layers_and_heads_have_the_numbers_of_the_view():
    weights = np.stack([np.stack([PREVIOUS, NEXT, ITSELF]), np.stack([NEXT, ITSELF, PREVIOUS])])
    found = head_statistics(View("self", weights, WORDS, WORDS, layers=[3, 5], heads=[0, 2, 4]))
    assert [(head.layer, head.head) for head in found] == [(3, 0), (3, 2), (3, 4), (5, 0), (5, 2), (5, 4)]
    assert [head.looks.split()[0] for head in found] == ["back", "ahead", "at", "ahead", "at", "back"]


PUNCTUATION = [".", ",", "Ġ,", "▁.", "##.", "...", "”", "。", ".</w>", " ?"]
SEPARATORS = ["[CLS]", "[SEP]", "<s>", "</s>", "<|endoftext|>", "<|eot_id|>", "<bos>"]
OTHERS = ["", "▁", "a.", "'s", "+", "[MASK]", "<unk>", "<0x0A>", "\\xf0", "s", "5"]


@pytest.mark.parametrize("token", [*PUNCTUATION, *SEPARATORS, *OTHERS])
def test_punctuation_and_separators_are_told_from_other_tokens(token):
    assert (is_punctuation(token), is_separator(token)) == (token in PUNCTUATION, token in SEPARATORS)
