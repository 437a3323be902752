"""What there is to choose when a model that answers questions about images is trained or scored."""

from dataclasses import dataclass, field

from manyheads.tasks.caption.recipe import CaptionRecipe, ImageTextData, WritingEvaluation
from manyheads.tasks.task import Files


@dataclass(frozen=True, kw_only=True)
class AskData(ImageTextData):
    """Which questions about images are learned from, and how they are read."""

    data: Files = ()
    """Files with the path of an image, from the file's own folder, a question and its answer on each line, with tabs
    between; plain, .gz or .xz. Nothing at all: a sample, pictures of coloured shapes."""

    files = "data"


@dataclass(frozen=True, kw_only=True)
class AskRecipe(CaptionRecipe):
    """Train a model that answers questions about images: patches and question read together, the answer written."""

    try_next = "manyheads ask {out} photo.png 'a question?'"

    task: str = "ask"
    data: AskData = field(default_factory=AskData)  # type: ignore[assignment]


@dataclass(frozen=True, kw_only=True)
class Evaluation(WritingEvaluation):
    """What a model that answers questions about images is scored on."""

    data: Files = ()
    """For a model that answers questions about images: files as it is trained on; a question about an image that comes
    several times has several right answers."""


RECIPE = AskRecipe
