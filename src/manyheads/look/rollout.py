"""Attention rollout (Abnar and Zuidema 2020): which input tokens a state is made of, through all layers below it.

Shapes:  L layers  H heads  Q query positions  K key positions
"""

import numpy as np

from manyheads.core.errors import ConfigError


def rollout(weights_LHQK: np.ndarray) -> np.ndarray:
    """[L, Q, K]: how much of each input token is in each token's state behind each layer.

    A layer passes on half a token's own state, over the residual path, and half what its heads find on average; the
    layers multiply from the bottom up. A row that looks at nothing keeps its own state whole.
    """
    if weights_LHQK.ndim != 4 or weights_LHQK.shape[2] != weights_LHQK.shape[3]:
        wanted = "rollout follows self-attention, [layers, heads, tokens, tokens]"
        raise ConfigError(f"{wanted}; these weights are {list(weights_LHQK.shape)}")
    kept_QK = np.eye(weights_LHQK.shape[2])
    reached_QK, rolled = kept_QK, []
    for found_QK in weights_LHQK.mean(axis=1, dtype=np.float64):
        passed_QK = found_QK + kept_QK
        passed_QK /= passed_QK.sum(axis=1, keepdims=True)  # which halves both where there is something to find
        reached_QK = passed_QK @ reached_QK
        rolled.append(reached_QK)
    return np.stack(rolled).astype(np.float32)


def cross_rollout(cross_LHQK: np.ndarray, encoder_LHKK: np.ndarray) -> np.ndarray:
    """[L, Q, K]: how much of each input token of the source each target token finds in each layer of the decoder.

    That is what the cross-attention of a layer finds on average, followed through all layers of the encoder.
    """
    rolled_LKK = rollout(encoder_LHKK)
    tokens = encoder_LHKK.shape[3]
    if cross_LHQK.ndim != 4 or cross_LHQK.shape[3] != tokens:
        wanted = f"cross-attention over {tokens} source tokens is [layers, heads, tokens, {tokens}]"
        raise ConfigError(f"{wanted}; these weights are {list(cross_LHQK.shape)}")
    return (cross_LHQK.mean(axis=1, dtype=np.float64) @ rolled_LKK[-1]).astype(np.float32)
