"""The matrix product of every layer: x weightᵀ + bias."""

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

_HAS_LAYOUTS = torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")
# For each weight, by the rows of it that are used: the version it was laid out at, and the layout.
_layouts = WeakTensorKeyDictionary()


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None, rows: tuple[int, int] | None = None) -> Tensor:
    """torch's linear, of all rows of a weight or some of them; on a CPU in inference mode with a weight laid out once.

    Plain products lay the weight out anew at each call, which costs as much as the product itself when x has few rows.
    A weight that is used with gradients, or written to, is laid out again when it is next used without.
    """
    if torch.compiler.is_compiling() or not torch.is_inference_mode_enabled():
        if not torch.compiler.is_compiling():
            _layouts.pop(weight, None)
    elif _HAS_LAYOUTS and x.device.type == "cpu" and x.dtype == weight.dtype == torch.float32:
        part = None if bias is None else bias[slice(*rows)] if rows else bias
        return torch.ops.mkldnn._linear_pointwise(x, _layout(weight, rows), part, "none", [], "")
    if rows:
        weight, bias = weight[slice(*rows)], None if bias is None else bias[slice(*rows)]
    return F.linear(x, weight, bias)


def forget_layouts() -> None:
    """Needed only where weights change unseen by `linear`: in a compiled model."""
    _layouts.clear()


def _layout(weight: Tensor, rows: tuple[int, int] | None) -> Tensor:
    known: dict = _layouts.setdefault(weight, {})  # type: ignore
    version, layout = known.get(rows, (None, None))
    if version != weight._version:
        part = weight.detach()[slice(*rows)] if rows else weight.detach()
        layout = torch.ops.mkldnn._reorder_linear_weight(part.contiguous(), None)
        known[rows] = (weight._version, layout)
    return layout  # type: ignore
