"""Fine-tuning to label words, as BERT was to find names (Devlin et al. 2019, section 5.3)."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from manyheads.core.errors import ConfigError
from manyheads.data.examples import NOTHING, by_sentence
from manyheads.data.readers.columns import TaggedSentence
from manyheads.models.heads import EncoderTagger
from manyheads.tasks.card import model_card
from manyheads.tasks.fine_tuning import ENCODERS, FineTuning, presets_of
from manyheads.tasks.labelled import Split
from manyheads.tasks.metrics import entity_scores
from manyheads.tasks.tag.data import Windowing, least_windows, read_all, store_sentences
from manyheads.tasks.tag.recipe import TagRecipe
from manyheads.train.objectives import Loss, tag_loss, tagging_loss

MADE_OF = {"bert": "An encoder", "birnn": "A recurrent network in two directions"}
TRAINED_AS = {"bert": "BERT was fine-tuned to find names (Devlin et al. 2019)", "birnn": "in Huang et al. (2015)"}
OPENED_BY = {
    "bert": "`manyheads tag`, `manyheads.Tagger` and, where `config.json` says bert, transformers'\n"
    "`AutoModelForTokenClassification`",
    "birnn": "`manyheads tag` and `manyheads.Tagger`",
}


class Tagging(FineTuning):
    """From sentences of labelled words to a tagger."""

    Recipe = TagRecipe
    encoders = tuple(ENCODERS)
    presets = presets_of(encoders)
    unit = "words"
    metrics = ("f1", "accuracy", "loss")

    def count(self, examples: Split[TaggedSentence]) -> tuple[int, str]:
        best_by = "f1" if examples.about["entities"] else "accuracy"
        return least_windows(examples.train, self.recipe.model.context), best_by

    def read(self) -> Split[TaggedSentence]:
        return read_all(self.recipe.data, self.recipe.train.seed)

    def texts(self, examples: Split[TaggedSentence]) -> Iterable[str]:
        return (" ".join(sentence.words) for sentence in examples.train)

    def store(self, examples: Split[TaggedSentence], directory: Path) -> None:
        store_sentences(examples, Windowing(self.processor, self.recipe.model.context), directory)

    def open(self, directory: Path) -> None:
        """Whatever validation would stumble over is said here."""
        super().open(directory)
        self.names, self.entities = tuple(self.train.about["names"]), self.train.about["entities"]
        if self.entities:
            entity_scores([["B-name"]], [["B-name"]])  # says what is not installed
        elif self.recipe.train.best_by == "f1":
            raise ConfigError(
                "train.best_by is f1, but no label in validation is of an entity (B-…, I-…); use accuracy or loss"
            )

    def on_top(self, body: Any) -> EncoderTagger:
        return EncoderTagger(body, self.names)

    def loss(self, model: nn.Module, batch: Any) -> Loss:
        return tagging_loss(model, batch)

    def validate(self, model: nn.Module) -> dict[str, float]:
        """Negative log-likelihood of a word's label, how many of a hundred words are right, and F1 of entities."""
        labels, device = self.valid["labels"], next(model.parameters()).device
        batches = self.valid_batches()
        loss, predicted = torch.zeros((), device=device), np.full_like(labels.values, NOTHING)
        for numbers, batch in zip(batches.plan(0), batches.epoch(0)):
            batch = batch.to(device)
            scores = model(batch.ids, batch.lengths)
            loss += tag_loss(scores, batch.labels)
            for number, row in zip(numbers, scores.argmax(dim=-1).cpu().numpy()):
                place = labels.span(number)
                predicted[place] = row[: place.stop - place.start]
        asked = labels.values != NOTHING
        right = int((predicted == labels.values)[asked].sum())
        found = {"loss": float(loss) / int(asked.sum()), "accuracy": 100 * right / int(asked.sum())}
        if self.entities:
            spelt = [
                [[self.names[number] for number in sentence] for sentence in by_sentence(self.valid, values)]
                for values in (predicted, labels.values)
            ]
            found["f1"] = 100 * (entity_scores(*spelt).f1 or 0.0)
        return found

    def card(self, which: str, scores: dict[str, float]) -> str:
        count = len(np.unique(self.train["sentence"]))
        about = f"""
{MADE_OF[self.family]} with one linear layer on the state of each word's first piece, trained on
{count:,} sentences as {TRAINED_AS[self.family]}; these are its weights {which}.
Its labels are
{", ".join(self.names)}.
{OPENED_BY[self.family]} open this directory.
"""
        meaning = """
Accuracy is in percent of the words; F1, where there is one, is of entities as the CoNLL shared tasks counted them, in
percent; loss is the negative log-likelihood of a label.
"""
        tag, title = "token-classification", "A tagger"
        return model_card(self.recipe, scores, pipeline_tag=tag, title=title, about=about, meaning=meaning)


TASK = Tagging
