"""Classifiers: a model directory in, labels of texts out.  Training one is in `classify_training`."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from manyheads.core.errors import ConfigError
from manyheads.core.grouping import grouped
from manyheads.core.log import warn
from manyheads.data.batches import padded
from manyheads.data.examples import candidates_of
from manyheads.interop.directory import load_model
from manyheads.models.bert import BertClassifier
from manyheads.models.classifier import DecoderClassifier
from manyheads.ops.device import pick_device
from manyheads.tasks.classify_data import Wrapping, parts_of
from manyheads.text.encoder import EncoderTokenizer
from manyheads.text.language import LanguageTokenizer
from manyheads.train.objectives import compared

CELLS_AT_ONCE = 16_384  # tokens in one batch, padding included


@dataclass(frozen=True)
class Label:
    """The likeliest label of a text, or the likeliest choice."""

    name: str
    probability: float
    index: int
    """Which of the labels, or of the choices, from 0."""


class Classifier:
    """A classifier that is ready to use.

    What it takes is of its form: "text" takes texts, "pair" takes (text, text), "choice" takes (context, choices); one
    that was trained elsewhere takes "either" of the first two.
    One with `numbers` gives each text a number in place of a label.
    """

    def __init__(self, model: DecoderClassifier | BertClassifier, tokenizer: LanguageTokenizer | EncoderTokenizer):
        self.model, self.form, self.names = model.eval(), model.form, model.names
        self.numbers = not model.names and model.form != "choice"
        self.tokenizer, self.device = tokenizer, next(model.parameters()).device
        self._wrapping = Wrapping(tokenizer, model.config.context)  # type: ignore
        self._warned = False

    @classmethod
    def load(cls, path: str | Path, *, device: str = "auto") -> "Classifier":
        """Opens a run directory, a model directory, or a `…ForSequenceClassification` of BERT, GPT or Llama."""
        model, tokenizer = load_model(Path(path), kinds=(DecoderClassifier, BertClassifier))
        return cls(model.to(pick_device(device)), tokenizer)

    def __call__(self, examples: Sequence[Any]) -> list[Label] | list[float]:
        """The likeliest label of each, or its number; many at a time give each what it would get alone."""
        if self.numbers:
            return self.scores(examples)[:, 0].tolist()
        best, places = self.probabilities(examples).max(dim=1)
        found = zip(examples, best.tolist(), places.tolist())
        return [Label(self._name(example, place), probability, place) for example, probability, place in found]

    def probabilities(self, examples: Sequence[Any]) -> Tensor:
        """[examples, labels], or [examples, choices] with zeros where an example has fewer; on the CPU."""
        return self.scores(examples).softmax(dim=1)

    def scores(self, examples: Sequence[Any]) -> Tensor:
        """What the probabilities are made of, or the numbers, [examples, 1]."""
        texts = [self._texts(example) for example in self._listed(examples)]
        if not texts:
            return torch.zeros(0, max(len(self.names), 1))
        parts = [parts_of(self.form, each) for each in texts]
        rows = self._wrapping.rows([part for each in parts for part in each])
        if self._wrapping.cut and not self._warned:
            self._warned = True
            warn(f"{self._wrapping.cut:,} of {len(rows):,} texts are longer than the model reads and lose their end")
        candidates = candidates_of([len(each) for each in parts]) if self.form == "choice" else None
        return compared(self._scores(rows), candidates)

    @torch.inference_mode()
    def _scores(self, rows: list[list[int]]) -> Tensor:
        """What the model says of each row, computed with others of about its length."""
        scores = torch.empty(len(rows), self.model.score.out_features)
        for places in grouped([len(row) for row in rows], CELLS_AT_ONCE):
            ids, lengths = padded([rows[place] for place in places])
            scores[places] = self.model(ids.to(self.device), lengths.to(self.device)).float().cpu()
        return scores

    def _listed(self, examples: Sequence[Any]) -> Sequence[Any]:
        if isinstance(examples, str):
            raise ConfigError("a classifier takes a list of examples, not one string")
        return examples

    def _texts(self, example: Any) -> tuple[str, ...]:
        if self.form in ("text", "either") and isinstance(example, str):
            return (example,)
        if self.form != "text" and not isinstance(example, str) and len(example) == 2:
            first, second = example
            if self.form in ("pair", "either") and isinstance(second, str):
                return first, second
            if self.form == "choice" and not isinstance(second, str) and len(second) > 0:
                return first, *second
        shapes = {"text": "a text", "pair": "(text, text)", "either": "a text or (text, text)"}
        shape = shapes.get(self.form, "(context, choices)")
        raise ConfigError(f"{example!r:.60} is given where this classifier takes {shape}")

    def _name(self, example: Any, place: int) -> str:
        return example[1][place] if self.form == "choice" else self.names[place]
