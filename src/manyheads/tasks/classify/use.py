"""Classifiers: a model directory in, labels of texts out; how that is scored and looked into."""

import sys
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

import numpy as np
import torch
from torch import Tensor

from manyheads.core.errors import ConfigError, DataError
from manyheads.core.log import warn
from manyheads.core.words import counted
from manyheads.data.examples import candidates_of
from manyheads.data.readers.examples import ExampleFile
from manyheads.look.grid import of_numbers
from manyheads.look.walk import Section, Walk
from manyheads.models.bag import BagClassifier
from manyheads.models.bert import Bert
from manyheads.models.birnn import BiRNN
from manyheads.models.classifier import DecoderClassifier
from manyheads.models.heads import EncoderClassifier
from manyheads.models.lexicon import LexiconClassifier
from manyheads.tasks.classify.counted import walk_of_bag, walk_of_features
from manyheads.tasks.classify.data import parts_of, refuse_unknown
from manyheads.tasks.classify.recipe import Evaluation
from manyheads.tasks.inside.conclusions import concluded, probabilities
from manyheads.tasks.inside.forward import ForwardPass, one_forward, refuse_long, refuse_no_second, refuse_second
from manyheads.tasks.inside.importance import Measure
from manyheads.tasks.labelled import (
    EncoderPredictor,
    Label,
    Wrapping,
    as_number,
    draw_reliability,
    example_files,
    outputs_of,
)
from manyheads.tasks.metrics import Scores, label_scores, label_table, number_scores, number_table
from manyheads.tasks.proofs.selfcheck import Finding, same_decoder_logits, same_scores_of_words
from manyheads.tasks.task import Predictor
from manyheads.tasks.texts import is_sequence, listed
from manyheads.text.encoder import EncoderTokenizer
from manyheads.text.language import LanguageTokenizer
from manyheads.text.words import WordTokenizer
from manyheads.train.objectives import compared

# Bodies of classifiers, and how the states of a text become its scores.
READ: dict[type, tuple[str, str]] = {
    Bert: (
        "One linear layer over the state of the first token, which goes through BERT's pooler before",
        "tanh(x W_p + b_p) W + b",
    ),
    BiRNN: ("One linear layer over what is largest, of each number, in the states of all tokens", "max(x) W + b"),
}
# Models that count words, and how a text is walked through each.
WALKS = {BagClassifier: walk_of_bag, LexiconClassifier: walk_of_features}


class Classifier(EncoderPredictor):
    """A classifier that is ready to use: a model of ours, or a `…ForSequenceClassification` of BERT, GPT or Llama.

    What it takes is of its form: "text" takes texts, "pair" takes (text, text), "choice" takes (context, choices); one
    that was trained elsewhere takes "either" of the first two.
    One with `numbers` gives each text a number in place of a label.
    """

    what = "a classifier"
    walked = tuple(WALKS)
    kinds = (DecoderClassifier, EncoderClassifier, *walked)
    scored_on = Evaluation
    commands = ("classify {model} in.txt",)

    def __init__(self, model: Any, tokenizer: LanguageTokenizer | EncoderTokenizer | WordTokenizer):
        super().__init__(model, tokenizer)
        self.form, self.names = model.form, model.names
        self.numbers = not model.names and model.form != "choice"
        self._wrapping = Wrapping(tokenizer, getattr(model.config, "context", None))
        self._warned = False

    def __call__(self, examples: Iterable[Any]) -> list[Label] | list[float]:
        """The likeliest label of each, or its number; many at a time give each what it would get alone."""
        texts = self._given(examples)
        scores = self._scores(texts)
        if self.numbers:
            return scores[:, 0].tolist()
        best, places = scores.softmax(dim=1).max(dim=1)
        names = [each[1:] if self.form == "choice" else self.names for each in texts]
        found = zip(names, best.tolist(), places.tolist())
        return [Label(own[place], probability, place) for own, probability, place in found]

    def probabilities(self, examples: Iterable[Any]) -> Tensor:
        """[examples, labels], or [examples, choices] with zeros where an example has fewer; on the CPU."""
        return self.scores(examples).softmax(dim=1)

    def scores(self, examples: Iterable[Any]) -> Tensor:
        """What the probabilities are made of, or the numbers, [examples, 1]."""
        return self._scores(self._given(examples))

    def _scores(self, texts: list[tuple[str, ...]]) -> Tensor:
        if not texts:
            return torch.zeros(0, max(len(self.names), 1))
        parts = [parts_of(self.form, each) for each in texts]
        rows = self._wrapping.rows([part for each in parts for part in each])
        if self._wrapping.cut and not self._warned:
            self._warned = True
            warn(f"texts longer than the model reads, which lose their end: {self._wrapping.cut:,} of {len(rows):,}")
        candidates = candidates_of([len(each) for each in parts]) if self.form == "choice" else None
        return compared(torch.stack(outputs_of(self.model, rows)), candidates)

    def _given(self, examples: Iterable[Any]) -> list[tuple[str, ...]]:
        return [self._texts(example) for example in listed(examples, "a classifier", "examples")]

    def _texts(self, example: Any) -> tuple[str, ...]:
        found: tuple[Any, ...] = ()
        if isinstance(example, str):
            found = (example,) if self.form in ("text", "either") else ()
        elif self.form != "text" and is_sequence(example) and len(example) == 2:
            first, second = example
            if self.form != "choice":
                found = first, second
            elif isinstance(second, Iterable) and not isinstance(second, str):
                choices = list(second)
                found = (first, *choices) if choices else ()
        if found and all(isinstance(text, str) for text in found):
            return found
        shapes = {"text": "a text", "pair": "(text, text)", "either": "a text or (text, text)"}
        shape = shapes.get(self.form, "(context, choices)")
        raise ConfigError(f"{example!r:.60} is given where this classifier takes {shape}")

    def evaluate(self, asked: Evaluation) -> Scores:
        """Accuracy, F1, confusion and calibration of labels; correlation and error of numbers; accuracy of choices."""
        inputs, truth = self._labelled(example_files(self.given(asked.data), asked.columns, "dev"))
        if asked.plot and not self.names:
            raise ConfigError(
                "--plot draws how far the probabilities of labels can be trusted; this model has no labels"
            )
        if self.form == "choice":
            right = int((self.probabilities(inputs).argmax(dim=1).numpy() == truth).sum())
            accuracy = right / len(truth)
            table = f"accuracy  {100 * accuracy:6.2f} %   of {counted(len(truth), 'question')}"
            return Scores({"accuracy": accuracy, "questions": len(truth)}, table)
        if self.numbers:
            found = number_scores(self.scores(inputs)[:, 0].numpy(), truth)
            return Scores(asdict(found), number_table(found))
        scores = label_scores(self.probabilities(inputs).numpy(), truth, self.names)
        draw_reliability(scores, self.path, asked.plot)
        return Scores({**asdict(scores), "labels": self.names}, label_table(scores, self.names))

    def _labelled(self, files: list[ExampleFile]) -> tuple[list[Any], list[Any]]:
        """What is taken of examples, and their labels as they are numbered here, or the numbers that they are."""
        for file in files:
            if file.form != self.form and not (self.form == "either" and file.form != "choice"):
                raise DataError(f"{file.path} is of the form {file.form}, but the model takes the form {self.form}")
            refuse_unknown(file, self.names, self.numbers)
        examples = [(file.form, example) for file in files for example in file.examples]
        if self.form == "choice":
            return [(each.texts[0], each.texts[1:]) for _, each in examples], [int(each.label) for _, each in examples]
        inputs: list[Any] = [each.texts[0] if form == "text" else each.texts for form, each in examples]
        if self.numbers:
            return inputs, numbers_of(files)
        return inputs, [self.names.index(each.label) for _, each in examples]

    def measure(self, asked: Evaluation, by: str | None) -> Measure:
        """Of labels their negative log-likelihood, of numbers the squared error."""
        inputs, truth = self._labelled(example_files(self.given(asked.data), asked.columns, "dev"))

        def loss() -> float:
            if self.numbers:
                return float(((self.scores(inputs)[:, 0].numpy() - np.array(truth)) ** 2).mean())
            right = self.probabilities(inputs)[torch.arange(len(truth)), torch.tensor(truth)]
            return float(-right.clamp(min=1e-12).log().mean())

        return Measure("loss", self.model, loss)

    def forward(self, text: str, second: str | None, tokens: int) -> ForwardPass:
        if self.form in ("pair", "choice"):
            refuse_no_second(second, "this model compares two texts; give the second behind the first")
        if self.form == "text":
            refuse_second(second, "this model reads one text")
        return wrapped_forward(self, text, second, getattr(self.model.config, "context", sys.maxsize))

    def conclusion(self, read: ForwardPass, output: Tensor, count: int) -> Section:
        said, formula = "One linear layer over the state of the token that stands for the whole text", "x W"
        if isinstance(self.model, EncoderClassifier):
            said, formula = READ[type(self.model.body)]
        if not self.names:
            numbers = output.float().cpu().numpy()
            return concluded(f"{said}.", of_numbers("score", numbers, [""], ["score"], digits=4, formula=formula))
        chances = output[0].float().softmax(dim=0)
        return concluded(f"{said}.", probabilities("labels", list(self.names), output[0], chances, formula))

    def own_walk(self, read: ForwardPass) -> Walk:
        walk = WALKS.get(type(self.model))
        return walk(self.model, self.tokenizer, read) if walk else super().own_walk(read)

    def selfcheck(self, sentences: int, beam: int) -> list[Finding]:
        if type(self.model) in WALKS:
            return same_scores_of_words(self.model, sentences)
        if isinstance(self.model, EncoderClassifier):
            return super().selfcheck(sentences, beam)
        return same_decoder_logits(self.model.body)


def wrapped_forward(predictor: Predictor, text: str, second: str | None, most: int) -> ForwardPass:
    """One text, or two, with the marks around them, in one row."""
    texts = (text,) if second is None else (text, second)
    row = Wrapping(predictor.tokenizer, sys.maxsize).rows([texts])[0]
    refuse_long(text, row, most)
    return one_forward(predictor.model, row, texts)


def numbers_of(files: list[ExampleFile]) -> list[float]:
    """The numbers that the labels of examples are."""
    return [as_number(each.label, f"{file.path}, line {each.line}") for file in files for each in file.examples]


PREDICTOR = Classifier
