import math
from collections import OrderedDict

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from manyheads.core.errors import ConfigError
from manyheads.train.config import TrainConfig
from manyheads.train.optim import build_optimizer, learning_rate, load_optimizer_tensors, optimizer_tensors


@pytest.mark.parametrize("step", [1, 2, 3999, 4000, 4001, 100_000])
def test_the_schedule_is_the_papers(step):
    expected = 512**-0.5 * min(step**-0.5, step * 4000**-1.5)
    assert learning_rate(step, TrainConfig(), 512) == pytest.approx(expected)


def test_a_peak_of_ones_own_is_reached_after_the_warmup():
    for schedule in ("inverse_sqrt", "cosine", "constant"):
        config = TrainConfig(learning_rate=0.3, warmup=10, steps=100, schedule=schedule)
        rates = [learning_rate(step, config, 512) for step in range(1, 101)]
        assert max(rates) == rates[9] == pytest.approx(0.3)
        assert rates[:10] == pytest.approx([0.03 * step for step in range(1, 11)])


def test_each_schedule_falls_as_it_says():
    def rate(schedule, step):
        return learning_rate(step, TrainConfig(learning_rate=1.0, warmup=20, steps=120, schedule=schedule), 8)

    assert rate("inverse_sqrt", 80) == pytest.approx(0.5)
    assert rate("constant", 80) == 1.0
    assert rate("cosine", 70) == pytest.approx(0.55)
    assert rate("cosine", 45) == pytest.approx(0.1 + 0.45 * (1 + math.cos(math.pi / 4)))
    assert rate("cosine", 120) == pytest.approx(0.1)


def trained(optimizer, model, steps, seed=0):
    for step in range(steps):
        torch.manual_seed(seed + step)
        for group in optimizer.param_groups:
            group["lr"] = 0.1
        model(torch.randn(4, 5)).square().sum().backward()
        optimizer.step()
        optimizer.zero_grad()


def test_adam_is_the_papers_and_matrices_alone_decay_under_adamw():
    model = nn.Linear(3, 2)
    adam = build_optimizer(model, TrainConfig())
    assert adam.parts[0].defaults["betas"] == (0.9, 0.98)
    assert adam.parts[0].defaults["eps"] == 1e-9
    before = {name: tensor.detach().clone() for name, tensor in model.named_parameters()}
    for kind, factor in (("adam", 1.0), ("adamw", 0.95)):
        model.load_state_dict(before)
        optimizer = build_optimizer(model, TrainConfig(optimizer=kind, weight_decay=0.5 if kind == "adamw" else 0.0))
        for group in optimizer.param_groups:
            group["lr"] = 0.1
        (model(torch.ones(1, 3)).sum() * 0).backward()  # no gradient, so that what moves is the decay
        optimizer.step()
        assert_close(model.weight.detach(), before["weight"] * factor)
        assert_close(model.bias.detach(), before["bias"])


def frozen_below() -> nn.Sequential:
    """Two layers and a norm, of which the first layer does not learn."""
    torch.manual_seed(1)
    parts = {"below": nn.Linear(5, 7), "blocks": nn.Linear(7, 3), "norm": nn.LayerNorm(3)}
    parts["below"].requires_grad_(False)
    return nn.Sequential(OrderedDict(parts))


every_kind = pytest.mark.parametrize("kind", ["adam", "adamw", "muon"])


def of_kind(kind: str) -> TrainConfig:
    return TrainConfig(optimizer=kind, weight_decay=0.0 if kind == "adam" else 0.1)


@every_kind
def test_frozen_weights_are_in_no_group_do_not_move_and_have_no_state(kind):
    model, copy = frozen_below(), frozen_below()
    before = {name: tensor.detach().clone() for name, tensor in model.named_parameters()}
    optimizer = build_optimizer(model, of_kind(kind))
    taught = [id(weight) for group in optimizer.param_groups for weight in group["params"]]
    assert sorted(taught) == sorted(id(weight) for weight in [*model.blocks.parameters(), *model.norm.parameters()])
    trained(optimizer, model, 3)
    for name, tensor in model.named_parameters():
        assert torch.equal(tensor, before[name]) == name.startswith("below."), name  # not even by decay
    assert len([weight for part in optimizer.parts for weight in part.state]) == 4
    tensors = {name: tensor.clone() for name, tensor in optimizer_tensors(optimizer, model).items()}
    assert {name.rpartition("/")[0] for name in tensors} == {"blocks.weight", "blocks.bias", "norm.weight", "norm.bias"}
    copy.load_state_dict(model.state_dict())
    resumed = build_optimizer(copy, of_kind(kind))
    load_optimizer_tensors(resumed, copy, tensors)
    trained(optimizer, model, 2, seed=3)
    trained(resumed, copy, 2, seed=3)
    assert all(torch.equal(one, other) for one, other in zip(model.parameters(), copy.parameters(), strict=True))


def test_frozen_blocks_leave_nothing_to_muon():
    model = nn.ModuleDict({"blocks": nn.Linear(5, 7), "head": nn.Linear(7, 3)})
    assert len(build_optimizer(model, of_kind("muon")).parts) == 2
    model["blocks"].requires_grad_(False)
    assert len(build_optimizer(model, of_kind("muon")).parts) == 1


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"weight_decay": 0.1}, "train.weight_decay is 0.1, but adam has none; use adamw"),
        ({"steps": 0}, "train.steps is 0; it must be at least 1"),
        ({"accumulate": 0}, "train.accumulate is 0"),
        ({"optimizer": "sgd"}, "train.optimizer is 'sgd'; it can be adam, adamw, muon"),
        ({"schedule": "step"}, "train.schedule is 'step'; it can be inverse_sqrt, cosine, constant"),
        ({"learning_rate": 0.0}, "train.learning_rate is 0.0; it must be above 0"),
        ({"learning_rate": float("nan")}, "train.learning_rate is nan"),
        ({"learning_rate": float("inf")}, "train.learning_rate is inf; it must be above 0 and finite"),
        ({"optimizer": "adamw", "weight_decay": float("inf")}, "train.weight_decay is inf; it must be finite"),
        ({"clip": -1.0}, "train.clip is -1.0; it must be at least 0"),
        ({"patience": -1}, "train.patience is -1"),
        ({"seed": -1}, "train.seed is -1"),
        ({"smoothing": 1.0}, "train.smoothing is 1.0"),
        ({"average": 6}, "train.average 6 needs as many checkpoints, but train.keep is 5"),
    ],
)
def test_what_cannot_be_is_refused_in_a_sentence(change, sentence):
    with pytest.raises(ConfigError, match=sentence):
        TrainConfig(**change)
