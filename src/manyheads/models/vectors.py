"""Word vectors: a row of numbers for each word, and another for it where it stands beside others.

word2vec (Mikolov et al. 2013) and GloVe (Pennington et al. 2014) differ in what is learned of a text, not in this.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from manyheads.core.configs import refuse_below_one
from manyheads.core.errors import ConfigError

METHODS = ("skipgram", "cbow", "glove")


@dataclass(frozen=True, kw_only=True)
class WordVectorsConfig:
    """How many words, how many numbers for each, and by which method they are learned."""

    vocabulary: int = 3
    """How many words there are; follows from the text."""
    width: int = 100
    """Numbers of a vector."""
    method: str = "skipgram"
    """skipgram, cbow or glove, which also has a number for each word by itself; data.method says so."""

    def __post_init__(self):
        refuse_below_one(self, "vocabulary", "width")
        if self.method not in METHODS:
            raise ConfigError(f"model.method is '{self.method}'; it can be {', '.join(METHODS)}")


class WordVectorsModel(nn.Module):
    """The vectors of words, `vectors`, and those of the same words beside them, `contexts`, both [V, W]."""

    def __init__(self, config: WordVectorsConfig):
        super().__init__()
        self.config, glove = config, config.method == "glove"
        self.vectors, self.contexts = (nn.Parameter(torch.empty(config.vocabulary, config.width)) for _ in range(2))
        if glove:  # a number for each word by itself
            self.bias, self.context_bias = (nn.Parameter(torch.empty(config.vocabulary)) for _ in range(2))
        self.reset()

    def reset(self) -> None:
        """As both were published: numbers so small that all words are nearly alike; word2vec's contexts are zero."""
        nn.init.uniform_(self.vectors, -0.5 / self.config.width, 0.5 / self.config.width)
        if self.config.method == "glove":
            for weight in (self.contexts, self.bias, self.context_bias):
                nn.init.uniform_(weight, -0.5 / self.config.width, 0.5 / self.config.width)
        else:
            nn.init.zeros_(self.contexts)

    def forward(self, ids: Tensor) -> Tensor:
        """The vectors of words; GloVe's are the sum of both (section 4.2)."""
        return self.vectors[ids] + self.contexts[ids] if self.config.method == "glove" else self.vectors[ids]
