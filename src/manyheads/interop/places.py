"""Where the model is that a path means and what lies there, as far as that can be said without opening it."""

import os
import re
from pathlib import Path

from manyheads.core.errors import CheckpointError
from manyheads.core.files import beside

MODEL_FILE = re.compile(r"[\w.-]+\.(json|safetensors)|README\.md|manyheads\.sha256|\d_[A-Z]\w+(/config\.json)?")
"""What lies in a model directory; whatever else does is somebody's own and stays when the model is replaced."""


def places_of(path: Path) -> tuple[Path, ...]:
    """A directory itself, or `model` inside a run directory."""
    # A model that is being replaced is for a moment only there as the previous one.
    model = path / "model"
    return path, model, beside(model, "previous"), beside(Path(os.path.abspath(path)), "previous")


def no_model(path: Path) -> CheckpointError:
    """The sentence for a path that leads to no model."""
    if not path.exists():
        return CheckpointError(f"{path} does not exist; give a model directory or a run directory")
    if not path.is_dir():
        return CheckpointError(f"{path} is a file; give a model directory or a run directory")
    if (path / "recipe.toml").exists():
        return CheckpointError(
            f"{path} is a run that has not saved a model yet; go on with --resume until it validates"
        )
    return CheckpointError(f"{path} holds no config.json; give a model directory or a run directory")


def refuse_no_model(path: Path) -> None:
    """A path that leads to nothing like a model is refused before anything that could open one is imported."""
    files = (place / name for place in places_of(path) for name in ("config.json", "modules.json"))
    if not any(file.is_file() for file in files):
        raise no_model(path)
