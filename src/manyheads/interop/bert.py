"""BERT of transformers (`BertModel` and five models with heads): our encoder under other names."""

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from manyheads.core.errors import CheckpointError
from manyheads.interop import config_json, sentence
from manyheads.interop.config_json import KEY
from manyheads.interop.foreign import Foreign
from manyheads.interop.schema import needed, our_fields, types_of
from manyheads.interop.weights import Renamed, read_into, views_by_parts
from manyheads.models.bert import Bert, BertAnswerer, BertConfig, BertEmbedder, MaskedBert
from manyheads.models.heads import EncoderClassifier, EncoderTagger
from manyheads.models.parser import SpanParser
from manyheads.nn.positions import PositionsConfig
from manyheads.text.encoder import EncoderTokenizer

ARCHITECTURES = {
    "BertModel": Bert,
    "BertForMaskedLM": MaskedBert,
    "BertForPreTraining": MaskedBert,
    "BertForSequenceClassification": EncoderClassifier,
    "BertForMultipleChoice": EncoderClassifier,
    "BertForTokenClassification": EncoderTagger,
    "BertForQuestionAnswering": BertAnswerer,
    "BertSpanParser": SpanParser,
}
_PREFIX = "bert."
_NAMES = config_json.NAMES["bert"]
# Counters that older versions saved with the weights, and the copies of a tied embedding and its bias.
_HARMLESS = re.compile(r"(bert\.)?embeddings\.position_ids|cls\.predictions\.decoder\.(weight|bias)")
# Older versions also saved a pooler under heads that do not read it.
_HARMLESS_WITHOUT_POOLER = re.compile(rf"{_HARMLESS.pattern}|bert\.pooler\.dense\.(weight|bias)")
# What the first TensorFlow checkpoints call a norm's weight and bias.
_OLDER = {r"(?<=LayerNorm\.)gamma$": "weight", r"(?<=LayerNorm\.)beta$": "bias"}


class BertNames(Foreign):
    """BERT and the models with heads on it."""

    TYPES = ("bert",)
    SCHEMA = types_of(_NAMES["config"], BertConfig)

    def fits(self, model: Bert) -> bool:
        config, free = model.config, {*our_fields(_NAMES["config"]).values(), "separator", "positions"}
        learned = config.positions == PositionsConfig(kind="learned", length=config.context)
        return learned and config_json.usual_but_for(free, config)

    def kind(self, table: dict[str, Any]) -> type:
        named = config_json.architectures(table) or ["BertModel"]
        found = next((ARCHITECTURES[name] for name in named if name in ARCHITECTURES), None)
        if found is None:
            raise CheckpointError(f"this BERT is a {', '.join(named)}; known are {', '.join(ARCHITECTURES)}")
        return found

    def write_config(self, config: BertConfig) -> dict[str, Any]:
        inner, activation = config.inner or 4 * config.width, config_json.ACTIVATIONS[config.activation]
        table = {"architectures": ["BertModel"], "model_type": "bert"}
        table |= config_json.write_fields(_NAMES["config"], config, inner=inner, activation=activation)
        return config_json.with_extra_fields({**table, "dtype": "float32"}, config, self.read_config)

    def read_config(self, table: dict[str, Any]) -> BertConfig:
        refuse = config_json.refuse
        refuse(table, "this BERT", position_embedding_type="absolute", is_decoder=False, add_cross_attention=False)
        refuse(table, "this BERT", tie_word_embeddings=True)
        ours = config_json.read_fields(_NAMES["config"], table)
        ours["activation"] = config_json.read_activation(ours["activation"])
        ours["inner"] = None if ours["inner"] == 4 * ours["width"] else ours["inner"]
        return config_json.read_extra_fields(table, BertConfig(**ours))

    def build(
        self, table: dict[str, Any], config: BertConfig, weights: Mapping[str, Tensor], tokenizer: EncoderTokenizer
    ) -> nn.Module:
        config_json.refuse_more_tokens(tokenizer, config)
        config = replace(config, separator=tokenizer.separator)
        pooled = any(name.endswith(("pooler.dense.weight", "pooler.weight")) for name in weights)
        model = self.kind(table)
        if model is Bert:
            return Bert(config, pooler=pooled)
        if model is MaskedBert:  # some that call themselves BertForMaskedLM can tell what follows as well
            follows = any(name in weights for name in ("cls.seq_relationship.weight", "follows.weight"))
            return MaskedBert(config, next_sentence=follows)
        if model is EncoderClassifier:
            choice = "BertForMultipleChoice" in config_json.architectures(table)
            return EncoderClassifier(Bert(config), *(((), "choice") if choice else config_json.read_form(table)))
        if model is EncoderTagger:
            return EncoderTagger(Bert(config, pooler=False), config_json.names_of(table))
        kept = table.get(KEY) or {}
        if model is SpanParser:
            names, tags = config_json.names_of(table), tuple(needed(kept, "tags"))
            return SpanParser(Bert(config, pooler=False), names, tags, needed(kept, "span_hidden"))
        return BertAnswerer(Bert(config, pooler=False), kept.get("impossible", True), kept.get("longest"))

    def finish(self, directory: Path, table: dict[str, Any], model: Any, tokenizer: EncoderTokenizer) -> dict[str, Any]:
        if isinstance(model, BertEmbedder):
            sentence.write(directory, model)
        return {**_with_head(table, model), "pad_token_id": tokenizer.pad}

    def views(self, model: Any) -> dict[str, Tensor]:
        body = model if isinstance(model, Bert) else model.body
        views = views_by_parts(body, _NAMES["parts"], _NAMES["whole"], "encoder.layer.")
        if isinstance(model, Bert | BertEmbedder):
            return views
        views = {_PREFIX + name: view for name, view in views.items()}
        heads = {**_NAMES["heads"], "score": "qa_outputs" if isinstance(model, BertAnswerer) else "classifier"}
        for ours, parameter in model.named_parameters():
            place, kind = ours.rpartition(".")[::2]
            if place in heads:
                views[f"{heads[place]}.{kind}"] = parameter.detach()
        return views

    def read_tensors(self, model: Any, theirs: Mapping[str, Tensor]) -> None:
        theirs = Renamed(theirs, _OLDER)
        own = self.views(model)
        if isinstance(model, Bert) and any(name.startswith(_PREFIX) for name in theirs):
            own = {_PREFIX + name: view for name, view in own.items()}
        pooled = isinstance(model, Bert) or model.body.pooler is not None
        read_into(own, theirs, "a BERT", _HARMLESS if pooled else _HARMLESS_WITHOUT_POOLER)


def _with_head(table: dict[str, Any], model: Any) -> dict[str, Any]:
    saved_as = Bert if isinstance(model, BertEmbedder) else type(model)
    architecture = next(name for name, found in ARCHITECTURES.items() if found is saved_as)
    if isinstance(model, MaskedBert) and model.follows is not None:
        architecture = "BertForPreTraining"
    form = model.form if isinstance(model, EncoderClassifier) else None
    architecture = "BertForMultipleChoice" if form == "choice" else architecture
    table = {**table, "architectures": [architecture]}
    if isinstance(model, EncoderClassifier | EncoderTagger | SpanParser):
        table = config_json.label_fields(table, model.names, form)
    if isinstance(model, SpanParser):
        kept = {"tags": list(model.tags), "span_hidden": model.hidden.out_features}
        return {**table, KEY: {**table.get(KEY, {}), **kept}}
    if isinstance(model, BertAnswerer):
        kept = {"impossible": model.impossible, **({"longest": model.longest} if model.longest else {})}
        return {**table, KEY: {**table.get(KEY, {}), **kept}}
    return table
