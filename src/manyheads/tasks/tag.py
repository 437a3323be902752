"""Taggers: a model directory in, a label for each word of a sentence out.  Training one is in `tag_training`."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from manyheads.core.errors import ConfigError
from manyheads.core.grouping import grouped
from manyheads.data.batches import padded
from manyheads.data.readers.columns import TaggedSentence
from manyheads.interop.directory import load_model
from manyheads.models.bert import BertTagger
from manyheads.ops.device import pick_device
from manyheads.tasks.scores import EntityScores, entity_scores
from manyheads.tasks.tag_data import Window, Windowing, refuse_unknown
from manyheads.text.encoder import EncoderTokenizer

CELLS_AT_ONCE = 16_384  # tokens in one batch, padding included


@dataclass(frozen=True)
class Tag:
    """The likeliest label of a word."""

    word: str
    label: str
    probability: float


class Tagger:
    """A tagger that is ready to use; a label is read at the first piece of each word.

    A sentence longer than the model reads is taken in overlapping windows, each word where it has most context.
    """

    def __init__(self, model: BertTagger, tokenizer: EncoderTokenizer):
        self.model, self.names = model.eval(), model.names
        self.tokenizer, self.device = tokenizer, next(model.parameters()).device
        self._windowing = Windowing(tokenizer, model.config.context)

    @classmethod
    def load(cls, path: str | Path, *, device: str = "auto") -> "Tagger":
        """Opens a run directory, a model directory, or a `BertForTokenClassification`."""
        model, tokenizer = load_model(Path(path), kinds=(BertTagger,))
        return cls(model.to(pick_device(device)), tokenizer)

    def __call__(self, sentences: Sequence[str] | Sequence[Sequence[str]]) -> list[list[Tag]]:
        """The likeliest label of each word; many sentences at a time give each what it would get alone.

        A string is split at white space, a list is taken as words.
        """
        words = self._words(sentences)
        return [
            [Tag(word, self.names[place], probability) for word, probability, place in zip(row, *_best(found))]
            for row, found in zip(words, self.probabilities(words))
        ]

    def probabilities(self, sentences: Sequence[str] | Sequence[Sequence[str]]) -> list[Tensor]:
        """[words, labels] of each sentence; on the CPU."""
        windows = self._windowing.windows(self._words(sentences))
        found = iter(self._read([window for each in windows for window in each]))
        nothing = torch.zeros(0, len(self.names))
        return [torch.cat([nothing, *(next(found) for _ in each)]) for each in windows]

    @torch.inference_mode()
    def _read(self, windows: list[Window]) -> list[Tensor]:
        """The probabilities of each window's words, computed with others of about its length."""
        found: list[Tensor] = [torch.empty(0)] * len(windows)
        for places in grouped([len(window.ids) for window in windows], CELLS_AT_ONCE):
            ids, lengths = padded([windows[place].ids for place in places])
            scores = self.model(ids.to(self.device), lengths.to(self.device)).float().softmax(dim=-1).cpu()
            for place, row in zip(places, scores):
                found[place] = row[windows[place].places]
        return found

    def _words(self, sentences: Sequence[str] | Sequence[Sequence[str]]) -> list[list[str]]:
        if isinstance(sentences, str):
            raise ConfigError("a tagger takes a list of sentences, not one string")
        words = [sentence.split() if isinstance(sentence, str) else list(sentence) for sentence in sentences]
        strange = next((word for row in words for word in row if not isinstance(word, str)), None)
        if strange is not None:
            raise ConfigError(f"{strange!r:.60} is given where a tagger takes a word; a sentence is a string or words")
        return words


def _best(probabilities: Tensor) -> tuple[list[float], list[int]]:
    highest, places = probabilities.max(dim=1)
    return highest.tolist(), places.tolist()


def score_tags(tagger: Tagger, sentences: list[TaggedSentence], *, path: str | Path = "the sentences") -> EntityScores:
    """Compares what a tagger says with the labels of sentences; `path` is the file that a message names.

    A label that the model does not have is refused.
    """
    refuse_unknown(path, sentences, tagger.names, "the model")
    found = tagger([sentence.words for sentence in sentences])
    predicted = [[tag.label for tag in tags] for tags in found]
    return entity_scores(predicted, [list(sentence.labels) for sentence in sentences])
