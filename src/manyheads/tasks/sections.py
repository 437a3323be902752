"""What sections of several tasks' recipes share."""

from dataclasses import dataclass
from typing import Annotated

from manyheads.core.errors import ConfigError

Files = Annotated[tuple[str, ...], "FILE…"]
"""A field of a recipe that names files; what is annotated is how a flag for it is written in its help."""
File = Annotated[str | None, "FILE"]
"""One that names a single file, or none."""


@dataclass(frozen=True, kw_only=True)
class EmbeddingData:
    """What the embedding of tokens begins with, in every task's data."""

    vectors: File = None
    """What the model's embedding begins with: word vectors in a file of word2vec or GloVe, plain, .gz or .xz."""
    freeze_vectors: bool = False
    """Whether the embedding, with the rows of words that are not in `vectors`, stays as it began."""

    def __post_init__(self):
        if self.freeze_vectors and not self.vectors:
            raise ConfigError("data.freeze_vectors is set without data.vectors; give both or neither")


@dataclass(frozen=True, kw_only=True)
class FineTune:
    """What is learned again, and how long."""

    model: str | None = None
    """The run or model directory of the pre-trained model to begin with; unset: an untrained one."""
    freeze: bool = False
    """Whether the pre-trained model stays as it is, and only what stands on top of it learns."""
    epochs: int = 3
    """How often each example is seen; steps follow from it, unless set."""

    def __post_init__(self):
        if self.epochs < 1:
            raise ConfigError(f"fine_tune.epochs is {self.epochs}; it must be at least 1")
