"""What came between recurrence and attention: language models and translators made of convolutions.

ByteNet (Kalchbrenner et al. 2016) predicts each token from those that its dilated convolutions reach, twice as many
with each layer. ConvSeq2Seq (Gehring et al. 2017) translates with gated convolutions on both sides and one head of
attention in each layer of the decoder; its weight normalisation is left out.

Everything here is [batch, positions, width]; ids are [batch, positions]; masks are bool, True = may look.
"""

import math
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from manyheads.core.configs import refuse_below_one, refuse_no_fraction
from manyheads.core.errors import ConfigError
from manyheads.nn.attention import MultiHeadAttention
from manyheads.nn.convolution import Convolution, ConvolutionCache, GatedConvolution
from manyheads.nn.layers import Linear, OutputProjection, TokenEmbedding, build_norm
from manyheads.nn.positions import PositionsConfig, build_positions
from manyheads.ops.masks import padding_mask

HALF = math.sqrt(0.5)  # of a sum of two that vary alike, the square root of half its variance: it varies as each did


@dataclass(frozen=True, kw_only=True)
class ByteNetConfig:
    """The sizes of a language model of dilated convolutions."""

    vocabulary: int = 0
    """How many tokens there are; 0: as many as the tokenizer has."""
    context: int = 512
    """How many tokens it is trained on at once; it sees no more of them than its convolutions reach."""
    width: int = 512
    """The size of every vector between blocks."""
    layers: int = 15
    """Blocks, one above the other."""
    inner: int | None = None
    """The width inside a block; unset: width / 2, as published."""
    kernel: int = 3
    """Inputs that each convolution sees."""
    dilations: tuple[int, ...] = (1, 2, 4, 8, 16)
    """How far apart these are in the first block, the second, and so on; then from the first again."""
    norm: str = "layer"
    """layer or rms."""
    tied: bool = True
    """One matrix for embedding and output."""
    dropout: float = 0.1
    """On the embeddings and on each block's output before it is added."""
    end: int | None = None
    """The id that ends a text."""
    other_ends: tuple[int, ...] = ()
    """More ids that end it, as chat models have."""

    def __post_init__(self):
        refuse_below_one(self, "context", "width", "layers", "inner", "kernel")
        refuse_no_fraction(self, "dropout")
        if not self.dilations or min(self.dilations) < 1:
            raise ConfigError(f"model.dilations is {list(self.dilations)}; it must be a list of numbers from 1 on")

    @property
    def receptive_field(self) -> int:
        """How many tokens, the newest included, a prediction depends on."""
        return 1 + sum((self.kernel - 1) * self.dilation(layer) for layer in range(self.layers))

    def dilation(self, layer: int) -> int:
        return self.dilations[layer % len(self.dilations)]


class ByteNetBlock(nn.Module):
    """x + outer(tanh(a) · σ(b)), a and b convolved from inner(norm(x)): ByteNet's unit with the gate of WaveNet."""

    def __init__(self, config: ByteNetConfig, dilation: int):
        super().__init__()
        inner = config.inner or max(config.width // 2, 1)
        self.norm = build_norm(config.norm, config.width)
        self.inner = Linear(config.width, inner)
        self.inner_norm = build_norm(config.norm, inner)
        self.convolution = Convolution(inner, 2 * inner, config.kernel, dilation=dilation)
        self.outer = Linear(inner, config.width)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x: Tensor, mask: Tensor | None, cache: ConvolutionCache | None) -> Tensor:
        content, gate = self.convolution(self.inner_norm(self.inner(self.norm(x))), mask, cache).chunk(2, dim=-1)
        return x + self.dropout(self.outer(content.tanh() * gate.sigmoid()))


class ByteNet(nn.Module):
    """Ids in, logits of each next token out: [batch, positions, vocabulary]."""

    rows_share_length = False

    def __init__(self, config: ByteNetConfig):
        super().__init__()
        self.config = config
        self.embedding = TokenEmbedding(config.vocabulary, config.width)
        self.dropout = nn.Dropout(config.dropout)
        self.blocks = nn.ModuleList(ByteNetBlock(config, config.dilation(layer)) for layer in range(config.layers))
        self.norm = build_norm(config.norm, config.width)
        weight = self.embedding.weight if config.tied else nn.Parameter(self.embedding.weight.detach().clone())
        self.output = OutputProjection(weight)
        self.reset()

    def forward(self, ids: Tensor, mask: Tensor | None = None, cache: ConvolutionCache | None = None) -> Tensor:
        return self.output(self.states(ids, mask, cache))

    def states(self, ids: Tensor, mask: Tensor | None = None, cache: ConvolutionCache | None = None) -> Tensor:
        """What the output projection reads; nothing looks ahead, and `mask` can only hide more."""
        x = self.dropout(self.embedding(ids))
        for block in self.blocks:
            x = block(x, mask, cache)
        if cache is not None:
            cache.advance(ids.shape[1])
        return self.norm(x)

    def decoding_state(self, capacity: int, beams: int = 1) -> ConvolutionCache:
        """What decoding goes on from, empty: each call that it is passed to advances it, past any capacity."""
        return ConvolutionCache(beams)

    def reset(self) -> None:
        """Xavier-uniform; what is added to the residual path begins smaller the more blocks add to it."""
        for name, module in self.blocks.named_modules():
            if isinstance(module, nn.Linear):
                gain = self.config.layers**-0.5 if name.endswith(".outer") else 1.0
                nn.init.xavier_uniform_(module.weight, gain)
                nn.init.zeros_(module.bias)


@dataclass(frozen=True, kw_only=True)
class ConvSeq2SeqConfig:
    """The sizes of a convolutional translator."""

    vocabulary: int = 0
    """How many tokens there are; 0: as many as the tokenizer has."""
    width: int = 512
    """The size of every vector, of embeddings and between blocks."""
    layers: int = 20
    """Blocks in the encoder, and in the decoder unless decoder_layers says otherwise."""
    decoder_layers: int | None = None
    """Blocks in the decoder; unset: as many as in the encoder."""
    kernel: int = 3
    """Inputs that each convolution sees: around its position in the encoder, up to it in the decoder."""
    positions: PositionsConfig = field(default_factory=lambda: PositionsConfig(kind="learned"))
    """How the model knows where a token stands: learned, as published, sinusoidal, or none."""
    tied: bool = False
    """One matrix for both embeddings and the output."""
    dropout: float = 0.1
    """On the embeddings, on the input of each convolution and on what the output projection reads."""
    pad: int = 0
    """The id that fills rows up."""
    start: int = 0
    """The id the decoder starts from; the pad, whose embedding is zero."""
    end: int = 1
    """The id that ends a sentence."""
    other_ends: tuple[int, ...] = ()
    """More ids that end a translation."""

    def __post_init__(self):
        refuse_below_one(self, "width", "layers", "decoder_layers", "kernel")
        refuse_no_fraction(self, "dropout")
        if self.positions.kind not in ("learned", "sinusoidal", "none"):
            raise ConfigError(
                f"model.positions.kind is {self.positions.kind}, which attention to oneself would need; "
                f"convolutions can have learned, sinusoidal or none"
            )


class SourceAttention(MultiHeadAttention):
    """One head whose queries are x as it is, unscaled, and whose keys and values are the halves of the memory."""

    def __init__(self, width: int):
        super().__init__(width, 1)
        del self.projection

    def _memory_keys(self, x: Tensor, memory: Tensor, mask: Tensor | None, cache: Any):
        # Rows that share a memory, beams, become more queries of it, as in every attention.
        q = x.reshape(memory.shape[0], 1, -1, x.shape[-1])
        k, v = memory[:, None].chunk(2, dim=-1)
        options: dict[str, Any] = {"mask": mask, "scale": 1.0}
        return q, k, v, options


class EncoderBlock(nn.Module):
    """A gated convolution, added to its input."""

    def __init__(self, config: ConvSeq2SeqConfig):
        super().__init__()
        self.convolution = GatedConvolution(
            config.width, config.kernel, ahead=config.kernel // 2, dropout=config.dropout
        )

    def forward(self, x: Tensor) -> Tensor:
        return (x + self.convolution(x)) * HALF


class DecoderBlock(nn.Module):
    """A gated convolution, and what the source has to say to it and to the target's embeddings, added to its input."""

    def __init__(self, config: ConvSeq2SeqConfig):
        super().__init__()
        self.convolution = GatedConvolution(config.width, config.kernel, dropout=config.dropout)
        self.query = Linear(config.width, config.width)
        self.cross_attention = SourceAttention(config.width)

    def forward(
        self, x: Tensor, embedded: Tensor, memory: Tensor, memory_mask: Tensor | None, cache: ConvolutionCache | None
    ) -> Tensor:
        hidden = self.convolution(x, cache)
        query = self.query(hidden) + embedded  # equation 1
        found = self.cross_attention(query, memory, mask=memory_mask, cache=cache)
        return (x + (hidden + found) * HALF) * HALF


class _Stack(nn.Module):
    """What encoder and decoder share: embeddings with positions and dropout, a map into the blocks and one out."""

    def __init__(self, config: ConvSeq2SeqConfig, embedding: TokenEmbedding, block: type, layers: int):
        super().__init__()
        self.embedding = embedding
        self.positions = build_positions(config.positions, width=config.width, heads=1, deviation=0.1)
        self.dropout = nn.Dropout(config.dropout)
        self.inward = Linear(config.width, config.width)
        self.blocks = nn.ModuleList(block(config) for _ in range(layers))
        self.outward = Linear(config.width, config.width)

    def embed(self, ids: Tensor, start: int | Tensor) -> Tensor:
        return self.dropout(self.positions.add(self.embedding(ids), start))


class Encoder(_Stack):
    """Source ids in, the memory out: [batch, positions, 2 · width], the keys z and then the values √m · (z + e).

    e are the embeddings. m is the length of the source: a mean of m vectors that vary alike varies 1/m as much, which
    m · √(1/m), as published behind the sum and here before it, undoes.
    """

    def forward(self, ids: Tensor, mask: Tensor | None, attentions: int) -> Tensor:
        embedded, real = self.embed(ids, 0), None if mask is None else mask[:, 0, 0, :, None]
        x = self.inward(embedded)
        for block in self.blocks:
            # Beyond a row's end there must be zeros, as beyond the longest's.
            x = block(x if real is None else x * real)
        z = self.outward(x)
        z = z.detach().lerp(z, 1 / attentions)  # every attention sends a gradient back: section 3.4
        length = ids.shape[1] if real is None else real.sum(dim=1, keepdim=True).to(z.dtype)
        return torch.cat([z, (z + embedded) * length**0.5], dim=-1)


class Decoder(_Stack):
    """Target ids so far and the memory in, a state for each next token out."""

    def forward(
        self, ids: Tensor, memory: Tensor, memory_mask: Tensor | None, cache: ConvolutionCache | None = None
    ) -> Tensor:
        embedded = self.embed(ids, 0 if cache is None else cache.start)
        x = self.inward(embedded)
        for block in self.blocks:
            x = block(x, embedded, memory, memory_mask, cache)
        if cache is not None:
            cache.advance(ids.shape[1])
        return self.dropout(self.outward(x))


class ConvSeq2Seq(nn.Module):
    """Source ids and target ids in, logits of each next target token out: [batch, positions, vocabulary]."""

    def __init__(self, config: ConvSeq2SeqConfig):
        super().__init__()
        self.config = config
        self.encoder = Encoder(config, _embedding(config), EncoderBlock, config.layers)
        target_embedding = self.encoder.embedding if config.tied else _embedding(config)
        self.decoder = Decoder(config, target_embedding, DecoderBlock, config.decoder_layers or config.layers)
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
        """The memory, keys and values side by side, and the mask that keeps attention off its padding."""
        mask = padding_mask(source, self.config.pad)
        return self.encoder(source, mask, len(self.decoder.blocks)), mask

    def decode(
        self, target: Tensor, memory: Tensor, memory_mask: Tensor | None, cache: ConvolutionCache | None = None
    ) -> Tensor:
        """Logits for target ids whose predecessors, if any, are in the cache."""
        return self.output(self.decoder(target, memory, memory_mask, cache))

    def decoding_state(self, capacity: int, beams: int = 1) -> ConvolutionCache:
        """What decoding goes on from, empty: each call that it is passed to advances it."""
        return ConvolutionCache(beams)

    def reset(self) -> None:
        """As section 3.5: each layer keeps the variance of small inputs, which its gate quarters and dropout raises."""
        kept = 1 - self.config.dropout
        for name, module in self.named_modules():
            if isinstance(module, nn.Linear):
                variance = 4 * kept if isinstance(module, Convolution) else kept if name.endswith("inward") else 1.0
                nn.init.normal_(module.weight, std=math.sqrt(variance / module.in_features))
                nn.init.zeros_(module.bias)
        if not self.config.tied:
            nn.init.normal_(self.output.weight, std=math.sqrt(kept / self.config.width))
        for stack in (self.encoder, self.decoder):
            nn.init.normal_(stack.embedding.weight, std=0.1)
            nn.init.zeros_(stack.embedding.weight[self.config.pad])
            for table in stack.positions.parameters():
                if table.requires_grad:
                    nn.init.normal_(table, std=0.1)


def _embedding(config: ConvSeq2SeqConfig) -> TokenEmbedding:
    return TokenEmbedding(config.vocabulary, config.width, pad=config.pad)


def bytenet_tiny() -> ByteNetConfig:
    """The size for a laptop: a model of a book in minutes on two cores."""
    return ByteNetConfig(context=128, width=128, layers=10, dropout=0.0)


def bytenet() -> ByteNetConfig:
    """The size for a book on a GPU: 20 layers of width 384 that reach back 249 tokens."""
    return ByteNetConfig(context=256, width=384, layers=20, dropout=0.2)


def conv_tiny() -> ConvSeq2SeqConfig:
    """The least that learns the sample corpus, in minutes on two cores."""
    return ConvSeq2SeqConfig(width=128, layers=2, tied=True)


def conv() -> ConvSeq2SeqConfig:
    """A small model for corpora of tens of thousands of sentences."""
    return ConvSeq2SeqConfig(width=256, layers=4, tied=True, dropout=0.2)


LANGUAGE_PRESETS = {preset.__name__: preset for preset in (bytenet_tiny, bytenet)}
TRANSLATION_PRESETS = {preset.__name__: preset for preset in (conv_tiny, conv)}
