from dataclasses import replace
from itertools import product
from types import SimpleNamespace

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from manyheads.core.errors import ConfigError
from manyheads.models.transformer import PRESETS, Transformer, TransformerConfig, parameters
from manyheads.nn.attention import MultiHeadAttention
from manyheads.nn.cache import Cache
from manyheads.nn.positions import KINDS, PositionsConfig
from manyheads.ops.attention import reference
from manyheads.train.objectives import translation_loss

PAD, END = 0, 1
SMALL = TransformerConfig(
    vocabulary=17, width=12, layers=2, decoder_layers=3, heads=3, inner=14, dropout=0.0, pad=PAD, start=PAD, end=END
)
SOURCE = torch.tensor([[5, 9, 3, 8, 4, 1], [7, 2, 16, 11, 6, 1]])
TARGET = torch.tensor([[0, 6, 4, 12, 15], [0, 3, 3, 9, 2]])


def positions(kind: str) -> PositionsConfig:
    if kind in ("linear", "ntk", "dynamic_ntk", "yarn"):
        return PositionsConfig(kind="rotary", scaling=kind, factor=2.0, length=16)
    return PositionsConfig(kind=kind, length=16, clip=2, buckets=4, furthest=6)


EVERY = [*product(KINDS, ("post", "pre"), ("layer", "rms"), ("relu", "swiglu"))]
EVERY += [(kind, "pre", "layer", "gelu") for kind in ("linear", "ntk", "dynamic_ntk", "yarn")]


def built(config: TransformerConfig) -> Transformer:
    torch.manual_seed(1)
    model = Transformer(config).eval()
    for parameter in model.parameters():
        if parameter.dim() == 1:  # biases and norms that start at zero and one would hide mistakes
            nn.init.normal_(parameter, mean=float(parameter[0].detach()), std=0.3)
    return model


@pytest.fixture(params=EVERY, ids="-".join)
def model(request):
    kind, order, norm, activation = request.param
    return built(replace(SMALL, positions=positions(kind), norm_order=order, norm=norm, activation=activation))


@pytest.fixture(params=[{"key_value_heads": 1}, {"key_width": 6, "value_width": 5}, {"tied": False}], ids=str)
def variant(request):
    return built(replace(SMALL, positions=positions("relative"), **request.param))


def check_that_nothing_leaks(model):
    changed = TARGET.clone()
    changed[0, 3] += 1
    before, after = model(SOURCE, TARGET), model(SOURCE, changed)
    assert_close(after[:, :3], before[:, :3])
    assert_close(after[1], before[1])
    assert not torch.allclose(after[0, 3:], before[0, 3:])
    changed = SOURCE.clone()
    changed[0, 5] += 1
    assert not torch.allclose(model(changed, TARGET)[0, 0], before[0, 0])  # the source is seen as a whole


def check_that_padding_changes_nothing(model):
    padded = torch.cat([SOURCE, torch.full((2, 3), PAD)], dim=1)
    assert_close(model(padded, TARGET), model(SOURCE, TARGET))
    padded[0, 7] = 5
    assert not torch.allclose(model(padded, TARGET)[0], model(SOURCE, TARGET)[0])


def check_that_pieces_are_the_whole(model):
    memory, mask = model.encode(torch.cat([SOURCE, torch.tensor([[PAD], [5]])], dim=1))
    whole = model.decode(TARGET, memory, mask)
    for pieces in ([1] * 5, [2, 1, 2]):
        cache = Cache(5)
        found = [model.decode(piece, memory, mask, cache) for piece in TARGET.split(pieces, dim=1)]
        assert_close(torch.cat(found, dim=1), whole)
    assert not torch.allclose(model.decode(TARGET[:, 1:], memory, mask), whole[:, 1:])  # without a cache it differs


def check_that_the_kernels_agree(model):
    source = torch.cat([SOURCE, torch.tensor([[PAD], [5]])], dim=1)
    fast = model(source, TARGET)
    for part in model.modules():
        if isinstance(part, MultiHeadAttention):
            part.kernel = reference
    assert_close(model(source, TARGET), fast)


CHECKS = [
    check_that_nothing_leaks,
    check_that_padding_changes_nothing,
    check_that_pieces_are_the_whole,
    check_that_the_kernels_agree,
]


@pytest.mark.parametrize("check", CHECKS)
@torch.no_grad()
def test_every_kind_of_model_keeps_what_it_owes(model, check):
    check(model)


@pytest.mark.parametrize("check", CHECKS)
@torch.no_grad()
def test_every_shape_of_heads_keeps_what_it_owes(variant, check):
    check(variant)


@pytest.mark.parametrize(("preset", "published"), [("transformer_base", 65e6), ("transformer_big", 213e6)])
def test_parameters_are_as_many_as_published(preset, published):
    with torch.device("meta"):
        model = Transformer(replace(PRESETS[preset](), vocabulary=37_000))
    assert abs(parameters(model) / published - 1) < 0.04
    with torch.device("meta"):
        untied = Transformer(replace(PRESETS[preset](), vocabulary=37_000, tied=False))
    assert abs(parameters(untied) / published - 1) > 0.04  # and it is the tied one that the paper counts


def test_sizes_of_the_presets_are_those_of_table_3():
    base, big = PRESETS["transformer_base"](), PRESETS["transformer_big"]()
    assert (base.layers, base.width, base.inner, base.heads, base.dropout) == (6, 512, 2048, 8, 0.1)
    assert (big.layers, big.width, big.inner, big.heads, big.dropout) == (6, 1024, 4096, 16, 0.3)
    assert base.norm_order == "post"
    assert base.attention_dropout == base.inner_dropout == 0.0


@pytest.mark.parametrize("preset", PRESETS)
def test_presets_build(preset):
    with torch.device("meta"):
        model = Transformer(replace(PRESETS[preset](), vocabulary=100))
        assert model(torch.ones(2, 3, dtype=torch.long), torch.ones(2, 5, dtype=torch.long)).shape == (2, 5, 100)


def attention_weights_of(ours: MultiHeadAttention, name: str) -> dict:
    return {
        f"{name}.in_proj_weight": ours.projection.weight,
        f"{name}.in_proj_bias": ours.projection.bias,
        f"{name}.out_proj.weight": ours.output.weight,
        f"{name}.out_proj.bias": ours.output.bias,
    }


def block_weights_of(block) -> dict:
    decodes = hasattr(block, "cross_attention")
    weights = attention_weights_of(block.self_attention, "self_attn")
    norms = [block.self_norm, block.feedforward_norm]
    if decodes:
        weights |= attention_weights_of(block.cross_attention, "multihead_attn")
        norms.insert(1, block.cross_norm)
    parts = {f"norm{number}": norm for number, norm in enumerate(norms, start=1)}
    parts |= {"linear1": block.feedforward.inner, "linear2": block.feedforward.outer}
    return weights | {
        f"{name}.{key}": value for name, part in parts.items() for key, value in part.state_dict().items()
    }


@pytest.mark.parametrize("order", ["post", "pre"])
def test_the_blocks_are_those_of_torch(order):
    model = built(replace(SMALL, norm_order=order))
    options = {"dim_feedforward": 14, "dropout": 0.0, "batch_first": True, "norm_first": order == "pre"}
    theirs = {
        "encoder": nn.TransformerEncoder(
            nn.TransformerEncoderLayer(12, 3, **options), 2, model.encoder.norm, enable_nested_tensor=False
        ),
        "decoder": nn.TransformerDecoder(nn.TransformerDecoderLayer(12, 3, **options), 3, model.decoder.norm),
    }
    for name, stack in theirs.items():
        for block, layer in zip(getattr(model, name).blocks, stack.layers, strict=True):
            layer.load_state_dict(block_weights_of(block))
    source = torch.cat([SOURCE, torch.tensor([[PAD], [5]])], dim=1)
    padding = source == PAD
    memory = theirs["encoder"](model.encoder.embed(source, 0), src_key_padding_mask=padding)
    triangle = torch.ones(5, 5).triu(1).bool()
    embedded = model.decoder.embed(TARGET, 0)
    states = theirs["decoder"](embedded, memory, tgt_mask=triangle, memory_key_padding_mask=padding)
    assert_close(model.states(source, TARGET), states)


def ten_examples():
    generator = torch.Generator().manual_seed(2)
    source, target = (torch.randint(2, 17, (10, length), generator=generator) for length in (5, 6))
    source[:4, 3:], target[:3, 4:] = PAD, PAD
    target[torch.arange(10), (target != PAD).sum(dim=1) - 1] = END
    return SimpleNamespace(source=source, target=target, target_tokens=int((target != PAD).sum()))


@pytest.mark.parametrize(
    ("kind", "order", "norm", "activation", "optimizer"),
    [
        ("sinusoidal", "post", "layer", "relu", torch.optim.Adam),
        ("rotary", "pre", "rms", "swiglu", torch.optim.AdamW),
        ("relative", "pre", "layer", "gelu", torch.optim.Adam),
        ("learned", "pre", "rms", "relu", torch.optim.Adam),
    ],
)
def test_ten_examples_are_learned_by_heart_and_the_pad_row_learns_nothing(kind, order, norm, activation, optimizer):
    config = replace(SMALL, width=24, inner=48, positions=positions(kind), norm_order=order, norm=norm)
    model = Transformer(replace(config, activation=activation, decoder_layers=None, dropout=0.05))
    stepper, batch, losses = optimizer(model.parameters(), lr=4e-3), ten_examples(), []
    for step in range(180):
        if step == 150:
            model.eval()
        loss = translation_loss(model, batch, smoothing=0.0)
        (loss.total / loss.tokens).backward()
        stepper.step()
        stepper.zero_grad()
        losses.append(float(loss.likelihood) / loss.tokens)
    assert losses[0] > 2
    assert losses[-1] < 0.05
    assert not model.encoder.embedding.weight[PAD].any()
    assert model.encoder.embedding.weight[PAD + 1 :].any(dim=1).all()


def test_the_loss_counts_real_tokens_alone():
    model, batch = built(SMALL), ten_examples()
    before = torch.cat([torch.full((10, 1), SMALL.start), batch.target[:, :-1]], dim=1)
    logits = model(batch.source, before)
    expected = nn.functional.cross_entropy(
        logits.flatten(0, 1), batch.target.flatten(), ignore_index=PAD, reduction="sum"
    )
    found = translation_loss(model, batch, smoothing=0.1)
    assert_close(found.likelihood, expected)
    assert found.tokens == int((batch.target != PAD).sum())
    wide = SimpleNamespace(
        source=nn.functional.pad(batch.source, (0, 2), value=PAD),
        target=nn.functional.pad(batch.target, (0, 3), value=PAD),
        target_tokens=batch.target_tokens,
    )
    assert_close(translation_loss(model, wide, smoothing=0.1).total, found.total)


def test_tied_weights_are_one_and_untied_ones_are_three():
    model = Transformer(SMALL)
    assert model.output.weight is model.encoder.embedding.weight is model.decoder.embedding.weight
    untied = Transformer(replace(SMALL, tied=False))
    ids = {id(w) for w in (untied.output.weight, untied.encoder.embedding.weight, untied.decoder.embedding.weight)}
    assert len(ids) == 3
    assert parameters(untied) - parameters(model) == 2 * 17 * 12


def test_dropout_acts_in_training_alone():
    model = Transformer(replace(SMALL, dropout=0.3))
    assert not torch.equal(model(SOURCE, TARGET), model(SOURCE, TARGET))
    model.eval()
    assert torch.equal(model(SOURCE, TARGET), model(SOURCE, TARGET))


def test_embeddings_are_scaled_by_the_root_of_the_width():
    for scaled in (True, False):
        model = built(replace(SMALL, scale_embeddings=scaled, positions=PositionsConfig(kind="none")))
        expected = model.encoder.embedding.weight[SOURCE] * (12**0.5 if scaled else 1.0)
        assert_close(model.encoder.embed(SOURCE, 0), expected)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"heads": 5}, "width 12 does not split over 5 heads; the nearest that does is 10"),
        ({"layers": 0}, "model.layers is 0; it must be at least 1"),
        ({"decoder_layers": 0}, "model.decoder_layers is 0; it must be at least 1"),
        ({"key_value_heads": -1}, "model.key_value_heads is -1"),
        ({"value_width": 0}, "model.value_width is 0"),
        ({"norm_order": "mid"}, "model.norm_order is 'mid'; it can be post or pre"),
        ({"dropout": 1.0}, "model.dropout is 1.0; it must be at least 0 and below 1"),
        ({"activation": "tanhh"}, "tanhh"),
        ({"norm": "batch"}, "no norm is called 'batch'; choose layer or rms"),
        ({"key_value_heads": 2}, "3 heads do not share 2 keys and values evenly"),
        ({"vocabulary": 0}, "model.vocabulary is 0"),
    ],
)
def test_what_cannot_be_is_refused_in_a_sentence(change, sentence):
    with pytest.raises(ConfigError, match=sentence):
        Transformer(replace(SMALL, **change))


def test_learned_positions_end_with_a_sentence():
    model = Transformer(replace(SMALL, positions=PositionsConfig(kind="learned", length=5)))
    with pytest.raises(ConfigError, match="6 positions asked, the table has 5"):
        model(SOURCE, TARGET)
