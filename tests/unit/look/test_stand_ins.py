"""Kernels stand in for others in the thread that asked for it, whatever other threads do with the same model."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import torch
from helpers import spread_gpt

from manyheads.look.heads import attentions, heads_off
from manyheads.look.record import recorded_attention
from manyheads.look.trace import followed
from manyheads.ops.attention import sdpa

MINE, THEIRS = torch.randint(31, (2, 7)), torch.randint(31, (3, 5))
NAME = "blocks.1.attention"


@torch.no_grad()
def test_what_another_thread_computes_is_neither_changed_nor_recorded():
    model = spread_gpt()
    part, expected = attentions(model)[1], model(THEIRS)
    with ThreadPoolExecutor(1) as other:
        with recorded_attention(model) as weights, followed(model, part) as trace:
            model(MINE)
            assert torch.equal(other.submit(model, THEIRS).result(), expected)
        with heads_off(model, [(0, 1)]):
            assert not torch.equal(model(THEIRS), expected)
            assert torch.equal(other.submit(model, THEIRS).result(), expected)
    assert weights[NAME].shape == (2, 3, 7, 7)
    assert trace.kernel["q"].shape[0] == 2
    assert {passage.given.shape[0] for passage in trace.passages[2:]} == {7}


@torch.no_grad()
def test_two_threads_record_the_same_model_and_the_first_to_begin_is_the_first_to_end():
    model = spread_gpt()
    alone = model(THEIRS)
    with recorded_attention(model) as expected:
        model(THEIRS)
    with ThreadPoolExecutor(1) as other:
        mine, theirs = ExitStack(), ExitStack()
        first = mine.enter_context(recorded_attention(model))
        second = other.submit(theirs.enter_context, recorded_attention(model)).result()
        other.submit(theirs.enter_context, heads_off(model, [(0, 1)])).result()
        model(MINE)
        mine.close()
        assert not torch.equal(other.submit(model, THEIRS).result(), alone)  # their head is still off
        assert torch.equal(model(THEIRS), alone)  # and nowhere else
        other.submit(theirs.close).result()
    assert first[NAME].shape == (2, 3, 7, 7)
    assert torch.equal(second["blocks.0.attention"], expected["blocks.0.attention"])
    assert all(part.module.kernel is sdpa and not part.module._forward_pre_hooks for part in attentions(model))
