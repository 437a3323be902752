"""How the model of each task reads a text that is looked into."""

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from manyheads.core.errors import ConfigError, DataError
from manyheads.interop.directory import load_model
from manyheads.interop.encoders import is_embedder, load_embedder
from manyheads.models.bert import BertAnswerer, BertClassifier, BertEmbedder, BertTagger, MaskedBert
from manyheads.models.classifier import DecoderClassifier
from manyheads.models.gpt import GPT
from manyheads.models.llama import Llama
from manyheads.models.transformer import Transformer
from manyheads.ops.device import pick_device
from manyheads.tasks.language import LanguageModel
from manyheads.tasks.preparing import Wrapping
from manyheads.tasks.tag_data import Windowing
from manyheads.tasks.translate import EXTRA_TOKENS, decode_all

BEAM = 4


@dataclass(frozen=True)
class Reading:
    """A text, or two, as a model reads them."""

    who: str
    """What the model is."""
    texts: tuple[str, ...]
    ids: dict[str, list[int]]
    """The ids that go through each stack: self, or encoder and decoder."""
    run: Callable[[], Tensor]
    """The model's forward on them."""
    written: list[int] = field(default_factory=list)
    """What it wrote: a translation with its end, or a continuation."""
    says: str = ""
    """The same as text."""
    places: list[int] = field(default_factory=list)
    """Where each word begins among the ids, of a tagger."""


def opened(model: Any, device: str = "auto") -> tuple[str, Any, Any]:
    """What a model is called, the model and its tokenizer, of a directory or of what is ready to use."""
    if isinstance(model, str | Path):
        path = Path(model)
        load = load_embedder if is_embedder(path) else load_model
        network, tokenizer = load(path)
        return called(path), network.to(pick_device(device), torch.float32), tokenizer
    network, tokenizer = getattr(model, "model", None), getattr(model, "tokenizer", None)
    if not isinstance(network, nn.Module) or tokenizer is None:
        raise ConfigError(f"{model!r:.60} is no model to look into; give its directory, or a Translator or the like")
    return type(model).__name__, network, tokenizer


def called(model: Path) -> str:
    """What a model is called in a title: the last part of its path that says something."""
    path = model.absolute()
    return path.parent.name if path.name == "model" else path.name


def read(model: Any, tokenizer: Any, text: str, second: str | None = None, tokens: int = 0) -> Reading:
    """One text, or two, as this model reads them; a language model goes on for so many tokens."""
    if not all(each.strip() for each in (text, "-" if second is None else second)):
        raise DataError("the text is empty; give a sentence behind the model, in quotes")
    if tokens and not isinstance(model, GPT | Llama):
        raise ConfigError("only a language model goes on from a text; this is none, so leave the tokens away")
    if tokens < 0:
        raise ConfigError(f"{tokens} tokens are asked for; it must be at least 0")
    for kinds, reader in _READERS.items():
        if isinstance(model, kinds):
            more = {"tokens": tokens} if reader is _language else {}
            return reader(model, tokenizer, text, second, **more)
    raise ConfigError(f"a {type(model).__name__} is no model that reads a text")


def tokens_of(tokenizer: Any, ids: list[int]) -> list[str]:
    """A label for each token, a mark where it is nothing but a space."""
    return [piece if piece.strip(" ") else "␣" for piece in tokenizer.pieces(ids)]


def _language(model: GPT | Llama, tokenizer: Any, text: str, second: str | None, tokens: int) -> Reading:
    _refuse_second(second, "a language model reads one text")
    language = LanguageModel(model, tokenizer)
    row = language.encode([text])[0]
    if len(row) + tokens > model.config.context:
        raise DataError(
            f"{text!r:.60} has {len(row):,} tokens and {tokens:,} more are asked for, but the model reads "
            f"{model.config.context:,}; shorten it, or ask for fewer"
        )
    written = language.continued(row, tokens) if tokens else []
    ids = row + written
    says = tokenizer.decode([written])[0] if written else ""
    return Reading("A language model", (text,), {"self": ids}, lambda: model(_row(model, ids)), written, says)


def _translator(model: Transformer, tokenizer: Any, text: str, second: str | None) -> Reading:
    config, row = model.config, tokenizer.encode([text])[0]
    most = config.positions.length if config.positions.kind == "learned" else sys.maxsize
    _refuse_long(text, row, most)
    if second is None:
        found = decode_all(model, [row], beam=BEAM)[0][0].ids
        # One that was cut at its limit has no end.
        written, says = [*found, config.end][: min(len(row) + EXTRA_TOKENS, most)], tokenizer.decode([found])[0]
    else:
        written, says = tokenizer.encode([second])[0], second
        _refuse_long(second, written, most)
    before = [config.start, *written[:-1]]
    ids = {"encoder": row, "decoder": before}
    return Reading(
        *("A translator", (text,), ids, lambda: model(_row(model, row), _row(model, before)), written, says),
    )


def _masked(model: MaskedBert, tokenizer: Any, text: str, second: str | None) -> Reading:
    texts = (text,) if second is None else (text, second)
    row = tokenizer.wrapped(*tokenizer.encode(list(texts), special=True))
    _refuse_long(text, row, model.config.context)
    return Reading("A masked language model", texts, {"self": row}, lambda: model(_row(model, row)))


def _classifier(model: Any, tokenizer: Any, text: str, second: str | None) -> Reading:
    if model.form in ("pair", "choice") and second is None:
        raise DataError("this model compares two texts; give the second behind the first")
    if model.form == "text":
        _refuse_second(second, "this model reads one text")
    texts = (text,) if second is None else (text, second)
    return _wrapped("A classifier", model, tokenizer, texts, model.config.context)


def _embedder(model: BertEmbedder, tokenizer: Any, text: str, second: str | None) -> Reading:
    texts = (text,) if second is None else (text, second)
    return _wrapped("An embedder", model, tokenizer, texts, model.longest)


def _wrapped(who: str, model: Any, tokenizer: Any, texts: tuple[str, ...], most: int) -> Reading:
    row = Wrapping(tokenizer, sys.maxsize).rows([texts])[0]
    _refuse_long(texts[0], row, most)
    return Reading(who, texts, {"self": row}, lambda: model(_row(model, row), _length(model, row)))


def _tagger(model: BertTagger, tokenizer: Any, text: str, second: str | None) -> Reading:
    _refuse_second(second, "a tagger reads one text")
    window = Windowing(tokenizer, sys.maxsize).windows([text.split()])[0][0]
    _refuse_long(text, window.ids, model.config.context)

    def run() -> Tensor:
        return model(_row(model, window.ids), _length(model, window.ids))

    return Reading("A tagger", (text,), {"self": window.ids}, run, places=list(window.places))


def _answerer(model: BertAnswerer, tokenizer: Any, text: str, second: str | None) -> Reading:
    if second is None:
        raise DataError("this model reads a question and a text; give the text behind the question")
    row = tokenizer.wrapped(*tokenizer.encode([text, second]))
    _refuse_long(second, row, min(model.longest or model.config.context, model.config.context))
    texts = text, second
    return Reading("A question answerer", texts, {"self": row}, lambda: model(_row(model, row), _length(model, row)))


_READERS: dict[Any, Callable[..., Reading]] = {
    (GPT, Llama): _language,
    Transformer: _translator,
    MaskedBert: _masked,
    (BertClassifier, DecoderClassifier): _classifier,
    BertTagger: _tagger,
    BertEmbedder: _embedder,
    BertAnswerer: _answerer,
}


def _row(model: Any, ids: list[int]) -> Tensor:
    return torch.tensor([ids], device=next(model.parameters()).device)


def _length(model: Any, ids: list[int]) -> Tensor:
    return torch.tensor([len(ids)], device=next(model.parameters()).device)


def _refuse_long(text: str, ids: list[int], most: int) -> None:
    if len(ids) > most:
        raise DataError(f"{text!r:.60} has {len(ids):,} tokens, but the model reads {most:,}; shorten it")


def _refuse_second(second: str | None, why: str) -> None:
    if second is not None:
        raise ConfigError(f"{why}; leave the second away")
