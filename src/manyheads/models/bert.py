"""The encoder alone: BERT (Devlin et al. 2019), and what stands on top of it for each of its jobs.

Take the Transformer's encoder, let every token look both ways, and train it to guess words that were masked: what it
then knows of each token serves any job with one more layer. Six models, each a few lines over the one encoder:

  Bert            a vector for each token             BertModel
  MaskedBert      which word was masked, and          BertForMaskedLM,
                  whether one text follows another    BertForPreTraining
  BertAnswerer    where an answer begins and ends     BertForQuestionAnswering
  BertEmbedder    one vector for a text               a sentence-transformers directory

and in models/heads.py, since they stand on any encoder:

  EncoderClassifier  a label, or a number, for a text  BertForSequenceClassification
  EncoderTagger      a label for each token            BertForTokenClassification

Everything here is [batch, positions, width]; ids are [batch, positions]; `lengths`, [batch], says how many of a row's
ids are real: the padding behind them is never looked at, and on a CPU not even computed.
"""

from dataclasses import dataclass, field, replace

import torch
from torch import Tensor, nn

from manyheads.core.configs import refuse_below_one, refuse_no_fraction, refuse_uneven_heads
from manyheads.core.errors import ConfigError
from manyheads.nn.attention import MultiHeadAttention
from manyheads.nn.layers import ACTIVATIONS, FeedForward, Linear, TokenEmbedding
from manyheads.nn.positions import Positions, PositionsConfig, build_positions
from manyheads.ops.linear import linear
from manyheads.ops.masks import length_mask
from manyheads.ops.packing import Packing

POOLINGS = ("mean", "cls", "max")


@dataclass(frozen=True, kw_only=True)
class BertConfig:
    """The sizes of an encoder."""

    vocabulary: int = 0
    """How many tokens there are; 0: as many as the tokenizer has."""
    context: int = 512
    """How many tokens it sees at once."""
    segments: int = 2
    """How many texts can stand in one row, each with a vector of its own added to its tokens."""
    width: int = 768
    """The size of every vector between blocks."""
    layers: int = 12
    """Blocks, one above the other."""
    heads: int = 12
    """Attention heads, side by side."""
    key_width: int | None = None
    """Of each head's queries and keys; unset: width / heads."""
    value_width: int | None = None
    """Of each head's values; unset: as its keys."""
    inner: int | None = None
    """The width inside the feed-forward; unset: 4 · width."""
    activation: str = "gelu"
    """relu, gelu, gelu_tanh or silu."""
    epsilon: float = 1e-12
    """Added to the variance in each norm."""
    positions: PositionsConfig = field(default_factory=lambda: PositionsConfig(kind="learned"))
    """How the model knows where a token stands; their length is the context's, unless they are scaled."""
    dropout: float = 0.1
    """On the embeddings, on each sub-layer's output before it is added, and before a head."""
    attention_dropout: float = 0.1
    """Dropout on attention weights."""
    separator: int | None = None
    """The id that ends a text, behind which the next one begins."""

    def __post_init__(self):
        optional = ("key_width", "value_width", "inner")
        refuse_below_one(self, "context", "segments", "width", "layers", "heads", *optional)
        if self.key_width is None:
            refuse_uneven_heads(self.width, self.heads)
        refuse_no_fraction(self, "epsilon", "dropout", "attention_dropout")
        if self.activation not in ACTIVATIONS:
            raise ConfigError(f"model.activation is '{self.activation}'; it can be {', '.join(ACTIVATIONS)}")
        if self.positions.scaling == "dynamic_ntk":
            raise ConfigError(
                "model.positions.scaling is dynamic_ntk, with which a text's vectors would depend on how long the "
                "others of its batch are; use ntk or yarn"
            )
        if self.positions.scaling == "none":
            object.__setattr__(self, "positions", replace(self.positions, length=self.context))


class Block(nn.Module):
    """Attention to every token and a feed-forward, each added to its input and normalised."""

    def __init__(self, config: BertConfig, positions: Positions):
        super().__init__()
        inner = config.inner or 4 * config.width
        self.attention = MultiHeadAttention(
            config.width,
            config.heads,
            key_width=config.key_width,
            value_width=config.value_width,
            dropout=config.attention_dropout,
            positions=positions,
        )
        self.feedforward = FeedForward(config.width, inner, config.activation)
        self.attention_norm = nn.LayerNorm(config.width, eps=config.epsilon)
        self.feedforward_norm = nn.LayerNorm(config.width, eps=config.epsilon)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x: Tensor, mask: Tensor | None, groups: list[tuple[int, int]] | None) -> Tensor:
        x = self.attention_norm(x + self.dropout(self.attention(x, mask=mask, groups=groups)))
        return self.feedforward_norm(x + self.dropout(self.feedforward(x)))


class Bert(nn.Module):
    """Ids in, a vector for each token out; with a pooler also one for all of them, made of the first token's."""

    def __init__(self, config: BertConfig, pooler: bool = True):
        super().__init__()
        self.config = config
        self.embedding = TokenEmbedding(config.vocabulary, config.width)
        self.positions = build_positions(
            config.positions,
            width=config.width,
            heads=config.heads,
            head_width=config.key_width,
            bidirectional=True,
            deviation=0.02,
        )
        self.segments = TokenEmbedding(config.segments, config.width)
        self.norm = nn.LayerNorm(config.width, eps=config.epsilon)
        self.dropout = nn.Dropout(config.dropout)
        self.blocks = nn.ModuleList(Block(config, self.positions) for _ in range(config.layers))
        self.pooler = Linear(config.width, config.width) if pooler else None
        reset(self)

    def forward(self, ids: Tensor, lengths: Tensor | None = None, segments: Tensor | None = None) -> Tensor:
        """`segments` says which text each token is of; unset, a text ends with its separator."""
        x = self.embed(ids, segments)
        if lengths is None:
            return self.through(x)
        # A GPU would wait longer for the lengths than the padding costs.
        return self.packed(x, lengths) if x.device.type == "cpu" else self.padded(x, lengths)

    def embed(self, ids: Tensor, segments: Tensor | None = None) -> Tensor:
        """Each token as the sum of what it is, which text it is of and where it stands, normalised."""
        segments = self.segments_of(ids) if segments is None else segments
        return self.dropout(self.norm(self.positions.add(self.embedding(ids) + self.segments(segments), 0)))

    def through(self, x: Tensor, mask: Tensor | None = None, groups: list[tuple[int, int]] | None = None) -> Tensor:
        """Through all blocks."""
        for block in self.blocks:
            x = block(x, mask, groups)
        return x

    def padded(self, x: Tensor, lengths: Tensor) -> Tensor:
        """Through all blocks with the padding, at which nothing looks."""
        return self.through(x, length_mask(lengths, x.shape[1]))

    def packed(self, x: Tensor, lengths: Tensor) -> Tensor:
        """Through all blocks without the padding, which comes out as zeros."""
        rows, positions = x.shape[:2]
        if bool((lengths == positions).all()):
            return self.through(x)
        packing = Packing.of(lengths, positions)
        return packing.unpack(self.through(packing.pack(x)[None], groups=packing.groups)[0], rows, positions)

    def segments_of(self, ids: Tensor) -> Tensor:
        """0 up to and with the first separator, 1 behind it, and so on up to the last segment there is."""
        if self.config.separator is None:
            return torch.zeros_like(ids)
        ended = (ids == self.config.separator).long()
        return (ended.cumsum(dim=1) - ended).clamp(max=self.config.segments - 1)

    def pooled(self, states: Tensor, lengths: Tensor | None = None) -> Tensor:
        """[batch, width]: the first token's vector once more through a layer, however long the row is."""
        assert self.pooler is not None
        return torch.tanh(self.pooler(states[:, 0]))


class MaskedBert(nn.Module):
    """Logits of the word behind each token; with `next_sentence` also of whether the second text follows the first."""

    def __init__(self, config: BertConfig, next_sentence: bool = False):
        super().__init__()
        self.config = config
        self.body = Bert(config, pooler=next_sentence)
        self.transform = Linear(config.width, config.width)
        self.activation = ACTIVATIONS[config.activation]
        self.norm = nn.LayerNorm(config.width, eps=config.epsilon)
        self.bias = nn.Parameter(torch.zeros(config.vocabulary))
        self.follows = Linear(config.width, 2) if next_sentence else None
        reset(self)

    def forward(self, ids: Tensor, lengths: Tensor | None = None, segments: Tensor | None = None) -> Tensor:
        return self.logits(self.body(ids, lengths, segments))

    def logits(self, states: Tensor) -> Tensor:
        return linear(self.guesses(states), self.body.embedding.weight, self.bias)

    def guesses(self, states: Tensor) -> Tensor:
        """What is compared with every word's embedding; a loss that never holds all logits starts here."""
        return self.norm(self.activation(self.transform(states)))

    def following(self, states: Tensor) -> Tensor:
        """[batch, 2]: logits of the second text being the true continuation, and of its being from elsewhere."""
        assert self.follows is not None
        return self.follows(self.body.pooled(states))


class BertAnswerer(nn.Module):
    """Scores of each token to be the first and the last of the answer: [batch, positions, 2].

    `impossible` says that it was trained with questions that have no answer, for which it points at the first token;
    `longest` how many tokens it was trained to read at once.
    """

    def __init__(self, body: Bert, impossible: bool = False, longest: int | None = None):
        super().__init__()
        self.body, self.impossible, self.longest, self.config = body, impossible, longest, body.config
        self.score = Linear(body.config.width, 2)
        reset(self.score)

    def forward(self, ids: Tensor, lengths: Tensor | None = None, segments: Tensor | None = None) -> Tensor:
        return self.score(self.body(ids, lengths, segments))


class BertEmbedder(nn.Module):
    """One vector for a text: the mean of its tokens' vectors, the first one, or the largest of each number."""

    def __init__(self, body: Bert, pooling: str = "mean", normalised: bool = True, longest: int | None = None):
        super().__init__()
        if pooling not in POOLINGS:
            raise ConfigError(f"pooling is '{pooling}'; it can be {', '.join(POOLINGS)}")
        self.body, self.pooling, self.normalised, self.config = body, pooling, normalised, body.config
        self.longest = min(longest or body.config.context, body.config.context)
        """How many tokens of a text are read."""

    def forward(self, ids: Tensor, lengths: Tensor, segments: Tensor | None = None) -> Tensor:
        states = self.body(ids, lengths, segments)
        if self.pooling == "cls":
            vectors = states[:, 0]
        else:
            real = length_mask(lengths, ids.shape[1])[:, 0, 0, :, None]
            if self.pooling == "mean":
                vectors = states.masked_fill(~real, 0.0).sum(dim=1) / lengths[:, None]
            else:
                vectors = states.masked_fill(~real, -torch.inf).amax(dim=1)
        return nn.functional.normalize(vectors, dim=-1) if self.normalised else vectors


def reset(model: nn.Module) -> None:
    """Every matrix normal with deviation 0.02, every bias zero."""
    for module in model.modules():
        if isinstance(module, nn.Linear | TokenEmbedding):
            nn.init.normal_(module.weight, std=0.02)
        if isinstance(module, nn.Linear):
            nn.init.zeros_(module.bias)


def bert_tiny() -> BertConfig:
    """BERT tiny of Turc et al. (2019): 4.4 million parameters with 30,522 tokens."""
    return BertConfig(width=128, layers=2, heads=2)


def bert_mini() -> BertConfig:
    """BERT mini of Turc et al. (2019): 11 million parameters with 30,522 tokens."""
    return BertConfig(width=256, layers=4, heads=4)


def bert_small() -> BertConfig:
    """BERT small of Turc et al. (2019): 29 million parameters with 30,522 tokens."""
    return BertConfig(width=512, layers=4, heads=8)


def bert_medium() -> BertConfig:
    """BERT medium of Turc et al. (2019): 41 million parameters with 30,522 tokens."""
    return BertConfig(width=512, layers=8, heads=8)


def bert_base() -> BertConfig:
    """BERT base: 109 million parameters with 30,522 tokens; the paper says 110."""
    return BertConfig()


def bert_large() -> BertConfig:
    """BERT large: 335 million parameters with 30,522 tokens; the paper says 340."""
    return BertConfig(width=1024, layers=24, heads=16)


PRESETS = {preset.__name__: preset for preset in (bert_tiny, bert_mini, bert_small, bert_medium, bert_base, bert_large)}
