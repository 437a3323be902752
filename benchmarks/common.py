"""What the benchmarks share: taking turns, processes of their own, and one way to print.

Contenders take turns, and the one who begins moves on from round to round: what else the machine does falls on all
alike. A figure is the median over rounds; a ratio is the median of the rounds' own ratios, since the runs of one round
are close in time.
"""

import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from statistics import median
from typing import Any


def in_turns(contenders: Mapping[str, Callable[[], float]], rounds: int, warmup: int = 1) -> dict[str, list[float]]:
    """What each contender measured (a rate, higher is better) in each round, warm-ups left out."""
    names, found = list(contenders), {name: [] for name in contenders}
    for number in range(-warmup, rounds):
        first = number % len(names)
        for name in names[first:] + names[:first]:
            rate = contenders[name]()
            if number >= 0:
                found[name].append(rate)
    return found


@dataclass(frozen=True)
class Ratio:
    """Ours over a peer's, round by round."""

    middle: float
    least: float
    most: float

    def __str__(self) -> str:
        return f"{self.middle:.2f} × (rounds {self.least:.2f} to {self.most:.2f})"


def ratio(ours: list[float], theirs: list[float]) -> Ratio:
    each = [our / their for our, their in zip(ours, theirs, strict=True)]
    return Ratio(median(each), min(each), max(each))


def training_rate(contender, batches, clip: float, tokens: Callable[[Any], int]) -> Callable[[], float]:
    """One step on the next batch, each time it is called: tokens a second."""
    from torch import nn

    turn = iter(batches)

    def step() -> float:
        batch = next(turn)
        contender.model.train()
        began = time.perf_counter()
        contender.loss(batch).backward()
        nn.utils.clip_grad_norm_(contender.model.parameters(), clip)
        contender.optimizer.step()
        contender.optimizer.zero_grad()
        return tokens(batch) / (time.perf_counter() - began)

    return step


def report(title: str, rates: dict[str, list[float]], unit: str, ours: str = "manyheads") -> None:
    """A line for each contender: its median, its range, and how many times faster ours is."""
    print(f"\n{title}, {unit}")
    for name, values in rates.items():
        line = f"  {name:<34}{median(values):>10,.1f}   ({min(values):,.1f} to {max(values):,.1f})"
        print(line if name == ours else f"{line}   ours / this: {ratio(rates[ours], values)}")
    peer = fastest({name: values for name, values in rates.items() if name != ours})
    print(f"  ours / {peer}, the fastest peer: {ratio(rates[ours], rates[peer])}", flush=True)


def fastest(rates: dict[str, list[float]]) -> str:
    return max(rates, key=lambda name: median(rates[name]))


def describe_machine() -> None:
    """The machine and the versions that figures hold for; a load above zero before the start spoils them."""
    names = ("torch", "transformers", "ctranslate2")
    versions = ", ".join(f"{name} {_version(name)}" for name in names)
    print(f"{platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}; {versions}", flush=True)


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def marian_twin(model):
    """A MarianMTModel with the weights of our model; its pad has a logit like any token's, as where users begin."""
    import torch
    from transformers import MarianConfig, MarianMTModel

    from manyheads.interop.marian import MarianNames

    twin = MarianMTModel(MarianConfig(**MarianNames().write_config(model.config)))
    tensors = {name: tensor.clone() for name, tensor in MarianNames().write_tensors(model).items()}
    tensors["final_logits_bias"] = torch.zeros_like(tensors["final_logits_bias"])
    left = twin.load_state_dict(tensors, strict=False)
    tied = {
        "lm_head.weight",
        *(f"model.{side}.embed_{what}.weight" for side in ("encoder", "decoder") for what in ("tokens", "positions")),
    }
    assert not left.unexpected_keys, left.unexpected_keys
    assert not set(left.missing_keys) - tied, left.missing_keys
    twin.tie_weights()
    return twin


class Worker:
    """A contender in a process of its own: asked over a pipe in JSON, it answers when it is done."""

    def __init__(self, script: str, *arguments: str, environment: dict[str, str] | None = None):
        command = [sys.executable, script, "--worker", *arguments]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, **(environment or {})}
        )
        self.ready = self._answer()

    def ask(self, **request) -> dict:
        assert self.process.stdin
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        return self._answer()

    def _answer(self) -> dict:
        assert self.process.stdout
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"{' '.join(self.process.args[1:])} died; its last words are above")  # type: ignore
        return json.loads(line)

    def close(self) -> None:
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()

    def __enter__(self) -> "Worker":
        return self

    def __exit__(self, *_) -> None:
        self.close()


def serve(prepare: Callable[[], Callable[..., dict]]) -> None:
    """The worker's side: get ready, say so, then answer each request until the pipe is closed."""
    # Libraries print what they like: that goes to stderr, and only answers go to the parent.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    answer = prepare()
    print("{}", file=answers, flush=True)
    for line in sys.stdin:
        print(json.dumps(answer(**json.loads(line))), file=answers, flush=True)
