"""What there is to choose when a captioner is trained or scored."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from manyheads.core.errors import ConfigError
from manyheads.core.files import refuse_unwritable
from manyheads.data.augmentation import TextAugmentation
from manyheads.data.sides import refuse_large_side
from manyheads.tasks.task import File, Files, Recipe, lazily, refuse_below
from manyheads.train.config import TrainConfig

LONGEST = 64  # tokens of a text that is learned, and of one that is written


@dataclass(frozen=True, kw_only=True)
class ImageTextData:
    """How images and what is said of them are read, for every task that has both."""

    valid: Files = ()
    """Files for validation; without any, a tenth of the images is held out, up to 1,000."""
    size: int | None = None
    """Pixels along the side that images are made to have; unset: their own where all have one of up to 256, else the
    model's."""
    grey: bool = False
    """Whether coloured images are read in shades of grey."""
    tokenizer: File = None
    """A tokenizer.json; unset: byte-level BPE of `vocabulary` tokens is trained on the texts."""
    vocabulary: int = 4000
    """Tokens of the tokenizer that is trained, at most."""
    longest: int = LONGEST
    """Texts of more tokens are dropped, and counted."""
    examples: int = 64
    """Texts in a batch, each with its image."""

    files: ClassVar[str]
    """The field that names the files to learn from."""

    def __post_init__(self):
        if self.valid and not getattr(self, self.files):
            raise ConfigError(f"data.valid is given without data.{self.files}; give both or neither")
        refuse_below("data", self, 1, "size", "examples")
        refuse_large_side("data.size", self.size)
        refuse_below("data", self, 2, "longest")


@dataclass(frozen=True, kw_only=True)
class CaptionData(ImageTextData):
    """Which images with captions a captioner learns from, and how they are read."""

    pairs: Files = ()
    """Files with the path of an image, from the file's own folder, and its caption on each line, with a tab between;
    plain, .gz or .xz. Nothing at all: a sample, pictures of coloured shapes."""

    files = "pairs"


@dataclass(frozen=True, kw_only=True)
class CaptionRecipe(Recipe):
    """Train a captioner of images: the patches of a ViT, read by the translator's decoder."""

    presets = "captioner_tiny, captioner_small (with your own data) or captioner_base"
    try_next = "manyheads caption {out} photo.png"

    task: str = "caption"
    data: CaptionData = field(default_factory=CaptionData)
    augment: TextAugmentation = field(default_factory=TextAugmentation)
    model: Any = field(default_factory=lazily("manyheads.models.vision_encoder_decoder", "VisionEncoderDecoderConfig"))
    train: TrainConfig = field(default_factory=TrainConfig)


@dataclass(frozen=True, kw_only=True)
class WritingEvaluation:
    """How what is written is searched for and kept, of every model that reads images and writes."""

    beam: int = 4
    """Beam width; 1 is greedy search."""
    alpha: float = 0.6
    """Length penalty; 0 is none."""
    out: str | None = None
    """Save what is written here, one text a line."""

    def __post_init__(self):
        if self.out:
            refuse_unwritable(Path(self.out))


@dataclass(frozen=True, kw_only=True)
class Evaluation(WritingEvaluation):
    """What a captioner is scored on."""

    pairs: Files = ()
    """For a captioner: files as it is trained on; an image that comes several times has several right captions."""


RECIPE = CaptionRecipe
