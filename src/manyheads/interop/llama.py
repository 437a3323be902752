"""Llama of transformers (`LlamaForCausalLM`): ours with each fused matrix in its parts."""

import math
import re
from typing import Any

from torch import Tensor

from manyheads.core.errors import CheckpointError
from manyheads.interop.config_json import (
    NAMES,
    read_ends,
    read_extra_fields,
    read_fields,
    refuse,
    removed_heads,
    with_extra_fields,
    write_ends,
    write_fields,
)
from manyheads.interop.foreign import Decoder
from manyheads.interop.schema import check_types, needed, types_of
from manyheads.interop.weights import views_by_parts
from manyheads.models.llama import Llama, LlamaConfig
from manyheads.nn.positions import PositionsConfig

_CONFIG = NAMES["llama"]["config"]
# The types of what is said of positions, and of what is said of them in a table of their own.
_ROPE: dict[str, Any] = {
    "original_max_position_embeddings": int | None,
    **dict.fromkeys(("rope_theta", "factor", "low_freq_factor", "high_freq_factor", "attention_factor"), float | None),
}
_POSITIONS = {**_ROPE, "max_position_embeddings": int, "rope_scaling": dict | None, "rope_parameters": dict | None}
_SCALINGS = {"none": "default", "linear": "linear", "dynamic_ntk": "dynamic", "yarn": "yarn", "llama3": "llama3"}


class LlamaNames(Decoder):
    """Llama 1 to 3, and what else is written as one."""

    TYPES = ("llama",)
    SCHEMA = types_of(_CONFIG, LlamaConfig) | _POSITIONS
    model = Llama
    prefix = "model."
    # The frequencies that older versions saved with the weights, and the copy of a tied embedding.
    harmless = re.compile(r"(model\.)?layers\.\d+\.self_attn\.rotary_emb\.inv_freq|lm_head\.weight")

    def fits(self, model: Llama) -> bool:
        config, positions = model.config, model.config.positions
        rotary = positions.kind == "rotary" and positions.scaling in _SCALINGS
        # There the heads divide the width, whatever their own.
        return rotary and config.width % config.heads == 0 and not removed_heads(model)

    def write_config(self, config: LlamaConfig) -> dict[str, Any]:
        # Dynamic scaling starts there from what all others call the context.
        dynamic = config.positions.scaling == "dynamic_ntk"
        widths = {"key_width": config.key_width or config.width // config.heads, "inner": config.inner_width}
        table = {
            "architectures": ["LlamaForCausalLM"],
            "model_type": "llama",
            **write_fields(_CONFIG, config, key_value_heads=config.key_value_heads or config.heads, **widths),
            "max_position_embeddings": config.positions.length if dynamic else config.context,
            "hidden_act": "silu",
            "rope_parameters": _write_positions(config.positions),
            # Where versions before 5 look for it.
            "rope_theta": config.positions.base,
            "mlp_bias": False,
            "bos_token_id": config.end,
            "eos_token_id": write_ends(config),
            "dtype": "float32",
        }
        return with_extra_fields(table, config, self.read_config)

    def read_config(self, table: dict[str, Any]) -> LlamaConfig:
        refuse(table, "this Llama", mlp_bias=False)
        if table.get("hidden_act") != "swish":  # another name of silu
            refuse(table, "this Llama", hidden_act="silu")
        ours = read_fields(_CONFIG, table)
        ours["key_value_heads"] = _unless(ours["key_value_heads"], ours["heads"])
        if ours["key_width"] and ours["key_width"] * ours["heads"] == ours["width"]:
            ours["key_width"] = None
        ours["positions"], ours["context"] = _read_positions(table)
        ours["inner"] = _unless(ours["inner"], LlamaConfig(**{**ours, "inner": None}).inner_width)
        config = LlamaConfig(**{**ours, **read_ends(table, otherwise=2)})
        return read_extra_fields(table, config)

    def name(self, config: LlamaConfig) -> str:
        return "Llama"

    def body_views(self, body: Llama) -> dict[str, Tensor]:
        return views_by_parts(body, NAMES["llama"]["parts"], NAMES["llama"]["whole"], f"{self.prefix}layers.")


def _write_positions(positions: PositionsConfig) -> dict[str, Any]:
    table: dict[str, Any] = {"rope_type": _SCALINGS[positions.scaling], "rope_theta": positions.base}
    if positions.scaling != "none":
        table["factor"] = positions.factor
    if positions.scaling in ("yarn", "llama3"):
        table["original_max_position_embeddings"] = positions.length
    if positions.scaling == "llama3":
        table |= {"low_freq_factor": positions.low_turns, "high_freq_factor": positions.high_turns}
    return table


def _unless(value: Any, usual: Any) -> Any:
    return None if value == usual else value


def _first(*values: Any) -> Any:
    """The first that is said; a zero is, and refused where it cannot be."""
    return next(value for value in values if value is not None)


def _read_positions(table: dict[str, Any]) -> tuple[PositionsConfig, int]:
    """The rotary positions and the context, from rope_parameters or, before version 5, rope_theta and rope_scaling."""
    rope = table.get("rope_scaling") or table.get("rope_parameters") or {}
    check_types(rope, _ROPE, "rope_parameters.")
    kind = rope.get("rope_type", rope.get("type", "default"))
    scaling = next((ours for ours, theirs in _SCALINGS.items() if theirs == kind), None)
    if scaling is None:
        raise CheckpointError(
            f"this Llama scales its positions as {kind}; known are {', '.join(sorted(_SCALINGS.values()))}"
        )
    refuse({**table, **rope}, "this Llama", partial_rotary_factor=1.0)
    context = table.get("max_position_embeddings", 2048)
    base = float(_first(rope.get("rope_theta"), table.get("rope_theta"), 10_000.0))
    if scaling == "none":
        return PositionsConfig(kind="rotary", length=context, base=base), context
    original = _first({**rope, **table}.get("original_max_position_embeddings"), context)
    factor = float(_first(rope.get("factor"), context / max(original, 1)))
    settings: dict[str, Any] = {"kind": "rotary", "base": base, "scaling": scaling, "factor": factor}
    if scaling == "llama3":
        low, high = needed(rope, "low_freq_factor"), needed(rope, "high_freq_factor")
        settings |= {"low_turns": float(low), "high_turns": float(high)}
    if scaling == "dynamic_ntk":
        return PositionsConfig(length=context, **settings), int(min(context * factor, 2.0**62))
    positions = PositionsConfig(length=original, **settings)
    if scaling == "yarn":
        _refuse_other_yarn(rope, factor)
    return positions, context


def _refuse_other_yarn(rope: dict[str, Any], factor: float) -> None:
    attention = rope.get("attention_factor")
    if attention is not None and not math.isclose(attention, 0.1 * math.log(factor) + 1.0, rel_tol=1e-6):
        raise CheckpointError(f"this YaRN has attention_factor = {attention}; only the published 0.1 ln s + 1 is known")
    refuse(rope, "this YaRN", beta_fast=32, beta_slow=1, mscale=None, mscale_all_dim=None, truncate=True)
