"""Fine-tuning to classify: decoders as GPT-1 (Radford et al. 2018, sections 3.2 and 3.3), encoders as BERT."""

import math
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from manyheads.core.configs import to_toml
from manyheads.core.errors import ConfigError
from manyheads.interop.directory import load_model, save_model
from manyheads.interop.encoders import ENCODERS
from manyheads.models import bert
from manyheads.models.bert import Bert, BertClassifier, BertConfig
from manyheads.models.classifier import DecoderClassifier
from manyheads.models.gpt import GPT, GPTConfig
from manyheads.models.llama import Llama, LlamaConfig
from manyheads.tasks import language_training
from manyheads.tasks.card import classifier_card
from manyheads.tasks.classify_data import ExampleData, Prepared, prepare, read_all
from manyheads.tasks.fine_tuning import (
    FineTune,
    encoder_body,
    encoder_rate,
    fine_tune,
    fine_tuning_recipe,
    usual_training,
)
from manyheads.tasks.runs import read_recipe, refuse_other_task, resumed
from manyheads.text.encoder import EncoderTokenizer
from manyheads.text.language import LanguageTokenizer
from manyheads.train.checkpoint import Progress
from manyheads.train.config import TrainConfig
from manyheads.train.objectives import Loss, classification_loss, compared, label_loss

LARGE = 512  # the width from which on a pre-trained decoder is fine-tuned as gently as published
FAMILIES = {**language_training.FAMILIES, "bert": (Bert, BertConfig)}
SMALLEST = "bert_tiny"


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
class ClassifyRecipe:
    """Everything that a run follows from."""

    task: str = "classify"
    """What is trained."""
    family: str = "bert"
    """Which model: bert, gpt or llama."""
    data: ExampleData = field(default_factory=ExampleData)
    fine_tune: ClassifyFineTune = field(default_factory=ClassifyFineTune)
    model: BertConfig | GPTConfig | LlamaConfig = field(default_factory=BertConfig)
    train: TrainConfig = field(default_factory=TrainConfig)

    def __post_init__(self):
        refuse_other_task(self.task, "classify")
        if self.family not in FAMILIES:
            raise ConfigError(f"family is '{self.family}'; it can be {' or '.join(FAMILIES)}")
        if not isinstance(self.model, FAMILIES[self.family][1]):
            raise ConfigError(f"family is {self.family}, but the sizes are another's; choose it by --preset instead")


def build_recipe(
    *, preset: str | None = None, file: Path | None = None, data: dict | None = None, assignments: tuple[str, ...] = ()
) -> ClassifyRecipe:
    """The recipe of a pre-trained model or a preset; how many steps three epochs are is read from the examples."""

    def usual(recipe: ClassifyRecipe) -> TrainConfig:
        examples = len(read_all(recipe.data, quiet=True).train)
        best_by = "pearson" if recipe.data.regression else "accuracy"
        return usual_training(recipe, examples, best_by=best_by, rate=_rate(recipe))

    settings = {"preset": preset, "file": file, "data": data, "assignments": assignments}
    return fine_tuning_recipe(ClassifyRecipe(), _begin, usual, **settings)


def _begin(pre_trained: str | None, preset: str | None, table: dict[str, Any]) -> ClassifyRecipe:
    """A recipe with the sizes of a model, before anything in it is changed."""
    if pre_trained:
        body = _load(Path(pre_trained))[0]
        if isinstance(body, Bert):
            return _encoder(replace(body.config, separator=None))
        family = next(name for name, (kind, _) in FAMILIES.items() if isinstance(body, kind))
        return ClassifyRecipe(family=family, model=body.config)
    if "family" in table and not preset:
        return _blank(table)
    name = preset or SMALLEST
    if name in bert.PRESETS:
        return _encoder(bert.PRESETS[name]())
    if name not in language_training.PRESETS:
        known = ", ".join((*bert.PRESETS, *language_training.PRESETS))
        raise ConfigError(f"there is no preset {name}; there are {known}")
    usual = language_training.preset_recipe(name)
    return ClassifyRecipe(family=usual.family, data=ExampleData(vocabulary=usual.data.vocabulary), model=usual.model)


def _encoder(config: BertConfig) -> ClassifyRecipe:
    return ClassifyRecipe(fine_tune=ClassifyFineTune(auxiliary=0.0), model=config)


def _blank(table: dict[str, Any]) -> ClassifyRecipe:
    family = str(table.get("family", "bert"))
    if family == "bert":
        return _encoder(BertConfig())
    return language_training.blank_recipe(ClassifyRecipe, table)


def _load(path: Path) -> tuple[Bert | GPT | Llama, EncoderTokenizer | LanguageTokenizer]:
    """A pre-trained model, without what stands on top of it, and its tokenizer."""
    model, tokenizer = load_model(path, kinds=(GPT, Llama, *ENCODERS))
    return (getattr(model, "body", model) if isinstance(tokenizer, EncoderTokenizer) else model), tokenizer


def _rate(recipe: ClassifyRecipe) -> float:
    if recipe.family == "bert" or recipe.fine_tune.freeze:
        return encoder_rate(recipe)
    return 6.25e-5 if recipe.fine_tune.model is not None and recipe.model.width >= LARGE else 5e-4


def resumed_recipe(run: Path, assignments: tuple[str, ...]) -> ClassifyRecipe:
    """The recipe of a run that goes on."""
    return resumed(_blank(read_recipe(run / "recipe.toml", "classify")), run, assignments)


class ClassifyJob:
    """What classification brings to the training loop."""

    def __init__(self, recipe: ClassifyRecipe, data: Prepared, run: Path):
        self.recipe, self.data, self.run = recipe, data, run
        self.valid = data.batches(recipe.data, seed=0, shuffle=False)
        # A frozen language model has nothing to learn from its own loss.
        self.auxiliary = 0.0 if recipe.fine_tune.freeze else recipe.fine_tune.auxiliary

    def loss(self, model: nn.Module, batch) -> Loss:
        return classification_loss(model, batch, auxiliary=self.auxiliary)

    def validate(self, model: nn.Module) -> dict[str, float]:
        """Negative log-likelihood of a label and how many of a hundred are right; of numbers their correlation."""
        device = next(model.parameters()).device
        loss, found, labels = torch.zeros((), device=device), [], []
        for batch in self.valid.epoch(0):
            batch = batch.to(device)
            scores = compared(model(batch.ids, batch.lengths), batch.candidates).float()
            loss += label_loss(scores, batch.labels)
            found.append(scores[:, 0] if self.recipe.data.regression else scores.argmax(dim=1))
            labels.append(batch.labels)
        predicted, truth, count = torch.cat(found), torch.cat(labels), len(self.data.valid)
        if self.recipe.data.regression:
            pearson = torch.corrcoef(torch.stack([predicted, truth]).double())[0, 1].nan_to_num(0.0)
            return {"loss": float(loss) / count, "pearson": 100 * float(pearson)}
        return {"loss": float(loss) / count, "accuracy": 100 * float((predicted == truth).sum()) / count}

    def keep(self, model: nn.Module, which: str, scores: dict[str, float]) -> None:
        data = self.data
        about = (to_toml(self.recipe), len(data.train), data.form, data.names, which, scores)
        card = classifier_card(*about, encoder=self.recipe.family == "bert")
        save_model(self.run / "model", model, data.tokenizer, card)  # type: ignore


def train_classifier(recipe: ClassifyRecipe, run: Path, *, resume: bool = False, overwrite: bool = False) -> Progress:
    """Trains into a run directory, from the start or from where it was stopped."""
    encoder = recipe.family == "bert"
    scores = ("pearson", "loss") if recipe.data.regression else ("accuracy", "loss")
    if encoder and recipe.fine_tune.auxiliary:
        raise ConfigError("fine_tune.auxiliary is for gpt and llama; an encoder has no language model's loss")
    kind = EncoderTokenizer if encoder else LanguageTokenizer

    def build(body: Any, data: Prepared) -> nn.Module:
        if encoder:
            whole = encoder_body(recipe.model, body, data.tokenizer, pooler=True)  # type: ignore
            return BertClassifier(whole, data.names, data.form)
        return DecoderClassifier(_decoder(recipe, body, data.tokenizer), data.names, data.form)  # type: ignore

    settings = {"scores": scores, "load": _load, "kind": FAMILIES[recipe.family][0]}
    return fine_tune(
        recipe, run, partial(prepare, kind), build, ClassifyJob, **settings, resume=resume, overwrite=overwrite
    )


def _decoder(recipe: ClassifyRecipe, pre_trained: GPT | Llama | None, tokenizer: LanguageTokenizer) -> nn.Module:
    """The language model under the classifier, with a row for every token."""
    config: GPTConfig | LlamaConfig = recipe.model  # type: ignore
    end = tokenizer.end if config.end is None else config.end
    config = replace(config, vocabulary=max(config.vocabulary, len(tokenizer)), end=end)
    return FAMILIES[recipe.family][0](config) if pre_trained is None else grown(pre_trained, config)  # type: ignore


@torch.no_grad()
def grown(model: GPT | Llama, config: GPTConfig | LlamaConfig) -> GPT | Llama:
    """The same model by a config with more tokens, or another dropout; new rows are as those of an untrained model."""
    if config == model.config:
        return model
    larger, weights = type(model)(config), model.state_dict()  # type: ignore
    for name, tensor in larger.state_dict().items():
        tensor[: len(weights[name])].copy_(weights[name])
    return larger
