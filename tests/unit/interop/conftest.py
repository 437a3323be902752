"""One model directory of each kind, and copies to change."""

import shutil

import pytest
from helpers import encoder_tokenizer, language_tokenizer, translation_tokenizer, unsealed

from manyheads.data.images import ImageProcessor
from manyheads.interop.directory import save_model
from manyheads.models.bert import Bert, BertAnswerer, BertConfig, BertEmbedder, MaskedBert
from manyheads.models.classifier import DecoderClassifier
from manyheads.models.gpt import GPT, GPTConfig
from manyheads.models.heads import EncoderClassifier, EncoderTagger
from manyheads.models.llama import Llama, LlamaConfig
from manyheads.models.transformer import Transformer, TransformerConfig
from manyheads.models.vit import ViT, ViTClassifier, ViTConfig


@pytest.fixture(scope="session")
def directories(tmp_path_factory):
    """One directory of each kind."""
    folder = tmp_path_factory.mktemp("models")
    words, pieces, marked = language_tokenizer(), translation_tokenizer(), encoder_tokenizer()
    sizes = {"vocabulary": len(words), "width": 12, "layers": 1, "heads": 3, "end": words.end}
    ends = {"pad": pieces.pad, "start": pieces.start, "end": pieces.end}
    body = {"vocabulary": len(pieces), "width": 12, "layers": 1, "heads": 3, "inner": 17}
    bert = BertConfig(**body, context=7)
    vit = ViT(ViTConfig(image_size=9, patch_size=3, width=12, layers=1, heads=3, inner=17))
    models = {
        "translator": (Transformer(TransformerConfig(**body, **ends)), pieces),
        "gpt": (GPT(GPTConfig(**sizes, context=7)), words),
        "llama": (Llama(LlamaConfig(**sizes, context=7)), words),
        "own": (GPT(GPTConfig(**sizes, context=7, norm="rms")), words),
        "classifier": (DecoderClassifier(GPT(GPTConfig(**sizes, context=7)), ("no", "yes")), words),
        "encoder": (Bert(bert), marked),
        "masked": (MaskedBert(bert), marked),
        "bert classifier": (EncoderClassifier(Bert(bert), ("no", "yes")), marked),
        "tagger": (EncoderTagger(Bert(bert, pooler=False), ("no", "yes")), marked),
        "answerer": (BertAnswerer(Bert(bert, pooler=False)), marked),
        "image classifier": (ViTClassifier(vit, ("no", "yes")), ImageProcessor.of(9, 3)),
        "embedder": (BertEmbedder(Bert(bert, pooler=False)), marked),
    }
    for name, (model, tokenizer) in models.items():
        save_model(folder / name, model, tokenizer, "# A model\n")
    return folder


@pytest.fixture
def copied(directories, tmp_path):
    def copy(name):
        return unsealed(shutil.copytree(directories / name, tmp_path / name))

    return copy
