"""The Vision Transformer: "An Image is Worth 16x16 Words" (Dosovitskiy et al. 2021).

An image is cut into patches, each patch becomes a vector as a word does, and from there on it is BERT's encoder with
the norms before the parts. The paper has it in four equations, whose numbers stand beside the lines:

  (1)  z₀ = [x_class; x₁E; x₂E; …; x_N E] + E_pos       patches, classification token, positions
  (2)  z′ = MSA(LN(z)) + z                               attention
  (3)  z  = MLP(LN(z′)) + z′                             feed-forward
  (4)  y  = LN(z_class)                                  what the classifier reads

  ViT            a vector for each patch      ViTModel
  ViTClassifier  a label for an image         ViTForImageClassification

Pixels are [batch, channels, height, width], normalised; all else is [batch, positions, width].
"""

from dataclasses import dataclass, field, replace
from functools import partial

import torch
from torch import Tensor, nn

from manyheads.core.configs import refuse_below_one, refuse_no_fraction, refuse_uneven_heads
from manyheads.core.errors import ConfigError
from manyheads.nn.attention import MultiHeadAttention
from manyheads.nn.layers import ACTIVATIONS, FeedForward, Linear
from manyheads.nn.patches import KINDS, Patches, image_positions, refuse_uneven_patches
from manyheads.nn.positions import PositionsConfig


@dataclass(frozen=True, kw_only=True)
class ViTConfig:
    """The sizes of a Vision Transformer; as they stand here, those of ViT-B/16."""

    image_size: int = 224
    """Pixels along the side of an image, which is square."""
    patch_size: int = 16
    """Pixels along the side of a patch."""
    channels: int = 3
    """Colours of a pixel: 3, or 1 for shades of grey."""
    width: int = 768
    """The size of every vector between blocks."""
    layers: int = 12
    """Blocks, one above the other."""
    heads: int = 12
    """Attention heads, side by side."""
    inner: int | None = None
    """The width inside the feed-forward; unset: 4 · width."""
    activation: str = "gelu"
    """relu, gelu, gelu_tanh or silu."""
    epsilon: float = 1e-12
    """Added to the variance in each norm."""
    positions: PositionsConfig = field(default_factory=lambda: PositionsConfig(kind="learned"))
    """How the model knows where a patch stands: learned, sinusoidal (in two directions) or none."""
    dropout: float = 0.0
    """On the embeddings, on each sub-layer's output before it is added, and before the classifier."""
    attention_dropout: float = 0.0
    """Dropout on attention weights."""

    def __post_init__(self):
        sizes = ("image_size", "patch_size", "channels", "width", "layers", "heads", "inner")
        refuse_below_one(self, *sizes)
        refuse_uneven_heads(self.width, self.heads)
        refuse_no_fraction(self, "epsilon", "dropout", "attention_dropout")
        if self.activation not in ACTIVATIONS:
            raise ConfigError(f"model.activation is '{self.activation}'; it can be {', '.join(ACTIVATIONS)}")
        if self.positions.kind not in KINDS:
            raise ConfigError(f"model.positions.kind is {self.positions.kind}; of patches it can be {', '.join(KINDS)}")
        object.__setattr__(self, "positions", replace(self.positions, length=1 + self.grid**2))

    @property
    def grid(self) -> int:
        """Patches along the side of an image."""
        return max(self.image_size // self.patch_size, 1)


class Block(nn.Module):
    """Attention among all patches and a feed-forward, each behind a norm and added to its input."""

    def __init__(self, config: ViTConfig):
        super().__init__()
        self.attention_norm = nn.LayerNorm(config.width, eps=config.epsilon)
        self.attention = MultiHeadAttention(config.width, config.heads, dropout=config.attention_dropout)
        self.feedforward_norm = nn.LayerNorm(config.width, eps=config.epsilon)
        self.feedforward = FeedForward(config.width, config.inner or 4 * config.width, config.activation)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.dropout(self.attention(self.attention_norm(x)))  # (2)
        return x + self.dropout(self.feedforward(self.feedforward_norm(x)))  # (3)

    def first(self, x: Tensor) -> Tensor:
        """The same of the first position alone, [batch, 1, width], which looks at all."""
        seen, x = self.attention_norm(x), x[:, :1]
        x = x + self.dropout(self.attention(seen[:, :1], memory=seen))
        return x + self.dropout(self.feedforward(self.feedforward_norm(x)))


class ViT(nn.Module):
    """Pixels in, normalised states of the classification token and of each patch out: [batch, 1 + patches, width]."""

    def __init__(self, config: ViTConfig, pooler: bool = False):
        super().__init__()
        refuse_uneven_patches(config.image_size, config.patch_size)
        self.config = config
        self.patches = Patches(config.patch_size, config.channels, config.width)
        self.class_token = nn.Parameter(torch.zeros(config.width))
        self.positions = image_positions(config.positions, config.width, config.grid)
        self.dropout = nn.Dropout(config.dropout)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.layers))
        self.norm = nn.LayerNorm(config.width, eps=config.epsilon)
        self.pooler = Linear(config.width, config.width) if pooler else None
        self.reset()

    def forward(self, pixels: Tensor) -> Tensor:
        x = self.embed(pixels)
        for block in self.blocks:
            x = block(x)
        return self.norm(x)  # (4), of every patch too

    def summary(self, pixels: Tensor) -> Tensor:
        """[batch, width]: the classification token's state, as `forward` has it in front, sooner.

        Nobody reads what the last block makes of the patches, so it makes nothing of them.
        """
        x = self.embed(pixels)
        *below, last = self.blocks
        for block in below:
            x = block(x)
        return self.norm(last.first(x))[:, 0]  # type: ignore  # (4)

    def embed(self, pixels: Tensor) -> Tensor:
        patches = self.patches(pixels)
        token = self.class_token.to(patches.dtype).expand(patches.shape[0], 1, -1)
        return self.dropout(self.positions.add(torch.cat([token, patches], dim=1), 0))  # (1)

    def pooled(self, states: Tensor) -> Tensor:
        """[batch, width]: the classification token's state once more through a layer, which a ViTModel may have."""
        assert self.pooler is not None
        return torch.tanh(self.pooler(states[:, 0]))

    def reset(self) -> None:
        """Xavier-uniform for all matrices (Glorot and Bengio 2010); queries, keys and values are one."""
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)
                nn.init.zeros_(module.bias)


class ViTClassifier(nn.Module):
    """The classification token's state through one linear layer: [batch, labels]."""

    def __init__(self, body: ViT, names: tuple[str, ...]):
        super().__init__()
        self.body, self.names, self.config = body, names, body.config
        self.dropout = nn.Dropout(self.config.dropout)
        self.score = Linear(self.config.width, len(names))
        # Nothing is likelier than anything else before training, as published.
        nn.init.zeros_(self.score.weight)
        nn.init.zeros_(self.score.bias)

    def forward(self, pixels: Tensor) -> Tensor:
        return self.score(self.dropout(self.summary(pixels)))

    def summary(self, pixels: Tensor) -> Tensor:
        return self.body.summary(pixels)

    def states(self, pixels: Tensor) -> Tensor:
        """[batch, 1 + patches, width]: the patches too, whose attention in the last block `forward` does without."""
        return self.body(pixels)


SIZES = {
    "ti": {"width": 192, "layers": 12, "heads": 3, "inner": 768},
    "s": {"width": 384, "layers": 12, "heads": 6, "inner": 1536},
    "b": {"width": 768, "layers": 12, "heads": 12, "inner": 3072},
    "l": {"width": 1024, "layers": 24, "heads": 16, "inner": 4096},
}
"""Tiny (Touvron et al. 2021), small, base and large."""
vit_micro = partial(ViTConfig, image_size=64, patch_size=8, width=64, layers=6, heads=4, inner=128)
"""For pictures as small as handwritten digits: 0.2 million parameters."""
vit_mini = partial(ViTConfig, image_size=64, patch_size=8, width=128, layers=6, heads=4, inner=256)
"""For small pictures in colour: 0.8 million parameters."""
PRESETS = {
    "vit_micro": vit_micro,
    "vit_mini": vit_mini,
    **{
        f"vit_{size}{patch}": partial(ViTConfig, patch_size=patch, **SIZES[size])
        for size in SIZES
        for patch in (8, 16, 32)
    },
}
"""By their names, as ViT-B/16 is vit_b16."""
