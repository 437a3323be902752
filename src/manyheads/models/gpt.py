"""The decoder alone: T-D (Liu et al. 2018), GPT-1 (Radford et al. 2018), GPT-2 (2019) and the sizes of GPT-3 (2020).

Take the Transformer's decoder, leave out the encoder and the attention that looked at it, and train what is left to
predict each token from those before it: that is all of them. They differ in three places, and each has its own here:

          norms                            positions     weights begin
  T-D     behind each sum, as published    sinusoids     as the Transformer's
  GPT-1   behind each sum                  learned       normal, deviation 0.02
  GPT-2   before each part, one at the end learned       the same, those added to the residual path / √(2 · layers)
  GPT-3   as GPT-2, larger (its sparse attention in every other layer is left out)

Everything here is [batch, positions, width]; ids are [batch, positions]; masks are bool, True = may look.
"""

import math
from dataclasses import dataclass, field, replace

from torch import Tensor, nn

from manyheads.core.configs import refuse_below_one, refuse_no_fraction, refuse_uneven_heads
from manyheads.core.errors import ConfigError
from manyheads.nn import fused
from manyheads.nn.attention import MultiHeadAttention
from manyheads.nn.cache import Cache
from manyheads.nn.layers import OutputProjection, TokenEmbedding, build_feedforward, build_norm
from manyheads.nn.positions import Positions, PositionsConfig, build_positions


@dataclass(frozen=True, kw_only=True)
class GPTConfig:
    """The sizes of a decoder-only Transformer."""

    vocabulary: int = 0
    """How many tokens there are; 0: as many as the tokenizer has."""
    context: int = 1024
    """How many tokens it sees at once."""
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
    activation: str = "gelu_tanh"
    """relu, gelu, gelu_tanh (how GPT computes it), silu or swiglu."""
    norm: str = "layer"
    """layer or rms."""
    norm_order: str = "pre"
    """post: norm(x + f(x)), GPT-1; pre: x + f(norm(x)), with one more norm at the end, GPT-2."""
    epsilon: float = 1e-5
    """Added to the variance in each norm."""
    positions: PositionsConfig = field(default_factory=lambda: PositionsConfig(kind="learned"))
    """How the model knows where a token stands; their length is the context's, unless they are scaled."""
    scale_embeddings: bool = False
    """Embeddings times √width: T-D."""
    tied: bool = True
    """One matrix for embedding and output."""
    dropout: float = 0.1
    """On the embeddings and on each sub-layer's output before it is added."""
    attention_dropout: float = 0.1
    """Dropout on attention weights."""
    inner_dropout: float = 0.0
    """Dropout after the feed-forward's activation; none has it."""
    end: int | None = None
    """The id that ends a text."""
    other_ends: tuple[int, ...] = ()
    """More ids that end it, as chat models have."""

    def __post_init__(self):
        refuse_below_one(self, "context", "width", "layers", "heads", "key_width", "value_width", "inner")
        if self.key_width is None:
            refuse_uneven_heads(self.width, self.heads)
        if self.norm_order not in _BLOCKS:
            raise ConfigError(f"model.norm_order is '{self.norm_order}'; it can be {' or '.join(_BLOCKS)}")
        refuse_no_fraction(self, "epsilon", "dropout", "attention_dropout", "inner_dropout")
        if self.positions.scaling == "none":
            object.__setattr__(self, "positions", replace(self.positions, length=self.context))


class Block(nn.Module):
    """Attention to what came before and a feed-forward, each added to its input and normalised: GPT-1."""

    def __init__(self, config: GPTConfig, positions: Positions):
        super().__init__()
        inner = config.inner or 4 * config.width
        self.attention = MultiHeadAttention(
            config.width,
            config.heads,
            key_width=config.key_width,
            value_width=config.value_width,
            dropout=config.attention_dropout,
            causal=True,
            positions=positions,
        )
        self.feedforward = build_feedforward(config.activation, config.width, inner, config.inner_dropout)
        self.attention_norm = build_norm(config.norm, config.width, config.epsilon)
        self.feedforward_norm = build_norm(config.norm, config.width, config.epsilon)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x: Tensor, mask: Tensor | None, cache: Cache | None) -> Tensor:
        x = self.attention_norm(x + self.dropout(self.attention(x, mask=mask, cache=cache)))
        return self.feedforward_norm(x + self.dropout(self.feedforward(x)))


class PreNormBlock(Block):
    """The same parts with the norm before each, so that a clear path of sums leads from bottom to top: GPT-2."""

    def forward(self, x: Tensor, mask: Tensor | None, cache: Cache | None) -> Tensor:
        parts = fused.Parts(self.attention_norm, self.attention, self.feedforward_norm, self.feedforward)
        if fused.fits(x, parts, cache):  # one token at a time on a GPU: the same in fewer kernels
            return fused.pre_norm_block(x, parts, cache)
        x = x + self.dropout(self.attention(self.attention_norm(x), mask=mask, cache=cache))
        return x + self.dropout(self.feedforward(self.feedforward_norm(x)))


_BLOCKS = {"post": Block, "pre": PreNormBlock}


class GPT(nn.Module):
    """Ids in, logits of each next token out: [batch, positions, vocabulary]."""

    def __init__(self, config: GPTConfig):
        super().__init__()
        self.config = config
        scale = config.width**0.5 if config.scale_embeddings else 1.0
        self.embedding = TokenEmbedding(config.vocabulary, config.width, scale=scale)
        self.positions = build_positions(
            config.positions,
            width=config.width,
            heads=config.heads,
            head_width=config.key_width,
            deviation=1.0 if config.scale_embeddings else 0.02,
        )
        self.dropout = nn.Dropout(config.dropout)
        self.blocks = nn.ModuleList(_BLOCKS[config.norm_order](config, self.positions) for _ in range(config.layers))
        last = config.norm_order == "pre"
        self.norm = build_norm(config.norm, config.width, config.epsilon) if last else nn.Identity()
        weight = self.embedding.weight if config.tied else nn.Parameter(self.embedding.weight.detach().clone())
        self.output = OutputProjection(weight)
        self.reset()

    def forward(self, ids: Tensor, mask: Tensor | None = None, cache: Cache | None = None) -> Tensor:
        return self.output(self.states(ids, mask, cache))

    def states(self, ids: Tensor, mask: Tensor | None = None, cache: Cache | None = None) -> Tensor:
        """What the output projection reads; nothing looks ahead, and `mask` can only hide more."""
        start, length = (cache.start, cache.reach(ids.shape[1])) if cache else (0, ids.shape[1])
        x = self.dropout(self.positions.add(self.embedding(ids), start, length))
        for block in self.blocks:
            x = block(x, mask, cache)
        if cache:
            cache.advance(ids.shape[1])
        return self.norm(x)

    def decoding_state(self, capacity: int, beams: int = 1) -> Cache:
        """What decoding goes on from, empty, for so many positions: each call that it is passed to advances it."""
        return Cache(capacity, beams)

    @property
    def rows_share_length(self) -> bool:
        """Whether a row depends on the longest in its batch, so that only rows of one length are decoded together."""
        return self.positions.turns_late

    def reset(self) -> None:
        """As GPT-2: what is added to the residual path begins smaller the more blocks add to it.

        T-D begins as the Transformer does, embeddings that are scaled later with deviation width^-½.
        """
        if self.config.scale_embeddings:
            for module in self.modules():
                if isinstance(module, nn.Linear):
                    nn.init.xavier_uniform_(module.weight)
                    nn.init.zeros_(module.bias)
            return
        added = 0.02 / math.sqrt(2 * self.config.layers) if self.config.norm_order == "pre" else 0.02
        nn.init.normal_(self.embedding.weight, std=0.02)
        nn.init.normal_(self.output.weight, std=0.02)
        for name, module in self.blocks.named_modules():
            if isinstance(module, nn.Linear):
                nn.init.normal_(module.weight, std=added if name.endswith((".output", ".outer")) else 0.02)
                nn.init.zeros_(module.bias)


def transformer_decoder() -> GPTConfig:
    """T-D with the sizes of the base Transformer, whose decoder it is."""
    return GPTConfig(
        width=512,
        layers=6,
        heads=8,
        activation="relu",
        norm_order="post",
        positions=PositionsConfig(kind="sinusoidal"),
        scale_embeddings=True,
        attention_dropout=0.0,
    )


def gpt1() -> GPTConfig:
    """GPT-1: 117 million parameters with 40,478 tokens."""
    return GPTConfig(context=512, norm_order="post")


def gpt2_small() -> GPTConfig:
    """GPT-2 small: 124 million parameters with 50,257 tokens."""
    return GPTConfig()


def gpt2_medium() -> GPTConfig:
    """GPT-2 medium: 355 million parameters with 50,257 tokens."""
    return GPTConfig(width=1024, layers=24, heads=16)


def gpt2_large() -> GPTConfig:
    """GPT-2 large: 774 million parameters with 50,257 tokens."""
    return GPTConfig(width=1280, layers=36, heads=20)


def gpt2_xl() -> GPTConfig:
    """GPT-2 XL: 1.56 billion parameters with 50,257 tokens; the paper says 1.5."""
    return GPTConfig(width=1600, layers=48, heads=25)


def gpt2_tiny() -> GPTConfig:
    """The size for a laptop: a model of a book in minutes on two cores."""
    return GPTConfig(context=128, width=128, layers=4, heads=4, dropout=0.0, attention_dropout=0.0)


def gpt2_baby() -> GPTConfig:
    """The size for a book on a GPU: 6 layers of width 384 that see 256 tokens."""
    return GPTConfig(context=256, width=384, layers=6, heads=6, dropout=0.2, attention_dropout=0.2)


def _gpt3(layers: int, width: int, heads: int) -> GPTConfig:
    """A row of table 2.1 of Brown et al. (2020), trained without dropout."""
    return GPTConfig(context=2048, layers=layers, width=width, heads=heads, dropout=0.0, attention_dropout=0.0)


def gpt3_small() -> GPTConfig:
    """GPT-3 small: 125 million parameters with 50,257 tokens."""
    return _gpt3(12, 768, 12)


def gpt3_medium() -> GPTConfig:
    """GPT-3 medium: 356 million parameters with 50,257 tokens; the paper says 350."""
    return _gpt3(24, 1024, 16)


def gpt3_large() -> GPTConfig:
    """GPT-3 large: 760 million parameters with 50,257 tokens."""
    return _gpt3(24, 1536, 16)


def gpt3_xl() -> GPTConfig:
    """GPT-3 XL: 1.3 billion parameters with 50,257 tokens; 16 heads, as the paper's 24 of 128 are not its width."""
    return _gpt3(24, 2048, 16)


def gpt3_2_7b() -> GPTConfig:
    """GPT-3 2.7B: 2.65 billion parameters with 50,257 tokens."""
    return _gpt3(32, 2560, 32)


def gpt3_6_7b() -> GPTConfig:
    """GPT-3 6.7B: 6.66 billion parameters with 50,257 tokens."""
    return _gpt3(32, 4096, 32)


def gpt3_13b() -> GPTConfig:
    """GPT-3 13B: 12.9 billion parameters with 50,257 tokens; 5120 wide, as the paper's 5140 is not 40 heads of 128."""
    return _gpt3(40, 5120, 40)


def gpt3_175b() -> GPTConfig:
    """GPT-3: 175 billion parameters with 50,257 tokens."""
    return _gpt3(96, 12288, 96)


_SIZES = (
    *(transformer_decoder, gpt1, gpt2_tiny, gpt2_baby, gpt2_small, gpt2_medium, gpt2_large, gpt2_xl),
    *(gpt3_small, gpt3_medium, gpt3_large, gpt3_xl, gpt3_2_7b, gpt3_6_7b, gpt3_13b, gpt3_175b),
)
PRESETS = {preset.__name__: preset for preset in _SIZES}
