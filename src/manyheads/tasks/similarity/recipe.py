"""What there is to choose when an embedder is trained or scored."""

import math
from dataclasses import dataclass, field

from manyheads.core.errors import ConfigError
from manyheads.tasks.classify.recipe import ExampleEvaluation
from manyheads.tasks.sections import EmbeddingData
from manyheads.tasks.task import Files, FineTuningRecipe, refuse_below

SHORTEST = 5  # tokens of a text that leave place for words between the marks


@dataclass(frozen=True, kw_only=True)
class SimilarityData(EmbeddingData):
    """Which pairs an embedder learns from, and how texts become vectors."""

    pairs: Files = ()
    """Files with pairs, plain, .gz or .xz: .tsv or .jsonl with two texts, or .tsv, .csv or .jsonl with two texts and a
    score; or folders with train.tsv and dev.tsv."""
    valid: Files = ()
    """Pairs for validation; without any, the dev.tsv of folders, else a tenth is held out, up to 1,000."""
    columns: tuple[str, ...] = ()
    """Names or numbers (from 1) of the columns of a .tsv, a score last if there is one; unset: what is there."""
    largest: float | None = None
    """The score that a cosine of 1 stands for; unset: the largest of the training files."""
    pooling: str = "mean"
    """What is made of the vectors of a text's tokens: mean, cls (the first) or max (the largest of each number)."""
    normalised: bool = True
    """Whether the model gives vectors of the length 1; it learns the same either way."""
    longest: int | None = None
    """How many tokens of a text are read; unset: as many as the model can."""
    vocabulary: int = 8000
    """Tokens of the tokenizer that is trained, where no pre-trained model brings its own."""
    lowercase: bool = True
    """Whether the tokenizer that is trained makes capitals small."""
    examples: int = 64
    """Pairs in a batch; without scores, what each text is compared with."""

    def __post_init__(self):
        super().__post_init__()
        from manyheads.models.bert import POOLINGS

        if self.valid and not self.pairs:
            raise ConfigError("data.valid is given without data.pairs; give both or neither")
        if self.columns and len(self.columns) not in (2, 3):
            raise ConfigError(
                f"data.columns names {len(self.columns)}; it must name two texts, and a score last if any"
            )
        if self.largest is not None and not 0 < self.largest < math.inf:
            raise ConfigError(f"data.largest is {self.largest}; it must be above 0")
        if self.pooling not in POOLINGS:
            raise ConfigError(f"data.pooling is '{self.pooling}'; it can be {', '.join(POOLINGS)}")
        refuse_below("data", self, 1, "examples")
        refuse_below("data", self, SHORTEST, "longest")


@dataclass(frozen=True, kw_only=True)
class SimilarityRecipe(FineTuningRecipe):
    """Train an embedder, which gives texts that mean the same similar vectors, from pairs of texts."""

    try_next = "manyheads similar {out} --to 'a sentence' < sentences.txt"

    task: str = "similarity"
    data: SimilarityData = field(default_factory=SimilarityData)

    def __post_init__(self):
        super().__post_init__()
        if self.fine_tune.freeze:
            raise ConfigError("fine_tune.freeze leaves nothing to learn: an embedder is all encoder; leave it away")


Evaluation = ExampleEvaluation
RECIPE = SimilarityRecipe
