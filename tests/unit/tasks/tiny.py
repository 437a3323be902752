"""Tiny models of every kind that a task has: as they are, saved with their tokenizers, and ready to use."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from helpers import encoder_tokenizer, language_tokenizer, randomised, translation_tokenizer, unsealed
from torch import nn

from manyheads.interop.directory import save_model
from manyheads.models.bert import Bert, BertAnswerer, BertConfig, BertEmbedder, MaskedBert
from manyheads.models.classifier import DecoderClassifier
from manyheads.models.gpt import GPT, GPTConfig
from manyheads.models.heads import EncoderClassifier, EncoderTagger
from manyheads.models.llama import Llama, LlamaConfig
from manyheads.models.transformer import Transformer, TransformerConfig
from manyheads.tasks.answer.use import Answerer
from manyheads.tasks.classify.use import Classifier
from manyheads.tasks.language.use import LanguageModel
from manyheads.tasks.masked.use import Filler
from manyheads.tasks.similarity.use import Embedder
from manyheads.tasks.tag.use import Tagger
from manyheads.tasks.translate.use import Translator

TEXT, SECOND = "the dog danced under a cat", "a table sleeps"
NAMES = ("bad", "so so", "good")
LANGUAGE, ENCODER, TRANSLATION = language_tokenizer(), encoder_tokenizer(), translation_tokenizer()
SIZES = {"context": 31, "width": 21, "layers": 2, "heads": 3}


def gpt(**changes) -> GPT:
    return GPT(GPTConfig(**{**SIZES, "vocabulary": len(LANGUAGE), "end": LANGUAGE.end, **changes}))


def llama(**changes) -> Llama:
    sizes = {**SIZES, "vocabulary": len(LANGUAGE), "width": 36, "heads": 6, "key_value_heads": 3, "inner": 37}
    return Llama(LlamaConfig(**{**sizes, "end": LANGUAGE.end, **changes}))


def bert_config(**changes) -> BertConfig:
    return BertConfig(**{**SIZES, "vocabulary": len(ENCODER), "separator": ENCODER.separator, **changes})


def bert(pooler: bool = True, **changes) -> Bert:
    return Bert(bert_config(**changes), pooler=pooler)


def transformer(**changes) -> Transformer:
    special = {"pad": TRANSLATION.pad, "start": TRANSLATION.start, "end": TRANSLATION.end}
    sizes = {"vocabulary": len(TRANSLATION), "width": 21, "layers": 2, "decoder_layers": 3, "heads": 3, "inner": 28}
    return Transformer(TransformerConfig(**{**sizes, **special, **changes}))


MAKERS: dict[str, Callable[..., nn.Module]] = {
    "translator": transformer,
    "gpt": gpt,
    "llama": llama,
    "encoder": bert,
    "masked": lambda **changes: MaskedBert(bert_config(**changes)),
    "classifier": lambda **changes: EncoderClassifier(bert(**changes), NAMES),
    "of pairs": lambda **changes: EncoderClassifier(bert(**changes), NAMES, "pair"),
    "of numbers": lambda **changes: EncoderClassifier(bert(**changes), (), "pair"),
    "of choices": lambda **changes: EncoderClassifier(bert(**changes), (), "choice"),
    "decoder's classifier": lambda **changes: DecoderClassifier(gpt(**changes), NAMES),
    "tagger": lambda **changes: EncoderTagger(bert(pooler=False, **changes), NAMES),
    "answerer": lambda **changes: BertAnswerer(bert(pooler=False, **changes)),
    "embedder": lambda **changes: BertEmbedder(bert(pooler=False, **changes), longest=29),
}
PREDICTORS: dict[str, Any] = {
    **{"translator": Translator, "gpt": LanguageModel, "llama": LanguageModel, "masked": Filler, "tagger": Tagger},
    **dict.fromkeys(["classifier", "of pairs", "of numbers", "of choices", "decoder's classifier"], Classifier),
    **{"answerer": Answerer, "embedder": Embedder, "encoder": Embedder},
}


def made(model: str | nn.Module, scale: float = 0.3, **changes) -> Any:
    """A model, by its name or as it is, whose weights are so large that attention is far from even."""
    torch.manual_seed(8)
    return randomised(MAKERS[model](**changes) if isinstance(model, str) else model, scale)


def tokenizer_of(model: nn.Module) -> Any:
    return {Transformer: TRANSLATION, Bert: ENCODER}.get(type(getattr(model, "body", model)), LANGUAGE)


def ready(name: str, **changes) -> Any:
    model = made(name, **changes)
    return PREDICTORS[name](model, tokenizer_of(model))


def saved(directory: Path, model: nn.Module) -> Path:
    save_model(directory, model.eval(), tokenizer_of(model), "# A model\n")
    return unsealed(directory)
