"""Training a parser on a treebank, as Kitaev and Klein (2018) did; but its loss is the likelihood of the whole tree."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from torch import nn

from manyheads.data.ragged import Store
from manyheads.data.trees import Span, Tree, Word, tree_of
from manyheads.models.parser import SpanParser
from manyheads.tasks.card import model_card
from manyheads.tasks.fine_tuning import FineTuning
from manyheads.tasks.labelled import Split
from manyheads.tasks.parse.data import read_all, store_trees, text_of, tree_batches
from manyheads.tasks.parse.evalb import evalb
from manyheads.tasks.parse.recipe import ParseRecipe
from manyheads.tasks.parse.use import best_spans, expected_gains
from manyheads.train.objectives import Loss, parsing_loss, tree_loss


class Parsing(FineTuning):
    """From trees to a parser."""

    Recipe = ParseRecipe
    unit = "words"
    metrics = ("f1", "exact", "tagging", "loss")

    def count(self, examples: Split[Tree]) -> tuple[int, str]:
        return len(examples.train), self.metrics[0]

    def read(self) -> Split[Tree]:
        return read_all(self.recipe.data, self.recipe.train.seed)

    def texts(self, examples: Split[Tree]) -> Iterable[str]:
        return (text_of(tree.texts) for tree in examples.train)

    def store(self, examples: Split[Tree], directory: Path) -> None:
        store_trees(examples, self.processor, self.recipe.model.context, directory)

    def open(self, directory: Path) -> None:
        super().open(directory)
        self.names, self.tags = (tuple(self.train.about[name]) for name in ("names", "tags"))
        names, tags = (self.train.about[name] + self.train.about[f"{name}, valid"] for name in ("names", "tags"))
        self.truth = [_tree(self.valid, number, names, tags) for number in range(len(self.valid))]

    def batches_of(self, store: Store, *, seed: int, shuffle: bool) -> Any:
        return tree_batches(store, size=self.recipe.data.examples, seed=seed, shuffle=shuffle)

    def on_top(self, body: Any) -> SpanParser:
        return SpanParser(body, self.names, self.tags)

    def loss(self, model: nn.Module, batch: Any) -> Loss:
        return parsing_loss(model, batch)

    def validate(self, model: Any) -> dict[str, float]:
        """The negative log-likelihood of a sentence's tree, by word, and what EVALB counts of the best trees."""
        device = next(model.parameters()).device
        loss, words, found = torch.zeros((), device=device), 0, list(self.truth)
        batches = self.valid_batches()
        for numbers, batch in zip(batches.plan(0), batches.epoch(0)):
            batch = batch.to(device)
            states = model.states(batch.ids, batch.lengths)
            scores = model.span_scores(states, batch.before, batch.behind).float()
            loss = loss + tree_loss(scores, batch.labels, batch.words, batch.ways).detach()
            words += batch.target_tokens
            gains = expected_gains(scores, batch.words)
            tags = model.tag_scores(states, batch.behind).argmax(dim=-1).cpu()
            for number, spans, row in zip(numbers, best_spans(gains, batch.words, self.names), tags.tolist()):
                words_told = zip(row, self.truth[number].texts)
                found[number] = tree_of([Word(self.tags[tag], text) for tag, text in words_told], spans)
        told = evalb(self.truth, found)
        return {"loss": float(loss) / words, "f1": told.f1, "exact": told.exact, "tagging": told.tagging}

    def card(self, which: str, scores: dict[str, float]) -> str:
        about = f"""
A parser of constituents (Kitaev and Klein 2018): an encoder, the scores of each label for each span, and the tree that
they make likeliest, trained on {len(self.train):,} trees; these are its weights {which}.
It knows {len(self.names)} labels of spans, chains of several joined by +, and {len(self.tags)} tags of words.
`manyheads parse` and `manyheads.Parser` open this directory; transformers' `AutoModel` opens its encoder.
"""
        meaning = """
F1 of labelled constituents, whole trees right (exact) and words with the right tag (tagging) are in percent, counted as
EVALB does with COLLINS.prm; loss is the negative log-likelihood of a tree, by word.
"""
        return model_card(
            self.recipe, scores, pipeline_tag="token-classification", title="A parser", about=about, meaning=meaning
        )


def _tree(store: Store, number: int, names: list[str], tags: list[str]) -> Tree:
    """A tree as it was stored, with numbers in place of its words."""
    words = [Word(tags[tag], str(place)) for place, tag in enumerate(store["tags"][number].tolist())]
    spans = store["spans"][number].reshape(-1, 3).tolist()
    return tree_of(words, [Span(first, behind, names[label - 1]) for first, behind, label in spans])


TASK = Parsing
