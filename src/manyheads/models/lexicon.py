"""Six features of a text that a person thought of, through logistic regression.

Shapes:  B batch  T positions  C kinds of words that are counted  L labels
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from manyheads.nn.layers import Linear
from manyheads.nn.logistic import scores_needed, with_first_label
from manyheads.ops.masks import length_mask

POSITIVE, NEGATIVE, NO, PRONOUN, EXCLAMATION = KINDS = ("positive", "negative", "no", "pronoun", "exclamation")
FEATURES = {
    "x₁ positive": "count(positive words)",
    "x₂ negative": "count(negative words)",
    "x₃ no": '1 if "no" is there, else 0',
    "x₄ pronouns": "count(1st and 2nd person)",
    "x₅ exclamation": '1 if "!" is there, else 0',
    "x₆ length": "ln(words and marks)",
}
ONLY_WHETHER = (KINDS.index(NO), KINDS.index(EXCLAMATION))  # features that say whether, not how often


@dataclass(frozen=True, kw_only=True)
class LexiconConfig:
    """The words that are counted."""

    vocabulary: int = 0
    """How many words have a kind; all others only make a text longer."""
    layers: ClassVar[int] = 0
    width: ClassVar[int] = len(FEATURES)


class LexiconClassifier(nn.Module):
    """Scores of labels for the features of a text: [B, L]; without `names`, the number that a text is given, [B, 1]."""

    def __init__(self, config: LexiconConfig, names: tuple[str, ...] = (), form: str = "text"):
        super().__init__()
        self.config, self.names, self.form = config, names, form
        self.kinds: Tensor
        self.register_buffer("kinds", torch.zeros(config.vocabulary, len(KINDS)))  # 1 where a word is of a kind
        self.score = Linear(config.width, scores_needed(len(names)))
        nn.init.zeros_(self.score.weight)
        nn.init.zeros_(self.score.bias)

    def forward(self, ids: Tensor, lengths: Tensor) -> Tensor:
        """`lengths`, [B], says where each text ends; padding behind it is never counted."""
        return with_first_label(self.score(self.features(ids, lengths)), len(self.names))

    def features(self, ids_BT: Tensor, lengths_B: Tensor) -> Tensor:
        """[B, 6], in the order of FEATURES."""
        real_BT1 = length_mask(lengths_B, ids_BT.shape[1])[:, 0, 0, :, None]
        counts_BC = self.kinds[ids_BT].masked_fill(~real_BT1, 0.0).sum(dim=1)
        whether = torch.zeros(len(KINDS), dtype=torch.bool, device=ids_BT.device)
        whether[list(ONLY_WHETHER)] = True
        counts_BC = torch.where(whether, counts_BC.clamp(max=1), counts_BC)
        return torch.cat([counts_BC, lengths_B[:, None].to(counts_BC).log()], dim=1)
