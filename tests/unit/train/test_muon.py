"""Muon for the matrices between embedding and output, AdamW for all else."""

from dataclasses import replace

import pytest
import torch
from torch.optim import AdamW, Muon
from torch.testing import assert_close

from manyheads.data.batches import Batch
from manyheads.models.gpt import GPT, GPTConfig
from manyheads.models.llama import Llama, LlamaConfig
from manyheads.nn.positions import PositionsConfig
from manyheads.train.config import TrainConfig
from manyheads.train.objectives import language_loss
from manyheads.train.optim import build_optimizer, load_optimizer_tensors, optimizer_tensors

SMALL = GPTConfig(vocabulary=17, context=11, width=12, layers=2, heads=3, inner=14, dropout=0.0, attention_dropout=0.0)
MODELS = {
    "gpt": lambda: GPT(SMALL),
    "untied": lambda: GPT(replace(SMALL, tied=False, positions=PositionsConfig(kind="relative", clip=2))),
    "buckets": lambda: GPT(replace(SMALL, positions=PositionsConfig(kind="buckets", buckets=4, furthest=6))),
    "llama": lambda: Llama(LlamaConfig(vocabulary=17, context=11, width=24, layers=2, heads=6, key_value_heads=2)),
}
MUON = TrainConfig(optimizer="muon", weight_decay=0.1)
BATCH = Batch(35, ids=torch.randint(2, 17, (5, 8), generator=torch.Generator().manual_seed(2)), counted=None)


def names_in(part, model) -> set[str]:
    held = {id(weight) for group in part.param_groups for weight in group["params"]}
    return {name for name, weight in model.named_parameters() if id(weight) in held}


def trained(optimizer, model, steps, rate=0.02) -> list[float]:
    losses = []
    for group in optimizer.param_groups:
        group["lr"] = rate
    for _ in range(steps):
        loss = language_loss(model, BATCH)
        (loss.total / loss.tokens).backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(float(loss.likelihood) / loss.tokens)
    return losses


@pytest.mark.parametrize("kind", MODELS)
def test_it_takes_the_matrices_inside_blocks_and_of_the_rest_matrices_alone_decay(kind):
    model = MODELS[kind]()
    adam, muon = build_optimizer(model, MUON).parts
    assert isinstance(adam, AdamW)
    assert isinstance(muon, Muon)
    inner = "feedforward.gate_up" if kind == "llama" else "feedforward.inner"
    hidden = {
        f"blocks.{block}.{part}.weight"
        for block in (0, 1)
        for part in ("attention.projection", "attention.output", inner, "feedforward.outer")
    }
    assert names_in(muon, model) == hidden
    assert names_in(adam, model) == dict(model.named_parameters()).keys() - hidden
    assert "embedding.weight" in names_in(adam, model)
    decaying = {
        id(weight)
        for part in (adam, muon)
        for group in part.param_groups
        for weight in group["params"]
        if group["weight_decay"] == 0.1
    }
    for name, parameter in model.named_parameters():
        assert (id(parameter) in decaying) == (parameter.dim() == 2 and "positions" not in name), name
    for other in ("adam", "adamw"):
        (part,) = build_optimizer(model, TrainConfig(optimizer=other)).parts
        assert names_in(part, model) == dict(model.named_parameters()).keys()


@pytest.mark.parametrize("kind", MODELS)
def test_one_learning_rate_reaches_all_and_it_learns(kind):
    model = MODELS[kind]()
    optimizer = build_optimizer(model, MUON)
    before = {name: tensor.detach().clone() for name, tensor in model.named_parameters()}
    trained(optimizer, model, 1, rate=0.0)
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.named_parameters())
    trained(optimizer, model, 1, rate=0.01)
    moved = {name: float((tensor.detach() - before[name]).abs().max()) for name, tensor in model.named_parameters()}
    assert all(moved.values())
    assert max(moved.values()) < 0.1  # Muon's steps are of the size of AdamW's
    losses = trained(optimizer, model, 60)
    assert losses[0] > 2
    assert losses[-1] < 0.5 * losses[0]


def test_its_steps_have_no_favourite_direction():
    """The gradient made orthogonal: all singular values of a step are about the same."""
    model = MODELS["gpt"]()
    weight = model.blocks[0].feedforward.inner.weight
    before = weight.detach().clone()
    language_loss(model, BATCH).total.backward()
    gradient = torch.linalg.svdvals(weight.grad)
    optimizer = build_optimizer(model, TrainConfig(optimizer="muon"))
    for group in optimizer.param_groups:
        group["lr"] = 0.01
    optimizer.step()
    step = torch.linalg.svdvals(before - weight.detach())
    # The last is none: what a LayerNorm puts out, which is multiplied here, has a mean of zero.
    assert gradient[0] / gradient[-2] > 5
    assert step[0] / step[-2] < 2.5
    rms = float((before - weight.detach()).square().mean().sqrt())
    assert 0.1 < rms / 0.01 < 0.4  # 0.2 times the learning rate, as AdamW's usually are


@pytest.mark.parametrize(
    ("kind", "config"),
    [*((kind, MUON) for kind in MODELS), ("gpt", TrainConfig()), ("gpt", replace(MUON, optimizer="adamw"))],
    ids=lambda each: getattr(each, "optimizer", each),
)
def test_any_optimizer_goes_on_from_its_tensors_as_if_it_had_not_stopped(kind, config):
    model, copy, forgetful = (MODELS[kind]() for _ in range(3))
    optimizer = build_optimizer(model, config)
    trained(optimizer, model, 3)
    tensors = {name: tensor.clone() for name, tensor in optimizer_tensors(optimizer, model).items()}
    assert {name.rpartition("/")[0] for name in tensors} == dict(model.named_parameters()).keys()
    assert all(isinstance(tensor, torch.Tensor) for tensor in tensors.values())
    for other in (copy, forgetful):
        other.load_state_dict(model.state_dict())
    resumed = build_optimizer(copy, config)
    load_optimizer_tensors(resumed, copy, tensors)
    before = {name: tensor.clone() for name, tensor in tensors.items()}
    expected = trained(optimizer, model, 3)
    assert trained(resumed, copy, 3) == expected
    assert_close(tensors, before, atol=0, rtol=0)  # what is loaded is a copy
    trained(build_optimizer(forgetful, config), forgetful, 3)
    for name, parameter in model.named_parameters():
        assert torch.equal(copy.get_parameter(name), parameter), name
    for name in ("blocks.0.feedforward.outer.weight", "embedding.weight"):
        assert not torch.equal(forgetful.get_parameter(name), model.get_parameter(name))
    again = optimizer_tensors(resumed, copy)
    assert again.keys() == tensors.keys()
    assert all(torch.equal(again[name], each) for name, each in optimizer_tensors(optimizer, model).items())
