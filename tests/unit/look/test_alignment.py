"""Word alignment from arrays: tokens to words, words to links, links to a score."""

import numpy as np
import pytest

from manyheads.core.errors import DataError
from manyheads.look.alignment import LinkScores, Reading, parse_links, pharaoh, score_links, strongest, word_weights

LAYERS, HEADS, TARGETS, SOURCES = 2, 3, 5, 4  # tokens, of which the last of each side is the end
TARGET_WORDS, SOURCE_WORDS = [0, 1, 1, 2], [0, 0, 1]


@pytest.fixture
def weights():
    drawn = np.random.default_rng(1).random((LAYERS, HEADS, TARGETS, SOURCES), dtype=np.float32)
    return drawn / drawn.sum(axis=-1, keepdims=True)


@pytest.mark.parametrize("shifted", [False, True])
@pytest.mark.parametrize("head", [None, *range(HEADS)])
@pytest.mark.parametrize("layer", range(LAYERS))
def test_sum_over_the_tokens_of_a_source_word_and_mean_over_those_of_a_target_word(weights, layer, head, shifted):
    chosen = weights[layer].mean(axis=0) if head is None else weights[layer, head]
    first = 1 if shifted else 0
    expected = np.zeros((3, 2))
    for target, rows in enumerate(([0], [1, 2], [3])):
        for source, columns in enumerate(([0, 1], [2])):
            expected[target, source] = np.mean([sum(chosen[row + first, c] for c in columns) for row in rows])
    found = word_weights(weights, TARGET_WORDS, SOURCE_WORDS, Reading(layer, head, shifted))
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_the_end_and_padding_have_no_say(weights):
    reading = Reading(1)
    found = word_weights(weights, TARGET_WORDS, SOURCE_WORDS, reading)
    changed = weights.copy()
    changed[:, :, :, 3:] = 9.0
    changed[:, :, 4:] = 9.0
    padded = np.pad(changed, ((0, 0), (0, 0), (0, 2), (0, 3)), constant_values=9.0)
    np.testing.assert_array_equal(word_weights(padded, TARGET_WORDS, SOURCE_WORDS, reading), found)
    changed[:, :, 0, 0] = 9.0
    assert not np.allclose(word_weights(changed, TARGET_WORDS, SOURCE_WORDS, reading), found)  # and the test can tell


def test_a_word_without_tokens_weighs_nothing(weights):
    found = word_weights(weights, [0, 0, 2, 2], [0, 2, 2], Reading(0))
    assert not found[1].any()
    assert not found[:, 1].any()
    assert {target for _, target in strongest(found)} == {0, 2}


def test_readings_say_which_they_are():
    assert (Reading(1).title, Reading(1, 2, shifted=True).title) == ("layer 1, all heads", "layer 1, head 2")


def test_each_target_word_goes_to_the_source_word_that_weighs_most():
    assert strongest(np.array([[0.1, 0.6], [0.5, 0.2], [0.3, 0.2]])) == {(1, 0), (0, 1), (0, 2)}
    assert strongest(np.zeros((0, 3))) == strongest(np.zeros((3, 0))) == frozenset()


def links(*pairs):
    return frozenset(pairs)


def test_error_rate_by_hand():
    found = [links((0, 0), (1, 1), (2, 1)), links((0, 0))]
    sure = [links((0, 0), (1, 2)), links((0, 0))]
    possible = [links((0, 0), (1, 1), (1, 2)), links()]
    scores = score_links(found, sure, possible)
    assert scores == LinkScores(found=4, sure=3, found_sure=2, found_possible=3)
    assert (scores.precision, scores.recall) == (3 / 4, 2 / 3)
    assert scores.error_rate == pytest.approx(1 - 5 / 7)


def error_rate(*links) -> float:
    return score_links(*links).error_rate


def test_error_rate_at_its_ends():
    sure, possible = [links((0, 0), (1, 1))], [links((0, 0), (1, 1), (2, 1))]
    assert error_rate(sure, sure, possible) == 0
    assert error_rate(possible, sure, possible) == 0  # a possible link costs nothing
    assert error_rate([links((1, 0))], sure, possible) == 1
    assert error_rate([links()], [links()], [links()]) == error_rate([], [], []) == 0
    with pytest.raises(ValueError, match="shorter"):
        error_rate(sure, sure, [])


def test_pharaoh_lines_come_back():
    written = pharaoh(links((10, 2), (2, 10), (0, 0)))
    assert written == "0-0 2-10 10-2"
    assert parse_links(written, "gold", 11, 11) == (links((10, 2), (2, 10), (0, 0)),) * 2
    assert parse_links("0-1 1?0  2p2\t0?1", "gold", 3, 3) == (links((0, 1)), links((0, 1), (1, 0), (2, 2)))
    assert parse_links("", "gold", 0, 0) == (links(), links())


@pytest.mark.parametrize("line", ["0", "0-", "-1-0", "0:1", "a-b", "0--1", "0-1,1-2", "١-٢"])
def test_what_is_no_link_is_refused_by_its_place(line):
    with pytest.raises(DataError, match=r"^gold\.txt, line 3: .* is no link"):
        parse_links(line, "gold.txt, line 3", 9, 9)


def test_links_beyond_the_sentence_are_refused():
    assert parse_links("2-3", "gold", 3, 4)[0] == {(2, 3)}
    with pytest.raises(DataError, match="3-3 links source word 3, but the source has 3 words, counted from 0"):
        parse_links("3-3", "gold", 3, 4)
    with pytest.raises(DataError, match=r"2\?4 links target word 4, but the target has 4 words"):
        parse_links("2?4", "gold", 3, 4)
