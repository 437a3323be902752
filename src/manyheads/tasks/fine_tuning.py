"""What all fine-tuning shares: a pre-trained model or an untrained one, a few epochs, and the recipe that says so."""

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import nn

from manyheads.core.configs import assigned, updated
from manyheads.core.errors import ConfigError
from manyheads.core.log import say
from manyheads.interop.encoders import load_encoder
from manyheads.interop.pruned import removed_heads
from manyheads.models.bert import PRESETS, Bert, BertConfig
from manyheads.ops.device import pick_device
from manyheads.tasks.runs import begin_run, read_recipe, refuse_best_by
from manyheads.text.encoder import EncoderTokenizer
from manyheads.train.checkpoint import Checkpoints, Progress
from manyheads.train.config import TrainConfig
from manyheads.train.loop import Job, Training

MAY_DIFFER = ("dropout", "attention_dropout", "inner_dropout")
UNSET = 2**53  # steps that nobody asked for
LARGE = 384  # the width from which on a pre-trained encoder is fine-tuned as gently as published

Recipe = TypeVar("Recipe", bound=Any)


@dataclass(frozen=True, kw_only=True)
class FineTune:
    """What is learned again, and how long."""

    model: str | None = None
    """The run or model directory of the pre-trained model to begin with; unset: an untrained one."""
    freeze: bool = False
    """Whether the pre-trained model stays as it is, and only what stands on top of it learns."""
    epochs: int = 3
    """How often each example is seen; train.steps follows from it, unless set."""

    def __post_init__(self):
        if self.epochs < 1:
            raise ConfigError(f"fine_tune.epochs is {self.epochs}; it must be at least 1")


def fine_tuning_recipe(
    blank: Recipe,
    begin: Callable[[str | None, str | None, dict[str, Any]], Recipe],
    usual: Callable[[Recipe], TrainConfig],
    *,
    preset: str | None = None,
    file: Path | None = None,
    data: dict | None = None,
    assignments: tuple[str, ...] = (),
) -> Recipe:
    """The recipe of a pre-trained model or a preset, changed by a TOML file, then by flags, then by assignments.

    `data` holds the flags: fields of the recipe's section data, and `model` and `freeze` of its section fine_tune.
    `begin(pre-trained model, preset, table of the file)` gives what all of them change; `usual` how that is trained.
    """
    table = read_recipe(file, blank.task)
    named_in_file = table.pop("preset", None)
    given = {name: value for name, value in (data or {}).items() if value}
    fine_tune = {name: given.pop(name) for name in ("model", "freeze") if name in given}
    if "model" in fine_tune:
        fine_tune["model"] = str(fine_tune["model"])

    def changed(recipe: Recipe) -> Recipe:
        return assigned(updated(updated(recipe, table), {"data": given, "fine_tune": fine_tune}), assignments)

    # The pre-trained model may be named in any of the three places, and its sizes come before all of them.
    named = updated(updated(blank.fine_tune, table.get("fine_tune", {})), fine_tune)
    pre_trained = assigned(named, _of_section("fine_tune", assignments)).model
    if pre_trained and preset:
        raise ConfigError(f"{pre_trained} has sizes of its own; leave the preset {preset} or the model away")
    recipe = begin(pre_trained, preset or (str(named_in_file) if named_in_file else None), table)
    # The optimizer for what is only possible with it.
    recipe = replace(recipe, train=TrainConfig(optimizer="adamw", steps=UNSET))
    resolved = changed(recipe)
    if pre_trained:
        _refuse_other_sizes(recipe, resolved, pre_trained)
    # Again, since what is usual for training follows from all that has been said.
    return changed(replace(recipe, train=usual(resolved)))


def _of_section(section: str, assignments: tuple[str, ...]) -> tuple[str, ...]:
    named = [each.partition("=")[0].strip().startswith(f"{section}.") for each in assignments]
    return tuple(each.strip().removeprefix(f"{section}.") for each, own in zip(assignments, named) if own)


def _refuse_other_sizes(found: Any, asked: Any, path: str) -> None:
    before, after = ({"family": getattr(each, "family", None), **asdict(each.model)} for each in (found, asked))
    changed = [name for name in before if before[name] != after[name] and name not in MAY_DIFFER]
    if changed:
        raise ConfigError(f"model.{changed[0]} of {path} is {before[changed[0]]} and cannot change; leave it away")


def encoder_sizes(pre_trained: str | None, preset: str | None) -> BertConfig:
    """The sizes of a pre-trained encoder, or of a preset."""
    if pre_trained:
        # What ends a text follows from the tokenizer.
        return replace(load_encoder(Path(pre_trained))[0].config, separator=None)
    if preset and preset not in PRESETS:
        raise ConfigError(f"there is no preset {preset} of encoders; there are {', '.join(PRESETS)}")
    return PRESETS[preset or "bert_tiny"]()


def usual_training(recipe: Any, examples: int, *, best_by: str, rate: float | None = None) -> TrainConfig:
    """Some epochs with a warm-up over the first tenth, validated three times an epoch; small models learn faster."""
    batches = math.ceil(examples / recipe.data.examples / recipe.train.accumulate)
    steps, third = steps_asked(recipe) or recipe.fine_tune.epochs * batches, math.ceil(batches / 3)
    return TrainConfig(
        steps=steps,
        optimizer="adamw",
        weight_decay=0.01,
        beta2=0.999,
        learning_rate=rate or encoder_rate(recipe),
        schedule="cosine",
        warmup=max(steps // 10, 1),
        smoothing=0.0,
        valid_every=third,
        checkpoint_every=max(third, 100),
        keep=2,
        best_by=best_by,
    )


def steps_asked(recipe: Any) -> int | None:
    """How many steps somebody asked for, while a recipe is made."""
    return None if recipe.train.steps == UNSET else recipe.train.steps


def encoder_rate(recipe: Any) -> float:
    """The peak of the learning rate: gentle with what is pre-trained and large, high where only a head learns."""
    if recipe.fine_tune.freeze:
        return 1e-3
    return 5e-5 if recipe.fine_tune.model and recipe.model.width >= LARGE else 3e-4


def fine_tune(
    recipe: Any,
    run: Path,
    prepare: Callable[[Any, int, Any, Path], Any],
    build: Callable[[Any, Any], nn.Module],
    job: Callable[[Any, Any, Path], Job],
    *,
    scores: tuple[str, ...],
    load: Callable[[Path], tuple[Any, Any]] = load_encoder,
    kind: type[nn.Module] = Bert,
    resume: bool = False,
    overwrite: bool = False,
) -> Progress:
    """Trains a model with a `body` of this kind into a run directory, from the start or from where it was stopped.

    `load` opens a pre-trained body and its tokenizer; `prepare(recipe.data, context, that tokenizer or None, run)`
    gives the data, with a tokenizer and `batches(recipe.data, seed=…, shuffle=…)`; `build(pre-trained body or None,
    data)` the model; `job(recipe, data, run)` the rest, with a validation that gives `scores`.
    """
    refuse_the_impossible(recipe, scores, kind)
    body, tokenizer = None, None
    if recipe.fine_tune.model and not _begun(run, resume):
        body, tokenizer = load(Path(recipe.fine_tune.model))
        if removed_heads(body):
            raise ConfigError(
                f"{recipe.fine_tune.model} has lost heads, which a run cannot learn without; train first, then prune"
            )

    def prepared(directory: Path) -> Any:
        return prepare(recipe.data, recipe.model.context, tokenizer, directory)

    data = begin_run(run, recipe, prepared, resume=resume, overwrite=overwrite)
    torch.manual_seed(recipe.train.seed)
    return _fit(recipe, run, build(body, data), data, job(recipe, data, run))


def fit_encoder(
    recipe: Any,
    run: Path,
    prepare: Callable[[Any, int, EncoderTokenizer | None, Path], Any],
    build: Callable[[Bert, Any], nn.Module],
    job: Callable[[Any, Any, Path], Job],
    **settings: Any,
) -> Progress:
    """Trains what `build(encoder without pooler, data)` puts on top of an encoder; the rest is as of `fine_tune`."""

    def built(pre_trained: Bert | None, data: Any) -> nn.Module:
        return build(encoder_body(recipe.model, pre_trained, data.tokenizer, pooler=False), data)

    return fine_tune(recipe, run, prepare, built, job, **settings)


def _begun(run: Path, resume: bool) -> bool:
    """Whether a run goes on from weights of its own; before its first checkpoint it begins again."""
    return resume and bool(Checkpoints(run / "checkpoints", keep=1, every=1).paths())


def _fit(recipe: Any, run: Path, model: Any, data: Any, job: Job) -> Progress:
    """Trains a model that has a `body`, all of it or only what stands on top."""
    if recipe.fine_tune.freeze:
        freeze(model.body)
    learned = sum(each.numel() for each in model.parameters() if each.requires_grad)
    count = sum(each.numel() for each in model.parameters())
    share = f" ({learned:,} of them learn)" if learned < count else ""
    say(f"{count:,} parameters{share}, training on {pick_device(recipe.train.device)} into {run}")
    batches = data.batches(recipe.data, seed=recipe.train.seed, shuffle=True)
    return Training(run, recipe.train, model, recipe.model.width, batches, job).fit()


def freeze(body: nn.Module) -> None:
    """Nothing of the body learns, but for an encoder's pooler, which is as much of a head as what reads it."""
    pooler = getattr(body, "pooler", None)
    kept = set(pooler.parameters()) if pooler is not None else set()
    for parameter in body.parameters():
        parameter.requires_grad_(parameter in kept)


def encoder_body(config: BertConfig, pre_trained: Bert | None, tokenizer: EncoderTokenizer, *, pooler: bool) -> Bert:
    """An encoder by this config, with the weights of a pre-trained one where there is one."""
    config = replace(config, vocabulary=max(config.vocabulary, len(tokenizer)), separator=tokenizer.separator)
    body = Bert(config, pooler=pooler)
    if pre_trained is not None:
        if pooler and pre_trained.pooler is None:
            say("the pre-trained model has no pooler; this one begins untrained")
        wanted = set(body.state_dict())
        weights = {name: tensor for name, tensor in pre_trained.state_dict().items() if name in wanted}
        body.load_state_dict(weights, strict=False)
    return body


def refuse_the_impossible(recipe: Any, scores: tuple[str, ...], kind: type[nn.Module] = Bert) -> None:
    """Asks for the device and builds the body without memory, before anything is written."""
    pick_device(recipe.train.device)
    refuse_best_by(recipe.train.best_by, scores)
    if recipe.fine_tune.freeze and not recipe.fine_tune.model:
        raise ConfigError("an untrained model is not worth freezing; give a pre-trained one with --model")
    if recipe.train.smoothing:
        raise ConfigError(f"train.smoothing is {recipe.train.smoothing}, but labels are not smoothed; set it to 0")
    if recipe.train.compile:
        raise ConfigError("train.compile is for language models and translators; leave it away")
    last = "separator" if kind is Bert else "end"
    if not recipe.fine_tune.model and (recipe.model.vocabulary or getattr(recipe.model, last) is not None):
        raise ConfigError(f"model.vocabulary and model.{last} follow from the tokenizer; leave them away")
    with torch.device("meta"):
        kind(replace(recipe.model, vocabulary=3))
