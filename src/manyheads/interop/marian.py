"""Marian, the translator of transformers (`MarianMTModel`): the Transformer as published, under other names.

Marian keeps the sinusoid's sines in the first half of the width and its cosines in the second, where the paper
interleaves them. Every weight that touches the width is therefore read and written in the other order: an exact change.
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from manyheads.core.errors import CheckpointError
from manyheads.interop import config_json
from manyheads.interop.foreign import Foreign
from manyheads.interop.schema import IDS, needed, our_fields, types_of
from manyheads.interop.weights import read_into, views_by_parts, write_json
from manyheads.models.transformer import Transformer, TransformerConfig
from manyheads.nn.positions import PositionsConfig
from manyheads.text.tokenizer import Tokenizer

PARTS, _CONFIG = config_json.NAMES["marian"]["parts"], config_json.NAMES["marian"]["config"]
ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "gelu_tanh": "gelu_new", "silu": "swish"}
# What their files may hold beside the weights: copies of shared ones, and the sinusoid.
_HARMLESS = re.compile(r"lm_head\.weight|model\.(encoder|decoder)\.embed_(tokens|positions)\.weight")


class MarianNames(Foreign):
    """Marian's names, with the width in Marian's order."""

    TYPES = ("marian",)
    SCHEMA = types_of(_CONFIG, TransformerConfig, positions=int, end=IDS)

    def fits(self, model: Transformer) -> bool:
        config = model.config
        same = config_json.usual_but_for({*our_fields(_CONFIG).values(), "other_ends"}, config) and config.tied
        usual = PositionsConfig(length=config.positions.length)
        as_published = config.positions.amplitude in (0.0, 1.0)
        sinusoidal = as_published and replace(config.positions, amplitude=0.0) == usual
        known = config.activation in ACTIVATIONS and not config_json.removed_heads(model)
        return same and sinusoidal and known

    def write_config(self, config: TransformerConfig) -> dict[str, Any]:
        table = {"architectures": ["MarianMTModel"], "model_type": "marian", "is_encoder_decoder": True}
        said = {"activation": ACTIVATIONS[config.activation], "positions": config.positions.length}
        layers = config.decoder_layers or config.layers
        said["end"] = config_json.write_ends(config)
        table |= config_json.write_fields(_CONFIG, config, decoder_layers=layers, **said)
        return {**table, "forced_eos_token_id": None, "dtype": "float32"}

    def read_config(self, table: dict[str, Any]) -> TransformerConfig:
        for size in ("attention_heads", "ffn_dim"):
            encoder, decoder = (needed(table, f"{side}_{size}") for side in ("encoder", "decoder"))
            if encoder != decoder:
                both = f"encoder_{size} {encoder} and decoder_{size} {decoder}"
                raise CheckpointError(f"{both} differ; they must be equal")
        if False in (table.get("share_encoder_decoder_embeddings"), table.get("tie_word_embeddings")):
            raise CheckpointError("this Marian keeps its embeddings apart; only one that shares them can be opened")
        ours = config_json.read_fields(_CONFIG, table)
        ours["activation"] = config_json.read_activation(ours["activation"], ACTIVATIONS, {"silu": "silu"})
        ours |= config_json.read_ends(table, None)
        if ours["end"] is None:
            raise CheckpointError("this Marian names no eos_token_id of its vocabulary; a translator must know its end")
        ours["decoder_layers"] = None if ours["decoder_layers"] == ours["layers"] else ours["decoder_layers"]
        return TransformerConfig(**{**ours, "positions": PositionsConfig(length=ours["positions"])})

    def kind(self, table: dict[str, Any]) -> type:
        return Transformer

    def build(
        self, table: dict[str, Any], config: TransformerConfig, weights: Mapping[str, Tensor], tokenizer: Tokenizer
    ) -> Transformer:
        config_json.refuse_more_tokens(tokenizer, config)
        return Transformer(config)

    def finish(
        self, directory: Path, table: dict[str, Any], model: Transformer, tokenizer: Tokenizer
    ) -> dict[str, Any]:
        config = model.config
        if table["model_type"] in self.TYPES:  # their `generate` reads the ids it starts, ends and pads with
            generation = {
                "decoder_start_token_id": config.start,
                "eos_token_id": config_json.write_ends(config),
                "pad_token_id": config.pad,
                "bad_words_ids": [[config.pad]],
                "max_length": 512,
            }
            write_json(directory / "generation_config.json", generation)
        return table

    def views(self, model: Transformer) -> dict[str, Tensor]:
        found = {"final_logits_bias": model.output.bias.detach()[None]}
        for side, stack in (("encoder", model.encoder), ("decoder", model.decoder)):
            found |= views_by_parts(stack, PARTS, {"embedding": "model.shared"}, f"model.{side}.layers.")
        return found

    def write_tensors(self, model: Transformer) -> dict[str, Tensor]:
        order = halves(model.config.width)
        return {name: reordered(name, view, order).contiguous() for name, view in self.views(model).items()}

    def read_tensors(self, model: Transformer, theirs: Mapping[str, Tensor]) -> None:
        own, interleaved = self.views(model), halves(model.config.width).argsort()
        read_into(own, theirs, "a Marian", _HARMLESS)
        for name, view in own.items():
            view.copy_(reordered(name, view, interleaved))


def halves(width: int) -> Tensor:
    """Where Marian's dimensions stand in ours: the sines, then the cosines."""
    return torch.cat([torch.arange(0, width, 2), torch.arange(1, width, 2)])


def reordered(name: str, tensor: Tensor, order: Tensor) -> Tensor:
    """The tensor with the axis that is the width in another order."""
    stem, _, kind = name.rpartition(".")
    part = stem.rpartition(".")[2]
    if part in ("q_proj", "k_proj", "v_proj", "fc1", "shared", "embed_tokens"):
        return tensor if kind == "bias" else tensor[:, order]
    if part in ("out_proj", "fc2") or part.endswith("layer_norm"):
        return tensor[order]
    return tensor
