"""What the lectures say of the decoders that came of the Transformer: T-D, GPT-1, GPT-2 and GPT-3."""

from dataclasses import replace

import pytest
import torch
from helpers import randomised
from torch import nn
from torch.testing import assert_close

from manyheads.core.errors import ConfigError
from manyheads.models import gpt
from manyheads.models.classifier import DecoderClassifier
from manyheads.models.gpt import GPT, PRESETS, GPTConfig
from manyheads.models.transformer import Transformer, TransformerConfig, parameters, transformer_base

IDS = torch.tensor([[5, 9, 3, 8, 4, 1, 2], [7, 2, 16, 11, 6, 1, 13]])
SIZES = {"vocabulary": 17, "width": 12, "layers": 2, "heads": 3, "inner": 14, "dropout": 0.0}


def decoder_only(**changes) -> GPTConfig:
    return replace(PRESETS["transformer_decoder"](), context=9, **{**SIZES, **changes})


def on_paper(build, config):
    with torch.device("meta"):
        return build(config)


# T-D: the encoder is left out, and with it the attention that looked at it.


def test_td_has_the_parameters_of_the_decoder_without_those_of_cross_attention():
    whole = on_paper(Transformer, replace(transformer_base(), vocabulary=37_000))
    alone = on_paper(GPT, replace(PRESETS["transformer_decoder"](), vocabulary=37_000))
    crossing = 6 * (4 * (512 * 512 + 512) + 2 * 512)  # four projections with their biases, and a norm
    assert parameters(whole.decoder) - parameters(alone) == crossing
    assert parameters(whole) - parameters(alone) == crossing + parameters(whole.encoder) - 37_000 * 512
    both = parameters(whole.encoder.blocks) + parameters(whole.decoder.blocks)
    assert parameters(alone.blocks) < 0.5 * both  # what encoder and decoder would both learn is learned once


@torch.no_grad()
def test_td_is_the_decoder_with_its_cross_attention_silenced():
    whole = randomised(Transformer(TransformerConfig(**SIZES, pad=0)))
    alone = randomised(GPT(decoder_only()))
    names = {"attention": "self_attention", "attention_norm": "self_norm"}
    for ours, theirs in zip(alone.blocks, whole.decoder.blocks, strict=True):
        for name, part in ours.named_children():
            part.load_state_dict(getattr(theirs, names.get(name, name)).state_dict())
    alone.embedding.weight.copy_(whole.decoder.embedding.weight)
    memory, mask = whole.encode(IDS)
    assert not torch.allclose(whole.decoder(IDS, memory, mask), alone.states(IDS))
    for block in whole.decoder.blocks:
        nn.init.zeros_(block.cross_attention.output.weight)
        nn.init.zeros_(block.cross_attention.output.bias)
        block.cross_norm = nn.Identity()
    assert_close(whole.decoder(IDS, memory, mask), alone.states(IDS))


# GPT-1: pre-trained as a language model, then one matrix on top.


def test_gpt1_is_made_of_the_blocks_of_td():
    assert {PRESETS[name]().norm_order for name in ("transformer_decoder", "gpt1")} == {"post"}
    one, other = GPT(decoder_only()), GPT(decoder_only(activation="gelu_tanh", scale_embeddings=False))
    assert type(one.blocks[0]) is type(other.blocks[0]) is gpt.Block


def test_fine_tuning_adds_a_single_matrix():
    body = GPT(decoder_only())
    model = DecoderClassifier(body, ("bad", "so so", "good"))
    added = {name: tuple(tensor.shape) for name, tensor in model.named_parameters() if not name.startswith("body.")}
    assert added == {"score.weight": (3, 12)}
    assert parameters(model) - parameters(body) == 3 * 12


@torch.no_grad()
def test_while_it_is_fine_tuned_it_can_still_predict_the_next_token():
    body = randomised(GPT(decoder_only()))
    model = DecoderClassifier(body, ("no", "yes"))
    states = model.states(IDS)
    assert_close(body.output(states), body(IDS))  # the auxiliary loss, from the states that the scores are made of
    assert_close(model.scores(states, torch.tensor([5, 7])), model(IDS, torch.tensor([5, 7])))


# GPT-2: the block of T-D with small changes.


def test_gpt2_has_the_block_of_td_with_its_norms_moved():
    moved, plain = (GPT(decoder_only(norm_order=order)) for order in ("pre", "post"))
    shapes = [{name: each.shape for name, each in model.blocks.state_dict().items()} for model in (moved, plain)]
    assert shapes[0] == shapes[1]
    assert parameters(moved) - parameters(plain) == 2 * 12  # one more norm, at the end
    x = torch.randn(2, 5, 12)
    for model, kept in ((moved, x), (plain, nn.functional.layer_norm(nn.functional.layer_norm(x, (12,)), (12,)))):
        for part in (model.blocks[0].attention.output, model.blocks[0].feedforward.outer):
            nn.init.zeros_(part.weight)
        assert_close(model.blocks[0](x, None, None), kept)  # a clear path of sums, or a norm on the way


def test_gpt2_begins_its_residual_path_smaller_the_deeper_it_is():
    for layers in (2, 8):
        model = GPT(GPTConfig(vocabulary=17, context=9, width=96, layers=layers, heads=3))
        added = torch.cat([block.attention.output.weight.flatten() for block in model.blocks])
        assert float(added.detach().std()) == pytest.approx(0.02 / (2 * layers) ** 0.5, rel=0.03)


# Positions that are learned end where the table ends.


@pytest.mark.parametrize("preset", [name for name in PRESETS if name.startswith("gpt")])
def test_gpt_1_2_and_3_learn_their_positions(preset):
    config = PRESETS[preset]()
    assert (config.positions.kind, config.positions.length) == ("learned", config.context)
    model = on_paper(GPT, replace(config, vocabulary=17, layers=1))
    assert model.positions.table.weight.shape == (config.context, config.width)
    assert "positions.table.weight" in dict(model.named_parameters())


def test_and_td_does_not():
    assert PRESETS["transformer_decoder"]().positions.kind == "sinusoidal"
    assert not any("positions" in name for name, _ in GPT(decoder_only()).named_parameters())


def test_learned_positions_know_nothing_past_the_longest_they_saw():
    learned = GPT(GPTConfig(vocabulary=17, context=9, width=12, layers=2, heads=3))
    assert learned(torch.ones(1, 9, dtype=torch.long)).shape == (1, 9, 17)
    with pytest.raises(ConfigError, match="10 positions asked, the table has 9"):
        learned(torch.ones(1, 10, dtype=torch.long))
    assert GPT(decoder_only())(torch.ones(1, 10, dtype=torch.long)).shape == (1, 10, 17)  # sinusoids go on


def test_the_context_doubled_from_each_to_the_next():
    assert [PRESETS[name]().context for name in ("gpt1", "gpt2_small", "gpt3_175b")] == [512, 1024, 2048]
