"""Learning word vectors: skip-gram and CBOW by negative sampling, GloVe by AdaGrad."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from manyheads.core.errors import ConfigError, DataError
from manyheads.data.batches import Batches
from manyheads.data.ragged import Store
from manyheads.models.vectors import WordVectorsModel
from manyheads.tasks.card import model_card
from manyheads.tasks.fine_tuning import refuse_smoothing
from manyheads.tasks.language.data import Texts
from manyheads.tasks.task import Asked, Task
from manyheads.tasks.vectors.data import (
    cell_batches,
    line_batches,
    open_lines,
    store_cells,
    store_lines,
    train_words,
)
from manyheads.tasks.vectors.recipe import VectorsRecipe
from manyheads.text.words import WordTokenizer
from manyheads.train import word_vectors as gradients
from manyheads.train.config import TrainConfig
from manyheads.train.word_vectors import Windows

POWER = 0.75  # of the counts that words are drawn by
EPOCHS = {"skipgram": 5, "cbow": 5, "glove": 25}
RATES = {"skipgram": 0.025, "cbow": 0.05, "glove": 0.05}  # as in the code that was published with each
MANY = 1_000_000_000  # steps, of which epochs leave what is needed
CELLS_AT_ONCE = 1024
METHODS: dict[str, gradients.Method] = {"skipgram": gradients.SkipGram, "cbow": gradients.Cbow}


class WordVectorLearning(Task):
    """From raw text to word vectors."""

    Recipe = VectorsRecipe
    Processor = WordTokenizer
    network = WordVectorsModel
    unit = "words"
    metrics = ("loss",)
    own_data = ("text",)

    @classmethod
    def begin(cls, asked: Asked) -> VectorsRecipe:
        if asked.preset:
            raise ConfigError(f"there is no preset {asked.preset} of word vectors; choose with --method")
        return VectorsRecipe()

    @classmethod
    def complete(cls, begun: VectorsRecipe, change: Callable[[Any], Any], asked: Asked) -> VectorsRecipe:
        """Twice, since what is usual follows from the method."""
        data = change(begun).data
        method = data.method
        # The sample is small, and its words come again soon.
        epochs = EPOCHS[method] * (1 if data.text else 4)
        train = TrainConfig(
            steps=MANY,
            epochs=epochs,
            optimizer="own",
            learning_rate=RATES[method],
            schedule="constant" if method == "glove" else "linear",
            warmup=1,
            smoothing=0.0,
            clip=0.0,
            valid_every=MANY,
            checkpoint_every=MANY,
            keep=2,
            best_by="loss",
            device="cpu",  # a GPU adds to rows that come twice in no fixed order
        )
        model = replace(begun.model, method=method)
        return change(replace(begun, model=model, train=train))

    def check(self) -> None:
        recipe, train = self.recipe, self.recipe.train
        refuse_smoothing(train, "word vectors")
        if train.optimizer != "own":
            raise ConfigError(
                f"train.optimizer is {train.optimizer}, but word vectors are learned by their own; leave it"
            )
        if train.clip:
            raise ConfigError(f"train.clip is {train.clip}, but gradients of word vectors are not clipped; set it to 0")
        if recipe.model.method != recipe.data.method:
            raise ConfigError(
                f"model.method is {recipe.model.method}, but data.method {recipe.data.method}; set the latter"
            )

    def read(self) -> Texts:
        data = self.recipe.data
        return Texts(data.text, data.valid, data.field)

    def train_processor(self, examples: Texts) -> WordTokenizer:
        return train_words(examples, self.recipe.data)

    def store(self, examples: Texts, directory: Path) -> None:
        data = self.recipe.data
        store_lines(examples, self.processor, directory)
        train, _ = open_lines(directory, data.valid_words)
        if self._counts_cells:
            store_cells(directory, train, len(self.processor), data.reach, self.recipe.train.seed)

    def open(self, directory: Path) -> None:
        data = self.recipe.data
        lines = open_lines(directory, data.valid_words)
        if self._counts_cells:
            self.train, self.valid = (Store.open(directory / part) for part in ("cells", "valid_cells"))
            return
        self.train, self.valid = lines
        counts = torch.bincount(torch.from_numpy(self.train["ids"].flat.astype("int64")), minlength=len(self.processor))
        self.stay, self.noise = gradients.chances_to_stay(counts, data.sample), gradients.noise(counts, POWER)

    @property
    def _counts_cells(self) -> bool:
        return self.recipe.data.method == "glove"

    def batches_of(self, store: Store, **order: Any) -> Batches:
        batches = cell_batches if self._counts_cells else line_batches
        return batches(store, words=self.recipe.data.words, **order)

    @torch.no_grad()
    def learn(self, model: Any, batch: Any, rate: float) -> tuple[Tensor, Tensor]:
        """A step for each few words, one after another, by which the loss of the first of them is known."""
        if self._counts_cells:
            return self._learn_cells(model, batch, rate)
        found, kept = self.windows(batch)
        method, negative = METHODS[self.recipe.data.method], self.recipe.data.negative
        tables, blocks = (model.vectors.data, model.contexts.data), gradients.blocks_at_once(len(self.processor))
        likelihood = norm = torch.zeros((), device=batch.ids.device)
        for number, part in enumerate(found.parts(blocks)):
            if not number:  # for all words it would cost more than it tells
                likelihood = gradients.objective(method, *tables, part, negative) / max(
                    1, min(part.words.numel(), kept)
                )
            slopes = gradients.descend(method, *tables, part, negative, rate)
            norm = slopes.norm() if not number else norm
        return likelihood * batch.target_tokens, norm

    def windows(self, batch: Any) -> tuple[Windows, int]:
        """The windows of a batch's words, of the commonest of which some are left out; how many are there still."""
        device = batch.ids.device
        stays = torch.rand(len(batch.ids), device=device) < self.stay.to(device)[batch.ids]
        ids, lines = batch.ids[stays], batch.lines[stays]
        return gradients.windows(ids, lines, self.recipe.data.reach, self.noise.to(device)), len(ids)

    def _learn_cells(self, model: Any, batch: Any, rate: float) -> tuple[Tensor, Tensor]:
        tables = tables_of(model)
        self.carried = self.carried or {name: torch.ones_like(table) for name, table in tables.items()}
        sums, total, norm = [self.carried[name] for name in tables], [], torch.zeros(())
        size = min(CELLS_AT_ONCE, max(32, len(self.processor)))
        for cells in zip(*(each.split(size) for each in (batch.first, batch.second, batch.count))):
            objective, slopes = gradients.glove(list(tables.values()), sums, cells, self.recipe.data.cutoff, rate)
            total.append(objective)
            norm = slopes.norm()
        return torch.stack(total).sum(), norm

    def validate(self, model: Any) -> dict[str, float]:
        """The objective of a word, or of a pair, that was held out; the same windows and drawn words each time."""
        torch.manual_seed(0)
        total, count = 0.0, 0
        for batch in self.valid_batches().epoch(0):
            objective, kept = self._objective(model, batch.to(model.vectors.device))
            total, count = total + float(objective), count + kept
        if not count:
            raise DataError("every word to validate on is thinned out; give more text, or make data.sample 0")
        return {"loss": total / count}

    def _objective(self, model: Any, batch: Any) -> tuple[Tensor, int]:
        """Of a whole batch, and what it is to be divided by."""
        if self._counts_cells:
            tables, cells = tables_of(model), (batch.first, batch.second, batch.count)
            weights = gradients.glove_weights(batch.count, self.recipe.data.cutoff)
            errors = gradients.glove_errors(list(tables.values()), cells)
            return 0.5 * (weights * errors.square()).sum(), batch.target_tokens
        found, kept = self.windows(batch)
        method, negative = METHODS[self.recipe.data.method], self.recipe.data.negative
        return gradients.objective(method, model.vectors, model.contexts, found, negative), kept

    def card(self, which: str, scores: dict[str, float]) -> str:
        names = {"skipgram": "word2vec's skip-gram", "cbow": "word2vec's CBOW", "glove": "GloVe"}
        about = f"""
Vectors of {len(self.processor.vocabulary()):,} words, learned by {names[self.recipe.data.method]}; these are its
weights {which}. `manyheads neighbours`, `analogy` and `manyheads.WordVectors` open this directory;
`manyheads export-vectors` writes a file that gensim opens.
"""
        meaning = "Loss is the objective by word of held-out text, or, of GloVe, by pair of words held out."
        title, tag = "Word vectors", "feature-extraction"
        return model_card(self.recipe, scores, pipeline_tag=tag, title=title, about=about, meaning=meaning)


def tables_of(model: Any) -> dict[str, Tensor]:
    """Of GloVe: w, w̃, b and b̃."""
    return {name: getattr(model, name).data for name in ("vectors", "contexts", "bias", "context_bias")}


TASK = WordVectorLearning
