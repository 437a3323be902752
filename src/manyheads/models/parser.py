"""A parser that scores spans: "Constituency Parsing with a Self-Attentive Encoder" (Kitaev and Klein 2018).

An encoder makes a state of every piece of a sentence. Between any two words stands a fencepost, and what lies between
two fenceposts is a span: it may be a constituent with one of the labels, or none. Its scores are read off how the
states differ from its first fencepost to its second, by a network of one hidden layer; which spans together are the
best tree, or how likely each tree is, then follows exactly (ops/chart.py).

  SpanParser   label scores of every span      a directory of type bert, whose encoder transformers opens

Ids are [batch, positions]; what is said of words is [batch, words]; spans are [batch, fenceposts, fenceposts].
"""

from typing import Any

import torch
from torch import Tensor, nn

from manyheads.nn.layers import Linear


class SpanParser(nn.Module):
    """Scores of each label for each span, [batch, fenceposts, fenceposts, 1 + labels]; that of no label comes first, 0.

    Labels are constituents' names, or several joined by + where one holds nothing but the next; `tags` are the names of
    parts of speech, which a layer of its own tells of each word.
    """

    def __init__(self, body: Any, names: tuple[str, ...], tags: tuple[str, ...], hidden: int = 256):
        super().__init__()
        self.body, self.names, self.tags, self.config = body, names, tags, body.config
        width = self.config.width
        self.dropout = nn.Dropout(self.config.dropout)
        self.hidden = Linear(width, hidden)
        self.hidden_norm = nn.LayerNorm(hidden)
        self.score = Linear(hidden, len(names))
        self.tag = Linear(width, len(tags))
        for layer in (self.score, self.tag):
            nn.init.normal_(layer.weight, std=0.02)
            nn.init.zeros_(layer.bias)

    def forward(self, ids: Tensor, lengths: Tensor, before: Tensor, behind: Tensor) -> Tensor:
        """`before` and `behind`, [batch, fenceposts], are the positions of the pieces next to each fencepost: the last
        of the word before it or [CLS], and the first of the word behind it or [SEP]."""
        return self.span_scores(self.states(ids, lengths), before, behind)

    def states(self, ids: Tensor, lengths: Tensor) -> Tensor:
        return self.dropout(self.body(ids, lengths))

    def span_scores(self, states: Tensor, before: Tensor, behind: Tensor) -> Tensor:
        posts = self.hidden(self.fenceposts(states, before, behind))
        count = posts.shape[1]
        first, second = torch.triu_indices(count, count, 1, device=posts.device)
        # What a layer makes of a difference is the difference of what it makes, so it is computed once a fencepost.
        spans = self.hidden_norm(posts[:, second] - posts[:, first] + self.hidden.bias).relu()
        labelled = self.score(self.dropout(spans))
        scores = labelled.new_zeros(len(states), count, count, 1 + len(self.names))
        scores[:, first, second, 1:] = labelled
        return scores

    def fenceposts(self, states: Tensor, before: Tensor, behind: Tensor) -> Tensor:
        """Half of the state before each fencepost and half of the one behind it, which counts the other way round."""
        left, right = (_at(states, places) for places in (before, behind))
        half = states.shape[-1] // 2
        return torch.cat([left[..., :half], -right[..., half:]], dim=-1)

    def tag_scores(self, states: Tensor, behind: Tensor) -> Tensor:
        """Of each word, [batch, words, tags], read at its first piece."""
        return self.tag(_at(states, behind[:, :-1]))


def _at(states: Tensor, places: Tensor) -> Tensor:
    return states.gather(1, places[:, :, None].expand(-1, -1, states.shape[-1]))
