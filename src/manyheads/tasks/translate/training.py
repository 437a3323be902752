"""Training a translator: its presets, its objective and its metric."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import nn

from manyheads.core.errors import ConfigError, DataError
from manyheads.data.batches import Batches
from manyheads.data.pairs import pair_batches, pair_store
from manyheads.data.ragged import Store
from manyheads.data.readers.corpus import read_pairs
from manyheads.models import conv, rnn_translator, transformer
from manyheads.models.conv import ConvSeq2Seq, ConvSeq2SeqConfig
from manyheads.models.rnn_translator import RNNTranslator, RNNTranslatorConfig
from manyheads.models.transformer import Transformer, TransformerConfig, transformer_tiny
from manyheads.tasks.card import model_card
from manyheads.tasks.task import Asked, Task
from manyheads.tasks.translate.data import Corpus, corpus_of, store_pairs, train_tokenizer
from manyheads.tasks.translate.recipe import PairData, TranslateRecipe
from manyheads.tasks.translate.use import decode_all, mean_loss, most_tokens, score
from manyheads.text.tokenizer import Tokenizer
from manyheads.train.config import TrainConfig
from manyheads.train.objectives import Loss, translation_loss

FAMILIES = {"transformer": transformer.PRESETS, "conv": conv.TRANSLATION_PRESETS, "rnn": rnn_translator.PRESETS}
PRESETS = {name: sizes for presets in FAMILIES.values() for name, sizes in presets.items()}
MODELS = {
    "transformer": (Transformer, TransformerConfig),
    "conv": (ConvSeq2Seq, ConvSeq2SeqConfig),
    "rnn": (RNNTranslator, RNNTranslatorConfig),
}
RATES = {"conv": 1e-3, "rnn": 2e-3}  # the peaks of those that are trained alike
MADE_OF = {
    "transformer": "Transformer (Vaswani et al. 2017)",
    "conv": "of convolutions with attention in each layer (Gehring et al. 2017)",
    "context": "of recurrent networks (the encoder's last states are all that the decoder sees, as in Cho et al. 2014)",
    "bahdanau": "of recurrent networks (with the additive attention of Bahdanau et al. 2015)",
    "dot": "of recurrent networks (with the dot-product attention of Luong et al. 2015)",
}
EPOCHS = 100  # at most, of presets; the small need more than the large, which end by their steps


class Translation(Task):
    """From sentence pairs to a translator."""

    Recipe = TranslateRecipe
    Processor = Tokenizer
    metrics = ("bleu", "loss")
    from_processor = ("vocabulary", "pad", "start", "end")
    presets = tuple(PRESETS)
    usual_preset = "transformer_small"
    own_data = ("source", "pairs")

    def __init__(self, recipe: TranslateRecipe):
        super().__init__(recipe)
        self.network = MODELS[recipe.family][0]

    @classmethod
    def begin(cls, asked: Asked) -> TranslateRecipe:
        return cls.blank(asked.table) if "family" in asked.table and not asked.preset else super().begin(asked)

    @classmethod
    def blank(cls, table: dict[str, Any]) -> TranslateRecipe:
        family = str(table.get("family", "transformer"))
        return TranslateRecipe(family=family, model=MODELS[family][1]() if family in MODELS else None)

    @classmethod
    def sample(cls) -> TranslateRecipe:
        """The sample corpus, learned within three minutes on two cores."""
        train = TrainConfig(
            steps=1500, warmup=300, learning_rate=3e-3, schedule="cosine", valid_every=500, checkpoint_every=250
        )
        model = replace(transformer_tiny(), dropout=0.05)
        return TranslateRecipe(data=PairData(vocabulary=3000, batch_tokens=1000), model=model, train=train)

    @classmethod
    def preset(cls, name: str) -> TranslateRecipe:
        """A GPU's batches for base and big, a laptop's for the small ones."""
        if name not in PRESETS:
            raise ConfigError(f"there is no preset {name}; there are {', '.join(PRESETS)}")
        model = PRESETS[name]()
        if name in ("transformer_base", "transformer_big"):
            steps = 100_000 if name == "transformer_base" else 300_000
            data = PairData(vocabulary=37_000, batch_tokens=25_000)
            return TranslateRecipe(data=data, model=model, train=TrainConfig(steps=steps, epochs=EPOCHS, average=5))
        family = next(family for family, presets in FAMILIES.items() if name in presets)
        if family in RATES:
            rates = {"warmup": 500, "learning_rate": RATES[family], "schedule": "cosine"}
            train = TrainConfig(steps=12_000, epochs=EPOCHS, valid_every=1000, patience=10, average=5, **rates)
            return TranslateRecipe(family=family, model=model, train=train)
        train = TrainConfig(steps=20_000, epochs=EPOCHS, warmup=2000, valid_every=1000, patience=10, average=5)
        return TranslateRecipe(model=model, train=train)

    def check(self) -> None:
        longest, most = self.recipe.data.longest, most_tokens(self.recipe.model)
        if longest > most:
            raise ConfigError(
                f"data.longest lets pairs of {longest} tokens in, but model.positions.length ends at {most}; lower the "
                "one or raise the other"
            )

    def read(self) -> Corpus:
        return corpus_of(self.recipe.data, self.recipe.train.seed)

    def train_processor(self, examples: Corpus) -> Tokenizer:
        return train_tokenizer(examples, self.recipe.data)

    def store(self, examples: Corpus, directory: Path) -> None:
        store_pairs(examples, self.processor, self.recipe.data, directory)

    def open(self, directory: Path) -> None:
        self.train = Store.open(directory / "train")
        pairs = list(read_pairs(pairs=[directory / "valid.jsonl"]))
        if not pairs:
            raise DataError(f"{directory / 'valid.jsonl'} is empty; copy it back or start anew with --overwrite")
        self.references = [target for _, target in pairs]
        self.sources = self.processor.encode([source for source, _ in pairs])
        self.valid = pair_store(self.sources, self.processor.encode(self.references))

    def batches_of(self, store: Store, **order: Any) -> Batches:
        return pair_batches(store, tokens=self.recipe.data.batch_tokens, pad=self.processor.pad, **order)

    def loss(self, model: nn.Module, batch: Any) -> Loss:
        return translation_loss(model, batch, smoothing=self.recipe.train.smoothing)

    def validate(self, model: Any) -> dict[str, float]:
        """Negative log-likelihood a token, and BLEU of greedy search."""
        loss = mean_loss(model, self.valid_batches())
        found = decode_all(model, self.sources, beam=1, scored=False)
        scores = score(self.processor.decode([beams[0].ids for beams in found]), self.references)
        bleu, self.signature = scores["BLEU"]
        return {"loss": loss, "bleu": bleu}

    def card(self, which: str, scores: dict[str, float]) -> str:
        pairs, made_of = len(self.train), MADE_OF[getattr(self.recipe.model, "sees", self.recipe.family)]
        about = f"""
An encoder-decoder {made_of}, trained on {pairs:,} sentence pairs;
these are its weights {which}. `manyheads translate`, `manyheads.Translator` and, where `config.json` says
`"model_type": "marian"`, `transformers.MarianMTModel` and CTranslate2 open this directory.
"""
        meaning = f"BLEU is of greedy search (`{self.signature}`); loss is the negative log-likelihood of a token."
        tag, title = "translation", "A translator"
        return model_card(self.recipe, scores, pipeline_tag=tag, title=title, about=about, meaning=meaning)


TASK = Translation
