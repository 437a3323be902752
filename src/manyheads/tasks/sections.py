"""What sections of several tasks' recipes share."""

from dataclasses import dataclass, field

from manyheads.core.errors import ConfigError
from manyheads.tasks.task import File


@dataclass(frozen=True, kw_only=True)
class EmbeddingData:
    """What the embedding of tokens begins with, in every task's data."""

    vectors: File = field(default=None, metadata={"shared": True})
    """What the model's embedding begins with: word vectors in a file of word2vec or GloVe, plain, .gz or .xz."""
    freeze_vectors: bool = field(default=False, metadata={"shared": True})
    """Whether the embedding, with the rows of words that are not in `vectors`, stays as it began."""

    def __post_init__(self):
        if self.freeze_vectors and not self.vectors:
            raise ConfigError("data.freeze_vectors is set without data.vectors; give both or neither")
