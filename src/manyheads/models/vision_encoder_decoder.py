"""An image in, words out: the patches of a ViT (Dosovitskiy et al. 2021) read by the translator's decoder (Vaswani et
al. 2017), as "Show, Attend and Tell" (Xu et al. 2015) did with a convolutional and a recurrent network.

The encoder makes a memory of the image's patches, as it would of a sentence; the decoder writes word after word, and
its cross-attention says which patches each word looks at.

  VisionEncoderDecoder   a caption of an image                VisionEncoderDecoderModel of a ViT and a Marian decoder
  VisionQuestionDecoder  an answer to a question about one    a type of our own: the question goes in with the picture

Pixels are [batch, channels, height, width], normalised; ids are [batch, positions]; all else is [batch, positions,
width]; masks are bool, True = may look.
"""

from dataclasses import dataclass, field, replace

import torch
from torch import Tensor, nn

from manyheads.core.configs import refuse_below_one, refuse_no_fraction, refuse_uneven_heads
from manyheads.core.errors import ConfigError
from manyheads.nn.attention import MultiHeadAttention
from manyheads.nn.cache import Cache
from manyheads.nn.layers import ACTIVATIONS, FeedForward, OutputProjection, TokenEmbedding
from manyheads.nn.patches import Patches, refuse_uneven_patches, sines_to_begin_with
from manyheads.nn.positions import PositionsConfig, Sinusoidal
from manyheads.ops.masks import padding_mask


@dataclass(frozen=True, kw_only=True)
class VisionEncoderDecoderConfig:
    """The sizes of a captioner, the same on both sides."""

    image_size: int = 224
    """Pixels along the side of an image, which is square."""
    patch_size: int = 16
    """Pixels along the side of a patch."""
    channels: int = 3
    """Colours of a pixel: 3, or 1 for shades of grey."""
    vocabulary: int = 0
    """How many tokens there are; 0: as many as the tokenizer has."""
    width: int = 512
    """The size of every vector between blocks."""
    layers: int = 6
    """Blocks in the encoder, and in the decoder unless decoder_layers says otherwise."""
    decoder_layers: int | None = None
    """Blocks in the decoder; unset: as many as in the encoder."""
    heads: int = 8
    """Attention heads, side by side."""
    inner: int | None = None
    """The width inside the feed-forward; unset: 4 · width."""
    activation: str = "gelu"
    """relu, gelu, gelu_tanh or silu."""
    epsilon: float = 1e-12
    """Added to the variance in each norm of the encoder."""
    positions: PositionsConfig = field(default_factory=PositionsConfig)
    """How the model knows where a word stands: sinusoidal. Where a patch stands is learned."""
    dropout: float = 0.1
    """On the embeddings, and on each sub-layer's output before it is added."""
    attention_dropout: float = 0.0
    """Dropout on attention weights."""
    pad: int = 0
    """The id that fills rows up."""
    start: int = 0
    """The id the decoder starts from; the pad, whose embedding is zero, as Marian does."""
    end: int = 1
    """The id that ends a text."""
    other_ends: tuple[int, ...] = ()
    """More ids that end a text."""

    def __post_init__(self):
        refuse_below_one(self, "image_size", "patch_size", "channels", "width", "layers", "heads")
        refuse_below_one(self, "inner", "decoder_layers")
        refuse_uneven_heads(self.width, self.heads)
        refuse_no_fraction(self, "epsilon", "dropout", "attention_dropout")
        if self.activation not in ACTIVATIONS:
            raise ConfigError(f"model.activation is '{self.activation}'; it can be {', '.join(ACTIVATIONS)}")
        if self.positions.kind != "sinusoidal":
            raise ConfigError(f"model.positions.kind is {self.positions.kind}; of a captioner's words it is sinusoidal")

    @property
    def grid(self) -> int:
        """Patches along the side of an image."""
        return max(self.image_size // self.patch_size, 1)


class EncoderBlock(nn.Module):
    """Attention among all that is seen and a feed-forward, each behind a norm and added to its input, as in ViT."""

    def __init__(self, config: VisionEncoderDecoderConfig):
        super().__init__()
        self.attention_norm = nn.LayerNorm(config.width, eps=config.epsilon)
        self.attention = MultiHeadAttention(config.width, config.heads, dropout=config.attention_dropout)
        self.feedforward_norm = nn.LayerNorm(config.width, eps=config.epsilon)
        self.feedforward = _feedforward(config)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        x = x + self.dropout(self.attention(self.attention_norm(x), mask=mask))
        return x + self.dropout(self.feedforward(self.feedforward_norm(x)))


class DecoderBlock(nn.Module):
    """Masked self-attention, attention over what is seen, and a feed-forward; each added and normed, as the paper."""

    def __init__(self, config: VisionEncoderDecoderConfig):
        super().__init__()
        self.self_attention = MultiHeadAttention(
            config.width, config.heads, dropout=config.attention_dropout, causal=True
        )
        self.cross_attention = MultiHeadAttention(config.width, config.heads, dropout=config.attention_dropout)
        self.feedforward = _feedforward(config)
        self.self_norm, self.cross_norm, self.feedforward_norm = (nn.LayerNorm(config.width) for _ in range(3))
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x: Tensor, memory: Tensor, memory_mask: Tensor | None, cache: Cache | None) -> Tensor:
        x = self.self_norm(x + self.dropout(self.self_attention(x, cache=cache)))
        x = self.cross_norm(x + self.dropout(self.cross_attention(x, memory, mask=memory_mask, cache=cache)))
        return self.feedforward_norm(x + self.dropout(self.feedforward(x)))


def _feedforward(config: VisionEncoderDecoderConfig) -> FeedForward:
    return FeedForward(config.width, config.inner or 4 * config.width, config.activation)


class Encoder(nn.Module):
    """Pixels in, and words that are read with them; a normalised state of each word, of a token for the whole image and
    of each patch out, in this order."""

    def __init__(self, config: VisionEncoderDecoderConfig):
        super().__init__()
        refuse_uneven_patches(config.image_size, config.patch_size)
        self.patches = Patches(config.patch_size, config.channels, config.width)
        self.class_token = nn.Parameter(torch.zeros(config.width))
        self.positions = sines_to_begin_with(config.width, config.grid)
        self.dropout = nn.Dropout(config.dropout)
        self.blocks = nn.ModuleList(EncoderBlock(config) for _ in range(config.layers))
        self.norm = nn.LayerNorm(config.width, eps=config.epsilon)

    def forward(self, pixels: Tensor, words: Tensor | None = None, mask: Tensor | None = None) -> Tensor:
        patches = self.patches(pixels)
        token = self.class_token.to(patches.dtype).expand(patches.shape[0], 1, -1)
        x = self.dropout(self.positions.add(torch.cat([token, patches], dim=1), 0))
        x = x if words is None else torch.cat([words, x], dim=1)
        for block in self.blocks:
            x = block(x, mask)
        return self.norm(x)


class Decoder(nn.Module):
    """Ids so far and the memory in, a state for each next token out."""

    def __init__(self, config: VisionEncoderDecoderConfig):
        super().__init__()
        scale = config.width**0.5
        self.embedding = TokenEmbedding(config.vocabulary, config.width, pad=config.pad, scale=scale)
        self.positions = Sinusoidal(config.width, config.positions.base, config.positions.amplitude or 1.0)
        self.dropout = nn.Dropout(config.dropout)
        self.blocks = nn.ModuleList(DecoderBlock(config) for _ in range(config.decoder_layers or config.layers))

    def forward(self, ids: Tensor, memory: Tensor, memory_mask: Tensor | None, cache: Cache | None = None) -> Tensor:
        x = self.embed(ids, cache.length if cache else 0)
        for block in self.blocks:
            x = block(x, memory, memory_mask, cache)
        if cache:
            cache.advance(ids.shape[1])
        return x

    def embed(self, ids: Tensor, start: int) -> Tensor:
        return self.dropout(self.positions.add(self.embedding(ids), start))


class VisionEncoderDecoder(nn.Module):
    """Pixels and the ids of a caption in, logits of each next token out: [batch, positions, vocabulary]."""

    def __init__(self, config: VisionEncoderDecoderConfig):
        super().__init__()
        self.config = config
        self.encoder, self.decoder = Encoder(config), Decoder(config)
        self.output = OutputProjection(self.decoder.embedding.weight, never=config.pad)
        self.reset()

    def forward(self, pixels: Tensor, target: Tensor) -> Tensor:
        return self.output(self.states(pixels, target))

    def states(self, pixels: Tensor, target: Tensor) -> Tensor:
        """What the output projection reads; a loss that never holds all logits starts here."""
        return self.decoder(target, *self.encode(pixels))

    def encode(self, pixels: Tensor) -> tuple[Tensor, Tensor | None]:
        """The memory, of which everything may be looked at."""
        return self.encoder(pixels), None

    def decode(self, target: Tensor, memory: Tensor, memory_mask: Tensor | None, cache: Cache | None = None) -> Tensor:
        """Logits for target ids whose predecessors, if any, are in the cache."""
        return self.output(self.decoder(target, memory, memory_mask, cache))

    def decoding_state(self, capacity: int, beams: int = 1) -> Cache:
        """What decoding goes on from, empty, for so many positions: each call that it is passed to advances it."""
        return Cache(capacity, beams)

    def reset(self) -> None:
        """Xavier-uniform for matrices between embeddings (Glorot and Bengio 2010); queries, keys and values are one."""
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)
                nn.init.zeros_(module.bias)


class VisionQuestionDecoder(VisionEncoderDecoder):
    """The same with a question that goes in with the picture: its words stand before the patches, and the encoder's
    blocks let each look at all; the decoder writes the answer."""

    def forward(self, pixels: Tensor, question: Tensor, target: Tensor) -> Tensor:  # type: ignore[override]
        return self.output(self.states(pixels, question, target))

    def states(self, pixels: Tensor, question: Tensor, target: Tensor) -> Tensor:  # type: ignore[override]
        return self.decoder(target, *self.encode(pixels, question))

    def encode(self, pixels: Tensor, question: Tensor) -> tuple[Tensor, Tensor | None]:  # type: ignore[override]
        """The memory, and the mask that keeps attention off the padding of questions."""
        mask = padding_mask(question, self.config.pad)
        if mask is not None:  # every patch may be looked at, and the token before them
            mask = torch.cat([mask, mask.new_ones(len(mask), 1, 1, 1 + self.config.grid**2)], dim=-1)
        return self.encoder(pixels, self.decoder.embed(question, 0), mask), mask


def captioner_tiny() -> VisionEncoderDecoderConfig:
    """The least that learns to say what is in a picture of a few shapes, in minutes on two cores."""
    return VisionEncoderDecoderConfig(width=128, layers=4, decoder_layers=3, heads=4, inner=256, dropout=0.0)


def captioner_small() -> VisionEncoderDecoderConfig:
    """For tens of thousands of pictures."""
    return replace(captioner_tiny(), width=256, layers=6, decoder_layers=3, heads=8, inner=1024, dropout=0.1)


def captioner_base() -> VisionEncoderDecoderConfig:
    """The encoder of ViT-B/16, with the decoder's blocks as wide."""
    return VisionEncoderDecoderConfig(width=768, layers=12, decoder_layers=6, heads=12, inner=3072)


PRESETS = {preset.__name__: preset for preset in (captioner_tiny, captioner_small, captioner_base)}
