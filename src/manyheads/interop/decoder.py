"""What GPT and Llama share: a language model, or `…ForSequenceClassification` in place of its output projection."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from manyheads.interop.extra_fields import architectures
from manyheads.interop.head import label_fields, read_form
from manyheads.interop.weights import read_into, write_json
from manyheads.models.classifier import DecoderClassifier
from manyheads.text.language import LanguageTokenizer
from manyheads.text.tokenizer import named_beside

_SUFFIX = "ForSequenceClassification"
_ARCHITECTURES = {"gpt2": "GPT2", "openai-gpt": "OpenAIGPT", "llama": "Llama"}


def is_classifier(table: dict[str, Any]) -> bool:
    """Whether a config.json is that of a classifier."""
    return any(name.endswith(_SUFFIX) for name in architectures(table))


def with_head(body: nn.Module, table: dict[str, Any]) -> nn.Module:
    """The model that a config.json describes: the body, or a classifier on top of it."""
    return DecoderClassifier(body, *read_form(table)) if is_classifier(table) else body


def finished(
    directory: Path, table: dict[str, Any], model: nn.Module, tokenizer: LanguageTokenizer, generation: dict[str, Any]
) -> dict[str, Any]:
    """The body's config.json as that of the model, with generation_config.json beside that of a language model."""
    start = {"bos_token_id": tokenizer.start[0]} if tokenizer.start else {}
    table = {**table, **start}
    if isinstance(model, DecoderClassifier):
        architecture = _ARCHITECTURES.get(table["model_type"], type(model.body).__name__) + _SUFFIX
        table = label_fields({**table, "architectures": [architecture]}, model.names, model.form)
        pad = named_beside(directory / "tokenizer.json").get("pad_token")
        # transformers finds the end of a text by its padding.
        return {**table, "pad_token_id": None if pad is None else tokenizer.id_of(pad)}
    if generation:
        write_json(directory / "generation_config.json", {**generation, **start})
    return table


def with_score(model: DecoderClassifier, views: dict[str, Tensor]) -> dict[str, Tensor]:
    """Their names over the body's weights as those over the classifier's, which has no output projection."""
    views = {name: view for name, view in views.items() if name != "lm_head.weight"}
    return {**views, "score.weight": model.score.weight.detach()}


@torch.no_grad()
def read_views(
    model: nn.Module,
    views: dict[str, Tensor],
    theirs: Mapping[str, Tensor],
    what: str,
    prefix: str,
    harmless: re.Pattern[str],
) -> None:
    """Loads their weights, which the first of a family had without the prefix."""
    if not any(name.startswith(prefix) for name in theirs):
        views = {name.removeprefix(prefix): view for name, view in views.items()}
    read_into(views, theirs, what, harmless)
    if isinstance(model, DecoderClassifier):  # whose output projection, which their file has not, gets the embedding's
        model.body.output.weight.copy_(model.body.embedding.weight)  # type: ignore
