"""What there is to choose when a language model is trained or scored."""

from dataclasses import dataclass, field
from typing import Any

from manyheads.core.errors import ConfigError
from manyheads.tasks.sections import EmbeddingData
from manyheads.tasks.task import File, Files, Recipe, lazily, refuse_below, refuse_other_family
from manyheads.tasks.translate.recipe import refuse_fields
from manyheads.train.config import TrainConfig

FAMILIES = {"gpt": "GPTConfig", "llama": "LlamaConfig", "rnn": "RNNConfig", "bytenet": "ByteNetConfig"}


@dataclass(frozen=True, kw_only=True)
class TextData(EmbeddingData):
    """Which text a language model learns from, and how it is cut into tokens and batches."""

    text: Files = ()
    """Files, folders or patterns such as data/*.txt, plain, .gz or .xz; no text at all: a sample."""
    field: str = "text"
    """Which field of each line of a .jsonl file is a document; any other file is one document."""
    valid: Files = ()
    """Text for validation; without any, the last tenth of the text is held out, up to `valid_tokens`."""
    pairs: Files = ()
    """In place of text: files with pairs, .tsv or .jsonl, learned as `source <delimiter> target`."""
    fields: tuple[str, ...] = ()
    """Which columns (from 1) or JSON fields of `pairs` are source and target; unset: 1 and 2, or source and target."""
    valid_pairs: Files = ()
    """Pairs for validation; without any, one pair in 50 is held out."""
    learn: str = "target"
    """What of a pair is predicted: target, or all of it."""
    tokenizer: str | None = None
    """A tokenizer.json, characters, or words (what is between spaces); unset: byte-level BPE is trained on the text."""
    vocabulary: int = 8000
    """Tokens of the tokenizer that is trained, at most."""
    rows: int = 32
    """Windows of model.context tokens in a batch."""
    document_mask: bool = False
    """Whether attention ends at the borders of documents, which stand end to end in a window."""
    valid_tokens: int = 1_000_000
    """At most so many tokens are validated on."""

    def __post_init__(self):
        super().__post_init__()
        if self.text and self.pairs:
            raise ConfigError("both data.text and data.pairs are given; a model learns from one of them")
        if self.valid and not self.text:
            raise ConfigError("data.valid is given without data.text; give both or neither")
        if self.valid_pairs and not self.pairs:
            raise ConfigError("data.valid_pairs is given without data.pairs; give both or neither")
        refuse_fields(self.fields)
        if self.learn not in ("target", "all"):
            raise ConfigError(f"data.learn is '{self.learn}'; it can be target or all")
        refuse_below("data", self, 1, "rows", "valid_tokens")


@dataclass(frozen=True, kw_only=True)
class LanguageRecipe(Recipe):
    """Train a language model from raw text or from pairs of texts: a decoder-only Transformer (T-D, GPT or Llama), a
    recurrent network or dilated convolutions."""

    presets = (
        "gpt2_tiny (with your own text), gpt2_baby, gpt2_small … gpt2_xl, gpt1, transformer_decoder (T-D), "
        "gpt3_small … gpt3_175b, llama_tiny, llama_baby, llama_small, llama2_7b, llama3_8b, or of recurrent networks "
        "lstm_tiny, lstm, gru or elman, or of convolutions bytenet_tiny or bytenet"
    )
    try_next = "manyheads generate {out} --prompt 'a beginning'"

    task: str = "language"
    family: str = "gpt"
    """Which model: gpt, llama, rnn or bytenet."""
    data: TextData = field(default_factory=TextData)
    model: Any = field(default_factory=lazily("manyheads.models.gpt", "GPTConfig"))
    train: TrainConfig = field(default_factory=TrainConfig)

    def __post_init__(self):
        super().__post_init__()
        refuse_other_family(self.family, self.model, FAMILIES)


@dataclass(frozen=True, kw_only=True)
class TextEvaluation:
    """Which text a model is scored on."""

    text: Files = ()
    """For a language model, masked or not: files, folders or patterns."""
    field: str | None = None
    """The field of a .jsonl line that is its text; none: text."""


@dataclass(frozen=True, kw_only=True)
class Evaluation(TextEvaluation):
    """What a language model is scored on: text, or questions with choices."""

    stride: int | None = None
    """How far the window moves; none: half of the model's context."""
    choices: File = None
    """For a language model: .jsonl with context, choices and answer."""


RECIPE = LanguageRecipe
