"""The model directory: a Hugging Face checkpoint (config.json, model.safetensors, tokenizer.json) with a model card."""

from collections.abc import Callable, Iterable
from functools import wraps
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor, nn

from manyheads.core.checksums import files_under, refuse_changed, write_checksums
from manyheads.core.configs import to_table
from manyheads.core.errors import CheckpointError, ManyheadsError
from manyheads.core.files import directory_written_atomically, folder_made
from manyheads.interop import sentence
from manyheads.interop.config_json import (
    KEY,
    PRUNED,
    read_extra_fields,
    remove_again,
    removed_heads,
    with_further_ends,
)
from manyheads.interop.families import FAMILIES, Family, Processor, kinds_on
from manyheads.interop.foreign import Foreign
from manyheads.interop.places import MODEL_FILE, no_model, places_of
from manyheads.interop.schema import COMMON, check_sizes, check_types, needed, refuse_infinite
from manyheads.interop.weights import Undrawn, open_weights, own_views, read_into, read_json, write_json
from manyheads.models.bert import Bert, BertEmbedder
from manyheads.nn.positions import with_amplitude
from manyheads.ops.finite import all_finite
from manyheads.text.encoder import EncoderTokenizer

_TRIES = 100  # to read a model that is being replaced again and again


def save_model(directory: Path, model: nn.Module, processor: Processor, card: str) -> None:
    """Writes the whole directory or nothing: a model as published under its foreign type, a variant under our own."""
    longest = getattr(model, "longest", None) or getattr(model.config, "context", None)
    try:
        with folder_made(directory.parent), directory_written_atomically(directory, MODEL_FILE) as temporary:
            processor.save(temporary, length=longest)
            _write_model(temporary, model, processor)
            write_checksums(temporary, files_under(temporary))
            (temporary / "README.md").write_text(card, encoding="utf-8")  # behind them: people write into it
    except (OSError, SafetensorError) as error:
        raise CheckpointError(f"{directory} could not be written ({error}); what was there before is intact") from error


def _write_model(directory: Path, model: nn.Module, processor: Processor) -> None:
    foreign, config, tensors = in_files(model)
    spoilt = [name for name, tensor in tensors.items() if not all_finite(tensor)]
    if spoilt:
        raise CheckpointError(f"{spoilt[0]} holds numbers that are not finite (NaN or infinity); it is not saved")
    write_json(directory / "config.json", foreign.finish(directory, config, model, processor))
    save_file(tensors, directory / "model.safetensors", metadata={"format": "pt"})
    # The library lets nobody but the owner read it.
    (directory / "model.safetensors").chmod((directory / "config.json").stat().st_mode)


def in_files(model: nn.Module) -> tuple[Foreign, dict[str, Any], dict[str, Tensor]]:
    """What a directory of a model will hold: the config.json of its body, and its tensors; and who finishes it."""
    body: Any = getattr(model, "body", model)
    family = next(family for family in FAMILIES if isinstance(body, family.model))
    if family.foreign.fits(body):
        config, tensors = family.foreign.write_config(body.config), family.foreign.write_tensors(model)
    else:
        config = {**family.own, KEY: to_table(body.config)}
        # How vectors become one is said in files of their own.
        weighed = body if isinstance(model, BertEmbedder) else model
        tensors = {name: view.contiguous() for name, view in own_views(weighed).items()}
    removed = removed_heads(body)
    return family.foreign, {**config, **({PRUNED: removed} if removed else {})}, tensors


_How = ParamSpec("_How")
_Read = TypeVar("_Read")


def _of_one_model(read: Callable[Concatenate[Path, _How], _Read]) -> Callable[Concatenate[Path, _How], _Read]:
    """Reads again where training has replaced the model meanwhile: no file is missing, and none of another model."""

    def place(directory: Path) -> tuple[Any, ...] | None:
        try:
            found = find_model(directory)
            return found, found.stat().st_ino, found.stat().st_mtime_ns
        except (ManyheadsError, OSError):
            return None

    @wraps(read)
    def steadily(directory: Path, *arguments: _How.args, **options: _How.kwargs) -> _Read:
        for left in reversed(range(_TRIES)):
            before = place(directory)
            try:
                found = read(directory, *arguments, **options)
                if place(directory) == before:
                    return found
            except (ManyheadsError, OSError):
                if not left or place(directory) == before:
                    raise
        raise CheckpointError(f"{directory} is replaced faster than it can be read; wait until its training has ended")

    return steadily


@_of_one_model
def load_model(directory: Path, kinds: tuple[type, ...] | None = None) -> tuple[Any, Any]:
    """Opens a model directory, or the model of a run directory: the model, ready to use, and its processor.

    A model that is none of `kinds`, the classes asked for, is refused, and so is a directory with checksums of which
    one does not hold: to know that takes about a second for each gigabyte.
    """
    directory = find_model(directory)
    refuse_changed(directory)
    table = with_further_ends(read_json(directory / "config.json"), directory)
    family = _family(directory, table, kinds)
    foreign, own = family.foreign, table["model_type"] not in family.foreign.TYPES
    what = family.kinds[foreign.kind(table)]
    weights, processor = open_weights(directory), family.processor.load(directory)
    try:
        refuse_infinite(table)
        check_types(table, {**COMMON, **foreign.SCHEMA})
        if own:
            config = read_extra_fields({KEY: with_amplitude(needed(table, KEY))}, family.config())
        else:
            config = foreign.read_config(table)
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


def load_encoder(directory: Path, *others: type) -> tuple[Any, EncoderTokenizer]:
    """The encoder of any BERT's directory, or of one of these others, whatever stands on top of it."""
    bodies = (Bert, *others)
    model, tokenizer = load_model(directory, kinds=kinds_on(*bodies))
    body = getattr(model, "body", model)
    if type(body) not in bodies:  # a head tells nothing of the encoder that it stands on
        asked = _listed(family.known_as for family in FAMILIES if family.model in bodies)
        raise CheckpointError(f"{directory} holds the encoder {type(body).__name__}; {asked} is asked for here")
    return body, tokenizer


@_of_one_model
def load_embedder(directory: Path) -> tuple[BertEmbedder, EncoderTokenizer]:
    """An encoder with the pooling that a sentence-transformers directory says; any other BERT with the usual one."""
    body, tokenizer = load_encoder(directory)
    return sentence.embedder(_whole(directory), body).eval(), tokenizer


@_of_one_model
def load_as_saved(directory: Path) -> tuple[Any, Any]:
    """A model with all that its directory says of it: a sentence model with its pooling."""
    return (load_embedder if sentence.is_sentence_model(_whole(directory)) else load_model)(directory)


@_of_one_model
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
    for candidate in map(sentence.encoder_of, places_of(path)):
        if (candidate / "config.json").is_file():
            return candidate
    raise no_model(path)
