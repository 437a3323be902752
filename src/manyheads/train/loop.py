"""The training loop: batches in, a run directory out, resumable at any moment.

A run directory holds `metrics.jsonl`, `tensorboard/`, `checkpoints/step-…/` and `model/`, the best model. Everything
random in a step follows from the seed and the step's number, and the order of batches from the seed and the epoch, so
that a resumed run repeats to the bit what an uninterrupted one does.
"""

import math
import shutil
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from manyheads.core.errors import CheckpointError, ConfigError, ManyheadsError, Stopped
from manyheads.core.log import warn
from manyheads.core.words import counted
from manyheads.ops.device import pick_device
from manyheads.train.checkpoint import Checkpoints, Progress, load_weights
from manyheads.train.config import TrainConfig
from manyheads.train.objectives import Loss
from manyheads.train.optim import build_optimizer, learning_rate
from manyheads.train.progress import Display, Metrics

COMPILED = ("states", "summary")
"""Where a model's work is: all but what makes logits, and a loss, of the states or of the one that it reads."""


class Batches(Protocol):
    """Batches in an order fixed by seed and epoch, from any batch of an epoch on."""

    def epoch(self, epoch: int, start: int = 0) -> Iterator: ...


class Job(Protocol):
    """What a task brings to training: the objective, and scores on validation data, `loss` among them.

    `keep` saves the best model so far; `which` says which weights these are.
    """

    carried: dict[str, Tensor]
    """What the loss of one batch leaves to that of the next, such as a recurrent state; nothing for most."""
    unit: str
    """What a loss is divided by the number of, and speed is counted in: tokens, images."""

    def loss(self, model: nn.Module, batch) -> Loss: ...
    def learn(self, model: nn.Module, batch, rate: float) -> tuple[Tensor, Tensor]:
        """A step by an optimizer of its own, if it has one: what `loss` says of the batch, and a gradient's norm."""
        ...

    def validate(self, model: nn.Module) -> dict[str, float]: ...
    def keep(self, model: nn.Module, which: str, scores: dict[str, float]) -> None: ...


class Training:
    """One run of training."""

    def __init__(self, run: Path, config: TrainConfig, model: nn.Module, width: int, batches: Batches, job: Job):
        self.run, self.config, self.width, self.batches, self.job = run, config, width, batches, job
        self.device = pick_device(config.device)
        self.model = model.to(self.device)
        if config.compile and self.device.type == "cuda":
            for part in COMPILED:
                if hasattr(model, part):
                    setattr(model, part, torch.compile(getattr(model, part)))
        self.optimizer = build_optimizer(model, config)
        self.checkpoints = Checkpoints(run / "checkpoints", config.keep, config.checkpoint_every)
        self.progress = Progress()

    @property
    def conditions(self) -> dict[str, Any]:
        """What the bits of a run follow from beside its weights and its data; when they change, so do the bits."""
        found: dict[str, Any] = {"train.seed": self.config.seed, "train.accumulate": self.config.accumulate}
        found["the version of torch"] = str(torch.__version__)
        if self.device.type == "cuda":
            return {**found, "the device": torch.cuda.get_device_name(self.device)}
        found |= {"the device": "cpu", "the number of threads": torch.get_num_threads()}
        return {**found, "the instruction set": torch.backends.cpu.get_cpu_capability()}

    def fit(self) -> Progress:
        """Trains from the newest checkpoint, or from the start, to the last step."""
        newest = self.checkpoints.newest()
        if newest:
            self.progress = self.checkpoints.load(newest, self.model, self.optimizer)
            carried = self.checkpoints.carried(newest)
            self.job.carried = {name: tensor.to(self.device) for name, tensor in carried.items()}
            for newer in [path for path in self.checkpoints.paths() if path > newest]:
                shutil.rmtree(newer)  # damaged, and will be made again
            _warn_of_other(self.progress.conditions, self.conditions, self.progress.step)
        elif self.checkpoints.paths():
            raise CheckpointError(
                f"every checkpoint in {self.checkpoints.directory} is damaged; start with --overwrite"
            )
        progress, config = self.progress, self.config
        progress.conditions, self.resumed_at = self.conditions, progress.step
        self.metrics = Metrics(self.run, progress.step)
        self.display = Display(config.steps, progress.step, self.job.unit)
        if newest:
            self.display.line(f"going on from step {progress.step}")
        self.interval = _LogInterval()
        try:
            with _stop_signals() as asked_to_stop:
                if self._validation_due():
                    self._validate()
                groups = self._groups()
                while progress.step < config.steps and not self._out_of_patience():
                    self._update(next(groups))
                    self._after_step(asked_to_stop)
                self._finish()
        finally:
            self.display.close()
            self.metrics.close()
        return progress

    def _groups(self) -> Iterator[list]:
        """Batches by the update, `accumulate` at a time; the cursor is behind each group when it is used."""
        progress, group = self.progress, []
        while True:
            for batch in self.batches.epoch(progress.epoch, progress.batch):
                group.append(batch)
                progress.batch += 1
                if len(group) == self.config.accumulate:
                    yield group
                    group = []
            progress.epoch, progress.batch = progress.epoch + 1, 0

    def _update(self, group: list) -> None:
        self.progress.step += 1
        step, config = self.progress.step, self.config
        torch.manual_seed(config.seed * 1_000_000_007 + step)
        rate = learning_rate(step, config, self.width)
        for options in self.optimizer.param_groups:
            options["lr"] = rate
        if not self.model.training:
            self.model.train()
        tokens = sum(batch.target_tokens for batch in group)
        likelihood = norm = torch.zeros((), device=self.device)
        if config.optimizer == "own":
            for batch in group:
                found, norm = self.job.learn(self.model, batch.to(self.device), rate)
                likelihood = likelihood + found
            self.interval.add(step, likelihood / tokens, norm, tokens)
            return
        for batch in group:
            with torch.autocast("cuda", torch.bfloat16, enabled=self.device.type == "cuda"):
                loss = self.job.loss(self.model, batch.to(self.device))
            (loss.total / tokens).backward()
            likelihood = likelihood + loss.likelihood.detach()
        norm = self._clip()
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.interval.add(step, likelihood / tokens, norm, tokens)

    def _clip(self) -> Tensor:
        """The norm of all gradients, which are made smaller where it is too large."""
        weights = [weight for weight in self.model.parameters() if weight.grad is not None]
        norm = torch.nn.utils.get_total_norm([weight.grad for weight in weights])  # type: ignore
        limit = self.config.clip or math.inf
        # On a GPU asking would take longer than multiplying by one.
        if self.device.type != "cpu" or float(norm) > limit:
            torch.nn.utils.clip_grads_with_norm_(weights, limit, norm)
        return norm

    def _after_step(self, asked_to_stop: list[int]) -> None:
        step, config = self.progress.step, self.config
        self.display.step(step)
        validate, checkpoint = self._validation_due(), step % config.checkpoint_every == 0
        due = step == 1 or step % config.log_every == 0 or step == config.steps  # the first says how long it will take
        logged = due or validate or checkpoint or asked_to_stop
        if logged:
            values, seconds = self.interval.close(
                learning_rate(step, config, self.width), self.resumed_at, self.job.unit
            )
            self.progress.seconds += seconds
            self.metrics.add("train", step, values)
            self.display.news(step, values)
        if asked_to_stop:
            self._save()
            # As the shell expects: 130 after Ctrl-C, 143 after SIGTERM, 129 after SIGHUP.
            where = self.checkpoints.directory
            raise Stopped(f"stopped after step {step} and saved it in {where}", 128 + asked_to_stop[0])
        if validate:
            self._validate()
        if checkpoint and step < config.steps:
            self._save()
        if logged:
            self.interval = _LogInterval()  # validating and saving is not training

    def _validation_due(self) -> bool:
        step = self.progress.step
        due = step % self.config.valid_every == 0 or step == self.config.steps
        return step > 0 and due and self.progress.validated < step

    def _validate(self) -> None:
        progress, step = self.progress, self.progress.step
        progress.validated = step
        if not self._is_best("valid", f"validation at step {step}", f"after step {step:,}", ("  (best so far)", "")):
            progress.waited += 1

    def _finish(self) -> None:
        self._save()
        if self.config.average == 1 or self.progress.best is None:
            return
        weights, count, damaged = self.checkpoints.averaged(self.config.average)
        if count == 1:
            return
        load_weights(self.model, weights)
        checkpoints = f"the last {count} {'whole ' if damaged else ''}checkpoints"
        left_out = f" ({damaged} damaged left out)" if damaged else ""
        which = f"averaged over {checkpoints} up to step {self.progress.step:,}{left_out}"
        verdicts = "  (kept as the best)", "  (not better, not kept)"
        if self._is_best("average", f"average of {checkpoints}", which, verdicts):
            # The run goes on from its own weights, but only what is better than the average replaces it.
            load_weights(self.model, self.checkpoints.averaged(1)[0])
            self._save()

    def _is_best(self, kind: str, what: str, which: str, verdicts: tuple[str, str]) -> bool:
        """Validates the model, and keeps it if no other was as good; the verdicts are what a person is told of that."""
        self._refuse_spoilt_weights()
        self.model.eval()
        with torch.inference_mode(), torch.autocast("cuda", torch.bfloat16, enabled=self.device.type == "cuda"):
            scores = self.job.validate(self.model)
        for name, value in scores.items():
            if not math.isfinite(value):
                raise self._diverged(f"the validation's {name} is {value}")
        progress, score = self.progress, self._score(scores)
        better = progress.best is None or score > progress.best
        shown = "  ".join(f"{name} {value:.4g}" for name, value in scores.items())
        self.display.line(f"{what}: {shown}{verdicts[0 if better else 1]}")
        self.metrics.add(kind, progress.step, scores)
        if better:
            progress.best, progress.best_step, progress.waited = score, progress.step, 0
            self.job.keep(self.model, which, scores)
        return better

    def _score(self, scores: dict[str, float]) -> float:
        best_by = self.config.best_by
        if best_by not in scores:
            raise ConfigError(
                f"train.best_by is {best_by}, but validation gives {', '.join(scores)}; choose one of them"
            )
        if best_by == "loss":
            return -scores["loss"]
        return scores[best_by] - 1e-6 * scores["loss"]  # the loss breaks ties

    def _out_of_patience(self) -> bool:
        out = bool(self.config.patience) and self.progress.waited >= self.config.patience
        if out:
            tries = counted(self.progress.waited, "try", "tries")
            self.display.line(f"no better validation in {tries}: stopping early")
        return out

    def _save(self) -> None:
        self._refuse_spoilt_weights()
        self.metrics.sync()
        self.checkpoints.save(self.model, self.optimizer, self.progress, self.job.carried)

    def _refuse_spoilt_weights(self) -> None:
        for name, tensor in self.model.state_dict().items():
            if not math.isfinite(float(tensor.float().square().sum())):  # nor is what comes of such large ones
                raise self._diverged(f"{name} has weights that are not finite numbers, or larger than all measure")

    def _diverged(self, what: str) -> ManyheadsError:
        step = self.progress.step
        return _diverged(what, step, learning_rate(step, self.config, self.width), step == self.resumed_at)


class _LogInterval:
    """The steps since the last line of metrics; numbers stay on the device until it is closed."""

    def __init__(self):
        self.steps, self.losses, self.norms, self.tokens = [], [], [], 0
        self.opened = time.perf_counter()

    def add(self, step: int, loss: Tensor, norm: Tensor, tokens: int) -> None:
        self.steps.append(step)
        self.losses.append(loss)
        self.norms.append(norm)
        self.tokens += tokens

    def close(self, rate: float, resumed_at: int, unit: str) -> tuple[dict[str, float], float]:
        """Means over the window, and its seconds; a loss that is not a number stops the run, with the likely cause."""
        losses, norms = torch.stack(self.losses).tolist(), torch.stack(self.norms).tolist()
        for step, loss, norm in zip(self.steps, losses, norms):
            if not math.isfinite(loss) or not math.isfinite(norm):
                what = "loss" if not math.isfinite(loss) else "gradient"
                raise _diverged(f"the {what} is not a finite number", step, rate, 0 < resumed_at == step - 1)
        seconds = time.perf_counter() - self.opened
        values = {
            "loss": sum(losses) / len(losses),
            "learning_rate": rate,
            "gradient_norm": sum(norms) / len(norms),
            f"{unit}_per_second": self.tokens / seconds,
        }
        return values, seconds


def _diverged(what: str, step: int, rate: float, from_checkpoint: bool) -> ManyheadsError:
    """What stops a run whose numbers are none any more, with the likely cause and the way out."""
    way = "go on from the last checkpoint with --resume"
    if from_checkpoint:
        way = "go on with --resume once you have removed the last checkpoint, which had diverged already"
    return ManyheadsError(
        f"{what} at step {step} (learning rate {rate:.2e}): the learning rate is most likely too high or the warm-up "
        f"too short; lower train.learning_rate or raise train.warmup and {way}"
    )


def _warn_of_other(before: dict[str, Any], now: dict[str, Any], step: int) -> None:
    """Tells of what is not as it was when a run was saved, without which it goes on bit for bit."""
    other = [
        f"{name} was {before[name]} and is {now[name]} now" for name in now if before.get(name, now[name]) != now[name]
    ]
    if other:
        warn(f"{', '.join(other)}: the run goes on from step {step}, but not bit for bit as it would have")


@contextmanager
def _stop_signals() -> Iterator[list[int]]:
    """The signals that asked to stop, Ctrl-C, SIGTERM or SIGHUP: the first stops after the step, the second at once."""
    asked: list[int] = []
    numbers = [signal.SIGINT, signal.SIGTERM]
    if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # as nohup has it
        numbers.append(signal.SIGHUP)
    previous: dict[int, Any] = {}

    def restore() -> None:
        while previous:
            signal.signal(*previous.popitem())

    def remember(number: int, _) -> None:
        asked.append(number)
        restore()  # a second one does what it does anywhere

    try:
        if threading.current_thread() is threading.main_thread():
            for number in numbers:
                previous[number] = signal.signal(number, remember)
        yield asked
    finally:
        restore()
