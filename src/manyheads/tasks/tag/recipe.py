"""What there is to choose when a tagger is trained or scored."""

from dataclasses import dataclass, field

from manyheads.core.errors import ConfigError
from manyheads.tasks.classify.recipe import ENCODERS, ExampleEvaluation
from manyheads.tasks.sections import EmbeddingData
from manyheads.tasks.task import Files, FineTuningRecipe, refuse_below, refuse_other_family


@dataclass(frozen=True, kw_only=True)
class TagData(EmbeddingData):
    """Which sentences a tagger learns from, and how they are cut into tokens and batches."""

    train: Files = ()
    """Files in CoNLL's columns, plain, .gz or .xz: a word and its label a line, a blank line between sentences."""
    valid: Files = ()
    """Sentences for validation; without any, a tenth is held out, up to 1,000."""
    columns: tuple[str, ...] = ()
    """Numbers (from 1) of the columns of the word and of its label; unset: the first and the last."""
    vocabulary: int = 8000
    """Tokens of the tokenizer that is trained, where no pre-trained model brings its own."""
    lowercase: bool = False
    """Whether the tokenizer that is trained makes capitals small; names are told by theirs."""
    examples: int = 32
    """Sentences in a batch, or windows of those that are longer than the model reads."""

    def __post_init__(self):
        super().__post_init__()
        if self.valid and not self.train:
            raise ConfigError("data.valid is given without data.train; give both or neither")
        refuse_below("data", self, 1, "examples")


@dataclass(frozen=True, kw_only=True)
class TagRecipe(FineTuningRecipe):
    """Train a tagger, which labels each word of a sentence (names, parts of speech): BERT or a recurrent encoder."""

    presets = (
        "bert_tiny, bert_mini, bert_small, bert_medium, bert_base, bert_large, bilstm_tiny or bilstm, where no --model "
        "is given"
    )
    try_next = "echo 'a sentence' | manyheads tag {out}"

    task: str = "tag"
    family: str = "bert"
    """Which encoder: bert or birnn."""
    data: TagData = field(default_factory=TagData)

    def __post_init__(self):
        super().__post_init__()
        refuse_other_family(self.family, self.model, ENCODERS)


Evaluation = ExampleEvaluation
RECIPE = TagRecipe
