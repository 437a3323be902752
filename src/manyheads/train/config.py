"""How a model is trained: the [train] section of a recipe, and the schedules of its learning rate."""

import math
from dataclasses import dataclass

from manyheads.core.errors import ConfigError


# Fractions of the peak, step by step; the first step is 1.
def inverse_sqrt(step: int, warmup: int, steps: int) -> float:
    """min(step / warmup, √(warmup / step)): section 5.3 of Vaswani et al. (2017), its peak set to one."""
    return min(step / warmup, math.sqrt(warmup / step))


def cosine(step: int, warmup: int, steps: int) -> float:
    """A linear warm-up, then half a cosine down to a tenth (Loshchilov and Hutter 2017)."""
    if step <= warmup:
        return step / warmup
    done = min((step - warmup) / max(steps - warmup, 1), 1.0)
    return 0.1 + 0.45 * (1 + math.cos(math.pi * done))


def constant(step: int, warmup: int, steps: int) -> float:
    """A linear warm-up, then the peak."""
    return min(step / warmup, 1.0)


def linear(step: int, warmup: int, steps: int) -> float:
    """A linear warm-up, then a straight line down to a ten-thousandth (Mikolov et al. 2013)."""
    if step <= warmup:
        return step / warmup
    return max(1 - (step - warmup) / max(steps - warmup, 1), 1e-4)


SCHEDULES = {"inverse_sqrt": inverse_sqrt, "cosine": cosine, "constant": constant, "linear": linear}


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """Optimizer, schedule, and when to look, save and stop."""

    steps: int = 100_000
    """Updates of the weights; unset: as many as the preset says and the epochs allow."""
    epochs: int = 0
    """Training ends after so many, if train.steps would be more; 0, as where train.steps is set: steps alone count."""
    optimizer: str = "adam"
    """adam (as published), adamw (with weight_decay), muon (for hidden matrices, adamw for all else), or own: that of
    the task, if it has one, as word vectors have."""
    weight_decay: float = 0.0
    """Decay of matrices under adamw and muon."""
    beta2: float = 0.98
    """How slowly adam forgets squared gradients; its β1 is 0.9, its ε 1e-9."""
    learning_rate: float | None = None
    """The peak; unset: (width · warmup)^-½, as published."""
    schedule: str = "inverse_sqrt"
    """inverse_sqrt, cosine, linear or constant, each after a linear warm-up."""
    warmup: int = 4000
    """Steps until the learning rate is at its peak."""
    smoothing: float = 0.1
    """Label smoothing."""
    clip: float = 1.0
    """The largest gradient norm; 0: no clipping."""
    accumulate: int = 1
    """Batches per update."""
    valid_every: int = 1000
    """Steps between two validations."""
    best_by: str = "bleu"
    """What the kept model is best in: loss, or another of the scores that the task's validation gives."""
    patience: int = 0
    """Validations without a better one after which training stops; 0: never."""
    checkpoint_every: int = 1000
    """Steps between two checkpoints."""
    keep: int = 5
    """Checkpoints kept, the newest."""
    average: int = 1
    """Checkpoints averaged at the end, the newest; their average is kept if it validates better."""
    log_every: int = 50
    """Steps between two lines of metrics."""
    compile: bool = False
    """torch.compile the model where it trains on a GPU: half a minute and more at the start, for faster steps."""
    device: str = "auto"
    """auto (a GPU where there is one), cpu, cuda, cuda:1, …"""
    seed: int = 1
    """Everything random follows from it."""

    def __post_init__(self):
        counts = ("steps", "warmup", "accumulate", "valid_every", "checkpoint_every", "keep", "average", "log_every")
        limits = {**dict.fromkeys(counts, 1), **dict.fromkeys(("epochs", "weight_decay", "clip", "patience"), 0)}
        for name, least in limits.items():
            if not getattr(self, name) >= least:
                raise ConfigError(f"train.{name} is {getattr(self, name)}; it must be at least {least}")
        for name, end in (("seed", 2**32), ("beta2", 1), ("smoothing", 1)):
            if not 0 <= getattr(self, name) < end:
                raise ConfigError(f"train.{name} is {getattr(self, name)}; it must be at least 0 and below {end}")
        for name, known in (("optimizer", ("adam", "adamw", "muon", "own")), ("schedule", tuple(SCHEDULES))):
            if getattr(self, name) not in known:
                raise ConfigError(f"train.{name} is '{getattr(self, name)}'; it can be {', '.join(known)}")
        if self.learning_rate is not None and not 0 < self.learning_rate < math.inf:
            raise ConfigError(f"train.learning_rate is {self.learning_rate}; it must be above 0 and finite")
        if math.isinf(self.weight_decay):
            raise ConfigError(f"train.weight_decay is {self.weight_decay}; it must be finite")
        if self.weight_decay and self.optimizer in ("adam", "own"):
            raise ConfigError(f"train.weight_decay is {self.weight_decay}, but {self.optimizer} has none; use adamw")
        if self.average > self.keep:
            raise ConfigError(f"train.average {self.average} needs as many checkpoints, but train.keep is {self.keep}")
