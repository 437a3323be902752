"""Pre-training an encoder as BERT was: hidden words, and which text follows which."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import nn

from manyheads.core.errors import ConfigError, DataError
from manyheads.data.batches import Batches
from manyheads.data.masked_rows import masked_batches
from manyheads.models.bert import PRESETS, MaskedBert
from manyheads.tasks.card import model_card
from manyheads.tasks.fine_tuning import refuse_smoothing
from manyheads.tasks.language.data import Texts
from manyheads.tasks.language.training import adamw
from manyheads.tasks.masked.data import open_sentences, store_sentences, train_tokenizer
from manyheads.tasks.masked.recipe import MaskedData, MaskedRecipe
from manyheads.tasks.masked.use import masked_scores
from manyheads.tasks.task import Task
from manyheads.text.encoder import EncoderTokenizer
from manyheads.train.objectives import Loss, masked_loss

DECAY = 0.01  # of the weights, as BERT's
EPOCHS = 40  # at most, of presets: as many as BERT's own
LAPTOP = ("bert_tiny", "bert_mini")


class MaskedLanguageModelling(Task):
    """From raw text to a pre-trained encoder."""

    Recipe = MaskedRecipe
    Processor = EncoderTokenizer
    network = MaskedBert
    metrics = ("loss", "accuracy")
    from_processor = ("vocabulary", "separator")
    presets = tuple(PRESETS)
    usual_preset = "bert_mini"
    own_data = ("text",)

    @classmethod
    def sample(cls) -> MaskedRecipe:
        """The sample text, learned in a minute or two on two cores; its sentences follow one another by chance."""
        rates = {"warmup": 60, "learning_rate": 2e-3, "valid_every": 200, "checkpoint_every": 200}
        model = replace(PRESETS["bert_tiny"](), context=64)
        data = MaskedData(vocabulary=1000, rows=32, next_sentence=False)
        return MaskedRecipe(data=data, model=model, train=adamw(steps=600, weight_decay=DECAY, **rates))

    @classmethod
    def preset(cls, name: str) -> MaskedRecipe:
        """Small ones see 128 tokens, as BERT did in nine tenths of its steps."""
        if name not in PRESETS:
            raise ConfigError(f"there is no preset {name}; there are {', '.join(PRESETS)}")
        if name in LAPTOP:
            rates = {"warmup": 500, "learning_rate": 1e-3, "valid_every": 500, "checkpoint_every": 500}
            model = replace(PRESETS[name](), context=128)
            return MaskedRecipe(model=model, train=adamw(steps=10_000, epochs=EPOCHS, weight_decay=DECAY, **rates))
        # BERT saw 256 rows an update, which train.accumulate can make of these batches.
        rates = {"warmup": 10_000, "learning_rate": 1e-4, "beta2": 0.999, "patience": 10}
        data = MaskedData(vocabulary=30_522, rows=32)
        train = adamw(steps=100_000, epochs=EPOCHS, weight_decay=DECAY, **rates)
        return MaskedRecipe(data=data, model=PRESETS[name](), train=train)

    def check(self) -> None:
        refuse_smoothing(self.recipe.train, "words")
        if self.recipe.data.next_sentence and self.recipe.model.segments < 2:
            raise ConfigError("model.segments is 1, but two texts stand in a row; raise it or use --no-next-sentence")

    def read(self) -> Texts:
        data = self.recipe.data
        return Texts(data.text, data.valid, data.field)

    def train_processor(self, examples: Texts) -> EncoderTokenizer:
        return train_tokenizer(examples, self.recipe.data)

    def store(self, examples: Texts, directory: Path) -> None:
        store_sentences(examples, self.processor, self.recipe.model.context, directory)

    def open(self, directory: Path) -> None:
        """Text that makes no batches is refused, and validation in which no word can be hidden."""
        self.train, self.valid = open_sentences(directory, self.recipe.data.valid_tokens)
        for part, store in (("train on", self.train), ("validate on", self.valid)):
            try:
                self.batches_of(store, seed=0, shuffle=False)
            except DataError as error:
                other = ", or other text with --valid" if store is self.valid and not self.recipe.data.valid else ""
                raise DataError(f"of the text to {part}: {error}{other}") from None
        if (self.valid["ids"].flat == self.processor.unknown).all():
            raise DataError("every word to validate on is unknown to the tokenizer; give other text with --valid")

    def build(self, body: None) -> MaskedBert:
        return MaskedBert(self.sizes(), next_sentence=self.recipe.data.next_sentence)

    def batches_of(self, store: Any, **order: Any) -> Batches:
        data = self.recipe.data
        rows = {"rows": data.rows, "length": self.recipe.model.context, "next_sentence": data.next_sentence}
        return masked_batches(store, self.processor, **rows, **order)

    def loss(self, model: nn.Module, batch: Any) -> Loss:
        return masked_loss(model, batch)

    def validate(self, model: nn.Module) -> dict[str, float]:
        return masked_scores(model, self.valid_batches())

    def card(self, which: str, scores: dict[str, float]) -> str:
        next_sentence = self.recipe.data.next_sentence
        both = ", and to tell whether a text follows another" if next_sentence else ""
        kind = "BertForPreTraining" if next_sentence else "BertForMaskedLM"
        about = f"""
An encoder, pre-trained as BERT was (Devlin et al. 2019) to guess hidden words{both}; these are its weights {which}.
`manyheads fill`, `manyheads.Filler` and transformers' `{kind}` open this directory; `manyheads train classify`, `tag`,
`similarity` and `answer` fine-tune it with `--model`.
"""
        meaning = "Loss is the negative log-likelihood of a hidden word, in nats; accuracies are in percent."
        tag, title = "fill-mask", "A masked language model"
        return model_card(self.recipe, scores, pipeline_tag=tag, title=title, about=about, meaning=meaning)


TASK = MaskedLanguageModelling
