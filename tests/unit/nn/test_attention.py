import pytest
import torch
from torch import nn
from torch.testing import assert_close

from manyheads.core.errors import ConfigError
from manyheads.nn.attention import MultiHeadAttention
from manyheads.nn.cache import Cache
from manyheads.nn.positions import Alibi, Relative, Rotary
from manyheads.ops.attention import reference, sdpa

B, T, S, W, H = 2, 5, 7, 12, 3


@pytest.fixture
def x():
    return torch.randn(B, T, W)


@pytest.fixture
def memory():
    return torch.randn(B, S, W)


def with_gradients(attention, states):
    """What it gives, and the gradients of its matrices."""
    (states * torch.linspace(-1, 1, states.numel()).view_as(states)).sum().backward()
    return states, *(each.grad for each in attention.parameters())


PADDED = torch.tensor([[False] * T, [False] * 3 + [True] * 2])
CASES = {
    "self": ({}, {}, {}),
    "padded": ({}, {"mask": ~PADDED[:, None, None, :]}, {"key_padding_mask": PADDED}),
    "causal": ({"causal": True}, {}, {"attn_mask": torch.ones(T, T).triu(1).bool()}),
    "cross": ({}, {}, {}),
}


@pytest.mark.parametrize("kernel", [sdpa, reference])
@pytest.mark.parametrize("case", CASES)
def test_attention_is_torchs_and_so_are_its_gradients(x, memory, kernel, case):
    made, asked, asked_there = CASES[case]
    seen = memory if case == "cross" else None
    ours, theirs = MultiHeadAttention(W, H, kernel=kernel, **made), nn.MultiheadAttention(W, H, batch_first=True)
    nn.init.normal_(ours.projection.bias)
    parts = {"in_proj_": ours.projection, "out_proj.": ours.output}
    theirs.load_state_dict({f"{part}{name}": each for part in parts for name, each in parts[part].named_parameters()})
    there = x if seen is None else seen
    expected, _ = theirs(x, there, there, **asked_there)
    found = ours(x, seen, **asked)
    assert_close(with_gradients(ours, found), with_gradients(theirs, expected), atol=5e-5, rtol=1e-4)
    if asked_there:
        assert not torch.allclose(ours(x, x), expected)  # without a mask, and a memory is seen as a whole


@pytest.mark.parametrize("sizes", [{"key_width": 5, "value_width": 2}, {"key_width": 2}, {"value_width": 9}])
@pytest.mark.parametrize("key_value_heads", [3, 1])
def test_head_widths_are_free(x, memory, sizes, key_value_heads):
    attention = MultiHeadAttention(W, H, key_value_heads=key_value_heads, **sizes)
    key_width = sizes.get("key_width", W // H)
    value_width = sizes.get("value_width", key_width)
    assert attention.output.weight.shape == (W, H * value_width)
    assert attention.projection.weight.shape == (H * key_width + key_value_heads * (key_width + value_width), W)
    assert attention(x).shape == attention(x, memory).shape == (B, T, W)
    attention.kernel, fast = reference, attention(x)
    assert_close(attention(x), fast)


def test_grouped_queries_are_whole_heads_with_equal_keys_and_values(x, memory):
    grouped = MultiHeadAttention(W, 6, key_value_heads=2)
    full = MultiHeadAttention(W, 6)
    queries, keys, values = grouped.projection.weight.split(grouped.parts)

    def repeated(part):
        return part.unflatten(0, (2, 2)).repeat_interleave(3, dim=0).flatten(0, 1)

    with torch.no_grad():
        full.projection.weight.copy_(torch.cat([queries, repeated(keys), repeated(values)]))
        nn.init.zeros_(full.projection.bias)
        nn.init.zeros_(grouped.projection.bias)
        full.output.load_state_dict(grouped.output.state_dict())
    assert_close(grouped(x), full(x))
    assert_close(grouped(x, memory), full(x, memory))


POSITIONS = {
    "relative": lambda: Relative(H, W // H, clip=2),
    "rotary": lambda: Rotary(W // H),
    "dynamic": lambda: Rotary(W // H, scaling="dynamic_ntk", factor=2.0, original_length=3),
    "alibi": lambda: Alibi(H, bidirectional=False),
}


def test_positions_that_depend_on_the_length_in_view_turn_cached_keys_anew(x):
    attention = MultiHeadAttention(W, H, causal=True, positions=POSITIONS["dynamic"]())
    cache = Cache(T)
    attention(x[:, :4], cache=cache)
    cache.advance(4)
    assert_close(attention(x[:, 4:], cache=cache), attention(x)[:, 4:])


def test_a_memory_is_projected_once(x, memory):
    attention = MultiHeadAttention(W, H)
    cache = Cache(T)
    assert_close(attention(x, memory, cache=cache), attention(x, memory))
    # what is remembered is used, whatever the memory now is
    assert_close(attention(x, torch.zeros_like(memory), cache=cache), attention(x, memory))


def test_rows_that_share_a_memory_are_rows_with_a_memory_each(memory):
    attention = MultiHeadAttention(W, H)
    beams = 3
    rows = torch.randn(B * beams, 1, W)
    mask = torch.ones(B, 1, 1, S, dtype=torch.bool)
    mask[1, ..., 4:] = False
    each = attention(rows, memory.repeat_interleave(beams, dim=0), mask=mask.repeat_interleave(beams, dim=0))
    assert_close(attention(rows, memory, mask=mask), each)
    assert not torch.allclose(attention(rows, memory.flip(0), mask=mask), each)


def test_without_bias_there_is_none(x, memory):
    attention = MultiHeadAttention(W, H, bias=False)
    assert [name for name, _ in attention.named_parameters()] == ["projection.weight", "output.weight"]
    assert_close(attention(x, x), attention(x))  # the two ways to project agree
    attention(x, memory)


def test_a_width_that_does_not_split_is_refused_unless_heads_have_one_of_their_own():
    with pytest.raises(ConfigError, match="width 14 does not split over 4 heads; the nearest that does is 12"):
        MultiHeadAttention(14, 4)
    MultiHeadAttention(14, 4, key_width=3)


PLACED = [{"positions": kind} for kind in ("rotary", "alibi", "relative")]  # each row begins at its own zero
GROUPS = [(3, 2), (1, 4), (2, 5)]  # rows and their length, end to end


def packed_rows():
    """Rows of different lengths, and the same end to end."""
    each = [torch.randn(length, W) for count, length in GROUPS for _ in range(count)]
    return each, torch.cat(each)[None]


@pytest.mark.parametrize("kernel", [sdpa, reference])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("sizes", [{}, {"key_value_heads": 1}, {"key_width": 5, "value_width": 2}, *PLACED], ids=str)
def test_rows_in_groups_are_each_as_alone(kernel, causal, sizes):
    sizes = {name: POSITIONS[value]() if name == "positions" else value for name, value in sizes.items()}
    attention = MultiHeadAttention(W, H, causal=causal, kernel=kernel, **sizes)
    nn.init.normal_(attention.projection.bias)
    each, together = packed_rows()
    found = attention(together, groups=GROUPS)
    assert found.shape == together.shape == (1, 20, W)
    for row, alone in zip(found[0].split([len(row) for row in each]), each, strict=True):
        assert_close(row, attention(alone[None])[0])
    assert not torch.allclose(attention(together), found)  # without groups they see each other


@pytest.mark.parametrize("causal", [False, True])
def test_gradients_of_rows_in_groups_are_those_of_each_alone(causal):
    attention = MultiHeadAttention(W, H, causal=causal)
    each, together = packed_rows()
    weights = torch.randn(1, 20, W)
    results = []
    for states in (
        lambda: attention(together, groups=GROUPS),
        lambda: torch.cat([attention(row[None]) for row in each], dim=1),
    ):
        attention.zero_grad()
        (states() * weights).sum().backward()
        results.append([parameter.grad.clone() for parameter in attention.parameters()])
    assert_close(*results)
