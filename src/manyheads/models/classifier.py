"""Fine-tuning as GPT-1 did it (Radford et al. 2018, section 3.2): a pre-trained decoder and one new matrix on top."""

import torch
from torch import Tensor, nn

from manyheads.nn.layers import Linear


class DecoderClassifier(nn.Module):
    """The state of a text's last token through one linear layer: [batch, labels].

    That token has seen the whole text. There is a number for each of the labels' `names`; without names there is one:
    the number that a text is given, or of the form "choice" the score of a candidate among those it is compared with.
    """

    def __init__(self, body: nn.Module, names: tuple[str, ...] = (), form: str = "text"):
        super().__init__()
        self.body, self.names, self.form = body, names, form
        self.config = body.config
        self.score = Linear(self.config.width, len(names) or 1, bias=False)  # type: ignore
        nn.init.normal_(self.score.weight, std=0.02)

    def forward(self, ids: Tensor, lengths: Tensor) -> Tensor:
        """`lengths`, [batch], says where each text ends; padding behind it is never seen."""
        return self.scores(self.states(ids), lengths)

    def states(self, ids: Tensor) -> Tensor:
        """The body's states, from which an auxiliary language-model loss can be had too."""
        return self.body.states(ids)  # type: ignore

    def scores(self, states: Tensor, lengths: Tensor) -> Tensor:
        rows = torch.arange(states.shape[0], device=states.device)
        return self.score(states[rows, lengths - 1])
