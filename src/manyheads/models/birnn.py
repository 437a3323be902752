"""A recurrent encoder: two networks that read a text from either end, side by side (Schuster and Paliwal 1997).

    onward_t = f(onward_{t-1}, x_t)        backward_t = f(backward_{t+1}, x_t)        h_t = [onward_t; backward_t]

What stands at a place in a text is thus known by all that comes before it and by all that comes behind. f is Elman's
tanh, a GRU or an LSTM (nn/recurrent.py has their formulas); layers stand one above the other, each reading the states
of both directions of the one below (Graves et al. 2013). The heads of models/heads.py stand on it as on BERT: one that
labels every token (Huang et al. 2015), and one that labels a text by what is largest in its states.

Everything here is [batch, positions, width]; ids are [batch, positions]; `lengths`, [batch], says how many of a row's
ids are real: no state has read the padding behind them.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from manyheads.core.configs import refuse_below_one, refuse_no_fraction
from manyheads.core.errors import ConfigError
from manyheads.nn.layers import TokenEmbedding
from manyheads.nn.recurrent import CELLS, TwoDirections, places_backwards
from manyheads.ops.masks import length_mask


@dataclass(frozen=True, kw_only=True)
class BiRNNConfig:
    """The sizes of a recurrent encoder."""

    vocabulary: int = 0
    """How many tokens there are; 0: as many as the tokenizer has."""
    context: int = 4096
    """How many tokens it reads of a text, though its states could read on for ever."""
    cell: str = "lstm"
    """elman, gru or lstm."""
    width: int = 512
    """The size of a token's state, half of it for each direction."""
    embedding_width: int | None = None
    """The size of embeddings; unset: the width."""
    layers: int = 2
    """Recurrent layers in both directions, one above the other."""
    norm: bool = False
    """Layer norm inside each cell (Ba et al. 2016), which no fused kernel has."""
    dropout: float = 0.5
    """On the embeddings, between layers and before a head, never from step to step (Zaremba et al. 2014)."""

    def __post_init__(self):
        refuse_below_one(self, "context", "width", "embedding_width", "layers")
        refuse_no_fraction(self, "dropout")
        if self.cell not in CELLS:
            raise ConfigError(f"model.cell is '{self.cell}'; it can be {', '.join(CELLS)}")
        if self.width % 2:
            raise ConfigError(
                f"model.width is {self.width}, which does not split over two directions; take {self.width + 1}"
            )


class BiRNN(nn.Module):
    """Ids in, a state for each token out; `pooled` makes one vector for all of them."""

    def __init__(self, config: BiRNNConfig):
        super().__init__()
        self.config = config
        width, cell = config.embedding_width or config.width, CELLS[config.cell]
        self.embedding = TokenEmbedding(config.vocabulary, width)
        inputs = [width, *[config.width] * (config.layers - 1)]
        self.layers = nn.ModuleList(TwoDirections(cell, each, config.width, config.norm) for each in inputs)
        self.dropout = nn.Dropout(config.dropout)
        nn.init.uniform_(self.embedding.weight, -0.1, 0.1)

    def forward(self, ids: Tensor, lengths: Tensor | None = None, segments: None = None) -> Tensor:
        """Padding comes out as zeros; which text a token is of, it knows by the separators that it reads."""
        if segments is not None:
            raise ConfigError("a recurrent encoder has no segments; it reads the separators")
        real = _real(ids, lengths)
        places, x = places_backwards(real), self.embedding(ids)
        for layer in self.layers:
            x = layer(self.dropout(x), places)
        return x.masked_fill(~real[:, :, None], 0.0)

    def pooled(self, states: Tensor, lengths: Tensor | None = None) -> Tensor:
        """[batch, width]: of each number the largest that it is at any of a text's tokens (Conneau et al. 2017)."""
        real = _real(states[:, :, 0], lengths)
        return states.masked_fill(~real[:, :, None], -torch.inf).amax(dim=1)


def _real(ids: Tensor, lengths: Tensor | None) -> Tensor:
    """[batch, positions]: where there is no padding."""
    if lengths is None:
        return torch.ones(ids.shape, dtype=torch.bool, device=ids.device)
    return length_mask(lengths, ids.shape[1])[:, 0, 0]


def bilstm() -> BiRNNConfig:
    """Two layers of 256 in each direction over word vectors of 300."""
    return BiRNNConfig(embedding_width=300)


def bilstm_tiny() -> BiRNNConfig:
    """The size for a laptop: ten thousand sentences in minutes on two cores."""
    return BiRNNConfig(width=256, embedding_width=128, layers=1)


PRESETS: dict[str, Callable[[], BiRNNConfig]] = {preset.__name__: preset for preset in (bilstm_tiny, bilstm)}
