"""Every family with its heads at tiny, odd sizes: how one is made, and how it is given rows of different lengths."""

from collections.abc import Callable
from dataclasses import replace
from itertools import product
from typing import ClassVar

import pytest
import torch
from helpers import SCALINGS, padded_on_a_gpu, positions, randomised
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from manyheads.models import vision_encoder_decoder as vision
from manyheads.models.bag import BagClassifier, BagConfig
from manyheads.models.bert import Bert, BertAnswerer, BertConfig, BertEmbedder, MaskedBert
from manyheads.models.birnn import BiRNN, BiRNNConfig
from manyheads.models.classifier import DecoderClassifier
from manyheads.models.conv import ByteNet, ByteNetConfig, ConvSeq2Seq, ConvSeq2SeqConfig
from manyheads.models.gpt import GPT, GPTConfig
from manyheads.models.heads import EncoderClassifier, EncoderTagger
from manyheads.models.llama import Llama, LlamaConfig
from manyheads.models.parser import SpanParser
from manyheads.models.rnn import RNN, RNNConfig
from manyheads.models.rnn_translator import DECODERS as SEEN
from manyheads.models.rnn_translator import RNNTranslator, RNNTranslatorConfig
from manyheads.models.transformer import Transformer, TransformerConfig
from manyheads.models.vit import ViT, ViTClassifier, ViTConfig
from manyheads.nn.positions import KINDS

NO_DROPOUT = {"dropout": 0.0, "attention_dropout": 0.0}
TRANSFORMER = TransformerConfig(vocabulary=23, width=12, layers=2, decoder_layers=3, heads=3, inner=14, dropout=0.0)
TRANSFORMER = replace(TRANSFORMER, pad=0, start=0, end=1)
GPT_2 = GPTConfig(vocabulary=23, context=11, width=12, layers=2, heads=3, inner=14, end=1, **NO_DROPOUT)
LLAMA = LlamaConfig(vocabulary=23, context=11, width=24, layers=2, heads=6, key_value_heads=2, inner=14, end=1)
PAIRS = RNNTranslatorConfig(vocabulary=23, width=12, layers=2, dropout=0.0)
LSTM = RNNConfig(vocabulary=23, width=12, layers=2, dropout=0.0, end=1)
BERT = BertConfig(vocabulary=23, context=11, segments=3, width=12, layers=2, heads=3, inner=14, separator=2)
BERT = replace(BERT, **NO_DROPOUT)
BAG = BagConfig(vocabulary=23, ngrams=1, hidden=13, dropout=0.0)
VIT = ViTConfig(image_size=9, patch_size=3, channels=2, width=12, layers=2, heads=3, inner=14)
CAPTIONER = {**vars(VIT), "positions": positions("sinusoidal"), "vocabulary": 23, "decoder_layers": 3}
CAPTIONER = vision.VisionEncoderDecoderConfig(**CAPTIONER)
BILSTM = BiRNNConfig(vocabulary=23, width=12, embedding_width=7, layers=2, dropout=0.0)
NAMES = ("a", "b", "c", "d", "e")
UNEVEN = {"heads": 5, "key_width": 6, "value_width": 3}  # heads that do not split the width


def in_one(rows: list[list[int]], fill: int) -> Tensor:
    return pad_sequence([torch.tensor(row) for row in rows], batch_first=True, padding_value=fill)


def drawn(rows: list[list[int]]) -> Tensor:
    """Images whose patches follow from a number each."""
    shades = torch.sin(torch.arange(1, 1 + VIT.channels * VIT.patch_size**2) * torch.tensor(rows)[:, :, None])
    return nn.functional.fold(shades.transpose(1, 2), VIT.image_size, VIT.patch_size, stride=VIT.patch_size)


class Decoding:
    """Ids in, a vector for each next token out."""

    rows: ClassVar = [[5, 9, 3, 8], [7, 2, 16, 11, 6, 1, 13], [3, 12, 9, 9, 4]]
    fills = (4, 19)

    def __init__(self, model: nn.Module):
        self.model = model

    def each(self, rows: list[list[int]], fill: int = 4) -> list[Tensor]:
        """What each row gives in one batch: a vector for each of its outputs."""
        return [found[: len(row)] for found, row in zip(self.model(in_one(rows, fill)), rows)]

    def with_padding_seen(self, rows: list[list[int]]) -> list[Tensor]:
        """The same where padding counts as text: here where it stands before it."""
        flipped = in_one([row[::-1] for row in rows], 4).flip(1)
        return [found[-len(row) :] for found, row in zip(self.model(flipped), rows)]

    def sees(self, length: int) -> Tensor:
        """Which outputs of a row, the columns, each of its ids has a say in."""
        return torch.ones(length, length).triu().bool()

    def stepping(self) -> tuple[Callable[..., Tensor], Tensor]:
        """A function of ids and a cache, and ids."""
        return self.model, torch.tensor([[5, 9, 3, 8, 4, 1, 2], [7, 2, 16, 11, 6, 1, 13]])


class Translating(Decoding):
    """Sources, each with five ids of a target behind it, in; a vector for each next token of the target out."""

    rows: ClassVar = [[5, 9, 3, 1, *(0, 6, 4, 12, 15)], [7, 2, 8, 4, 6, 1, *(0, 3, 3, 9, 2)], [8, 1, *(0, 2, 11, 8, 5)]]
    fills = (0,)

    def source(self, rows: list[list[int]], fill: int = 0) -> tuple[Tensor, ...]:
        return (in_one([row[:-5] for row in rows], fill),)

    def each(self, rows: list[list[int]], fill: int = 0) -> list[Tensor]:
        return list(self.model(*self.source(rows, fill), torch.tensor([row[-5:] for row in rows])))

    def with_padding_seen(self, rows: list[list[int]]) -> list[Tensor]:
        return self.each(rows, fill=4)

    def sees(self, length: int) -> Tensor:
        return torch.cat([torch.ones(length - 5, 5), torch.ones(5, 5).triu()]).bool()

    def stepping(self) -> tuple[Callable[..., Tensor], Tensor]:
        (memory, mask), target = self.model.encode(*self.source(self.rows)), [row[-5:] for row in self.rows]
        return lambda ids, cache=None: self.model.decode(ids, memory, mask, cache), torch.tensor(target)


class Encoding(Decoding):
    """Ids and lengths in, a vector for each token or for each row out."""

    # Of one, two and three texts, and two rows of one length, which are packed together.
    rows: ClassVar = [[1, 9, 2, 8, 2], [1, 7, 2, 11, 2, 13, 2, 4, 6], [1, 6, 2], [1, 5, 19, 4, 2]]
    fills = (0, 17)

    def each(self, rows: list[list[int]], fill: int = 0, lengths: Tensor | None = None) -> list[Tensor]:
        lengths = torch.tensor([len(row) for row in rows]) if lengths is None else lengths
        found = self.model(in_one(rows, fill), lengths)
        return [each[: len(row)] if each.dim() == 2 else each[None] for each, row in zip(found, rows)]

    def with_padding_seen(self, rows: list[list[int]]) -> list[Tensor]:
        return self.each(rows, lengths=torch.full((len(rows),), max(map(len, rows))))

    def sees(self, length: int) -> Tensor:
        return torch.ones(length, len(self.each([[1] * length])[0])).bool()


class Parsing(Encoding):
    """Ids and lengths in, each id a word but for the first and the last; a vector for each span of two words out."""

    def each(self, rows: list[list[int]], fill: int = 0, lengths: Tensor | None = None) -> list[Tensor]:
        lengths = torch.tensor([len(row) for row in rows]) if lengths is None else lengths
        posts = [torch.arange(len(row) - 1) for row in rows]
        before, behind = (pad_sequence([each + step for each in posts], batch_first=True) for step in (0, 1))
        found = self.model(in_one(rows, fill), lengths, before, behind)
        return [each[range(len(one) - 1), one[1:]] for each, one in zip(found, posts)]


class Counting(Encoding):
    """Words and lengths in, a vector for each row out; id 0 is no word, so that it is never counted."""

    def with_padding_seen(self, rows: list[list[int]]) -> list[Tensor]:
        return self.each(rows, 4, torch.full((len(rows),), max(map(len, rows))))


class Seeing(Encoding):
    """A number for each patch of an image in, which its pixels follow from; a vector for each patch or each row out."""

    rows: ClassVar = [[5, 9, 3, 8, 1, 12, 2, 0, 4], [7, 2, 16, 11, 6, 1, 13, 13, 5], [3, 12, 9, 9, 4, 6, 18, 1, 10]]

    def each(self, rows: list[list[int]], fill: int = 0, lengths: Tensor | None = None) -> list[Tensor]:
        return [each if each.dim() == 2 else each[None] for each in self.model(drawn(rows))]


class Captioning(Translating):
    """Numbers for nine patches, then five ids of a caption in; a vector for each next token of the caption out."""

    rows: ClassVar = [[*seen, *row[-5:]] for seen, row in zip(Seeing.rows, Translating.rows)]

    def source(self, rows: list[list[int]], fill: int = 0) -> tuple[Tensor, ...]:
        return (drawn([row[:9] for row in rows]),)


class Questioning(Captioning):
    """The same with the ids of a question behind the patches."""

    rows: ClassVar = [[*seen, *row] for seen, row in zip(Seeing.rows, Translating.rows)]

    def source(self, rows: list[list[int]], fill: int = 0) -> tuple[Tensor, ...]:
        return *super().source(rows), in_one([row[9:-5] for row in rows], fill)


def transformers():
    every = [*product(KINDS, ("post", "pre"), ("layer", "rms"), ("relu", "swiglu"))]
    every += [(kind, "pre", "layer", "gelu") for kind in SCALINGS]
    for kind, order, norm, activation in every:
        yield {"positions": positions(kind), "norm_order": order, "norm": norm, "activation": activation}
    for change in ({"key_value_heads": 1}, {"key_width": 6, "value_width": 5}, UNEVEN, {"tied": False}):
        yield {"positions": positions("relative"), **change}


def gpts():
    """The wirings of T-D, GPT-1 (post) and GPT-2 (pre), with every kind of positions."""
    yield {"positions": positions("sinusoidal"), "norm_order": "post", "activation": "relu", "scale_embeddings": True}
    for kind, order in product(KINDS, ("post", "pre")):
        yield {"positions": positions(kind), "norm_order": order}
    yield {"positions": positions("learned"), "norm": "rms", "activation": "swiglu", "tied": False}
    yield {"positions": positions("rotary"), "norm_order": "post", "norm": "rms", "activation": "silu", "tied": False}
    yield from ({"positions": positions(kind), "activation": "relu"} for kind in SCALINGS)
    yield from ({"scale_embeddings": True}, {"inner": None}, {"layers": 1, "heads": 6})
    yield from ({"positions": positions(kind), **UNEVEN} for kind in ("learned", "relative", "rotary"))


def berts():
    """An encoder with every kind of positions, and heads of widths of their own."""
    yield from ({"positions": positions(kind)} for kind in (*KINDS, *SCALINGS) if kind != "dynamic_ntk")
    yield from ({"positions": positions(kind), **UNEVEN} for kind in ("learned", "relative", "rotary"))


def llamas():
    yield from ({"positions": positions(kind)} for kind in (*KINDS, *SCALINGS))
    yield from ({"key_value_heads": each} for each in (None, 1, 3))
    yield {"key_width": 10, "tied": True}
    yield {"width": 25, "key_width": 6, "attention_bias": True, "inner": None}


HEADS = {
    "body": lambda: Bert(BERT),
    "words": lambda: MaskedBert(BERT),
    "words and sentences": lambda: MaskedBert(BERT, next_sentence=True),
    "classifier": lambda: EncoderClassifier(Bert(BERT), NAMES),
    "number": lambda: EncoderClassifier(Bert(BERT)),
    "tagger": lambda: EncoderTagger(Bert(BERT, pooler=False), NAMES),
    "answerer": lambda: BertAnswerer(Bert(BERT, pooler=False)),
    **{f"embedder, {each}": lambda each=each: BertEmbedder(Bert(BERT), each) for each in ("mean", "cls", "max")},
}


def named(change: dict) -> str:
    values = {name: getattr(value, "kind", value) for name, value in change.items()}
    scaling = getattr(change.get("positions"), "scaling", "none")
    return " ".join(f"{name}={value}" for name, value in values.items()) + f" {scaling}" * (scaling != "none")


CACHED: dict[str, tuple[Callable[[], nn.Module], type]] = {
    f"{model.__name__} {named(change)}": (lambda m=model, c=config, each=change: m(replace(c, **each)), way)
    for model, config, changes, way in (
        (Transformer, TRANSFORMER, transformers(), Translating),
        (GPT, GPT_2, gpts(), Decoding),
        (Llama, LLAMA, llamas(), Decoding),
        (vision.VisionEncoderDecoder, CAPTIONER, ({}, {"activation": "relu", "decoder_layers": None}), Captioning),
        (vision.VisionQuestionDecoder, CAPTIONER, ({}, {"epsilon": 1e-3, "heads": 1, "inner": None}), Questioning),
    )
    for change in changes
}
DECODERS = {name: each for name, each in CACHED.items() if each[1] is Decoding}
BERTS = {**HEADS, **{named(change): lambda each=change: Bert(replace(BERT, **each)) for change in berts()}}
ENCODERS = {
    **{f"BERT, {name}, packed": (make, Encoding) for name, make in BERTS.items()},
    **{f"BERT, {name}, padded": (lambda make=make: padded_on_a_gpu(make()), Encoding) for name, make in BERTS.items()},
}
PARSERS = {
    f"BERT, parser, {how}": (
        lambda change=change: change(SpanParser(Bert(BERT, pooler=False), NAMES, ("x",), 7)),
        Parsing,
    )
    for how, change in (("packed", lambda model: model), ("padded", padded_on_a_gpu))
}
CLASSIFIERS = {
    "GPT-1, classifier": (lambda: DecoderClassifier(GPT(replace(GPT_2, norm_order="post")), NAMES), Encoding),
    "GPT-2, number": (lambda: DecoderClassifier(GPT(GPT_2)), Encoding),
    "Llama, classifier": (lambda: DecoderClassifier(Llama(LLAMA), NAMES), Encoding),
}
VITS = {
    **{
        f"ViT, {each}": (lambda each=each: ViT(replace(VIT, positions=positions(each))), Seeing)
        for each in ("learned", "sinusoidal", "none")
    },
    "ViT, relu": (lambda: ViT(replace(VIT, activation="relu", epsilon=1e-3)), Seeing),
    "ViT, classifier": (lambda: ViTClassifier(ViT(VIT), NAMES), Seeing),
}
RECURRENT = {
    f"RNN {named(change)}": (lambda each=change: RNN(replace(LSTM, **each)), Decoding)
    for change in ({"cell": "elman"}, {"cell": "gru"}, {"cell": "lstm"}, {"norm": True}, {"tied": False}, {"layers": 1})
}
RECURRENT_TRANSLATORS = {
    f"RNN translator {named(change)}": (lambda each=change: RNNTranslator(replace(PAIRS, **each)), Translating)
    for change in (*({"sees": each} for each in SEEN), {"cell": "lstm"}, {"norm": True, "tied": False}, {"layers": 1})
}
CLASSIFIERS_RECURRENT = {"LSTM, classifier": (lambda: DecoderClassifier(RNN(LSTM), NAMES), Encoding)}
ENCODERS_RECURRENT = {
    **{
        f"BiRNN, {named(change)}": (lambda each=change: BiRNN(replace(BILSTM, **each)), Encoding)
        for change in ({"cell": "elman"}, {"cell": "gru"}, {}, {"norm": True}, {"layers": 1, "embedding_width": None})
    },
    "BiLSTM, classifier": (lambda: EncoderClassifier(BiRNN(BILSTM), NAMES), Encoding),
    "BiLSTM, tagger": (lambda: EncoderTagger(BiRNN(BILSTM), NAMES), Encoding),
}


def made(request):
    torch.manual_seed(1)
    make, way = request.param
    return way(randomised(make()))


def of(families: dict):
    return pytest.fixture(params=families.values(), ids=families.keys())(made)


BYTENET = ByteNetConfig(vocabulary=23, context=11, width=12, layers=2, dilations=(1, 3), dropout=0.0, end=1)
CONV = ConvSeq2SeqConfig(vocabulary=23, width=12, layers=2, dropout=0.0)
CONVOLUTIONAL = {
    **{
        f"ByteNet {named(change)}": (lambda each=change: ByteNet(replace(BYTENET, **each)), Decoding)
        for change in ({"norm": "layer"}, {"norm": "rms", "tied": False})
    },
    **{
        f"ConvSeq2Seq {named(change)}": (lambda each=change: ConvSeq2Seq(replace(CONV, **each)), Translating)
        for change in ({"tied": True}, {"tied": False}, {"positions": positions("sinusoidal")})
    },
    "ByteNet, classifier": (lambda: DecoderClassifier(ByteNet(BYTENET), NAMES), Encoding),
}
# Not the lexicon, which of the words themselves sees only the kinds, nor word vectors, which read no text.
BAGS = {
    f"bag of words {named(change)}": (lambda each=change: BagClassifier(replace(BAG, **each), NAMES), Counting)
    for change in ({"weighting": "counts"}, {"weighting": "tfidf"}, {"layers": 2})
}
BEFORE = {**RECURRENT, **RECURRENT_TRANSLATORS, **CLASSIFIERS_RECURRENT, **ENCODERS_RECURRENT, **CONVOLUTIONAL, **BAGS}
STEPPING = {
    name: each for name, each in BEFORE.items() if "classifier" not in name and each[1] in (Decoding, Translating)
}
# Of recurrent translators with additive attention the scores are no products, which a kernel would compute.
LOOKING = {name: each for name, each in BEFORE.items() if name.startswith("ConvSeq2Seq") or "sees=dot" in name}
attending = of({**CACHED, **ENCODERS, **PARSERS, **CLASSIFIERS, **VITS, **LOOKING})
family = of({**CACHED, **ENCODERS, **PARSERS, **CLASSIFIERS, **VITS, **BEFORE})
cached = of({**CACHED, **STEPPING})
decoder = of(DECODERS)
