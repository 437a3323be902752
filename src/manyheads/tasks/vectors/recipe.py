"""What there is to choose when word vectors are learned or scored."""

from dataclasses import dataclass, field
from typing import Any

from manyheads.core.errors import ConfigError
from manyheads.tasks.task import Files, Recipe, lazily, refuse_below
from manyheads.train.config import TrainConfig

METHODS = ("skipgram", "cbow", "glove")


@dataclass(frozen=True, kw_only=True)
class VectorData:
    """Which text word vectors are learned from, by which method, and what of it counts."""

    text: Files = ()
    """Files, folders or patterns such as data/*.txt, plain, .gz or .xz; no text at all: a sample."""
    field: str = "text"
    """Which field of each line of a .jsonl file is a document."""
    valid: Files = ()
    """Text for validation; without any, the last fiftieth of the text is held out, up to `valid_words`."""
    method: str = "skipgram"
    """skipgram or cbow (word2vec: Mikolov et al. 2013), or glove (Pennington et al. 2014)."""
    vocabulary: int = 200_000
    """At most so many words have a vector, the commonest."""
    least: int = 5
    """Words that are there fewer times have none, and the text goes on as if they were not there."""
    lowercase: bool = True
    """Whether capitals are made small."""
    window: int | None = None
    """How many words on either side stand beside a word, in its line; unset: 5, and 10 of glove."""
    negative: int = 5
    """Words drawn at random against each pair, of skipgram and cbow."""
    sample: float = 1e-3
    """The share of the text from which on a word is thinned out, of skipgram and cbow; 0: none is."""
    cutoff: float = 100.0
    """How often a pair must be there to count in full, of glove."""
    words: int = 16_384
    """Words of the text in a step, or of glove pairs."""
    valid_words: int = 20_000
    """At most so many words are validated on."""

    def __post_init__(self):
        if self.valid and not self.text:
            raise ConfigError("data.valid is given without data.text; give both or neither")
        if self.method not in METHODS:
            raise ConfigError(f"data.method is '{self.method}'; it can be {', '.join(METHODS)}")
        refuse_below("data", self, 1, "least", "window", "negative", "words", "valid_words")
        if not 0 <= self.sample <= 1:
            raise ConfigError(f"data.sample is {self.sample}; it must be at least 0 and at most 1")
        if not 0 < self.cutoff < float("inf"):
            raise ConfigError(f"data.cutoff is {self.cutoff}; it must be above 0 and finite")

    @property
    def reach(self) -> int:
        """The widest window."""
        return self.window or (10 if self.method == "glove" else 5)


@dataclass(frozen=True, kw_only=True)
class VectorsRecipe(Recipe):
    """Learn word vectors from raw text: word2vec (skip-gram, CBOW) or GloVe."""

    presets = "none; choose with --method and --set model.width"
    try_next = "manyheads neighbours {out} cat"

    task: str = "vectors"
    data: VectorData = field(default_factory=VectorData)
    model: Any = field(default_factory=lazily("manyheads.models.vectors", "WordVectorsConfig"))
    train: TrainConfig = field(default_factory=TrainConfig)


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """What word vectors are scored on."""

    analogies: Files = ()
    """For word vectors: files of lines with four words, `man king woman queen`, in sections that begin with a colon."""
    similarities: Files = ()
    """For word vectors: files of lines with two words and how alike they are, with tabs or spaces between."""


RECIPE = VectorsRecipe
