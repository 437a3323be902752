"""The model directory: a Hugging Face checkpoint (config.json, model.safetensors, tokenizer.json) with a model card."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import nn

from manyheads.core.configs import to_table
from manyheads.core.errors import CheckpointError, ManyheadsError
from manyheads.core.files import directory_written_atomically
from manyheads.interop import sentence
from manyheads.interop.bert import BertNames
from manyheads.interop.config_json import KEY, PRUNED, read_extra_fields, remove_again, removed_heads
from manyheads.interop.foreign import Foreign
from manyheads.interop.gpt import GPTNames
from manyheads.interop.llama import LlamaNames
from manyheads.interop.marian import MarianNames
from manyheads.interop.schema import COMMON, check_sizes, check_types, needed, refuse_infinite
from manyheads.interop.weights import Undrawn, open_weights, own_views, read_into, read_json, write_json
from manyheads.models.bert import Bert, BertAnswerer, BertClassifier, BertConfig, BertEmbedder, BertTagger, MaskedBert
from manyheads.models.classifier import DecoderClassifier
from manyheads.models.gpt import GPT, GPTConfig
from manyheads.models.llama import Llama, LlamaConfig
from manyheads.models.transformer import Transformer, TransformerConfig
from manyheads.text.encoder import EncoderTokenizer
from manyheads.text.language import LanguageTokenizer
from manyheads.text.tokenizer import Tokenizer


class Processor(Protocol):
    """What makes ids of texts, or whatever else a model takes of what its user has; `length` is how much at once."""

    @classmethod
    def load(cls, path: Path) -> Any: ...
    def save(self, directory: Path, length: int | None = None) -> None: ...


@dataclass(frozen=True, kw_only=True)
class Family:
    """Models of ours that share a body, and all that a directory of one needs."""

    model: type
    """The body."""
    config: type
    foreign: Foreign
    processor: type[Processor]
    kinds: dict[type, str]
    """What each of its models is for."""
    known_as: str
    own: dict[str, Any] | None = None
    """How a config.json begins where no foreign type can express a variant; None: there are none."""

    @property
    def types(self) -> tuple[str, ...]:
        return (*self.foreign.TYPES, *([self.own["model_type"]] if self.own else []))


FAMILIES = (
    Family(
        model=Transformer,
        config=TransformerConfig,
        foreign=MarianNames(),
        processor=Tokenizer,
        kinds={Transformer: "translator"},
        known_as="Marian",
        own={"model_type": "manyheads-transformer", "is_encoder_decoder": True},
    ),
    Family(
        model=GPT,
        config=GPTConfig,
        foreign=GPTNames(),
        processor=LanguageTokenizer,
        kinds={GPT: "language model", DecoderClassifier: "classifier"},
        known_as="GPT-2, GPT-1",
        own={"model_type": "manyheads-gpt", "is_encoder_decoder": False},
    ),
    Family(
        model=Llama,
        config=LlamaConfig,
        foreign=LlamaNames(),
        processor=LanguageTokenizer,
        kinds={Llama: "language model", DecoderClassifier: "classifier"},
        known_as="Llama",
        own={"model_type": "manyheads-llama", "is_encoder_decoder": False},
    ),
    Family(
        model=Bert,
        config=BertConfig,
        foreign=BertNames(),
        processor=EncoderTokenizer,
        kinds={
            Bert: "encoder",
            MaskedBert: "masked language model",
            BertClassifier: "classifier",
            BertTagger: "tagger",
            BertAnswerer: "question answerer",
        },
        known_as="BERT",
    ),
)
ENCODERS = tuple(FAMILIES[-1].kinds)


def save_model(directory: Path, model: nn.Module, processor: Processor, card: str) -> None:
    """Writes the whole directory or nothing: a model as published under its foreign type, a variant under our own."""
    longest = getattr(model, "longest", None) or getattr(model.config, "context", None)
    try:
        with directory_written_atomically(directory) as temporary:
            processor.save(temporary, length=longest)
            _write_model(temporary, model, processor)
            (temporary / "README.md").write_text(card, encoding="utf-8")
    except (OSError, SafetensorError) as error:
        raise CheckpointError(f"{directory} could not be written ({error}); what was there before is intact") from error


def _write_model(directory: Path, model: nn.Module, processor: Processor) -> None:
    body: Any = getattr(model, "body", model)
    family = next(family for family in FAMILIES if isinstance(body, family.model))
    if family.own is None or family.foreign.fits(body):
        config, tensors = family.foreign.write_config(body.config), family.foreign.write_tensors(model)
    else:
        config = {**family.own, KEY: to_table(body.config)}
        tensors = {name: view.contiguous() for name, view in own_views(model).items()}
    if removed := removed_heads(body):
        config[PRUNED] = removed
    write_json(directory / "config.json", family.foreign.finish(directory, config, model, processor))
    save_file(tensors, directory / "model.safetensors", metadata={"format": "pt"})
    # The library lets nobody but the owner read it.
    (directory / "model.safetensors").chmod((directory / "config.json").stat().st_mode)


def load_model(directory: Path, kinds: tuple[type, ...] | None = None) -> tuple[Any, Any]:
    """Opens a model directory, or the model of a run directory: the model, ready to use, and its processor.

    A model that is none of `kinds`, the classes asked for, is refused.
    """
    directory = find_model(directory)
    table = read_json(directory / "config.json")
    family = _family(directory, table, kinds)
    foreign, own = family.foreign, table["model_type"] not in family.foreign.TYPES
    what = family.kinds[foreign.kind(table)]
    weights, processor = open_weights(directory), family.processor.load(directory)
    try:
        refuse_infinite(table)
        check_types(table, {**COMMON, **foreign.SCHEMA})
        config = read_extra_fields({KEY: needed(table, KEY)}, family.config()) if own else foreign.read_config(table)
        check_sizes(table, config, weights.shapes())  # before a config that says anything is built
        with Undrawn():
            model = foreign.build(table, config, weights, processor)
        remove_again(getattr(model, "body", model), table)
        if own:
            read_into(own_views(model), weights, _a(what))
        else:
            foreign.read_tensors(model, weights)
    except ManyheadsError as error:
        raise CheckpointError(f"{directory} cannot be opened as {_a(what)}: {error}") from None
    return model.eval(), processor


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
    return (load_embedder if sentence.is_sentence_model(_whole(directory)) else load_model)(directory)


def saved_kind(directory: Path) -> type:
    """Which model a directory holds; one that says how texts become vectors, or nothing but an encoder, embeds."""
    if sentence.is_sentence_model(_whole(directory)):
        return BertEmbedder
    directory = find_model(directory)
    table = read_json(directory / "config.json")
    kind = _family(directory, table, None).foreign.kind(table)
    return BertEmbedder if kind is Bert else kind


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
    kind = family.foreign.kind(table)
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
