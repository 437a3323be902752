"""Training ends by steps or by epochs, whichever are fewer, and says what that means."""

import pytest

from manyheads.core.errors import ConfigError
from manyheads.tasks.run import resolve
from manyheads.train.config import TrainConfig
from manyheads.train.length import fitted, tell_length
from manyheads.train.optim import learning_rate

SMALL = resolve("translate", preset="transformer_small").train
MINE = {"data": {"pairs": ("a.tsv",)}}


def test_few_data_end_a_presets_training_and_its_rhythm_follows():
    """2,940 pairs were learned from for 900 epochs."""
    found = fitted(SMALL, batches=22, width=256)
    assert (SMALL.steps, found.steps, found.epochs) == (20_000, 2200, 100)
    assert (found.warmup, found.valid_every, found.checkpoint_every) == (220, 1000, 1000)
    assert learning_rate(found.warmup, found, 256) == pytest.approx(learning_rate(SMALL.warmup, SMALL, 256))
    assert fitted(SMALL, batches=201, width=256) == SMALL
    assert fitted(found, batches=22, width=256) == found
    few = fitted(SMALL, batches=2, width=256)
    assert (few.steps, few.warmup, few.valid_every, few.checkpoint_every) == (200, 20, 20, 20)


def test_accumulated_batches_make_fewer_steps():
    assert fitted(TrainConfig(epochs=3, accumulate=4), batches=5, width=8).steps == 4


@pytest.mark.parametrize(
    ("task", "usual"), [("translate", (20_000, 100)), ("language", (5000, 40)), ("masked", (10_000, 40))]
)
def test_steps_that_are_asked_for_are_not_cut_by_epochs(task, usual, tmp_path):
    def length(*assignments, **more):
        train = resolve(task, assignments=assignments, **more).train
        return train.steps, train.epochs

    flags = {"data": {"pairs" if task == "translate" else "text": ("a.tsv",)}}
    assert length(flags=flags) == usual
    assert length("train.steps=70", flags=flags) == (70, 0)
    assert length(flags=flags | {"train": {"steps": 70}}) == (70, 0)
    assert length("train.epochs=7", flags=flags) == (usual[0], 7)
    assert length("train.epochs=7", "train.steps=70", flags=flags) == (70, 7)
    (tmp_path / "a.toml").write_text("[train]\nsteps = 60\nepochs = 6\n")
    assert length(file=tmp_path / "a.toml") == (60, 6)
    assert length("train.steps=70", file=tmp_path / "a.toml") == (70, 0)
    assert length()[1] == 0  # the sample's own steps


def test_a_presets_warm_up_follows_steps_that_are_asked_for_but_never_its_own():
    def warmup(*assignments):
        return resolve("translate", flags=MINE, assignments=assignments).train.warmup

    assert [warmup(), warmup("train.steps=500"), warmup("train.steps=4000")] == [2000, 50, 2000]
    assert warmup("train.steps=500", "train.warmup=900") == 900


def test_epochs_are_said_and_what_is_hardly_meant_is_warned_of(capfd):
    tell_length(TrainConfig(steps=30, warmup=3, accumulate=2), batches=8, width=8)
    assert capfd.readouterr().err == "30 steps, 3 of them to warm up: 7.5 epochs of 8 batches\n"
    tell_length(TrainConfig(steps=30, epochs=30, warmup=1), batches=1, width=8)
    assert capfd.readouterr().err == "30 steps: 30 epochs of 1 batch, as many as train.epochs allow\n"
    tell_length(TrainConfig(steps=1, warmup=1), batches=2, width=8)
    assert capfd.readouterr().err == "1 step: 0.5 epochs of 2 batches\n"
    tell_length(TrainConfig(steps=2000), batches=9, width=16)
    first, *warnings = capfd.readouterr().err.splitlines()
    assert first.endswith("222 epochs of 9 batches")
    assert "--steps is 2,000 and train.warmup 4,000: the learning rate ends at 2.0e-03" in warnings[0]
    assert "222 epochs are very many" in warnings[1]


def test_a_step_of_more_batches_than_there_are_is_refused_and_not_gathered_for_ever():
    tell_length(TrainConfig(accumulate=1000), batches=9, width=16)
    with pytest.raises(
        ConfigError, match=r"train\.accumulate is 1,000,000,000, more than all data, 9 batches; lower it"
    ):
        tell_length(TrainConfig(accumulate=10**9), batches=9, width=16)
