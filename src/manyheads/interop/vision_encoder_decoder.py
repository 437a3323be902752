"""VisionEncoderDecoderModel of transformers: a ViT for the encoder and Marian's decoder, as our captioner is.

The decoder's width is read and written in Marian's order (`interop.marian`), the encoder's as it is; where the one
looks at the other, queries and what is found are in the first order, keys and values in the second.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from manyheads.core.errors import CheckpointError
from manyheads.data.image_text import ImageTextProcessor
from manyheads.interop import config_json
from manyheads.interop.foreign import Foreign
from manyheads.interop.marian import ACTIVATIONS, PARTS, halves, reordered
from manyheads.interop.schema import check_types, needed, our_fields, types_of
from manyheads.interop.vit import IN_MEMORY, body_views, refuse_cut_patches, refuse_other_images
from manyheads.interop.weights import Renamed, read_into, views_by_parts, write_json
from manyheads.models.vision_encoder_decoder import (
    VisionEncoderDecoder,
    VisionEncoderDecoderConfig,
    VisionQuestionDecoder,
)
from manyheads.nn.positions import PositionsConfig

_ENCODER, _DECODER = config_json.NAMES["vit"]["config"], config_json.NAMES["vision_encoder_decoder"]["decoder"]
_TYPES = {
    "encoder": types_of(_ENCODER, VisionEncoderDecoderConfig),
    "decoder": types_of(_DECODER, VisionEncoderDecoderConfig, positions=int),
}
_ENDS = "decoder.model.decoder."
_MEMORY = re.compile(r"encoder_attn\.[kv]_proj\.weight$")
# A copy of the embedding, the sinusoid, and a layer on the classification token that no decoder reads.
_HARMLESS = re.compile(
    r"decoder\.lm_head\.weight|decoder\.model\.decoder\.embed_positions\.weight|encoder\.pooler\.dense\.(weight|bias)"
)
_SHARED = ("width", "heads", "inner", "activation")  # by both sides of ours, besides what is for training alone


class VisionEncoderDecoderNames(Foreign):
    """A captioner; what reads questions too is always saved under a type of ours."""

    TYPES = ("vision-encoder-decoder",)
    SCHEMA = {  # noqa: RUF012
        "encoder": dict,
        "decoder": dict,
        "decoder_start_token_id": int | None,
    }

    def fits(self, model: VisionEncoderDecoder) -> bool:
        config, sides = model.config, (our_fields(_ENCODER), our_fields(_DECODER))
        free = {name for each in sides for name in each.values()} | {"end", "other_ends"}
        usual = PositionsConfig(length=config.positions.length)
        known = type(model) is VisionEncoderDecoder and config.positions == usual and config.activation in ACTIVATIONS
        return known and config_json.usual_but_for(free, config) and not config_json.removed_heads(model)

    def kind(self, table: dict[str, Any]) -> type:
        named = config_json.architectures(table)
        return VisionQuestionDecoder if VisionQuestionDecoder.__name__ in named else VisionEncoderDecoder

    def write_config(self, config: VisionEncoderDecoderConfig) -> dict[str, Any]:
        inner, ends = config.inner or 4 * config.width, config_json.write_ends(config)
        shown = config_json.ACTIVATIONS[config.activation]
        encoder = config_json.write_fields(_ENCODER, config, inner=inner, activation=shown)
        said = {"inner": inner, "activation": ACTIVATIONS[config.activation], "positions": config.positions.length}
        layers = config.decoder_layers or config.layers
        decoder = config_json.write_fields(_DECODER, config, decoder_layers=layers, **said)
        decoder |= {"is_decoder": True, "add_cross_attention": True, "is_encoder_decoder": False, "eos_token_id": ends}
        decoder |= {"scale_embedding": True, "tie_word_embeddings": True, "forced_eos_token_id": None}
        special = {"pad_token_id": config.pad, "decoder_start_token_id": config.start, "eos_token_id": ends}
        return {
            "architectures": ["VisionEncoderDecoderModel"],
            "model_type": self.TYPES[0],
            "is_encoder_decoder": True,
            "tie_word_embeddings": False,  # of the whole, which has none of its own
            **special,
            "encoder": {"model_type": "vit", "qkv_bias": True, "encoder_stride": config.patch_size, **encoder},
            "decoder": {"model_type": "marian", **decoder},
            "dtype": "float32",
        }

    def read_config(self, table: dict[str, Any]) -> VisionEncoderDecoderConfig:
        encoder, decoder = (needed(table, side) for side in _TYPES)
        for side, model_type in (("encoder", "vit"), ("decoder", "marian")):
            found = table[side].get("model_type")
            if found != model_type:
                raise CheckpointError(f"its {side} is of type {found}; only one of type {model_type} can be opened")
            check_types(table[side], _TYPES[side], f"{side}.")
        config_json.refuse(encoder, "its encoder", qkv_bias=True)
        config_json.refuse(decoder, "its decoder", tie_word_embeddings=True, activation_dropout=0.0)
        if not decoder.get("scale_embedding"):
            raise CheckpointError("its decoder does not scale embeddings (scale_embedding); only one that does is read")
        seen = config_json.read_fields(_ENCODER, encoder)
        start = table.get("decoder_start_token_id")
        start = decoder.get("decoder_start_token_id") if start is None else start
        written = config_json.read_fields(_DECODER, {**decoder, "decoder_start_token_id": start})
        seen["activation"] = config_json.read_activation(seen["activation"])
        written["activation"] = config_json.read_activation(written["activation"], ACTIVATIONS, {"silu": "silu"})
        for name in _SHARED:
            if seen[name] != written[name]:
                both = f"{name} of its encoder is {seen[name]}, of its decoder {written[name]}"
                raise CheckpointError(f"{both}; only a model with the same in both can be opened")
        ours = {**seen, **written, "positions": PositionsConfig(length=written["positions"])}
        ours |= config_json.read_ends({"vocab_size": ours["vocabulary"], **_ended(table, decoder)}, None)
        if ours["end"] is None:
            raise CheckpointError("it names no eos_token_id of its vocabulary; a captioner must know its end")
        ours["inner"] = None if ours["inner"] == 4 * ours["width"] else ours["inner"]
        ours["decoder_layers"] = None if ours["decoder_layers"] == ours["layers"] else ours["decoder_layers"]
        return VisionEncoderDecoderConfig(**ours)

    def build(
        self,
        table: dict[str, Any],
        config: VisionEncoderDecoderConfig,
        weights: Mapping[str, Tensor],
        processor: ImageTextProcessor,
    ) -> VisionEncoderDecoder:
        config_json.refuse_more_tokens(processor, config)
        refuse_other_images(processor.images, config)
        refuse_cut_patches(config)
        return self.kind(table)(config)

    def finish(
        self, directory: Path, table: dict[str, Any], model: VisionEncoderDecoder, processor: ImageTextProcessor
    ) -> dict[str, Any]:
        config = model.config
        if table["model_type"] not in self.TYPES:
            return {**table, "architectures": [type(model).__name__]}
        generation = {
            "decoder_start_token_id": config.start,
            "eos_token_id": config_json.write_ends(config),
            "pad_token_id": config.pad,
            "bad_words_ids": [[config.pad]],
        }
        write_json(directory / "generation_config.json", generation)
        return table

    def views(self, model: VisionEncoderDecoder) -> dict[str, Tensor]:
        seen = body_views(model.encoder)
        written = views_by_parts(model.decoder, PARTS, {"embedding": "embed_tokens"}, "layers.")
        return {
            **{f"encoder.{name}": view for name, view in seen.items()},
            **{f"{_ENDS}{name}": view for name, view in written.items()},
        }

    def write_tensors(self, model: VisionEncoderDecoder) -> dict[str, Tensor]:
        order = halves(model.config.width)
        return {name: _reordered(name, view, order).contiguous() for name, view in self.views(model).items()}

    def read_tensors(self, model: VisionEncoderDecoder, theirs: Mapping[str, Tensor]) -> None:
        own, interleaved = self.views(model), halves(model.config.width).argsort()
        read_into(own, Renamed(theirs, IN_MEMORY), "a captioner", _HARMLESS)
        for name, view in own.items():
            view.copy_(_reordered(name, view, interleaved))


def _reordered(name: str, tensor: Tensor, order: Tensor) -> Tensor:
    """The decoder's tensors with its width in another order; what it reads of the encoder stays in the encoder's."""
    if not name.startswith(_ENDS) or _MEMORY.search(name):
        return tensor
    return reordered(name, tensor, order)


def _ended(table: dict[str, Any], decoder: dict[str, Any]) -> dict[str, Any]:
    """Which ids end a text: as the whole says, or else its decoder."""
    found = table.get("eos_token_id")
    return {"eos_token_id": decoder.get("eos_token_id") if found is None else found}
