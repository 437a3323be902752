"""The matrix product of every layer: x weightᵀ + bias."""

from contextvars import ContextVar, Token
from functools import cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

FEW_ROWS = 8  # with more, matrix units win
_HAS_LAYOUTS = torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")
# For each weight, by the rows of it that are used: its product with a vector when it was laid out, and the layout.
_layouts = WeakTensorKeyDictionary()


class SameWeights:
    """In `with` this, over and over, each weight is looked at once: for steps between which no weight changes."""

    def __init__(self) -> None:
        self.layouts: dict[tuple[int, tuple[int, int] | None], tuple[Any, Tensor]] = {}
        self._entered: Token[SameWeights | None] | None = None

    def __enter__(self) -> None:
        self._entered = _same_weights.set(self)

    def __exit__(self, *error: object) -> None:
        assert self._entered is not None
        _same_weights.reset(self._entered)


_same_weights: ContextVar[SameWeights | None] = ContextVar("same_weights", default=None)


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None, rows: tuple[int, int] | None = None) -> Tensor:
    """torch's linear, of all rows of a weight or some of them; on a CPU in inference mode with a weight laid out once.

    Plain products lay the weight out anew at each call, which costs as much as the product itself when x has few rows.
    A weight that was written to in whatever way is laid out again. Most ways leave no trace but the numbers, so that
    all are looked at, by a product with one vector, which costs about as much as one row of x.
    """
    if _is_worth_a_layout(x, weight):
        part = bias[slice(*rows)] if bias is not None and rows else bias
        return torch.ops.mkldnn._linear_pointwise(x, _layout(weight, rows), part, "none", [], "")
    if rows:
        weight, bias = weight[slice(*rows)], None if bias is None else bias[slice(*rows)]
    if bias is not None and decode_kernels_fit(x):
        from manyheads.ops import decode_kernels

        return decode_kernels.linear(x.flatten(0, -2), weight, bias).unflatten(0, x.shape[:-1])
    return F.linear(x, weight, bias)


def decode_kernels_fit(x: Tensor) -> bool:
    """Whether x is a step of decoding that has its own kernels: in half precision on a GPU that Triton writes for."""
    # Asked first: a compiler cannot look into whether inference mode is on.
    if torch.compiler.is_compiling() or not torch.is_inference_mode_enabled():
        return False
    return x.device.type == "cuda" and x.dtype == torch.bfloat16 and x[..., 0].numel() <= FEW_ROWS and _has_triton()


@cache
def _has_triton() -> bool:
    from torch.utils._triton import has_triton

    # The kernels overlap with the ones before them, which GPUs can since Hopper.
    return has_triton() and torch.cuda.get_device_capability() >= (9, 0)


def _is_worth_a_layout(x: Tensor, weight: Tensor) -> bool:
    if not _HAS_LAYOUTS or torch.compiler.is_compiling() or not torch.is_inference_mode_enabled():
        return False
    plain = x.device.type == "cpu" and x.dtype == weight.dtype == torch.float32
    return plain and not weight.is_inference()  # whose changes nothing counts


def _layout(weight: Tensor, rows: tuple[int, int] | None) -> Tensor:
    steps = _same_weights.get()
    if steps is None:
        return _checked_layout(weight, rows)
    key, state = (id(weight), rows), (weight._version, weight.data_ptr())
    found, layout = steps.layouts.get(key, (None, None))
    if layout is None or found != state:
        layout = _checked_layout(weight, rows)
        steps.layouts[key] = state, layout
    return layout


def _checked_layout(weight: Tensor, rows: tuple[int, int] | None) -> Tensor:
    known: dict[tuple[int, int] | None, tuple[Tensor, Tensor]] = _layouts.setdefault(weight, {})  # type: ignore
    part = weight.detach()[slice(*rows)] if rows else weight.detach()
    now = part.mv(_vector(part.shape[1]))
    if rows not in known or not torch.equal(known[rows][0], now):
        known[rows] = now, torch.ops.mkldnn._reorder_linear_weight(part.contiguous(), None)
    return known[rows][1]


@cache
def _vector(width: int) -> Tensor:
    """Numbers at random, always the same: whatever changes a row of a weight changes its product with them."""
    return torch.randn(width, generator=torch.Generator().manual_seed(width), dtype=torch.float32, device="cpu")
