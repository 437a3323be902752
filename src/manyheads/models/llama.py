"""Today's decoder (Touvron et al. 2023): GPT-2's with four parts exchanged, each for a reason.

  rotary positions instead of a learned table    what counts is how far apart two tokens are; any length can be asked
  RMSNorm instead of LayerNorm                   as good without the mean, and cheaper
  SwiGLU instead of GELU                         a gate in the feed-forward learns more per parameter
  grouped queries                                several query heads share a key and a value: a smaller cache

There are no biases. Everything here is [batch, positions, width]; ids are [batch, positions]; masks are bool.
"""

import math
from dataclasses import dataclass, field, replace

from torch import Tensor, nn

from manyheads.core.configs import refuse_below_one, refuse_no_fraction, refuse_uneven_heads
from manyheads.nn.attention import MultiHeadAttention
from manyheads.nn.cache import Cache
from manyheads.nn.layers import GatedFeedForward, OutputProjection, TokenEmbedding, build_norm
from manyheads.nn.positions import Positions, PositionsConfig, build_positions


@dataclass(frozen=True, kw_only=True)
class LlamaConfig:
    """The sizes of a Llama."""

    vocabulary: int = 0
    """How many tokens there are; 0: as many as the tokenizer has."""
    context: int = 2048
    """How many tokens it sees at once."""
    width: int = 4096
    """The size of every vector between blocks."""
    layers: int = 32
    """Blocks, one above the other."""
    heads: int = 32
    """Query heads, side by side."""
    key_value_heads: int | None = None
    """Heads of keys and values, each shared by heads / key_value_heads queries; unset: one each."""
    key_width: int | None = None
    """The width of each head; unset: width / heads."""
    inner: int | None = None
    """The width inside the feed-forward; unset: 8/3 of the width, rounded up to a multiple of 32."""
    epsilon: float = 1e-5
    """Added to the mean square in each norm."""
    positions: PositionsConfig = field(default_factory=lambda: PositionsConfig(kind="rotary"))
    """Rotary, perhaps scaled; their length is the context's, unless they are scaled."""
    attention_bias: bool = False
    """Biases in the projections of attention; Llama has none."""
    tied: bool = False
    """One matrix for embedding and output, as small ones have."""
    dropout: float = 0.0
    """On the embeddings and on each sub-layer's output before it is added; large models go without."""
    end: int | None = None
    """The id that ends a text."""
    other_ends: tuple[int, ...] = ()
    """More ids that end it, as chat models have."""

    def __post_init__(self):
        refuse_below_one(self, "context", "width", "layers", "heads", "key_value_heads", "key_width", "inner")
        if self.key_width is None:
            refuse_uneven_heads(self.width, self.heads)
        refuse_no_fraction(self, "epsilon", "dropout")
        if self.positions.scaling == "none":
            object.__setattr__(self, "positions", replace(self.positions, length=self.context))

    @property
    def inner_width(self) -> int:
        return self.inner or math.ceil(self.width * 8 / 3 / 32) * 32


class Block(nn.Module):
    """Attention to what came before and a gated feed-forward, each behind its norm."""

    def __init__(self, config: LlamaConfig, positions: Positions):
        super().__init__()
        self.attention_norm = build_norm("rms", config.width, config.epsilon)
        self.attention = MultiHeadAttention(
            config.width,
            config.heads,
            key_value_heads=config.key_value_heads,
            key_width=config.key_width,
            bias=config.attention_bias,
            causal=True,
            positions=positions,
        )
        self.feedforward_norm = build_norm("rms", config.width, config.epsilon)
        self.feedforward = GatedFeedForward(config.width, config.inner_width, bias=False)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x: Tensor, mask: Tensor | None, cache: Cache | None) -> Tensor:
        x = x + self.dropout(self.attention(self.attention_norm(x), mask=mask, cache=cache))
        return x + self.dropout(self.feedforward(self.feedforward_norm(x)))


class Llama(nn.Module):
    """Ids in, logits of each next token out: [batch, positions, vocabulary]."""

    def __init__(self, config: LlamaConfig):
        super().__init__()
        self.config = config
        self.embedding = TokenEmbedding(config.vocabulary, config.width)
        self.positions = build_positions(
            config.positions, width=config.width, heads=config.heads, head_width=config.key_width, deviation=0.02
        )
        self.dropout = nn.Dropout(config.dropout)
        self.blocks = nn.ModuleList(Block(config, self.positions) for _ in range(config.layers))
        self.norm = build_norm("rms", config.width, config.epsilon)
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
        """Normal with deviation 0.02, what is added to the residual path / √(2 · layers), as GPT-2."""
        nn.init.normal_(self.embedding.weight, std=0.02)
        nn.init.normal_(self.output.weight, std=0.02)
        added = 0.02 / math.sqrt(2 * self.config.layers)
        for name, module in self.blocks.named_modules():
            if isinstance(module, nn.Linear):
                nn.init.normal_(module.weight, std=added if name.endswith((".output", ".outer")) else 0.02)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)


def llama_tiny() -> LlamaConfig:
    """The size for a laptop, beside gpt2_tiny."""
    return LlamaConfig(context=128, width=128, layers=4, heads=4, key_value_heads=2, tied=True)


def llama_baby() -> LlamaConfig:
    """The size for a book on a GPU, beside gpt2_baby."""
    return LlamaConfig(context=256, width=384, layers=6, heads=6, tied=True, dropout=0.2)


def llama_small() -> LlamaConfig:
    """About the size of GPT-2 small, with grouped queries: 135 million parameters with 49,152 tokens, as SmolLM2."""
    return LlamaConfig(
        width=576, layers=30, heads=9, key_value_heads=3, inner=1536, tied=True, positions=_rotary(100_000.0)
    )


def llama2_7b() -> LlamaConfig:
    """Llama 2, 7B: 6.74 billion parameters with 32,000 tokens."""
    return LlamaConfig(context=4096, inner=11_008)


def llama3_8b() -> LlamaConfig:
    """Llama 3, 8B: 8.03 billion parameters with 128,256 tokens."""
    return LlamaConfig(context=8192, key_value_heads=8, inner=14_336, positions=_rotary(500_000.0))


def _rotary(base: float) -> PositionsConfig:
    return PositionsConfig(kind="rotary", base=base)


PRESETS = {preset.__name__: preset for preset in (llama_tiny, llama_baby, llama_small, llama2_7b, llama3_8b)}
