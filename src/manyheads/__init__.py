"""manyheads: one attention, every Transformer."""

from importlib import import_module
from typing import TYPE_CHECKING

__version__ = "0.1.0"

if TYPE_CHECKING:
    from manyheads.look.heads import heads_off
    from manyheads.look.lectures import lecture_walk
    from manyheads.look.page import attention_page
    from manyheads.look.record import recorded_attention
    from manyheads.models.bert import Bert, BertConfig
    from manyheads.models.gpt import GPT, GPTConfig
    from manyheads.models.llama import Llama, LlamaConfig
    from manyheads.models.transformer import Transformer, TransformerConfig
    from manyheads.nn.attention import MultiHeadAttention
    from manyheads.nn.cache import Cache
    from manyheads.nn.feedforward import FeedForward, GatedFeedForward
    from manyheads.nn.positions import Alibi, Buckets, Learned, Relative, Rotary, Sinusoidal
    from manyheads.tasks.answer.use import Answerer
    from manyheads.tasks.classify.use import Classifier
    from manyheads.tasks.inside.look import look_inside
    from manyheads.tasks.inside.walk import walk_through
    from manyheads.tasks.language.use import LanguageModel
    from manyheads.tasks.masked.use import Filler
    from manyheads.tasks.similarity.use import Embedder
    from manyheads.tasks.tag.use import Tagger
    from manyheads.tasks.translate.use import Translator
    from manyheads.text.encoder import EncoderTokenizer
    from manyheads.text.language import LanguageTokenizer
    from manyheads.text.tokenizer import Tokenizer

_PLACES = {
    "manyheads.models.bert": ("Bert", "BertConfig"),
    "manyheads.models.gpt": ("GPT", "GPTConfig"),
    "manyheads.models.llama": ("Llama", "LlamaConfig"),
    "manyheads.models.transformer": ("Transformer", "TransformerConfig"),
    "manyheads.nn.attention": ("MultiHeadAttention",),
    "manyheads.nn.cache": ("Cache",),
    "manyheads.nn.feedforward": ("FeedForward", "GatedFeedForward"),
    "manyheads.nn.positions": ("Alibi", "Buckets", "Learned", "Relative", "Rotary", "Sinusoidal"),
    "manyheads.look.heads": ("heads_off",),
    "manyheads.look.lectures": ("lecture_walk",),
    "manyheads.look.page": ("attention_page",),
    "manyheads.look.record": ("recorded_attention",),
    "manyheads.tasks.answer.use": ("Answerer",),
    "manyheads.tasks.classify.use": ("Classifier",),
    "manyheads.tasks.language.use": ("LanguageModel",),
    "manyheads.tasks.inside.look": ("look_inside",),
    "manyheads.tasks.masked.use": ("Filler",),
    "manyheads.tasks.similarity.use": ("Embedder",),
    "manyheads.tasks.tag.use": ("Tagger",),
    "manyheads.tasks.translate.use": ("Translator",),
    "manyheads.tasks.inside.walk": ("walk_through",),
    "manyheads.text.encoder": ("EncoderTokenizer",),
    "manyheads.text.language": ("LanguageTokenizer",),
    "manyheads.text.tokenizer": ("Tokenizer",),
}
__all__ = [
    "GPT",
    "Alibi",
    "Answerer",
    "Bert",
    "BertConfig",
    "Buckets",
    "Cache",
    "Classifier",
    "Embedder",
    "EncoderTokenizer",
    "FeedForward",
    "Filler",
    "GPTConfig",
    "GatedFeedForward",
    "LanguageModel",
    "LanguageTokenizer",
    "Learned",
    "Llama",
    "LlamaConfig",
    "MultiHeadAttention",
    "Relative",
    "Rotary",
    "Sinusoidal",
    "Tagger",
    "Tokenizer",
    "Transformer",
    "TransformerConfig",
    "Translator",
    "attention_page",
    "heads_off",
    "lecture_walk",
    "look_inside",
    "recorded_attention",
    "walk_through",
]


def __getattr__(name: str):
    """Finds a public name where it lives, on first use: importing manyheads stays quick, and needs no torch."""
    for place, names in _PLACES.items():
        if name in names:
            return getattr(import_module(place), name)
    raise AttributeError(f"module 'manyheads' has no attribute '{name}'")
