"""Rollout: attention followed to the input tokens."""

import numpy as np
import pytest

from manyheads.core.errors import ConfigError
from manyheads.look.rollout import cross_rollout, rollout


def attention(*shape: int, causal: bool = False) -> np.ndarray:
    """Weights of random heads."""
    scores = np.random.default_rng(3).normal(size=shape)
    if causal:
        scores = np.where(np.tri(*shape[-2:], dtype=bool), scores, -np.inf)
    weights = np.exp(scores)
    return (weights / weights.sum(axis=-1, keepdims=True)).astype(np.float32)


def share(weights: np.ndarray, layer: int, row: int, column: int) -> float:
    """How much of an input token a state is made of, one path at a time."""
    if layer < 0:
        return float(row == column)
    below = [share(weights, layer - 1, middle, column) for middle in range(weights.shape[2])]
    found = sum(
        sum(float(head[row, middle]) for head in weights[layer]) / weights.shape[1] * below[middle]
        for middle in range(weights.shape[2])
    )
    return 0.5 * below[row] + 0.5 * found


def test_it_is_the_sum_over_all_paths():
    weights = attention(3, 2, 5, 5)
    slow = [[[share(weights, layer, row, column) for column in range(5)] for row in range(5)] for layer in range(3)]
    np.testing.assert_allclose(rollout(weights), slow, atol=1e-6)
    assert not np.allclose(rollout(weights[::-1]), slow, atol=1e-3)  # from the bottom up, not from the top down


def test_two_layers_by_hand():
    bottom = [[1.0, 0.0], [0.5, 0.5]]
    top = [[1.0, 0.0], [1.0, 0.0]]
    rolled = rollout(np.array([[bottom], [top]], dtype=np.float32))
    # Below, the second token keeps 3/4; above, half of it is that mixture and half is the first token.
    np.testing.assert_allclose(rolled, [[[1, 0], [1 / 4, 3 / 4]], [[1, 0], [5 / 8, 3 / 8]]])


@pytest.mark.parametrize("heads", [2, 1])
def test_rows_are_shares_that_sum_to_one_also_where_a_head_looks_at_nothing(heads):
    weights = attention(3, 2, 5, 5)
    weights[:, heads:] = 0
    rolled = rollout(weights)
    assert (rolled >= 0).all()
    np.testing.assert_allclose(rolled.sum(axis=-1), 1.0, rtol=1e-6)


def test_what_never_looks_ahead_is_made_of_nothing_ahead():
    ahead = ~np.tri(5, dtype=bool)
    assert (rollout(attention(3, 2, 5, 5, causal=True))[:, ahead] == 0).all()
    assert (rollout(attention(3, 2, 5, 5))[:, ahead] > 0).all()  # and the test can tell


def test_tokens_that_look_at_themselves_stay_themselves():
    weights = np.broadcast_to(np.eye(5, dtype=np.float32), (3, 2, 5, 5))
    np.testing.assert_array_equal(rollout(weights), np.broadcast_to(np.eye(5), (3, 5, 5)))


def test_a_row_that_looks_at_nothing_keeps_its_state():
    weights = attention(1, 2, 5, 5)
    weights[:, :, 3] = 0
    np.testing.assert_array_equal(rollout(weights)[0, 3], np.eye(5)[3])


def test_cross_attention_is_followed_to_the_input_of_the_source():
    encoder, cross = attention(2, 3, 5, 5), attention(3, 2, 4, 5)
    found = cross_rollout(cross, encoder)
    assert found.shape == (3, 4, 5)
    for layer in range(3):
        slow = [
            [
                sum(cross[layer, :, row, state].mean() * share(encoder, 1, state, column) for state in range(5))
                for column in range(5)
            ]
            for row in range(4)
        ]
        np.testing.assert_allclose(found[layer], slow, atol=1e-6)
    np.testing.assert_allclose(found.sum(axis=-1), 1.0, rtol=1e-6)


def test_a_target_token_that_looks_at_no_source_finds_none_of_it():
    cross = attention(1, 2, 4, 5)
    cross[:, :, 2] = 0
    assert (cross_rollout(cross, attention(2, 3, 5, 5))[:, 2] == 0).all()


def test_what_is_no_self_attention_and_another_source_are_refused():
    for shape in ((2, 3, 4, 5), (3, 5, 5)):
        with pytest.raises(ConfigError, match=rf"rollout follows self-attention.*these weights are \[{shape[0]}"):
            rollout(attention(*shape))
    for shape in ((2, 3, 4, 6), (3, 4, 5)):
        with pytest.raises(ConfigError, match="over 5 source tokens"):
            cross_rollout(attention(*shape), attention(2, 3, 5, 5))
