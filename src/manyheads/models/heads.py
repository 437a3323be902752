"""What stands on top of an encoder, whichever it is: one linear layer that reads a text's states, or each token's.

An encoder is a `body` with a `config`: ids and lengths in, a state for every token out; its `pooled` makes one vector
for a text of the states.
"""

from typing import Any

from torch import Tensor, nn

from manyheads.nn.layers import Linear


class EncoderClassifier(nn.Module):
    """The pooled vector of a text, or of two, through one linear layer: [batch, labels].

    There is a number for each of the labels' `names`; without names there is one: the number that a text is given, or
    of the form "choice" the score of a candidate among those it is compared with.
    """

    def __init__(self, body: nn.Module, names: tuple[str, ...] = (), form: str = "text"):
        super().__init__()
        self.body, self.names, self.form, self.config = body, names, form, _config(body)
        self.dropout = nn.Dropout(self.config.dropout)
        self.score = _score(self.config.width, len(names) or 1)

    def forward(self, ids: Tensor, lengths: Tensor | None = None, segments: Tensor | None = None) -> Tensor:
        states = self.body(ids, lengths, segments)
        return self.score(self.dropout(self.body.pooled(states, lengths)))  # type: ignore


class EncoderTagger(nn.Module):
    """Each token's state through one linear layer: [batch, positions, labels]."""

    def __init__(self, body: nn.Module, names: tuple[str, ...]):
        super().__init__()
        self.body, self.names, self.config = body, names, _config(body)
        self.dropout = nn.Dropout(self.config.dropout)
        self.score = _score(self.config.width, len(names))

    def forward(self, ids: Tensor, lengths: Tensor | None = None, segments: Tensor | None = None) -> Tensor:
        return self.score(self.dropout(self.body(ids, lengths, segments)))


def _config(body: nn.Module) -> Any:
    return body.config


def _score(width: int, labels: int) -> Linear:
    """Normal with deviation 0.02, as BERT began its heads."""
    score = Linear(width, labels)
    nn.init.normal_(score.weight, std=0.02)
    nn.init.zeros_(score.bias)
    return score
