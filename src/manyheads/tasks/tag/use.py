"""Taggers: a model directory in, a label for each word of a sentence out; how that is scored and looked into."""

import sys
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from manyheads.core.errors import ConfigError
from manyheads.data.readers.columns import TaggedSentence, read_columns
from manyheads.look.grid import Grid
from manyheads.look.walk import Section
from manyheads.models.heads import EncoderTagger
from manyheads.tasks.inside.conclusions import concluded
from manyheads.tasks.inside.forward import ForwardPass, one_forward, refuse_long, refuse_second
from manyheads.tasks.inside.importance import Measure
from manyheads.tasks.labelled import EncoderPredictor, outputs_of
from manyheads.tasks.metrics import EntityScores, Scores, entity_scores, entity_table
from manyheads.tasks.tag.data import Windowing, refuse_unknown
from manyheads.tasks.tag.recipe import Evaluation
from manyheads.tasks.texts import listed
from manyheads.text.encoder import EncoderTokenizer


@dataclass(frozen=True)
class Tag:
    """The likeliest label of a word."""

    word: str
    label: str
    probability: float


class Tagger(EncoderPredictor):
    """A tagger that is ready to use: a model of ours, or a `BertForTokenClassification`.

    A label is read at the first piece of each word. A sentence longer than the model reads is taken in overlapping
    windows, each word where it has most context.
    """

    what = "a tagger"
    kinds = (EncoderTagger,)
    scored_on = Evaluation
    commands = ("tag {model} in.txt",)

    def __init__(self, model: EncoderTagger, tokenizer: EncoderTokenizer):
        super().__init__(model, tokenizer)
        self.names = model.names
        self._windowing = Windowing(tokenizer, model.config.context)

    def __call__(self, sentences: Iterable[str | Iterable[str]]) -> list[list[Tag]]:
        """The likeliest label of each word; many sentences at a time give each what it would get alone.

        A string is split at white space, a list is taken as words.
        """
        words, found = self._words(sentences), []
        for row, probabilities in zip(words, self.probabilities(words)):
            best = zip(row, *(each.tolist() for each in probabilities.max(dim=1)))
            found.append([Tag(word, self.names[place], probability) for word, probability, place in best])
        return found

    def probabilities(self, sentences: Iterable[str | Iterable[str]]) -> list[Tensor]:
        """[words, labels] of each sentence; on the CPU."""
        windows = self._windowing.windows(self._words(sentences))
        scores = iter(outputs_of(self.model, [window.ids for each in windows for window in each]))
        nothing = torch.zeros(0, len(self.names))
        return [
            torch.cat([nothing, *(next(scores)[window.places].softmax(dim=-1) for window in each)]) for each in windows
        ]

    def _words(self, sentences: Iterable[str | Iterable[str]]) -> list[list[str]]:
        return [_words_of(sentence) for sentence in listed(sentences, "a tagger", "sentences")]

    def evaluate(self, asked: Evaluation) -> Scores:
        """Accuracy of words, and precision, recall and F1 of entities, in all and by type."""
        scores = score_tags(self, self._tagged(asked))
        return Scores(asdict(scores), entity_table(scores))

    def measure(self, asked: Evaluation, by: str | None) -> Measure:
        sentences = self._tagged(asked)
        accuracy = lambda: 100 * score_tags(self, sentences).accuracy  # noqa: E731
        return Measure("accuracy", self.model, accuracy, more_is_better=True)

    def _tagged(self, asked: Evaluation) -> list[TaggedSentence]:
        """The sentences of files whose labels the tagger has."""
        found = {name: read_columns(Path(name), asked.columns) for name in self.given(asked.data)}
        for name, sentences in found.items():
            refuse_unknown(name, sentences, self.names, "the model")
        return [sentence for sentences in found.values() for sentence in sentences]

    def forward(self, text: str, second: str | None, tokens: int) -> ForwardPass:
        refuse_second(second, "a tagger reads one text")
        window = Windowing(self.tokenizer, sys.maxsize).windows([text.split()])[0][0]
        refuse_long(text, window.ids, self.model.config.context)
        return one_forward(self.model, window.ids, (text,), places=list(window.places))

    def conclusion(self, read: ForwardPass, output: Tensor, count: int) -> Section:
        best, places = output[0, read.places].float().softmax(dim=-1).max(dim=-1)
        cells = [[self.names[place], f"{chance:.4f}"] for place, chance in zip(places.tolist(), best.tolist())]
        shades = torch.stack((torch.zeros_like(best), best), dim=1).cpu().numpy()
        words = read.texts[0].split()
        grid = Grid("labels", cells, words, ["label", "probability"], shades, "softmax(x W + b)")
        return concluded("The label of a word is read at its first piece.", grid)


def _words_of(sentence: Any) -> list[str]:
    if isinstance(sentence, str):
        return sentence.split()
    words = list(sentence) if isinstance(sentence, Iterable) else [sentence]
    for word in words:
        if not isinstance(word, str):
            raise ConfigError(f"{word!r:.60} is given where a tagger takes a word; a sentence is a string or words")
    return words


def score_tags(
    tagger: Tagger, sentences: Iterable[TaggedSentence], *, path: str | Path = "the sentences"
) -> EntityScores:
    """Compares what a tagger says with the labels of sentences; `path` is the file that a message names.

    A label that the model does not have is refused.
    """
    sentences = list(sentences)
    refuse_unknown(path, sentences, tagger.names, "the model")
    found = tagger([sentence.words for sentence in sentences])
    predicted = [[tag.label for tag in tags] for tags in found]
    return entity_scores(predicted, [list(sentence.labels) for sentence in sentences])


PREDICTOR = Tagger
