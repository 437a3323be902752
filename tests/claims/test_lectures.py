"""Worked examples and statements of five lecture decks on Transformers, each recomputed with our own parts."""

import math

import pytest
import torch
from torch.testing import assert_close

from manyheads.core.errors import ConfigError
from manyheads.nn.attention import MultiHeadAttention
from manyheads.nn.layers import FeedForward, build_norm
from manyheads.nn.positions import KINDS, Learned, PositionsConfig, Rotary, Sinusoidal, build_positions
from manyheads.ops.attention import attention_weights, reference, sdpa
from manyheads.ops.rotary import sinusoid

both_kernels = pytest.mark.parametrize("kernel", [reference, sdpa])


def one_head(rows) -> torch.Tensor:
    return torch.tensor(rows)[None, None]


def cut(numbers: torch.Tensor, digits: int) -> torch.Tensor:
    """Digits past the last one dropped, as a slide does that does not round."""
    return (numbers * 10**digits).trunc() / 10**digits


# The translation example: "die Katze" asks "the cat danced".

DIE_KATZE = one_head([[-1.0, -2.5], [4.0, 3.0]])
THE_CAT_DANCED = one_head([[-2.0, -4.0], [-2.5, -0.5], [4.5, 2.5]])


@both_kernels
def test_the_output_of_the_translation_example(kernel):
    printed = torch.tensor([[-2.02, -3.78], [4.49, 2.49]])
    out = kernel(DIE_KATZE, THE_CAT_DANCED, THE_CAT_DANCED, scale=1 / 3)[0, 0]
    assert_close(cut(out, 2), printed)
    assert not torch.allclose(out.round(decimals=2), printed)  # rounded, three of the four would print otherwise
    assert not torch.allclose(cut(kernel(DIE_KATZE, THE_CAT_DANCED, THE_CAT_DANCED)[0, 0], 2), printed)


# The masked example: four tokens, each looks at itself and back.

FOUR_TOKENS = one_head([[1.0, 1.0], [-1.0, -2.5], [4.0, 3.0], [2.0, -3.0]])
LOOK_BACK = torch.ones(4, 4, dtype=torch.bool).tril()


@pytest.mark.parametrize("how", [{"mask": LOOK_BACK}, {"causal": True}])
def test_the_weights_of_the_masked_example_come_from_unscaled_scores(how):
    printed = torch.tensor([[1.0, 0, 0, 0], [0, 1.0, 0, 0], [0, 0, 1.0, 0], [0, 0.0006, 0, 0.9994]])
    weights = attention_weights(FOUR_TOKENS, FOUR_TOKENS, scale=1.0, **how)[0, 0]
    assert_close(weights, printed, atol=5e-5, rtol=0)
    scaled = attention_weights(FOUR_TOKENS, FOUR_TOKENS, scale=1 / 4, **how)[0, 0]
    assert (scaled - printed).abs().max() > 0.05  # the quarter that the slide shows gives others


@both_kernels
@pytest.mark.parametrize("how", [{"mask": LOOK_BACK}, {"causal": True}])
def test_the_output_of_the_masked_example(kernel, how):
    printed = torch.tensor([[1.0, 1.0], [-0.9999571, -2.499925], [4.0, 3.0], [1.9983424, -2.9997153]])
    out = kernel(FOUR_TOKENS, FOUR_TOKENS, FOUR_TOKENS, scale=1.0, **how)[0, 0]
    assert_close(out, printed, atol=1e-6, rtol=0)
    assert not torch.allclose(
        kernel(FOUR_TOKENS, FOUR_TOKENS, FOUR_TOKENS, scale=1 / 4, **how)[0, 0], printed, atol=0.01
    )


@both_kernels
def test_a_fill_of_minus_a_billion_is_the_same_as_the_mask(kernel):
    bias = torch.zeros(4, 4).masked_fill(~LOOK_BACK, -1e9)
    masked = kernel(FOUR_TOKENS, FOUR_TOKENS, FOUR_TOKENS, mask=LOOK_BACK)
    assert_close(kernel(FOUR_TOKENS, FOUR_TOKENS, FOUR_TOKENS, bias=bias), masked)
    assert not torch.allclose(kernel(FOUR_TOKENS, FOUR_TOKENS, FOUR_TOKENS), masked)


# Attention itself.


def test_dot_products_tell_a_match_from_a_stranger():
    query = one_head([[4.0, -2.0, 1.0, 3.0]])
    keys = one_head([[5.0, -2.0, 1.0, 2.0], [1.0, 2.0, -2.0, 1.0]])
    assert (query @ keys.mT).flatten().tolist() == [31.0, 1.0]
    weights = attention_weights(query, keys, scale=1.0).flatten()
    assert weights[0] > 0.999


@both_kernels
def test_a_context_vector_is_the_values_weighted_by_the_softmax(kernel):
    wanted = torch.tensor([0.6, 0.1, 0.2, 0.1])
    query, keys = one_head([[1.0]]), wanted.log()[None, None, :, None]  # softmax(log p) = p
    values = torch.randn(1, 1, 4, 3)
    assert_close(attention_weights(query, keys).flatten(), wanted)
    expected = 0.6 * values[0, 0, 0] + 0.1 * values[0, 0, 1] + 0.2 * values[0, 0, 2] + 0.1 * values[0, 0, 3]
    assert_close(kernel(query, keys, values)[0, 0, 0], expected)


def test_scores_of_95_13_35_72_keep_their_order_but_are_drawn_softer_than_softmax_makes_them():
    drawn = torch.tensor([0.6, 0.05, 0.1, 0.25])
    keys = one_head([[95.0], [13.0], [35.0], [72.0]])
    weights = attention_weights(one_head([[1.0]]), keys).flatten()
    assert torch.equal(attention_weights(one_head([[0.03]]), keys).flatten().argsort(), drawn.argsort())
    assert weights[0] > 0.9999  # softmax of the numbers as written leaves nothing for the rest


@pytest.mark.parametrize("width", [4, 64, 1024])
def test_the_variance_of_a_dot_product_is_the_width_and_scaling_makes_it_one(width):
    draw = torch.Generator().manual_seed(width)
    q, k = torch.randn(2, 3000, width, generator=draw)
    products = (q * k).sum(-1)
    assert products.var().item() == pytest.approx(width, rel=0.15)
    assert (products * width**-0.5).var().item() == pytest.approx(1.0, rel=0.15)
    single = one_head([[1.0] * width]), torch.stack((torch.ones(width), torch.zeros(width)))[None, None]
    ratio = attention_weights(*single).flatten()
    assert (ratio[0] / ratio[1]).log().item() == pytest.approx(math.sqrt(width), rel=1e-3)


def test_large_scores_leave_the_softmax_small_gradients():
    def gradient(scale: float) -> float:
        k = torch.randn(1, 1, 5, 256, generator=torch.Generator().manual_seed(0))
        q = torch.randn(1, 1, 1, 256, generator=torch.Generator().manual_seed(1))
        bias = torch.zeros(1, 1, 1, 5, requires_grad=True)
        attention_weights(q, k, scale=scale, bias=bias)[..., 0].sum().backward()
        return bias.grad.abs().max().item()

    assert gradient(1.0) < 1e-3 < gradient(1 / 16)


@both_kernels
def test_each_query_is_mapped_to_a_point_among_the_values(kernel):
    q, k, v = torch.randn(2, 3, 5, 4), torch.randn(2, 3, 7, 4), torch.randn(2, 3, 7, 6)
    out = kernel(q, k, v)
    assert out.shape == (2, 3, 5, 6)
    assert (out <= v.amax(dim=2, keepdim=True) + 1e-5).all()
    assert (out >= v.amin(dim=2, keepdim=True) - 1e-5).all()
    assert_close(attention_weights(q, k).sum(-1), torch.ones(2, 3, 5))


def test_the_upper_triangle_of_causal_scores_is_minus_infinity_so_its_weights_are_zero():
    q, k = torch.randn(2, 3, 5, 4), torch.randn(2, 3, 5, 4)
    weights = attention_weights(q, k, causal=True)
    above = torch.ones(5, 5, dtype=torch.bool).triu(1)
    assert (weights[..., above] == 0).all()
    assert (weights[..., ~above] > 0).all()
    by_hand = (q @ k.mT / 2).masked_fill(above, -math.inf).softmax(-1)
    assert_close(weights, by_hand)


@both_kernels
def test_a_mask_that_hides_the_diagonal_too_leaves_the_first_row_nothing_and_it_gives_zeros(kernel):
    x = torch.randn(2, 3, 4, 5)
    out = kernel(x, x, x, mask=torch.ones(4, 4, dtype=torch.bool).tril(-1))  # as drawn for "Happy mid autumn festival"
    assert torch.equal(out[:, :, 0], torch.zeros(2, 3, 5))
    assert_close(out[:, :, 1], x[:, :, 0])  # the second has the first alone to look at


# Several heads.


def test_each_head_has_a_softmax_of_its_own():
    q, k = torch.randn(2, 3, 5, 4), torch.randn(2, 3, 5, 4)
    changed = q.clone()
    changed[:, 1] += 1
    before, after = attention_weights(q, k), attention_weights(changed, k)
    assert_close(before.sum(-1), torch.ones(2, 3, 5))
    assert_close(after[:, [0, 2]], before[:, [0, 2]])
    assert not torch.allclose(after[:, 1], before[:, 1])


def test_keys_values_and_inputs_may_have_three_widths_and_heads_times_value_width_is_projected_back():
    width, heads, key_width, value_width = 7, 3, 4, 5
    attention = MultiHeadAttention(width, heads, key_width=key_width, value_width=value_width, bias=False)
    assert attention.output.weight.T.shape == (heads * value_width, width)
    assert attention.projection.weight.shape == (heads * (2 * key_width + value_width), width)
    x = torch.randn(2, 5, width)
    assert attention(x).shape == x.shape  # as many vectors come out as went in, as wide


def test_multi_head_attention_is_its_heads_side_by_side_projected():
    attention = MultiHeadAttention(6, 3)
    x = torch.randn(2, 5, 6)
    q, k, v = attention.projection(x).chunk(3, dim=-1)
    heads = []
    for head in range(3):
        mine = slice(2 * head, 2 * head + 2)
        alpha = (q[..., mine] @ k[..., mine].mT / math.sqrt(2)).softmax(-1)
        heads.append(alpha @ v[..., mine])
    assert_close(attention(x), torch.cat(heads, dim=-1) @ attention.output.weight.T + attention.output.bias)


# Positions.

I_WANT_TO_SLEEP = torch.randn(1, 4, 12, generator=torch.Generator().manual_seed(0))
SLEEP_TO_I_WANT = [3, 2, 0, 1]


def test_without_positions_the_order_of_words_changes_no_vector():
    attention = MultiHeadAttention(12, 3)
    assert_close(attention(I_WANT_TO_SLEEP[:, SLEEP_TO_I_WANT]), attention(I_WANT_TO_SLEEP)[:, SLEEP_TO_I_WANT])


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "none"])
def test_with_positions_it_does(kind):
    torch.manual_seed(0)
    positions = build_positions(PositionsConfig(kind=kind), width=12, heads=3, head_width=4, bidirectional=True)
    if kind == "buckets":
        torch.nn.init.normal_(positions.table.weight)  # large enough to be seen
    attention = MultiHeadAttention(12, 3, positions=positions)
    straight = attention(positions.add(I_WANT_TO_SLEEP, 0))
    mixed = attention(positions.add(I_WANT_TO_SLEEP[:, SLEEP_TO_I_WANT], 0))
    assert (mixed - straight[:, SLEEP_TO_I_WANT]).abs().max() > 1e-3


def test_the_rotary_score_of_positions_4_and_1_is_that_of_6_and_3():
    rotary = Rotary(8)
    dog, i = torch.randn(2, 3, 1, 8), torch.randn(2, 3, 1, 8)

    def score(query: int, key: int) -> torch.Tensor:
        return (rotary.rotate(dog, query, 7) * rotary.rotate(i, key, 7)).sum(-1)

    assert_close(score(4, 1), score(6, 3))
    assert_close(score(4, 1), (rotary.rotate(dog, 3, 7) * i).sum(-1))  # both turn by the difference, 3
    assert not torch.allclose(score(4, 1), score(6, 2))


def test_a_rotary_pair_turns_by_the_printed_matrix():
    theta = 1.0  # of the first pair: N^(-2·0/d)
    x = torch.tensor([0.3, -0.8])
    matrix = torch.tensor([[math.cos(4 * theta), -math.sin(4 * theta)], [math.sin(4 * theta), math.cos(4 * theta)]])
    assert_close(Rotary(2).rotate(x[None, None, None], 4, 5).flatten(), matrix @ x)


def test_sinusoids_of_width_512():
    table = sinusoid(torch.arange(101), 512)
    assert_close(table[0], torch.tensor([0.0, 1.0]).repeat(256))
    assert table[1, 0].item() == pytest.approx(0.8414710, abs=1e-6)
    assert table[1, 1].item() == pytest.approx(0.5403023, abs=1e-6)
    for i in (0, 3, 100, 255):
        angle = 100 / 10_000 ** (2 * i / 512)
        assert table[100, 2 * i].item() == pytest.approx(math.sin(angle), abs=1e-6)
        assert table[100, 2 * i + 1].item() == pytest.approx(math.cos(angle), abs=1e-6)


def test_short_wavelengths_tell_neighbours_apart_and_long_ones_the_rough_place():
    table = sinusoid(torch.arange(3001), 512)
    assert (table[1, :2] - table[0, :2]).norm() > 0.9
    assert (table[1, -2:] - table[0, -2:]).norm() < 1e-3
    assert (table[3000, -2:] - table[0, -2:]).norm() > 0.25


def test_positions_are_added_so_the_width_stays():
    x = torch.randn(2, 5, 12)
    for positions in (Sinusoidal(12), Learned(12, 5)):
        added = positions.add(x, 0)
        assert added.shape == x.shape
        assert_close(added - x, positions.add(torch.zeros_like(x), 0))


def test_learned_positions_end_at_their_table_and_sinusoids_do_not():
    x = torch.randn(1, 6, 12)
    assert Sinusoidal(12).add(x, 100_000).isfinite().all()
    with pytest.raises(ConfigError, match="6 positions asked, the table has 5"):
        Learned(12, 5).add(x, 0)


# Norm and feed-forward.


def test_layer_norm_is_the_printed_formula():
    norm = build_norm("layer", 7, 1e-12)
    torch.nn.init.normal_(norm.weight), torch.nn.init.normal_(norm.bias)
    x = 3 * torch.randn(2, 5, 7) + 4
    mean = x.mean(-1, keepdim=True)
    deviation = ((x - mean) ** 2).mean(-1, keepdim=True).sqrt()
    assert_close(norm(x), norm.weight * (x - mean) / deviation + norm.bias)


def test_layer_norm_depends_neither_on_the_batch_nor_on_training_and_batch_norm_on_both():
    x = torch.randn(6, 7)
    layer, batch = build_norm("layer", 7, 1e-5), torch.nn.BatchNorm1d(7)
    assert_close(layer(x)[:2], layer(x[:2]))
    assert not torch.allclose(batch(x)[:2], batch(x[:2]))
    trained, trained_batch = layer(x), batch(x)
    assert_close(layer.eval()(x), trained)
    assert not torch.allclose(batch.eval()(x), trained_batch)


def test_the_feed_forward_layer_shares_nothing_between_vectors():
    layer, x = FeedForward(7, 11), torch.randn(2, 5, 7)
    assert_close(layer(x)[:, 3], layer(x[:, 3]))
    by_hand = (x @ layer.inner.weight.T + layer.inner.bias).clamp(min=0) @ layer.outer.weight.T + layer.outer.bias
    assert_close(layer(x), by_hand)


@both_kernels
def test_all_queries_at_once_give_what_one_at_a_time_gives(kernel):
    q, k, v = torch.randn(2, 3, 5, 4), torch.randn(2, 3, 7, 4), torch.randn(2, 3, 7, 4)
    one_by_one = torch.cat([kernel(q[:, :, i : i + 1], k, v) for i in range(5)], dim=2)
    assert_close(kernel(q, k, v), one_by_one)


def test_the_last_vector_reaches_the_first_in_one_step_whatever_the_length():
    attention, x = MultiHeadAttention(6, 3), torch.randn(1, 201, 6, requires_grad=True)
    attention(x)[0, 0].sum().backward()
    assert (x.grad[0].abs().sum(-1) > 0).all()
