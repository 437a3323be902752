"""Optimizers, their learning rate, and their state as named tensors."""

import torch
from torch import Tensor, nn

from manyheads.train.config import TrainConfig
from manyheads.train.schedule import SCHEDULES


def build_optimizer(model: nn.Module, config: TrainConfig) -> torch.optim.Optimizer:
    """Adam or AdamW in one fused pass over the weights; norms, biases and positions do not decay."""
    matrices, others = [], []
    for name, parameter in model.named_parameters():
        (matrices if parameter.dim() > 1 and ".positions." not in f".{name}" else others).append(parameter)
    groups = [
        {"params": matrices, "weight_decay": config.weight_decay},
        {"params": others, "weight_decay": 0.0},
    ]
    kind = torch.optim.AdamW if config.optimizer == "adamw" else torch.optim.Adam
    return kind(groups, lr=0.0, betas=(0.9, 0.98), eps=1e-9, fused=True)


def learning_rate(step: int, config: TrainConfig, width: int) -> float:
    """The learning rate of a step: the schedule's fraction of the peak."""
    peak = config.learning_rate if config.learning_rate is not None else (width * config.warmup) ** -0.5
    return peak * SCHEDULES[config.schedule](step, config.warmup, config.steps)


def optimizer_tensors(optimizer: torch.optim.Optimizer, model: nn.Module) -> dict[str, Tensor]:
    """The optimizer's state under the names of the weights it belongs to."""
    return {
        f"{name}/{key}": value
        for name, parameter in model.named_parameters()
        for key, value in optimizer.state[parameter].items()
    }


def load_optimizer_tensors(optimizer: torch.optim.Optimizer, model: nn.Module, tensors: dict[str, Tensor]) -> None:
    """The reverse of `optimizer_tensors`; a fused optimizer's step counts stay on the device of their weight."""
    parameters = dict(model.named_parameters())
    for full_name, value in tensors.items():
        name, _, key = full_name.rpartition("/")
        optimizer.state[parameters[name]][key] = value.clone().to(parameters[name].device)
