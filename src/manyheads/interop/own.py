"""Families that no other library has a type for: their models are always saved under a type of ours."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from torch import Tensor

from manyheads.interop.config_json import architectures, label_fields, names_of, read_form, refuse_more_tokens
from manyheads.interop.foreign import Decoder, Foreign
from manyheads.models.heads import EncoderClassifier, EncoderTagger


class _Own:
    """Since nothing fits a foreign type, nobody asks for foreign names or fields."""

    TYPES = ()
    SCHEMA = {}  # noqa: RUF012

    def __init__(self, model: type):
        self.model = model

    def fits(self, model: Any) -> bool:
        return False

    def write_config(self, config: Any) -> dict[str, Any]:
        raise NotImplementedError

    def read_config(self, table: dict[str, Any]) -> Any:
        raise NotImplementedError

    def views(self, model: Any) -> dict[str, Tensor]:
        raise NotImplementedError

    def read_tensors(self, model: Any, theirs: Mapping[str, Tensor]) -> None:
        raise NotImplementedError


class OwnModel(_Own, Foreign):
    """One model of such a family."""

    def kind(self, table: dict[str, Any]) -> type:
        return self.model

    def build(self, table: dict[str, Any], config: Any, weights: Mapping[str, Tensor], processor: Any, /) -> Any:
        refuse_more_tokens(processor, config)
        return self.model(config)

    def finish(self, directory: Path, table: dict[str, Any], model: Any, processor: Any, /) -> dict[str, Any]:
        return table


class OwnClassifier(OwnModel):
    """A classifier that is no head on a body: its labels' names are saved with it."""

    def build(self, table: dict[str, Any], config: Any, weights: Mapping[str, Tensor], processor: Any, /) -> Any:
        refuse_more_tokens(processor, config)
        return self.model(config, *read_form(table))

    def finish(self, directory: Path, table: dict[str, Any], model: Any, processor: Any, /) -> dict[str, Any]:
        return label_fields({**table, "architectures": [self.model.__name__]}, model.names, model.form)


class OwnEncoder(OwnModel):
    """An encoder, or a model with a head on it, which the name of its architecture ends with."""

    HEADS: ClassVar = {"ForSequenceClassification": EncoderClassifier, "ForTokenClassification": EncoderTagger}

    def kind(self, table: dict[str, Any]) -> type:
        named = architectures(table)
        return next((kind for end, kind in self.HEADS.items() if any(name.endswith(end) for name in named)), self.model)

    def build(self, table: dict[str, Any], config: Any, weights: Mapping[str, Tensor], processor: Any, /) -> Any:
        refuse_more_tokens(processor, config)
        body, kind = self.model(config), self.kind(table)
        if kind is EncoderClassifier:
            return EncoderClassifier(body, *read_form(table))
        return EncoderTagger(body, names_of(table)) if kind is EncoderTagger else body

    def finish(self, directory: Path, table: dict[str, Any], model: Any, processor: Any, /) -> dict[str, Any]:
        end = next((end for end, kind in self.HEADS.items() if type(model) is kind), None)
        if end is None:
            return table
        table = {**table, "architectures": [self.model.__name__ + end]}
        return label_fields(table, model.names, getattr(model, "form", None))


class OwnDecoder(_Own, Decoder):
    """A language model, or a classifier on top of one."""

    def name(self, config: Any) -> str:
        raise NotImplementedError

    def body_views(self, body: Any) -> dict[str, Tensor]:
        raise NotImplementedError
