"""What there is to choose when an encoder is pre-trained or scored."""

from dataclasses import dataclass, field
from typing import Any

from manyheads.core.errors import ConfigError
from manyheads.tasks.language.recipe import TextEvaluation
from manyheads.tasks.sections import EmbeddingData
from manyheads.tasks.task import File, Files, Recipe, lazily, refuse_below
from manyheads.train.config import TrainConfig


@dataclass(frozen=True, kw_only=True)
class MaskedData(EmbeddingData):
    """Which text an encoder learns from, and how it is cut into tokens and batches."""

    text: Files = ()
    """Files, folders or patterns such as data/*.txt, plain, .gz or .xz; no text at all: a sample."""
    field: str = "text"
    """Which field of each line of a .jsonl file is a document; any other file is one document."""
    valid: Files = ()
    """Text for validation; without any, the last tenth of the text is held out, up to `valid_tokens`."""
    next_sentence: bool = True
    """Whether a row is two texts, and the model also learns if the second follows the first."""
    tokenizer: File = None
    """A tokenizer.json, or a directory that holds one or a vocab.txt; unset: WordPiece is trained on the text."""
    vocabulary: int = 8000
    """Tokens of the tokenizer that is trained."""
    lowercase: bool = True
    """Whether the tokenizer that is trained makes capitals small."""
    rows: int = 64
    """Rows of model.context tokens in a batch."""
    valid_tokens: int = 1_000_000
    """At most so many tokens are validated on."""

    def __post_init__(self):
        super().__post_init__()
        if self.valid and not self.text:
            raise ConfigError("data.valid is given without data.text; give both or neither")
        refuse_below("data", self, 1, "rows", "valid_tokens")


@dataclass(frozen=True, kw_only=True)
class MaskedRecipe(Recipe):
    """Pre-train an encoder as BERT: hidden words, and whether one text follows another, from raw text."""

    presets = "bert_tiny, bert_mini (with your own text), bert_small, bert_medium, bert_base or bert_large"
    try_next = "manyheads fill {out} 'a text with a [MASK] in it'"

    task: str = "masked"
    data: MaskedData = field(default_factory=MaskedData)
    model: Any = field(default_factory=lazily("manyheads.models.bert", "BertConfig"))
    train: TrainConfig = field(default_factory=TrainConfig)


Evaluation = TextEvaluation
RECIPE = MaskedRecipe
