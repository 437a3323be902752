"""Attention as it is shown: what was recorded goes by its own numbers, and what is no attention is refused."""

import numpy as np
import pytest
import torch
from helpers import spread_gpt, spread_transformer

from manyheads.core.errors import ConfigError
from manyheads.look.record import recorded_attention
from manyheads.look.views import View, views_of
from manyheads.models.gpt import GPT

TOKENS = [f"t{place}" for place in range(5)]
SOURCE = [f"s{place}" for place in range(7)]
IDS = torch.randint(31, (2, 5), generator=torch.Generator().manual_seed(1))


def gpt() -> GPT:
    return spread_gpt(layers=4)


def test_layers_and_heads_that_were_asked_for_keep_their_numbers():
    model = gpt()
    with torch.inference_mode(), recorded_attention(model, layers=[1, 3], heads=[2, 0]) as weights:
        model(IDS)
    (view,) = views_of(weights, TOKENS, row=1)
    assert (view.kind, view.layers, view.heads) == ("self", [1, 3], [0, 2])
    expected = np.stack([weights[f"blocks.{layer}.attention"][1] for layer in (1, 3)])
    np.testing.assert_array_equal(view.weights, expected)
    assert not np.array_equal(view.weights, views_of(weights, TOKENS)[0].weights)  # the other text


def test_heads_that_were_removed_look_at_nothing_and_the_others_stay_in_their_places():
    model = gpt()
    model.blocks[0].attention.remove([1])
    model.blocks[2].attention.remove([0, 2])
    with torch.inference_mode(), recorded_attention(model) as weights:
        model(IDS)
    (view,) = views_of(weights, TOKENS)
    assert view.weights.shape == (4, 3, 5, 5)
    assert [(layer, head) for layer, head in np.ndindex(4, 3) if not view.weights[layer, head].any()] == [
        *((0, 1), (2, 0), (2, 2))
    ]
    np.testing.assert_array_equal(view.weights[0, [0, 2]], weights["blocks.0.attention"][0])
    np.testing.assert_array_equal(view.weights[2, 1], weights["blocks.2.attention"][0, 0])
    assert len(view.present(2)) == 1


def test_a_translator_s_recording_has_its_three_kinds_and_needs_both_texts():
    model = spread_transformer()
    source = torch.randint(31, (1, 7))
    with torch.inference_mode(), recorded_attention(model, layers=[1, 2]) as weights:
        model(source, IDS[:1])
    found = {view.kind: view for view in views_of(weights, TOKENS, SOURCE)}
    assert {kind: (view.layers, view.rows, view.columns) for kind, view in found.items()} == {
        "cross": ([1, 2], TOKENS, SOURCE),
        "encoder": ([1], SOURCE, SOURCE),
        "decoder": ([1, 2], TOKENS, TOKENS),
    }
    with pytest.raises(ConfigError, match="these weights are a translator's; give the source's tokens too"):
        views_of(weights, TOKENS)


@pytest.mark.parametrize(
    ("shapes", "row", "said"),
    [
        ([(2, 3, 5, 5)], 2, "there is no text 2 among these weights; there are 2"),
        ([(2, 3, 5, 5)], -1, "there is no text -1 among these weights; there are 2"),
        ([(5, 5)], 0, r'they must be \[heads, rows, columns\], .* attn_implementation="eager"'),
        ([(3, 5, 5), (2, 5, 5)], 0, "the layers of self-attention differ in shape"),
    ],
)
def test_what_cannot_be_shown_is_refused_with_what_may_help(shapes, row, said):
    with pytest.raises(ConfigError, match=said):
        views_of([np.ones(shape) for shape in shapes], TOKENS, row=row)


def test_of_heads_that_are_all_silent_all_are_present():
    assert View("self", np.zeros((1, 3, 5, 5)), TOKENS, TOKENS).present(0).shape == (3, 5, 5)
