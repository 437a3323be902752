"""Marian, the translator of transformers (`MarianMTModel`): the Transformer as published, under other names.

Marian keeps the sinusoid's sines in the first half of the width and its cosines in the second, where the paper
interleaves them. Every weight that touches the width is therefore read and written in the other order: an exact change.
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from manyheads.core.errors import CheckpointError
from manyheads.models.transformer import Transformer, TransformerConfig
from manyheads.nn.positions import PositionsConfig

TYPES = ("marian",)
# Ours to theirs for every part of a block that is one on both sides.
_PARTS = {
    "self_norm": "self_attn_layer_norm",
    "cross_norm": "encoder_attn_layer_norm",
    "feedforward.inner": "fc1",
    "feedforward.outer": "fc2",
    "feedforward_norm": "final_layer_norm",
    "self_attention.output": "self_attn.out_proj",
    "cross_attention.output": "encoder_attn.out_proj",
}
# Ours to theirs where our one projection of queries, keys and values is three of theirs.
_ATTENTIONS = {"self_attention.projection": "self_attn", "cross_attention.projection": "encoder_attn"}
_ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "gelu_tanh": "gelu_new", "silu": "swish"}
# What their files may hold beside the weights: copies of shared ones, and the sinusoid.
_COPIES = (
    "lm_head.weight",
    "model.encoder.embed_tokens.weight",
    "model.decoder.embed_tokens.weight",
    "model.encoder.embed_positions.weight",
    "model.decoder.embed_positions.weight",
)


def fits(config: TransformerConfig) -> bool:
    """Whether Marian can express this model; what it cannot is saved under our own model type."""
    same = TransformerConfig(
        positions=PositionsConfig(length=config.positions.length),
        **{
            name: getattr(config, name)
            for name in (
                *("vocabulary", "width", "layers", "decoder_layers", "heads", "inner", "scale_embeddings"),
                *("dropout", "attention_dropout", "inner_dropout", "pad", "start", "end", "activation"),
            )
        },
    )
    return config == same and config.activation in _ACTIVATIONS


def write_config(config: TransformerConfig) -> dict[str, Any]:
    """Our config as their config.json."""
    return {
        "architectures": ["MarianMTModel"],
        "model_type": "marian",
        "is_encoder_decoder": True,
        "vocab_size": config.vocabulary,
        "decoder_vocab_size": config.vocabulary,
        "share_encoder_decoder_embeddings": True,
        "tie_word_embeddings": True,
        "d_model": config.width,
        "encoder_layers": config.layers,
        "decoder_layers": config.decoder_layers or config.layers,
        "encoder_attention_heads": config.heads,
        "decoder_attention_heads": config.heads,
        "encoder_ffn_dim": config.inner,
        "decoder_ffn_dim": config.inner,
        "activation_function": _ACTIVATIONS[config.activation],
        "scale_embedding": config.scale_embeddings,
        "dropout": config.dropout,
        "attention_dropout": config.attention_dropout,
        "activation_dropout": config.inner_dropout,
        "max_position_embeddings": config.positions.length,
        "pad_token_id": config.pad,
        "decoder_start_token_id": config.start,
        "eos_token_id": config.end,
        "forced_eos_token_id": None,
        "dtype": "float32",
    }


def write_generation_config(config: TransformerConfig) -> dict[str, Any]:
    """What their `generate` reads: the ids it starts, ends and pads with, and padding forbidden."""
    return {
        "decoder_start_token_id": config.start,
        "eos_token_id": config.end,
        "pad_token_id": config.pad,
        "bad_words_ids": [[config.pad]],
        "max_length": 512,
    }


def read_config(table: dict[str, Any]) -> TransformerConfig:
    """Their config.json as our config; a Marian that this Transformer cannot be is refused."""
    for ours in ("layers", "attention_heads", "ffn_dim"):
        encoder, decoder = table[f"encoder_{ours}"], table[f"decoder_{ours}"]
        if encoder != decoder and ours != "layers":
            raise CheckpointError(f"encoder_{ours} {encoder} and decoder_{ours} {decoder} differ; they must be equal")
    if not table.get("share_encoder_decoder_embeddings", True) or not table.get("tie_word_embeddings", True):
        raise CheckpointError("this Marian keeps its embeddings apart; only those with shared embeddings can be opened")
    activations = {theirs: ours for ours, theirs in _ACTIVATIONS.items()} | {"silu": "silu"}
    activation = table.get("activation_function", "gelu")
    if activation not in activations:
        raise CheckpointError(f"activation {activation} is not known; known are {', '.join(activations)}")
    return TransformerConfig(
        vocabulary=table["vocab_size"],
        width=table["d_model"],
        layers=table["encoder_layers"],
        decoder_layers=None if table["decoder_layers"] == table["encoder_layers"] else table["decoder_layers"],
        heads=table["encoder_attention_heads"],
        inner=table["encoder_ffn_dim"],
        activation=activations[activation],
        scale_embeddings=table.get("scale_embedding", False),
        dropout=table.get("dropout", 0.1),
        attention_dropout=table.get("attention_dropout", 0.0),
        inner_dropout=table.get("activation_dropout", 0.0),
        positions=PositionsConfig(length=table.get("max_position_embeddings", 1024)),
        pad=table["pad_token_id"],
        start=table["decoder_start_token_id"],
        end=table["eos_token_id"],
    )


def write_tensors(model: Transformer) -> dict[str, Tensor]:
    """Our weights under their names and in their order."""
    own = model.state_dict()
    theirs = {
        "model.shared.weight": own["encoder.embedding.weight"],
        "final_logits_bias": own["output.bias"][None],
    }
    for ours, name in _names(model).items():
        theirs[name] = own[ours]
    for ours, parts, names in _projections(model):
        for kind in ("weight", "bias"):
            for name, part in zip(names, own[f"{ours}.{kind}"].split(parts), strict=True):
                theirs[f"{name}.{kind}"] = part
    halves = _halves(model.config.width)
    return {name: _reordered(name, tensor, halves).contiguous() for name, tensor in theirs.items()}


def read_tensors(model: Transformer, theirs: Mapping[str, Tensor]) -> None:
    """Loads their weights; a name left over on either side is an error."""
    interleaved = _halves(model.config.width).argsort()
    left = {
        name: _reordered(name, tensor.float(), interleaved) for name, tensor in theirs.items() if name not in _COPIES
    }
    own: dict[str, Tensor] = {}
    try:
        own["encoder.embedding.weight"] = own["decoder.embedding.weight"] = own["output.weight"] = left.pop(
            "model.shared.weight"
        )
        own["output.bias"] = left.pop("final_logits_bias").squeeze(0)
        for ours, name in _names(model).items():
            own[ours] = left.pop(name)
        for ours, _, names in _projections(model):
            for kind in ("weight", "bias"):
                own[f"{ours}.{kind}"] = torch.cat([left.pop(f"{name}.{kind}") for name in names])
    except KeyError as missing:
        raise CheckpointError(
            f"the checkpoint has no tensor {missing}, which a Marian of its config must have"
        ) from None
    if left:
        raise CheckpointError(
            f"the checkpoint has tensors that a Marian of its config has not: {', '.join(sorted(left))}"
        )
    for name, tensor in model.state_dict().items():
        if own[name].shape != tensor.shape:
            raise CheckpointError(f"{name} is of shape {list(own[name].shape)}; its config says {list(tensor.shape)}")
    model.load_state_dict(own)


def _names(model: Transformer) -> dict[str, str]:
    """Ours to theirs for every weight that is one on both sides."""
    names = {}
    for ours in model.state_dict():
        module, _, kind = ours.rpartition(".")
        stack, number, part = _place(module)
        if part in _PARTS:
            names[ours] = f"model.{stack}.layers.{number}.{_PARTS[part]}.{kind}"
    return names


def _projections(model: Transformer):
    """Ours, the sizes of its parts and their three names for each fused projection of queries, keys and values."""
    for ours, module in model.named_modules():
        stack, number, part = _place(f"{ours}.projection")
        if part in _ATTENTIONS:
            prefix = f"model.{stack}.layers.{number}.{_ATTENTIONS[part]}"
            yield f"{ours}.projection", module.parts, [f"{prefix}.{letter}_proj" for letter in "qkv"]


def _place(module: str) -> tuple[str, str, str]:
    """`encoder.blocks.3.self_norm` as encoder, 3, self_norm."""
    stack, _, rest = module.partition(".blocks.")
    number, _, part = rest.partition(".")
    return stack, number, part


def _halves(width: int) -> Tensor:
    """Where Marian's dimensions stand in ours: the sines, then the cosines."""
    return torch.cat([torch.arange(0, width, 2), torch.arange(1, width, 2)])


def _reordered(name: str, tensor: Tensor, order: Tensor) -> Tensor:
    """The tensor with the axis that is the width in another order."""
    stem, _, kind = name.rpartition(".")
    part = stem.rpartition(".")[2]
    if part in ("q_proj", "k_proj", "v_proj", "fc1", "shared"):
        return tensor if kind == "bias" else tensor[:, order]
    if part in ("out_proj", "fc2") or part.endswith("layer_norm"):
        return tensor[order]
    return tensor
