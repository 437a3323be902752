"""Where tensors live."""

import torch

from manyheads.core.errors import ManyheadsError


def pick_device(name: str) -> torch.device:
    """The device of that name; auto is a GPU where there is one."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        device = None
    if device is None or device.type not in ("cpu", "cuda"):
        raise ManyheadsError(f"'{name}' is not a device; use auto, cpu or cuda")
    if device.type == "cuda" and not torch.cuda.is_available():
        raise ManyheadsError("no GPU is to be seen; use the device cpu")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise ManyheadsError(f"there is no {name}; the last GPU is cuda:{torch.cuda.device_count() - 1}")
    return device
