"""Training a language model: its recipe, its presets, its objective and its metric."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from manyheads.core.configs import assigned, to_toml, updated
from manyheads.core.errors import ConfigError
from manyheads.core.log import say
from manyheads.interop.directory import save_model
from manyheads.models import gpt, llama
from manyheads.models.gpt import GPT, GPTConfig
from manyheads.models.llama import Llama, LlamaConfig
from manyheads.ops.device import pick_device
from manyheads.tasks.card import language_card
from manyheads.tasks.language_data import Prepared, TextData, check_files, prepare
from manyheads.tasks.runs import Recipe, begin_run, read_recipe, refuse_best_by, refuse_other_task, resumed
from manyheads.train.checkpoint import Progress
from manyheads.train.config import TrainConfig
from manyheads.train.loop import Training
from manyheads.train.objectives import Loss, language_loss

PRESETS = {**gpt.PRESETS, **llama.PRESETS}
FAMILIES = {"gpt": (GPT, GPTConfig), "llama": (Llama, LlamaConfig)}
VOCABULARIES = {"gpt1": 40_478, "llama2_7b": 32_000, "llama3_8b": 128_256, "llama_small": 49_152}
LAPTOP = ("gpt2_tiny", "gpt2_baby", "llama_tiny", "llama_baby", "transformer_decoder")


@dataclass(frozen=True, kw_only=True)
class LanguageRecipe:
    """Everything that a run follows from."""

    task: str = "language"
    """What is trained."""
    family: str = "gpt"
    """Which model: gpt or llama."""
    data: TextData = field(default_factory=TextData)
    model: GPTConfig | LlamaConfig = field(default_factory=GPTConfig)
    train: TrainConfig = field(default_factory=TrainConfig)

    def __post_init__(self):
        refuse_other_task(self.task, "language")
        refuse_other_family(self.family, self.model)


def _adamw(**changes: Any) -> TrainConfig:
    """How GPTs are trained: AdamW, a cosine, no label smoothing; the kept model is the one with the least loss."""
    usual = {"optimizer": "adamw", "weight_decay": 0.1, "schedule": "cosine", "smoothing": 0.0, "best_by": "loss"}
    return TrainConfig(**{**usual, **changes})


def sample_recipe() -> LanguageRecipe:
    """The sample text, learned within a minute on two cores."""
    train = _adamw(steps=600, warmup=50, learning_rate=3e-3, beta2=0.99, valid_every=200, checkpoint_every=200)
    model = replace(gpt.gpt2_tiny(), context=64)
    return LanguageRecipe(data=TextData(vocabulary=1000, rows=16), model=model, train=train)


def preset_recipe(name: str) -> LanguageRecipe:
    """A published size with training to match: a GPU's batches for the large ones, a laptop's for the small ones."""
    if name not in PRESETS:
        raise ConfigError(f"there is no preset {name}; there are {', '.join(PRESETS)}")
    family = "llama" if name in llama.PRESETS else "gpt"
    if name in LAPTOP:
        data = TextData(vocabulary=8000 if name == "transformer_decoder" else 4096)
        train = _adamw(steps=5000, warmup=100, learning_rate=1e-3, beta2=0.99, valid_every=250, checkpoint_every=250)
    else:
        # GPT-2 and GPT-3 saw half a million tokens an update, which train.accumulate can make of these batches.
        data = TextData(vocabulary=VOCABULARIES.get(name, 50_257), rows=8)
        train = _adamw(steps=100_000, warmup=2000, learning_rate=6e-4, beta2=0.95, patience=10, compile=True)
    return LanguageRecipe(family=family, data=data, model=PRESETS[name](), train=train)


def build_recipe(
    *, preset: str | None = None, file: Path | None = None, data: dict | None = None, assignments: tuple[str, ...] = ()
) -> LanguageRecipe:
    """The recipe of a preset, changed by a TOML file, then by files given, then by assignments."""
    table = read_recipe(file, "language")
    named_in_file = table.pop("preset", None)
    given = {name: value for name, value in (data or {}).items() if value}
    if preset or named_in_file:
        recipe = preset_recipe(preset or str(named_in_file))
    elif "family" in table:
        recipe = blank_recipe(LanguageRecipe, table)
    elif table or {"text", "pairs"} & set(given):
        recipe = preset_recipe("gpt2_tiny")
    else:
        recipe = sample_recipe()
    recipe = updated(recipe, table)
    recipe = updated(recipe, {"data": given})
    return assigned(recipe, assignments)


def refuse_other_family(family: str, model: object = None) -> None:
    """A family must be known, and the sizes given must be its own."""
    if family not in FAMILIES:
        raise ConfigError(f"family is '{family}'; it can be {' or '.join(FAMILIES)}")
    if model is not None and not isinstance(model, FAMILIES[family][1]):
        raise ConfigError(f"family is {family}, but the sizes are another's; choose it by --preset instead")


def blank_recipe(kind: Callable[..., Recipe], table: dict) -> Recipe:
    """A recipe of this kind and of the family that a table names, all else as it is by default."""
    family = str(table.get("family", "gpt"))
    refuse_other_family(family)
    return kind(family=family, model=FAMILIES[family][1]())


def resumed_recipe(run: Path, assignments: tuple[str, ...]) -> LanguageRecipe:
    """The recipe of a run that goes on."""
    return resumed(blank_recipe(LanguageRecipe, read_recipe(run / "recipe.toml", "language")), run, assignments)


class LanguageJob:
    """What language modelling brings to the training loop."""

    def __init__(self, recipe: LanguageRecipe, data: Prepared, run: Path):
        self.recipe, self.data, self.run = recipe, data, run
        self.valid = data.batches(recipe.data, recipe.model.context, seed=0, shuffle=False)
        self.document_end = data.tokenizer.end if recipe.data.document_mask else None

    def loss(self, model: nn.Module, batch) -> Loss:
        return language_loss(model, batch, smoothing=self.recipe.train.smoothing, document_end=self.document_end)

    def validate(self, model: nn.Module) -> dict[str, float]:
        """Negative log-likelihood a token, each window for itself, and the perplexity that it is."""
        device = next(model.parameters()).device
        losses = [
            language_loss(model, batch.to(device), document_end=self.document_end) for batch in self.valid.epoch(0)
        ]
        loss = float(torch.stack([each.likelihood for each in losses]).double().sum())
        loss /= sum(each.tokens for each in losses)
        return {"loss": loss, "perplexity": math.exp(min(loss, 700.0))}

    def keep(self, model: nn.Module, which: str, scores: dict[str, float]) -> None:
        card = language_card(to_toml(self.recipe), which, scores)
        save_model(self.run / "model", model, self.data.tokenizer, card)  # type: ignore


def train_language_model(
    recipe: LanguageRecipe, run: Path, *, resume: bool = False, overwrite: bool = False
) -> Progress:
    """Trains into a run directory, from the start or from where it was stopped."""
    _refuse_the_impossible(recipe, new=not resume)
    context = recipe.model.context
    data = begin_run(run, recipe, partial(prepare, recipe.data, context), resume=resume, overwrite=overwrite)
    config = replace(recipe.model, vocabulary=len(data.tokenizer), end=data.tokenizer.end)
    torch.manual_seed(recipe.train.seed)
    model = FAMILIES[recipe.family][0](config)  # type: ignore
    count = sum(parameter.numel() for parameter in model.parameters())
    say(f"{count:,} parameters, training on {pick_device(recipe.train.device)} into {run}")
    batches = data.batches(recipe.data, context, seed=recipe.train.seed, shuffle=True)
    return Training(run, recipe.train, model, config.width, batches, LanguageJob(recipe, data, run)).fit()


def _refuse_the_impossible(recipe: LanguageRecipe, *, new: bool) -> None:
    """Asks for the device, builds the model without memory and looks for the files, before any is written."""
    pick_device(recipe.train.device)
    if new:
        check_files(recipe.data)
    refuse_best_by(recipe.train.best_by, ("loss",))
    if recipe.model.vocabulary or recipe.model.end is not None:
        raise ConfigError("model.vocabulary and model.end follow from the tokenizer; leave them away")
    with torch.device("meta"):
        FAMILIES[recipe.family][0](replace(recipe.model, vocabulary=3))  # type: ignore
