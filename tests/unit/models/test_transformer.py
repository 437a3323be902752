"""The Transformer: its blocks are torch's, and what is tied, scaled and counted."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from helpers import randomised, torchs_weights
from torch import nn
from torch.testing import assert_close

from manyheads.models.transformer import Transformer, TransformerConfig, parameters
from manyheads.nn.positions import PositionsConfig
from manyheads.train.objectives import translation_loss

PAD, END = 0, 1
SMALL = TransformerConfig(
    vocabulary=17, width=12, layers=2, decoder_layers=3, heads=3, inner=14, dropout=0.0, pad=PAD, start=PAD, end=END
)
SOURCE = torch.tensor([[5, 9, 3, 8, 4, 1], [7, 2, 16, 11, 6, 1]])
TARGET = torch.tensor([[0, 6, 4, 12, 15], [0, 3, 3, 9, 2]])


def built(config: TransformerConfig) -> Transformer:
    torch.manual_seed(1)
    return randomised(Transformer(config), 0.1)


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
            layer.load_state_dict(torchs_weights(block))
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


def test_embeddings_are_scaled_by_the_root_of_the_width():
    for scaled in (True, False):
        model = built(replace(SMALL, scale_embeddings=scaled, positions=PositionsConfig(kind="none")))
        expected = model.encoder.embedding.weight[SOURCE] * (12**0.5 if scaled else 1.0)
        assert_close(model.encoder.embed(SOURCE, 0), expected)
