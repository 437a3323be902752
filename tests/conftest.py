"""Fixtures that several tests share."""

import os
import signal
from pathlib import Path

import pytest
import torch
from hypothesis import settings

# A job that a shell starts in the background ignores Ctrl-C, one by nohup a hang-up, and so would all that they start.
for number, usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, usual)
settings.register_profile("a loaded machine is no fault", deadline=None)
settings.load_profile("a loaded machine is no fault")


@pytest.fixture(autouse=True)
def _seeded():
    torch.manual_seed(7)


@pytest.fixture(scope="session")
def data_set():
    """A function from the name of a public data set to its folder, found through MANYHEADS_DATA."""

    def found(name: str) -> Path:
        folder = os.environ.get("MANYHEADS_DATA")
        if not folder or not (Path(folder) / name).exists():
            pytest.skip(f"MANYHEADS_DATA is unset or has no {name}")
        return Path(folder) / name

    return found


@pytest.fixture(scope="session")
def multi30k(data_set) -> Path:
    """The folder of Multi30k."""
    return data_set("multi30k")
