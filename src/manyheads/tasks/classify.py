"""Classifiers: a model directory in, labels of texts out.  Training one is in `classify_training`."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from manyheads.core.errors import ConfigError
from manyheads.data.example_batches import candidates_of, padded
from manyheads.interop.directory import load_model
from manyheads.models.classifier import Classifier
from manyheads.ops.device import pick_device
from manyheads.tasks.classify_data import Wrapping, parts_of
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


class TextClassifier:
    """A classifier that is ready to use.

    What it takes is of its form: "text" takes texts, "pair" takes (text, text), "choice" takes (context, choices).
    """

    def __init__(self, model: Classifier, tokenizer: LanguageTokenizer):
        self.model, self.form, self.names = model.eval(), model.form, model.names
        self.device = next(model.parameters()).device
        self._wrapping = Wrapping(tokenizer, model.config.context)  # type: ignore

    @classmethod
    def load(cls, path: str | Path, *, device: str = "auto") -> "TextClassifier":
        """Opens a run directory, a model directory, or a `…ForSequenceClassification` of GPT-2, GPT-1 or Llama."""
        model, tokenizer = load_model(Path(path), kinds=(Classifier,))
        return cls(model.to(pick_device(device)), tokenizer)

    def __call__(self, examples: Sequence[Any]) -> list[Label]:
        """The likeliest label of each; many at a time give each what it would get alone."""
        best, places = self.probabilities(examples).max(dim=1)
        found = zip(examples, best.tolist(), places.tolist())
        return [Label(self._name(example, place), probability, place) for example, probability, place in found]

    def probabilities(self, examples: Sequence[Any]) -> Tensor:
        """[examples, labels], or [examples, choices] with zeros where an example has fewer; on the CPU."""
        texts = [self._texts(example) for example in self._listed(examples)]
        if not texts:
            return torch.zeros(0, max(len(self.names), 1))
        parts = [parts_of(self.form, each) for each in texts]
        scores = self._scores(self._wrapping.rows([part for each in parts for part in each]))
        candidates = candidates_of([len(each) for each in parts]) if self.form == "choice" else None
        return compared(scores, candidates).softmax(dim=1)

    @torch.inference_mode()
    def _scores(self, rows: list[list[int]]) -> Tensor:
        """What the model says of each row, computed with others of about its length."""
        scores = torch.empty(len(rows), self.model.score.out_features)
        for places in _groups([len(row) for row in rows]):
            ids, lengths = padded([rows[place] for place in places])
            scores[places] = self.model(ids.to(self.device), lengths.to(self.device)).float().cpu()
        return scores

    def _listed(self, examples: Sequence[Any]) -> Sequence[Any]:
        if isinstance(examples, str):
            raise ConfigError("a classifier takes a list of examples, not one string")
        return examples

    def _texts(self, example: Any) -> tuple[str, ...]:
        if self.form == "text" and isinstance(example, str):
            return (example,)
        if self.form != "text" and not isinstance(example, str) and len(example) == 2:
            first, second = example
            if self.form == "pair" and isinstance(second, str):
                return first, second
            if self.form == "choice" and not isinstance(second, str) and len(second) > 0:
                return first, *second
        shape = {"text": "a text", "pair": "(text, text)", "choice": "(context, choices)"}[self.form]
        raise ConfigError(f"{example!r:.60} is given where this classifier takes {shape}")

    def _name(self, example: Any, place: int) -> str:
        return example[1][place] if self.form == "choice" else self.names[place]


def _groups(lengths: list[int]) -> Iterator[list[int]]:
    """Places of rows of about the same length, as many at a time as fit."""
    group: list[int] = []
    for place in sorted(range(len(lengths)), key=lengths.__getitem__):
        if group and (len(group) + 1) * lengths[place] > CELLS_AT_ONCE:
            yield group
            group = []
        group.append(place)
    if group:
        yield group
