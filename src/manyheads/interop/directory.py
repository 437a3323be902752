"""The model directory: a Hugging Face checkpoint (config.json, model.safetensors, tokenizer.json) with a model card."""

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import nn

from manyheads.core.configs import to_table, updated
from manyheads.core.errors import CheckpointError
from manyheads.core.files import directory_written_atomically
from manyheads.interop import bert, gpt, head, llama, marian, pruned, sentence
from manyheads.interop.rest import HEADS
from manyheads.interop.weights import Undrawn, Weights, open_weights, own_views, read_into, read_json
from manyheads.models.bert import Bert, BertAnswerer, BertClassifier, BertConfig, BertEmbedder, BertTagger, MaskedBert
from manyheads.models.classifier import DecoderClassifier
from manyheads.models.gpt import GPT, GPTConfig
from manyheads.models.llama import Llama, LlamaConfig
from manyheads.models.transformer import Transformer, TransformerConfig
from manyheads.text.encoder import EncoderTokenizer
from manyheads.text.language import LanguageTokenizer
from manyheads.text.tokenizer import Tokenizer, named_beside

AnyTokenizer = Tokenizer | LanguageTokenizer | EncoderTokenizer


@dataclass(frozen=True)
class Family:
    """Models of ours that share a body, their foreign names and what each is for."""

    model: type
    config: type
    foreign: ModuleType
    own_type: str | None
    """What is written where no foreign type can express a variant; None: there are none."""
    known_as: str
    tokenizer: type[Tokenizer] | type[LanguageTokenizer] | type[EncoderTokenizer]
    kinds: dict[type, str]

    @property
    def types(self) -> tuple[str, ...]:
        return (*self.foreign.TYPES, *([self.own_type] if self.own_type else []))

    def kind(self, table: dict[str, Any]) -> type:
        """Which of its models a config.json is that of."""
        if self.model is Bert:
            return bert.kind(table)
        return DecoderClassifier if head.is_classifier(table) else self.model


_DECODERS = {DecoderClassifier: "classifier"}
_ENCODERS = {
    **{Bert: "encoder", MaskedBert: "masked language model", BertClassifier: "classifier"},
    **{BertTagger: "tagger", BertAnswerer: "question answerer"},
}
ENCODERS = tuple(_ENCODERS)
FAMILIES = (
    Family(
        *(Transformer, TransformerConfig, marian, "manyheads-transformer", "Marian", Tokenizer),
        {Transformer: "translator"},
    ),
    Family(
        *(GPT, GPTConfig, gpt, "manyheads-gpt", "GPT-2, GPT-1", LanguageTokenizer),
        {GPT: "language model", **_DECODERS},
    ),
    Family(
        *(Llama, LlamaConfig, llama, "manyheads-llama", "Llama", LanguageTokenizer),
        {Llama: "language model", **_DECODERS},
    ),
    Family(Bert, BertConfig, bert, None, "BERT", EncoderTokenizer, _ENCODERS),
)


def save_model(directory: Path, model: nn.Module, tokenizer: AnyTokenizer, card: str) -> None:
    """Writes the whole directory or nothing: a model as published under its foreign type, a variant under our own."""
    try:
        with directory_written_atomically(directory) as temporary:
            if isinstance(tokenizer, Tokenizer):
                tokenizer.save(temporary)
            else:
                longest = getattr(model, "longest", None) or model.config.context  # type: ignore
                tokenizer.save(temporary, length=longest)  # type: ignore
            _write_model(temporary, model, tokenizer)
            (temporary / "README.md").write_text(card, encoding="utf-8")
    except (OSError, SafetensorError) as error:
        raise CheckpointError(f"{directory} could not be written ({error}); what was there before is intact") from error


def _write_model(directory: Path, model: Any, tokenizer: AnyTokenizer) -> None:
    body = getattr(model, "body", model)
    family = next(family for family in FAMILIES if isinstance(body, family.model))
    generation: dict[str, Any] = {}
    foreign = family.foreign.fits(body.config) and pruned.expressible(body)
    if foreign:
        config, tensors = family.foreign.write_config(body.config), family.foreign.write_tensors(model)
    else:
        config = {"model_type": family.own_type, "is_encoder_decoder": family.model is Transformer}
        config["manyheads"] = to_table(body.config)
        tensors = {name: view.contiguous() for name, view in own_views(model).items()}
    if removed := pruned.removed_heads(body):
        config[pruned.KEY] = removed
    if isinstance(tokenizer, EncoderTokenizer):
        config = {**bert.with_head(config, model), "pad_token_id": tokenizer.pad}
        if isinstance(model, BertEmbedder):
            sentence.write(directory, model)
    elif foreign:
        generation = family.foreign.write_generation_config(body.config)
    if isinstance(tokenizer, LanguageTokenizer) and tokenizer.start:
        config["bos_token_id"] = tokenizer.start[0]
        generation |= {"bos_token_id": tokenizer.start[0]} if generation else {}
    if isinstance(model, DecoderClassifier):
        assert isinstance(tokenizer, LanguageTokenizer)
        pad = named_beside(directory / "tokenizer.json").get("pad_token")
        # transformers finds the end of a text by its padding.
        config = {**head.write_config(config, model), "pad_token_id": None if pad is None else tokenizer.identity(pad)}
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
    what = family.kinds[family.kind(table)]
    weights, tokenizer = open_weights(directory), family.tokenizer.load(directory)
    try:
        with Undrawn():
            model = _built(family, table, weights, tokenizer)
        _fill(family, table, model, weights, what)
    except KeyError as missing:
        raise CheckpointError(f"{directory} is damaged or not {_a(what)}: its config has no {missing}") from None
    except (RuntimeError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        # A config may say anything, such as a width that is a word.
        raise CheckpointError(f"{directory} is damaged or not {_a(what)}: {error}") from None
    if len(tokenizer) > model.config.vocabulary:
        raise CheckpointError(
            f"{directory}: the tokenizer has {len(tokenizer)} tokens, the model only {model.config.vocabulary}"
        )
    return model.eval(), tokenizer


def kind_of(directory: Path) -> type:
    """Which model a directory holds, told by its config alone."""
    directory = find_model(directory)
    table = read_json(directory / "config.json")
    return _family(directory, table, None).kind(table)


def saved_kind(directory: Path) -> type:
    """The same, where a directory that says how texts become vectors, or nothing but an encoder, is an embedder."""
    return BertEmbedder if is_embedder(directory) else kind_of(directory)


def load_encoder(directory: Path) -> tuple[Bert, EncoderTokenizer]:
    """The encoder of any BERT's directory, whatever stands on top of it."""
    model, tokenizer = load_model(directory, kinds=ENCODERS)
    return getattr(model, "body", model), tokenizer


def load_embedder(directory: Path) -> tuple[BertEmbedder, EncoderTokenizer]:
    """An encoder with the pooling that a sentence-transformers directory says; any other BERT with the usual one."""
    body, tokenizer = load_encoder(directory)
    return sentence.embedder(_whole(directory), body).eval(), tokenizer


def load_as_saved(directory: Path) -> tuple[Any, Any]:
    """A model with all that its directory says of it: a sentence model with its pooling."""
    find_model(directory)
    return (load_embedder if sentence.is_sentence_model(_whole(directory)) else load_model)(directory)


def is_embedder(directory: Path) -> bool:
    """Whether a directory holds an encoder that says how texts become vectors, or nothing but an encoder."""
    return sentence.is_sentence_model(_whole(directory)) or kind_of(directory) is Bert


def _whole(directory: Path) -> Path:
    """Where a sentence model's own files are; older ones keep the encoder in a folder among them."""
    found = find_model(directory)
    alone = not sentence.is_sentence_model(found) and sentence.is_sentence_model(found.parent)
    return found.parent if alone else found


def _family(directory: Path, table: dict[str, Any], kinds: tuple[type, ...] | None) -> Family:
    """Whose config it is, when that is what was asked for."""
    asked = _described(kinds or tuple(kind for family in FAMILIES for kind in family.kinds))
    found = table.get("model_type")
    family = next((family for family in FAMILIES if found in family.types), None)
    if family is None:
        what = f"{next(iter(asked))}s" if len(asked) == 1 else "models"
        types = dict.fromkeys(name for families in asked.values() for each in families for name in each.types)
        raise CheckpointError(f"{directory} holds a model of type {found}; {what} are of type {_listed(types)}")
    kind = family.kind(table)
    if kinds and kind not in kinds:
        wanted = [
            f"{_a(name)} ({', '.join(family.known_as for family in families)})" for name, families in asked.items()
        ]
        raise CheckpointError(
            f"{directory} holds {_a(family.kinds[kind])} ({found}); {_listed(wanted)} is asked for here"
        )
    return family


def _described(kinds: tuple[type, ...]) -> dict[str, list[Family]]:
    """What models of these kinds are for, each with the families that can be it."""
    asked: dict[str, list[Family]] = {}
    for family in FAMILIES:
        for kind, what in family.kinds.items():
            if kind in kinds:
                asked.setdefault(what, []).append(family)
    return asked


def _a(what: str) -> str:
    return f"an {what}" if what[0] in "aeiou" else f"a {what}"


def _listed(words: Iterable[str]) -> str:
    *first, last = words
    return f"{', '.join(first)} or {last}" if first else last


def _built(family: Family, table: dict[str, Any], weights: Weights, tokenizer: AnyTokenizer) -> Any:
    """The model of a config, without its weights."""
    if table["model_type"] == family.own_type:
        fields = {name: value for name, value in table["manyheads"].items() if name not in HEADS}
        config = updated(family.config(), fields)
    else:
        config = family.foreign.read_config(table)
    if isinstance(tokenizer, EncoderTokenizer):
        model = bert.build(table, replace(config, separator=tokenizer.separator), weights)
        pruned.remove_again(getattr(model, "body", model), table)
        return model
    body = family.model(config)
    pruned.remove_again(body, table)
    return DecoderClassifier(body, *head.read_form(table)) if head.is_classifier(table) else body


def _fill(family: Family, table: dict[str, Any], model: Any, weights: Weights, what: str) -> None:
    if table["model_type"] == family.own_type:
        read_into(own_views(model), weights, f"a {what}")
        return
    family.foreign.read_tensors(model, weights)
    if isinstance(model, DecoderClassifier):
        head.fill_output(model)


def find_model(path: Path) -> Path:
    """The model directory that a path means: itself, or `model` inside a run directory."""
    # A model that is being replaced is for a moment only there as the previous one.
    for candidate in (path, path / "model", path / "model.previous", Path(f"{path.absolute()}.previous")):
        candidate = sentence.encoder_of(candidate)
        if (candidate / "config.json").is_file():
            return candidate
    if not path.exists():
        raise CheckpointError(f"{path} does not exist; give a model directory or a run directory")
    if (path / "recipe.toml").exists():
        raise CheckpointError(f"{path} is a run that has not saved a model yet; go on with --resume until it validates")
    raise CheckpointError(f"{path} holds no config.json; give a model directory or a run directory")


def _write_json(path: Path, table: dict[str, Any]) -> None:
    path.write_text(json.dumps(table, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
