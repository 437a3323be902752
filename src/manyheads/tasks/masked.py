"""Masked language models: a text with hidden words in, the likeliest words out.  Training one is `masked_training`."""

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from manyheads.core.errors import ConfigError, DataError
from manyheads.core.grouping import grouped
from manyheads.data.batches import padded
from manyheads.data.readers.documents import find_texts, read_documents
from manyheads.data.sentences import write_sentences
from manyheads.interop.directory import load_model
from manyheads.models.bert import MaskedBert
from manyheads.ops.device import pick_device
from manyheads.tasks.masked_data import batches_of, longest_sentence
from manyheads.tasks.masked_training import masked_scores
from manyheads.text.encoder import EncoderTokenizer

ROWS = 32  # of a text that is scored, in one batch
CELLS_AT_ONCE = 4096  # tokens in one batch, padding included


@dataclass(frozen=True)
class Guess:
    """A word that may be hidden, and how likely it is."""

    word: str
    probability: float


class Filler:
    """A masked language model that is ready to use."""

    def __init__(self, model: MaskedBert, tokenizer: EncoderTokenizer):
        self.model, self.tokenizer = model.eval(), tokenizer
        self.device = next(model.parameters()).device
        if tokenizer.mask is None:
            raise ConfigError("this model's tokenizer has no token that hides a word, so that nothing can be filled in")
        self.mask = tokenizer.pieces([tokenizer.mask])[0]
        """How a hidden word is written: [MASK]."""

    @classmethod
    def load(cls, path: str | Path, *, device: str = "auto") -> "Filler":
        """Opens a run directory, a model directory, or a `BertForMaskedLM` or `BertForPreTraining`."""
        model, tokenizer = load_model(Path(path), kinds=(MaskedBert,))
        return cls(model.to(pick_device(device)), tokenizer)

    def __call__(self, texts: Sequence[str], count: int = 5) -> list[list[list[Guess]]]:
        """For each hidden word of each text the `count` likeliest words, the likeliest first."""
        if isinstance(texts, str):
            raise ConfigError("a list of texts is asked for, not one string")
        if count < 1:
            raise ConfigError(f"{count} guesses are no guess; ask for at least 1")
        rows = [self._row(text) for text in texts]
        found: list[list[list[Guess]]] = [[] for _ in rows]
        for places in grouped([len(row) for row in rows], CELLS_AT_ONCE):
            for place, guesses in zip(places, self._guesses([rows[place] for place in places], count)):
                found[place] = guesses
        return found

    def _row(self, text: str) -> list[int]:
        row = self.tokenizer.wrapped(self.tokenizer.encode([text], special=True)[0])
        if self.tokenizer.mask not in row:
            raise DataError(f"{text!r:.60} hides no word; write {self.mask} where one is to be guessed")
        if len(row) > self.model.config.context:
            raise DataError(
                f"{text!r:.60} has {len(row)} tokens, but the model reads {self.model.config.context}; shorten it"
            )
        return row

    @torch.inference_mode()
    def _guesses(self, rows: list[list[int]], count: int) -> Iterator[list[list[Guess]]]:
        ids, lengths = (each.to(self.device) for each in padded(rows))
        hidden = (ids == self.tokenizer.mask) & (torch.arange(ids.shape[1], device=ids.device) < lengths[:, None])
        states = self.model.body(ids, lengths)[hidden]
        probabilities: Tensor = self.model.logits(states).float().softmax(dim=-1)
        best = probabilities.topk(min(count, probabilities.shape[-1]), dim=-1)
        guesses = [
            [Guess(self.tokenizer.pieces([each])[0], probability) for each, probability in zip(words, chances)]
            for words, chances in zip(best.indices.tolist(), best.values.tolist())
        ]
        for number in hidden.sum(dim=1).tolist():
            yield guesses[:number]
            guesses = guesses[number:]


def score_masked(filler: Filler, names: Sequence[str], field: str | None = None) -> dict[str, float]:
    """How well hidden words of texts are guessed, the same ones always, and what follows what, where it knows that."""
    tokenizer, context = filler.tokenizer, filler.model.config.context
    follows = filler.model.follows is not None
    documents = read_documents(find_texts(names), field)
    with tempfile.TemporaryDirectory(prefix="manyheads-") as directory, torch.inference_mode():
        longest = longest_sentence(context)
        store = write_sentences(Path(directory) / "store", documents, tokenizer, longest=longest)
        batches = batches_of(store, tokenizer, context, rows=ROWS, next_sentence=follows, seed=0, shuffle=False)
        return masked_scores(filler.model, batches)
