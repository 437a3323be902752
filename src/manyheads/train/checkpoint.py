"""Checkpoints: safetensors and JSON, whole or absent, with checksums; a damaged one gives way to the one before it."""

import hashlib
import json
import re
import shutil
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from manyheads.core.errors import CheckpointError
from manyheads.core.files import TEMPORARY, directory_written_atomically, finish_replacing, parse_json, sha256, sync
from manyheads.core.log import warn
from manyheads.train.optim import Optimizer, load_optimizer_tensors, optimizer_tensors

_WEIGHTS, _OPTIMIZER, _STATE = "model.safetensors", "optimizer.safetensors", "state.json"
_CARRIED = "carried.safetensors"  # what one step leaves to the next beside weights, where there is such a thing
_NAME = re.compile(r"step-\d{8,}")


@dataclass
class Progress:
    """Where a run stands: with the weights and the optimizer, all that going on needs."""

    step: int = 0
    epoch: int = 0
    batch: int = 0
    """The next batch of the epoch."""
    validated: int = 0
    """The last step that was validated."""
    best: float | None = None
    """The best validation score so far, higher being better."""
    best_step: int = 0
    waited: int = 0
    """Validations since the best."""
    seconds: float = 0.0
    """Time spent training, over all sittings."""
    conditions: dict[str, Any] = field(default_factory=dict)
    """What its bits follow from beside weights and data: seed, accumulation, threads, instructions, torch, device."""


def weights_of(model: nn.Module) -> dict[str, Tensor]:
    """Every learned tensor and every saved buffer, each once."""
    kept = set(model.state_dict())
    named = [*model.named_parameters(), *((n, b) for n, b in model.named_buffers() if n in kept)]
    return {name: tensor.detach().cpu().contiguous() for name, tensor in named}


def load_weights(model: nn.Module, tensors: dict[str, Tensor]) -> None:
    """The reverse of `weights_of`; names must be the same on both sides."""
    own = dict([*model.named_parameters(), *model.named_buffers()])
    wanted = set(weights_of(model))
    if wanted != set(tensors):
        raise CheckpointError(f"model and checkpoint differ in: {', '.join(sorted(wanted ^ set(tensors)))}")
    with torch.no_grad():
        for name, tensor in tensors.items():
            if own[name].shape != tensor.shape:  # some would be copied all the same, again and again
                sizes = [list(each.shape) for each in (tensor, own[name])]
                raise CheckpointError(
                    f"{name} is of shape {sizes[0]} in the checkpoint and {sizes[1]} by the recipe; undo the change of "
                    "recipe.toml"
                )
            own[name].copy_(tensor)


class Checkpoints:
    """The checkpoints of a run, `step-00001000` and so on: the newest `keep` of those due every so many steps.

    One that a signal asked for in between is kept only until the next, so that a stop leaves no trace in an average.
    """

    def __init__(self, directory: Path, keep: int, every: int):
        self.directory, self.keep, self.every = directory, keep, every

    def save(
        self, model: nn.Module, optimizer: Optimizer, progress: Progress, carried: dict[str, Tensor] | None = None
    ) -> Path:
        """Writes a checkpoint beside the others and only then removes the oldest."""
        path = self.directory / f"step-{progress.step:08d}"
        try:
            if not self.directory.exists():
                self.directory.mkdir()
                sync(self.directory.parent)
            with directory_written_atomically(path) as temporary:
                save_file(weights_of(model), temporary / _WEIGHTS)
                tensors = {name: t.cpu().contiguous() for name, t in optimizer_tensors(optimizer, model).items()}
                save_file(tensors, temporary / _OPTIMIZER)
                if carried:
                    save_file({name: t.cpu().contiguous() for name, t in carried.items()}, temporary / _CARRIED)
                state: dict[str, Any] = {"progress": asdict(progress)}
                state["files"] = {name: sha256(temporary / name) for name in _files(temporary)}
                state["checksum"] = _checksum(state)
                (temporary / _STATE).write_text(json.dumps(state, indent=2) + "\n", encoding="utf-8")
        except Exception as error:  # safetensors has errors of its own for a full disk
            newest = self.paths()[-1:]
            intact = f"; {newest[0].name} is intact" if newest else ""
            raise CheckpointError(f"checkpoint {path.name} could not be written ({error}){intact}") from error
        checkpoints = self.paths()
        kept = {*[each for each in checkpoints if self._due(each)][-self.keep :], path}
        unfinished = [each for each in self.directory.iterdir() if TEMPORARY.fullmatch(each.name)]  # by a killed run
        for old in {*checkpoints, *unfinished} - kept:
            shutil.rmtree(old)
        return path

    def _due(self, path: Path) -> bool:
        return int(path.name.removeprefix("step-")) % self.every == 0

    def paths(self) -> list[Path]:
        """Whole or damaged, oldest first; whatever else lies beside them is not ours."""
        for previous in self.directory.glob(".step-*-previous"):
            finish_replacing(self.directory / previous.name.split(".")[1])
        return sorted(path for path in self.directory.glob("step-*") if _NAME.fullmatch(path.name) and path.is_dir())

    def newest(self) -> Path | None:
        """The newest checkpoint whose checksums hold, with a warning for each that is passed over."""
        for path in reversed(self.paths()):
            damage = _damage(path)
            if damage is None:
                return path
            warn(f"checkpoint {path.name} is damaged ({damage}); going back to the one before it")
        return None

    def load(self, path: Path, model: nn.Module, optimizer: Optimizer) -> Progress:
        """Puts model and optimizer where the checkpoint was."""
        load_weights(model, load_file(path / _WEIGHTS))
        load_optimizer_tensors(optimizer, model, load_file(path / _OPTIMIZER))
        state = parse_json((path / _STATE).read_text(encoding="utf-8"))
        return Progress(**state["progress"])

    def carried(self, path: Path) -> dict[str, Tensor]:
        """What the step of a checkpoint left to the next."""
        return load_file(path / _CARRIED) if (path / _CARRIED).exists() else {}

    def averaged(self, count: int) -> tuple[dict[str, Tensor], int, int]:
        """The mean of the weights of the newest `count` whole checkpoints, or of as many as there are; how many those
        are, and how many damaged ones were passed over, each with a warning."""
        found: list[Path] = []
        damaged = 0
        paths = self.paths()
        for path in reversed([each for each in paths if self._due(each) or each == paths[-1]]):
            damage = _damage(path)
            if damage is None:
                found.insert(0, path)
            else:
                damaged += 1
                warn(f"checkpoint {path.name} is damaged ({damage}) and is left out of the average")
            if len(found) == count:
                break
        total: dict[str, Tensor] = {}
        for path in found:
            for name, tensor in load_file(path / _WEIGHTS).items():
                total[name] = total[name] + tensor.double() if name in total else tensor.double()
        return {name: (tensor / len(found)).float() for name, tensor in total.items()}, len(found), damaged


def first_difference(one: Path, other: Path) -> str | None:
    """The first tensor in which two checkpoints differ in any bit, or None."""
    for file in sorted({*_files(one), *_files(other)}):
        if not ((one / file).exists() and (other / file).exists()):
            return file
        mine, theirs = load_file(one / file), load_file(other / file)
        for name in sorted(set(mine) | set(theirs)):
            if name not in mine or name not in theirs or not torch.equal(_bits(mine[name]), _bits(theirs[name])):
                return f"{name} in {file}"
    return None


def _files(checkpoint: Path) -> list[str]:
    """The names of those that hold tensors."""
    return [name for name in (_WEIGHTS, _OPTIMIZER, _CARRIED) if (checkpoint / name).exists()]


def _bits(tensor: Tensor) -> Tensor:
    return tensor.flatten().view(torch.uint8)  # 0.0 equals -0.0, and NaN not even itself; their bits are what they are


def _checksum(state: dict) -> str:
    return hashlib.sha256(json.dumps([state["progress"], state["files"]], sort_keys=True).encode()).hexdigest()


def _damage(path: Path) -> str | None:
    try:
        state = parse_json((path / _STATE).read_text(encoding="utf-8"))
        if state["checksum"] != _checksum(state):
            return f"{_STATE} does not match its checksum"
        for name, checksum in state["files"].items():
            if sha256(path / name) != checksum:
                return f"{name} does not match its checksum"
    except (OSError, ValueError, KeyError, TypeError) as error:
        return f"{_STATE} or a file it names cannot be read: {error}"
    return None
