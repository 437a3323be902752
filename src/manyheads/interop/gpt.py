"""GPT-2 and GPT-1 of transformers (`GPT2LMHeadModel`, `OpenAIGPTLMHeadModel`): our GPT under other names.

Their linear layers are written as 1×1 convolutions: the same matrices, transposed.
"""

import re
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from manyheads.interop import config_json
from manyheads.interop.foreign import Decoder
from manyheads.interop.weights import views_by_parts
from manyheads.models.gpt import GPT, GPTConfig


@dataclass(frozen=True, kw_only=True)
class Published:
    """What GPT-2 and GPT-1 call differently."""

    name: str
    type: str
    architecture: str
    embedding: str
    positions: str
    activation: str
    """The field that names the activation."""
    activations: dict[str, str]
    """Ours to theirs."""
    aliases: dict[str, str]
    """More names of theirs, to ours."""
    end: int | None
    """The end of a text where a config says nothing."""


# By where the norms stand.
_PUBLISHED = {
    "pre": Published(
        name="GPT-2",
        type="gpt2",
        architecture="GPT2LMHeadModel",
        embedding="wte",
        positions="wpe",
        activation="activation_function",
        activations=config_json.ACTIVATIONS,
        aliases=config_json.ALIASES,
        end=50256,
    ),
    "post": Published(
        name="GPT-1",
        type="openai-gpt",
        architecture="OpenAIGPTLMHeadModel",
        embedding="tokens_embed",
        positions="positions_embed",
        activation="afn",
        # What this one calls gelu is the approximation.
        activations={"relu": "relu", "gelu_tanh": "gelu", "silu": "silu"},
        aliases={"swish": "silu"},
        end=None,
    ),
}
# Ours to theirs for every part of a block.
_PARTS = {
    "attention.projection": ("attn.c_attn",),
    "attention.output": ("attn.c_proj",),
    "attention_norm": ("ln_1",),
    "feedforward.inner": ("mlp.c_fc",),
    "feedforward.outer": ("mlp.c_proj",),
    "feedforward_norm": ("ln_2",),
}
# Sizes and rates that both can have.
_FREE = (
    *("vocabulary", "context", "width", "layers", "heads", "inner", "activation", "norm_order", "epsilon", "tied"),
    *("dropout", "attention_dropout", "inner_dropout", "end"),
)


class GPTNames(Decoder):
    """GPT-2 and GPT-1, told apart by where the norms stand."""

    TYPES = tuple(published.type for published in _PUBLISHED.values())
    model = GPT
    prefix = "transformer."
    # Masks that older versions saved with the weights, and the copy of a tied embedding.
    harmless = re.compile(r"(transformer\.)?h\.\d+\.attn\.(bias|masked_bias)|lm_head\.weight")

    def fits(self, model: GPT) -> bool:
        config = model.config
        same = GPTConfig(**{name: getattr(config, name) for name in _FREE})
        inner = config.norm_order == "pre" or config.inner in (None, 4 * config.width)
        return config == same and inner and config.activation in _PUBLISHED[config.norm_order].activations

    def write_config(self, config: GPTConfig) -> dict[str, Any]:
        published = _PUBLISHED[config.norm_order]
        table = {
            "architectures": [published.architecture],
            "model_type": published.type,
            "vocab_size": config.vocabulary,
            "n_positions": config.context,
            "n_embd": config.width,
            "n_layer": config.layers,
            "n_head": config.heads,
            **({"n_inner": config.inner} if published.type == "gpt2" else {}),
            published.activation: published.activations[config.activation],
            "layer_norm_epsilon": config.epsilon,
            "tie_word_embeddings": config.tied,
            "resid_pdrop": config.dropout,
            "embd_pdrop": config.dropout,
            "attn_pdrop": config.attention_dropout,
            "bos_token_id": config.end,
            "eos_token_id": config.end,
            "dtype": "float32",
        }
        return config_json.with_extra_fields(table, config, self.read_config)

    def read_config(self, table: dict[str, Any]) -> GPTConfig:
        order = next(order for order, published in _PUBLISHED.items() if published.type == table["model_type"])
        published = _PUBLISHED[order]
        config_json.refuse(
            table, f"this {published.name}", scale_attn_weights=True, scale_attn_by_inverse_layer_idx=False
        )
        config_json.refuse(table, f"this {published.name}", reorder_and_upcast_attn=False, add_cross_attention=False)
        activation = table.get(published.activation, published.activations["gelu_tanh"])
        config = GPTConfig(
            vocabulary=table["vocab_size"],
            context=table["n_positions"],
            width=table["n_embd"],
            layers=table["n_layer"],
            heads=table["n_head"],
            inner=table.get("n_inner"),
            activation=config_json.read_activation(activation, published.activations, published.aliases),
            norm_order=order,
            epsilon=table.get("layer_norm_epsilon", 1e-5),
            tied=table.get("tie_word_embeddings", True),
            dropout=table.get("resid_pdrop", 0.1),
            attention_dropout=table.get("attn_pdrop", 0.1),
            end=next(iter(config_json.ends(table, published.end)), None),
        )
        return config_json.read_extra_fields(table, config)

    def name(self, config: GPTConfig) -> str:
        return _PUBLISHED[config.norm_order].name

    def body_views(self, body: GPT) -> dict[str, Tensor]:
        published = _PUBLISHED[body.config.norm_order]
        whole = {
            "embedding": self.prefix + published.embedding,
            "positions.table": self.prefix + published.positions,
            "norm": f"{self.prefix}ln_f",
            "output": "lm_head",
        }
        # Names with c_ are those of convolutions.
        views = views_by_parts(body, _PARTS, whole, f"{self.prefix}h.")
        return {name: view.T if ".c_" in name and view.dim() == 2 else view for name, view in views.items()}
