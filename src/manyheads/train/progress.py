"""What a person sees of training, and what stays: a bar or lines, metrics.jsonl, TensorBoard."""

import json
import os
import socket
import sys
import time
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

from manyheads.core.files import parse_json, sync, write_atomically
from manyheads.core.locks import stays
from manyheads.core.log import console, disarmed, is_quiet, say, warn


class Metrics:
    """`metrics.jsonl`, a line a record, and the same numbers for TensorBoard where that is installed."""

    def __init__(self, run: Path, since: int):
        self.path, self.refuse_moved = run / "metrics.jsonl", stays(run)
        if self.path.exists():
            # Records after the checkpoint we go on from will be made again.
            lines = self.path.read_bytes().splitlines(keepends=True)
            steps = [_step_of(line) for line in lines]
            if None in steps[:-1]:  # the last may have been cut off by a power cut
                warn(f"{self.path}: line {steps.index(None) + 1} cannot be read; what cannot is left out")
            kept = [line for line, step in zip(lines, steps) if step is not None and step <= since]
            write_atomically(self.path, b"".join(kept))
        self.file = self.path.open("a", encoding="utf-8")
        sync(run)
        self.board = None
        try:
            self.board = Board(run / "tensorboard", purged_from=since + 1)
        except ImportError:
            say("TensorBoard is not installed, metrics go to metrics.jsonl alone: pip install 'manyheads[look]'")

    def add(self, kind: str, step: int, values: dict[str, float]) -> None:
        self.refuse_moved()
        self.file.write(json.dumps({"kind": kind, "step": step, **values}) + "\n")
        self.file.flush()
        if self.board:
            self.board.add(step, {f"{kind}/{name}": value for name, value in values.items()})

    def sync(self) -> None:
        """Hands the records to the disk: those before a checkpoint are not made again."""
        self.refuse_moved()
        os.fsync(self.file.fileno())

    def close(self) -> None:
        self.file.close()
        if self.board:
            self.board.close()


class Board:
    """A file for TensorBoard, written at once: its own writer is a thread, whose errors are tracebacks."""

    def __init__(self, folder: Path, purged_from: int):
        from tensorboard.compat.proto.event_pb2 import Event, SessionLog  # type: ignore
        from tensorboard.summary.writer.record_writer import RecordWriter

        self.event = Event
        folder.mkdir(exist_ok=True)
        name = f"events.out.tfevents.{time.time_ns()}.{socket.gethostname()}.{os.getpid()}"
        self.records = RecordWriter((folder / name).open("wb"))
        self._write(file_version="brain.Event:2")
        self._write(step=purged_from, session_log=SessionLog(status=SessionLog.START))  # later ones are made again

    def add(self, step: int, values: dict[str, float]) -> None:
        self._write(step=step, summary={"value": [{"tag": tag, "simple_value": it} for tag, it in values.items()]})

    def _write(self, **event: Any) -> None:
        self.records.write(self.event(wall_time=time.time(), **event).SerializeToString())
        self.records.flush()

    def close(self) -> None:
        self.records.close()


def _step_of(line: bytes) -> float | None:
    """The step that a record is of; None where it is damaged."""
    try:
        record = parse_json(line)
        # The average comes behind the last checkpoint.
        return float(record["step"]) + 0.5 * (record["kind"] == "average")
    except (ValueError, KeyError, TypeError):
        return None


class Display:
    """A live bar on a terminal, a line now and then elsewhere."""

    def __init__(self, total: int, done: int, unit: str = "tokens"):
        self.total, self.unit, self.bar = total, unit, None
        self.started, self.started_at = time.monotonic(), done
        if sys.stderr.isatty() and not is_quiet():
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

            self.bar = Progress(
                TextColumn("training"),
                BarColumn(bar_width=None),
                MofNCompleteColumn(),
                TextColumn("{task.fields[news]}"),
                TimeRemainingColumn(),
                console=console(),
            )
            self.task = self.bar.add_task("training", total=total, completed=done, news="starting")
            self.bar.start()

    def step(self, step: int) -> None:
        if self.bar:
            self.bar.update(self.task, completed=step)

    def news(self, step: int, values: dict[str, float]) -> None:
        """Loss, learning rate and speed of the last steps."""
        speed = f"{values[f'{self.unit}_per_second']:,.0f} {self.unit}/s"
        self.show(step, f"loss {values['loss']:.3f}  lr {values['learning_rate']:.2e}  {speed}")

    def show(self, step: int, text: str) -> None:
        """How it stands after a step, in words."""
        if self.bar:
            self.bar.update(self.task, completed=step, news=text)
        else:
            left = (time.monotonic() - self.started) / max(step - self.started_at, 1) * (self.total - step)
            say(f"step {step}/{self.total}  {text}  ETA {timedelta(seconds=round(left))}")

    def line(self, text: str) -> None:
        """A line that stays, above the bar where there is one."""
        with suppress(OSError):  # of a terminal that was closed, which is no reason to lose a run
            if self.bar:
                self.bar.console.print(disarmed(text), markup=False, highlight=False)
            else:
                say(text)

    def close(self) -> None:
        if self.bar:
            with suppress(OSError):
                self.bar.stop()
