"""Training a Transformer to write trees, as Vinyals et al. (2015) and Vaswani et al. (2017, section 6.3) did."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import nn

from manyheads.core.errors import ConfigError
from manyheads.core.log import say
from manyheads.core.words import counted
from manyheads.data.batches import Batches
from manyheads.data.pairs import pair_batches, pair_store
from manyheads.data.ragged import Store
from manyheads.data.readers.trees import trees_of
from manyheads.data.trees import Tree
from manyheads.models.transformer import PRESETS, Transformer
from manyheads.tasks.brackets.data import Symbols, train_tokenizer
from manyheads.tasks.brackets.recipe import BracketRecipe
from manyheads.tasks.brackets.use import written_trees
from manyheads.tasks.card import model_card
from manyheads.tasks.labelled import Split
from manyheads.tasks.parse.data import read_all, text_of
from manyheads.tasks.parse.evalb import evalb
from manyheads.tasks.task import Task
from manyheads.tasks.translate.use import mean_loss
from manyheads.text.tokenizer import Tokenizer
from manyheads.train.config import TrainConfig
from manyheads.train.objectives import Loss, translation_loss

PARTS = ("train", "valid")


class Writing(Task):
    """From trees to a Transformer that writes others."""

    Recipe = BracketRecipe
    Processor = Tokenizer
    network = Transformer
    metrics = ("f1", "exact", "loss")
    from_processor = ("vocabulary", "pad", "start", "end")
    presets = tuple(PRESETS)
    usual_preset = "transformer_tiny"
    own_data = ("trees",)

    @classmethod
    def sample(cls) -> BracketRecipe:
        """The sample's trees, learned in minutes on two cores."""
        return cls.preset("transformer_tiny", steps=1500, dropout=0.1)

    @classmethod
    def preset(cls, name: str, steps: int = 6000, dropout: float = 0.3) -> BracketRecipe:
        if name not in PRESETS:
            raise ConfigError(f"there is no preset {name}; there are {', '.join(PRESETS)}")
        train = TrainConfig(
            steps=steps, optimizer="muon", learning_rate=2e-3, schedule="cosine", warmup=200, best_by="f1",
            valid_every=500, checkpoint_every=500,
        )  # fmt: skip
        return BracketRecipe(model=replace(PRESETS[name](), dropout=dropout), train=train)

    def read(self) -> Split[Tree]:
        return read_all(self.recipe.data, self.recipe.train.seed)

    def train_processor(self, examples: Split[Tree]) -> Tokenizer:
        return train_tokenizer(examples.train, self.recipe.data.vocabulary)

    def store(self, examples: Split[Tree], directory: Path) -> None:
        symbols = Symbols.of(self.processor)
        assert symbols is not None
        for part, trees in zip(PARTS, (examples.train, examples.valid)):
            texts = self.processor.encode([text_of(tree.texts) for tree in trees])
            store = pair_store(texts, [symbols.row(tree) for tree in trees])
            store.about = {} if part == "train" else {"trees": list(map(str, trees))}
            store.save(directory / part)
        trees = counted(len(examples.train), "tree")
        say(f"{trees} to learn from, {len(examples.valid):,} to validate on, {len(symbols.opening)} labels")

    def open(self, directory: Path) -> None:
        self.train, self.valid = (Store.open(directory / part) for part in PARTS)
        self.symbols = Symbols.of(self.processor)
        self.truth = trees_of(self.valid.about["trees"], directory / "valid")

    def batches_of(self, store: Store, *, seed: int, shuffle: bool) -> Batches:
        tokens, pad = self.recipe.data.batch_tokens, self.processor.pad
        return pair_batches(store, tokens=tokens, pad=pad, seed=seed, shuffle=shuffle)

    def loss(self, model: nn.Module, batch: Any) -> Loss:
        return translation_loss(model, batch, smoothing=self.recipe.train.smoothing)

    def validate(self, model: Any) -> dict[str, float]:
        """Negative log-likelihood of a token, and what EVALB counts of greedy search."""
        assert self.symbols is not None
        rows = [row.tolist() for row in self.valid["source"]]
        words = [tree.texts for tree in self.truth]
        told = evalb(self.truth, written_trees(model, self.symbols, rows, words, beam=1))
        return {"loss": mean_loss(model, self.valid_batches()), "f1": told.f1, "exact": told.exact}

    def card(self, which: str, scores: dict[str, float]) -> str:
        about = f"""
A Transformer (Vaswani et al. 2017) that parses by writing the brackets of a tree (Vinyals et al. 2015), trained on
{len(self.train):,} trees; these are its weights {which}.
`manyheads parse` opens this directory, and writes nothing but trees over the words that it is given.
"""
        meaning = """
F1 of labelled constituents and whole trees right (exact) are in percent, counted as EVALB does with COLLINS.prm; loss
is the negative log-likelihood of a token.
"""
        return model_card(self.recipe, scores, pipeline_tag="text2text-generation", title="A parser", about=about,
                          meaning=meaning)  # fmt: skip


TASK = Writing
