"""GPT-2 and GPT-1 of transformers (`GPT2LMHeadModel`, `OpenAIGPTLMHeadModel`): our GPT under other names.

Their linear layers are written as 1×1 convolutions: the same matrices, transposed.
"""

import re
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from manyheads.interop import config_json
from manyheads.interop.foreign import Decoder
from manyheads.interop.schema import IDS, our_fields, types_of
from manyheads.interop.weights import views_by_parts
from manyheads.models.gpt import GPT, GPTConfig
from manyheads.nn.positions import PositionsConfig


@dataclass(frozen=True, kw_only=True)
class Published:
    """What GPT-2 and GPT-1 call differently; the rest is in names.toml."""

    name: str
    type: str
    architecture: str
    names: dict[str, Any]
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
        names=config_json.NAMES["gpt2"],
        activations=config_json.ACTIVATIONS,
        aliases=config_json.ALIASES,
        end=50256,
    ),
    "post": Published(
        name="GPT-1",
        type="openai-gpt",
        architecture="OpenAIGPTLMHeadModel",
        names=config_json.NAMES["gpt1"],
        # What this one calls gelu is the approximation.
        activations={"relu": "relu", "gelu_tanh": "gelu", "silu": "silu"},
        aliases={"swish": "silu"},
        end=None,
    ),
}


class GPTNames(Decoder):
    """GPT-2 and GPT-1, told apart by where the norms stand."""

    TYPES = tuple(published.type for published in _PUBLISHED.values())
    SCHEMA = types_of(config_json.NAMES["gpt1"]["config"] | config_json.NAMES["gpt2"]["config"], GPTConfig, end=IDS)
    model = GPT
    prefix = "transformer."
    # Masks that older versions saved with the weights, and the copy of a tied embedding.
    harmless = re.compile(r"(transformer\.)?h\.\d+\.attn\.(bias|masked_bias)|lm_head\.weight")

    def fits(self, model: GPT) -> bool:
        config, published = model.config, _PUBLISHED[model.config.norm_order]
        free = {*our_fields(published.names["config"]).values(), "inner", "norm_order", "inner_dropout", "other_ends"}
        same = config_json.usual_but_for({*free, "positions"}, config)
        learned = config.positions == PositionsConfig(kind="learned", length=config.context)
        inner = config.norm_order == "pre" or config.inner in (None, 4 * config.width)
        return same and learned and inner and config.activation in published.activations

    def write_config(self, config: GPTConfig) -> dict[str, Any]:
        published = _PUBLISHED[config.norm_order]
        table = {"architectures": [published.architecture], "model_type": published.type}
        activation = published.activations[config.activation]
        table |= config_json.write_fields(published.names["config"], config, activation=activation)
        table |= {"eos_token_id": config_json.write_ends(config), "dtype": "float32"}
        return config_json.with_extra_fields(table, config, self.read_config)

    def read_config(self, table: dict[str, Any]) -> GPTConfig:
        order = next(order for order, published in _PUBLISHED.items() if published.type == table["model_type"])
        published = _PUBLISHED[order]
        usual = {"scale_attn_weights": True, "scale_attn_by_inverse_layer_idx": False}
        usual |= {"reorder_and_upcast_attn": False, "add_cross_attention": False}
        config_json.refuse(table, f"this {published.name}", **usual)
        ours = {**config_json.read_fields(published.names["config"], table), "norm_order": order}
        ours["activation"] = config_json.read_activation(ours["activation"], published.activations, published.aliases)
        ours |= config_json.read_ends(table, published.end)
        return config_json.read_extra_fields(table, GPTConfig(**ours))

    def name(self, config: GPTConfig) -> str:
        return _PUBLISHED[config.norm_order].name

    def body_views(self, body: GPT) -> dict[str, Tensor]:
        # Names with c_ are those of convolutions.
        whole = _PUBLISHED[body.config.norm_order].names["whole"]
        views = views_by_parts(body, config_json.NAMES["gpt"]["parts"], whole, f"{self.prefix}h.")
        return {name: view.T if ".c_" in name and view.dim() == 2 else view for name, view in views.items()}
