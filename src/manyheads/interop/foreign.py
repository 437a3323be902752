"""What a family is elsewhere, and what GPT and Llama share there."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from manyheads.interop.config_json import architectures, label_fields, read_form, refuse_more_tokens
from manyheads.interop.weights import read_into, write_json
from manyheads.models.classifier import DecoderClassifier
from manyheads.text.language import LanguageTokenizer
from manyheads.text.tokenizer import named_beside

_SUFFIX = "ForSequenceClassification"
_ARCHITECTURES = {"gpt2": "GPT2", "openai-gpt": "OpenAIGPT", "llama": "Llama"}


class Foreign(Protocol):
    """A family elsewhere: model types, and names, files and heads as they are there; a body is what heads stand on.

    `fits` says whether one of the types can express a body; what none can is saved under a type of our own.
    `read_config` refuses what our model cannot be; `kind` says which of ours a config.json is that of, `build` makes it
    without its weights, whose names tell the rest. `finish` makes of a body's config.json that of a model with a
    head, and writes the files that stand beside it. `views` are their names over our weights; when their tensors are
    read, a name left over on either side is an error.
    """

    TYPES: tuple[str, ...]
    SCHEMA: dict[str, Any]
    """The types of the entries of its config.json, beside those that every family has."""

    def fits(self, model: Any) -> bool: ...
    def write_config(self, config: Any) -> dict[str, Any]: ...
    def read_config(self, table: dict[str, Any]) -> Any: ...
    def kind(self, table: dict[str, Any]) -> type: ...
    def build(self, table: dict[str, Any], config: Any, weights: Mapping[str, Tensor], processor: Any, /) -> Any: ...
    def finish(self, directory: Path, table: dict[str, Any], model: Any, processor: Any, /) -> dict[str, Any]: ...
    def views(self, model: Any) -> dict[str, Tensor]: ...
    def read_tensors(self, model: Any, theirs: Mapping[str, Tensor]) -> None: ...

    def write_tensors(self, model: Any) -> dict[str, Tensor]:
        return {name: view.contiguous() for name, view in self.views(model).items()}


class Decoder(Foreign):
    """A language model, or `…ForSequenceClassification` in place of its output projection.

    `name` is what messages call it; `body_views` are their names over the weights of a language model.
    """

    model: type[nn.Module]
    prefix: str
    """Of all names but the output projection's; the first of a family had none."""
    harmless: re.Pattern[str]
    """Names that their files may hold beside the weights."""

    def name(self, config: Any) -> str: ...
    def body_views(self, body: Any) -> dict[str, Tensor]: ...

    def kind(self, table: dict[str, Any]) -> type:
        return DecoderClassifier if any(name.endswith(_SUFFIX) for name in architectures(table)) else self.model

    def build(
        self, table: dict[str, Any], config: Any, weights: Mapping[str, Tensor], tokenizer: LanguageTokenizer
    ) -> nn.Module:
        refuse_more_tokens(tokenizer, config)
        body = self.model(config)
        return DecoderClassifier(body, *read_form(table)) if self.kind(table) is DecoderClassifier else body

    def finish(
        self, directory: Path, table: dict[str, Any], model: Any, tokenizer: LanguageTokenizer
    ) -> dict[str, Any]:
        table = {**table, **({"bos_token_id": tokenizer.start[0]} if tokenizer.start else {})}
        if isinstance(model, DecoderClassifier):
            architecture = _ARCHITECTURES.get(table["model_type"], type(model.body).__name__) + _SUFFIX
            table = label_fields({**table, "architectures": [architecture]}, model.names, model.form)
            pad = named_beside(directory / "tokenizer.json").get("pad_token")
            # transformers finds the end of a text by its padding.
            return {**table, "pad_token_id": None if pad is None else tokenizer.id_of(pad)}
        if table["model_type"] in self.TYPES:  # their `generate` reads the ids that begin, end and pad
            generation = {name: table[name] for name in ("bos_token_id", "eos_token_id")}
            write_json(directory / "generation_config.json", {**generation, "pad_token_id": model.config.end})
        return table

    def views(self, model: Any) -> dict[str, Tensor]:
        if not isinstance(model, DecoderClassifier):
            return self.body_views(model)
        views = {name: view for name, view in self.body_views(model.body).items() if name != "lm_head.weight"}
        return {**views, "score.weight": model.score.weight.detach()}

    @torch.no_grad()
    def read_tensors(self, model: Any, theirs: Mapping[str, Tensor]) -> None:
        views = self.views(model)
        if not any(name.startswith(self.prefix) for name in theirs):
            views = {name.removeprefix(self.prefix): view for name, view in views.items()}
        read_into(views, theirs, f"a {self.name(model.config)}", self.harmless)
        if isinstance(model, DecoderClassifier):  # whose output projection, which their file lacks, is the embedding's
            model.body.output.weight.copy_(model.body.embedding.weight)  # type: ignore
