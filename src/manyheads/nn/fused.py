"""A pre-norm block for one new token on a GPU, in five kernels: the same sums, fewer starts."""

from torch import Tensor, nn

from manyheads.nn.cache import Cache
from manyheads.nn.feedforward import ACTIVATIONS, FeedForward
from manyheads.nn.positions import Learned, Sinusoidal
from manyheads.ops.attention import sdpa
from manyheads.ops.linear import few_rows_fit


def fits(x: Tensor, parts: tuple, cache: Cache | None) -> bool:
    """Whether this is a step that the kernels can take: decoding in half precision, with nothing unusual.

    `parts` are the norm and the attention, then the norm and the feed-forward of a block.
    """
    norm, attention, _, feedforward = parts
    if not few_rows_fit(x) or x.shape[1] != 1 or cache is None or cache.lengths is None:
        return False
    # A kernel may only watch another, `watched`, if it takes what was computed by `watch_step` (q, k, v, mixed, cache).
    plain = getattr(attention.kernel, "watched", attention.kernel) is sdpa and isinstance(
        attention.positions, Learned | Sinusoidal
    )
    plain = plain and attention.key_width == attention.value_width and attention.projection.bias is not None
    gelu = isinstance(feedforward, FeedForward) and feedforward.activation is ACTIVATIONS["gelu_tanh"]
    return plain and gelu and isinstance(norm, nn.LayerNorm)


def pre_norm_block(x: Tensor, parts: tuple, cache: Cache | None) -> Tensor:
    """x + attention(norm(x)), then that + feedforward(norm(that))."""
    from manyheads.ops import few_rows

    assert cache is not None
    attention_norm, attention, feedforward_norm, feedforward = parts
    rows = x[:, 0]
    projection, output, inner, outer = attention.projection, attention.output, feedforward.inner, feedforward.outer
    qkv = few_rows.linear(rows, projection.weight, projection.bias, norm=attention_norm)
    keys, values = cache.storage(attention, len(rows), attention.key_value_heads, attention.key_width, x)
    mixed = few_rows.attention(qkv, keys, values, cache.lengths, attention.heads)  # type: ignore
    if attention.kernel is not sdpa:
        queries = qkv[:, : attention.parts[0]].unflatten(-1, (attention.heads, 1, -1))
        seen = cache.reach(1)
        attention.kernel.watch_step(queries, keys[:, :, :seen], values[:, :, :seen], mixed, cache)
    rows = few_rows.linear(mixed, output.weight, output.bias, residual_RN=rows)
    hidden = few_rows.linear(rows, inner.weight, inner.bias, norm=feedforward_norm, gelu=True)
    return few_rows.linear(hidden, outer.weight, outer.bias, residual_RN=rows)[:, None]
