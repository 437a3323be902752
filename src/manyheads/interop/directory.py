"""The model directory: a Hugging Face checkpoint (config.json, model.safetensors, tokenizer.json) with a model card."""

import json
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from manyheads.core.configs import to_table, updated
from manyheads.core.errors import CheckpointError
from manyheads.core.files import directory_written_atomically
from manyheads.interop import marian
from manyheads.models.transformer import Transformer, TransformerConfig
from manyheads.text.tokenizer import Tokenizer

OWN_TYPE = "manyheads-transformer"


def save_model(directory: Path, model: Transformer, tokenizer: Tokenizer, card: str) -> None:
    """Writes the whole directory or nothing: the published Transformer as Marian, a variant as our own type."""
    try:
        with directory_written_atomically(directory) as temporary:
            _write_model(temporary, model)
            tokenizer.save(temporary)
            (temporary / "README.md").write_text(card, encoding="utf-8")
    except (OSError, SafetensorError) as error:
        raise CheckpointError(f"{directory} could not be written ({error}); what was there before is intact") from error


def _write_model(directory: Path, model: Transformer) -> None:
    if marian.fits(model.config):
        config, tensors = marian.write_config(model.config), marian.write_tensors(model)
        _write_json(directory / "generation_config.json", marian.write_generation_config(model.config))
    else:
        config = {"model_type": OWN_TYPE, "is_encoder_decoder": True, "manyheads": to_table(model.config)}
        tensors = {name: tensor.contiguous() for name, tensor in _distinct(model).items()}
    _write_json(directory / "config.json", config)
    save_file(tensors, directory / "model.safetensors", metadata={"format": "pt"})


def load_model(directory: Path) -> tuple[Transformer, Tokenizer]:
    """Opens a model directory, or the model of a run directory, ready to translate."""
    directory = find_model(directory)
    config = _read_json(directory / "config.json")
    kind = config.get("model_type")
    if kind not in ("marian", OWN_TYPE):
        raise CheckpointError(f"{directory} holds a model of type {kind}; translators are of type marian or {OWN_TYPE}")
    tensors = _read_tensors(directory)
    try:
        if kind == "marian":
            model = Transformer(marian.read_config(config))
            marian.read_tensors(model, tensors)
        else:
            model = Transformer(updated(TransformerConfig(), config["manyheads"]))
            missing = model.load_state_dict(tensors, strict=False)
            left = [*missing.unexpected_keys, *(set(missing.missing_keys) - _second_names(model))]
            if left:
                raise CheckpointError(f"config and weights do not fit each other; left over: {', '.join(sorted(left))}")
    except (KeyError, RuntimeError) as error:
        raise CheckpointError(f"{directory} is damaged or not a translator: {error}") from None
    tokenizer = Tokenizer.load(directory)
    if len(tokenizer) > model.config.vocabulary:
        raise CheckpointError(
            f"{directory}: the tokenizer has {len(tokenizer)} tokens, the model only {model.config.vocabulary}"
        )
    return model.eval(), tokenizer


def find_model(path: Path) -> Path:
    """The model directory that a path means: itself, or `model` inside a run directory."""
    # A model that is being replaced is for a moment only there as the previous one.
    for candidate in (path, path / "model", path / "model.previous", path.with_name(f"{path.name}.previous")):
        if (candidate / "config.json").is_file():
            return candidate
    if not path.exists():
        raise CheckpointError(f"{path} does not exist; give a model directory or a run directory")
    if (path / "recipe.toml").exists():
        raise CheckpointError(f"{path} is a run that has not saved a model yet; go on with --resume until it validates")
    raise CheckpointError(f"{path} holds no config.json; give a model directory or a run directory")


def _read_tensors(directory: Path) -> dict[str, Tensor]:
    path = directory / "model.safetensors"
    if path.is_file():
        try:
            return load_file(path)
        except (SafetensorError, OSError) as error:
            raise CheckpointError(f"{path} is damaged: {error}") from None
    if (directory / "pytorch_model.bin").is_file():
        raise CheckpointError(
            f"{directory} has only pytorch_model.bin, a pickle, which can run any code when opened; open it where you "
            "trust it with transformers and save_pretrained(…) it again: that writes model.safetensors"
        )
    raise CheckpointError(f"{directory} has no model.safetensors")


def _read_json(path: Path) -> dict[str, Any]:
    try:
        table = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{path} cannot be read: {error}") from None
    if not isinstance(table, dict):
        raise CheckpointError(f"{path} is not a JSON object; it is damaged or not a model's config")
    return table


def _write_json(path: Path, table: dict[str, Any]) -> None:
    path.write_text(json.dumps(table, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def _distinct(model: Transformer) -> dict[str, Tensor]:
    """The state without second names of shared tensors, which safetensors refuses."""
    second = _second_names(model)
    return {name: tensor for name, tensor in model.state_dict().items() if name not in second}


def _second_names(model: Transformer) -> set[str]:
    """Of tied embeddings, and of the positions that all blocks of a stack share."""
    first: dict[int, str] = {}
    return {
        name for name, tensor in model.state_dict(keep_vars=True).items() if first.setdefault(id(tensor), name) != name
    }
