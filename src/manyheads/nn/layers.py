"""Every layer but attention: matrices, embeddings, norms, feed-forwards.

Shapes:  ... any leading sizes  B batch  T positions  W width  I inner width
"""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional

from manyheads.core.errors import ConfigError
from manyheads.ops.linear import linear

NEVER = -1e4  # the logit of a token that is never produced: no part in any softmax, and representable in half precision
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": functional.relu,
    "gelu": functional.gelu,
    "gelu_tanh": partial(functional.gelu, approximate="tanh"),
    "silu": functional.silu,
}


class Linear(nn.Linear):
    """x Wᵀ + b, quick with few rows too; `rows` takes a part of the output."""

    def forward(self, input: Tensor, rows: tuple[int, int] | None = None) -> Tensor:
        return linear(input, self.weight, self.bias, rows)

    def part(self, *, rows: list[int] | None = None, columns: list[int] | None = None) -> "Linear":
        """A smaller one, with these rows of the matrix, or these columns."""
        weight = self.weight.detach()
        weight = weight if rows is None else weight[rows]
        weight = weight if columns is None else weight[:, columns]
        part = Linear(weight.shape[1], weight.shape[0], bias=self.bias is not None, device="meta")
        part.weight = nn.Parameter(weight.clone(), requires_grad=self.weight.requires_grad)
        if self.bias is not None:
            bias = self.bias.detach()
            part.bias = nn.Parameter(bias.clone() if rows is None else bias[rows], self.bias.requires_grad)
        return part


class TokenEmbedding(nn.Module):
    """Rows of one matrix, multiplied by `scale` (√width: Vaswani et al. 2017, section 3.4); the pad row stays zero."""

    def __init__(self, vocabulary: int, width: int, *, pad: int | None = None, scale: float = 1.0):
        super().__init__()
        if vocabulary < 1:
            raise ConfigError("model.vocabulary is 0; a model needs to know how many tokens there are")
        self.weight, self.pad, self.scale = nn.Parameter(torch.empty(vocabulary, width)), pad, scale
        # Scaled embeddings and logits both start at about one.
        nn.init.normal_(self.weight, std=width**-0.5)
        if pad is not None:
            nn.init.zeros_(self.weight[pad])

    def forward(self, ids_BT: Tensor) -> Tensor:
        return functional.embedding(ids_BT, self.weight, padding_idx=self.pad) * self.scale


class OutputProjection(nn.Module):
    """Logits over the vocabulary; `weight` may be an embedding's own (Press and Wolf 2017); `never` never comes."""

    bias: Tensor

    def __init__(self, weight: nn.Parameter, *, never: int | None = None):
        super().__init__()
        self.weight = weight
        self.register_buffer("bias", torch.zeros(weight.shape[0]))
        if never is not None:
            self.bias[never] = NEVER

    def forward(self, x: Tensor) -> Tensor:
        return linear(x, self.weight, self.bias)


def build_norm(kind: str, width: int, epsilon: float = 1e-5) -> nn.Module:
    """The norm called "layer" (Ba et al., 2016) or "rms" (Zhang and Sennrich, 2019)."""
    if kind == "layer":
        return nn.LayerNorm(width, eps=epsilon)
    if kind == "rms":
        return nn.RMSNorm(width, eps=epsilon)
    raise ConfigError(f"no norm is called {kind!r}; choose layer or rms")


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
