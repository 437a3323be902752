"""How long training is: steps that follow from the data where nobody set them, and a word on what they mean."""

import math
from dataclasses import replace

from manyheads.core.errors import ConfigError
from manyheads.core.log import say, warn
from manyheads.core.words import counted
from manyheads.train.config import TrainConfig
from manyheads.train.optim import learning_rate, peak_rate

MANY_EPOCHS = 200
MANY_BATCHES = 1000  # of a step, which fit into memory however few are different


def fitted(config: TrainConfig, batches: int, width: int) -> TrainConfig:
    """Training that ends after `train.epochs` of so many batches, where its steps are more."""
    steps = _allowed(config, batches)
    if not 0 < steps < config.steps:
        return config
    return in_proportion(replace(config, steps=steps), width, "warmup", "valid_every", "checkpoint_every")


def _allowed(config: TrainConfig, batches: int) -> int:
    return math.ceil(config.epochs * batches / config.accumulate)


def in_proportion(config: TrainConfig, width: int, *names: str) -> TrainConfig:
    """Training of which those of these numbers of steps that are more than half of all become a tenth of them.

    The peak of the learning rate stays what it was with the longer warm-up.
    """
    long = {name: max(config.steps // 10, 1) for name in names if 2 * getattr(config, name) > config.steps}
    rate = peak_rate(config, width) if "warmup" in long else config.learning_rate
    return replace(config, learning_rate=rate, **long)


def tell_length(config: TrainConfig, batches: int, width: int) -> None:
    """Says how many epochs the steps are, and warns of what is hardly meant; a step of more than all is refused."""
    if config.accumulate > max(batches, MANY_BATCHES):
        whole = counted(batches, "batch", "batches")
        raise ConfigError(f"train.accumulate is {config.accumulate:,}, more than all data, {whole}; lower it")
    epochs = config.steps * config.accumulate / batches
    often = f"{epochs:,.0f}" if epochs >= 10 else f"{epochs:.1f}"
    warmup = f", {config.warmup:,} of them to warm up" if 1 < config.warmup < config.steps else ""
    why = ", as many as train.epochs allow" if config.steps == _allowed(config, batches) else ""
    say(f"{counted(config.steps, 'step')}{warmup}: {often} epochs of {counted(batches, 'batch', 'batches')}{why}")
    if config.steps < config.warmup:
        warn(
            f"--steps is {config.steps:,} and train.warmup {config.warmup:,}: the learning rate ends at "
            f"{learning_rate(config.steps, config, width):.1e} and never reaches its peak, "
            f"{peak_rate(config, width):.1e}; lower --set train.warmup or raise --steps"
        )
    if epochs > MANY_EPOCHS:
        warn(f"{often} epochs are very many: lower --steps, or end early with --set train.epochs or train.patience")
