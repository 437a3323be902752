import json
import shutil
import signal
from dataclasses import replace

import pytest
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from torch.testing import assert_close

from manyheads.core.errors import CheckpointError, ConfigError, ManyheadsError, Stopped
from manyheads.data.pairs import pair_batches, pair_store
from manyheads.models.transformer import Transformer, TransformerConfig
from manyheads.ops.device import pick_device
from manyheads.train import checkpoint, loop, progress
from manyheads.train.checkpoint import Checkpoints, Progress, first_difference, weights_of
from manyheads.train.config import TrainConfig
from manyheads.train.loop import Training
from manyheads.train.objectives import Loss, translation_loss
from manyheads.train.progress import Board

MODEL = TransformerConfig(vocabulary=19, width=8, layers=1, heads=2, inner=12, dropout=0.2, pad=18, start=18, end=0)
CONFIG = TrainConfig(
    steps=14, warmup=5, learning_rate=0.01, checkpoint_every=4, valid_every=5, log_every=3, keep=9, device="cpu", seed=3
)


class Killed(BaseException):
    """What a SIGKILL is to a run: nothing is saved."""


class Work:
    """A task in small: validation scores as given, and things that happen at given steps."""

    def __init__(self, at=None, scores=None, events=None):
        self.at, self.scores, self.events = at or {}, scores, events if events is not None else []
        self.calls, self.carried, self.unit = 0, {}, "words"

    def loss(self, model, batch):
        self.calls += 1
        for action in self.at.get(self.calls, ()):
            action()
        self.events.append(("loss", batch.source[0].tolist(), len(batch.source)))
        return translation_loss(model, batch, smoothing=0.1)

    def validate(self, model):
        assert not model.training
        torch.rand(3)  # a validation may draw what it likes
        if self.scores:
            return {"loss": self.scores.pop(0)}
        loss = translation_loss(model, next(batches().epoch(0)))
        return {"loss": float(loss.likelihood) / loss.tokens, "bleu": 0.0}

    def keep(self, model, which, scores):
        self.events.append(("keep", which, {name: tensor.clone() for name, tensor in weights_of(model).items()}))


def batches(seed=3):
    generator = torch.Generator().manual_seed(0)
    lengths = torch.randint(2, 9, (40,), generator=generator).tolist()
    sources, targets = (
        [[*torch.randint(1, 18, (length,), generator=generator).tolist(), 0] for length in lengths] for _ in range(2)
    )
    store = pair_store(sources, targets)
    found = pair_batches(store, tokens=60, pad=18, seed=seed)
    assert len(found) in (5, 6, 7, 8)  # several epochs, none of which the checkpoints divide
    return found


def training(run, work=None, **changes):
    torch.manual_seed(0)
    run.mkdir(exist_ok=True)
    return Training(run, replace(CONFIG, **changes), Transformer(MODEL), 8, batches(), work or Work())


def records(run, kind=None):
    found = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [each for each in found if kind in (None, each["kind"])]


def ends(*runs):
    return [Checkpoints(run / "checkpoints", 9, 1).newest() for run in runs]


def interrupt():
    signal.raise_signal(signal.SIGTERM)


def kill():
    raise Killed


@pytest.mark.parametrize("accumulate", [1, 3])
@pytest.mark.parametrize("stop", [1, 4, 5, 6, 9, 14])
@pytest.mark.parametrize("how", [interrupt, kill])
def test_a_run_that_was_stopped_anywhere_ends_as_the_one_that_was_not(tmp_path, accumulate, stop, how):
    whole, parted = tmp_path / "whole", tmp_path / "parted"
    changes = {"accumulate": accumulate, "optimizer": "adamw", "weight_decay": 0.01, "schedule": "cosine"}
    expected = training(whole, **changes).fit()
    first = training(parted, Work({(stop - 1) * accumulate + 1: [how]}), **changes)
    with pytest.raises((Stopped, Killed)):
        first.fit()
    reached = max([0, *(int(path.name[5:]) for path in first.checkpoints.paths())])
    assert reached == (stop if how is interrupt else (stop - 1) // 4 * 4)
    if (how, stop) == (interrupt, 9):  # what is damaged is passed over
        (ends(parted)[0] / "model.safetensors").write_bytes(b"half")
    found = training(parted, **changes).fit()
    assert first_difference(*ends(whole, parted)) is None
    assert replace(found, seconds=0) == replace(expected, seconds=0)
    assert records(parted, "valid") == records(whole, "valid")
    assert [each["step"] for each in records(parted, "valid")] == [5, 10, 14]
    steps = [each["step"] for each in records(parted, "train")]
    assert steps == sorted(set(steps))


def test_and_that_test_can_tell(tmp_path):
    training(tmp_path / "one").fit()
    for changes in ({"seed": 4}, {"accumulate": 2}, {"learning_rate": 0.011}):
        training(tmp_path / f"{changes}", **changes).fit()
        assert first_difference(*ends(tmp_path / "one", tmp_path / f"{changes}")) is not None
    # a run that resumes with a batch less seen
    parted = training(tmp_path / "two", Work({9: [interrupt]}))
    with pytest.raises(Stopped):
        parted.fit()
    resumed = training(tmp_path / "two")
    load = resumed.checkpoints.load
    resumed.checkpoints.load = lambda *a: replace(load(*a), batch=0)
    resumed.fit()
    assert first_difference(*ends(tmp_path / "one", tmp_path / "two")) is not None


def test_each_epoch_sees_every_batch_once_across_a_stop(tmp_path):
    events = []
    with pytest.raises(Stopped):
        training(tmp_path, Work({4: [interrupt]}, events=events), accumulate=2, steps=7).fit()
    training(tmp_path, Work(events=events), accumulate=2, steps=7).fit()
    seen = [event[1:] for event in events if event[0] == "loss"]
    expected = [(batch.source[0].tolist(), len(batch.source)) for epoch in range(4) for batch in batches().epoch(epoch)]
    assert seen == expected[:14]


def test_accumulated_batches_are_one_batch(tmp_path):
    """The gradient of a token weighs the same, in whichever batch of the update it is."""
    gradients = []
    for accumulate in (1, 2):
        run = training(tmp_path, accumulate=accumulate)
        run.model.eval()
        run.model.train = lambda *_: None  # no dropout
        run.optimizer.step = lambda run=run: gradients.append(
            [parameter.grad.clone() for parameter in run.model.parameters()]
        )
        run.interval = type("Window", (), {"add": lambda *_: None})()
        group = list(batches().epoch(0))[:2]
        if accumulate == 1:
            tokens = [batch.target_tokens for batch in group]
            assert tokens[0] != tokens[1]
            loss = sum(translation_loss(run.model, batch, smoothing=0.1).total for batch in group) / sum(tokens)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(run.model.parameters(), 1.0)
            run.optimizer.step()
        else:
            run._update(group)
    assert_close(gradients[1], gradients[0])


def test_a_signal_is_answered_after_the_step_with_the_shells_exit_code(tmp_path):
    for number, code in ((signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGHUP, 129)):
        run, before = tmp_path / str(code), signal.getsignal(number)
        with pytest.raises(Stopped, match="stopped after step 2 and saved it") as stopped:
            training(run, Work({2: [lambda number=number: signal.raise_signal(number)]})).fit()
        assert stopped.value.exit_code == code
        assert [path.name for path in Checkpoints(run / "checkpoints", 9, 1).paths()] == ["step-00000002"]
        assert signal.getsignal(number) is before


def test_a_hang_up_that_is_ignored_stays_so(tmp_path):
    """As under nohup."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        assert training(tmp_path, Work({2: [lambda: signal.raise_signal(signal.SIGHUP)]}), steps=3).fit().step == 3
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize("saving", [False, True])
def test_a_second_interrupt_stops_at_once_and_leaves_the_last_checkpoint(tmp_path, monkeypatch, saving):
    def again():
        signal.raise_signal(signal.SIGINT)

    def interrupted(tensors, path, written=checkpoint.save_file):
        written(tensors, path)
        if "step-00000006" in str(path):
            again()

    if saving:
        monkeypatch.setattr(checkpoint, "save_file", interrupted)
    with pytest.raises(KeyboardInterrupt):
        training(tmp_path, Work({6: [again] * (1 if saving else 2)})).fit()
    assert ends(tmp_path)[0].name == "step-00000004"
    monkeypatch.undo()
    training(tmp_path).fit()


class Broken(Work):
    """A loss that is not a number from a step on."""

    def loss(self, model, batch):
        found = super().loss(model, batch)
        bad = found.total * float("nan") if self.calls >= 6 else found.total
        return Loss(bad, bad.detach() if self.calls >= 6 else found.likelihood, found.tokens)


def test_a_loss_that_is_no_number_stops_the_run_and_names_the_step(tmp_path):
    with pytest.raises(ManyheadsError, match=r"the loss is not a finite number at step 6 .*train\.learning_rate"):
        training(tmp_path, Broken()).fit()
    assert ends(tmp_path)[0].name == "step-00000004"  # nothing that is spoilt was saved
    with pytest.raises(ManyheadsError, match="at step 6"):
        training(tmp_path / "b", Broken(), log_every=100, valid_every=100, checkpoint_every=8).fit()
    assert ends(tmp_path / "b") == [None]
    training(tmp_path).fit()
    spoilt = training(tmp_path / "c")
    spoilt.model.encoder.blocks[0].self_norm.bias.register_hook(lambda gradient: gradient * float("inf"))
    with pytest.raises(ManyheadsError, match="the gradient is not a finite number at step 1 "):
        spoilt.fit()


@pytest.mark.parametrize("rate", [1e38, 1e30])
def test_weights_that_are_spoilt_are_neither_kept_nor_saved(tmp_path, rate):
    """Those of the first rate are not finite, those of the second larger than any that are of use."""
    work = Work()
    train = training(tmp_path, work, learning_rate=rate, steps=1, warmup=1, best_by="loss")
    train.job.validate = lambda model: {"loss": 0.5}  # of which nothing is seen here
    said = "has weights that are not finite numbers, or larger than all measure"
    with pytest.raises(ManyheadsError, match=rf"{said} at step 1 .* lower train\.learning_rate .* with --resume$"):
        train.fit()
    assert [event[0] for event in work.events] == ["loss"]
    assert ends(tmp_path) == [None]
    assert records(tmp_path, "valid") == []


def test_a_score_that_is_no_number_is_never_the_best(tmp_path):
    work = Work(scores=[0.9, float("nan")])
    with pytest.raises(ManyheadsError, match="the validation's loss is nan at step 4 "):
        training(tmp_path, work, valid_every=2, best_by="loss").fit()
    assert [event[1] for event in work.events if event[0] == "keep"] == ["after step 2"]
    assert ends(tmp_path) == [None]


def test_where_the_checkpoint_itself_had_diverged_the_way_out_is_to_remove_it(tmp_path):
    training(tmp_path, steps=8).fit()
    spoilt = training(tmp_path)
    with torch.no_grad():
        spoilt.model.encoder.embedding.weight.fill_(1e38)
    Checkpoints(tmp_path / "checkpoints", 9, 1).save(spoilt.model, spoilt.optimizer, Progress(step=9))
    with pytest.raises(ManyheadsError, match=r"at step 10 .* once you have removed the last checkpoint, which had"):
        training(tmp_path).fit()


def test_the_best_model_is_kept_and_waiting_ends_early(tmp_path):
    work = Work(scores=[0.9, 0.5, 0.7, 0.6, 0.1])
    progress = training(tmp_path, work, valid_every=2, patience=2, best_by="loss").fit()
    assert progress.step == 8
    assert (progress.best, progress.best_step, progress.waited) == (-0.5, 4, 2)
    assert [event[1] for event in work.events if event[0] == "keep"] == ["after step 2", "after step 4"]
    assert ends(tmp_path)[0].name == "step-00000008"
    patient = Work(scores=[0.9, 0.5, 0.7, 0.6, 0.1, 0.3, 0.3])
    assert training(tmp_path / "b", patient, valid_every=2, best_by="loss").fit().best_step == 10


def test_a_score_that_validation_does_not_give_is_refused_in_a_sentence(tmp_path):
    with pytest.raises(ConfigError, match=r"train\.best_by is bleu, but validation gives loss; choose one of them"):
        training(tmp_path, Work(scores=[0.9, 0.5])).fit()


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({}, []),
        ({"steps": 6, "learning_rate": 0.02}, []),
        ({"seed": 4}, ["train.seed was 3 and is 4 now"]),
        ({"accumulate": 2}, ["train.accumulate was 1 and is 2 now"]),
        ({"threads": 7}, ["the number of threads was {} and is 7 now"]),
        ({"instructions": "DEFAULT"}, ["the instruction set was {} and is DEFAULT now"]),
        ({"torch": "2.0.1"}, ["the version of torch was {} and is 2.0.1 now"]),
    ],
)
def test_what_makes_other_bits_is_told_when_a_run_goes_on(tmp_path, monkeypatch, changes, told):
    warnings, told = [], told.copy()
    training(tmp_path, steps=4).fit()
    monkeypatch.setattr(loop, "warn", warnings.append)
    machine = {
        "threads": (torch, "get_num_threads", lambda: 7),
        "instructions": (torch.backends.cpu, "get_cpu_capability", lambda: "DEFAULT"),
        "torch": (torch, "__version__", "2.0.1"),
    }
    for name in machine.keys() & changes:
        place, attribute, value = machine[name]
        now = getattr(place, attribute)
        told = [each.format(now() if callable(now) else now) for each in told]
        monkeypatch.setattr(place, attribute, value)
    settings = {name: value for name, value in changes.items() if name not in machine}
    end = "the run goes on from step 4, but not bit for bit as it would have"
    training(tmp_path, **{"steps": 5, **settings}).fit()
    assert warnings == [f"{each}: {end}" for each in told]
    training(tmp_path, **{"steps": 7, **settings}).fit()
    assert len(warnings) == len(told)  # it is told once


def test_patience_counts_across_a_stop(tmp_path):
    changes = {"valid_every": 2, "patience": 2, "best_by": "loss"}
    with pytest.raises(Stopped):
        training(tmp_path, Work({7: [interrupt]}, scores=[0.9, 0.5, 0.7]), **changes).fit()
    assert training(tmp_path, Work(scores=[0.6, 0.1]), **changes).fit().step == 8


def test_the_average_is_kept_where_it_is_better_and_only_there(tmp_path):
    for name, score, kept in (("better", 0.1, True), ("worse", 0.9, False)):
        run, work = tmp_path / name, Work(scores=[0.6, 0.5, 0.4, score])
        training(run, work, average=3, best_by="loss").fit()
        last = [event for event in work.events if event[0] == "keep"][-1]
        average = Checkpoints(run / "checkpoints", 9, 1).averaged(3)[0]
        assert torch.equal(last[2]["encoder.embedding.weight"], average["encoder.embedding.weight"]) is kept
        assert records(run, "average") == [{"kind": "average", "step": 14, "loss": score}]
    # the run itself ends on its own weights, not on their average
    assert first_difference(*ends(tmp_path / "better", tmp_path / "worse")) is None


def test_an_average_without_a_damaged_checkpoint_says_of_how_many_it_is(tmp_path):
    work = Work(scores=[0.6, 0.5, 0.4, 0.1])
    train = training(tmp_path, work, average=4, best_by="loss")
    save, damage = train._save, tmp_path / "checkpoints" / "step-00000008" / "model.safetensors"

    def saved():
        save()
        if train.progress.step == 14 and damage.stat().st_size > 4:
            damage.write_bytes(b"half")

    train._save = saved
    train.fit()
    kept = [event[1] for event in work.events if event[0] == "keep"]
    assert kept[-1] == "averaged over the last 3 whole checkpoints up to step 14 (1 damaged left out)"


def test_a_stop_leaves_no_trace_in_the_average(tmp_path):
    for name, events in (("whole", {}), ("parted", {6: [interrupt]})):
        try:
            training(tmp_path / name, Work(events), average=3, keep=3).fit()
        except Stopped:
            assert ends(tmp_path / name)[0].name == "step-00000006"
            training(tmp_path / name, Work(), average=3, keep=3).fit()
    whole, parted = (Checkpoints(tmp_path / name / "checkpoints", 3, 4) for name in ("whole", "parted"))
    assert [path.name for path in whole.paths()] == [path.name for path in parted.paths()]
    weights, count, damaged = whole.averaged(3)
    assert (count, damaged) == (3, 0)
    for name, tensor in parted.averaged(3)[0].items():
        assert torch.equal(tensor, weights[name])


def test_an_average_that_was_kept_is_what_later_models_have_to_beat(tmp_path):
    training(tmp_path, Work(scores=[0.6, 0.5, 0.4, 0.1]), average=3, best_by="loss").fit()
    work = Work(scores=[0.2, 0.2, 0.2])
    training(tmp_path, work, average=3, steps=20, best_by="loss").fit()
    assert not [event for event in work.events if event[0] == "keep"]


def test_metrics_past_the_checkpoint_are_made_again_and_a_cut_line_goes(tmp_path):
    with pytest.raises(Killed):
        training(tmp_path, Work({12: [kill]})).fit()
    before = (tmp_path / "metrics.jsonl").read_text()
    assert records(tmp_path)[-1]["step"] == 10
    (tmp_path / "metrics.jsonl").write_text(before + '{"kind": "tra')
    resumed = training(tmp_path)
    resumed._update = lambda _: kill()
    with pytest.raises(Killed):
        resumed.fit()
    assert [each["step"] for each in records(tmp_path)] == [1, 3, 4, 5, 5, 6, 8]
    assert (tmp_path / "metrics.jsonl").read_text() == "".join(before.splitlines(keepends=True)[:7])


def test_a_damaged_line_of_metrics_goes_with_a_warning_and_the_run_goes_on(tmp_path, monkeypatch):
    warnings = []
    monkeypatch.setattr(progress, "warn", warnings.append)
    training(tmp_path, steps=6).fit()
    lines = (tmp_path / "metrics.jsonl").read_bytes().splitlines(keepends=True)
    damaged = (b"\xff" + lines[1], b'{"kind": "train", "step": "three"}\n', b"[" * 200_000 + b"\n")
    (tmp_path / "metrics.jsonl").write_bytes(b"".join([lines[0], *damaged, *lines[2:]]))
    training(tmp_path, steps=6).fit()
    assert (tmp_path / "metrics.jsonl").read_bytes() == b"".join([lines[0], *lines[2:]])
    assert warnings == [f"{tmp_path / 'metrics.jsonl'}: line 2 cannot be read; what cannot is left out"]


def test_metrics_hold_what_a_person_asks_for(tmp_path):
    training(tmp_path).fit()
    line = records(tmp_path, "train")[1]
    assert line.keys() == {"kind", "step", "loss", "learning_rate", "gradient_norm", "words_per_second"}
    assert line["learning_rate"] == pytest.approx(0.01 * 3 / 5)
    assert 1 < line["loss"] < 10
    assert list((tmp_path / "tensorboard").iterdir())


def test_gradients_are_clipped(tmp_path):
    norms = {}
    for clip in (0.0, 0.01):
        run = training(tmp_path / str(clip), clip=clip, steps=1)
        step = run.optimizer.step

        def noted(run=run, step=step, clip=clip):
            norms[clip] = float(torch.cat([p.grad.flatten() for p in run.model.parameters()]).norm())
            step()

        run.optimizer.step = noted
        run.fit()
    assert norms[0.01] == pytest.approx(0.01, rel=1e-3)
    assert norms[0.0] > 0.1


def test_where_every_checkpoint_is_damaged_a_run_does_not_start_anew_by_itself(tmp_path):
    training(tmp_path, steps=4).fit()
    for path in Checkpoints(tmp_path / "checkpoints", 9, 1).paths():
        (path / "state.json").unlink()
    with pytest.raises(CheckpointError, match=r"every checkpoint in .* is damaged; start with --overwrite"):
        training(tmp_path).fit()


def test_a_finished_run_can_be_finished_again_or_made_longer(tmp_path):
    training(tmp_path, steps=6).fit()
    before = {path.name for path in (tmp_path / "checkpoints").iterdir()}
    assert training(tmp_path, steps=6).fit().step == 6
    assert {path.name for path in (tmp_path / "checkpoints").iterdir()} == before
    assert training(tmp_path, steps=9).fit().step == 9


def test_devices_are_named_or_refused():
    assert pick_device("cpu").type == "cpu"
    assert pick_device("auto").type in ("cpu", "cuda")
    with pytest.raises(ManyheadsError, match="'gpu' is not a device; use auto, cpu or cuda"):
        pick_device("gpu")


def test_tensorboard_reads_the_metrics_and_its_folder_may_go(tmp_path):
    """Also of a run that went on, whose later records were made again."""
    board = Board(tmp_path / "tensorboard", purged_from=1)
    for step in (1, 2, 3):
        board.add(step, {"train/loss": float(step)})
    board.close()
    board = Board(tmp_path / "tensorboard", purged_from=3)
    board.add(3, {"train/loss": 7.0})
    found = EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    assert [(each.step, each.value) for each in found.Scalars("train/loss")] == [(1, 1.0), (2, 2.0), (3, 7.0)]
    shutil.rmtree(tmp_path / "tensorboard")
    board.add(4, {"train/loss": 8.0})
