"""Where tensors live, and how much room there is."""

import os
import re
from pathlib import Path

import torch

from manyheads.core.errors import ConfigError, ManyheadsError


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


def free_memory(device: torch.device) -> int | None:
    """Bytes that can still be had on a device, on a CPU with what can be swapped out; None where nobody can tell."""
    if device.type == "cuda":
        held = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return torch.cuda.mem_get_info(device)[0] + held
    try:
        table = dict(re.findall(r"^(\w+):\s+(\d+) kB$", Path("/proc/meminfo").read_text(), re.MULTILINE))
        free = 1024 * (int(table["MemAvailable"]) + int(table["SwapFree"]))
    except (OSError, KeyError):
        if not hasattr(os, "sysconf"):
            return None
        free = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    try:  # a container may have less than its machine
        return min(free, int(Path("/sys/fs/cgroup/memory.max").read_text()))
    except (OSError, ValueError):
        return free


def refuse_beyond_memory(count: int, what: str, size: int, device: torch.device, advice: str) -> None:
    """Refuses so many of something, each of so many bytes, where memory holds fewer; `advice` says what to do."""
    free = free_memory(device)
    if free is not None and count * size > free:
        needed, room = readable(count * size), f"{readable(free)} are free on {device}, room for {free // size:,}"
        raise ConfigError(f"{count:,} {what} need about {needed} of memory, but {room}; {advice}")


def readable(count: int) -> str:
    """A number of bytes for a person: 2.8 TB."""
    for unit, power in (("TB", 12), ("GB", 9), ("MB", 6)):
        if count >= 10**power:
            return f"{count / 10**power:,.1f} {unit}"
    return f"{count:,} bytes"
