"""Training an embedder as Sentence-BERT was (Reimers and Gurevych 2019), from pairs with or without scores."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from manyheads.core.errors import ConfigError
from manyheads.data.batches import Batches
from manyheads.data.examples import similarity_batches
from manyheads.data.ragged import Store
from manyheads.data.readers.examples import Example
from manyheads.interop.directory import load_embedder
from manyheads.models.bert import Bert, BertEmbedder
from manyheads.tasks.card import model_card
from manyheads.tasks.fine_tuning import FineTuning
from manyheads.tasks.labelled import Split, Wrapping
from manyheads.tasks.metrics import number_scores
from manyheads.tasks.similarity.data import read_all, store_pairs
from manyheads.tasks.similarity.recipe import SimilarityData, SimilarityRecipe
from manyheads.tasks.task import Asked
from manyheads.train.objectives import Loss, cosine_scores, similarity_loss

WITH_SCORES, WITHOUT_SCORES = ("spearman", "pearson", "loss"), ("accuracy", "loss")


class Similarity(FineTuning):
    """From pairs of texts to an embedder."""

    Recipe = SimilarityRecipe
    unit = "pairs"
    metrics = tuple(dict.fromkeys(WITH_SCORES + WITHOUT_SCORES))

    @classmethod
    def sized(cls, asked: Asked) -> SimilarityRecipe:
        """With the sizes of a model, and what it makes of a text."""
        if asked.pre_trained is None:
            return super().sized(asked)
        model, _ = load_embedder(Path(asked.pre_trained))
        longest = model.longest if model.longest < model.config.context else None
        data = SimilarityData(pooling=model.pooling, normalised=model.normalised, longest=longest)
        # What ends a text follows from the tokenizer.
        return SimilarityRecipe(data=data, model=replace(model.config, separator=None))

    def count(self, examples: Split[Example]) -> tuple[int, str]:
        return len(examples.train), (WITH_SCORES if examples.valid[0].label else WITHOUT_SCORES)[0]

    def read(self) -> Split[Example]:
        return read_all(self.recipe.data, self.recipe.train.seed)

    def texts(self, examples: Split[Example]) -> Iterable[str]:
        return (text.strip() for pair in examples.train for text in pair.texts)

    def store(self, examples: Split[Example], directory: Path) -> None:
        context = self.recipe.model.context
        longest = min(self.recipe.data.longest or context, context)
        store_pairs(examples, Wrapping(self.processor, longest), directory)

    def open(self, directory: Path) -> None:
        """Whatever validation would stumble over is said here."""
        super().open(directory)
        self.scored = "score" in self.valid
        known, found = WITH_SCORES if self.scored else WITHOUT_SCORES, self.recipe.train.best_by
        if found not in known:
            raise ConfigError(f"train.best_by is {found}, which is not for this task; use {' or '.join(known)}")
        if self.scored:
            number_scores([0.0], [0.0])  # says what is not installed

    def on_top(self, body: Bert) -> BertEmbedder:
        data = self.recipe.data
        return BertEmbedder(body, data.pooling, data.normalised, data.longest)

    def batches_of(self, store: Store, *, seed: int, shuffle: bool) -> Batches:
        return similarity_batches(store, size=self.recipe.data.examples, seed=seed, shuffle=shuffle)

    def loss(self, model: nn.Module, batch: Any) -> Loss:
        return similarity_loss(model, batch)

    def scores(self, model: nn.Module, batch: Any) -> Tensor:
        """Cosines, or of each first text the logits of all second texts, of which its own is right."""
        return cosine_scores(model(batch.ids, batch.lengths), batch.candidates)

    def correlations(self, predicted: Tensor, truth: Tensor) -> dict[str, float]:
        found = number_scores(predicted.cpu().numpy(), truth.cpu().numpy())
        return {"spearman": 100 * found.spearman, "pearson": 100 * found.pearson}

    def card(self, which: str, scores: dict[str, float]) -> str:
        pooled = {"mean": "the mean of its tokens' vectors", "cls": "the vector of its first token"}
        shape = pooled.get(self.recipe.data.pooling, "the largest of each number in its tokens' vectors")
        scored = "the cosine of two texts is their score"
        aim = scored if "score" in self.train else "a text finds the one it belongs to by its cosine"
        known = {
            "spearman": "Spearman's and Pearson's correlations of cosines with scores are in percent; loss is the "
            "squared error of a\ncosine",
            "accuracy": "accuracy is the percent of texts whose nearest in the batch is their own; loss is the "
            "negative\nlog-likelihood of that one",
        }
        about = f"""
An encoder that gives each text one vector, {shape}, trained on {len(self.train):,} pairs of texts so that
{aim}; these are its weights {which}.
`manyheads embed`, `manyheads similar`, `manyheads.Embedder` and sentence-transformers'
`SentenceTransformer` open this directory.
"""
        meaning = f"Of these, {'; '.join(text for name, text in known.items() if name in scores)}."
        names = {"pipeline_tag": "sentence-similarity", "title": "An embedder", "library": "sentence-transformers"}
        return model_card(self.recipe, scores, about=about, meaning=meaning, **names)


TASK = Similarity
