"""What there is to choose when an image classifier is trained or scored."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from manyheads.core.errors import ConfigError
from manyheads.core.files import refuse_unwritable
from manyheads.data.augmentation import LabelledAugmentation
from manyheads.data.sides import refuse_large_side
from manyheads.tasks.task import Files, FineTune, FineTuningRecipe, lazily, refuse_below


@dataclass(frozen=True, kw_only=True)
class ImageData:
    """Which images a classifier learns from, and how large they are made."""

    data: Files = ()
    """A folder with a sub-folder of pictures for each class, or with train and test folders of such; a folder of
    MNIST's or CIFAR's files; or an .npz of images and labels. Nothing at all: scikit-learn's handwritten digits."""
    valid: Files = ()
    """Images for validation, of the same kinds; without any, the valid part of --data, else a tenth is held out, up to
    1,000, by class."""
    size: int | None = None
    """Pixels along the side that images are made to have; unset: their own where all have one of up to 256, else the
    model's."""
    grey: bool = False
    """Whether coloured images are read in shades of grey."""
    examples: int = 64
    """Images in a batch."""

    def __post_init__(self):
        if self.valid and not self.data:
            raise ConfigError("data.valid is given without data.data; give both or neither")
        refuse_below("data", self, 1, "size", "examples")
        refuse_large_side("data.size", self.size)


@dataclass(frozen=True, kw_only=True)
class ImageFineTune(FineTune):
    """What is learned again, and how long."""

    epochs: int = 30
    """How often each image is seen; steps follow from it, unless set."""


@dataclass(frozen=True, kw_only=True)
class ImagesRecipe(FineTuningRecipe):
    """Train a classifier of images, a Vision Transformer, from scratch or from any ViT."""

    presets = (
        "vit_micro, vit_mini, vit_ti16, vit_s16, vit_b16, vit_l16, or with patches of 8 or 32, as vit_b32; where no "
        "--model is given"
    )
    try_next = "manyheads classify-image {out} photo.png"

    task: str = "images"
    data: ImageData = field(default_factory=ImageData)
    augment: LabelledAugmentation = field(default_factory=LabelledAugmentation)
    fine_tune: ImageFineTune = field(default_factory=ImageFineTune)
    model: Any = field(default_factory=lazily("manyheads.models.vit", "ViTConfig"))


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """What an image classifier is scored on."""

    data: Files = ()
    """For a classifier of images: as it is trained on, of which the test part is taken where there is one."""
    plot: str | None = None
    """Where a classifier's reliability is drawn, .png or .svg; none: into its run directory."""

    def __post_init__(self):
        if self.plot:
            refuse_unwritable(Path(self.plot), ".png", ".svg")


RECIPE = ImagesRecipe
