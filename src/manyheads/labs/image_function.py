"""A picture as a function: the same small network from (x, y) to colour, with three ways to say where a pixel is.

Networks learn what changes slowly first, their "spectral bias", and of two numbers that grow evenly from one side of a
picture to the other they get nothing that changes fast. Sines of many wavelengths are the lectures' remedy, and what a
Transformer is told of where a word stands: Vaswani et al. (2017), Tancik et al. (2020).

Shapes:  S pixels along a side  P pixels, S² of them, row by row  N numbers that say where a pixel is  F frequencies
"""

import json
import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from manyheads.core.errors import ConfigError, Stopped
from manyheads.core.files import folder_made, refuse_unwritable_folder, write_result
from manyheads.core.log import say
from manyheads.data.images import ImageProcessor
from manyheads.data.readers.images import read_image, require_pillow
from manyheads.look.drawing import drawing
from manyheads.look.function import Learned, animated, compared
from manyheads.ops.device import pick_device, refuse_beyond_memory
from manyheads.ops.rotary import sinusoid
from manyheads.tasks.run_directory import recipe_file
from manyheads.train.progress import Display

PHOTO = Path(__file__).with_name("chelsea.png")
"""*Chelsea*, by Stéfan van der Walt, CC0: the middle of scikit-image's data/chelsea.png, 128 pixels wide."""
NUMBERS = 128  # that sines say of where a pixel is
WAVES = 8.0  # of a random sine across a picture: the deviation of how many
WIDTH = 128
RATE = 0.003  # which falls evenly to nothing
SIDES = (2, 1024)  # the least and the most pixels along a side
PIXEL = 8192  # bytes of memory for each
NO_DIFFERENCE = 1e-10  # an error that small is 100 dB; there is nothing to see from 50 on
TITLE = "A picture as a function of (x, y): the same small network, told in three ways where a pixel is"
NAME = "image-function"
FRAMES = 48
EVERY = 30.0  # seconds after which a long run is written once more


# Where a pixel is


def raw(places_P2: Tensor, side: int) -> Tensor:
    """[P, 2]: x and y themselves, from -1 to 1."""
    return places_P2 * 2 / (side - 1) - 1


def sines(places_P2: Tensor, side: int) -> Tensor:
    """[P, N]: what a Transformer adds to its words, half of it for the number of the column, half for the row's."""
    return sinusoid(torch.arange(side), NUMBERS // 2)[places_P2].flatten(1)


def random_sines(places_P2: Tensor, side: int, seed: int) -> Tensor:
    """[P, N]: sines and cosines of waves in random directions: Gaussian Fourier features, Tancik et al. (2020)."""
    waves_2F = WAVES * torch.randn(2, NUMBERS // 2, generator=torch.Generator().manual_seed(seed))
    angles_PF = 2 * math.pi * (places_P2 / side) @ waves_2F
    return torch.cat((angles_PF.sin(), angles_PF.cos()), dim=1)


def encodings(side: int, seed: int) -> dict[str, Tensor]:
    """What each arm is told of every pixel."""
    rows_P, columns_P = torch.cartesian_prod(torch.arange(side), torch.arange(side)).unbind(1)
    places_P2 = torch.stack((columns_P, rows_P), dim=1)
    return {
        "raw": raw(places_P2, side),
        "sines": sines(places_P2, side),
        "random sines": random_sines(places_P2, side, seed),
    }


# What learns


def network(numbers: int, seed: int) -> nn.Sequential:
    """Three hidden layers to a colour; all but the first matrix begin alike, however many numbers come in."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        behind = [nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 3)]
        return nn.Sequential(nn.Linear(numbers, WIDTH), nn.ReLU(), *behind, nn.Sigmoid())


def psnr(error: float) -> float:
    """Decibels of a mean squared error between colours from 0 to 1: 10 more for each tenth that is left of it."""
    return -10 * math.log10(max(error, NO_DIFFERENCE))


@dataclass(frozen=True)
class Moment:
    """How well an arm draws after so many steps, and after so many seconds of its own."""

    step: int
    seconds: float
    psnr: float


class Arm:
    """One of the networks that learn side by side."""

    def __init__(self, encoded_PN: Tensor, colours_P3: Tensor, seed: int):
        self.encoded_PN, self.colours_P3 = encoded_PN.to(colours_P3.device), colours_P3
        self.network = network(encoded_PN.shape[1], seed).to(colours_P3.device)
        self.optimizer = torch.optim.Adam(self.network.parameters())
        self.drawn_P3 = torch.zeros_like(colours_P3)
        self.moments: list[Moment] = []
        self.seconds = 0.0

    @property
    def numbers(self) -> int:
        """How many say where a pixel is."""
        return self.encoded_PN.shape[1]

    @property
    def parameters(self) -> int:
        return sum(weight.numel() for weight in self.network.parameters())

    def step(self, rate: float) -> None:
        """Draws the picture, notes how well, and learns from it at this rate, of which at 0 nothing comes."""
        began = self._now()
        drawn_P3 = self.network(self.encoded_PN)
        error = nn.functional.mse_loss(drawn_P3, self.colours_P3)
        self.drawn_P3 = drawn_P3.detach()
        self.moments.append(Moment(len(self.moments), self.seconds, psnr(error.item())))
        if rate:
            self.optimizer.param_groups[0]["lr"] = rate
            self.optimizer.zero_grad()
            error.backward()
            self.optimizer.step()
        self.seconds += self._now() - began

    def _now(self) -> float:
        if self.colours_P3.is_cuda:
            torch.cuda.synchronize()  # a GPU may have more to do than it was waited for
        return time.perf_counter()

    def picture(self) -> np.ndarray:
        """[S, S, 3] in uint8: what was drawn last."""
        side = math.isqrt(len(self.drawn_P3))
        return (self.drawn_P3 * 255).round().to(torch.uint8).view(side, side, 3).cpu().numpy()


class Comparison:
    """All arms on one picture, [S, S, 3] in uint8, each a step in turn, so that their seconds can be compared."""

    def __init__(self, picture: np.ndarray, *, steps: int, seed: int = 1, device: str = "auto"):
        if steps < 1:
            raise ConfigError(f"steps is {steps}, and the least it can be is 1")
        if not 0 <= seed < 2**32:
            raise ConfigError(f"seed is {seed}; it must be at least 0 and below {2**32}")
        self.picture, self.steps, self.seed = picture, steps, seed
        side, place = len(picture), pick_device(device)
        refuse_beyond_memory(side * side, "pixels", PIXEL, place, "give a smaller --size")
        colours_P3 = torch.from_numpy(picture.reshape(-1, 3).copy()).to(place).float() / 255
        encoded = encodings(side, seed)
        for each in encoded.values():  # the first step of all loads what others find loaded
            Arm(each, colours_P3, seed).step(RATE)
        self.arms = {name: Arm(each, colours_P3, seed) for name, each in encoded.items()}
        self.frames: list[tuple[int, list[np.ndarray]]] = []

    def rounds(self) -> Iterator[int]:
        """Lets each arm learn, step by step, from before the first until after the last."""
        due = {round(self.steps * (place / (FRAMES - 1)) ** 2) for place in range(FRAMES)}  # the most happens early
        for step in range(self.steps + 1):
            for arm in self.arms.values():
                arm.step(RATE * (1 - step / self.steps))
            if step in due:
                self.frames.append((step, self.pictures()))
            yield step

    def pictures(self) -> list[np.ndarray]:
        return [arm.picture() for arm in self.arms.values()]

    def results(self) -> list[dict[str, Any]]:
        """A line for each arm: what it is and how well it draws by now."""
        sizes = {name: {"numbers": arm.numbers, "parameters": arm.parameters} for name, arm in self.arms.items()}
        return [{"arm": name, **sizes[name], **vars(arm.moments[-1])} for name, arm in self.arms.items()]


# What a person gets


def compare(
    photo: Path | None,
    out: Path,
    *,
    size: int = 96,
    steps: int = 400,
    seed: int = 1,
    device: str = "auto",
    gif: bool = False,
) -> Comparison:
    """Learns a photo, or the one that ships, and writes a picture, an animation and the numbers into a folder."""
    ending = ".gif" if gif else ".webp"
    refuse_unwritable_folder(out)
    if recipe_file(out).exists():
        raise ConfigError(f"{out} is a training run, which has a metrics.jsonl of its own; give another --out")
    with drawing():  # which is refused here and now where matplotlib is not installed
        picture = square(photo or PHOTO, size)
    comparison = Comparison(picture, steps=steps, seed=seed, device=device)
    side, hidden = len(picture), f"3 hidden layers of {WIDTH}"
    say(f"{(photo or PHOTO).name}, {side} × {side} pixels, as a function of (x, y), learned by three networks:")
    say(f"{hidden}, seed {seed}, learning rate {RATE:g} to 0; only what they are told of (x, y) differs")
    with folder_made(out):
        _learn(comparison, out, ending)
    say(f"{out / NAME}.png and {NAME}{ending} show it; metrics.jsonl has the numbers of every step")
    return comparison


def square(photo: Any, size: int) -> np.ndarray:
    """[S, S, 3] in uint8: the middle of a photo, made smaller to this many pixels along a side, and never larger."""
    if not SIDES[0] <= size <= SIDES[1]:
        raise ConfigError(f"size is {size}; choose from {SIDES[0]} to {SIDES[1]:,} pixels along a side")
    require_pillow()
    whole = read_image(photo)
    side = min(whole.size)
    left, above = (whole.width - side) // 2, (whole.height - side) // 2
    return ImageProcessor(size=min(size, side)).pixels(whole.crop((left, above, left + side, above + side)))


def _learn(comparison: Comparison, out: Path, ending: str) -> None:
    """Learns to the end or until Ctrl-C; what there is by then is written in either case."""
    steps, display = comparison.steps, Display(comparison.steps, 0)
    written, step = time.monotonic(), 0
    try:
        for step in comparison.rounds():
            shown = "  ".join(f"{name} {arm.moments[-1].psnr:.1f}" for name, arm in comparison.arms.items()) + " dB"
            if display.bar or step * 10 // steps > (step - 1) * 10 // steps:
                display.show(step, shown)
            if time.monotonic() - written > EVERY:
                _write(comparison, out, ending)
                written = time.monotonic()
    except KeyboardInterrupt:
        if not comparison.frames:
            raise
        display.close()
        _write(comparison, out, ending)
        raise Stopped(f"stopped after step {step} of {steps}; what was drawn by then is in {out}", 130) from None
    finally:
        display.close()
    _write(comparison, out, ending)


def _write(comparison: Comparison, out: Path, ending: str) -> None:
    """The three files, each whole or as it was."""
    arms = comparison.arms.items()
    lines = [{"arm": name, **vars(moment)} for name, arm in arms for moment in arm.moments]
    write_result(out / "metrics.jsonl", "".join(f"{json.dumps(line)}\n" for line in lines))
    learned = [
        Learned(
            name=name,
            note=f"{arm.numbers} numbers a pixel\n{arm.parameters:,} parameters",
            picture=arm.picture(),
            seconds=[moment.seconds for moment in arm.moments],
            decibels=[moment.psnr for moment in arm.moments],
        )
        for name, arm in arms
    ]
    compared(comparison.picture, learned, out / f"{NAME}.png", title=TITLE)
    film = animated(comparison.picture, comparison.frames, learned, ending)
    write_result(out / f"{NAME}{ending}", film)
