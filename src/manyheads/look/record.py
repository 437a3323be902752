"""Attention weights while the fast kernel runs.  Shapes:  B batch  H heads  Q query positions  K key positions"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from torch import Tensor, nn

from manyheads.nn.attention import MultiHeadAttention
from manyheads.ops.attention import attention_weights


@contextmanager
def recorded_attention(model: nn.Module) -> Iterator[dict[str, Tensor]]:
    """Fills a table, `decoder.blocks.0.cross_attention` to [B, H, Q, K], with the weights of the last call of each.

    The output still comes from each attention's own kernel; the weights are computed beside it. Kernels are put back
    as they were when the block ends. Encoders that would take the padding out of a batch leave it in meanwhile.
    """
    weights: dict[str, Tensor] = {}
    packing = [part for part in model.modules() if hasattr(part, "packed") and hasattr(part, "padded")]
    kernels = {name: part for name, part in model.named_modules() if isinstance(part, MultiHeadAttention)}
    originals = {name: part.kernel for name, part in kernels.items()}
    try:
        for name, part in kernels.items():
            part.kernel = partial(_recording, weights, name, part.kernel)
        for part in packing:
            part.packed = part.padded
        yield weights
    finally:
        for part in packing:
            part.__dict__.pop("packed", None)
        for name, part in kernels.items():
            part.kernel = originals[name]


def _recording(weights: dict[str, Tensor], name: str, kernel, q, k, v, *, mask, bias, causal, dropout) -> Tensor:
    weights[name] = attention_weights(q, k, mask=mask, bias=bias, causal=causal).detach()
    return kernel(q, k, v, mask=mask, bias=bias, causal=causal, dropout=dropout)
