"""Today's decoder: its four exchanges, and what it is when left alone."""

from dataclasses import replace

import pytest
import torch
from helpers import positions, randomised
from torch.testing import assert_close

from manyheads.models.llama import PRESETS, Llama, LlamaConfig
from manyheads.nn.cache import Cache
from manyheads.nn.positions import PositionsConfig

SMALL = LlamaConfig(vocabulary=17, context=11, width=24, layers=2, heads=6, key_value_heads=2, inner=14, end=1)
IDS = torch.tensor([[5, 9, 3, 8, 4, 1, 2], [7, 2, 16, 11, 6, 1, 13]])


def built(config: LlamaConfig) -> Llama:
    torch.manual_seed(1)
    return randomised(Llama(config))


@pytest.mark.xfail(strict=True, reason="dynamic NTK turns all rows of a batch by the longest one (docs/decisions)")
@torch.no_grad()
def test_rows_past_the_length_of_dynamic_scaling_are_as_alone():
    model = built(replace(SMALL, layers=1, positions=positions("dynamic_ntk", length=4)))
    lengths, row = [1, 6], IDS.repeat(1, 2)
    cache = Cache(11)
    model(row[:, :6], cache=cache)
    cache.cut(lengths)
    found = model(torch.tensor([[3], [8]]), cache=cache)[:, 0]
    for place, length in enumerate(lengths):
        whole = torch.cat([row[place, :length], torch.tensor([3, 8])[place, None]])
        assert_close(found[place], model(whole[None])[0, -1])


def test_the_presets_have_the_published_context_and_base():
    assert [(each.context, each.positions.base) for each in (PRESETS["llama2_7b"](), PRESETS["llama3_8b"]())] == [
        (4096, 10_000.0),
        (8192, 500_000.0),
    ]


def test_left_alone_it_is_plain():
    config = LlamaConfig()
    assert config.positions == PositionsConfig(kind="rotary", length=2048)
    assert (config.tied, config.attention_bias, config.dropout, config.key_value_heads) == (False, False, 0.0, None)
    assert (config.end, config.other_ends, config.vocabulary) == (None, (), 0)
    assert not any(name.endswith("bias") for name, _ in Llama(replace(SMALL, tied=True)).named_parameters())
    biased = {
        name for name, _ in Llama(replace(SMALL, attention_bias=True)).named_parameters() if name.endswith("bias")
    }
    assert biased == {f"blocks.{n}.attention.{part}.bias" for n in (0, 1) for part in ("projection", "output")}


@pytest.mark.parametrize("width", [24, 96, 99, 384, 4096])
def test_the_inner_width_is_eight_thirds_of_the_width_rounded_up(width):
    inner = LlamaConfig(width=width, heads=1).inner_width
    assert inner % 32 == 0
    assert 0 <= inner - width * 8 / 3 < 32
    assert LlamaConfig(width=width, heads=1, inner=37).inner_width == 37
