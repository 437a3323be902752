"""What there is to choose when a classifier is trained or scored."""

import math
from dataclasses import dataclass, field
from pathlib import Path

from manyheads.core.errors import ConfigError
from manyheads.core.files import refuse_unwritable
from manyheads.tasks.language.recipe import FAMILIES as DECODERS
from manyheads.tasks.sections import EmbeddingData
from manyheads.tasks.task import File, Files, FineTune, FineTuningRecipe, refuse_below, refuse_other_family

ENCODERS = {"bert": "BertConfig", "birnn": "BiRNNConfig"}
FAMILIES = {**DECODERS, **ENCODERS, "bag": "BagConfig", "lexicon": "LexiconConfig"}


@dataclass(frozen=True, kw_only=True)
class ExampleData(EmbeddingData):
    """Which examples a classifier learns from, and how they are cut into tokens and batches."""

    train: Files = ()
    """Files with examples, plain, .gz or .xz: .tsv, .csv or .jsonl (a text or two and a label, or context, choices and
    answer); or folders with train.tsv and dev.tsv, or with files .pos and .neg."""
    valid: Files = ()
    """Examples for validation; without any, the dev.tsv of folders, else a tenth is held out, up to 1,000, by label."""
    columns: tuple[str, ...] = ()
    """Names or numbers (from 1) of the columns of a .tsv, the label last; unset: what the header says, or all."""
    regression: bool = False
    """Whether labels are numbers that are to be met as closely as possible."""
    vocabulary: int = 8000
    """Tokens of the tokenizer that is trained, where no pre-trained model brings its own."""
    lowercase: bool = True
    """Whether the tokenizer that is trained for an encoder makes capitals small."""
    examples: int = 32
    """Examples in a batch."""
    lexicon: File = None
    """For --preset lexicon: lines of a word, a tab, and positive or negative; unset: a small list that is shipped."""

    def __post_init__(self):
        super().__post_init__()
        if self.valid and not self.train:
            raise ConfigError("data.valid is given without data.train; give both or neither")
        if self.columns and len(self.columns) not in (2, 3):
            raise ConfigError(f"data.columns names {len(self.columns)}; it must name a text or two, and the label last")
        refuse_below("data", self, 1, "examples")


@dataclass(frozen=True, kw_only=True)
class ClassifyFineTune(FineTune):
    """What is learned again, how long, and beside what."""

    auxiliary: float = 0.5
    """The weight of the language model's loss beside that of the labels; encoders have none."""

    def __post_init__(self):
        super().__post_init__()
        if not 0 <= self.auxiliary < math.inf:
            raise ConfigError(f"fine_tune.auxiliary is {self.auxiliary}; it must be at least 0")


@dataclass(frozen=True, kw_only=True)
class ClassifyRecipe(FineTuningRecipe):
    """Train a classifier of texts, pairs of texts or multiple choice: any encoder or language model, or words alone."""

    presets = (
        "bert_tiny, bert_mini, bert_small, bert_medium, bert_base, bert_large, bilstm_tiny, bilstm, bag, lexicon, or "
        "any that train language has, where no --model is given"
    )
    try_next = "manyheads classify {out} < in.txt"

    task: str = "classify"
    family: str = "bert"
    """Which model: bert, birnn, gpt, llama, rnn, bytenet, bag or lexicon."""
    data: ExampleData = field(default_factory=ExampleData)
    fine_tune: ClassifyFineTune = field(default_factory=ClassifyFineTune)

    def __post_init__(self):
        super().__post_init__()
        refuse_other_family(self.family, self.model, FAMILIES)
        if self.data.lexicon and self.family != "lexicon":
            raise ConfigError("data.lexicon is for --preset lexicon; leave it away or choose that preset")


@dataclass(frozen=True, kw_only=True)
class ExampleEvaluation:
    """Which examples a model is scored on."""

    data: Files = ()
    """For a classifier, a tagger, an embedder or a model that answers: a file as it is trained on."""
    columns: tuple[str, ...] = ()
    """Columns of --data by name or number (from 1), the label last."""


@dataclass(frozen=True, kw_only=True)
class Evaluation(ExampleEvaluation):
    """What a classifier is scored on."""

    plot: str | None = None
    """Where a classifier's reliability is drawn, .png or .svg; none: into its run directory."""

    def __post_init__(self):
        if self.plot:
            refuse_unwritable(Path(self.plot), ".png", ".svg")


RECIPE = ClassifyRecipe
