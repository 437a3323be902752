"""What there is to choose when a parser is trained or scored."""

from dataclasses import dataclass, field
from pathlib import Path

from manyheads.core.errors import ConfigError
from manyheads.core.files import refuse_unwritable
from manyheads.tasks.sections import EmbeddingData
from manyheads.tasks.task import Files, FineTune, FineTuningRecipe, refuse_below


@dataclass(frozen=True, kw_only=True)
class ParseData(EmbeddingData):
    """Which trees a parser learns from, and how their words are cut into tokens and batches."""

    trees: Files = ()
    """Files of trees in the Penn Treebank's brackets, plain, .gz or .xz, or folders of .mrg files. Nothing at all: a
    sample, trees of a small grammar."""
    valid: Files = ()
    """Trees for validation; without any, a tenth is held out, up to 1,000."""
    vocabulary: int = 8000
    """Tokens of the tokenizer that is trained, where no pre-trained model brings its own."""
    lowercase: bool = False
    """Whether the tokenizer that is trained makes capitals small."""
    examples: int = 32
    """Sentences in a batch."""

    def __post_init__(self):
        super().__post_init__()
        if self.valid and not self.trees:
            raise ConfigError("data.valid is given without data.trees; give both or neither")
        refuse_below("data", self, 1, "examples")


@dataclass(frozen=True, kw_only=True)
class ParseFineTune(FineTune):
    """What is learned again, and how long."""

    epochs: int = 20
    """How often each sentence is seen; steps follow from it, unless set."""


@dataclass(frozen=True, kw_only=True)
class ParseRecipe(FineTuningRecipe):
    """Train a parser of constituents: spans scored over any BERT, and the best tree of them."""

    try_next = 'manyheads parse {out} "The cat danced ."'

    task: str = "parse"
    data: ParseData = field(default_factory=ParseData)
    fine_tune: ParseFineTune = field(default_factory=ParseFineTune)


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """What a parser is scored on."""

    trees: Files = ()
    """For a parser: files of trees as it is trained on; none: those of the sample that are kept for testing."""
    out: str | None = None
    """Save what is written here, one text a line."""

    def __post_init__(self):
        if self.out:
            refuse_unwritable(Path(self.out))
            if Path(self.out) in map(Path, self.trees):
                raise ConfigError(f"--out would replace {self.out}, which is scored on; give another file")


RECIPE = ParseRecipe
