"""Marian, the translator of transformers (`MarianMTModel`): the Transformer as published, under other names.

Marian keeps the sinusoid's sines in the first half of the width and its cosines in the second, where the paper
interleaves them. Every weight that touches the width is therefore read and written in the other order: an exact change.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from manyheads.core.errors import CheckpointError
from manyheads.interop.config_json import read_activation, refuse_more_tokens, removed_heads
from manyheads.interop.foreign import Foreign
from manyheads.interop.weights import read_into, views_by_parts, write_json
from manyheads.models.transformer import Transformer, TransformerConfig
from manyheads.nn.positions import PositionsConfig
from manyheads.text.tokenizer import Tokenizer

# Ours to theirs, one matrix to its parts, one after the other.
_PARTS = {
    "self_attention.projection": ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
    "self_attention.output": ("self_attn.out_proj",),
    "self_norm": ("self_attn_layer_norm",),
    "cross_attention.projection": ("encoder_attn.q_proj", "encoder_attn.k_proj", "encoder_attn.v_proj"),
    "cross_attention.output": ("encoder_attn.out_proj",),
    "cross_norm": ("encoder_attn_layer_norm",),
    "feedforward.inner": ("fc1",),
    "feedforward.outer": ("fc2",),
    "feedforward_norm": ("final_layer_norm",),
}
_ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "gelu_tanh": "gelu_new", "silu": "swish"}
# Sizes and rates that both can have.
_FREE = (
    *("vocabulary", "width", "layers", "decoder_layers", "heads", "inner", "scale_embeddings"),
    *("dropout", "attention_dropout", "inner_dropout", "pad", "start", "end", "activation"),
)
# What their files may hold beside the weights: copies of shared ones, and the sinusoid.
_HARMLESS = re.compile(r"lm_head\.weight|model\.(encoder|decoder)\.embed_(tokens|positions)\.weight")


class MarianNames(Foreign):
    """Marian's names, with the width in Marian's order."""

    TYPES = ("marian",)

    def fits(self, model: Transformer) -> bool:
        config = model.config
        positions = PositionsConfig(length=config.positions.length)
        same = TransformerConfig(positions=positions, **{name: getattr(config, name) for name in _FREE})
        return config == same and config.activation in _ACTIVATIONS and not removed_heads(model)

    def write_config(self, config: TransformerConfig) -> dict[str, Any]:
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

    def read_config(self, table: dict[str, Any]) -> TransformerConfig:
        for size in ("attention_heads", "ffn_dim"):
            encoder, decoder = table[f"encoder_{size}"], table[f"decoder_{size}"]
            if encoder != decoder:
                both = f"encoder_{size} {encoder} and decoder_{size} {decoder}"
                raise CheckpointError(f"{both} differ; they must be equal")
        if not table.get("share_encoder_decoder_embeddings", True) or not table.get("tie_word_embeddings", True):
            raise CheckpointError(
                "this Marian keeps its embeddings apart; only those with shared embeddings can be opened"
            )
        activation = table.get("activation_function", "gelu")
        return TransformerConfig(
            vocabulary=table["vocab_size"],
            width=table["d_model"],
            layers=table["encoder_layers"],
            decoder_layers=None if table["decoder_layers"] == table["encoder_layers"] else table["decoder_layers"],
            heads=table["encoder_attention_heads"],
            inner=table["encoder_ffn_dim"],
            activation=read_activation(activation, _ACTIVATIONS, {"silu": "silu"}),
            scale_embeddings=table.get("scale_embedding", False),
            dropout=table.get("dropout", 0.1),
            attention_dropout=table.get("attention_dropout", 0.0),
            inner_dropout=table.get("activation_dropout", 0.0),
            positions=PositionsConfig(length=table.get("max_position_embeddings", 1024)),
            pad=table["pad_token_id"],
            start=table["decoder_start_token_id"],
            end=table["eos_token_id"],
        )

    def kind(self, table: dict[str, Any]) -> type:
        return Transformer

    def build(
        self, table: dict[str, Any], config: TransformerConfig, weights: Mapping[str, Tensor], tokenizer: Tokenizer
    ) -> Transformer:
        refuse_more_tokens(tokenizer, config)
        return Transformer(config)

    def finish(
        self, directory: Path, table: dict[str, Any], model: Transformer, tokenizer: Tokenizer
    ) -> dict[str, Any]:
        config = model.config
        if table["model_type"] in self.TYPES:  # their `generate` reads the ids it starts, ends and pads with
            generation = {
                "decoder_start_token_id": config.start,
                "eos_token_id": config.end,
                "pad_token_id": config.pad,
                "bad_words_ids": [[config.pad]],
                "max_length": 512,
            }
            write_json(directory / "generation_config.json", generation)
        return table

    def views(self, model: Transformer) -> dict[str, Tensor]:
        found = {"final_logits_bias": model.output.bias.detach()[None]}
        for side, stack in (("encoder", model.encoder), ("decoder", model.decoder)):
            found |= views_by_parts(stack, _PARTS, {"embedding": "model.shared"}, f"model.{side}.layers.")
        return found

    def write_tensors(self, model: Transformer) -> dict[str, Tensor]:
        halves = _halves(model.config.width)
        return {name: _reordered(name, view, halves).contiguous() for name, view in self.views(model).items()}

    def read_tensors(self, model: Transformer, theirs: Mapping[str, Tensor]) -> None:
        own, interleaved = self.views(model), _halves(model.config.width).argsort()
        read_into(own, theirs, "a Marian", _HARMLESS)
        for name, view in own.items():
            view.copy_(_reordered(name, view, interleaved))


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
