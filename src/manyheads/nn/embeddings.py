"""Token embeddings and the output projection that shares them.  Shapes:  B batch  T positions  W width  V vocabulary"""

import torch
from torch import Tensor, nn

from manyheads.ops.linear import linear

NEVER = -1e4  # the logit of a token that is never produced: no part in any softmax, and representable in half precision


class TokenEmbedding(nn.Module):
    """Rows of one matrix, multiplied by `scale` (√width: Vaswani et al. 2017, section 3.4); the pad row stays zero."""

    def __init__(self, vocabulary: int, width: int, *, pad: int | None = None, scale: float = 1.0):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(vocabulary, width))
        self.pad = pad
        self.scale = scale
        self.reset()

    def reset(self) -> None:
        """Normal with deviation width^-½, so that scaled embeddings and logits both start at about one."""
        nn.init.normal_(self.weight, std=self.weight.shape[1] ** -0.5)
        if self.pad is not None:
            nn.init.zeros_(self.weight[self.pad])

    def forward(self, ids_BT: Tensor) -> Tensor:
        return nn.functional.embedding(ids_BT, self.weight, padding_idx=self.pad) * self.scale


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
