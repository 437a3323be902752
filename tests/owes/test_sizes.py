"""What every model owes: as many parameters as published, and a sentence for sizes that cannot be."""

import re
from dataclasses import replace

import pytest
import torch

from manyheads.core.errors import ConfigError
from manyheads.models import bert, birnn, gpt, llama, rnn, transformer
from manyheads.models.bert import Bert, BertAnswerer, BertConfig, MaskedBert
from manyheads.models.birnn import BiRNN, BiRNNConfig
from manyheads.models.gpt import GPT, GPTConfig
from manyheads.models.heads import EncoderClassifier
from manyheads.models.llama import Llama, LlamaConfig
from manyheads.models.rnn import RNN, RNNConfig
from manyheads.models.transformer import Transformer, TransformerConfig, parameters
from manyheads.models.vit import ViT, ViTConfig
from manyheads.nn.positions import PositionsConfig

MODELS = {Transformer: transformer.PRESETS, GPT: gpt.PRESETS, Llama: llama.PRESETS, Bert: bert.PRESETS}
MODELS |= {RNN: rnn.PRESETS, BiRNN: birnn.PRESETS}
PUBLISHED = {
    GPT: {
        "gpt1": (40_478, 116_534_784),
        "gpt2_small": (50_257, 124_439_808),
        "gpt2_medium": (50_257, 354_823_168),
        "gpt2_large": (50_257, 774_030_080),
        "gpt2_xl": (50_257, 1_557_611_200),
    },
    Llama: {
        "llama2_7b": (32_000, 6_738_415_616),
        "llama3_8b": (128_256, 8_030_261_248),
        "llama_small": (49_152, 134_515_008),
    },
    Bert: {
        "bert_tiny": (30_522, 4_385_920),
        "bert_mini": (30_522, 11_170_560),
        "bert_small": (30_522, 28_763_648),
        "bert_medium": (30_522, 41_373_184),
        "bert_base": (30_522, 109_482_240),
        "bert_large": (30_522, 335_141_888),
    },
}
ABOUT = {  # within a share of it
    Transformer: {"transformer_base": (37_000, 65e6, 0.04), "transformer_big": (37_000, 213e6, 0.04)},
    GPT: {
        **{"gpt3_small": (50_257, 125e6, 0.02), "gpt3_medium": (50_257, 350e6, 0.02)},
        **{"gpt3_large": (50_257, 760e6, 0.02), "gpt3_xl": (50_257, 1.3e9, 0.02), "gpt3_2_7b": (50_257, 2.7e9, 0.02)},
        **{"gpt3_6_7b": (50_257, 6.7e9, 0.02), "gpt3_13b": (50_257, 13e9, 0.02), "gpt3_175b": (50_257, 175e9, 0.02)},
    },
}
MADE_FOR_LESS = {
    *("transformer_small", "transformer_tiny", "transformer_decoder", "gpt2_tiny", "gpt2_baby"),
    *("llama_tiny", "llama_baby", *rnn.PRESETS, *birnn.PRESETS),
}


def each_of(table: dict):
    rows = [(model, preset, *counted) for model, presets in table.items() for preset, counted in presets.items()]
    return [pytest.param(*row, id=row[1]) for row in rows]


def size(model: type, preset: str, vocabulary: int, **changes) -> int:
    with torch.device("meta"):
        return parameters(model(replace(MODELS[model][preset](), vocabulary=vocabulary, **changes)))


@pytest.mark.parametrize(("model", "preset", "vocabulary", "published"), each_of(PUBLISHED))
def test_parameters_are_as_many_as_published_to_the_last_one(model, preset, vocabulary, published):
    assert size(model, preset, vocabulary) == published
    if model is not Bert:  # and it is the tied one, or the untied one, that is published
        config = MODELS[model][preset]()
        other = size(model, preset, vocabulary, tied=not config.tied)
        assert abs(other - published) == vocabulary * config.width


@pytest.mark.parametrize(("model", "preset", "vocabulary", "published", "share"), each_of(ABOUT))
def test_parameters_are_about_as_many_as_the_table_of_the_paper_says(model, preset, vocabulary, published, share):
    assert size(model, preset, vocabulary) == pytest.approx(published, rel=share)
    if model is Transformer:
        assert size(model, preset, vocabulary, tied=False) != pytest.approx(published, rel=share)
    else:
        assert (MODELS[model][preset]().context, MODELS[model][preset]().dropout) == (2048, 0.0)


@pytest.mark.parametrize(
    ("model", "preset"), [pytest.param(model, name, id=name) for model, presets in MODELS.items() for name in presets]
)
def test_a_docstring_counts_the_parameters_that_its_vocabulary_gives(model, preset):
    said = MODELS[model][preset].__doc__
    counts = re.findall(r"([\d.]+) (million|billion) parameters with ([\d,]+) tokens", said)
    assert len(counts) == len(re.findall("million|billion", said)), "a count without its vocabulary"
    assert bool(counts) == (preset not in MADE_FOR_LESS)
    for number, unit, vocabulary in counts:
        digits = len(number.partition(".")[2])
        found = size(model, preset, int(vocabulary.replace(",", ""))) / {"million": 1e6, "billion": 1e9}[unit]
        assert f"{found:.{digits}f}" == number


def test_every_preset_is_counted_or_made_for_less():
    counted = {preset for table in (PUBLISHED, ABOUT) for presets in table.values() for preset in presets}
    assert {preset for presets in MODELS.values() for preset in presets} == counted | MADE_FOR_LESS


@pytest.mark.parametrize("model", MODELS)
def test_presets_build(model):
    for preset in MODELS[model].values():
        with torch.device("meta"):
            ids = torch.ones(2, 5, dtype=torch.long)
            config = replace(preset(), vocabulary=101, layers=2)
            found = model(config)(*((ids[:, :3], ids) if model is Transformer else (ids,)))
        assert found.shape == (2, 5, config.width if model in (Bert, BiRNN) else 101)


def test_berts_heads_are_as_large_as_published_and_share_the_embedding():
    config = replace(bert.PRESETS["bert_base"](), vocabulary=30_522)
    with torch.device("meta"):
        assert parameters(MaskedBert(config)) == 109_514_298
        assert parameters(MaskedBert(config, next_sentence=True)) == 110_106_428
        assert parameters(EncoderClassifier(Bert(config), ("no", "yes"))) == 109_482_240 + 2 * 768 + 2
        assert parameters(BertAnswerer(Bert(config, pooler=False))) == 108_893_186


def test_the_published_sizes_of_the_transformer_are_those_of_table_3():
    base, big = (transformer.PRESETS[name]() for name in ("transformer_base", "transformer_big"))
    assert (base.layers, base.width, base.inner, base.heads, base.dropout) == (6, 512, 2048, 8, 0.1)
    assert (big.layers, big.width, big.inner, big.heads, big.dropout) == (6, 1024, 4096, 16, 0.3)
    assert base.norm_order == "post"
    assert base.attention_dropout == base.inner_dropout == 0.0


# What cannot be: a config alone refuses the first, a model that is made of it the second.

SIZES = {"vocabulary": 17, "width": 12, "layers": 2, "heads": 3, "inner": 14}
CONFIGS = {
    Transformer: TransformerConfig(**SIZES),
    GPT: GPTConfig(**SIZES, context=11),
    Llama: LlamaConfig(**{**SIZES, "width": 24, "heads": 6}, key_value_heads=2, context=11),
    Bert: BertConfig(**SIZES, context=11),
    RNN: RNNConfig(vocabulary=23, width=12),
    BiRNN: BiRNNConfig(vocabulary=23, width=12),
    ViT: ViTConfig(image_size=9, patch_size=3, width=12, layers=2, heads=3, inner=14),
}
OF_ANY = [
    ({"heads": 5}, r"width \d+ does not split over 5 heads; the nearest that does is \d0"),
    ({"layers": 0}, "model.layers is 0; it must be at least 1"),
    ({"inner": 0}, "model.inner is 0; it must be at least 1"),
    ({"dropout": 1.0}, "model.dropout is 1.0; it must be at least 0 and below 1"),
]
REFUSED = {
    RNN: [
        *OF_ANY[1:2],
        *OF_ANY[3:],
        ({"unrolled": 0}, "model.unrolled is 0; it must be at least 1"),
        ({"cell": "grid"}, "model.cell is 'grid'; it can be elman, gru, lstm"),
    ],
    BiRNN: [
        *OF_ANY[1:2],
        *OF_ANY[3:],
        ({"context": 0}, "model.context is 0; it must be at least 1"),
        ({"embedding_width": 0}, "model.embedding_width is 0; it must be at least 1"),
        ({"width": 7}, "model.width is 7, which does not split over two directions; take 8"),
        ({"cell": "grid"}, "model.cell is 'grid'; it can be elman, gru, lstm"),
    ],
    Transformer: [
        ({"decoder_layers": 0}, "model.decoder_layers is 0; it must be at least 1"),
        ({"key_value_heads": -1}, "model.key_value_heads is -1"),
        ({"value_width": 0}, "model.value_width is 0"),
        ({"norm_order": "mid"}, "model.norm_order is 'mid'; it can be post or pre"),
    ],
    GPT: [
        ({"heads": 16}, "width 12 does not split over 16 heads; the nearest that does is 16"),
        ({"context": 0}, "model.context is 0; it must be at least 1"),
        ({"norm_order": "mid"}, "model.norm_order is 'mid'; it can be post or pre"),
        ({"attention_dropout": -0.1}, "model.attention_dropout is -0.1"),
        *(({name: 0}, f"model.{name} is 0; it must be at least 1") for name in ("key_width", "value_width")),
        ({"inner_dropout": float("nan")}, "model.inner_dropout is nan"),
    ],
    Llama: [
        ({"key_value_heads": 0}, "model.key_value_heads is 0; it must be at least 1"),
        ({"key_width": -4}, "model.key_width is -4"),
        ({"context": 0}, "model.context is 0"),
    ],
    Bert: [
        ({"context": 0}, "model.context is 0; it must be at least 1"),
        ({"segments": 0}, "model.segments is 0; it must be at least 1"),
        ({"width": 0}, "model.width is 0; it must be at least 1"),
        ({"heads": 0}, "model.heads is 0; it must be at least 1"),
        ({"attention_dropout": float("nan")}, "model.attention_dropout is nan"),
        ({"activation": "tanhh"}, "model.activation is 'tanhh'; it can be relu, gelu, gelu_tanh"),
        *(({name: 0}, f"model.{name} is 0; it must be at least 1") for name in ("key_width", "value_width")),
        (
            {"positions": PositionsConfig(kind="rotary", scaling="dynamic_ntk", factor=2.0)},
            "model.positions.scaling is dynamic_ntk, with which .* others of its batch are; use ntk or yarn",
        ),
    ],
    ViT: [
        *(
            ({name: 0}, f"model.{name} is 0; it must be at least 1")
            for name in ("image_size", "patch_size", "channels", "width", "heads")
        ),
        ({"attention_dropout": 1.0}, "model.attention_dropout is 1.0; it must be at least 0 and below 1"),
        ({"epsilon": float("nan")}, "model.epsilon is nan"),
        ({"activation": "swiglu"}, "model.activation is 'swiglu'; it can be relu, gelu, gelu_tanh, silu"),
        (
            {"positions": PositionsConfig(kind="rotary")},
            "model.positions.kind is rotary; of patches it can be learned, sinusoidal, none",
        ),
    ],
}
UNKNOWN = "model.vocabulary is 0; a model needs to know how many tokens there are"
UNBUILDABLE = {
    RNN: [],
    BiRNN: [],
    Transformer: [
        ({"activation": "tanhh"}, "tanhh"),
        ({"norm": "batch"}, "no norm is called 'batch'; choose layer or rms"),
        ({"key_value_heads": 2}, "3 heads do not share 2 keys and values evenly"),
    ],
    GPT: [
        ({"activation": "tanhh"}, "no activation is called 'tanhh'"),
        ({"norm": "batch"}, "no norm is called 'batch'; choose layer or rms"),
        ({"heads": 4, "positions": PositionsConfig(kind="rotary")}, "head width 3 is odd"),
    ],
    Llama: [
        ({"key_value_heads": 4}, "6 heads do not share 4 keys and values evenly"),
        ({"key_value_heads": 12}, "6 heads do not share 12 keys and values evenly"),
        ({"heads": 8, "key_value_heads": 2}, "head width 3 is odd"),
    ],
    Bert: [({"heads": 4, "positions": PositionsConfig(kind="rotary")}, "head width 3 is odd")],
    ViT: [
        ({"image_size": 10}, "a side of 10 pixels does not split into patches of 3; the nearest that does is 9"),
        ({"patch_size": 10}, "a side of 9 pixels does not split into patches of 10; the nearest that does is 10"),
    ],
}


@pytest.mark.parametrize(
    ("model", "change", "sentence"),
    [(model, *row) for model in CONFIGS for row in (*(OF_ANY if model not in (RNN, BiRNN) else ()), *REFUSED[model])],
)
def test_sizes_that_cannot_be_are_refused_in_a_sentence(model, change, sentence):
    with pytest.raises(ConfigError, match=sentence) as refused:
        replace(CONFIGS[model], **change)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("model", "change", "sentence"),
    [
        (model, *row)
        for model in CONFIGS
        for row in (*([({"vocabulary": 0}, UNKNOWN)] if model in MODELS else []), *UNBUILDABLE[model])
    ],
)
def test_parts_that_cannot_be_are_refused_in_a_sentence(model, change, sentence):
    with pytest.raises(ConfigError, match=sentence):
        model(replace(CONFIGS[model], **change))
    model(CONFIGS[model])  # and without the change it can be
