"""T-D, GPT-1, GPT-2 and GPT-3: what every model owes, published sizes, and how the four begin."""

from dataclasses import replace
from itertools import product

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from manyheads.core.errors import ConfigError
from manyheads.data.batches import Batch
from manyheads.models.gpt import GPT, PRESETS, GPTConfig
from manyheads.models.transformer import Transformer, TransformerConfig, parameters
from manyheads.nn.attention import MultiHeadAttention
from manyheads.nn.cache import Cache
from manyheads.nn.positions import KINDS, PositionsConfig
from manyheads.ops.attention import reference
from manyheads.train.objectives import language_loss

SMALL = GPTConfig(
    vocabulary=17, context=11, width=12, layers=2, heads=3, inner=14, dropout=0.0, attention_dropout=0.0, end=1
)
IDS = torch.tensor([[5, 9, 3, 8, 4, 1, 2], [7, 2, 16, 11, 6, 1, 13]])
SCALINGS = ("linear", "ntk", "dynamic_ntk", "yarn", "llama3")


def positions(kind: str) -> PositionsConfig:
    if kind in SCALINGS:
        return PositionsConfig(kind="rotary", scaling=kind, factor=2.0, length=11)
    return PositionsConfig(kind=kind, clip=2, buckets=4, furthest=6)


EVERY = [(kind, order, "layer", "gelu_tanh", True) for kind, order in product(KINDS, ("post", "pre"))]
EVERY += [("learned", "pre", "rms", "swiglu", False), ("rotary", "post", "rms", "silu", False)]
EVERY += [(kind, "pre", "layer", "relu", True) for kind in SCALINGS]


def randomised(model: GPT) -> GPT:
    """Norms that are one and biases that are zero would hide mistakes, and so would logits that are all alike."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return model.eval()


def built(config: GPTConfig) -> GPT:
    torch.manual_seed(1)
    return randomised(GPT(config))


@pytest.fixture(params=EVERY, ids=lambda each: "-".join(map(str, each)))
def model(request):
    kind, order, norm, activation, tied = request.param
    config = replace(SMALL, positions=positions(kind), norm_order=order, norm=norm, activation=activation, tied=tied)
    return built(config)


@pytest.fixture(params=[{"scale_embeddings": True}, {"inner": None}, {"layers": 1, "heads": 6}], ids=str)
def variant(request):
    return built(replace(SMALL, **request.param))


def check_that_nothing_leaks(model):
    changed = IDS.clone()
    changed[0, 3] += 1
    before, after = model(IDS), model(changed)
    assert before.shape == (2, 7, 17)
    assert_close(after[:, :3], before[:, :3])
    assert_close(after[1], before[1])
    for place in range(3, 7):
        assert not torch.allclose(after[0, place], before[0, place])  # all that come behind it see it


def check_that_padding_behind_changes_nothing(model):
    padded = torch.cat([IDS, torch.full((2, 3), 4)], dim=1)
    assert_close(model(padded)[:, :7], model(IDS))
    assert not torch.allclose(model(padded.roll(3, dims=1))[:, 3:], model(IDS))  # before the text it would


def check_that_a_mask_can_only_hide(model):
    hidden = torch.ones(7, 7, dtype=torch.bool)
    assert_close(model(IDS, hidden), model(IDS))
    hidden[4:, 1] = False
    masked = model(IDS, hidden)
    assert_close(masked[:, :4], model(IDS)[:, :4])
    assert not torch.allclose(masked[:, 4:], model(IDS)[:, 4:])


def check_that_pieces_are_the_whole(model):
    whole = model(IDS)
    for pieces in ([1] * 7, [3, 1, 2, 1]):
        cache = Cache(7)
        assert_close(torch.cat([model(piece, cache=cache) for piece in IDS.split(pieces, dim=1)], dim=1), whole)
        assert cache.length == 7
    assert not torch.allclose(model(IDS[:, 1:]), whole[:, 1:])  # without a cache it differs


def check_that_rows_of_different_lengths_are_as_alone(model):
    rows, lengths = torch.cat([IDS, IDS.flip(0)[:1, [3, 1, 5, 0, 2, 6, 4]]]), [2, 4, 0]
    alone = [model(row[None, : length + 3])[0, length:] for row, length in zip(rows, lengths)]
    for pieces in ([1, 1, 1], [2, 1]):
        cache = Cache(7)
        model(rows[:, :4], cache=cache)  # what is behind a row's length is padding
        cache.cut(lengths)
        new = torch.stack([row[length : length + 3] for row, length in zip(rows, lengths)])
        found = torch.cat([model(piece, cache=cache) for piece in new.split(pieces, dim=1)], dim=1)
        assert_close(found, torch.stack(alone))
        assert cache.lengths.tolist() == [5, 7, 3]
    cache = Cache(7)
    model(rows[:, :4], cache=cache)
    assert not torch.allclose(model(new, cache=cache)[0], alone[0])  # padding that is not cut off is seen


def check_that_the_kernels_agree(model):
    fast = model(IDS)
    for part in model.modules():
        if isinstance(part, MultiHeadAttention):
            part.kernel = reference
    assert_close(model(IDS), fast)


CHECKS = [
    check_that_nothing_leaks,
    check_that_padding_behind_changes_nothing,
    check_that_a_mask_can_only_hide,
    check_that_pieces_are_the_whole,
    check_that_rows_of_different_lengths_are_as_alone,
    check_that_the_kernels_agree,
]


@pytest.mark.parametrize("check", CHECKS)
@torch.no_grad()
def test_every_kind_of_model_keeps_what_it_owes(model, check):
    check(model)


@pytest.mark.parametrize("check", CHECKS)
@torch.no_grad()
def test_every_shape_of_model_keeps_what_it_owes(variant, check):
    check(variant)


@pytest.mark.parametrize("check", CHECKS[3:5])
@torch.inference_mode()
def test_the_cache_is_as_true_in_inference_mode(model, check):
    check(model)


# Sizes.

PUBLISHED = {
    "gpt1": (40_478, 116_534_784),
    "gpt2_small": (50_257, 124_439_808),
    "gpt2_medium": (50_257, 354_823_168),
    "gpt2_large": (50_257, 774_030_080),
    "gpt2_xl": (50_257, 1_557_611_200),
}
GPT3 = {
    "gpt3_small": 125e6,
    "gpt3_medium": 350e6,
    "gpt3_large": 760e6,
    "gpt3_xl": 1.3e9,
    "gpt3_2_7b": 2.7e9,
    "gpt3_6_7b": 6.7e9,
    "gpt3_13b": 13e9,
    "gpt3_175b": 175e9,
}


def size(preset: str, vocabulary: int, **changes) -> int:
    with torch.device("meta"):
        return parameters(GPT(replace(PRESETS[preset](), vocabulary=vocabulary, **changes)))


@pytest.mark.parametrize("preset", PUBLISHED)
def test_parameters_are_as_many_as_published_to_the_last_one(preset):
    vocabulary, published = PUBLISHED[preset]
    assert size(preset, vocabulary) == published


def test_embedding_and_output_are_counted_once():
    assert size("gpt1", 40_479) - size("gpt1", 40_478) == 768
    assert size("gpt1", 40_479, tied=False) - size("gpt1", 40_478, tied=False) == 2 * 768


@pytest.mark.parametrize("preset", GPT3)
def test_the_sizes_of_gpt3_are_those_of_its_table(preset):
    assert size(preset, 50_257) == pytest.approx(GPT3[preset], rel=0.02)
    assert PRESETS[preset]().context == 2048
    assert PRESETS[preset]().dropout == 0.0


def test_every_preset_is_counted_or_made_for_less():
    assert set(PRESETS) == {*PUBLISHED, *GPT3, "transformer_decoder", "gpt2_tiny", "gpt2_baby"}


@pytest.mark.parametrize("preset", [name for name in PRESETS if name not in GPT3])
def test_presets_build(preset):
    with torch.device("meta"):
        model = GPT(replace(PRESETS[preset](), vocabulary=101, layers=2))
        assert model(torch.ones(2, 5, dtype=torch.long)).shape == (2, 5, 101)


# The order of the norms.


@pytest.mark.parametrize("order", ["post", "pre"])
def test_the_blocks_are_those_of_torch(order):
    model = built(replace(SMALL, norm_order=order, activation="gelu"))
    states, mask = model.positions.add(model.embedding(IDS), 0), torch.ones(7, 7).triu(1).bool()
    for block in model.blocks:
        theirs = nn.TransformerEncoderLayer(
            12, 3, 14, dropout=0.0, activation="gelu", batch_first=True, norm_first=order == "pre"
        ).eval()
        theirs.load_state_dict(
            {
                "self_attn.in_proj_weight": block.attention.projection.weight,
                "self_attn.in_proj_bias": block.attention.projection.bias,
                "self_attn.out_proj.weight": block.attention.output.weight,
                "self_attn.out_proj.bias": block.attention.output.bias,
                **{f"linear1.{key}": value for key, value in block.feedforward.inner.state_dict().items()},
                **{f"linear2.{key}": value for key, value in block.feedforward.outer.state_dict().items()},
                **{f"norm1.{key}": value for key, value in block.attention_norm.state_dict().items()},
                **{f"norm2.{key}": value for key, value in block.feedforward_norm.state_dict().items()},
            }
        )
        states = theirs(states, src_mask=mask)
    assert_close(model.states(IDS), model.norm(states))


def test_one_more_norm_ends_what_has_its_norms_before():
    post, pre = GPT(replace(SMALL, norm_order="post")), GPT(SMALL)
    assert isinstance(post.norm, nn.Identity)
    assert isinstance(pre.norm, nn.LayerNorm)
    assert parameters(pre) - parameters(post) == 2 * 12
    assert not torch.allclose(built(replace(SMALL, norm_order="post")).states(IDS), built(SMALL).states(IDS))
    for model in (post, pre):  # either way what the output reads is normalised, while its norms are as they began
        states = model.eval().states(IDS)
        assert_close(states.mean(dim=-1), torch.zeros(2, 7), atol=1e-5, rtol=0)
        assert_close(states.var(dim=-1, correction=0), torch.ones(2, 7), atol=0.1, rtol=0)


def test_the_epsilon_asked_for_is_in_every_norm():
    model = GPT(replace(SMALL, epsilon=0.125))
    assert {part.eps for part in model.modules() if isinstance(part, nn.LayerNorm)} == {0.125}


# How weights begin.


def deviations(model: nn.Module) -> dict[str, float]:
    return {name: float(tensor.detach().std()) for name, tensor in model.named_parameters() if tensor.dim() == 2}


WIDE = replace(SMALL, vocabulary=997, context=101, width=96, layers=5, inner=None)


@pytest.mark.parametrize("order", ["post", "pre"])
def test_weights_begin_small_and_smaller_on_the_residual_path_of_gpt2(order):
    model = GPT(replace(WIDE, norm_order=order, tied=False))
    added = 0.02 / 10**0.5 if order == "pre" else 0.02
    for name, found in deviations(model).items():
        expected = added if name.endswith((".attention.output.weight", ".feedforward.outer.weight")) else 0.02
        assert found == pytest.approx(expected, rel=0.05), name
    assert not any(tensor.any() for name, tensor in model.named_parameters() if name.endswith(".bias"))
    assert len([name for name in deviations(model) if ".outer." in name or ".output." in name]) == 10


def test_a_decoder_with_scaled_embeddings_begins_as_the_transformer():
    ours = GPT(replace(WIDE, norm_order="post", scale_embeddings=True, positions=PositionsConfig()))
    theirs = Transformer(TransformerConfig(vocabulary=997, width=96, layers=5, heads=3, inner=4 * 96))
    pairs = {
        "embedding.weight": "decoder.embedding.weight",
        "blocks.3.attention.projection.weight": "decoder.blocks.3.self_attention.projection.weight",
        "blocks.3.attention.output.weight": "decoder.blocks.3.self_attention.output.weight",
        "blocks.3.feedforward.inner.weight": "decoder.blocks.3.feedforward.inner.weight",
        "blocks.3.feedforward.outer.weight": "decoder.blocks.3.feedforward.outer.weight",
    }
    for one, other in pairs.items():
        found, expected = ours.get_parameter(one).detach(), theirs.get_parameter(other).detach()
        assert found.shape == expected.shape
        assert float(found.std()) == pytest.approx(float(expected.std()), rel=0.03), one
        assert float(found.std()) > 2 * 0.02  # and neither begins as GPT does
        if "blocks" in one:  # uniform, not normal: nothing lies far out
            assert float(found.abs().max()) < 1.75 * float(found.std())
    assert float(ours.embedding(torch.arange(997)).detach().std()) == pytest.approx(1.0, rel=0.02)
    assert not any(tensor.any() for name, tensor in ours.named_parameters() if name.endswith(".bias"))


def test_tied_weights_are_one_and_untied_ones_two():
    tied, untied = GPT(SMALL), GPT(replace(SMALL, tied=False))
    assert tied.output.weight is tied.embedding.weight
    assert untied.output.weight is not untied.embedding.weight
    assert parameters(untied) - parameters(tied) == 17 * 12


@pytest.mark.parametrize("where", ["dropout", "attention_dropout", "inner_dropout"])
def test_dropout_acts_in_training_alone(where):
    model = GPT(replace(SMALL, **{where: 0.3}))
    assert not torch.equal(model(IDS), model(IDS))
    model.eval()
    assert torch.equal(model(IDS), model(IDS))


# Learning.


def ten_examples() -> Batch:
    """Their first tokens differ, so that all the rest can be known."""
    ids = torch.randint(2, 17, (10, 8), generator=torch.Generator().manual_seed(2))
    ids[:, 0] = torch.arange(3, 13)
    return Batch(70, ids=ids, counted=None)


@pytest.mark.parametrize(
    ("kind", "order", "norm", "activation", "scaled"),
    [
        ("sinusoidal", "post", "layer", "relu", True),
        ("learned", "post", "layer", "gelu_tanh", False),
        ("learned", "pre", "layer", "gelu_tanh", False),
        ("alibi", "pre", "rms", "swiglu", False),
    ],
)
def test_ten_examples_are_learned_by_heart(kind, order, norm, activation, scaled):
    config = replace(SMALL, width=24, inner=48, positions=positions(kind), norm_order=order, norm=norm, dropout=0.05)
    model = GPT(replace(config, activation=activation, scale_embeddings=scaled))
    optimizer, batch, losses = torch.optim.Adam(model.parameters(), lr=6e-3), ten_examples(), []
    for step in range(200):
        if step == 160:
            model.eval()
        loss = language_loss(model, batch)
        (loss.total / loss.tokens).backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(float(loss.likelihood) / loss.tokens)
    assert losses[0] > 2
    assert losses[-1] < 0.05


# What cannot be.


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"heads": 5}, "width 12 does not split over 5 heads; the nearest that does is 10"),
        ({"heads": 16}, "width 12 does not split over 16 heads; the nearest that does is 16"),
        ({"layers": 0}, "model.layers is 0; it must be at least 1"),
        ({"context": 0}, "model.context is 0; it must be at least 1"),
        ({"inner": 0}, "model.inner is 0; it must be at least 1"),
        ({"norm_order": "mid"}, "model.norm_order is 'mid'; it can be post or pre"),
        ({"dropout": 1.0}, "model.dropout is 1.0; it must be at least 0 and below 1"),
        ({"attention_dropout": -0.1}, "model.attention_dropout is -0.1"),
        ({"inner_dropout": float("nan")}, "model.inner_dropout is nan"),
    ],
)
def test_sizes_that_cannot_be_are_refused_in_a_sentence(change, sentence):
    with pytest.raises(ConfigError, match=sentence) as refused:
        replace(SMALL, **change)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"activation": "tanhh"}, "no activation is called 'tanhh'"),
        ({"norm": "batch"}, "no norm is called 'batch'; choose layer or rms"),
        ({"vocabulary": 0}, "model.vocabulary is 0"),
        ({"heads": 4, "positions": PositionsConfig(kind="rotary")}, "head width 3 is odd"),
    ],
)
def test_parts_that_cannot_be_are_refused_in_a_sentence(change, sentence):
    with pytest.raises(ConfigError, match=sentence):
        GPT(replace(SMALL, **change))


def test_positions_are_as_long_as_the_context_unless_they_are_scaled():
    assert SMALL.positions == PositionsConfig(kind="learned", length=11)
    assert replace(SMALL, context=23).positions.length == 23
    scaled = replace(SMALL, context=23, positions=positions("yarn"))
    assert scaled.positions == positions("yarn")
    with pytest.raises(ConfigError, match="12 positions asked, the table has 11"):
        GPT(SMALL)(torch.ones(1, 12, dtype=torch.long))
