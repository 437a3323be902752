"""The position-wise feed-forward layers.  Shapes:  ... any leading sizes  W width  I inner width"""

from collections.abc import Callable
from functools import partial

from torch import Tensor, nn
from torch.nn import functional

from manyheads.core.errors import ConfigError
from manyheads.nn.linear import Linear

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": functional.relu,
    "gelu": functional.gelu,
    "gelu_tanh": partial(functional.gelu, approximate="tanh"),
    "silu": functional.silu,
}


class FeedForward(nn.Module):
    """outer(activation(inner(x))) at every position alone: section 3.3 of Vaswani et al. (2017)."""

    def __init__(self, width: int, inner: int, activation: str = "relu", dropout: float = 0.0, bias: bool = True):
        super().__init__()
        if activation not in ACTIVATIONS:
            raise ConfigError(
                f"no activation is called {activation!r}; "
                f"choose one of {', '.join(ACTIVATIONS)}, or swiglu for the gated layer"
            )
        self.activation = ACTIVATIONS[activation]
        self.inner = Linear(width, inner, bias=bias)
        self.dropout = nn.Dropout(dropout)
        self.outer = Linear(inner, width, bias=bias)

    def forward(self, x_W: Tensor) -> Tensor:
        return self.outer(self.dropout(self.activation(self.inner(x_W))))


class GatedFeedForward(nn.Module):
    """outer(silu(gate(x)) · up(x)), SwiGLU: Shazeer (2020); one matrix holds gate and then up."""

    def __init__(self, width: int, inner: int, dropout: float = 0.0, bias: bool = True):
        super().__init__()
        self.gate_up = Linear(width, 2 * inner, bias=bias)
        self.dropout = nn.Dropout(dropout)
        self.outer = Linear(inner, width, bias=bias)

    def forward(self, x_W: Tensor) -> Tensor:
        gate_I, up_I = self.gate_up(x_W).chunk(2, dim=-1)
        return self.outer(self.dropout(functional.silu(gate_I) * up_I))


def build_feedforward(activation: str, width: int, inner: int, dropout: float = 0.0, bias: bool = True) -> nn.Module:
    """The layer of this activation: gated for "swiglu", plain for every name in `ACTIVATIONS`."""
    if activation == "swiglu":
        return GatedFeedForward(width, inner, dropout, bias)
    return FeedForward(width, inner, activation, dropout, bias)
