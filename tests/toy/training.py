"""How a model that reverses lines is trained."""

from manyheads.data.pairs import pair_batches, pair_store
from manyheads.data.ragged import Store
from manyheads.models.transformer import Transformer, TransformerConfig
from manyheads.tasks.card import model_card
from manyheads.tasks.task import Task
from manyheads.tasks.translate.use import mean_loss
from manyheads.text.tokenizer import Tokenizer
from manyheads.train.config import TrainConfig
from manyheads.train.objectives import translation_loss
from toy.data import read_pairs
from toy.recipe import ReverseRecipe


class Reversal(Task):
    """From lines to a model that writes them backwards."""

    Recipe, Processor, network, metrics = ReverseRecipe, Tokenizer, Transformer, ("loss",)
    from_processor = ("vocabulary", "pad", "start", "end")

    @classmethod
    def begin(cls, asked):
        model = TransformerConfig(width=32, layers=1, heads=2, inner=48, dropout=0.0)
        rates = {"warmup": 20, "learning_rate": 0.01, "schedule": "cosine", "smoothing": 0.0}
        return ReverseRecipe(model=model, train=TrainConfig(steps=200, valid_every=50, best_by="loss", **rates))

    def read(self):
        pairs = read_pairs(self.recipe.data.lines)
        return {"train": [pair for place, pair in enumerate(pairs) if place % 10], "valid": pairs[::10]}

    def train_processor(self, examples):
        return Tokenizer.train((line for pair in examples["train"] for line in pair), 300)

    def store(self, examples, directory):
        for part, pairs in examples.items():
            pair_store(*(self.processor.encode([pair[side] for pair in pairs]) for side in (0, 1))).save(
                directory / part
            )

    def open(self, directory):
        self.train, self.valid = (Store.open(directory / part) for part in ("train", "valid"))

    def batches_of(self, store, **order):
        return pair_batches(store, tokens=self.recipe.data.batch_tokens, pad=self.processor.pad, **order)

    def loss(self, model, batch):
        return translation_loss(model, batch)

    def validate(self, model):
        return {"loss": mean_loss(model, self.valid_batches())}

    def card(self, which, scores):
        about = f"It writes lines backwards, as it learned from {len(self.train)}; these are its weights {which}."
        names = {"pipeline_tag": "text2text-generation", "title": "A reverser", "meaning": "Loss is by token."}
        return model_card(self.recipe, scores, about=about, **names)


TASK = Reversal
