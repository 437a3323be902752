"""GPT-2 and GPT-1 of transformers (`GPT2LMHeadModel`, `OpenAIGPTLMHeadModel`): our GPT under other names.

Their linear layers are written as 1×1 convolutions: the same matrices, transposed.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from manyheads.core.errors import CheckpointError
from manyheads.interop import decoder
from manyheads.interop.extra_fields import ends, read_extra_fields, refuse, refuse_more_tokens, with_extra_fields
from manyheads.models.classifier import DecoderClassifier
from manyheads.models.gpt import GPT, GPTConfig
from manyheads.text.language import LanguageTokenizer

_ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "gelu_tanh": "gelu_new", "silu": "silu"}


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
        activations=_ACTIVATIONS,
        aliases={"gelu_pytorch_tanh": "gelu_tanh", "gelu_fast": "gelu_tanh", "swish": "silu"},
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
TYPES = tuple(published.type for published in _PUBLISHED.values())
# Ours to theirs for every part of a block; those with a matrix are transposed.
_MATRICES = {
    "attention.projection": "attn.c_attn",
    "attention.output": "attn.c_proj",
    "feedforward.inner": "mlp.c_fc",
    "feedforward.outer": "mlp.c_proj",
}
_NORMS = {"attention_norm": "ln_1", "feedforward_norm": "ln_2"}
_PREFIX = "transformer."
# Masks that older versions saved with the weights, and the copy of a tied embedding.
_HARMLESS = re.compile(r"(transformer\.)?h\.\d+\.attn\.(bias|masked_bias)|lm_head\.weight")
# Sizes and rates that both can have.
_FREE = (
    *("vocabulary", "context", "width", "layers", "heads", "inner", "activation", "norm_order", "epsilon", "tied"),
    *("dropout", "attention_dropout", "inner_dropout", "end"),
)


def fits(model: GPT) -> bool:
    """Whether GPT-2 or GPT-1 of transformers can express this model."""
    config = model.config
    same = GPTConfig(**{name: getattr(config, name) for name in _FREE})
    inner = config.norm_order == "pre" or config.inner in (None, 4 * config.width)
    return config == same and inner and config.activation in _PUBLISHED[config.norm_order].activations


def write_config(config: GPTConfig) -> dict[str, Any]:
    """Our config as their config.json."""
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
    return with_extra_fields(table, config, read_config)


def write_generation_config(config: GPTConfig) -> dict[str, Any]:
    """What their `generate` reads: the one id that begins, ends and pads."""
    return {"bos_token_id": config.end, "eos_token_id": config.end, "pad_token_id": config.end}


def read_config(table: dict[str, Any]) -> GPTConfig:
    """Their config.json as our config; one that our GPT cannot be is refused."""
    order = next(order for order, published in _PUBLISHED.items() if published.type == table["model_type"])
    published = _PUBLISHED[order]
    refuse(table, f"this {published.name}", scale_attn_weights=True, scale_attn_by_inverse_layer_idx=False)
    refuse(table, f"this {published.name}", reorder_and_upcast_attn=False, add_cross_attention=False)
    activations = {theirs: ours for ours, theirs in published.activations.items()} | published.aliases
    activation = table.get(published.activation, published.activations["gelu_tanh"])
    if activation not in activations:
        raise CheckpointError(f"activation {activation} is not known; known are {', '.join(activations)}")
    config = GPTConfig(
        vocabulary=table["vocab_size"],
        context=table["n_positions"],
        width=table["n_embd"],
        layers=table["n_layer"],
        heads=table["n_head"],
        inner=table.get("n_inner"),
        activation=activations[activation],
        norm_order=order,
        epsilon=table.get("layer_norm_epsilon", 1e-5),
        tied=table.get("tie_word_embeddings", True),
        dropout=table.get("resid_pdrop", 0.1),
        attention_dropout=table.get("attn_pdrop", 0.1),
        end=next(iter(ends(table, published.end)), None),
    )
    return read_extra_fields(table, config)


def kind(table: dict[str, Any]) -> type:
    """Which of our models a config.json is that of."""
    return DecoderClassifier if decoder.is_classifier(table) else GPT


def build(
    table: dict[str, Any], config: GPTConfig, weights: Mapping[str, Tensor], tokenizer: LanguageTokenizer
) -> nn.Module:
    """The model that a config.json describes, without its weights."""
    refuse_more_tokens(tokenizer, config)
    return decoder.with_head(GPT(config), table)


def finish(
    directory: Path, table: dict[str, Any], model: GPT | DecoderClassifier, tokenizer: LanguageTokenizer
) -> dict[str, Any]:
    """The body's config.json as that of the model, and the files that stand beside it."""
    generation = write_generation_config(model.config) if table["model_type"] in TYPES else {}  # type: ignore
    return decoder.finished(directory, table, model, tokenizer, generation)


def write_tensors(model: GPT | DecoderClassifier) -> dict[str, Tensor]:
    """Our weights under their names and in their layout."""
    return {name: view.contiguous() for name, view in views(model).items()}


def read_tensors(model: GPT | DecoderClassifier, theirs: Mapping[str, Tensor]) -> None:
    """Loads their weights; a name left over on either side is an error."""
    config: GPTConfig = model.config  # type: ignore
    decoder.read_views(model, views(model), theirs, f"a {_PUBLISHED[config.norm_order].name}", _PREFIX, _HARMLESS)


def views(model: GPT | DecoderClassifier) -> dict[str, Tensor]:
    """Their names over our weights."""
    if isinstance(model, DecoderClassifier):
        return decoder.with_score(model, views(model.body))  # type: ignore
    published = _PUBLISHED[model.config.norm_order]
    theirs = {
        "embedding.weight": f"{_PREFIX}{published.embedding}.weight",
        "positions.table.weight": f"{_PREFIX}{published.positions}.weight",
        "norm.weight": f"{_PREFIX}ln_f.weight",
        "norm.bias": f"{_PREFIX}ln_f.bias",
        "output.weight": "lm_head.weight",
    }
    found = {}
    for ours, parameter in model.named_parameters():
        place, kind = ours.rpartition(".")[::2]
        number, _, part = place.removeprefix("blocks.").partition(".")
        parameter = parameter.detach()
        if part in _MATRICES:
            found[f"{_PREFIX}h.{number}.{_MATRICES[part]}.{kind}"] = parameter.T if kind == "weight" else parameter
        elif part in _NORMS:
            found[f"{_PREFIX}h.{number}.{_NORMS[part]}.{kind}"] = parameter
        else:
            found[theirs[ours]] = parameter
    return found
