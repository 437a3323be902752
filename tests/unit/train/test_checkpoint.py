import errno
import shutil

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from manyheads.core.errors import CheckpointError
from manyheads.core.files import beside
from manyheads.train import checkpoint
from manyheads.train.checkpoint import Checkpoints, Progress, first_difference, load_weights, weights_of
from manyheads.train.config import TrainConfig
from manyheads.train.optim import build_optimizer, optimizer_tensors


class Tied(nn.Module):
    """A parameter with two names, a buffer that is kept and one that is not."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(3, 3), nn.Linear(3, 3)
        self.second.weight = self.first.weight
        self.register_buffer("kept", torch.rand(2))
        self.register_buffer("recomputed", torch.rand(2), persistent=False)

    def forward(self, x):
        return self.second(self.first(x))


def trained(steps=1):
    model = Tied()
    optimizer = build_optimizer(model, TrainConfig())
    for _ in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = 0.1
        model(torch.randn(2, 3)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    return model, optimizer


def saved(directory, steps, keep=10):
    checkpoints = Checkpoints(directory, keep, 1)
    for step in steps:
        checkpoints.save(*trained(), Progress(step=step, epoch=step + 1))
    return checkpoints


def test_what_is_saved_is_what_is_loaded(tmp_path):
    model, optimizer = trained(3)
    progress = Progress(step=3, epoch=1, batch=4, validated=2, best=-0.3, best_step=2, waited=1, seconds=2.5)
    checkpoints = Checkpoints(tmp_path, 3, 1)
    path = checkpoints.save(model, optimizer, progress)
    assert path.name == "step-00000003"
    assert sorted(file.name for file in path.iterdir()) == ["model.safetensors", "optimizer.safetensors", "state.json"]
    other, other_optimizer = trained()
    assert checkpoints.load(path, other, other_optimizer) == progress
    assert_close(weights_of(other), weights_of(model), rtol=0, atol=0)
    assert_close(optimizer_tensors(other_optimizer, other), optimizer_tensors(optimizer, model), rtol=0, atol=0)
    assert other.first.weight is other.second.weight


def test_every_weight_is_there_once_and_those_of_another_model_are_refused_by_name():
    weights = weights_of(Tied())
    assert sorted(weights) == ["first.bias", "first.weight", "kept", "second.bias"]
    weights["third"] = weights.pop("kept")
    with pytest.raises(CheckpointError, match="model and checkpoint differ in: kept, third"):
        load_weights(Tied(), weights)


def test_the_newest_are_kept(tmp_path):
    checkpoints = saved(tmp_path, [8, 9, 10, 101], keep=2)
    assert [path.name for path in checkpoints.paths()] == ["step-00000010", "step-00000101"]
    assert checkpoints.newest() == checkpoints.paths()[-1]
    assert Checkpoints(tmp_path / "nothing", 2, 1).newest() is None


def flipped(content: bytes) -> bytes:
    """With one bit changed."""
    return content[:-3] + bytes([content[-3] ^ 1]) + content[-2:]


DAMAGES = {  # by what becomes of a file, which may be nothing
    "weights cut": ("model.safetensors", lambda content: content[:-5]),
    "weights gone": ("model.safetensors", None),
    "a bit flipped": ("optimizer.safetensors", flipped),
    "another epoch": ("state.json", lambda content: content.replace(b'"epoch": 4', b'"epoch": 5')),
    "state emptied": ("state.json", lambda content: b""),
    "state a list": ("state.json", lambda content: b"[]"),
    "state gone": ("state.json", None),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_checkpoint_gives_way_to_the_one_before_it_with_a_warning(tmp_path, damage, monkeypatch):
    (name, change), warnings = DAMAGES[damage], []

    def harm(path):
        content = (path / name).read_bytes()
        (path / name).unlink()
        if change is not None:
            (path / name).write_bytes(change(content))
            assert change(content) != content

    monkeypatch.setattr(checkpoint, "warn", warnings.append)
    checkpoints = saved(tmp_path, [1, 2, 3])
    assert checkpoints.newest().name == "step-00000003"
    assert warnings == []
    harm(checkpoints.paths()[-1])
    assert checkpoints.newest().name == "step-00000002"
    assert len(warnings) == 1
    assert warnings[0].startswith("checkpoint step-00000003 is damaged (")
    assert checkpoints.load(checkpoints.newest(), *trained()) == Progress(step=2, epoch=3)
    for path in checkpoints.paths()[:2]:
        (path / "model.safetensors").unlink()
    warnings.clear()
    assert checkpoints.newest() is None
    assert len(warnings) == 3
    assert len(checkpoints.paths()) == 3


@pytest.mark.parametrize("file", ["model", "optimizer"])
def test_a_full_disk_loses_no_earlier_checkpoint(tmp_path, monkeypatch, file):
    checkpoints = saved(tmp_path, [1, 2], keep=2)
    written = checkpoint.save_file

    def full(tensors, path):
        if path.name.startswith(file):
            path.write_bytes(b"half")
            raise OSError(errno.ENOSPC, "No space left on device")
        written(tensors, path)

    monkeypatch.setattr(checkpoint, "save_file", full)
    sentence = r"checkpoint step-00000003 could not be written \(.*No space left on device\); step-00000002 is intact"
    with pytest.raises(CheckpointError, match=sentence):
        checkpoints.save(*trained(), Progress(step=3))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step-00000001", "step-00000002"]
    assert checkpoints.newest().name == "step-00000002"


def test_the_same_step_can_be_saved_again(tmp_path):
    checkpoints = saved(tmp_path, [1, 2])
    model, optimizer = trained(4)
    checkpoints.save(model, optimizer, Progress(step=2, waited=5))
    assert [path.name for path in checkpoints.paths()] == ["step-00000001", "step-00000002"]
    other, other_optimizer = trained()
    assert checkpoints.load(checkpoints.newest(), other, other_optimizer).waited == 5
    assert torch.equal(other.first.weight, model.first.weight)


def test_what_a_killed_run_left_is_no_checkpoint_and_goes_away(tmp_path):
    checkpoints = saved(tmp_path, [1, 2])
    beside(tmp_path / "step-00000003", "unfinished").mkdir()
    (tmp_path / "step-00000001").rename(beside(tmp_path / "step-00000001", "previous"))  # killed between two renames
    assert [path.name for path in checkpoints.paths()] == ["step-00000001", "step-00000002"]
    beside(tmp_path / "step-00000002", "previous").mkdir()  # killed behind the second
    assert checkpoints.newest().name == "step-00000002"
    checkpoints.save(*trained(), Progress(step=4))
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"step-0000000{step}" for step in (1, 2, 4)]


OTHERS = [
    "backup",
    "step-00000001-backup",
    "step-00000001.bak",
    "step-00000001.previous",
    "step-1",
    "step-00000003.tar",
]


def test_only_what_is_called_as_a_checkpoint_is_one_and_ever_deleted(tmp_path):
    checkpoints = saved(tmp_path, [1], keep=1)
    for name in OTHERS[:-1]:
        shutil.copytree(tmp_path / "step-00000001", tmp_path / name)
    (tmp_path / OTHERS[-1]).touch()
    (tmp_path / "step-00000009").touch()  # a file is none either
    saved(tmp_path, [2, 3], keep=1)
    assert checkpoints.averaged(5)[1] == 1
    assert [path.name for path in checkpoints.paths()] == ["step-00000003"]
    assert {path.name for path in tmp_path.iterdir()} == {*OTHERS, "step-00000009", "step-00000003"}
    assert all((tmp_path / name / "state.json").exists() for name in OTHERS[:-1])


def test_a_new_folder_of_checkpoints_survives_a_power_cut_and_a_run_that_is_gone_is_not_made_again(
    tmp_path, monkeypatch
):
    synced, sync = [], checkpoint.sync
    monkeypatch.setattr(checkpoint, "sync", lambda path: (synced.append(path), sync(path)))
    saved(tmp_path / "checkpoints", [1, 2])
    assert synced == [tmp_path]
    with pytest.raises(CheckpointError, match=r"checkpoint step-00000003 could not be written \(.*No such file"):
        saved(tmp_path / "gone" / "checkpoints", [3])
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoints"]


def test_weights_of_other_sizes_are_refused_by_name_also_those_that_could_be_repeated():
    for shape in ((4,), (1,)):
        with pytest.raises(CheckpointError, match=r"kept is of shape \[.\] in the checkpoint and \[2\] by the recipe"):
            load_weights(Tied(), weights_of(Tied()) | {"kept": torch.rand(shape)})


def test_averages_are_means_of_the_newest_whole_ones_and_damaged_ones_are_told_of(tmp_path, monkeypatch):
    warnings = []
    monkeypatch.setattr(checkpoint, "warn", warnings.append)
    checkpoints = Checkpoints(tmp_path, 9, 1)
    models = []
    for step in (1, 2, 3, 4):
        model, optimizer = trained()
        models.append(model)
        checkpoints.save(model, optimizer, Progress(step=step))
    third = checkpoints.paths()[2] / "optimizer.safetensors"
    third.write_bytes(flipped(third.read_bytes()))
    expected = (models[1].first.weight + models[3].first.weight) / 2
    averaged, count, damaged = checkpoints.averaged(2)
    assert (count, damaged) == (2, 1)
    told = "checkpoint step-00000003 is damaged (optimizer.safetensors does not match its checksum)"
    assert warnings == [f"{told} and is left out of the average"]
    assert_close(averaged["first.weight"], expected.detach())
    assert averaged["first.weight"].dtype == torch.float32
    load_weights(models[0], averaged)
    assert_close(checkpoints.averaged(1)[0], weights_of(models[3]))
    assert checkpoints.averaged(9)[1:] == (3, 1)


def test_the_first_difference_is_named_to_the_bit(tmp_path):
    model, optimizer = trained()
    with torch.no_grad():
        model.kept.zero_()
    one = Checkpoints(tmp_path / "one", 2, 1).save(model, optimizer, Progress(step=1, seconds=1.0))
    other = Checkpoints(tmp_path / "other", 2, 1).save(model, optimizer, Progress(step=1, seconds=2.0))
    assert first_difference(one, other) is None
    with torch.no_grad():
        model.kept.neg_()  # -0.0, which equals 0.0
    other = Checkpoints(tmp_path / "other", 2, 1).save(model, optimizer, Progress(step=1))
    assert first_difference(one, other) == "kept in model.safetensors"
    with torch.no_grad():
        model.kept.zero_()
        optimizer.state_of(model.first.bias)["exp_avg"][1] += 1e-7
    other = Checkpoints(tmp_path / "other", 2, 1).save(model, optimizer, Progress(step=1))
    assert first_difference(one, other) == "first.bias/exp_avg in optimizer.safetensors"
