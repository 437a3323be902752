"""Training to classify: decoders as GPT-1 (Radford et al. 2018, sections 3.2 and 3.3), encoders as BERT; bags."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from manyheads.core.errors import ConfigError, DataError
from manyheads.data.readers.examples import Example
from manyheads.interop.directory import load_model
from manyheads.interop.families import kinds_on
from manyheads.models.classifier import DecoderClassifier
from manyheads.models.heads import EncoderClassifier
from manyheads.tasks.card import model_card
from manyheads.tasks.classify.data import read_all, store_examples, with_marks
from manyheads.tasks.classify.recipe import FAMILIES, ClassifyFineTune, ClassifyRecipe, ExampleData
from manyheads.tasks.classify.words import WORD_FAMILIES
from manyheads.tasks.fine_tuning import ENCODERS, RECURRENT, FineTuning, presets_of
from manyheads.tasks.labelled import Split, Wrapping
from manyheads.tasks.language import training as language
from manyheads.tasks.task import Asked, refuse_other_family
from manyheads.text.encoder import EncoderTokenizer
from manyheads.text.language import LanguageTokenizer
from manyheads.text.words import WordTokenizer
from manyheads.train.config import TrainConfig
from manyheads.train.objectives import Loss, classification_loss, compared

LARGE = 512  # the width from which on a pre-trained decoder is fine-tuned as gently as published
SHORTEST = 5  # tokens that hold two texts and the marks around them
DECODERS = {sizes: name for name, (_, sizes) in language.MODELS.items()}
WORDS = {name: (family.network, family.sizes) for name, family in WORD_FAMILIES.items()}
MODELS = {**language.MODELS, **{name: found[:2] for name, found in ENCODERS.items()}, **WORDS}

OPENED_ELSEWHERE = """ and, where `config.json` says bert, gpt2, openai-gpt
or llama, transformers' `AutoModelForSequenceClassification`"""


class Classification(FineTuning):
    """From labelled texts to a classifier."""

    Recipe = ClassifyRecipe
    unit = "examples"
    encoders = tuple(ENCODERS)
    presets = (*presets_of(encoders), *language.PRESETS, *WORD_FAMILIES)
    from_processor = ("vocabulary", "separator", "end")
    pooler = True

    def __init__(self, recipe: ClassifyRecipe):
        super().__init__(recipe)
        self.network, self.words = MODELS[recipe.family][0], WORD_FAMILIES.get(recipe.family)
        self.Processor = WordTokenizer if self.words else EncoderTokenizer if self.encoder else LanguageTokenizer
        self.metrics = ("pearson", "loss") if recipe.data.regression else ("accuracy", "loss")

    @classmethod
    def sized(cls, asked: Asked) -> ClassifyRecipe:
        if asked.pre_trained:
            sizes = _load(Path(asked.pre_trained))[0].config
            on = cls.on_decoder if type(sizes) in DECODERS else cls.on_encoder
            return on(sizes, trained=True)
        return super().sized(asked)

    @classmethod
    def preset(cls, name: str) -> ClassifyRecipe:
        if name in WORD_FAMILIES:
            return WORD_FAMILIES[name].recipe(name)
        if name in language.PRESETS:
            usual = language.TASK.preset(name)
            return replace(cls.on_decoder(usual.model), data=ExampleData(vocabulary=usual.data.vocabulary))
        return super().preset(name)

    @classmethod
    def blank(cls, table: dict[str, Any]) -> ClassifyRecipe:
        family = str(table.get("family", "bert"))
        if family in WORD_FAMILIES:
            return WORD_FAMILIES[family].recipe(family)
        refuse_other_family(family, MODELS[family][1]() if family in MODELS else None, FAMILIES)
        return super().blank(table) if family in ENCODERS else cls.on_decoder(MODELS[family][1]())

    @classmethod
    def on_encoder(cls, sizes: Any, *, trained: bool = False) -> ClassifyRecipe:
        recipe = super().on_encoder(sizes, trained=trained)
        return replace(recipe, fine_tune=replace(recipe.fine_tune, auxiliary=0.0))

    @classmethod
    def on_decoder(cls, sizes: Any, *, trained: bool = False) -> ClassifyRecipe:
        """The recipe with a language model of these sizes."""
        family, usual = DECODERS[type(sizes)], ClassifyFineTune()
        if family in RECURRENT:
            # The one state that is read must keep the whole text, not what comes next: both at once taught neither.
            epochs = usual.epochs if trained else RECURRENT[family][0]
            return ClassifyRecipe(family=family, model=sizes, fine_tune=ClassifyFineTune(auxiliary=0.0, epochs=epochs))
        return ClassifyRecipe(family=family, model=sizes)

    def count(self, examples: Split[Example]) -> tuple[int, str]:
        return len(examples.train), self.metrics[0]

    def usual_training(self) -> TrainConfig:
        usual = super().usual_training()
        return self.words.training(usual, self.recipe) if self.words else usual

    def rate(self) -> float:
        recipe = self.recipe
        if self.encoder or self.recurrent or recipe.fine_tune.freeze:
            return super().rate()
        return 6.25e-5 if recipe.fine_tune.model is not None and recipe.model.width >= LARGE else 5e-4

    def check(self) -> None:
        if (self.encoder or self.words) and self.recipe.fine_tune.auxiliary:
            raise ConfigError("fine_tune.auxiliary is for language models; other models have no loss of the text's own")
        super().check()

    def load_body(self, path: Path) -> tuple[Any, Any]:
        body, processor = _load(path)
        return body, with_marks(processor) if isinstance(processor, LanguageTokenizer) else processor

    def read(self) -> Split[Example]:
        if self.words:
            return self._read_texts(self.words.known(self.recipe.data))
        context = self.recipe.model.context
        if context < SHORTEST:
            raise ConfigError(f"model.context is {context}, which leaves no place for a text; raise it")
        return read_all(self.recipe.data, self.recipe.train.seed)

    def _read_texts(self, known: dict[str, Any]) -> Split[Example]:
        """For a family that counts the words of one text, with what it knows beside the examples."""
        found = read_all(self.recipe.data, self.recipe.train.seed)
        if found.about["form"] != "text":
            raise DataError(
                f"these examples are of the form {found.about['form']}, but --preset {self.recipe.family} counts the "
                "words of one text; choose another preset"
            )
        return replace(found, about={**found.about, **known})

    def texts(self, examples: Split[Example]) -> Iterable[str]:
        return (text.strip() for example in examples.train for text in example.texts)

    def train_processor(self, examples: Split[Example]) -> Any:
        if self.words:
            return self.words.processor(self.texts(examples), self.recipe.data)
        if self.encoder:
            return super().train_processor(examples)
        return with_marks(LanguageTokenizer.train(self.texts(examples), self.recipe.data.vocabulary))

    def store(self, examples: Split[Example], directory: Path) -> None:
        wrapping = Wrapping(self.processor, getattr(self.recipe.model, "context", None))
        store_examples(examples, wrapping, self.recipe.data.regression, directory)

    def open(self, directory: Path) -> None:
        super().open(directory)
        self.form, self.names = self.train.about["form"], tuple(self.train.about["names"])

    def build(self, body: Any) -> nn.Module:
        if self.words:
            return self.words.build(self.recipe.model, self.processor, self.train, self.names)
        return super().build(body)

    def body(self, pre_trained: Any) -> nn.Module:
        if self.encoder:
            return super().body(pre_trained)
        config = self.recipe.model
        end = self.processor.end if config.end is None else config.end
        config = replace(config, vocabulary=max(config.vocabulary, len(self.processor)), end=end)
        return self.network(config) if pre_trained is None else resized(pre_trained, config)

    def on_top(self, body: Any) -> nn.Module:
        return (EncoderClassifier if self.encoder else DecoderClassifier)(body, self.names, self.form)

    def loss(self, model: nn.Module, batch: Any) -> Loss:
        fine_tune = self.recipe.fine_tune
        # A frozen language model has nothing to learn from its own loss.
        return classification_loss(model, batch, auxiliary=0.0 if fine_tune.freeze else fine_tune.auxiliary)

    def scores(self, model: nn.Module, batch: Any) -> Tensor:
        return compared(model(batch.ids, batch.lengths), batch.candidates).float()

    def correlations(self, predicted: Tensor, truth: Tensor) -> dict[str, float]:
        pearson = torch.corrcoef(torch.stack([predicted, truth]).double())[0, 1].nan_to_num(0.0)
        return {"pearson": 100 * float(pearson)}

    def card(self, which: str, scores: dict[str, float]) -> str:
        if self.words:
            return self._card_of_words(which, scores, self.words.title, self.words.about)
        start, between, behind = (
            ("[CLS]", "[SEP]", "[SEP]") if self.encoder else ("<start>", "<delimiter>", "<extract>")
        )
        shape = {
            "text": f"`{start} text {behind}`",
            "pair": f"`{start} text {between} text {behind}`",
            "choice": f"`{start} context {between} choice {behind}`, once for each choice",
        }[self.form]
        labels = f"Its labels are {', '.join(self.names)}." if self.names else "It gives a number."
        labels = "It says which choice fits its context best." if self.form == "choice" else labels
        also = OPENED_ELSEWHERE if self.family in ("bert", "gpt", "llama") else ""
        about = f"""
{self._made_of()}, trained on {len(self.train):,} examples;
these are its weights {which}. It reads
{shape}. {labels}
`manyheads classify` and `manyheads.Classifier`{also} open this directory.
"""
        return self._card("A classifier", about, scores)

    def _made_of(self) -> str:
        """The model and its head, and whose idea that was."""
        if self.family == "bert":
            return "An encoder with one linear layer on the vector of its first token, as BERT (Devlin et al. 2019)"
        if self.encoder:
            return (
                "A recurrent network in two directions with one linear layer on what is largest in the states of its\n"
                "tokens (Conneau et al. 2017)"
            )
        body, like = language.MADE_OF[self.family], "" if self.recurrent else ", as GPT-1 (Radford et al. 2018)"
        return f"A {body} with one linear layer on the state of its last token{like}"

    def _card_of_words(self, which: str, scores: dict[str, float], title: str, what: str) -> str:
        labels = f"Its labels are {', '.join(self.names)}." if self.names else "It gives a number."
        about = f"""
{what}, trained on {len(self.train):,} examples; these are its weights {which}. {labels}
`manyheads classify` and `manyheads.Classifier` open this directory.
"""
        return self._card(title, about, scores)

    def _card(self, title: str, about: str, scores: dict[str, float]) -> str:
        meaning = """
Accuracy and correlation are in percent; loss is the negative log-likelihood of a label, or the squared error of a
number.
"""
        tag = "text-classification"
        return model_card(self.recipe, scores, pipeline_tag=tag, title=title, about=about, meaning=meaning)


def _load(path: Path) -> tuple[Any, EncoderTokenizer | LanguageTokenizer]:
    """A pre-trained model, without what stands on top of it, and its tokenizer."""
    decoders, encoders = ([MODELS[name][0] for name in names] for names in (language.MODELS, ENCODERS))
    model, tokenizer = load_model(path, kinds=(*decoders, *kinds_on(*encoders)))
    return getattr(model, "body", model), tokenizer


@torch.no_grad()
def resized(model: Any, config: Any) -> Any:
    """The same model by a config with more tokens, or another dropout; new rows are as those of an untrained model."""
    if config == model.config:
        return model
    larger, weights = type(model)(config), model.state_dict()
    for name, tensor in larger.state_dict().items():
        tensor[: len(weights[name])].copy_(weights[name])
    return larger


TASK = Classification
