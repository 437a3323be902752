"""Fine-tuning a language model to classify, as GPT-1 was (Radford et al. 2018, sections 3.2 and 3.3)."""

import math
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path

import torch
from torch import nn

from manyheads.core.configs import assigned, to_toml, updated
from manyheads.core.errors import ConfigError
from manyheads.core.log import say
from manyheads.interop.directory import load_model, save_model
from manyheads.models.classifier import Classifier
from manyheads.models.gpt import GPT, GPTConfig
from manyheads.models.llama import Llama, LlamaConfig
from manyheads.ops.device import pick_device
from manyheads.tasks.card import classifier_card
from manyheads.tasks.classify_data import ExampleData, Prepared, prepare, read_all
from manyheads.tasks.language_training import FAMILIES, blank_recipe, preset_recipe, refuse_other_family
from manyheads.tasks.runs import begin_run, read_recipe, refuse_other_task, resumed
from manyheads.text.language import LanguageTokenizer
from manyheads.train.checkpoint import Progress
from manyheads.train.config import TrainConfig
from manyheads.train.loop import Training
from manyheads.train.objectives import Loss, classification_loss, compared

LARGE = 512  # the width from which on a pre-trained model is fine-tuned as gently as published
MAY_DIFFER = ("dropout", "attention_dropout", "inner_dropout")


@dataclass(frozen=True, kw_only=True)
class FineTune:
    """What is learned again, and how long."""

    model: str | None = None
    """The run or model directory of the language model to begin with; unset: an untrained one."""
    auxiliary: float = 0.5
    """The weight of the language model's loss beside that of the labels."""
    epochs: int = 3
    """How often each example is seen; train.steps follows from it, unless set."""

    def __post_init__(self):
        if not 0 <= self.auxiliary < math.inf:
            raise ConfigError(f"fine_tune.auxiliary is {self.auxiliary}; it must be at least 0")
        if self.epochs < 1:
            raise ConfigError(f"fine_tune.epochs is {self.epochs}; it must be at least 1")


@dataclass(frozen=True, kw_only=True)
class ClassifyRecipe:
    """Everything that a run follows from."""

    task: str = "classify"
    """What is trained."""
    family: str = "gpt"
    """Which model: gpt or llama."""
    data: ExampleData = field(default_factory=ExampleData)
    fine_tune: FineTune = field(default_factory=FineTune)
    model: GPTConfig | LlamaConfig = field(default_factory=GPTConfig)
    train: TrainConfig = field(default_factory=TrainConfig)

    def __post_init__(self):
        refuse_other_task(self.task, "classify")
        refuse_other_family(self.family, self.model)


def build_recipe(
    *, preset: str | None = None, file: Path | None = None, data: dict | None = None, assignments: tuple[str, ...] = ()
) -> ClassifyRecipe:
    """The recipe of a pre-trained model or a preset, changed by a TOML file, then by flags, then by assignments.

    `data` holds the flags: fields of the recipe's section data, and `model`. How many steps three epochs are is read
    from the examples.
    """
    table = read_recipe(file, "classify")
    named_in_file = table.pop("preset", None)
    given = {name: value for name, value in (data or {}).items() if value}
    model = given.pop("model", None)

    def changed(recipe: ClassifyRecipe) -> ClassifyRecipe:
        recipe = updated(updated(recipe, table), {"data": given, "fine_tune": {"model": str(model)} if model else {}})
        return assigned(recipe, assignments)

    # The pre-trained model may be named in any of the three places, and its sizes come before all of them.
    begun = assigned(updated(FineTune(), table.get("fine_tune", {})), _of_section("fine_tune", assignments))
    pre_trained = str(model) if model else begun.model
    if pre_trained and preset:
        raise ConfigError(f"{pre_trained} has sizes of its own; leave the preset {preset} or the model away")
    if pre_trained:
        body, _ = load_model(Path(pre_trained), kinds=(GPT, Llama))
        recipe = ClassifyRecipe(family=_family_of(body), model=body.config)
    elif "family" in table and not (preset or named_in_file):
        recipe = blank_recipe(ClassifyRecipe, table)
    else:
        usual = preset_recipe(preset or str(named_in_file or "gpt2_tiny"))
        vocabulary = ExampleData(vocabulary=usual.data.vocabulary)
        recipe = ClassifyRecipe(family=usual.family, data=vocabulary, model=usual.model)
    resolved = changed(recipe)
    if pre_trained:
        _refuse_other_sizes(recipe, resolved, pre_trained)
    # Again, since what is usual for training follows from all that has been said.
    return changed(replace(recipe, train=usual_training(resolved, len(read_all(resolved.data, quiet=True).train))))


def usual_training(recipe: ClassifyRecipe, examples: int) -> TrainConfig:
    """Three epochs with a warm-up over the first tenth, validated three times an epoch; small models learn faster."""
    batches = math.ceil(examples / recipe.data.examples / recipe.train.accumulate)
    asked = recipe.train.steps if recipe.train.steps != TrainConfig().steps else None
    steps, third = asked or recipe.fine_tune.epochs * batches, math.ceil(batches / 3)
    gentle = recipe.fine_tune.model is not None and recipe.model.width >= LARGE
    return TrainConfig(
        steps=steps,
        optimizer="adamw",
        weight_decay=0.01,
        beta2=0.999,
        learning_rate=6.25e-5 if gentle else 5e-4,
        schedule="cosine",
        warmup=max(steps // 10, 1),
        smoothing=0.0,
        valid_every=third,
        checkpoint_every=max(third, 100),
        keep=2,
        best_by="accuracy",
    )


def resumed_recipe(run: Path, assignments: tuple[str, ...]) -> ClassifyRecipe:
    """The recipe of a run that goes on."""
    return resumed(blank_recipe(ClassifyRecipe, read_recipe(run / "recipe.toml", "classify")), run, assignments)


def _of_section(section: str, assignments: tuple[str, ...]) -> tuple[str, ...]:
    named = [each.partition("=")[0].strip().startswith(f"{section}.") for each in assignments]
    return tuple(each.strip().removeprefix(f"{section}.") for each, own in zip(assignments, named) if own)


def _family_of(body: nn.Module) -> str:
    return next(name for name, (kind, _) in FAMILIES.items() if isinstance(body, kind))


def _refuse_other_sizes(found: ClassifyRecipe, asked: ClassifyRecipe, path: str) -> None:
    before, after = ({"family": each.family, **asdict(each.model)} for each in (found, asked))
    changed = [name for name in before if before[name] != after[name] and name not in MAY_DIFFER]
    if changed:
        raise ConfigError(f"model.{changed[0]} of {path} is {before[changed[0]]} and cannot change; leave it away")


class ClassifyJob:
    """What classification brings to the training loop."""

    def __init__(self, recipe: ClassifyRecipe, data: Prepared, run: Path):
        self.recipe, self.data, self.run = recipe, data, run
        self.valid = data.batches(recipe.data, seed=0, shuffle=False)

    def loss(self, model: nn.Module, batch) -> Loss:
        return classification_loss(model, batch, auxiliary=self.recipe.fine_tune.auxiliary)

    def validate(self, model: nn.Module) -> dict[str, float]:
        """Negative log-likelihood of a label, and how many of a hundred are right."""
        device = next(model.parameters()).device
        loss, right = torch.zeros((), device=device), torch.zeros((), device=device)
        for batch in self.valid.epoch(0):
            batch = batch.to(device)
            scores = compared(model(batch.ids, batch.lengths), batch.candidates).float()
            loss += nn.functional.cross_entropy(scores, batch.labels, reduction="sum")
            right += (scores.argmax(dim=1) == batch.labels).sum()
        count = len(self.data.valid)
        return {"loss": float(loss) / count, "accuracy": 100 * float(right) / count}

    def keep(self, model: nn.Module, which: str, scores: dict[str, float]) -> None:
        data = self.data
        card = classifier_card(to_toml(self.recipe), len(data.train), data.form, data.names, which, scores)
        save_model(self.run / "model", model, data.tokenizer, card)  # type: ignore


def train_classifier(recipe: ClassifyRecipe, run: Path, *, resume: bool = False, overwrite: bool = False) -> Progress:
    """Trains into a run directory, from the start or from where it was stopped."""
    _refuse_the_impossible(recipe)
    # A run that goes on has all weights in its checkpoints, but before the first of them it begins again.
    begun = resume and any((run / "checkpoints").glob("step-*"))
    body = tokenizer = None
    if recipe.fine_tune.model and not begun:
        body, tokenizer = load_model(Path(recipe.fine_tune.model), kinds=(GPT, Llama))
    prepared = partial(prepare, recipe.data, recipe.model.context, tokenizer)
    data = begin_run(run, recipe, prepared, resume=resume, overwrite=overwrite)
    torch.manual_seed(recipe.train.seed)
    model = Classifier(_body(recipe, body, data.tokenizer), data.names, data.form)
    count = sum(parameter.numel() for parameter in model.parameters())
    say(f"{count:,} parameters, training on {pick_device(recipe.train.device)} into {run}")
    batches = data.batches(recipe.data, seed=recipe.train.seed, shuffle=True)
    return Training(run, recipe.train, model, recipe.model.width, batches, ClassifyJob(recipe, data, run)).fit()


def _body(recipe: ClassifyRecipe, pre_trained: GPT | Llama | None, tokenizer: LanguageTokenizer) -> nn.Module:
    """The language model under the classifier, with a row for every token."""
    end = tokenizer.end if recipe.model.end is None else recipe.model.end
    config = replace(recipe.model, vocabulary=max(recipe.model.vocabulary, len(tokenizer)), end=end)
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


def _refuse_the_impossible(recipe: ClassifyRecipe) -> None:
    """Asks for the device and builds the model without memory, before anything is written."""
    pick_device(recipe.train.device)
    if recipe.train.smoothing:
        raise ConfigError(f"train.smoothing is {recipe.train.smoothing}, but labels are not smoothed; set it to 0")
    if recipe.train.best_by == "bleu":
        raise ConfigError("train.best_by is bleu, which is for translators; use accuracy or loss")
    if not recipe.fine_tune.model and (recipe.model.vocabulary or recipe.model.end is not None):
        raise ConfigError("model.vocabulary and model.end follow from the tokenizer; leave them away")
    with torch.device("meta"):
        FAMILIES[recipe.family][0](replace(recipe.model, vocabulary=3))  # type: ignore
