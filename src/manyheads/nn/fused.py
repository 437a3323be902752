"""A pre-norm block for one new token on a GPU, in five kernels: the same sums, fewer starts."""

from typing import NamedTuple, Protocol, cast

from torch import Tensor, nn

from manyheads.nn.attention import MultiHeadAttention
from manyheads.nn.cache import Cache
from manyheads.nn.layers import ACTIVATIONS, FeedForward
from manyheads.nn.positions import Learned, Sinusoidal
from manyheads.ops.attention import Kernel, sdpa
from manyheads.ops.linear import decode_kernels_fit


class Parts(NamedTuple):
    """What a pre-norm block consists of."""

    attention_norm: nn.Module
    attention: MultiHeadAttention
    feedforward_norm: nn.Module
    feedforward: nn.Module


class StandIn(Protocol):
    """A kernel that gives what another gives; where a larger kernel does the work of both, it is told the result."""

    stands_for: Kernel

    def found(self, q: Tensor, k: Tensor, v: Tensor, mixed: Tensor, cache: Cache) -> None:
        """Told what one new position of each row found, `mixed`, among those in the cache."""


def fits(x: Tensor, parts: Parts, cache: Cache | None) -> bool:
    """Whether this is a step that the kernels can take: decoding in half precision, with nothing unusual."""
    attention, feedforward = parts.attention, parts.feedforward
    if not decode_kernels_fit(x) or x.shape[1] != 1 or cache is None or cache.lengths is None:
        return False
    plain = getattr(attention.kernel, "stands_for", attention.kernel) is sdpa and isinstance(
        attention.positions, Learned | Sinusoidal
    )
    plain = plain and attention.key_width == attention.value_width and attention.projection.bias is not None
    gelu = isinstance(feedforward, FeedForward) and feedforward.activation is ACTIVATIONS["gelu_tanh"]
    return plain and gelu and isinstance(parts.attention_norm, nn.LayerNorm)


def pre_norm_block(x: Tensor, parts: Parts, cache: Cache | None) -> Tensor:
    """x + attention(norm(x)), then that + feedforward(norm(that))."""
    from manyheads.ops import decode_kernels

    attention, feedforward = parts.attention, parts.feedforward
    assert cache is not None
    assert cache.lengths is not None
    assert isinstance(feedforward, FeedForward)
    rows = x[:, 0]
    projection, output, inner, outer = attention.projection, attention.output, feedforward.inner, feedforward.outer
    qkv = decode_kernels.linear(rows, projection.weight, projection.bias, norm=parts.attention_norm)
    keys, values = cache.storage(attention, len(rows), attention.key_value_heads, attention.key_width, x)
    mixed = decode_kernels.attention(qkv, keys, values, cache.lengths, attention.heads)
    if attention.kernel is not sdpa:
        queries = qkv[:, : attention.parts[0]].unflatten(-1, (attention.heads, 1, -1))
        seen = cache.reach(1)
        cast(StandIn, attention.kernel).found(queries, keys[:, :, :seen], values[:, :, :seen], mixed, cache)
    rows = decode_kernels.linear(mixed, output.weight, output.bias, residual_RN=rows)
    hidden = decode_kernels.linear(rows, inner.weight, inner.bias, norm=parts.feedforward_norm, gelu=True)
    return decode_kernels.linear(hidden, outer.weight, outer.bias, residual_RN=rows)[:, None]
