"""Classifiers of words that learn from labelled texts alone: a bag of words, and the features of a lexicon."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from manyheads.core.grouping import grouped
from manyheads.core.log import say, warn
from manyheads.data.batches import padded
from manyheads.data.ragged import Ragged
from manyheads.models.bag import FIRST_WORD, BagClassifier, BagConfig, inverse_document_frequency, naive_bayes
from manyheads.models.lexicon import KINDS, LexiconClassifier, LexiconConfig
from manyheads.tasks.classify.lexicon import kinds_of_words, read_lexicon
from manyheads.tasks.classify.recipe import ClassifyFineTune, ClassifyRecipe, ExampleData
from manyheads.text.words import WordTokenizer
from manyheads.train.config import TrainConfig

AT_ONCE = 16_384  # tokens of which features are found in one go


class WordFamily:
    """What a family that reads words brings to the training of a classifier; one for each preset of its name."""

    network: ClassVar[Any]
    sizes: ClassVar[Any]
    title: ClassVar[str]
    about: ClassVar[str]
    """What it is, for its model card."""
    vocabulary: ClassVar[int] = 30_000
    epochs: ClassVar[int] = 10
    rate: ClassVar[float] = 0.01
    decay: ClassVar[float] = 0.0

    def recipe(self, name: str) -> ClassifyRecipe:
        """What its preset trains."""
        data, fine_tune = ExampleData(vocabulary=self.vocabulary), ClassifyFineTune(auxiliary=0.0, epochs=self.epochs)
        return ClassifyRecipe(family=name, data=data, fine_tune=fine_tune, model=self.sizes())

    def training(self, usual: TrainConfig, recipe: ClassifyRecipe) -> TrainConfig:
        """Weights that begin at zero can be learned at a high rate."""
        return replace(usual, learning_rate=self.rate, weight_decay=self.decay)

    def known(self, data: ExampleData) -> dict[str, Any]:
        """What is known beside the examples, and laid down with them."""
        return {}

    def processor(self, texts: Iterable[str], data: ExampleData) -> WordTokenizer:
        """The words that it knows."""
        return WordTokenizer.train(texts, data.vocabulary, lowercase=data.lowercase)

    def build(self, config: Any, processor: WordTokenizer, train: Any, names: tuple[str, ...]) -> nn.Module:
        """The model, with all in it that is counted and not learned; `train` are the stored rows."""
        raise NotImplementedError


class BagOfWords(WordFamily):
    """Counts or TF-IDF of words, and of pairs of neighbours."""

    network, sizes = BagClassifier, BagConfig
    title = "A bag-of-words classifier"
    about = "A bag of words: which words are in a text, and how often, whatever their order"

    def recipe(self, name: str) -> ClassifyRecipe:
        return replace(super().recipe(name), model=BagConfig(weighting="binary", least=1))

    def training(self, usual: TrainConfig, recipe: ClassifyRecipe) -> TrainConfig:
        """Weights that begin as those of naive Bayes need but little mending."""
        usual = super().training(usual, recipe)
        known = begins_as_naive_bayes(recipe.model) and not recipe.data.regression
        return replace(usual, learning_rate=1e-3) if known else usual

    def build(self, config: BagConfig, processor: WordTokenizer, train: Any, names: tuple[str, ...]) -> BagClassifier:
        config = replace(config, vocabulary=len(processor))
        pairs = np.zeros((0, 2)) if config.ngrams < 2 else neighbours(train["ids"], config)
        if config.ngrams > 1 and not len(pairs):
            warn(f"no two words stand side by side {config.least} times in these texts; words alone are counted")
        config = replace(config, bigrams=len(pairs) or None, ngrams=2 if len(pairs) else 1)
        model = BagClassifier(config, names)
        model.pairs.copy_(torch.from_numpy(pairs))
        model.idf.copy_(inverse_document_frequency(len(train), texts_having(model, train["ids"])))
        if begins_as_naive_bayes(config) and names:
            having, texts = texts_of_labels_having(model, train)
            for own, found in zip((model.table, model.bias), naive_bayes(having, texts)):
                own.data.copy_(found)
        beside = f" and {len(pairs):,} pairs of neighbours" if len(pairs) else ""
        say(f"the bag has {config.vocabulary - FIRST_WORD:,} words{beside}")
        return model


class Lexicon(WordFamily):
    """The lecture's six features."""

    network, sizes = LexiconClassifier, LexiconConfig
    title = "A lexicon classifier"
    about = (
        "Logistic regression over six features: words of a positive and of a negative lexicon, whether there is a "
        '"no",\npronouns of the first and second person, whether there is a "!", and the logarithm of the length'
    )
    rate = 0.03

    def recipe(self, name: str) -> ClassifyRecipe:
        usual = super().recipe(name)
        return replace(usual, data=replace(usual.data, vocabulary=len(self.processor((), usual.data))))

    def known(self, data: ExampleData) -> dict[str, Any]:
        return {"kinds": kinds_of_words(read_lexicon(data.lexicon))}

    def processor(self, texts: Iterable[str], data: ExampleData) -> WordTokenizer:
        return WordTokenizer.of(self.known(data)["kinds"])

    def build(
        self, config: LexiconConfig, processor: WordTokenizer, train: Any, names: tuple[str, ...]
    ) -> LexiconClassifier:
        model = LexiconClassifier(replace(config, vocabulary=len(processor)), names)
        for word, kinds in train.about["kinds"].items():
            model.kinds[processor.id_of(word), kinds] = 1.0
        counts = (f"{int(model.kinds[:, KINDS.index(kind)].sum()):,} {kind}" for kind in ("positive", "negative"))
        say(f"the lexicon has {' and '.join(counts)} words")
        return model


WORD_FAMILIES: dict[str, WordFamily] = {"bag": BagOfWords(), "lexicon": Lexicon()}


def begins_as_naive_bayes(config: BagConfig) -> bool:
    """Whether its weights are of words themselves, and so of what naive Bayes counts."""
    return config.weighting == "binary" and not config.layers


def neighbours(rows: Ragged, config: BagConfig) -> np.ndarray:
    """[pairs, 2]: the ids of words that stand side by side often enough, the commonest, in order of ids."""
    vocabulary, most = config.vocabulary, config.bigrams
    flat = rows.flat.astype(np.int64)
    inside = np.ones(max(len(flat) - 1, 0), dtype=bool)
    inside[(rows.offsets[1:-1] - rows.offsets[0] - 1).clip(0)] = False  # the last word of a text, and the next's first
    first, second = flat[:-1], flat[1:]
    real = inside & (first >= FIRST_WORD) & (second >= FIRST_WORD)
    keys, counts = np.unique(first[real] * vocabulary + second[real], return_counts=True)
    keys, counts = keys[counts >= config.least], counts[counts >= config.least]
    if most is not None and most < len(keys):
        keys = np.sort(keys[np.argsort(-counts, kind="stable")[:most]])
    return np.stack([keys // vocabulary, keys % vocabulary], axis=1).astype(np.float32)


def texts_of_labels_having(model: BagClassifier, train: Any) -> tuple[Tensor, Tensor]:
    """[labels, features]: how many texts of each label have each feature; and [labels], how many there are."""
    labels = torch.as_tensor(np.asarray(train["labels"]))
    places = [(labels == each).nonzero()[:, 0].tolist() for each in range(len(model.names))]
    return torch.stack([texts_having(model, train["ids"], each) for each in places]), torch.tensor([*map(len, places)])


def texts_having(model: BagClassifier, rows: Ragged, chosen: list[int] | None = None) -> Tensor:
    """How many of the texts, or of those chosen, have each feature."""
    having = torch.zeros(model.table.shape[0], dtype=torch.long)
    chosen = list(range(len(rows))) if chosen is None else chosen
    for places in grouped([int(rows.lengths[each]) for each in chosen], AT_ONCE):
        features, counts = model.counts(*padded([rows[chosen[place]] for place in places]))
        having += features[counts > 0].bincount(minlength=len(having))
    return having
