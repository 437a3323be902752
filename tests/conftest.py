"""Fixtures that several tests share."""

import os
from pathlib import Path

import pytest
import torch


@pytest.fixture(autouse=True)
def _seeded():
    torch.manual_seed(7)


@pytest.fixture(scope="session")
def multi30k() -> Path:
    """The folder of Multi30k, found through MANYHEADS_DATA."""
    folder = os.environ.get("MANYHEADS_DATA")
    if not folder or not (Path(folder) / "multi30k").is_dir():
        pytest.skip("MANYHEADS_DATA is unset or has no multi30k")
    return Path(folder) / "multi30k"
