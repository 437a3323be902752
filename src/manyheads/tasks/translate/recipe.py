"""What there is to choose when a translator is trained or scored."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from manyheads.core.errors import ConfigError
from manyheads.core.files import refuse_unwritable
from manyheads.core.words import counted
from manyheads.tasks.sections import EmbeddingData
from manyheads.tasks.task import File, Files, Recipe, lazily, refuse_other_family
from manyheads.train.config import TrainConfig

FAMILIES = {"transformer": "TransformerConfig", "conv": "ConvSeq2SeqConfig", "rnn": "RNNTranslatorConfig"}


@dataclass(frozen=True, kw_only=True)
class PairData(EmbeddingData):
    """Which sentence pairs a translator learns from, and how they are cut into tokens and batches."""

    source: Files = ()
    """Files with one source sentence a line, plain, .gz or .xz; no files at all: the sample corpus."""
    target: Files = ()
    """Files with their translations, line by line."""
    pairs: Files = ()
    """Files with both: .tsv or .jsonl, plain, .gz or .xz."""
    fields: tuple[str, ...] = ()
    """Which columns (from 1) or JSON fields of `pairs` are source and target; unset: 1 and 2, or source and target."""
    valid_source: Files = ()
    """Validation files; without any, one training pair in 50 is held out, up to 1,000."""
    valid_target: Files = ()
    """Their translations."""
    valid_pairs: Files = ()
    """Validation files with both."""
    tokenizer: File = None
    """A tokenizer.json; unset: byte-level BPE of `vocabulary` tokens is trained on both languages."""
    vocabulary: int = 8000
    """Tokens of the tokenizer that is trained."""
    longest: int = 256
    """Pairs with a side of more tokens are dropped, and counted."""
    batch_tokens: int = 4096
    """Target tokens of a batch, padding included."""

    def __post_init__(self):
        super().__post_init__()
        refuse_fields(self.fields)
        for side in ("", "valid_"):
            sources, targets = getattr(self, f"{side}source"), getattr(self, f"{side}target")
            if len(sources) != len(targets):
                raise ConfigError(
                    f"{counted(len(sources), 'file')} in data.{side}source, {len(targets)} in data.{side}target"
                )
        if (self.valid_source or self.valid_pairs) and not (self.source or self.pairs):
            raise ConfigError("validation files are given, but no training files; give both or neither")
        if self.batch_tokens < 1 or self.longest < 2:
            raise ConfigError("data.batch_tokens must be at least 1 and data.longest at least 2")


def refuse_fields(names: tuple[str, ...], called: str = "data.fields") -> None:
    """A pair has two fields."""
    if names and len(names) != 2:
        raise ConfigError(f"{called} names {counted(len(names), 'field')}; it must name two, source and target")


@dataclass(frozen=True, kw_only=True)
class TranslateRecipe(Recipe):
    """Train a translator from sentence pairs: an encoder-decoder Transformer, or one of convolutions or recurrent."""

    presets = (
        "transformer_tiny, transformer_small (with your own data), transformer_base or transformer_big, of "
        "convolutions conv_tiny or conv, or recurrent rnn_tiny, rnn_context, rnn_bahdanau or rnn_dot"
    )
    try_next = "echo 'a sentence' | manyheads translate {out}"

    task: str = "translate"
    family: str = "transformer"
    """Which model: transformer, conv or rnn."""
    data: PairData = field(default_factory=PairData)
    model: Any = field(default_factory=lazily("manyheads.models.transformer", "TransformerConfig"))
    train: TrainConfig = field(default_factory=TrainConfig)

    def __post_init__(self):
        super().__post_init__()
        refuse_other_family(self.family, self.model, FAMILIES)


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """What a translator is scored on."""

    source: Files = ()
    """For a translator: one sentence a line; plain, .gz or .xz."""
    target: Files = ()
    """Reference translations, line by line."""
    pairs: Files = ()
    """Both in one file: .tsv or .jsonl."""
    fields: tuple[str, ...] = ()
    """The columns (from 1) or JSON fields of source and target."""
    beam: int = 4
    """Beam width; 1 is greedy search."""
    alpha: float = 0.6
    """Length penalty; 0 is none."""
    out: str | None = None
    """Save what is written here, one text a line."""

    def __post_init__(self):
        if self.out:
            refuse_unwritable(Path(self.out))


RECIPE = TranslateRecipe
