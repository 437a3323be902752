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
    refuse,
    removed_heads,
    with_extra_fields,
    write_ends,
)
from manyheads.interop.foreign import Decoder
from manyheads.interop.weights import views_by_parts
from manyheads.models.llama import Llama, LlamaConfig
from manyheads.nn.positions import PositionsConfig

_SCALINGS = {"none": "default", "linear": "linear", "dynamic_ntk": "dynamic", "yarn": "yarn", "llama3": "llama3"}


class LlamaNames(Decoder):
    """Llama 1 to 3, and what else is written as one."""

    TYPES = ("llama",)
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
        table = {
            "architectures": ["LlamaForCausalLM"],
            "model_type": "llama",
            "vocab_size": config.vocabulary,
            "max_position_embeddings": config.positions.length if dynamic else config.context,
            "hidden_size": config.width,
            "num_hidden_layers": config.layers,
            "num_attention_heads": config.heads,
            "num_key_value_heads": config.key_value_heads or config.heads,
            "head_dim": config.key_width or config.width // config.heads,
            "intermediate_size": config.inner_width,
            "hidden_act": "silu",
            "rms_norm_eps": config.epsilon,
            "rope_parameters": _write_positions(config.positions),
            # Where versions before 5 look for it.
            "rope_theta": config.positions.base,
            "attention_bias": config.attention_bias,
            "mlp_bias": False,
            "tie_word_embeddings": config.tied,
            "bos_token_id": config.end,
            "eos_token_id": write_ends(config),
            "dtype": "float32",
        }
        return with_extra_fields(table, config, self.read_config)

    def read_config(self, table: dict[str, Any]) -> LlamaConfig:
        refuse(table, "this Llama", mlp_bias=False)
        if table.get("hidden_act") != "swish":  # another name of silu
            refuse(table, "this Llama", hidden_act="silu")
        width, heads = table["hidden_size"], table["num_attention_heads"]
        positions, context = _read_positions(table)
        sizes = {
            "vocabulary": table["vocab_size"],
            "context": context,
            "width": width,
            "layers": table["num_hidden_layers"],
            "heads": heads,
            "key_value_heads": _unless(table.get("num_key_value_heads"), heads),
            "key_width": _unless(table.get("head_dim"), width / heads),
        }
        inner = _unless(table["intermediate_size"], LlamaConfig(**sizes).inner_width)
        config = LlamaConfig(
            **sizes,
            inner=inner,
            epsilon=table.get("rms_norm_eps", 1e-6),
            positions=positions,
            attention_bias=table.get("attention_bias", False),
            tied=table.get("tie_word_embeddings", False),
            **read_ends(table, otherwise=2),
        )
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


def _read_positions(table: dict[str, Any]) -> tuple[PositionsConfig, int]:
    """The rotary positions and the context, from rope_parameters or, before version 5, rope_theta and rope_scaling."""
    rope = table.get("rope_scaling") or table.get("rope_parameters") or {}
    kind = rope.get("rope_type", rope.get("type", "default"))
    scaling = next((ours for ours, theirs in _SCALINGS.items() if theirs == kind), None)
    if scaling is None:
        raise CheckpointError(
            f"this Llama scales its positions as {kind}; known are {', '.join(sorted(_SCALINGS.values()))}"
        )
    refuse({**table, **rope}, "this Llama", partial_rotary_factor=1.0)
    context = table.get("max_position_embeddings", 2048)
    base = float(rope.get("rope_theta") or table.get("rope_theta") or 10_000.0)
    if scaling == "none":
        return PositionsConfig(kind="rotary", length=context, base=base), context
    original = {**rope, **table}.get("original_max_position_embeddings") or context
    factor = float(rope.get("factor") or context / original)
    settings: dict[str, Any] = {"kind": "rotary", "base": base, "scaling": scaling, "factor": factor}
    if scaling == "yarn":
        _refuse_other_yarn(rope, factor)
    if scaling == "llama3":
        settings |= {"low_turns": float(rope["low_freq_factor"]), "high_turns": float(rope["high_freq_factor"])}
    if scaling == "dynamic_ntk":
        return PositionsConfig(length=context, **settings), int(context * factor)
    return PositionsConfig(length=original, **settings), context


def _refuse_other_yarn(rope: dict[str, Any], factor: float) -> None:
    attention = rope.get("attention_factor")
    if attention is not None and not math.isclose(attention, 0.1 * math.log(factor) + 1.0, rel_tol=1e-6):
        raise CheckpointError(f"this YaRN has attention_factor = {attention}; only the published 0.1 ln s + 1 is known")
    refuse(rope, "this YaRN", beta_fast=32, beta_slow=1, mscale=None, mscale_all_dim=None, truncate=True)
