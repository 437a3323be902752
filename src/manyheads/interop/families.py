"""FAMILIES: every family of models that a directory can hold, and all that is needed to write and open one."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from manyheads.data.image_text import ImageTextProcessor
from manyheads.data.images import ImageProcessor
from manyheads.interop.bert import BertNames
from manyheads.interop.foreign import Foreign
from manyheads.interop.gpt import GPTNames
from manyheads.interop.llama import LlamaNames
from manyheads.interop.marian import MarianNames
from manyheads.interop.own import OwnClassifier, OwnDecoder, OwnEncoder, OwnModel
from manyheads.interop.vision_encoder_decoder import VisionEncoderDecoderNames
from manyheads.interop.vit import ViTNames
from manyheads.models.bag import BagClassifier, BagConfig
from manyheads.models.bert import Bert, BertAnswerer, BertConfig, MaskedBert
from manyheads.models.birnn import BiRNN, BiRNNConfig
from manyheads.models.classifier import DecoderClassifier
from manyheads.models.conv import ByteNet, ByteNetConfig, ConvSeq2Seq, ConvSeq2SeqConfig
from manyheads.models.gpt import GPT, GPTConfig
from manyheads.models.heads import EncoderClassifier, EncoderTagger
from manyheads.models.lexicon import LexiconClassifier, LexiconConfig
from manyheads.models.llama import Llama, LlamaConfig
from manyheads.models.parser import SpanParser
from manyheads.models.rnn import RNN, RNNConfig
from manyheads.models.rnn_translator import RNNTranslator, RNNTranslatorConfig
from manyheads.models.transformer import Transformer, TransformerConfig
from manyheads.models.vectors import WordVectorsConfig, WordVectorsModel
from manyheads.models.vision_encoder_decoder import (
    VisionEncoderDecoder,
    VisionEncoderDecoderConfig,
    VisionQuestionDecoder,
)
from manyheads.models.vit import ViT, ViTClassifier, ViTConfig
from manyheads.text.encoder import EncoderTokenizer
from manyheads.text.language import LanguageTokenizer
from manyheads.text.tokenizer import Tokenizer
from manyheads.text.words import WordTokenizer


class Processor(Protocol):
    """What makes ids of texts, or whatever else a model takes of what its user has; `length` is how much at once."""

    @classmethod
    def load(cls, path: Path) -> Any: ...
    def save(self, directory: Path, length: int | None = None) -> None: ...


@dataclass(frozen=True, kw_only=True)
class Family:
    """Models of ours that share a body, and all that a directory of one needs."""

    model: type
    """The body."""
    config: type
    foreign: Foreign
    processor: type[Processor]
    kinds: dict[type, str]
    """What each of its models is for."""
    known_as: str
    own: dict[str, Any]
    """How a config.json begins where no foreign type can express a variant."""

    @property
    def types(self) -> tuple[str, ...]:
        return (*self.foreign.TYPES, self.own["model_type"])


FAMILIES = (
    Family(
        model=Transformer,
        config=TransformerConfig,
        foreign=MarianNames(),
        processor=Tokenizer,
        kinds={Transformer: "translator"},
        known_as="Marian",
        own={"model_type": "manyheads-transformer", "is_encoder_decoder": True},
    ),
    Family(
        model=GPT,
        config=GPTConfig,
        foreign=GPTNames(),
        processor=LanguageTokenizer,
        kinds={GPT: "language model", DecoderClassifier: "classifier"},
        known_as="GPT-2, GPT-1",
        own={"model_type": "manyheads-gpt", "is_encoder_decoder": False},
    ),
    Family(
        model=Llama,
        config=LlamaConfig,
        foreign=LlamaNames(),
        processor=LanguageTokenizer,
        kinds={Llama: "language model", DecoderClassifier: "classifier"},
        known_as="Llama",
        own={"model_type": "manyheads-llama", "is_encoder_decoder": False},
    ),
    Family(
        model=RNN,
        config=RNNConfig,
        foreign=OwnDecoder(RNN),
        processor=LanguageTokenizer,
        kinds={RNN: "language model", DecoderClassifier: "classifier"},
        known_as="RNN",
        own={"model_type": "manyheads-rnn", "is_encoder_decoder": False},
    ),
    Family(
        model=ByteNet,
        config=ByteNetConfig,
        foreign=OwnDecoder(ByteNet),
        processor=LanguageTokenizer,
        kinds={ByteNet: "language model", DecoderClassifier: "classifier"},
        known_as="ByteNet",
        own={"model_type": "manyheads-bytenet", "is_encoder_decoder": False},
    ),
    Family(
        model=ConvSeq2Seq,
        config=ConvSeq2SeqConfig,
        foreign=OwnModel(ConvSeq2Seq),
        processor=Tokenizer,
        kinds={ConvSeq2Seq: "translator"},
        known_as="convolutional",
        own={"model_type": "manyheads-conv", "is_encoder_decoder": True},
    ),
    Family(
        model=RNNTranslator,
        config=RNNTranslatorConfig,
        foreign=OwnModel(RNNTranslator),
        processor=Tokenizer,
        kinds={RNNTranslator: "translator"},
        known_as="recurrent",
        own={"model_type": "manyheads-rnn-translator", "is_encoder_decoder": True},
    ),
    Family(
        model=Bert,
        config=BertConfig,
        foreign=BertNames(),
        processor=EncoderTokenizer,
        kinds={
            Bert: "encoder",
            MaskedBert: "masked language model",
            EncoderClassifier: "classifier",
            EncoderTagger: "tagger",
            BertAnswerer: "question answerer",
            SpanParser: "parser",
        },
        known_as="BERT",
        own={"model_type": "manyheads-bert", "is_encoder_decoder": False},
    ),
    Family(
        model=ViT,
        config=ViTConfig,
        foreign=ViTNames(),
        processor=ImageProcessor,
        kinds={ViT: "image encoder", ViTClassifier: "image classifier"},
        known_as="ViT",
        own={"model_type": "manyheads-vit", "is_encoder_decoder": False},
    ),
    Family(
        model=VisionEncoderDecoder,
        config=VisionEncoderDecoderConfig,
        foreign=VisionEncoderDecoderNames(),
        processor=ImageTextProcessor,
        kinds={
            VisionEncoderDecoder: "captioner",
            VisionQuestionDecoder: "answerer of questions about images",
        },
        known_as="VisionEncoderDecoder of ViT and Marian",
        own={"model_type": "manyheads-vision-encoder-decoder", "is_encoder_decoder": True},
    ),
    Family(
        model=BiRNN,
        config=BiRNNConfig,
        foreign=OwnEncoder(BiRNN),
        processor=EncoderTokenizer,
        kinds={BiRNN: "encoder", EncoderClassifier: "classifier", EncoderTagger: "tagger"},
        known_as="BiRNN",
        own={"model_type": "manyheads-birnn", "is_encoder_decoder": False},
    ),
    Family(
        model=BagClassifier,
        config=BagConfig,
        foreign=OwnClassifier(BagClassifier),
        processor=WordTokenizer,
        kinds={BagClassifier: "classifier"},
        known_as="bag of words",
        own={"model_type": "manyheads-bag", "is_encoder_decoder": False},
    ),
    Family(
        model=LexiconClassifier,
        config=LexiconConfig,
        foreign=OwnClassifier(LexiconClassifier),
        processor=WordTokenizer,
        kinds={LexiconClassifier: "classifier"},
        known_as="lexicon",
        own={"model_type": "manyheads-lexicon", "is_encoder_decoder": False},
    ),
    Family(
        model=WordVectorsModel,
        config=WordVectorsConfig,
        foreign=OwnModel(WordVectorsModel),
        processor=WordTokenizer,
        kinds={WordVectorsModel: "set of word vectors"},
        known_as="word vectors",
        own={"model_type": "manyheads-vectors", "is_encoder_decoder": False},
    ),
)


def kinds_on(*bodies: type) -> tuple[type, ...]:
    """Every kind of model that stands on one of these bodies."""
    return tuple(kind for family in FAMILIES if family.model in bodies for kind in family.kinds)


ENCODERS = kinds_on(Bert)
