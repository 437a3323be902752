"""Optimizers, their learning rate, and their state as named tensors."""

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from manyheads.train.config import SCHEDULES, TrainConfig


class Optimizer:
    """One or more of torch's optimizers, each with weights of its own, as if they were one."""

    def __init__(self, parts: Iterable[torch.optim.Optimizer]):
        self.parts = tuple(parts)
        self._part_of = {
            weight: part for part in self.parts for group in part.param_groups for weight in group["params"]
        }

    @property
    def param_groups(self) -> list[dict]:
        return [group for part in self.parts for group in part.param_groups]

    def state_of(self, weight: Tensor) -> dict[str, Tensor]:
        part = self._part_of.get(weight)
        return part.state[weight] if part else {}

    def step(self) -> None:
        for part in self.parts:
            part.step()

    def zero_grad(self) -> None:
        for part in self.parts:
            part.zero_grad(set_to_none=True)


def build_optimizer(model: nn.Module, config: TrainConfig) -> Optimizer:
    """Adam or AdamW in one fused pass over the weights that learn; norms, biases and positions do not decay.

    Muon (Jordan et al. 2024) takes the matrices between embedding and output: it follows the momentum of the gradient
    made orthogonal, so that no direction is left behind. Its steps are scaled to the size of AdamW's (Liu et al. 2025),
    so that one learning rate serves both.  A task that has its own keeps its state itself.
    """
    if config.optimizer == "own":
        return Optimizer(())
    hidden, matrices, others = [], [], []
    for name, parameter in _learned(model).items():
        if parameter.dim() < 2 or ".positions." in f".{name}":
            others.append(parameter)
        elif config.optimizer == "muon" and ".blocks." in f".{name}" and parameter.dim() == 2:
            hidden.append(parameter)
        else:
            matrices.append(parameter)
    decays = ((matrices, config.weight_decay), (others, 0.0))
    groups = [{"params": weights, "weight_decay": decay} for weights, decay in decays]
    kind = torch.optim.Adam if config.optimizer == "adam" else torch.optim.AdamW
    parts: list[torch.optim.Optimizer] = [kind(groups, lr=0.0, betas=(0.9, config.beta2), eps=1e-9, fused=True)]
    if hidden:
        parts.append(torch.optim.Muon(hidden, lr=0.0, weight_decay=config.weight_decay, adjust_lr_fn="match_rms_adamw"))
    return Optimizer(parts)


def _learned(model: nn.Module) -> dict[str, nn.Parameter]:
    return {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}


def learning_rate(step: int, config: TrainConfig, width: int) -> float:
    """The learning rate of a step: the schedule's fraction of the peak."""
    return peak_rate(config, width) * SCHEDULES[config.schedule](step, config.warmup, config.steps)


def peak_rate(config: TrainConfig, width: int) -> float:
    """The largest learning rate: the one that is set, or the published one of a model's width and a warm-up."""
    return config.learning_rate if config.learning_rate is not None else (width * config.warmup) ** -0.5


def optimizer_tensors(optimizer: Optimizer, model: nn.Module) -> dict[str, Tensor]:
    """The optimizer's state under the names of the weights it belongs to."""
    return {
        f"{name}/{key}": value
        for name, parameter in _learned(model).items()
        for key, value in optimizer.state_of(parameter).items()
    }


def load_optimizer_tensors(optimizer: Optimizer, model: nn.Module, tensors: dict[str, Tensor]) -> None:
    """The reverse of `optimizer_tensors`; a fused optimizer's step counts stay on the device of their weight."""
    parameters = dict(model.named_parameters())
    for full_name, value in tensors.items():
        name, _, key = full_name.rpartition("/")
        optimizer.state_of(parameters[name])[key] = value.clone().to(parameters[name].device)
