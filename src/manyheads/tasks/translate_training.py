"""Training a translator: its recipe, its presets, its objective and its metric."""

from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import torch
from torch import nn

from manyheads.core.configs import assigned, to_toml, updated
from manyheads.core.errors import ConfigError
from manyheads.core.log import say
from manyheads.data.pairs import pair_batches, pair_store
from manyheads.interop.directory import save_model
from manyheads.models.transformer import PRESETS, Transformer, TransformerConfig, parameters, transformer_tiny
from manyheads.ops.device import pick_device
from manyheads.tasks.card import translation_card
from manyheads.tasks.runs import begin_run, read_recipe, refuse_best_by, refuse_other_task, resumed
from manyheads.tasks.translate import decode_all, score
from manyheads.tasks.translate_data import PairData, Prepared, check_files, prepare
from manyheads.train.checkpoint import Progress
from manyheads.train.config import TrainConfig
from manyheads.train.loop import Training
from manyheads.train.objectives import Loss, translation_loss


@dataclass(frozen=True, kw_only=True)
class TranslateRecipe:
    """Everything that a run follows from."""

    task: str = "translate"
    """What is trained."""
    data: PairData = field(default_factory=PairData)
    model: TransformerConfig = field(default_factory=TransformerConfig)
    train: TrainConfig = field(default_factory=TrainConfig)

    def __post_init__(self):
        refuse_other_task(self.task, "translate")


def sample_recipe() -> TranslateRecipe:
    """The sample corpus, learned within three minutes on two cores."""
    train = TrainConfig(
        steps=1500, warmup=300, learning_rate=3e-3, schedule="cosine", valid_every=500, checkpoint_every=250
    )
    return TranslateRecipe(
        data=PairData(vocabulary=3000, batch_tokens=1000), model=replace(transformer_tiny(), dropout=0.05), train=train
    )


def preset_recipe(name: str) -> TranslateRecipe:
    """A published size with training to match: a GPU's batches for base and big, a laptop's for the small ones."""
    if name not in PRESETS:
        raise ConfigError(f"there is no preset {name}; there are {', '.join(PRESETS)}")
    model = PRESETS[name]()
    if name in ("transformer_base", "transformer_big"):
        steps = 100_000 if name == "transformer_base" else 300_000
        return TranslateRecipe(
            data=PairData(vocabulary=37_000, batch_tokens=25_000),
            model=model,
            train=TrainConfig(steps=steps, average=5),
        )
    train = TrainConfig(steps=20_000, warmup=2000, valid_every=1000, patience=10, average=5)
    return TranslateRecipe(data=PairData(), model=model, train=train)


def build_recipe(
    *, preset: str | None = None, file: Path | None = None, data: dict | None = None, assignments: tuple[str, ...] = ()
) -> TranslateRecipe:
    """The recipe of a preset, changed by a TOML file, then by files given, then by assignments."""
    table = read_recipe(file, "translate")
    named_in_file = table.pop("preset", None)
    named = {name for name, value in (data or {}).items() if value}
    has_data = bool(named & {"source", "pairs"})
    if preset or named_in_file or has_data or table:
        recipe = preset_recipe(preset or str(named_in_file or "transformer_small"))
    else:
        recipe = sample_recipe()
    recipe = updated(recipe, table)
    recipe = updated(recipe, {"data": {name: value for name, value in (data or {}).items() if value}})
    return assigned(recipe, assignments)


class TranslationJob:
    """What translation brings to the training loop."""

    def __init__(self, recipe: TranslateRecipe, data: Prepared, run: Path):
        self.recipe, self.data, self.run = recipe, data, run
        self.sources = data.tokenizer.encode([source for source, _ in data.valid])
        targets = data.tokenizer.encode([target for _, target in data.valid])
        tokens = recipe.data.batch_tokens
        store = pair_store(self.sources, targets)
        self.valid = pair_batches(store, tokens=tokens, pad=data.tokenizer.pad, seed=0, shuffle=False)

    def loss(self, model: nn.Module, batch) -> Loss:
        return translation_loss(model, batch, smoothing=self.recipe.train.smoothing)

    def validate(self, model: nn.Module) -> dict[str, float]:
        """Negative log-likelihood a token, and BLEU of greedy search."""
        device = next(model.parameters()).device
        losses = [translation_loss(model, batch.to(device)) for batch in self.valid.epoch(0)]
        loss = sum(float(each.likelihood) for each in losses) / sum(each.tokens for each in losses)
        found = decode_all(model, self.sources, beam=1, scored=False)  # type: ignore
        texts = self.data.tokenizer.decode([beams[0].ids for beams in found])
        scores = score(texts, [target for _, target in self.data.valid])
        self.signature = scores.bleu_signature
        return {"loss": loss, "bleu": scores.bleu}

    def keep(self, model: nn.Module, which: str, scores: dict[str, float]) -> None:
        card = translation_card(to_toml(self.recipe), len(self.data.train), which, scores, self.signature)
        save_model(self.run / "model", model, self.data.tokenizer, card)  # type: ignore


def train_translator(recipe: TranslateRecipe, run: Path, *, resume: bool = False, overwrite: bool = False) -> Progress:
    """Trains into a run directory, from the start or from where it was stopped."""
    _refuse_the_impossible(recipe, new=not resume)
    data = begin_run(run, recipe, partial(prepare, recipe.data), resume=resume, overwrite=overwrite)
    tokenizer = data.tokenizer
    config = replace(
        recipe.model, vocabulary=len(tokenizer), pad=tokenizer.pad, start=tokenizer.start, end=tokenizer.end
    )
    torch.manual_seed(recipe.train.seed)
    model = Transformer(config)
    say(f"{parameters(model):,} parameters, training on {pick_device(recipe.train.device)} into {run}")
    batches = pair_batches(
        data.train, tokens=recipe.data.batch_tokens, pad=tokenizer.pad, seed=recipe.train.seed, shuffle=True
    )
    return Training(run, recipe.train, model, config.width, batches, TranslationJob(recipe, data, run)).fit()


def _refuse_the_impossible(recipe: TranslateRecipe, *, new: bool) -> None:
    """Asks for the device, builds the model without memory and looks for the files, before any is written."""
    pick_device(recipe.train.device)
    refuse_best_by(recipe.train.best_by, ("bleu", "loss"))
    if new and (recipe.data.source or recipe.data.pairs):
        check_files(recipe.data)
    if recipe.model.positions.kind == "learned" and recipe.data.longest > recipe.model.positions.length:
        raise ConfigError(
            f"data.longest lets pairs of {recipe.data.longest} tokens in, but model.positions.length ends at "
            f"{recipe.model.positions.length}; lower the one or raise the other"
        )
    for name in ("vocabulary", "pad", "start", "end"):
        if getattr(recipe.model, name) != getattr(TransformerConfig(), name):
            raise ConfigError(f"model.{name} follows from the tokenizer; leave it away, or set data.vocabulary")
    with torch.device("meta"):
        Transformer(replace(recipe.model, vocabulary=3, pad=0, start=0, end=1))


def resumed_recipe(run: Path, assignments: tuple[str, ...]) -> TranslateRecipe:
    """The recipe of a run that goes on."""
    return resumed(TranslateRecipe(), run, assignments)
