"""Training an embedder as Sentence-BERT was (Reimers and Gurevych 2019), from pairs with or without scores."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from manyheads.core.configs import to_toml
from manyheads.core.errors import ConfigError
from manyheads.data.similarity_batches import is_scored
from manyheads.interop.directory import save_model
from manyheads.interop.encoders import load_embedder
from manyheads.models.bert import Bert, BertConfig, BertEmbedder
from manyheads.tasks.card import embedder_card
from manyheads.tasks.fine_tuning import FineTune, encoder_sizes, fine_tuning_recipe, fit_encoder, usual_training
from manyheads.tasks.runs import refuse_best_by, refuse_other_task, resumed
from manyheads.tasks.scores import number_scores
from manyheads.tasks.similarity_data import Prepared, SimilarityData, prepare, read_all
from manyheads.text.encoder import EncoderTokenizer
from manyheads.train.checkpoint import Progress
from manyheads.train.config import TrainConfig
from manyheads.train.objectives import Loss, label_loss, likeness, similarity_loss

WITH_SCORES, WITHOUT_SCORES = ("spearman", "pearson", "loss"), ("accuracy", "loss")


@dataclass(frozen=True, kw_only=True)
class SimilarityRecipe:
    """Everything that a run follows from."""

    task: str = "similarity"
    """What is trained."""
    data: SimilarityData = field(default_factory=SimilarityData)
    fine_tune: FineTune = field(default_factory=FineTune)
    model: BertConfig = field(default_factory=BertConfig)
    train: TrainConfig = field(default_factory=TrainConfig)

    def __post_init__(self):
        refuse_other_task(self.task, "similarity")
        if self.fine_tune.freeze:
            raise ConfigError("fine_tune.freeze leaves nothing to learn: an embedder is all encoder; leave it away")


def build_recipe(
    *, preset: str | None = None, file: Path | None = None, data: dict | None = None, assignments: tuple[str, ...] = ()
) -> SimilarityRecipe:
    """The recipe of a pre-trained model or a preset; how many steps three epochs are is read from the pairs."""

    known = WITHOUT_SCORES

    def usual(recipe: SimilarityRecipe) -> TrainConfig:
        nonlocal known
        found = read_all(recipe.data, quiet=True)
        known = WITHOUT_SCORES if found.valid.scores is None else WITH_SCORES
        return usual_training(recipe, len(found.train), best_by=known[0])

    settings = {"preset": preset, "file": file, "data": data, "assignments": assignments}
    recipe = fine_tuning_recipe(SimilarityRecipe(), _begin, usual, **settings)
    refuse_best_by(recipe.train.best_by, known)
    return recipe


def _begin(pre_trained: str | None, preset: str | None, table: dict[str, Any]) -> SimilarityRecipe:
    """A recipe with the sizes of a model and what it makes of a text, before anything in it is changed."""
    if pre_trained is None:
        return SimilarityRecipe(model=encoder_sizes(None, preset))
    model, _ = load_embedder(Path(pre_trained))
    longest = model.longest if model.longest < model.config.context else None
    data = SimilarityData(pooling=model.pooling, normalised=model.normalised, longest=longest)
    # What ends a text follows from the tokenizer.
    return SimilarityRecipe(data=data, model=replace(model.config, separator=None))


def resumed_recipe(run: Path, assignments: tuple[str, ...]) -> SimilarityRecipe:
    """The recipe of a run that goes on."""
    return resumed(SimilarityRecipe(), run, assignments)


class SimilarityJob:
    """What similarity brings to the training loop."""

    def __init__(self, recipe: SimilarityRecipe, data: Prepared, run: Path):
        self.recipe, self.data, self.run = recipe, data, run
        self.valid = data.batches(recipe.data, seed=0, shuffle=False)

    def loss(self, model: nn.Module, batch) -> Loss:
        return similarity_loss(model, batch)

    def validate(self, model: nn.Module) -> dict[str, float]:
        """How cosines follow scores, or how many of a hundred first texts have their own second text nearest."""
        device = next(model.parameters()).device
        loss, found, labels = torch.zeros((), device=device), [], []
        for batch in self.valid.epoch(0):
            batch = batch.to(device)
            scores = likeness(model(batch.ids, batch.lengths), batch.candidates)
            loss += label_loss(scores, batch.labels)
            found.append(scores[:, 0] if self.data.scored else scores.argmax(dim=1))
            labels.append(batch.labels)
        predicted, truth, count = torch.cat(found), torch.cat(labels), len(self.data.valid)
        mean = float(loss) / count
        if not self.data.scored:
            return {"loss": mean, "accuracy": 100 * float((predicted == truth).sum()) / count}
        scored = number_scores(predicted.cpu().numpy(), truth.cpu().numpy())
        return {"loss": mean, "spearman": 100 * scored.spearman, "pearson": 100 * scored.pearson}

    def keep(self, model: nn.Module, which: str, scores: dict[str, float]) -> None:
        recipe, train = self.recipe, self.data.train
        card = embedder_card(to_toml(recipe), len(train), is_scored(train), recipe.data.pooling, which, scores)
        save_model(self.run / "model", model, self.data.tokenizer, card)


def train_embedder(recipe: SimilarityRecipe, run: Path, *, resume: bool = False, overwrite: bool = False) -> Progress:
    """Trains into a run directory, from the start or from where it was stopped."""

    def prepared(data: SimilarityData, context: int, tokenizer: EncoderTokenizer | None, directory: Path) -> Prepared:
        found = prepare(data, context, tokenizer, directory)
        refuse_best_by(recipe.train.best_by, WITH_SCORES if found.scored else WITHOUT_SCORES)
        if found.scored:
            number_scores([0.0], [0.0])  # what it needs may not be installed, which is better known now
        return found

    def build(body: Bert, data: Prepared) -> BertEmbedder:
        return BertEmbedder(body, recipe.data.pooling, recipe.data.normalised, recipe.data.longest)

    scores = tuple(dict.fromkeys(WITH_SCORES + WITHOUT_SCORES))
    return fit_encoder(recipe, run, prepared, build, SimilarityJob, scores=scores, resume=resume, overwrite=overwrite)
