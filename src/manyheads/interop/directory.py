"""The model directory: a Hugging Face checkpoint (config.json, model.safetensors, tokenizer.json) with a model card."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import nn

from manyheads.core.configs import to_table, updated
from manyheads.core.errors import CheckpointError
from manyheads.core.files import directory_written_atomically
from manyheads.interop import gpt, head, llama, marian
from manyheads.interop.weights import Undrawn, Weights, open_weights, own_views, read_into, read_json
from manyheads.models.classifier import Classifier
from manyheads.models.gpt import GPT, GPTConfig
from manyheads.models.llama import Llama, LlamaConfig
from manyheads.models.transformer import Transformer, TransformerConfig
from manyheads.text.language import LanguageTokenizer
from manyheads.text.tokenizer import Tokenizer, named_beside


@dataclass(frozen=True)
class Family:
    """A model of ours, its foreign names and what it is for."""

    model: type
    config: type
    foreign: ModuleType
    own_type: str
    what: str
    known_as: str
    tokenizer: type[Tokenizer] | type[LanguageTokenizer]

    @property
    def types(self) -> tuple[str, ...]:
        return (*self.foreign.TYPES, self.own_type)


FAMILIES = (
    Family(Transformer, TransformerConfig, marian, "manyheads-transformer", "translator", "Marian", Tokenizer),
    Family(GPT, GPTConfig, gpt, "manyheads-gpt", "language model", "GPT-2, GPT-1", LanguageTokenizer),
    Family(Llama, LlamaConfig, llama, "manyheads-llama", "language model", "Llama", LanguageTokenizer),
)
CLASSIFIED = tuple(family for family in FAMILIES if family.what == "language model")


def save_model(directory: Path, model: nn.Module, tokenizer: Tokenizer | LanguageTokenizer, card: str) -> None:
    """Writes the whole directory or nothing: a model as published under its foreign type, a variant under our own."""
    try:
        with directory_written_atomically(directory) as temporary:
            if isinstance(tokenizer, LanguageTokenizer):
                tokenizer.save(temporary, length=model.config.context)  # type: ignore
            else:
                tokenizer.save(temporary)
            _write_model(temporary, model, tokenizer)
            (temporary / "README.md").write_text(card, encoding="utf-8")
    except (OSError, SafetensorError) as error:
        raise CheckpointError(f"{directory} could not be written ({error}); what was there before is intact") from error


def _write_model(directory: Path, model: Any, tokenizer: Tokenizer | LanguageTokenizer) -> None:
    body = model.body if isinstance(model, Classifier) else model
    family = next(family for family in FAMILIES if isinstance(body, family.model))
    generation: dict[str, Any] = {}
    if family.foreign.fits(body.config):
        config, tensors = family.foreign.write_config(body.config), family.foreign.write_tensors(model)
        generation = family.foreign.write_generation_config(body.config)
    else:
        config = {"model_type": family.own_type, "is_encoder_decoder": family.model is Transformer}
        config["manyheads"] = to_table(body.config)
        tensors = {name: view.contiguous() for name, view in own_views(model).items()}
    if isinstance(tokenizer, LanguageTokenizer) and tokenizer.start:
        config["bos_token_id"] = tokenizer.start[0]
        generation |= {"bos_token_id": tokenizer.start[0]} if generation else {}
    if isinstance(model, Classifier):
        assert isinstance(tokenizer, LanguageTokenizer)
        pad = named_beside(directory / "tokenizer.json").get("pad_token")
        config = head.write_config(config, model, None if pad is None else tokenizer.identity(pad))
    elif generation:
        _write_json(directory / "generation_config.json", generation)
    _write_json(directory / "config.json", config)
    save_file(tensors, directory / "model.safetensors", metadata={"format": "pt"})
    # The library lets nobody but the owner read it.
    (directory / "model.safetensors").chmod((directory / "config.json").stat().st_mode)


def load_model(directory: Path, kinds: tuple[type, ...] | None = None) -> tuple[Any, Any]:
    """Opens a model directory, or the model of a run directory: the model, ready to use, and its tokenizer.

    A model that is none of `kinds`, the classes asked for, is refused.
    """
    directory = find_model(directory)
    table = read_json(directory / "config.json")
    family = _family(directory, table, kinds)
    weights = open_weights(directory)
    try:
        with Undrawn():
            model = _built(family, table)
        _fill(family, table, model, weights)
    except KeyError as missing:
        raise CheckpointError(f"{directory} is damaged or not a {family.what}: its config has no {missing}") from None
    except (RuntimeError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        # A config may say anything, such as a width that is a word.
        raise CheckpointError(f"{directory} is damaged or not a {family.what}: {error}") from None
    tokenizer = family.tokenizer.load(directory)
    if len(tokenizer) > model.config.vocabulary:
        raise CheckpointError(
            f"{directory}: the tokenizer has {len(tokenizer)} tokens, the model only {model.config.vocabulary}"
        )
    return model.eval(), tokenizer


def _family(directory: Path, table: dict[str, Any], kinds: tuple[type, ...] | None) -> Family:
    """Whose config it is, when that is what was asked for."""
    asked = _described(kinds or (*(family.model for family in FAMILIES), Classifier))
    found = table.get("model_type")
    family = next((family for family in FAMILIES if found in family.types), None)
    if family is None:
        what = f"{next(iter(asked))}s" if len(asked) == 1 else "models"
        types = dict.fromkeys(name for families in asked.values() for each in families for name in each.types)
        raise CheckpointError(f"{directory} holds a model of type {found}; {what} are of type {_listed(types)}")
    kind, what = (Classifier, "classifier") if head.is_classifier(table) else (family.model, family.what)
    if kinds and kind not in kinds:
        wanted = [f"a {name} ({', '.join(family.known_as for family in families)})" for name, families in asked.items()]
        raise CheckpointError(f"{directory} holds a {what} ({found}); {_listed(wanted)} is asked for here")
    return family


def _described(kinds: tuple[type, ...]) -> dict[str, list[Family]]:
    """What models of these kinds are for, each with the families that can be it."""
    asked: dict[str, list[Family]] = {}
    for family in FAMILIES:
        if family.model in kinds:
            asked.setdefault(family.what, []).append(family)
    return asked | ({"classifier": list(CLASSIFIED)} if Classifier in kinds else {})


def _listed(words: Iterable[str]) -> str:
    *first, last = words
    return f"{', '.join(first)} or {last}" if first else last


def _built(family: Family, table: dict[str, Any]) -> Any:
    """The model of a config, without its weights."""
    if table["model_type"] == family.own_type:
        fields = {name: value for name, value in table["manyheads"].items() if name != "form"}
        body = family.model(updated(family.config(), fields))
    else:
        body = family.model(family.foreign.read_config(table))
    return Classifier(body, *head.read_names(table)) if head.is_classifier(table) else body


def _fill(family: Family, table: dict[str, Any], model: Any, weights: Weights) -> None:
    if table["model_type"] == family.own_type:
        read_into(own_views(model), weights, f"a {family.what}")
        return
    family.foreign.read_tensors(model, weights)
    if isinstance(model, Classifier):
        head.fill_output(model)


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


def _write_json(path: Path, table: dict[str, Any]) -> None:
    path.write_text(json.dumps(table, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
