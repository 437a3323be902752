"""Training a language model: its presets, its objective and its metric."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from manyheads.core.errors import ConfigError
from manyheads.data.batches import Batches
from manyheads.data.pairs import joined_batches
from manyheads.data.ragged import Store
from manyheads.data.text import streamed_batches, text_batches
from manyheads.models import conv, gpt, llama, rnn
from manyheads.models.conv import ByteNet, ByteNetConfig
from manyheads.models.gpt import GPT, GPTConfig
from manyheads.models.llama import Llama, LlamaConfig
from manyheads.models.rnn import RNN, RNNConfig
from manyheads.nn.recurrent import RecurrentState
from manyheads.tasks.card import model_card
from manyheads.tasks.language.data import (
    DELIMITER,
    Texts,
    examples_of,
    open_text,
    store_pairs,
    store_text,
    train_tokenizer,
)
from manyheads.tasks.language.recipe import LanguageRecipe, TextData
from manyheads.tasks.task import Asked, Task
from manyheads.tasks.translate.data import Corpus
from manyheads.tasks.translate.use import mean_loss
from manyheads.text.language import LanguageTokenizer
from manyheads.train.config import TrainConfig
from manyheads.train.objectives import Loss, language_loss

FAMILIES = {"gpt": gpt.PRESETS, "llama": llama.PRESETS, "rnn": rnn.PRESETS, "bytenet": conv.LANGUAGE_PRESETS}
PRESETS = {name: sizes for presets in FAMILIES.values() for name, sizes in presets.items()}
MODELS = {
    "gpt": (GPT, GPTConfig),
    "llama": (Llama, LlamaConfig),
    "rnn": (RNN, RNNConfig),
    "bytenet": (ByteNet, ByteNetConfig),
}
VOCABULARIES = {"gpt1": 40_478, "llama2_7b": 32_000, "llama3_8b": 128_256, "llama_small": 49_152}
MADE_OF = {
    "gpt": "decoder-only Transformer",
    "llama": "decoder-only Transformer",
    "rnn": "recurrent network",
    "bytenet": "stack of dilated causal convolutions",
}
EPOCHS = 40  # at most, of presets: more teach next to nothing (Muennighoff et al. 2023)
LAPTOP = ("gpt2_tiny", "gpt2_baby", "llama_tiny", "llama_baby", "transformer_decoder", "bytenet_tiny", "bytenet")


class LanguageModelling(Task):
    """From raw text, or pairs of texts, to a language model."""

    Recipe = LanguageRecipe
    Processor = LanguageTokenizer
    metrics = ("loss",)
    from_processor = ("vocabulary", "end")
    presets = tuple(PRESETS)
    usual_preset = "gpt2_tiny"
    own_data = ("text", "pairs")

    def __init__(self, recipe: LanguageRecipe):
        super().__init__(recipe)
        self.network = MODELS[recipe.family][0]

    @classmethod
    def begin(cls, asked: Asked) -> LanguageRecipe:
        return cls.blank(asked.table) if "family" in asked.table and not asked.preset else super().begin(asked)

    @classmethod
    def sample(cls) -> LanguageRecipe:
        """The sample text, learned within a minute on two cores."""
        train = adamw(steps=600, warmup=50, learning_rate=3e-3, beta2=0.99, valid_every=200, checkpoint_every=200)
        model = replace(gpt.gpt2_tiny(), context=64)
        return LanguageRecipe(data=TextData(vocabulary=1000, rows=16), model=model, train=train)

    @classmethod
    def preset(cls, name: str) -> LanguageRecipe:
        """A GPU's batches for the large ones, a laptop's for the small ones."""
        if name not in PRESETS:
            raise ConfigError(f"there is no preset {name}; there are {', '.join(PRESETS)}")
        family = next(family for family, presets in FAMILIES.items() if name in presets)
        if family == "rnn":
            # Without weight decay, which dropout is in place of.
            data = TextData(vocabulary=4096 if name in ("lstm_tiny", "elman") else 10_000, rows=64)
            rates = {"warmup": 100, "learning_rate": 2e-3, "beta2": 0.999, "weight_decay": 0.0, "clip": 0.25}
            train = adamw(steps=20_000, epochs=EPOCHS, patience=10, valid_every=500, checkpoint_every=500, **rates)
        elif name in LAPTOP:
            data = TextData(vocabulary=8000 if name == "transformer_decoder" else 4096)
            rates = {"warmup": 100, "learning_rate": 1e-3, "beta2": 0.99}
            train = adamw(steps=5000, epochs=EPOCHS, valid_every=250, checkpoint_every=250, **rates)
        else:
            # GPT-2 and GPT-3 saw half a million tokens an update, which train.accumulate can make of these batches.
            data = TextData(vocabulary=VOCABULARIES.get(name, 50_257), rows=8)
            rates = {"warmup": 2000, "learning_rate": 6e-4, "beta2": 0.95}
            train = adamw(steps=100_000, epochs=EPOCHS, patience=10, compile=True, **rates)
        return LanguageRecipe(family=family, data=data, model=PRESETS[name](), train=train)

    @classmethod
    def blank(cls, table: dict[str, Any]) -> LanguageRecipe:
        family = str(table.get("family", "gpt"))
        model = MODELS[family][1]() if family in MODELS else None
        return LanguageRecipe(family=family, model=model)

    def read(self) -> Texts | Corpus:
        return examples_of(self.recipe.data, self.recipe.train.seed)

    def train_processor(self, examples: Texts | Corpus) -> LanguageTokenizer:
        return train_tokenizer(examples, self.recipe.data)

    def store(self, examples: Texts | Corpus, directory: Path) -> None:
        if isinstance(examples, Corpus):
            store_pairs(examples, self.processor, self.recipe.model.context, directory)
        else:
            store_text(examples, self.processor, directory)

    def open(self, directory: Path) -> None:
        if self.recipe.data.pairs:
            self.train, self.valid = (Store.open(directory / part) for part in ("train", "valid"))
        else:
            self.train, self.valid = open_text(directory, self.recipe.data.valid_tokens)

    def batches_of(self, store: Store, **order: Any) -> Batches:
        data, context = self.recipe.data, self.recipe.model.context
        if self._streams:
            return streamed_batches(store, rows=data.rows, length=self.recipe.model.unrolled, **order)
        if not data.pairs:
            return text_batches(store, rows=data.rows, length=context, **order)
        length = getattr(self.recipe.model, "unrolled", context)  # a state reads on for ever, which no batch can
        tokens = max(data.rows * length // 3, 1)  # of the target; source and padding about double it
        delimiter = self.processor.id_of(DELIMITER)
        return joined_batches(store, tokens=tokens, pad=0, delimiter=delimiter, counts=data.learn, **order)

    @property
    def _streams(self) -> bool:
        """Whether a state runs through the text, from each batch to the next, as truncated backpropagation has it."""
        return self.recipe.family == "rnn" and not self.recipe.data.pairs

    def check(self) -> None:
        if self.recipe.family == "rnn" and self.recipe.data.document_mask:
            raise ConfigError("data.document_mask is for attention, which a recurrent model has none of; leave it away")

    def loss(self, model: nn.Module, batch: Any) -> Loss:
        loss, self.carried = self._loss(model, batch, self.carried, self.recipe.train.smoothing)
        return loss

    def _loss(
        self, model: nn.Module, batch: Any, carried: dict[str, Tensor], smoothing: float = 0.0
    ) -> tuple[Loss, dict[str, Tensor]]:
        """The loss, and what the next batch goes on from."""
        end = self.processor.end if self.recipe.data.document_mask else None
        if not self._streams:
            return language_loss(model, batch, smoothing=smoothing, document_end=end), {}
        state = RecurrentState.of({} if batch.goes_on is None else carried)
        return language_loss(model, batch, smoothing=smoothing, state=state), state.tensors()

    def validate(self, model: nn.Module) -> dict[str, float]:
        """Negative log-likelihood a token, each window for itself or going on, and the perplexity that it is."""
        carried: dict[str, Tensor] = {}

        def on_batch(model: nn.Module, batch: Any) -> Loss:
            nonlocal carried
            loss, carried = self._loss(model, batch, carried)
            return loss

        loss = mean_loss(model, self.valid_batches(), on_batch)
        return {"loss": loss, "perplexity": math.exp(min(loss, 700.0))}

    def card(self, which: str, scores: dict[str, float]) -> str:
        about = f"""
A {MADE_OF[self.recipe.family]}; these are its weights {which}. `manyheads generate`,
`manyheads.LanguageModel` and, where `config.json` says gpt2, openai-gpt or llama, `transformers` open this directory.
"""
        meaning = "Loss is the negative log-likelihood of a token, in nats; perplexity is its exponential."
        tag, title = "text-generation", "A language model"
        return model_card(self.recipe, scores, pipeline_tag=tag, title=title, about=about, meaning=meaning)


def adamw(**changes: Any) -> TrainConfig:
    """How GPTs are trained: AdamW, a cosine, no label smoothing; the kept model is the one with the least loss."""
    usual = {"optimizer": "adamw", "weight_decay": 0.1, "schedule": "cosine", "smoothing": 0.0, "best_by": "loss"}
    return TrainConfig(**{**usual, **changes})


TASK = LanguageModelling
