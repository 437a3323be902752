"""Training to classify: decoders as GPT-1 (Radford et al. 2018, sections 3.2 and 3.3), encoders as BERT; bags."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from manyheads.core.errors import ConfigError, DataError
from manyheads.data.readers.examples import Example
from manyheads.interop.directory import ENCODERS, load_model
from manyheads.models import bert
from manyheads.models.bert import Bert, BertClassifier, BertConfig
from manyheads.models.classifier import DecoderClassifier
from manyheads.models.gpt import GPT, GPTConfig
from manyheads.models.llama import Llama, LlamaConfig
from manyheads.tasks.card import model_card
from manyheads.tasks.classify.data import read_all, store_examples, with_marks
from manyheads.tasks.classify.recipe import FAMILIES, ClassifyFineTune, ClassifyRecipe, ExampleData
from manyheads.tasks.classify.words import WORD_FAMILIES
from manyheads.tasks.fine_tuning import FineTuning
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
WORDS = {name: (family.network, family.sizes) for name, family in WORD_FAMILIES.items()}
MODELS = {**language.MODELS, "bert": (Bert, BertConfig), **WORDS}
PRESETS = (*bert.PRESETS, *language.PRESETS, *WORD_FAMILIES)
SMALLEST = "bert_tiny"


class Classification(FineTuning):
    """From labelled texts to a classifier."""

    Recipe = ClassifyRecipe
    presets = PRESETS
    pooler = True

    def __init__(self, recipe: ClassifyRecipe):
        super().__init__(recipe)
        self.encoder, self.network = recipe.family == "bert", MODELS[recipe.family][0]
        self.words = WORD_FAMILIES.get(recipe.family)
        self.Processor = WordTokenizer if self.words else EncoderTokenizer if self.encoder else LanguageTokenizer
        self.from_processor = ("vocabulary", *(() if self.words else ("separator" if self.encoder else "end",)))
        self.metrics = ("pearson", "loss") if recipe.data.regression else ("accuracy", "loss")

    @classmethod
    def sized(cls, asked: Asked) -> ClassifyRecipe:
        if asked.pre_trained:
            body = _load(Path(asked.pre_trained))[0]
            if isinstance(body, Bert):
                return _encoder(replace(body.config, separator=None))
            family = next(name for name, (kind, _) in MODELS.items() if isinstance(body, kind))
            return ClassifyRecipe(family=family, model=body.config)
        if "family" in asked.table and not asked.preset:
            return cls.blank(asked.table)
        name = asked.preset or SMALLEST
        if name in bert.PRESETS:
            return _encoder(bert.PRESETS[name]())
        if name in WORD_FAMILIES:
            return WORD_FAMILIES[name].recipe(name)
        if name not in language.PRESETS:
            raise ConfigError(f"there is no preset {name}; there are {', '.join(PRESETS)}")
        usual = language.TASK.preset(name)
        data = ExampleData(vocabulary=usual.data.vocabulary)
        return ClassifyRecipe(family=usual.family, data=data, model=usual.model)

    @classmethod
    def blank(cls, table: dict[str, Any]) -> ClassifyRecipe:
        family = str(table.get("family", "bert"))
        if family == "bert":
            return _encoder(BertConfig())
        if family in WORD_FAMILIES:
            return WORD_FAMILIES[family].recipe(family)
        model = MODELS[family][1]() if family in MODELS else None
        refuse_other_family(family, model, FAMILIES)
        return ClassifyRecipe(family=family, model=model)

    def count(self, examples: Split[Example]) -> tuple[int, str]:
        return len(examples.train), self.metrics[0]

    def usual_training(self) -> TrainConfig:
        usual = super().usual_training()
        return self.words.training(usual) if self.words else usual

    def rate(self) -> float:
        recipe = self.recipe
        if self.encoder or recipe.fine_tune.freeze:
            return super().rate()
        return 6.25e-5 if recipe.fine_tune.model is not None and recipe.model.width >= LARGE else 5e-4

    def check(self) -> None:
        if (self.encoder or self.words) and self.recipe.fine_tune.auxiliary:
            raise ConfigError("fine_tune.auxiliary is for gpt and llama; other models have no language model's loss")
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
        config: GPTConfig | LlamaConfig = self.recipe.model
        end = self.processor.end if config.end is None else config.end
        config = replace(config, vocabulary=max(config.vocabulary, len(self.processor)), end=end)
        return self.network(config) if pre_trained is None else resized(pre_trained, config)

    def on_top(self, body: Any) -> nn.Module:
        return (BertClassifier if self.encoder else DecoderClassifier)(body, self.names, self.form)

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
        what = (
            "An encoder with one linear layer on the vector of its first token, trained on {} examples as BERT was "
            "fine-tuned\n(Devlin et al. 2019)"
            if self.encoder
            else "A decoder-only Transformer with one linear layer on the state of its last token, trained on {} "
            "examples as\nGPT-1 was fine-tuned (Radford et al. 2018)"
        ).format(f"{len(self.train):,}")
        about = f"""
{what}; these are its weights {which}. It reads
{shape}. {labels}
`manyheads classify`, `manyheads.Classifier` and, where `config.json` says bert, gpt2, openai-gpt or llama,
transformers' `AutoModelForSequenceClassification` open this directory.
"""
        return self._card("A classifier", about, scores)

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


def _encoder(config: BertConfig) -> ClassifyRecipe:
    return ClassifyRecipe(fine_tune=ClassifyFineTune(auxiliary=0.0), model=config)


def _load(path: Path) -> tuple[Bert | GPT | Llama, EncoderTokenizer | LanguageTokenizer]:
    """A pre-trained model, without what stands on top of it, and its tokenizer."""
    model, tokenizer = load_model(path, kinds=(GPT, Llama, *ENCODERS))
    return (getattr(model, "body", model) if isinstance(tokenizer, EncoderTokenizer) else model), tokenizer


@torch.no_grad()
def resized(model: GPT | Llama, config: GPTConfig | LlamaConfig) -> GPT | Llama:
    """The same model by a config with more tokens, or another dropout; new rows are as those of an untrained model."""
    if config == model.config:
        return model
    larger, weights = type(model)(config), model.state_dict()  # type: ignore
    for name, tensor in larger.state_dict().items():
        tensor[: len(weights[name])].copy_(weights[name])
    return larger


TASK = Classification
