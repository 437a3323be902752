"""Recurrent networks: what a model of text was before the Transformer.

A state runs through the text from left to right, and all that a model knows of what it has read is in it:

    h_t = f(h_{t-1}, x_t)        y_t = W_hy h_t

f is Elman's tanh, a GRU or an LSTM (nn/recurrent.py has their formulas); layers stand one above the other, each reading
the states of the one below.

Everything here is [batch, positions, width]; ids are [batch, positions].
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor, nn

from manyheads.core.configs import refuse_below_one, refuse_no_fraction
from manyheads.core.errors import ConfigError
from manyheads.nn.layers import OutputProjection, TokenEmbedding
from manyheads.nn.recurrent import CELLS, RecurrentState


@dataclass(frozen=True, kw_only=True)
class RNNConfig:
    """The sizes of a recurrent language model."""

    context: ClassVar[int] = 65_536
    """A state reads on for ever; longer texts are scored in windows of so many tokens."""

    vocabulary: int = 0
    """How many tokens there are; 0: as many as the tokenizer has."""
    cell: str = "lstm"
    """elman, gru or lstm."""
    width: int = 650
    """The size of embeddings and of every layer's state."""
    layers: int = 2
    """Recurrent layers, one above the other."""
    norm: bool = False
    """Layer norm inside each cell (Ba et al. 2016), which no fused kernel has."""
    unrolled: int = 35
    """Tokens through which gradients go back: the state that comes before them is taken as it is."""
    tied: bool = True
    """One matrix for embedding and output."""
    dropout: float = 0.5
    """On the embeddings, between layers and before the output, never from step to step (Zaremba et al. 2014)."""
    end: int | None = None
    """The id that ends a text."""
    other_ends: tuple[int, ...] = ()
    """More ids that end it."""

    def __post_init__(self):
        refuse_below_one(self, "width", "layers", "unrolled")
        refuse_no_fraction(self, "dropout")
        if self.cell not in CELLS:
            raise ConfigError(f"model.cell is '{self.cell}'; it can be {', '.join(CELLS)}")


class RNN(nn.Module):
    """Ids in, logits of each next token out: [batch, positions, vocabulary]."""

    rows_share_length = True  # padding behind a text would run into its state

    def __init__(self, config: RNNConfig):
        super().__init__()
        self.config = config
        self.embedding = TokenEmbedding(config.vocabulary, config.width)
        cell = CELLS[config.cell]
        self.layers = nn.ModuleList(cell(config.width, config.width, config.norm) for _ in range(config.layers))
        self.dropout = nn.Dropout(config.dropout)
        weight = self.embedding.weight if config.tied else nn.Parameter(self.embedding.weight.detach().clone())
        self.output = OutputProjection(weight)
        self.reset()

    def forward(self, ids: Tensor, mask: None = None, cache: RecurrentState | None = None) -> Tensor:
        return self.output(self.states(ids, mask, cache))

    def states(self, ids: Tensor, mask: None = None, cache: RecurrentState | None = None) -> Tensor:
        """What the output projection reads; there is no `mask` that could hide anything from a state."""
        if mask is not None:
            raise ConfigError("a recurrent model has no mask: leave data.document_mask away")
        before = cache.layers if cache else []
        x, after = self.dropout(self.embedding(ids)), []
        for number, layer in enumerate(self.layers):
            x, states = layer(x, before[number] if before else None)
            x = self.dropout(x)
            after.append(states)
        if cache:
            cache.advance(after, ids.shape[1])
        return x

    def decoding_state(self, capacity: int = 0, beams: int = 1) -> RecurrentState:
        """What decoding goes on from, empty; it is as large behind a book as behind a word."""
        return RecurrentState(beams)

    def reset(self) -> None:
        """Uniform, embeddings in ± 0.1 and layers in ± width^-½."""
        nn.init.uniform_(self.embedding.weight, -0.1, 0.1)
        nn.init.uniform_(self.output.weight, -0.1, 0.1)


def lstm() -> RNNConfig:
    """Two layers of 650: the medium LSTM of Zaremba et al. (2014), with embedding and output tied."""
    return RNNConfig()


def lstm_tiny() -> RNNConfig:
    """The size for a laptop: a model of a book in minutes on two cores."""
    return RNNConfig(width=256, layers=1, dropout=0.2)


def gru() -> RNNConfig:
    """The same with gated recurrent units."""
    return RNNConfig(cell="gru")


def elman() -> RNNConfig:
    """The network of the lecture: one layer of tanh."""
    return RNNConfig(cell="elman", width=256, layers=1, dropout=0.2)


PRESETS: dict[str, Callable[[], RNNConfig]] = {preset.__name__: preset for preset in (lstm_tiny, lstm, gru, elman)}
