import copy
import math

import pytest
import torch
from torch.testing import assert_close

from manyheads.core.errors import ConfigError
from manyheads.nn.positions import (
    KINDS,
    Alibi,
    Buckets,
    Learned,
    PositionsConfig,
    Relative,
    Rotary,
    Sinusoidal,
    build_positions,
)
from manyheads.ops.rotary import sinusoid

B, T, H, D = 2, 5, 3, 4
W = H * D
SIZES = {"width": W, "heads": H, "head_width": D, "bidirectional": False}


def build(**fields):
    return build_positions(PositionsConfig(**fields), **SIZES)


def embeddings(length=T):
    return torch.randn(B, length, W)


def queries(length=T):
    return torch.randn(B, H, length, D)


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_does_one_of_the_three_jobs_and_none_does_none(kind):
    positions, x, q = build(kind=kind), embeddings(), queries()
    does = {
        "add": not torch.equal(positions.add(x, 0), x),
        "turn": not torch.equal(positions.rotate(q, 0, T), q),
        "bias": positions.bias(q, T, 0) is not None,
    }
    expected = {"sinusoidal": "add", "learned": "add", "rotary": "turn", "none": None}.get(kind, "bias")
    assert [job for job, done in does.items() if done] == ([expected] if expected else [])


@pytest.mark.parametrize("deviation", [0.02, 1.0])
def test_a_sinusoid_is_as_large_as_the_embeddings_it_is_added_to(deviation):
    built = build_positions(PositionsConfig(kind="sinusoidal"), **SIZES, deviation=deviation)
    assert_close(built.add(torch.zeros(B, T, W), 0)[1], deviation * sinusoid(torch.arange(T), W))


@pytest.mark.parametrize("kind", KINDS)
def test_only_what_is_learned_has_parameters_and_only_those_are_saved(kind):
    positions = build(kind=kind)
    positions.add(embeddings(), 0), positions.rotate(queries(), 0, T)
    names = {name for name, _ in positions.named_parameters()}
    assert bool(names) == (kind in ("learned", "relative", "buckets"))
    assert set(positions.state_dict()) == names


@pytest.mark.parametrize("kind", ["relative", "buckets", "alibi"])
@pytest.mark.parametrize("bidirectional", [True, False])
def test_a_bias_knows_distances_only(kind, bidirectional):
    positions = build_positions(PositionsConfig(kind=kind, clip=2), **SIZES | {"bidirectional": bidirectional})
    q = queries(1).expand(B, H, T, D)  # the same query everywhere, so that only distances differ
    whole = positions.bias(q, T, 0)
    assert whole.expand(B, H, T, T).shape == (B, H, T, T)
    assert_close(whole[:, :, 1:, 1:], whole[:, :, :-1, :-1])
    assert not torch.allclose(whole[:, :, 2, 0], whole[:, :, 2, 1])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_the_dtype_of_what_comes_in_goes_out(kind, dtype):
    positions = build(kind=kind)
    assert positions.add(embeddings().to(dtype), 0).dtype == dtype
    assert positions.rotate(queries().to(dtype), 0, T).dtype == dtype
    bias = positions.bias(queries().to(dtype), T, 0)
    assert bias is None or bias.dtype == dtype


@pytest.mark.parametrize("kind", ["sinusoidal", "rotary"])
def test_tables_keep_their_precision_when_the_model_is_cast(kind):
    positions = build(kind=kind)
    x, q = embeddings(200), queries(200)
    before = positions.add(x, 0), positions.rotate(q, 0, 200)
    positions.bfloat16()
    assert torch.equal(positions.add(x, 0), before[0])
    assert torch.equal(positions.rotate(q, 0, 200), before[1])


@pytest.mark.parametrize("kind", ["sinusoidal", "rotary"])
def test_a_model_made_on_the_meta_device_has_its_tables_after_it_is_filled(kind):
    with torch.device("meta"):
        positions = build(kind=kind)
    positions.to_empty(device="cpu")
    x, q = embeddings(), queries()
    assert_close(positions.add(x, 0), build(kind=kind).add(x, 0))
    assert_close(positions.rotate(q, 0, T), build(kind=kind).rotate(q, 0, T))


def test_a_table_follows_its_input_to_another_device():
    positions = Sinusoidal(W)
    positions.add(embeddings(), 0)
    assert positions.add(embeddings().to("meta"), 0).device.type == "meta"
    before = positions.table.rows.shape
    assert positions.add(embeddings(), 0).device.type == "cpu"
    assert positions.table.rows.shape == before  # moving is not growing


def test_a_sinusoidal_table_grows_and_stays_right():
    positions, x = Sinusoidal(W), torch.zeros(1, 3, W)
    for start in (0, 7, 40, 5, 1000):
        assert_close(positions.add(x, start)[0], sinusoid(torch.arange(start, start + 3), W))
    assert positions.table.rows.shape[0] >= 1003


@pytest.mark.parametrize("scaling", ["none", "dynamic_ntk"])
def test_a_table_made_while_generating_serves_training(scaling):
    positions = Rotary(D, scaling=scaling, original_length=3)
    with torch.inference_mode():
        positions.rotate(queries(), 0, T)
    x = queries().requires_grad_()
    positions.rotate(x, 0, T).sum().backward()
    assert x.grad.abs().sum() > 0


@pytest.mark.parametrize("kind", ["sinusoidal", "rotary"])
def test_it_compiles_as_one_graph_and_grows_there(kind):
    torch._dynamo.reset()
    positions = build(kind=kind)
    compiled = torch.compile(
        lambda x, q: (positions.add(x, 0), positions.rotate(q, 0, q.shape[2])), backend="eager", fullgraph=True
    )
    for length in (3, 5, 300, 700):
        x, q = embeddings(length), queries(length)
        for got, expected in zip(compiled(x, q), (build(kind=kind).add(x, 0), build(kind=kind).rotate(q, 0, length))):
            assert_close(got, expected)


@pytest.mark.parametrize("kind", KINDS)
def test_a_copy_gives_the_same_and_shares_nothing(kind):
    positions, x, q = build(kind=kind), embeddings(), queries()
    positions.add(x, 0), positions.rotate(q, 0, T)
    twin = copy.deepcopy(positions)
    assert_close(twin.add(x, 0), positions.add(x, 0))
    assert_close(twin.rotate(q, 0, T), positions.rotate(q, 0, T))
    if kind in ("sinusoidal", "rotary"):
        assert twin.table.rows is not positions.table.rows


def test_a_learned_table_refuses_what_it_does_not_have():
    positions = Learned(W, 4)
    positions.add(embeddings(4), 0)
    with pytest.raises(ConfigError, match="5 positions asked, the table has 4"):
        positions.add(embeddings(1), 4)


def test_relative_is_the_query_times_the_vector_of_the_distance():
    positions, q = Relative(H, D, clip=2), queries(2)
    got = positions.bias(q, T, 1)
    for i in range(2):
        for j in range(T):
            vector = positions.table_HLD[:, max(-2, min(2, j - (i + 1))) + 2]
            assert_close(got[:, :, i, j], (q[:, :, i] * vector).sum(-1) / D**0.5)


@pytest.mark.parametrize("bidirectional", [True, False])
def test_buckets_equal_t5(bidirectional):
    transformers = pytest.importorskip("transformers")
    from transformers.models.t5.modeling_t5 import T5Attention

    buckets = {"relative_attention_num_buckets": 6, "relative_attention_max_distance": 9}
    config = transformers.T5Config(d_model=W, d_kv=D, num_heads=H, is_decoder=not bidirectional, **buckets)
    theirs = T5Attention(config, has_relative_attention_bias=True, layer_idx=0)
    ours = Buckets(H, 6, 9, bidirectional)
    ours.table.weight.data.copy_(theirs.relative_attention_bias.weight)
    assert_close(ours.bias(queries(7), 20, 13), theirs.compute_bias(7, 20, past_seen_tokens=13))


def test_alibi_is_zero_where_the_query_stands_and_falls_with_distance():
    q = queries(2)
    back, both = Alibi(H, False).bias(q, T, 3), Alibi(H, True).bias(q, T, 3)
    assert back[0, :, 0, 3].tolist() == [0.0] * H
    assert (back[0, :, 0, :4].diff() > 0).all()
    assert both[0, :, 0, 4].tolist() == both[0, :, 0, 2].tolist()


def test_dynamic_ntk_turns_late_and_by_the_length_in_view():
    positions, x = Rotary(D, scaling="dynamic_ntk", factor=2.0, original_length=8), queries()
    plain = Rotary(D)
    assert positions.turns_late
    assert not plain.turns_late
    assert_close(positions.rotate(x, 0, 8), plain.rotate(x, 0, 8))
    assert not torch.allclose(positions.rotate(x, 0, 9), plain.rotate(x, 0, 9))
    assert not torch.allclose(positions.rotate(x, 0, 9), positions.rotate(x, 0, 30))
    assert_close(positions.rotate(x, 0, 8), plain.rotate(x, 0, 8))  # and a short one after a long one is plain again


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"kind": "rotery"}, "choose one of sinusoidal"),
        ({"kind": "rotary", "scaling": "cubic"}, "choose one of none, linear"),
        ({"kind": "learned", "scaling": "linear"}, "set kind to rotary or scaling to none"),
        ({"kind": "rotary", "factor": 2.0}, "set scaling to one of linear"),
        ({"kind": "rotary", "scaling": "linear", "factor": 0.5}, "least it can be is 1.0"),
        ({"kind": "rotary", "scaling": "llama3", "factor": 3.0, "low_turns": 4.0}, "low_turns"),
        ({"length": 0}, "length is 0"),
        ({"clip": 0}, "clip is 0"),
        *(({"base": base}, "finite and above 1") for base in (1.0, math.inf, math.nan)),
        *(({"amplitude": size}, "least it can be is 0") for size in (-1.0, math.inf, math.nan)),
        ({"buckets": 2}, "buckets is 2"),
        ({"buckets": 7}, "use 8"),
        ({"buckets": 32, "furthest": 16}, "set it above 16"),
    ],
)
def test_the_impossible_is_refused_with_a_way_out(fields, message):
    with pytest.raises(ConfigError, match=message):
        PositionsConfig(**fields)


def test_rotary_refuses_heads_it_cannot_pair():
    with pytest.raises(ConfigError, match="use 4 or 6"):
        Rotary(5)
    with pytest.raises(ConfigError, match="4 or more"):
        Rotary(2, scaling="ntk", factor=2.0)
