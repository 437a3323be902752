"""The Transformer of "Attention Is All You Need" (Vaswani et al. 2017): an encoder, a decoder, attention between them.

Read it from the bottom of the paper's figure 1 to its top: embeddings, blocks, stacks, the whole. Everything here is
[batch, positions, width]; ids are [batch, positions]; masks are bool, True = may look.
"""

from dataclasses import dataclass, field, replace

from torch import Tensor, nn

from manyheads.core.configs import refuse_below_one, refuse_no_fraction, refuse_uneven_heads
from manyheads.core.errors import ConfigError
from manyheads.nn.attention import MultiHeadAttention
from manyheads.nn.cache import Cache
from manyheads.nn.layers import OutputProjection, TokenEmbedding, build_feedforward, build_norm
from manyheads.nn.positions import Positions, PositionsConfig, build_positions
from manyheads.ops.masks import padding_mask


@dataclass(frozen=True, kw_only=True)
class TransformerConfig:
    """The sizes of a translator, as in table 3 of the paper."""

    vocabulary: int = 0
    """How many tokens there are; 0: as many as the tokenizer has."""
    width: int = 512
    """d_model: the size of every vector between blocks."""
    layers: int = 6
    """Blocks in the encoder, and in the decoder unless decoder_layers says otherwise."""
    decoder_layers: int | None = None
    """Blocks in the decoder; unset: as many as in the encoder."""
    heads: int = 8
    """Attention heads, side by side."""
    key_value_heads: int | None = None
    """Heads of keys and values, each shared by heads / key_value_heads queries; unset: one each."""
    key_width: int | None = None
    """d_k of each head; unset: width / heads."""
    value_width: int | None = None
    """d_v of each head; unset: as d_k."""
    inner: int = 2048
    """d_ff: the width inside the feed-forward."""
    activation: str = "relu"
    """relu, gelu, gelu_tanh, silu or swiglu."""
    norm: str = "layer"
    """layer or rms."""
    norm_order: str = "post"
    """post: norm(x + f(x)), as published; pre: x + f(norm(x)), with one more norm at the end of each stack."""
    positions: PositionsConfig = field(default_factory=PositionsConfig)
    """How the model knows where a token stands."""
    scale_embeddings: bool = True
    """Embeddings times √width."""
    tied: bool = True
    """One matrix for both embeddings and the output."""
    dropout: float = 0.1
    """P_drop, on the embeddings and on each sub-layer's output before it is added."""
    attention_dropout: float = 0.0
    """Dropout on attention weights; the paper has none."""
    inner_dropout: float = 0.0
    """Dropout after the feed-forward's activation; the paper has none."""
    pad: int = 0
    """The id that fills rows up."""
    start: int = 0
    """The id the decoder starts from; the pad, whose embedding is zero, as Marian does."""
    end: int = 1
    """The id that ends a sentence."""
    other_ends: tuple[int, ...] = ()
    """More ids that end a translation."""

    def __post_init__(self):
        optional = ("decoder_layers", "key_value_heads", "key_width", "value_width")
        refuse_below_one(self, "width", "layers", "heads", "inner", *optional)
        if self.key_width is None:
            refuse_uneven_heads(self.width, self.heads)
        if self.norm_order not in _BLOCKS:
            raise ConfigError(f"model.norm_order is '{self.norm_order}'; it can be {' or '.join(_BLOCKS)}")
        refuse_no_fraction(self, "dropout", "attention_dropout", "inner_dropout")


class EncoderBlock(nn.Module):
    """Self-attention and a feed-forward, each added to its input and normalised: post-norm, as published."""

    def __init__(self, config: TransformerConfig, positions: Positions):
        super().__init__()
        self.self_attention = _attention(config, positions)
        self.feedforward = _feedforward(config)
        self.self_norm = build_norm(config.norm, config.width)
        self.feedforward_norm = build_norm(config.norm, config.width)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        x = self.self_norm(x + self.dropout(self.self_attention(x, mask=mask)))
        return self.feedforward_norm(x + self.dropout(self.feedforward(x)))


class DecoderBlock(nn.Module):
    """Masked self-attention, attention over the encoder's memory, and a feed-forward; post-norm, as published."""

    def __init__(self, config: TransformerConfig, positions: Positions):
        super().__init__()
        self.self_attention = _attention(config, positions, causal=True)
        self.cross_attention = _attention(config, None)
        self.feedforward = _feedforward(config)
        self.self_norm = build_norm(config.norm, config.width)
        self.cross_norm = build_norm(config.norm, config.width)
        self.feedforward_norm = build_norm(config.norm, config.width)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x: Tensor, memory: Tensor, memory_mask: Tensor | None, cache: Cache | None) -> Tensor:
        x = self.self_norm(x + self.dropout(self.self_attention(x, cache=cache)))
        x = self.cross_norm(x + self.dropout(self.cross_attention(x, memory, mask=memory_mask, cache=cache)))
        return self.feedforward_norm(x + self.dropout(self.feedforward(x)))


class PreNormEncoderBlock(EncoderBlock):
    """The same parts with the norm before each: a clear path through the sums, easier to train when deep."""

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        x = x + self.dropout(self.self_attention(self.self_norm(x), mask=mask))
        return x + self.dropout(self.feedforward(self.feedforward_norm(x)))


class PreNormDecoderBlock(DecoderBlock):
    """The decoder's block with the norm before each part."""

    def forward(self, x: Tensor, memory: Tensor, memory_mask: Tensor | None, cache: Cache | None) -> Tensor:
        x = x + self.dropout(self.self_attention(self.self_norm(x), cache=cache))
        x = x + self.dropout(self.cross_attention(self.cross_norm(x), memory, mask=memory_mask, cache=cache))
        return x + self.dropout(self.feedforward(self.feedforward_norm(x)))


_BLOCKS = {"post": (EncoderBlock, DecoderBlock), "pre": (PreNormEncoderBlock, PreNormDecoderBlock)}


def _attention(config: TransformerConfig, positions: Positions | None, causal: bool = False) -> MultiHeadAttention:
    return MultiHeadAttention(
        config.width,
        config.heads,
        key_value_heads=config.key_value_heads,
        key_width=config.key_width,
        value_width=config.value_width,
        dropout=config.attention_dropout,
        causal=causal,
        positions=positions,
    )


def _feedforward(config: TransformerConfig) -> nn.Module:
    return build_feedforward(config.activation, config.width, config.inner, config.inner_dropout, bias=True)


class _Stack(nn.Module):
    """What encoder and decoder share: embeddings with positions and dropout, blocks, and pre-norm's last norm."""

    def __init__(
        self, config: TransformerConfig, embedding: TokenEmbedding, block: type, layers: int, bidirectional: bool
    ):
        super().__init__()
        head_width = config.key_width or config.width // config.heads
        self.embedding = embedding
        self.positions = build_positions(
            config.positions, width=config.width, heads=config.heads, head_width=head_width, bidirectional=bidirectional
        )
        self.dropout = nn.Dropout(config.dropout)
        self.blocks = nn.ModuleList(block(config, self.positions) for _ in range(layers))
        self.norm = build_norm(config.norm, config.width) if config.norm_order == "pre" else nn.Identity()

    def embed(self, ids: Tensor, start: int) -> Tensor:
        return self.dropout(self.positions.add(self.embedding(ids), start))


class Encoder(_Stack):
    """Source ids in, the memory out."""

    def forward(self, ids: Tensor, mask: Tensor | None) -> Tensor:
        x = self.embed(ids, 0)
        for block in self.blocks:
            x = block(x, mask)
        return self.norm(x)


class Decoder(_Stack):
    """Target ids so far and the memory in, a state for each next token out."""

    def forward(self, ids: Tensor, memory: Tensor, memory_mask: Tensor | None, cache: Cache | None = None) -> Tensor:
        x = self.embed(ids, cache.length if cache else 0)
        for block in self.blocks:
            x = block(x, memory, memory_mask, cache)
        if cache:
            cache.advance(ids.shape[1])
        return self.norm(x)


class Transformer(nn.Module):
    """Source ids and target ids in, logits of each next target token out: [batch, positions, vocabulary]."""

    def __init__(self, config: TransformerConfig):
        super().__init__()
        self.config = config
        encoder_block, decoder_block = _BLOCKS[config.norm_order]
        self.encoder = Encoder(config, _embedding(config), encoder_block, config.layers, bidirectional=True)
        target_embedding = self.encoder.embedding if config.tied else _embedding(config)
        layers = config.decoder_layers or config.layers
        self.decoder = Decoder(config, target_embedding, decoder_block, layers, bidirectional=False)
        weight = target_embedding.weight if config.tied else nn.Parameter(target_embedding.weight.detach().clone())
        self.output = OutputProjection(weight, never=config.pad)
        self.reset()

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        return self.output(self.states(source, target))

    def states(self, source: Tensor, target: Tensor) -> Tensor:
        """What the output projection reads; a loss that never holds all logits starts here."""
        memory, memory_mask = self.encode(source)
        return self.decoder(target, memory, memory_mask)

    def encode(self, source: Tensor) -> tuple[Tensor, Tensor | None]:
        """The memory and the mask that keeps attention off its padding."""
        mask = padding_mask(source, self.config.pad)
        return self.encoder(source, mask), mask

    def decode(self, target: Tensor, memory: Tensor, memory_mask: Tensor | None, cache: Cache | None = None) -> Tensor:
        """Logits for target ids whose predecessors, if any, are in the cache."""
        return self.output(self.decoder(target, memory, memory_mask, cache))

    def decoding_state(self, capacity: int, beams: int = 1) -> Cache:
        """What decoding goes on from, empty, for so many positions: each call that it is passed to advances it."""
        return Cache(capacity, beams)

    def reset(self) -> None:
        """Xavier-uniform for matrices between embeddings (Glorot and Bengio 2010), queries, keys and values as one."""
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)


def _embedding(config: TransformerConfig) -> TokenEmbedding:
    scale = config.width**0.5 if config.scale_embeddings else 1.0
    return TokenEmbedding(config.vocabulary, config.width, pad=config.pad, scale=scale)


def transformer_base() -> TransformerConfig:
    """The paper's base: 63.1 million parameters with 37,000 tokens; its 65 million parameters with 40,700 tokens."""
    return TransformerConfig()


def transformer_big() -> TransformerConfig:
    """The paper's big: 214.2 million parameters with 37,000 tokens; its 213 million parameters with 35,800 tokens."""
    return replace(transformer_base(), width=1024, heads=16, inner=4096, dropout=0.3)


def transformer_small() -> TransformerConfig:
    """A small model for corpora of tens of thousands of sentences."""
    return replace(transformer_base(), width=256, layers=3, heads=4, inner=1024)


def transformer_tiny() -> TransformerConfig:
    """The least that learns the sample corpus, in three minutes on two cores."""
    return replace(transformer_base(), width=128, layers=2, heads=4, inner=512)


PRESETS = {
    preset.__name__: preset for preset in (transformer_tiny, transformer_small, transformer_base, transformer_big)
}


def parameters(model: nn.Module) -> int:
    """How many numbers are learned."""
    return sum(parameter.numel() for parameter in model.parameters())
