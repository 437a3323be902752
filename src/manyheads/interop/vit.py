"""ViT of transformers (`ViTModel`, `ViTForImageClassification`): our ViT under other names."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from manyheads.core.errors import CheckpointError
from manyheads.data.images import ImageProcessor
from manyheads.interop import config_json
from manyheads.interop.foreign import Foreign
from manyheads.interop.schema import our_fields, types_of
from manyheads.interop.weights import Renamed, read_into, views_by_parts
from manyheads.models.vit import ViT, ViTClassifier, ViTConfig
from manyheads.nn.positions import PositionsConfig

ARCHITECTURES = {"ViTModel": ViT, "ViTForImageClassification": ViTClassifier}
_READ_TOO = {**ARCHITECTURES, "ViTForMaskedImageModeling": ViT}  # as the encoder that it is
_PREFIX = "vit."
_NAMES = config_json.NAMES["vit"]
# What its modules are called since version 5, whose files keep the older names.
IN_MEMORY = {
    r"^((vit|encoder)\.)?layers\.": r"\1encoder.layer.",
    r"attention\.q_proj": "attention.attention.query",
    r"attention\.k_proj": "attention.attention.key",
    r"attention\.v_proj": "attention.attention.value",
    r"attention\.o_proj": "attention.output.dense",
    r"mlp\.fc1": "intermediate.dense",
    r"mlp\.fc2": "output.dense",
}
_MASKING = r"(vit\.)?embeddings\.mask_token|decoder\.0\.(weight|bias)"  # of pre-training by hidden patches
_UNREAD = {ViT: re.compile(_MASKING), ViTClassifier: re.compile(rf"(vit\.)?pooler\.dense\.(weight|bias)|{_MASKING}")}


class ViTNames(Foreign):
    """ViT, alone or with a classifier on it."""

    TYPES = ("vit",)
    SCHEMA = types_of(_NAMES["config"], ViTConfig)

    def fits(self, model: ViT) -> bool:
        config, free = model.config, {*our_fields(_NAMES["config"]).values(), "positions"}
        learned = config.positions == PositionsConfig(kind="learned", length=config.positions.length)
        return learned and config_json.usual_but_for(free, config)

    def kind(self, table: dict[str, Any]) -> type:
        named = config_json.architectures(table) or ["ViTModel"]
        found = next((_READ_TOO[name] for name in named if name in _READ_TOO), None)
        if found is None:
            raise CheckpointError(f"this ViT is a {', '.join(named)}; known are {', '.join(ARCHITECTURES)}")
        return found

    def write_config(self, config: ViTConfig) -> dict[str, Any]:
        inner, activation = config.inner or 4 * config.width, config_json.ACTIVATIONS[config.activation]
        table = {"architectures": ["ViTModel"], "model_type": "vit", "qkv_bias": True}
        table |= config_json.write_fields(_NAMES["config"], config, inner=inner, activation=activation)
        return {**table, "encoder_stride": config.patch_size, "dtype": "float32"}

    def read_config(self, table: dict[str, Any]) -> ViTConfig:
        config_json.refuse(table, "this ViT", qkv_bias=True)
        ours = config_json.read_fields(_NAMES["config"], table)
        if self.kind(table) is ViT:
            config_json.refuse(table, "this ViT", pooler_act="tanh", pooler_output_size=ours["width"])
        ours["activation"] = config_json.read_activation(ours["activation"])
        ours["inner"] = None if ours["inner"] == 4 * ours["width"] else ours["inner"]
        return ViTConfig(**ours)

    def build(
        self, table: dict[str, Any], config: ViTConfig, weights: Mapping[str, Tensor], processor: ImageProcessor
    ) -> nn.Module:
        refuse_other_images(processor, config)
        refuse_cut_patches(config)
        pooled = any(name.endswith(("pooler.dense.weight", "pooler.weight")) for name in weights)
        if self.kind(table) is ViTClassifier:
            return ViTClassifier(ViT(config), self._labels(table))
        return ViT(config, pooler=pooled)

    def _labels(self, table: dict[str, Any]) -> tuple[str, ...]:
        names, problem = config_json.names_of(table), table.get("problem_type")
        if problem in ("multi_label_classification", "regression") or len(names) == 1:
            several = problem == "multi_label_classification"
            gives = "several labels at once" if several else "numbers"
            raise CheckpointError(f"this ViT gives an image {gives}; only one label out of two or more is known")
        return names

    def finish(self, directory: Path, table: dict[str, Any], model: Any, processor: ImageProcessor) -> dict[str, Any]:
        architecture = next(name for name, found in ARCHITECTURES.items() if found is type(model))
        table = {**table, "architectures": [architecture]}
        return config_json.label_fields(table, model.names) if isinstance(model, ViTClassifier) else table

    def views(self, model: Any) -> dict[str, Tensor]:
        classifies = isinstance(model, ViTClassifier)
        views = body_views(model.body if classifies else model)
        if not classifies:
            return views
        head = {f"classifier.{kind}": each.detach() for kind, each in model.score.named_parameters()}
        return {**{_PREFIX + name: view for name, view in views.items()}, **head}

    def read_tensors(self, model: Any, theirs: Mapping[str, Tensor]) -> None:
        theirs, own = Renamed(theirs, IN_MEMORY), self.views(model)
        if isinstance(model, ViT) and any(name.startswith(_PREFIX) for name in theirs):
            own = {_PREFIX + name: view for name, view in own.items()}
        read_into(own, theirs, "a ViT", _UNREAD[type(model)])


def body_views(body: nn.Module) -> dict[str, Tensor]:
    """Their names over a ViT's weights; in their files positions and the classification token have a batch of one."""
    views = views_by_parts(body, _NAMES["parts"], _NAMES["whole"], "encoder.layer.")
    places = "embeddings.position_embeddings"
    views["embeddings.cls_token"] = views.pop("embeddings.class_token")[None, None]
    if f"{places}.weight" in views:
        views[places] = views.pop(f"{places}.weight")[None]
    return views


def refuse_other_images(processor: ImageProcessor, config: Any) -> None:
    """What makes the images must make such as the model reads."""
    made, read = (processor.size, processor.channels), (config.image_size, config.channels)
    if made != read:
        raise CheckpointError(
            f"its preprocessor_config.json makes images of {made[0]} pixels in {made[1]} colours, but its config.json "
            f"says {read[0]} in {read[1]}"
        )


def refuse_cut_patches(config: Any) -> None:
    """Patches must cover an image, and nothing beside it."""
    if config.image_size % config.patch_size:
        raise CheckpointError(
            f"its config.json says images of {config.image_size} pixels, which do not split into patches of "
            f"{config.patch_size}"
        )
