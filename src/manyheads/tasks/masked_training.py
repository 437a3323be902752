"""Pre-training an encoder as BERT was: hidden words, and which text follows which."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from manyheads.core.configs import assigned, to_toml, updated
from manyheads.core.errors import ConfigError, DataError
from manyheads.core.log import say
from manyheads.interop.directory import save_model
from manyheads.models.bert import PRESETS, BertConfig, MaskedBert
from manyheads.ops.device import pick_device
from manyheads.tasks.card import masked_card
from manyheads.tasks.masked_data import MaskedData, Prepared, check_files, prepare
from manyheads.tasks.runs import begin_run, read_recipe, refuse_best_by, refuse_other_task, resumed
from manyheads.train.checkpoint import Progress
from manyheads.train.config import TrainConfig
from manyheads.train.loop import Training
from manyheads.train.objectives import Loss, masked_loss

LAPTOP = ("bert_tiny", "bert_mini")


@dataclass(frozen=True, kw_only=True)
class MaskedRecipe:
    """Everything that a run follows from."""

    task: str = "masked"
    """What is trained."""
    data: MaskedData = field(default_factory=MaskedData)
    model: BertConfig = field(default_factory=BertConfig)
    train: TrainConfig = field(default_factory=TrainConfig)

    def __post_init__(self):
        refuse_other_task(self.task, "masked")


def _adamw(**changes: Any) -> TrainConfig:
    """How BERTs are trained: AdamW, no label smoothing; the kept model is the one with the least loss."""
    usual = {"optimizer": "adamw", "weight_decay": 0.01, "schedule": "cosine", "smoothing": 0.0, "best_by": "loss"}
    return TrainConfig(**{**usual, **changes})


def sample_recipe() -> MaskedRecipe:
    """The sample text, learned within a minute or two on two cores; its sentences follow one another by chance."""
    train = _adamw(steps=600, warmup=60, learning_rate=2e-3, valid_every=200, checkpoint_every=200)
    model = replace(PRESETS["bert_tiny"](), context=64)
    return MaskedRecipe(data=MaskedData(vocabulary=1000, rows=32, next_sentence=False), model=model, train=train)


def preset_recipe(name: str) -> MaskedRecipe:
    """A published size with training to match; small ones see 128 tokens, as BERT did in nine tenths of its steps."""
    if name not in PRESETS:
        raise ConfigError(f"there is no preset {name}; there are {', '.join(PRESETS)}")
    if name in LAPTOP:
        train = _adamw(steps=10_000, warmup=500, learning_rate=1e-3, valid_every=500, checkpoint_every=500)
        return MaskedRecipe(data=MaskedData(), model=replace(PRESETS[name](), context=128), train=train)
    # BERT saw 256 rows an update, which train.accumulate can make of these batches.
    train = _adamw(steps=100_000, warmup=10_000, learning_rate=1e-4, beta2=0.999, patience=10)
    return MaskedRecipe(data=MaskedData(vocabulary=30_522, rows=32), model=PRESETS[name](), train=train)


def build_recipe(
    *, preset: str | None = None, file: Path | None = None, data: dict | None = None, assignments: tuple[str, ...] = ()
) -> MaskedRecipe:
    """The recipe of a preset, changed by a TOML file, then by files given, then by assignments."""
    table = read_recipe(file, "masked")
    named_in_file = table.pop("preset", None)
    given = {name: value for name, value in (data or {}).items() if value or value is False}
    if preset or named_in_file:
        recipe = preset_recipe(preset or str(named_in_file))
    elif table or given.get("text"):
        recipe = preset_recipe("bert_mini")
    else:
        recipe = sample_recipe()
    return assigned(updated(updated(recipe, table), {"data": given}), assignments)


def resumed_recipe(run: Path, assignments: tuple[str, ...]) -> MaskedRecipe:
    """The recipe of a run that goes on."""
    return resumed(MaskedRecipe(), run, assignments)


class MaskedJob:
    """What pre-training brings to the training loop."""

    def __init__(self, recipe: MaskedRecipe, data: Prepared, run: Path):
        self.recipe, self.data, self.run = recipe, data, run
        self.valid = data.batches(recipe.data, recipe.model.context, seed=0, shuffle=False)

    def loss(self, model: nn.Module, batch) -> Loss:
        return masked_loss(model, batch)

    def validate(self, model: nn.Module) -> dict[str, float]:
        return masked_scores(model, self.valid)

    def keep(self, model: nn.Module, which: str, scores: dict[str, float]) -> None:
        card = masked_card(to_toml(self.recipe), self.recipe.data.next_sentence, which, scores)
        save_model(self.run / "model", model, self.data.tokenizer, card)


def masked_scores(model: Any, batches: Any) -> dict[str, float]:
    """Of hidden words the negative log-likelihood and how many of a hundred are guessed; the same of what follows."""
    device = next(model.parameters()).device
    sums: dict[str, torch.Tensor] = {}
    words = rows = 0

    def add(name: str, value: torch.Tensor) -> None:
        sums[name] = sums.get(name, torch.zeros((), device=device)) + value

    for batch in batches.epoch(0):
        batch = batch.to(device)
        states = model.body(batch.ids, batch.lengths)
        logits = model.logits(states.flatten(0, 1).index_select(0, batch.places)).float()
        add("loss", nn.functional.cross_entropy(logits, batch.targets, reduction="sum"))
        add("accuracy", 100 * (logits.argmax(dim=1) == batch.targets).sum())
        words += len(batch.targets)
        if batch.follows is not None:
            follows, rows = model.following(states).float(), rows + len(batch.follows)
            add("next_loss", nn.functional.cross_entropy(follows, 1 - batch.follows, reduction="sum"))
            add("next_accuracy", 100 * (follows.argmax(dim=1) == 1 - batch.follows).sum())
    if not words:
        raise DataError(
            "every word of the text is unknown to the tokenizer, so that none can be hidden; give other text"
        )
    return {name: float(value) / (rows if name.startswith("next") else words) for name, value in sums.items()}


def train_masked(recipe: MaskedRecipe, run: Path, *, resume: bool = False, overwrite: bool = False) -> Progress:
    """Trains into a run directory, from the start or from where it was stopped."""
    _refuse_the_impossible(recipe, new=not resume)
    prepared: Callable[[Path], Prepared] = partial(prepare, recipe.data, recipe.model.context)
    data = begin_run(run, recipe, prepared, resume=resume, overwrite=overwrite)
    config = replace(recipe.model, vocabulary=len(data.tokenizer), separator=data.tokenizer.separator)
    torch.manual_seed(recipe.train.seed)
    model = MaskedBert(config, next_sentence=recipe.data.next_sentence)
    count = sum(parameter.numel() for parameter in model.parameters())
    say(f"{count:,} parameters, training on {pick_device(recipe.train.device)} into {run}")
    batches = data.batches(recipe.data, config.context, seed=recipe.train.seed, shuffle=True)
    return Training(run, recipe.train, model, config.width, batches, MaskedJob(recipe, data, run)).fit()


def _refuse_the_impossible(recipe: MaskedRecipe, *, new: bool) -> None:
    """Asks for the device, builds the model without memory and looks for the files, before any is written."""
    pick_device(recipe.train.device)
    if new:
        check_files(recipe.data)
    refuse_best_by(recipe.train.best_by, ("loss", "accuracy"))
    if recipe.train.smoothing:
        raise ConfigError(f"train.smoothing is {recipe.train.smoothing}, but words are not smoothed; set it to 0")
    if recipe.train.compile:
        raise ConfigError("train.compile is for language models and translators; leave it away")
    if recipe.data.next_sentence and recipe.model.segments < 2:
        raise ConfigError("model.segments is 1, but two texts stand in a row; raise it or use --no-next-sentence")
    if recipe.model.vocabulary or recipe.model.separator is not None:
        raise ConfigError("model.vocabulary and model.separator follow from the tokenizer; leave them away")
    with torch.device("meta"):
        MaskedBert(replace(recipe.model, vocabulary=3))
