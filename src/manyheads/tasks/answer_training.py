"""Fine-tuning to answer questions, as BERT was on SQuAD (Devlin et al. 2019, sections 4.2 and 4.3)."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from manyheads.core.configs import to_toml
from manyheads.interop.directory import find_model, save_model
from manyheads.models.bert import Bert, BertAnswerer, BertConfig
from manyheads.tasks.answer import ranked, window_scores
from manyheads.tasks.answer_data import AnswerData, Prepared, count_windows, prepare, read_all
from manyheads.tasks.answer_scores import answer_scores
from manyheads.tasks.card import answer_card
from manyheads.tasks.fine_tuning import (
    FineTune,
    encoder_sizes,
    fine_tuning_recipe,
    fit_encoder,
    steps_asked,
    usual_training,
)
from manyheads.tasks.runs import read_recipe, refuse_other_task, resumed
from manyheads.text.encoder import EncoderTokenizer
from manyheads.train.checkpoint import Progress
from manyheads.train.config import TrainConfig
from manyheads.train.objectives import Loss, answer_loss, span_loss


@dataclass(frozen=True, kw_only=True)
class AnswerRecipe:
    """Everything that a run follows from."""

    task: str = "answer"
    """What is trained."""
    data: AnswerData = field(default_factory=AnswerData)
    fine_tune: FineTune = field(default_factory=FineTune)
    model: BertConfig = field(default_factory=BertConfig)
    train: TrainConfig = field(default_factory=TrainConfig)

    def __post_init__(self):
        refuse_other_task(self.task, "answer")


def build_recipe(
    *, preset: str | None = None, file: Path | None = None, data: dict | None = None, assignments: tuple[str, ...] = ()
) -> AnswerRecipe:
    """The recipe of a pre-trained encoder or a preset; how many steps three epochs are is read from the questions.

    An untrained model sees no more tokens at once than a window has, unless asked to: no position behind them would
    ever be learned.
    """

    def usual(recipe: AnswerRecipe) -> TrainConfig:
        own = recipe.fine_tune.model
        if steps_asked(recipe):  # so that windows need no counting; there is one or more for each question
            return usual_training(recipe, len(read_all(recipe.data, quiet=True).train), best_by="f1")
        tokenizer = EncoderTokenizer.load(find_model(Path(own))) if own else None
        return usual_training(recipe, count_windows(recipe.data, recipe.model.context, tokenizer), best_by="f1")

    settings: dict[str, Any] = {"preset": preset, "file": file, "data": data, "assignments": assignments}
    recipe = fine_tuning_recipe(AnswerRecipe(), _begin, usual, **settings)
    if recipe.fine_tune.model or _asks_for_context(file, assignments):
        return recipe
    return replace(recipe, model=replace(recipe.model, context=min(recipe.model.context, recipe.data.longest)))


def _asks_for_context(file: Path | None, assignments: tuple[str, ...]) -> bool:
    assigned = any(each.partition("=")[0].strip() == "model.context" for each in assignments)
    return assigned or "context" in read_recipe(file, "answer").get("model", {})


def _begin(pre_trained: str | None, preset: str | None, table: dict[str, Any]) -> AnswerRecipe:
    return AnswerRecipe(model=encoder_sizes(pre_trained, preset))


def resumed_recipe(run: Path, assignments: tuple[str, ...]) -> AnswerRecipe:
    """The recipe of a run that goes on."""
    return resumed(AnswerRecipe(), run, assignments)


class AnswerJob:
    """What answering brings to the training loop."""

    def __init__(self, recipe: AnswerRecipe, data: Prepared, run: Path):
        self.recipe, self.data, self.run = recipe, data, run

    def loss(self, model: nn.Module, batch) -> Loss:
        return answer_loss(model, batch)

    def validate(self, model: nn.Module) -> dict[str, float]:
        """The loss of a window, and in percent how many answers are right and how many of their words."""
        data, loss, found = self.data, 0.0, []
        windows = [window for read in data.read for window in read.windows]
        scores = iter(window_scores(model, windows))
        for question, read in zip(data.valid, data.read):
            own = [next(scores) for _ in read.windows]
            for each, target in zip(own, read.targets(question.answers)):
                starts, ends = torch.tensor([target]).unbind(dim=1)
                loss += float(span_loss(each[None], torch.tensor([len(each)]), starts, ends))
            found.append(ranked(read, own, question.context, data.impossible)[0].text)
        golds = [[answer.text for answer in question.answers] for question in data.valid]
        right = answer_scores(found, golds)
        return {"loss": loss / len(windows), "exact": right.exact, "f1": right.f1}

    def keep(self, model: nn.Module, which: str, scores: dict[str, float]) -> None:
        card = answer_card(to_toml(self.recipe), len(self.data.train), self.data.impossible, which, scores)
        save_model(self.run / "model", model, self.data.tokenizer, card)


def train_answerer(recipe: AnswerRecipe, run: Path, *, resume: bool = False, overwrite: bool = False) -> Progress:
    """Trains into a run directory, from the start or from where it was stopped."""
    settings: dict[str, Any] = {"scores": ("f1", "loss"), "resume": resume, "overwrite": overwrite}
    return fit_encoder(recipe, run, prepare, _build, AnswerJob, **settings)


def _build(body: Bert, data: Prepared) -> BertAnswerer:
    return BertAnswerer(body, data.impossible, data.longest)
