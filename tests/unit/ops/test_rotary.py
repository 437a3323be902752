import math

import pytest
import torch
from torch.testing import assert_close

from manyheads.ops import rotary
from manyheads.ops.rotary import sinusoid

WIDTH, BASE, ORIGINAL = 10, 10_000.0, 64


def theirs(kind: str, length: int | None = None, width: int = WIDTH, original: int = ORIGINAL, **parameters):
    """Frequencies and attention factor of transformers for a Llama of this head width."""
    transformers = pytest.importorskip("transformers")
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    rope = {"rope_type": kind, "rope_theta": BASE, "original_max_position_embeddings": original, **parameters}
    sizes = {"hidden_size": 2 * width, "num_attention_heads": 2, "max_position_embeddings": original}
    return ROPE_INIT_FUNCTIONS[kind](transformers.LlamaConfig(**sizes, rope_parameters=rope), None, seq_len=length)


def ours():
    return rotary.frequencies(WIDTH, BASE)


def test_frequencies_fall_from_one_by_a_constant_ratio():
    got = ours()
    assert_close(got, torch.tensor([BASE ** (-2 * pair / WIDTH) for pair in range(5)]))
    assert got[0] == 1.0


@pytest.mark.parametrize("factor", [1.0, 3.0, 16.0])
def test_linear_and_yarn_equal_transformers(factor):
    expected, attention = theirs("linear", factor=factor)
    assert_close(rotary.linear(ours(), factor), expected)
    assert attention == 1.0
    assert torch.allclose(ours(), expected) == (factor == 1.0)
    expected, attention = theirs("yarn", factor=factor)
    got, got_attention = rotary.yarn(ours(), factor, BASE, ORIGINAL)
    assert_close(got, expected, rtol=1e-5, atol=1e-8)
    assert got_attention == pytest.approx(attention)


@pytest.mark.parametrize("length", [5, 64, 65, 200])
def test_dynamic_ntk_equals_transformers_at_every_length(length):
    expected, _ = theirs("dynamic", length, factor=3.0)
    got = rotary.dynamic_ntk(ours(), 3.0, length, ORIGINAL)
    assert_close(got, expected, rtol=1e-5, atol=1e-8)
    assert torch.equal(got, ours()) == (length <= ORIGINAL)


@pytest.mark.parametrize(
    ("kind", "original", "base", "factor"),
    [("yarn", 4096, 10_000.0, 4.0), ("yarn", 8192, 500_000.0, 4.0), ("llama3", 8192, 500_000.0, 8.0)],
)
def test_yarn_and_llama3_equal_transformers_at_the_sizes_of_published_models(kind, original, base, factor):
    turns = {"low_freq_factor": 1.0, "high_freq_factor": 4.0} if kind == "llama3" else {}
    expected, attention = theirs(kind, width=128, original=original, rope_theta=base, factor=factor, **turns)
    plain = rotary.frequencies(128, base)
    if kind == "yarn":
        got, got_attention = rotary.yarn(plain, factor, base, original)
    else:
        got, got_attention = rotary.llama3(plain, factor, original), 1.0
    assert_close(got, expected, rtol=1e-5, atol=1e-9)
    assert got_attention == pytest.approx(attention)
    ratio = plain / got
    assert ratio[0] == 1.0  # fast pairs stay
    assert ratio[-1] == pytest.approx(factor)  # slow ones are interpolated
    assert ((ratio > 1.01) & (ratio < factor - 0.01)).any()  # and a ramp joins them


def test_ntk_is_a_larger_base():
    got = rotary.ntk(ours(), 3.0)
    assert_close(got, rotary.frequencies(WIDTH, BASE * 3.0 ** (WIDTH / (WIDTH - 2))), rtol=1e-5, atol=1e-8)
    ratio = ours() / got
    assert ratio[0] == 1.0
    assert ratio[-1].item() == pytest.approx(3.0, rel=1e-5)


def test_rotate_equals_transformers():
    pytest.importorskip("transformers")
    from transformers.models.llama.modeling_llama import apply_rotary_pos_emb

    q, k = torch.randn(2, 3, 5, WIDTH), torch.randn(2, 3, 5, WIDTH)
    cos, sin = rotary.cosines_sines(torch.arange(5), ours()).unbind(1)
    expected_q, expected_k = apply_rotary_pos_emb(q, k, cos[None], sin[None])
    assert_close(rotary.rotate(q, cos, sin), expected_q)
    assert_close(rotary.rotate(k, cos, sin), expected_k)


def test_turning_keeps_lengths_and_leaves_position_zero():
    x = torch.randn(2, 3, 5, WIDTH)
    turned = rotary.rotate(x, *rotary.cosines_sines(torch.arange(5), ours()).unbind(1))
    assert_close(turned.norm(dim=-1), x.norm(dim=-1))
    assert torch.equal(turned[:, :, 0], x[:, :, 0])
    assert not torch.allclose(turned[:, :, 1:], x[:, :, 1:])


def test_the_attention_factor_lengthens_what_is_turned():
    x = torch.randn(1, 1, 5, WIDTH)
    factor = 0.1 * math.log(3.0) + 1
    turned = rotary.rotate(x, *rotary.cosines_sines(torch.arange(5), ours(), factor).unbind(1))
    assert_close(turned.norm(dim=-1), factor * x.norm(dim=-1))


@pytest.mark.parametrize("width", [6, 7])
def test_every_entry_is_the_published_formula(width):
    table = sinusoid(torch.arange(5), width)
    assert table.shape == (5, width)
    assert table.dtype == torch.float32
    for position in range(5):
        for column in range(width):
            angle = position / 10_000 ** (2 * (column // 2) / width)
            expected = math.sin(angle) if column % 2 == 0 else math.cos(angle)
            assert table[position, column].item() == pytest.approx(expected, abs=1e-6)


def test_the_base_sets_the_longest_wavelength():
    table = sinusoid(torch.tensor([3]), 4, base=100.0)
    assert_close(table[0, 2:], torch.tensor([math.sin(0.3), math.cos(0.3)]))
    assert not torch.allclose(table, sinusoid(torch.tensor([3]), 4))


def test_positions_far_away_are_still_exact():
    far = 1_000_003
    table = sinusoid(torch.tensor([far]), 6)
    angle = far / 10_000 ** (2 / 6)
    assert table[0, 2].item() == pytest.approx(math.sin(angle), abs=1e-6)
    rounded = torch.tensor(angle, dtype=torch.float32).sin().item()
    assert abs(rounded - math.sin(angle)) > 1e-4  # float32 angles would not be


def test_a_shift_is_the_same_linear_map_from_every_position():
    table = sinusoid(torch.arange(303), 6).double()
    shift = torch.linalg.lstsq(table[:300], table[3:]).solution  # takes every position p to p + 3
    later = sinusoid(torch.arange(1000, 1005), 6).double()
    assert_close(later @ shift, sinusoid(torch.arange(1003, 1008), 6).double(), atol=1e-4, rtol=0)
    assert not torch.allclose(later @ shift, later, atol=0.1)
