"""Encoders: of any BERT's directory, whatever stands on top, and with the pooling of sentence-transformers."""

from pathlib import Path
from typing import Any

from manyheads.interop import sentence
from manyheads.interop.bert import ARCHITECTURES
from manyheads.interop.directory import find_model, load_model, model_kind
from manyheads.models.bert import Bert, BertEmbedder
from manyheads.text.encoder import EncoderTokenizer

ENCODERS = tuple(dict.fromkeys(ARCHITECTURES.values()))


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


def is_embedder(directory: Path) -> bool:
    """Whether a directory holds an encoder that says how texts become vectors, or nothing but an encoder."""
    return sentence.is_sentence_model(_whole(directory)) or model_kind(directory) is Bert


def saved_kind(directory: Path) -> type:
    """Which model a directory holds; one that says how texts become vectors, or nothing but an encoder, embeds."""
    return BertEmbedder if is_embedder(directory) else model_kind(directory)


def _whole(directory: Path) -> Path:
    """Where a sentence model's own files are; older ones keep the encoder in a folder among them."""
    found = find_model(directory)
    alone = not sentence.is_sentence_model(found) and sentence.is_sentence_model(found.parent)
    return found.parent if alone else found
