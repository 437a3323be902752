"""Each token from those before it, and from those of its own document alone."""

from dataclasses import replace

import pytest
import torch
from helpers import randomised
from torch.nn import functional as F
from torch.testing import assert_close

from manyheads.data.batches import Batch
from manyheads.models.gpt import GPT, GPTConfig
from manyheads.models.llama import Llama, LlamaConfig
from manyheads.nn.positions import KINDS, PositionsConfig
from manyheads.ops.masks import document_mask
from manyheads.train.objectives import language_loss

END = 1
SMALL = GPTConfig(vocabulary=17, context=11, width=12, layers=2, heads=3, inner=14, dropout=0.0, attention_dropout=0.0)
IDS = torch.tensor([[5, 9, 3, END, 4, 8, 2, 11], [7, 2, 16, 11, 6, 3, END, 13]])


def built(config=SMALL, family=GPT):
    torch.manual_seed(1)
    return randomised(family(config))


def batch_of(ids, counted=None) -> Batch:
    return Batch(ids[:, 1:].numel() if counted is None else int(counted.sum()), ids=ids, counted=counted)


COUNTED = torch.tensor([[0, 1, 1, 0, 1, 0, 0], [0, 0, 0, 1, 1, 1, 1]], dtype=torch.bool)


@pytest.mark.parametrize("counted", [None, COUNTED], ids=["all", "some"])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("family", [GPT, Llama])
def test_the_loss_is_torchs_with_its_gradients(family, smoothing, counted):
    config = SMALL if family is GPT else LlamaConfig(vocabulary=17, context=11, width=12, layers=2, heads=3, inner=14)
    model, batch = built(config, family), batch_of(IDS, counted)
    logits, targets = model(IDS[:, :-1]), IDS[:, 1:]
    kept = torch.ones_like(targets, dtype=torch.bool) if counted is None else counted
    expected = F.cross_entropy(logits[kept], targets[kept], reduction="sum", label_smoothing=smoothing)
    plain = F.cross_entropy(logits[kept], targets[kept], reduction="sum")
    found = language_loss(model, batch, smoothing=smoothing)
    assert_close(found.total, expected)
    assert_close(found.likelihood, plain)
    assert found.tokens == int(kept.sum())
    assert bool(found.total == found.likelihood) == (smoothing == 0.0)
    weights = [*model.parameters()]
    for one, other in zip(torch.autograd.grad(found.total, weights), torch.autograd.grad(expected, weights)):
        assert_close(one, other, atol=1e-5, rtol=1e-4)
    with torch.no_grad():  # as in validation
        assert_close(language_loss(model, batch, smoothing=smoothing).total, expected)


def test_what_does_not_count_is_still_read():
    model, changed = built(), IDS.clone()
    changed[0, 0] += 1  # never predicted
    changed[1, 2] -= 1  # predicted, but it does not count
    before, after = (language_loss(model, batch_of(ids, COUNTED)).total for ids in (IDS, changed))
    assert not torch.allclose(before, after)
    changed = IDS.clone()
    changed[0, 6:] = 3  # neither counts nor is before anything that does
    assert_close(
        language_loss(model, batch_of(changed, COUNTED)).total, language_loss(model, batch_of(IDS, COUNTED)).total
    )


def test_the_losses_of_batches_add_up():
    model = built()
    whole, first, second = (language_loss(model, batch_of(ids)) for ids in (IDS, IDS[:1], IDS[1:]))
    assert_close(whole.total, first.total + second.total)
    assert whole.tokens == first.tokens + second.tokens == 14


# Documents side by side in one row: the first of row 0 is its first four tokens.


def losses_of(model, ids, places, end: int | None = END) -> torch.Tensor:
    """The loss of predictions at these places of the first row alone."""
    counted = torch.zeros_like(ids[:, 1:], dtype=torch.bool)
    counted[0, places] = True
    return language_loss(model, batch_of(ids, counted), document_end=end).total


@pytest.mark.parametrize("kind", KINDS)
def test_a_change_in_one_document_leaves_the_other_alone(kind):
    model = built(replace(SMALL, positions=PositionsConfig(kind=kind, clip=2, buckets=4, furthest=6)))
    changed = IDS.clone()
    changed[0, 1] += 1
    second, first = [4, 5, 6], [1, 2]
    assert_close(losses_of(model, changed, second), losses_of(model, IDS, second), atol=1e-6, rtol=0)
    assert not torch.allclose(losses_of(model, changed, first), losses_of(model, IDS, first))
    # and without the mask the second document reads the first
    assert not torch.allclose(losses_of(model, changed, second, None), losses_of(model, IDS, second, None))
    changed = IDS.clone()
    changed[0, 5] += 1
    assert_close(losses_of(model, changed, [0, 1, 2]), losses_of(model, IDS, [0, 1, 2]), atol=1e-6, rtol=0)
    assert not torch.allclose(losses_of(model, changed, [5, 6]), losses_of(model, IDS, [5, 6]))


@pytest.mark.parametrize(
    ("family", "kind"), [(GPT, "rotary"), (Llama, "rotary"), (GPT, "alibi"), (GPT, "relative"), (GPT, "none")]
)
@torch.no_grad()
def test_where_positions_are_relative_a_document_is_as_alone(family, kind):
    positions = PositionsConfig(kind=kind, clip=2)
    config = (
        replace(SMALL, positions=positions)
        if family is GPT
        else LlamaConfig(vocabulary=17, context=11, width=12, layers=2, heads=6, key_value_heads=2, positions=positions)
    )
    model = built(config, family)
    together = model(IDS, document_mask(IDS, END))[0, 4:]
    alone = model(IDS[:1, 4:])[0]
    assert_close(together, alone, atol=1e-5, rtol=0)
    assert not torch.allclose(model(IDS)[0, 4:], alone, atol=1e-2)
    expected = F.cross_entropy(alone[:-1], IDS[0, 5:], reduction="sum")
    assert_close(losses_of(model, IDS, [4, 5, 6]), expected, atol=1e-4, rtol=0)


@torch.no_grad()
def test_an_end_is_predicted_from_its_document_and_begins_the_next_alone():
    model = built(replace(SMALL, positions=PositionsConfig(kind="rotary")))
    logits = model(IDS[:1, :4])[0].log_softmax(dim=-1)
    assert_close(losses_of(model, IDS, [2]), -logits[2, END], atol=1e-5, rtol=0)
    assert_close(losses_of(model, IDS, [3]), -logits[3, 4], atol=1e-5, rtol=0)  # the first token behind it
