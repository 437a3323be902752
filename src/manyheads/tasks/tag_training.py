"""Fine-tuning to label words, as BERT was to find names (Devlin et al. 2019, section 5.3)."""

from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from manyheads.core.configs import to_toml
from manyheads.core.errors import ConfigError
from manyheads.data.examples import NOTHING, by_sentence
from manyheads.interop.directory import save_model
from manyheads.models.bert import Bert, BertConfig, BertTagger
from manyheads.tasks.card import tag_card
from manyheads.tasks.fine_tuning import FineTune, encoder_sizes, fine_tuning_recipe, fit_encoder, usual_training
from manyheads.tasks.runs import refuse_other_task, resumed
from manyheads.tasks.scores import entity_scores
from manyheads.tasks.tag_data import Prepared, TagData, least_windows, prepare, read_all
from manyheads.text.encoder import EncoderTokenizer
from manyheads.train.checkpoint import Progress
from manyheads.train.config import TrainConfig
from manyheads.train.objectives import Loss, tag_loss, tagging_loss


@dataclass(frozen=True, kw_only=True)
class TagRecipe:
    """Everything that a run follows from."""

    task: str = "tag"
    """What is trained."""
    data: TagData = field(default_factory=TagData)
    fine_tune: FineTune = field(default_factory=FineTune)
    model: BertConfig = field(default_factory=BertConfig)
    train: TrainConfig = field(default_factory=TrainConfig)

    def __post_init__(self):
        refuse_other_task(self.task, "tag")


def build_recipe(
    *, preset: str | None = None, file: Path | None = None, data: dict | None = None, assignments: tuple[str, ...] = ()
) -> TagRecipe:
    """The recipe of a pre-trained encoder or a preset; how many steps three epochs are is read from the sentences."""

    def usual(recipe: TagRecipe) -> TrainConfig:
        found = read_all(recipe.data, quiet=True)
        windows = least_windows(found.train, recipe.model.context)
        return usual_training(recipe, windows, best_by="f1" if found.entities else "accuracy")

    settings: dict[str, Any] = {"preset": preset, "file": file, "data": data, "assignments": assignments}
    return fine_tuning_recipe(TagRecipe(), _begin, usual, **settings)


def _begin(pre_trained: str | None, preset: str | None, table: dict[str, Any]) -> TagRecipe:
    return TagRecipe(model=encoder_sizes(pre_trained, preset))


def resumed_recipe(run: Path, assignments: tuple[str, ...]) -> TagRecipe:
    """The recipe of a run that goes on."""
    return resumed(TagRecipe(), run, assignments)


class TagJob:
    """What tagging brings to the training loop."""

    def __init__(self, recipe: TagRecipe, data: Prepared, run: Path):
        self.recipe, self.data, self.run = recipe, data, run
        self.valid = data.batches(recipe.data, seed=0, shuffle=False)

    def loss(self, model: nn.Module, batch) -> Loss:
        return tagging_loss(model, batch)

    def validate(self, model: nn.Module) -> dict[str, float]:
        """Negative log-likelihood of a word's label, how many of a hundred words are right, and F1 of entities."""
        labels, device = self.data.valid["labels"], next(model.parameters()).device
        loss, predicted = torch.zeros((), device=device), np.full_like(labels.values, NOTHING)
        for numbers, batch in zip(self.valid.plan(0), self.valid.epoch(0)):
            batch = batch.to(device)
            scores = model(batch.ids, batch.lengths)
            loss += tag_loss(scores, batch.labels)
            for number, row in zip(numbers, scores.argmax(dim=-1).cpu().numpy()):
                place = labels.span(number)
                predicted[place] = row[: place.stop - place.start]
        asked = labels.values != NOTHING
        right = int((predicted == labels.values)[asked].sum())
        found = {"loss": float(loss) / int(asked.sum()), "accuracy": 100 * right / int(asked.sum())}
        return {**found, "f1": self._f1(predicted)} if self.data.entities else found

    def _f1(self, predicted: np.ndarray) -> float:
        names, store = self.data.names, self.data.valid
        spelt = [
            [[names[number] for number in sentence] for sentence in by_sentence(store, values)]
            for values in (predicted, store["labels"].values)
        ]
        f1 = entity_scores(*spelt).f1
        assert f1 is not None  # there are entities in truth
        return 100 * f1

    def keep(self, model: nn.Module, which: str, scores: dict[str, float]) -> None:
        data = self.data
        card = tag_card(to_toml(self.recipe), len(np.unique(data.train["sentence"])), data.names, which, scores)
        save_model(self.run / "model", model, data.tokenizer, card)


def train_tagger(recipe: TagRecipe, run: Path, *, resume: bool = False, overwrite: bool = False) -> Progress:
    """Trains into a run directory, from the start or from where it was stopped."""
    settings: dict[str, Any] = {"scores": ("f1", "accuracy", "loss"), "resume": resume, "overwrite": overwrite}
    return fit_encoder(recipe, run, partial(_checked, recipe.train.best_by), _build, TagJob, **settings)


def _checked(best_by: str, data: TagData, context: int, tokenizer: EncoderTokenizer | None, run: Path) -> Prepared:
    """The data, after whatever its validation would stumble over has been said."""
    prepared = prepare(data, context, tokenizer, run)
    if prepared.entities:
        entity_scores([["B-name"]], [["B-name"]])  # says what is not installed
    elif best_by == "f1":
        raise ConfigError(
            "train.best_by is f1, but no label in validation is of an entity (B-…, I-…); use accuracy or loss"
        )
    return prepared


def _build(body: Bert, data: Prepared) -> BertTagger:
    return BertTagger(body, data.names)
