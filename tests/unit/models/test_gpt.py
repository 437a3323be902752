"""T-D, GPT-1, GPT-2 and GPT-3: the order of their norms, and how the four begin."""

from dataclasses import replace

import pytest
import torch
from helpers import positions, randomised, torchs_weights
from torch import nn
from torch.testing import assert_close

from manyheads.core.errors import ConfigError
from manyheads.models.gpt import GPT, GPTConfig
from manyheads.models.llama import Llama, LlamaConfig
from manyheads.models.transformer import Transformer, TransformerConfig, parameters
from manyheads.nn.positions import PositionsConfig

SMALL = GPTConfig(
    vocabulary=17, context=11, width=12, layers=2, heads=3, inner=14, dropout=0.0, attention_dropout=0.0, end=1
)
IDS = torch.tensor([[5, 9, 3, 8, 4, 1, 2], [7, 2, 16, 11, 6, 1, 13]])


def built(config: GPTConfig) -> GPT:
    torch.manual_seed(1)
    return randomised(GPT(config))


# The order of the norms.


@pytest.mark.parametrize("order", ["post", "pre"])
def test_the_blocks_are_those_of_torch(order):
    model = built(replace(SMALL, norm_order=order, activation="gelu"))
    states, mask = model.positions.add(model.embedding(IDS), 0), torch.ones(7, 7).triu(1).bool()
    for block in model.blocks:
        theirs = nn.TransformerEncoderLayer(
            12, 3, 14, dropout=0.0, activation="gelu", batch_first=True, norm_first=order == "pre"
        ).eval()
        theirs.load_state_dict(torchs_weights(block))
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


# How weights begin.


WIDE = replace(SMALL, vocabulary=997, context=101, width=96, layers=5, inner=None)


@pytest.mark.parametrize("kind", ["GPT-1", "GPT-2", "Llama"])
def test_weights_begin_small_and_smaller_on_the_residual_path_but_of_gpt1(kind):
    gpt = replace(WIDE, norm_order="post" if kind == "GPT-1" else "pre", tied=False)
    model = Llama(LlamaConfig(vocabulary=997, width=96, layers=5, heads=6)) if kind == "Llama" else GPT(gpt)
    added = 0.02 if kind == "GPT-1" else 0.02 / 10**0.5
    for name, tensor in model.named_parameters():
        if tensor.dim() == 2:
            expected = added if name.endswith((".attention.output.weight", ".feedforward.outer.weight")) else 0.02
            assert float(tensor.detach().std()) == pytest.approx(expected, rel=0.05), name
        else:
            assert torch.equal(tensor, torch.full_like(tensor, not name.endswith(".bias"))), name
    assert not torch.equal(model.output.weight, model.embedding.weight)


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


def test_positions_are_as_long_as_the_context_unless_they_are_scaled():
    assert SMALL.positions == PositionsConfig(kind="learned", length=11)
    assert replace(SMALL, context=23).positions.length == 23
    scaled = replace(SMALL, context=23, positions=positions("yarn"))
    assert scaled.positions == positions("yarn")
    translator = TransformerConfig(vocabulary=17, width=12, layers=1, heads=3, inner=14, positions=SMALL.positions)
    for model, texts in ((GPT(SMALL), 1), (Transformer(translator), 2)):
        with pytest.raises(ConfigError, match="12 positions asked, the table has 11"):
            model(*[torch.ones(1, 12, dtype=torch.long)] * texts)
