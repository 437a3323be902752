"""A bag of words: which words a text has and how often, through logistic regression or a small network.

Shapes:  B batch  T positions  N different features of the text that has most  F features  L labels
"""

from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional

from manyheads.core.configs import refuse_below_one, refuse_no_fraction
from manyheads.core.errors import ConfigError
from manyheads.nn.layers import Linear
from manyheads.nn.logistic import scores_needed, with_first_label
from manyheads.ops.masks import length_mask

WEIGHTINGS = ("binary", "counts", "tfidf")
MOST_LAYERS, MOST_NGRAMS = 2, 2
FIRST_WORD = 2  # the ids before it are padding and unknown words, which are in no bag


@dataclass(frozen=True, kw_only=True)
class BagConfig:
    """What is counted, and what stands above it."""

    vocabulary: int = 0
    """How many words there are; 0: as many as the tokenizer has."""
    weighting: str = "tfidf"
    """binary: whether a word is there, with weights that begin as those of naive Bayes where they are of labels;
    counts: how often it is there; tfidf: the same times the logarithm of how rare it is, at length 1."""
    ngrams: int = 2
    """1: words alone; 2: pairs of neighbours too."""
    bigrams: int | None = None
    """The most pairs that are counted, the commonest; unset: all that the training texts have `least` times."""
    least: int = 2
    """How often a pair must be in the training texts."""
    layers: int = 0
    """Hidden layers, at most 2; 0: logistic regression."""
    hidden: int = 100
    """Units of each hidden layer."""
    dropout: float = 0.5
    """On each hidden layer."""

    def __post_init__(self):
        refuse_below_one(self, "ngrams", "bigrams", "least", "hidden")
        refuse_no_fraction(self, "dropout")
        if self.weighting not in WEIGHTINGS:
            raise ConfigError(f"model.weighting is '{self.weighting}'; it can be {', '.join(WEIGHTINGS)}")
        for name, most in (("layers", MOST_LAYERS), ("ngrams", MOST_NGRAMS)):
            if not 0 <= getattr(self, name) <= most:
                raise ConfigError(f"model.{name} is {getattr(self, name)}; it can be at most {most}, and not below 0")

    @property
    def width(self) -> int:
        """Of every vector between the bag and the scores."""
        return self.hidden if self.layers else 1


class BagClassifier(nn.Module):
    """Scores of labels for the bag of a text: [B, L]; without `names`, the number that a text is given, [B, 1].

    The rows of `table` are those of the words by their ids, then those of the pairs by their place in `pairs`.
    """

    def __init__(self, config: BagConfig, names: tuple[str, ...] = (), form: str = "text"):
        super().__init__()
        self.config, self.names, self.form = config, names, form
        pairs = (config.bigrams or 0) if config.ngrams > 1 else 0
        features, widths = config.vocabulary + pairs, [*[config.hidden] * config.layers, scores_needed(len(names))]
        self.table, self.bias = nn.Parameter(torch.empty(features, widths[0])), nn.Parameter(torch.empty(widths[0]))
        self.above = nn.ModuleList(Linear(*sizes) for sizes in pairwise(widths))
        self.dropout = nn.Dropout(config.dropout)
        self.idf: Tensor
        self.pairs: Tensor
        self.register_buffer("idf", torch.ones(features))
        # Two ids in a row, sorted; as floats, which hold integers to 16 million exactly, since files hold only floats.
        self.register_buffer("pairs", torch.zeros(pairs, 2))
        self._reset()

    def _reset(self) -> None:
        """Logistic regression begins at zero, where nothing is known; hidden units must differ to learn."""
        nn.init.zeros_(self.bias)
        if len(self.above):
            nn.init.normal_(self.table, std=0.1)
        else:
            nn.init.zeros_(self.table)
        for layer in self.above:
            nn.init.kaiming_uniform_(layer.weight, nonlinearity="relu")  # type: ignore
            nn.init.zeros_(layer.bias)  # type: ignore

    def forward(self, ids: Tensor, lengths: Tensor) -> Tensor:
        """`lengths`, [B], says where each text ends; padding behind it is never counted."""
        return self.scores(*self.bag(ids, lengths))

    def bag(self, ids_BT: Tensor, lengths_B: Tensor) -> tuple[Tensor, Tensor]:
        """The features of each text, each once, and their values: both [B, N], 0 where a text has fewer."""
        features_BN, counts_BN = self.counts(ids_BT, lengths_B)
        if self.config.weighting == "binary":
            return features_BN, counts_BN.clamp(max=1)
        if self.config.weighting == "counts":
            return features_BN, counts_BN
        return features_BN, functional.normalize(counts_BN * self.idf[features_BN], dim=1)

    def counts(self, ids_BT: Tensor, lengths_B: Tensor) -> tuple[Tensor, Tensor]:
        """The same with how often each is there, whatever the weighting."""
        nothing = self.table.shape[0]
        sorted_BN = self._features(ids_BT, lengths_B, nothing).sort(dim=1).values
        first_BN = functional.pad(sorted_BN[:, 1:] != sorted_BN[:, :-1], (1, 0), value=True)
        place_BN = first_BN.cumsum(dim=1) - 1
        features_BN = torch.full_like(sorted_BN, nothing).scatter(1, place_BN, sorted_BN)
        ones_BN = (sorted_BN < nothing).to(self.idf)
        counts_BN = torch.zeros_like(ones_BN).scatter_add(1, place_BN, ones_BN)
        return features_BN.where(features_BN < nothing, 0), counts_BN

    def scores(self, features_BN: Tensor, values_BN: Tensor) -> Tensor:
        """What the labels score where features have these values."""
        x = functional.embedding_bag(features_BN, self.table, per_sample_weights=values_BN, mode="sum") + self.bias
        for layer in self.above:
            x = layer(self.dropout(functional.relu(x)))
        return with_first_label(x, len(self.names))

    def _features(self, ids_BT: Tensor, lengths_B: Tensor, nothing: int) -> Tensor:
        """A feature for each word, and behind them one for each pair of neighbours; `nothing` where there is none."""
        real_BT = length_mask(lengths_B, ids_BT.shape[1])[:, 0, 0] & (ids_BT >= FIRST_WORD)
        words_BT = ids_BT.where(real_BT, nothing)
        if not len(self.pairs):
            return words_BT
        keys_P = pair_keys(self.pairs.round().long(), self.config.vocabulary)
        both_BT = real_BT[:, 1:] & real_BT[:, :-1]
        found_BT = pair_keys(torch.stack((ids_BT[:, :-1], ids_BT[:, 1:]), dim=-1), self.config.vocabulary)
        place_BT = torch.searchsorted(keys_P, found_BT).clamp(max=len(keys_P) - 1)
        known_BT = both_BT & (keys_P[place_BT] == found_BT)
        return torch.cat([words_BT, (place_BT + self.config.vocabulary).where(known_BT, nothing)], dim=1)

    def name_of(self, feature: int) -> list[int]:
        """The ids of the words that a feature stands for: one, or two that are neighbours."""
        pair = feature - self.config.vocabulary
        return [feature] if pair < 0 else [int(each) for each in self.pairs[pair]]


def naive_bayes(having_LF: Tensor, texts_L: Tensor) -> tuple[Tensor, Tensor]:
    """The weights of each feature and the bias by which logistic regression is naive Bayes: [F, L] and [L].

    Of two labels there is one of each, the difference. Of `texts_L` texts of each label so many have each feature;
    every feature, and every label, counts as if there were one more of it (Wang and Manning 2012).
    """
    shares_LF = (having_LF[:, FIRST_WORD:].double() + 1).log()
    shares_LF = functional.pad(shares_LF - shares_LF.logsumexp(dim=1, keepdim=True), (FIRST_WORD, 0))
    prior_L = ((texts_L.double() + 1) / (texts_L + 1).sum()).log()
    if len(texts_L) == 2:
        shares_LF, prior_L = shares_LF.diff(dim=0), prior_L.diff()
    return shares_LF.T.float(), prior_L.float()


def pair_keys(pairs: Tensor, vocabulary: int) -> Tensor:
    """One number for each two ids, [..., 2], in whose order pairs are sorted."""
    return pairs[..., 0] * vocabulary + pairs[..., 1]


def inverse_document_frequency(texts: int, having: Tensor) -> Tensor:
    """ln((1 + texts) / (1 + texts that have it)) + 1 of each feature: smooth, as if one more text had them all."""
    return torch.log((1 + texts) / (1 + having.double())).float() + 1
