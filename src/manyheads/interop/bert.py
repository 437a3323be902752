"""BERT of transformers (`BertModel` and five models with heads): our encoder under other names."""

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from manyheads.core.errors import CheckpointError
from manyheads.interop import sentence
from manyheads.interop.extra_fields import (
    KEY,
    architectures,
    read_extra_fields,
    refuse,
    refuse_more_tokens,
    with_extra_fields,
)
from manyheads.interop.head import label_fields, names_of, read_form
from manyheads.interop.weights import read_into
from manyheads.models.bert import (
    Bert,
    BertAnswerer,
    BertClassifier,
    BertConfig,
    BertEmbedder,
    BertTagger,
    MaskedBert,
)
from manyheads.text.encoder import EncoderTokenizer

TYPES: tuple[str, ...] = ("bert",)
ARCHITECTURES = {
    "BertModel": Bert,
    "BertForMaskedLM": MaskedBert,
    "BertForPreTraining": MaskedBert,
    "BertForSequenceClassification": BertClassifier,
    "BertForMultipleChoice": BertClassifier,
    "BertForTokenClassification": BertTagger,
    "BertForQuestionAnswering": BertAnswerer,
}
_ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "gelu_tanh": "gelu_new", "silu": "silu"}
_ALIASES = {"gelu_pytorch_tanh": "gelu_tanh", "gelu_fast": "gelu_tanh", "swish": "silu"}
_PREFIX = "bert."
# Ours to theirs, of a block and of all else.
_PARTS = {
    "attention.projection": ("attention.self.query", "attention.self.key", "attention.self.value"),
    "attention.output": ("attention.output.dense",),
    "attention_norm": ("attention.output.LayerNorm",),
    "feedforward.inner": ("intermediate.dense",),
    "feedforward.outer": ("output.dense",),
    "feedforward_norm": ("output.LayerNorm",),
}
_WHOLE = {
    "embedding": "embeddings.word_embeddings",
    "positions.table": "embeddings.position_embeddings",
    "segments": "embeddings.token_type_embeddings",
    "norm": "embeddings.LayerNorm",
    "pooler": "pooler.dense",
}
_HEADS = {
    "transform": "cls.predictions.transform.dense",
    "norm": "cls.predictions.transform.LayerNorm",
    "follows": "cls.seq_relationship",
}
# Counters that older versions saved with the weights, and the copies of a tied embedding and its bias.
_HARMLESS = re.compile(r"(bert\.)?embeddings\.position_ids|cls\.predictions\.decoder\.(weight|bias)")
# Older versions also saved a pooler under heads that do not read it.
_HARMLESS_WITHOUT_POOLER = re.compile(rf"{_HARMLESS.pattern}|bert\.pooler\.dense\.(weight|bias)")
# What the first TensorFlow checkpoints call a norm's weight and bias.
_OLDER = {"LayerNorm.gamma": "LayerNorm.weight", "LayerNorm.beta": "LayerNorm.bias"}


def fits(model: Bert) -> bool:
    """Whether BERT of transformers can express this model: all of ours."""
    return True


def kind(table: dict[str, Any]) -> type:
    """Which of our models a config.json is that of."""
    named = architectures(table) or ["BertModel"]
    found = next((ARCHITECTURES[name] for name in named if name in ARCHITECTURES), None)
    if found is None:
        raise CheckpointError(f"this BERT is a {', '.join(named)}; known are {', '.join(ARCHITECTURES)}")
    return found


def write_config(config: BertConfig) -> dict[str, Any]:
    """Our config as their config.json."""
    table = {
        "architectures": ["BertModel"],
        "model_type": "bert",
        "vocab_size": config.vocabulary,
        "max_position_embeddings": config.context,
        "type_vocab_size": config.segments,
        "hidden_size": config.width,
        "num_hidden_layers": config.layers,
        "num_attention_heads": config.heads,
        "intermediate_size": config.inner or 4 * config.width,
        "hidden_act": _ACTIVATIONS[config.activation],
        "layer_norm_eps": config.epsilon,
        "hidden_dropout_prob": config.dropout,
        "attention_probs_dropout_prob": config.attention_dropout,
        "dtype": "float32",
    }
    return with_extra_fields(table, config, read_config)


def read_config(table: dict[str, Any]) -> BertConfig:
    """Their config.json as our config; one that our encoder cannot be is refused."""
    refuse(table, "this BERT", position_embedding_type="absolute", is_decoder=False, add_cross_attention=False)
    refuse(table, "this BERT", tie_word_embeddings=True)
    activations = {theirs: ours for ours, theirs in _ACTIVATIONS.items()} | _ALIASES
    activation = table.get("hidden_act", "gelu")
    if activation not in activations:
        raise CheckpointError(f"activation {activation} is not known; known are {', '.join(activations)}")
    inner, width = table["intermediate_size"], table["hidden_size"]
    config = BertConfig(
        vocabulary=table["vocab_size"],
        context=table["max_position_embeddings"],
        segments=table.get("type_vocab_size", 2),
        width=width,
        layers=table["num_hidden_layers"],
        heads=table["num_attention_heads"],
        inner=None if inner == 4 * width else inner,
        activation=activations[activation],
        epsilon=table.get("layer_norm_eps", 1e-12),
        dropout=table.get("hidden_dropout_prob", 0.1),
        attention_dropout=table.get("attention_probs_dropout_prob", 0.1),
    )
    return read_extra_fields(table, config)


def build(
    table: dict[str, Any], config: BertConfig, weights: Mapping[str, Tensor], tokenizer: EncoderTokenizer
) -> nn.Module:
    """The model that a config.json and the names of its weights describe, without its weights."""
    refuse_more_tokens(tokenizer, config)
    config = replace(config, separator=tokenizer.separator)
    pooled = any(name.endswith("pooler.dense.weight") for name in weights)
    model = kind(table)
    if model is Bert:
        return Bert(config, pooler=pooled)
    if model is MaskedBert:  # some that call themselves BertForMaskedLM can tell what follows as well
        return MaskedBert(config, next_sentence="cls.seq_relationship.weight" in weights)
    if model is BertClassifier:
        choice = "BertForMultipleChoice" in architectures(table)
        return BertClassifier(Bert(config), *(((), "choice") if choice else read_form(table)))
    if model is BertTagger:
        return BertTagger(Bert(config, pooler=False), names_of(table))
    kept = table.get(KEY, {})
    return BertAnswerer(Bert(config, pooler=False), kept.get("impossible", True), kept.get("longest"))


def finish(directory: Path, table: dict[str, Any], model: Any, tokenizer: EncoderTokenizer) -> dict[str, Any]:
    """The encoder's config.json as that of the model on top of it, and the files that stand beside it."""
    if isinstance(model, BertEmbedder):
        sentence.write(directory, model)
    return {**_with_head(table, model), "pad_token_id": tokenizer.pad}


def _with_head(table: dict[str, Any], model: Any) -> dict[str, Any]:
    architecture = next(name for name, found in ARCHITECTURES.items() if found is type(_saved_as(model)))
    if isinstance(model, MaskedBert) and model.follows is not None:
        architecture = "BertForPreTraining"
    if isinstance(model, BertClassifier) and model.form == "choice":
        architecture = "BertForMultipleChoice"
    table = {**table, "architectures": [architecture]}
    if isinstance(model, BertClassifier):
        return label_fields(table, model.names, model.form)
    if isinstance(model, BertTagger):
        return label_fields(table, model.names)
    if isinstance(model, BertAnswerer):
        kept = {"impossible": model.impossible, **({"longest": model.longest} if model.longest else {})}
        return {**table, KEY: {**table.get(KEY, {}), **kept}}
    return table


def _saved_as(model: Any) -> Any:
    return model.body if isinstance(model, BertEmbedder) else model


def write_tensors(model: Any) -> dict[str, Tensor]:
    """Our weights under their names."""
    return {name: view.contiguous() for name, view in views(model).items()}


def read_tensors(model: Any, theirs: Mapping[str, Tensor]) -> None:
    """Loads their weights; a name left over on either side is an error."""
    theirs = _Renamed(theirs)
    own = views(model)
    if isinstance(model, Bert) and any(name.startswith(_PREFIX) for name in theirs):
        own = {_PREFIX + name: view for name, view in own.items()}
    pooled = isinstance(model, Bert) or model.body.pooler is not None
    read_into(own, theirs, "a BERT", _HARMLESS if pooled else _HARMLESS_WITHOUT_POOLER)


class _Renamed(dict):
    """Their weights by today's names, each read when it is asked for."""

    def __init__(self, theirs: Mapping[str, Tensor]):
        super().__init__({_today(name): name for name in theirs})
        self._theirs = theirs

    def __getitem__(self, name: str) -> Tensor:
        return self._theirs[super().__getitem__(name)]


def _today(name: str) -> str:
    for older, newer in _OLDER.items():
        if name.endswith(older):
            return name.removesuffix(older) + newer
    return name


def views(model: Any) -> dict[str, Tensor]:
    """Their names over our weights."""
    if isinstance(model, Bert):
        return _body_views(model)
    if isinstance(model, BertEmbedder):
        return _body_views(model.body)
    found = {_PREFIX + name: view for name, view in _body_views(model.body).items()}
    head = "qa_outputs" if isinstance(model, BertAnswerer) else "classifier"
    for ours, parameter in model.named_parameters():
        place, kind = ours.rpartition(".")[::2]
        if ours == "bias":
            found["cls.predictions.bias"] = parameter.detach()
        elif place == "score":
            found[f"{head}.{kind}"] = parameter.detach()
        elif place in _HEADS:
            found[f"{_HEADS[place]}.{kind}"] = parameter.detach()
    return found


def _body_views(body: Bert) -> dict[str, Tensor]:
    found = {}
    for ours, parameter in body.named_parameters():
        place, kind = ours.rpartition(".")[::2]
        number, _, part = place.removeprefix("blocks.").partition(".")
        if part not in _PARTS:
            found[f"{_WHOLE[place]}.{kind}"] = parameter.detach()
            continue
        names = _PARTS[part]
        for name, view in zip(names, parameter.detach().chunk(len(names)), strict=True):
            found[f"encoder.layer.{number}.{name}.{kind}"] = view
    return found
