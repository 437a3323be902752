"""How images are changed at random while they are learned from, as a section of a recipe; no torch."""

import math
from dataclasses import dataclass, fields
from typing import ClassVar

from manyheads.core.errors import ConfigError

LIMITS: dict[str, tuple[float, float]] = {
    "shift": (0, 1000),
    "crop": (0.01, 1.0),
    "rotate": (0.0, 180.0),
    "colour": (0.0, 1.0),
    "fade": (0.0, 1.0),
    "random_augment": (0, 14),
    "magnitude": (0, 30),
    "erase": (0.0, 1.0),
    "mixup": (0.0, 100.0),
    "cutmix": (0.0, 100.0),
    "word_dropout": (0.0, 1.0),
}


@dataclass(frozen=True, kw_only=True)
class Augmentation:
    """What is done to images in training, anew each time that one is seen."""

    edges_go_on: ClassVar[bool] = False
    """Whether what comes in from beyond an edge is as the edge is; else it is black."""

    shift: int = 0
    """Pixels that an image is moved by at most, down and across."""
    crop: float = 1.0
    """The least share of an image that is cut out and enlarged; 1: nothing is cut."""
    rotate: float = 0.0
    """Degrees that it is turned by at most."""
    flip: bool | None = None
    """Whether left and right change places half the time; unset: where images are in colour."""
    colour: float = 0.0
    """How much brightness, contrast and saturation change at most; 0.4 is usual."""
    fade: float = 0.0
    """How likely its colours fade, a little or wholly, so that shapes are learned by themselves."""
    random_augment: int = 0
    """Operations of RandAugment (Cubuk et al. 2020) that are drawn for each image; 2 is usual."""
    magnitude: int = 9
    """How strong they are, from 0 to 30."""
    erase: float = 0.0
    """How likely a rectangle of it is erased (Zhong et al. 2020)."""

    def __post_init__(self):
        for field in fields(self):
            value, (least, most) = getattr(self, field.name), LIMITS.get(field.name, (None, None))
            if least is not None and not (least <= value <= most and math.isfinite(value)):
                raise ConfigError(f"augment.{field.name} is {value}; it must be from {least} to {most}")


@dataclass(frozen=True, kw_only=True)
class LabelledAugmentation(Augmentation):
    """What is done to images with labels, which may be mixed as they are."""

    mixup: float = 0.0
    """The α of mixup (Zhang et al. 2018): two images shine through each other, and so do their labels; 0: none."""
    cutmix: float = 0.0
    """The α of CutMix (Yun et al. 2019): a rectangle is of another image; of both, one is drawn for each image."""


@dataclass(frozen=True, kw_only=True)
class TextAugmentation(Augmentation):
    """What is done to images with texts, and to the texts."""

    edges_go_on = True

    flip: bool = False
    """Whether left and right change places half the time: not where texts speak of them."""
    word_dropout: float = 0.0
    """How likely each word so far is hidden while the next is learned (Bowman et al. 2016): the image must say it."""
