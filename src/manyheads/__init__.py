"""manyheads: one attention, every Transformer.

A trained model is opened from its directory, a run or a checkpoint of transformers, and called:

    from manyheads import Translator

    translator = Translator.load("runs/mine")
    translator.translate(["the cat danced"])

Translator, LanguageModel, Classifier, Tagger, Parser, Embedder, Filler, Answerer, WordVectors and, for images,
ImageClassifier, Captioner and ImageAnswerer are such models, ready to use; look_inside and walk_through show what they
do with what they read; recorded_attention and heads_off are for any model. Transformer, GPT, Llama, Bert and ViT are
the models themselves, from their …Config, and MultiHeadAttention, Cache, FeedForward, Rotary and the other positions
what they are made of. help(manyheads.Translator) says more of each.
"""

from importlib import import_module
from typing import TYPE_CHECKING

__version__ = "0.1.0"

if TYPE_CHECKING:
    from manyheads.look.heads import heads_off as heads_off
    from manyheads.look.lectures import lecture_walk as lecture_walk
    from manyheads.look.page import attention_page as attention_page
    from manyheads.look.record import recorded_attention as recorded_attention
    from manyheads.models.bert import Bert as Bert
    from manyheads.models.bert import BertConfig as BertConfig
    from manyheads.models.gpt import GPT as GPT
    from manyheads.models.gpt import GPTConfig as GPTConfig
    from manyheads.models.llama import Llama as Llama
    from manyheads.models.llama import LlamaConfig as LlamaConfig
    from manyheads.models.transformer import Transformer as Transformer
    from manyheads.models.transformer import TransformerConfig as TransformerConfig
    from manyheads.models.vit import ViT as ViT
    from manyheads.models.vit import ViTConfig as ViTConfig
    from manyheads.nn.attention import MultiHeadAttention as MultiHeadAttention
    from manyheads.nn.cache import Cache as Cache
    from manyheads.nn.layers import FeedForward as FeedForward
    from manyheads.nn.layers import GatedFeedForward as GatedFeedForward
    from manyheads.nn.positions import Alibi as Alibi
    from manyheads.nn.positions import Buckets as Buckets
    from manyheads.nn.positions import Learned as Learned
    from manyheads.nn.positions import Relative as Relative
    from manyheads.nn.positions import Rotary as Rotary
    from manyheads.nn.positions import Sinusoidal as Sinusoidal
    from manyheads.tasks.answer.use import Answerer as Answerer
    from manyheads.tasks.ask.use import ImageAnswerer as ImageAnswerer
    from manyheads.tasks.brackets.use import BracketParser as BracketParser
    from manyheads.tasks.caption.use import Captioner as Captioner
    from manyheads.tasks.classify.use import Classifier as Classifier
    from manyheads.tasks.images.use import ImageClassifier as ImageClassifier
    from manyheads.tasks.inside.look import look_inside as look_inside
    from manyheads.tasks.inside.walk import walk_through as walk_through
    from manyheads.tasks.language.use import LanguageModel as LanguageModel
    from manyheads.tasks.masked.use import Filler as Filler
    from manyheads.tasks.parse.use import Parser as Parser
    from manyheads.tasks.similarity.use import Embedder as Embedder
    from manyheads.tasks.tag.use import Tagger as Tagger
    from manyheads.tasks.translate.use import Translator as Translator
    from manyheads.tasks.vectors.use import WordVectors as WordVectors
    from manyheads.text.encoder import EncoderTokenizer as EncoderTokenizer
    from manyheads.text.language import LanguageTokenizer as LanguageTokenizer
    from manyheads.text.tokenizer import Tokenizer as Tokenizer

_PLACES = {
    "manyheads.models.bert": ("Bert", "BertConfig"),
    "manyheads.models.gpt": ("GPT", "GPTConfig"),
    "manyheads.models.llama": ("Llama", "LlamaConfig"),
    "manyheads.models.transformer": ("Transformer", "TransformerConfig"),
    "manyheads.models.vit": ("ViT", "ViTConfig"),
    "manyheads.nn.attention": ("MultiHeadAttention",),
    "manyheads.nn.cache": ("Cache",),
    "manyheads.nn.layers": ("FeedForward", "GatedFeedForward"),
    "manyheads.nn.positions": ("Alibi", "Buckets", "Learned", "Relative", "Rotary", "Sinusoidal"),
    "manyheads.look.heads": ("heads_off",),
    "manyheads.look.lectures": ("lecture_walk",),
    "manyheads.look.page": ("attention_page",),
    "manyheads.look.record": ("recorded_attention",),
    "manyheads.tasks.answer.use": ("Answerer",),
    "manyheads.tasks.ask.use": ("ImageAnswerer",),
    "manyheads.tasks.caption.use": ("Captioner",),
    "manyheads.tasks.classify.use": ("Classifier",),
    "manyheads.tasks.images.use": ("ImageClassifier",),
    "manyheads.tasks.language.use": ("LanguageModel",),
    "manyheads.tasks.inside.look": ("look_inside",),
    "manyheads.tasks.masked.use": ("Filler",),
    "manyheads.tasks.brackets.use": ("BracketParser",),
    "manyheads.tasks.parse.use": ("Parser",),
    "manyheads.tasks.similarity.use": ("Embedder",),
    "manyheads.tasks.tag.use": ("Tagger",),
    "manyheads.tasks.translate.use": ("Translator",),
    "manyheads.tasks.vectors.use": ("WordVectors",),
    "manyheads.tasks.inside.walk": ("walk_through",),
    "manyheads.text.encoder": ("EncoderTokenizer",),
    "manyheads.text.language": ("LanguageTokenizer",),
    "manyheads.text.tokenizer": ("Tokenizer",),
}
__all__ = sorted(name for names in _PLACES.values() for name in names)  # pyright: ignore[reportUnsupportedDunderAll]


def __dir__() -> list[str]:
    return [*__all__, "__version__"]


def __getattr__(name: str):
    """Finds a public name where it lives, on first use: importing manyheads stays quick, and needs no torch."""
    for place, names in _PLACES.items():
        if name in names:
            return getattr(import_module(place), name)
    raise AttributeError(f"module 'manyheads' has no attribute '{name}'")
