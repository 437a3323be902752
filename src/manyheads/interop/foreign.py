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
    """A family elsewhere: model types, and names, files and heads as they are there; a body is what heads stand on."""

    TYPES: tuple[str, ...]

    def fits(self, model: Any) -> bool:
        """Whether one of the types can express a body; what none can is saved under a type of our own."""
        ...

    def write_config(self, config: Any) -> dict[str, Any]:
        """Our config as their config.json."""
        ...

    def read_config(self, table: dict[str, Any]) -> Any:
        """Their config.json as our config; one that our model cannot be is refused."""
        ...

    def kind(self, table: dict[str, Any]) -> type:
        """Which of our models a config.json is that of."""
        ...

    def build(self, table: dict[str, Any], config: Any, weights: Mapping[str, Tensor], processor: Any, /) -> Any:
        """The model that a config.json and the names of its weights describe, without its weights."""
        ...

    def finish(self, directory: Path, table: dict[str, Any], model: Any, processor: Any, /) -> dict[str, Any]:
        """A body's config.json as that of the model on top of it; writes the files that stand beside it."""
        ...

    def views(self, model: Any) -> dict[str, Tensor]:
        """Their names over our weights."""
        ...

    def write_tensors(self, model: Any) -> dict[str, Tensor]:
        """Our weights under their names and in their layout."""
        return {name: view.contiguous() for name, view in self.views(model).items()}

    def read_tensors(self, model: Any, theirs: Mapping[str, Tensor]) -> None:
        """Loads their weights; a name left over on either side is an error."""
        ...


class Decoder(Foreign):
    """A language model, or `…ForSequenceClassification` in place of its output projection."""

    model: type[nn.Module]
    prefix: str
    """Of all names but the output projection's; the first of a family had none."""
    harmless: re.Pattern[str]
    """Names that their files may hold beside the weights."""

    def name(self, config: Any) -> str:
        """What it is called in messages."""
        ...

    def body_views(self, body: Any) -> dict[str, Tensor]:
        """Their names over the weights of a language model."""
        ...

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
