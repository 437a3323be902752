"""Normalisation over the width: torch's own layers, chosen by name."""

from torch import nn

from manyheads.core.errors import ConfigError


def build_norm(kind: str, width: int, epsilon: float = 1e-5) -> nn.Module:
    """The norm called "layer" (Ba et al., 2016) or "rms" (Zhang and Sennrich, 2019)."""
    if kind == "layer":
        return nn.LayerNorm(width, eps=epsilon)
    if kind == "rms":
        return nn.RMSNorm(width, eps=epsilon)
    raise ConfigError(f"no norm is called {kind!r}; choose layer or rms")
