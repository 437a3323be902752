"""Training a translator: its recipe, its presets, its data, its objective and its metric."""

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields, replace
from functools import cache
from itertools import islice
from pathlib import Path

import torch
from torch import nn

from manyheads.core.configs import assigned, read_toml, to_toml, updated
from manyheads.core.errors import ConfigError, DataError, ManyheadsError
from manyheads.core.files import write_atomically
from manyheads.core.log import counting, say
from manyheads.data.batching import PairBatches
from manyheads.data.corpus import read_pairs
from manyheads.data.store import PairStore
from manyheads.interop.directory import save_model
from manyheads.models.transformer import PRESETS, Transformer, TransformerConfig, parameters, transformer_tiny
from manyheads.tasks.card import translation_card
from manyheads.tasks.translate import decode_all, score
from manyheads.text.tokenizer import Tokenizer
from manyheads.train.checkpoint import Progress
from manyheads.train.config import TrainConfig
from manyheads.train.loop import Training, pick_device, run_is_new
from manyheads.train.objectives import Loss, translation_loss

HELD_OUT_EVERY, HELD_OUT_MOST = 50, 1000


@dataclass(frozen=True, kw_only=True)
class PairData:
    """Which sentence pairs a translator learns from, and how they are cut into tokens and batches."""

    source: tuple[str, ...] = ()
    """Files with one source sentence a line, plain, .gz or .xz; no files at all: the sample corpus."""
    target: tuple[str, ...] = ()
    """Files with their translations, line by line."""
    pairs: tuple[str, ...] = ()
    """Files with both: .tsv or .jsonl, plain, .gz or .xz."""
    fields: tuple[str, ...] = ()
    """Which columns (from 1) or JSON fields of `pairs` are source and target; unset: 1 and 2, or source and target."""
    valid_source: tuple[str, ...] = ()
    """Validation files; without any, every 50th training pair is held out, up to 1,000."""
    valid_target: tuple[str, ...] = ()
    """Their translations."""
    valid_pairs: tuple[str, ...] = ()
    """Validation files with both."""
    tokenizer: str | None = None
    """A tokenizer.json; unset: byte-level BPE of `vocabulary` tokens is trained on both languages."""
    vocabulary: int = 8000
    """Tokens of the tokenizer that is trained."""
    longest: int = 256
    """Pairs with a side of more tokens are dropped, and counted."""
    batch_tokens: int = 4096
    """Target tokens of a batch, padding included."""

    def __post_init__(self):
        if self.fields and len(self.fields) != 2:
            raise ConfigError(f"data.fields names {len(self.fields)} fields; it must name two, source and target")
        for side in ("", "valid_"):
            sources, targets = getattr(self, f"{side}source"), getattr(self, f"{side}target")
            if len(sources) != len(targets):
                raise ConfigError(f"{len(sources)} files in data.{side}source, {len(targets)} in data.{side}target")
        if (self.valid_source or self.valid_pairs) and not (self.source or self.pairs):
            raise ConfigError("validation files are given, but no training files; give both or neither")
        if self.batch_tokens < 1 or self.longest < 2:
            raise ConfigError("data.batch_tokens must be at least 1 and data.longest at least 2")


@dataclass(frozen=True, kw_only=True)
class TranslateRecipe:
    """Everything that a run follows from."""

    data: PairData = field(default_factory=PairData)
    model: TransformerConfig = field(default_factory=TransformerConfig)
    train: TrainConfig = field(default_factory=TrainConfig)


def sample_recipe() -> TranslateRecipe:
    """The sample corpus, learned within three minutes on two cores."""
    return TranslateRecipe(
        data=PairData(vocabulary=1500, batch_tokens=2000),
        model=transformer_tiny(),
        train=TrainConfig(steps=1500, warmup=300, learning_rate=3e-3, valid_every=500, checkpoint_every=500, average=1),
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
    table = read_toml(file) if file else {}
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


Pair = tuple[str, str]


@dataclass(frozen=True)
class Prepared:
    """The data of a run, ready to train on."""

    tokenizer: Tokenizer
    train: PairStore
    valid: list[Pair]


def prepare(data: PairData, run: Path) -> Prepared:
    """Reads and checks every pair, trains the tokenizer where none is given, and lays token ids down in `run/data`."""
    tokenizer_directory, store_directory = run / "tokenizer", run / "data"
    valid = _valid_pairs(data)
    if not valid:
        raise DataError(
            "there are no validation pairs: give them with --valid-source and --valid-target or --valid-pairs "
            f"(without them every {HELD_OUT_EVERY}th training pair is held out)"
        )
    if (store_directory / "store.json").exists():  # a run that goes on
        return Prepared(Tokenizer.load(tokenizer_directory), PairStore.open(store_directory), valid)
    if data.tokenizer:
        tokenizer = Tokenizer.load(Path(data.tokenizer))
    else:
        with counting("reading pairs and training the tokenizer") as show:
            lines = (line for pair in _counted(_train_pairs(data), show) for line in pair)
            tokenizer = Tokenizer.train(lines, data.vocabulary)
    tokenizer.save(tokenizer_directory)
    with counting("cutting pairs into tokens") as show:
        store = PairStore.build(store_directory, _train_pairs(data), tokenizer, longest=data.longest, on_progress=show)
    say(f"{len(store):,} training pairs, {len(valid):,} validation pairs, {len(tokenizer):,} tokens in the vocabulary")
    if store.dropped.too_long or store.dropped.empty:
        say(
            f"dropped: {store.dropped.too_long:,} pairs with a side over {data.longest} tokens (data.longest), "
            f"{store.dropped.empty:,} with an empty side"
        )
    return Prepared(tokenizer, store, valid)


@cache
def _sample(part: str) -> list[Pair]:
    from manyheads.data.sample import sample_corpus

    return [(pair.source, pair.target) for pair in sample_corpus()[part]]


def _all_pairs(data: PairData) -> Iterator[Pair]:
    if not (data.source or data.pairs):
        return iter(_sample("train"))
    return _read(data.source, data.target, data.pairs, data.fields)


def _train_pairs(data: PairData) -> Iterator[Pair]:
    if _has_valid(data):
        return _all_pairs(data)
    return (pair for number, pair in enumerate(_all_pairs(data)) if not _held_out(number))


def _valid_pairs(data: PairData) -> list[Pair]:
    if data.valid_source or data.valid_pairs:
        return [
            pair for pair in _read(data.valid_source, data.valid_target, data.valid_pairs, data.fields) if all(pair)
        ]
    if _has_valid(data):
        return _sample("valid")
    held_out = (pair for number, pair in enumerate(_all_pairs(data)) if _held_out(number))
    return [pair for pair in islice(held_out, HELD_OUT_MOST) if all(side.strip() for side in pair)]


def _has_valid(data: PairData) -> bool:
    return bool(data.valid_source or data.valid_pairs or not (data.source or data.pairs))


def _held_out(number: int) -> bool:
    return number % HELD_OUT_EVERY == HELD_OUT_EVERY - 1 and number < HELD_OUT_EVERY * HELD_OUT_MOST


def _read(
    source: tuple[str, ...], target: tuple[str, ...], pairs: tuple[str, ...], names: tuple[str, ...]
) -> Iterator[Pair]:
    return read_pairs(
        sources=[Path(path) for path in source],
        targets=[Path(path) for path in target],
        pairs=[Path(path) for path in pairs],
        fields=(names[0], names[1]) if names else None,
    )


def _counted(pairs: Iterator[Pair], show: Callable[[int], None]) -> Iterator[Pair]:
    for number, pair in enumerate(pairs, start=1):
        if number % 10_000 == 0:
            show(number)
        yield pair


class TranslationJob:
    """What translation brings to the training loop."""

    def __init__(self, recipe: TranslateRecipe, data: Prepared, run: Path):
        self.recipe, self.data, self.run = recipe, data, run
        self.sources = data.tokenizer.encode([source for source, _ in data.valid])
        targets = data.tokenizer.encode([target for _, target in data.valid])
        tokens = recipe.data.batch_tokens
        store = PairStore.from_ids(self.sources, targets)
        self.valid = PairBatches(store, tokens=tokens, pad=data.tokenizer.pad, seed=0, shuffle=False)

    def loss(self, model: nn.Module, batch) -> Loss:
        return translation_loss(model, batch, smoothing=self.recipe.train.smoothing)

    def validate(self, model: nn.Module) -> dict[str, float]:
        """Negative log-likelihood a token, and BLEU of greedy search."""
        device = next(model.parameters()).device
        losses = [translation_loss(model, batch.to(device)) for batch in self.valid.epoch(0)]
        loss = sum(float(each.likelihood) for each in losses) / sum(each.tokens for each in losses)
        found = decode_all(model, self.sources, beam=1)  # type: ignore
        texts = self.data.tokenizer.decode([beams[0].ids for beams in found])
        return {"loss": loss, "bleu": score(texts, [target for _, target in self.data.valid]).bleu}

    def keep(self, model: nn.Module, step: int, scores: dict[str, float]) -> None:
        card = translation_card(to_toml(self.recipe), len(self.data.train), step, scores)
        save_model(self.run / "model", model, self.data.tokenizer, card)  # type: ignore


def train_translator(recipe: TranslateRecipe, run: Path, *, resume: bool = False, overwrite: bool = False) -> Progress:
    """Trains into a run directory, from the start or from where it was stopped."""
    _refuse_the_impossible(recipe, new=not resume)
    new = run_is_new(run, resume=resume, overwrite=overwrite)
    run.mkdir(parents=True, exist_ok=True)
    write_atomically(run / "recipe.toml", to_toml(recipe))
    try:
        data = prepare(recipe.data, run)
    except ManyheadsError:
        if new:
            shutil.rmtree(run)  # so that the same command can be given again once the data is mended
        raise
    tokenizer = data.tokenizer
    config = replace(
        recipe.model, vocabulary=len(tokenizer), pad=tokenizer.pad, start=tokenizer.start, end=tokenizer.end
    )
    torch.manual_seed(recipe.train.seed)
    model = Transformer(config)
    say(f"{parameters(model):,} parameters, training on {pick_device(recipe.train.device)} into {run}")
    batches = PairBatches(
        data.train, tokens=recipe.data.batch_tokens, pad=tokenizer.pad, seed=recipe.train.seed, shuffle=True
    )
    return Training(run, recipe.train, model, config.width, batches, TranslationJob(recipe, data, run)).fit()


def _refuse_the_impossible(recipe: TranslateRecipe, *, new: bool) -> None:
    """Asks for the device, builds the model without memory and looks for the files, before any is written."""
    pick_device(recipe.train.device)
    if new and (recipe.data.source or recipe.data.pairs):
        data = recipe.data
        _read(data.source, data.target, data.pairs, data.fields)
        _read(data.valid_source, data.valid_target, data.valid_pairs, data.fields)
    if recipe.model.positions.kind == "learned" and recipe.data.longest > recipe.model.positions.length:
        raise ConfigError(
            f"data.longest lets pairs of {recipe.data.longest} tokens in, but model.positions.length ends at "
            f"{recipe.model.positions.length}; lower the one or raise the other"
        )
    with torch.device("meta"):
        Transformer(replace(recipe.model, vocabulary=3, pad=0, start=0, end=1))


def resumed_recipe(run: Path, assignments: tuple[str, ...]) -> TranslateRecipe:
    """The recipe of a run that goes on; its training may be changed, its data and model may not."""
    recipe = updated(TranslateRecipe(), read_toml(run / "recipe.toml"))
    changed = assigned(recipe, assignments)
    for section in fields(recipe):
        if section.name != "train" and getattr(changed, section.name) != getattr(recipe, section.name):
            raise ConfigError(f"{section.name} of a run cannot change when it goes on; only train.… can")
    return changed
