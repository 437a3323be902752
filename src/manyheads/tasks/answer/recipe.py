"""What there is to choose when a model that answers questions is trained or scored."""

from dataclasses import dataclass, field

from manyheads.core.errors import ConfigError
from manyheads.tasks.classify.recipe import ExampleEvaluation
from manyheads.tasks.sections import EmbeddingData
from manyheads.tasks.task import Files, FineTuningRecipe, refuse_below

LONGEST, STRIDE = 384, 128  # tokens of a window, and from one to the next


@dataclass(frozen=True, kw_only=True)
class AnswerData(EmbeddingData):
    """Which questions an answerer learns from, and how they are cut into tokens, windows and batches."""

    data: Files = ()
    """Files of questions in the layout of SQuAD 1.1 or 2.0, plain, .gz or .xz."""
    valid: Files = ()
    """Files for validation; without any, a tenth of the documents is held out, of fewer than ten of the contexts."""
    vocabulary: int = 8000
    """Tokens of the tokenizer that is trained, where no pre-trained model brings its own."""
    lowercase: bool = True
    """Whether the tokenizer that is trained makes capitals small."""
    stride: int = STRIDE
    """Tokens from the beginning of a window to that of the next, or half a window where that is less; validation, and
    whoever asks the model later, has 128."""
    longest: int = LONGEST
    """Tokens of a window, with the question and all marks; never more than the model sees at once."""
    examples: int = 16
    """Windows in a batch."""

    def __post_init__(self):
        super().__post_init__()
        if self.valid and not self.data:
            raise ConfigError("data.valid is given without data.data; give both or neither")
        refuse_below("data", self, 1, "stride", "longest", "examples")


@dataclass(frozen=True, kw_only=True)
class AnswerRecipe(FineTuningRecipe):
    """Train a model that answers questions about a text with a stretch of that text: an encoder (BERT)."""

    try_next = "manyheads answer {out} --context text.txt 'a question?'"

    task: str = "answer"
    data: AnswerData = field(default_factory=AnswerData)


Evaluation = ExampleEvaluation
RECIPE = AnswerRecipe
