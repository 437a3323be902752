"""Masked language models: a text with hidden words in, the likeliest words out; how that is scored and looked into."""

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from manyheads.core.errors import ConfigError, DataError
from manyheads.core.grouping import grouped
from manyheads.data.batches import padded
from manyheads.data.masked_rows import masked_batches
from manyheads.data.readers.documents import find_texts, read_documents
from manyheads.data.sentences import write_sentences
from manyheads.look.walk import Section
from manyheads.models.bert import MaskedBert
from manyheads.tasks.inside.conclusions import candidates, concluded
from manyheads.tasks.inside.forward import ForwardPass, one_row, refuse_long
from manyheads.tasks.inside.importance import Measure
from manyheads.tasks.labelled import EncoderPredictor
from manyheads.tasks.masked.data import longest_sentence
from manyheads.tasks.masked.recipe import Evaluation
from manyheads.tasks.metrics import Scores
from manyheads.tasks.texts import texts_of
from manyheads.text.encoder import EncoderTokenizer

ROWS = 32  # of a text that is scored, in one batch
CELLS_AT_ONCE = 4096  # tokens in one batch, padding included


@dataclass(frozen=True)
class Guess:
    """A word that may be hidden, and how likely it is."""

    word: str
    probability: float


class Filler(EncoderPredictor):
    """A masked language model that is ready to use: of ours, or a `BertForMaskedLM` or `BertForPreTraining`."""

    what = "a masked language model"
    kinds = (MaskedBert,)
    scored_on = Evaluation
    commands = (
        "fill {model} 'a text with a [MASK] in it'",
        "embed {model} in.txt --out vectors.npy",
        "train classify --model {model} …",
    )

    def __init__(self, model: MaskedBert, tokenizer: EncoderTokenizer):
        super().__init__(model, tokenizer)
        if tokenizer.mask is None:
            raise ConfigError("this model's tokenizer has no token that hides a word, so that nothing can be filled in")
        self.mask = tokenizer.pieces([tokenizer.mask])[0]
        """How a hidden word is written: [MASK]."""

    def __call__(self, texts: Iterable[str], count: int = 5) -> list[list[list[Guess]]]:
        """For each hidden word of each text the `count` likeliest words, the likeliest first."""
        if count < 1:
            raise ConfigError(f"{count} guesses are no guess; ask for at least 1")
        rows = [self._row(text) for text in texts_of(texts, "a filler")]
        found: list[list[list[Guess]]] = [[] for _ in rows]
        for places in grouped([len(row) for row in rows], CELLS_AT_ONCE):
            for place, guesses in zip(places, self._guesses([rows[place] for place in places], count)):
                found[place] = guesses
        return found

    def _row(self, text: str) -> list[int]:
        row = self.tokenizer.wrapped(self.tokenizer.encode([text], special=True)[0])
        if self.tokenizer.mask not in row:
            raise DataError(f"{text!r:.60} hides no word; write {self.mask} where one is to be guessed")
        refuse_long(text, row, self.model.config.context)
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

    def evaluate(self, asked: Evaluation) -> Scores:
        """How many hidden words of texts are guessed, and how well it is told what follows."""
        scores = score_masked(self, self.given(asked.text, "--text"), asked.field)
        lines = [
            f"hidden words guessed  {scores['accuracy']:7.2f} %",
            f"loss                  {scores['loss']:7.4f}   nats by hidden word",
        ]
        if "next_accuracy" in scores:
            lines.append(f"what follows, told    {scores['next_accuracy']:7.2f} %   half of all do")
        return Scores(scores, "\n".join(lines))

    def measure(self, asked: Evaluation, by: str | None) -> Measure:
        names = self.given(asked.text, "--text")
        find_texts(names)
        return Measure("loss", self.model, lambda: score_masked(self, names, asked.field)["loss"])

    def forward(self, text: str, second: str | None, tokens: int) -> ForwardPass:
        texts = (text,) if second is None else (text, second)
        row = self.tokenizer.wrapped(*self.tokenizer.encode(list(texts), special=True))
        refuse_long(text, row, self.model.config.context)
        return ForwardPass(texts, {"self": row}, lambda: self.model(one_row(self.model, row)))

    def conclusion(self, read: ForwardPass, output: Tensor, count: int) -> Section:
        hidden = [place for place, each in enumerate(read.ids["self"]) if each == self.tokenizer.mask]
        if not hidden:
            return concluded(f"No word is hidden, so that none is guessed: write {self.mask} in place of one.")
        grids = [
            candidates(f"the hidden word {number}", output[0, place], self.tokenizer, count)
            for number, place in enumerate(hidden, start=1)
        ]
        said = "The state of each hidden word goes through one more layer, g = LayerNorm(activation(x W + b)), and is "
        return concluded(f"{said}compared with every token: g Eᵀ + b.", *grids)


def score_masked(filler: Filler, names: Sequence[str], field: str | None = None) -> dict[str, float]:
    """How well hidden words of texts are guessed, the same ones always, and what follows what, where it knows that."""
    tokenizer, context = filler.tokenizer, filler.model.config.context
    follows = filler.model.follows is not None
    documents = read_documents(find_texts(names), field)
    with tempfile.TemporaryDirectory(prefix="manyheads-") as directory, torch.inference_mode():
        longest = longest_sentence(context)
        store = write_sentences(Path(directory) / "store", documents, tokenizer, longest=longest)
        settings = {"rows": ROWS, "length": context, "next_sentence": follows, "seed": 0, "shuffle": False}
        return masked_scores(filler.model, masked_batches(store, tokenizer, **settings))


def masked_scores(model: Any, batches: Any) -> dict[str, float]:
    """Of hidden words the negative log-likelihood and how many of a hundred are guessed; the same of what follows."""
    device = next(model.parameters()).device
    sums: dict[str, Tensor] = {}
    words = rows = 0

    def add(name: str, value: Tensor) -> None:
        sums[name] = sums.get(name, torch.zeros((), device=device)) + value

    for batch in batches.epoch(0):
        batch = batch.to(device)
        states = model.body(batch.ids, batch.lengths)
        logits = model.logits(states.flatten(0, 1).index_select(0, batch.places)).float()
        add("loss", nn.functional.cross_entropy(logits, batch.targets, reduction="sum"))
        add("accuracy", 100 * (logits.argmax(dim=1) == batch.targets).sum())
        words += len(batch.targets)
        if batch.follows is not None:
            follows, rows = model.following(states).float(), rows + len(batch.follows)
            add("next_loss", nn.functional.cross_entropy(follows, 1 - batch.follows, reduction="sum"))
            add("next_accuracy", 100 * (follows.argmax(dim=1) == 1 - batch.follows).sum())
    if not words:
        raise DataError(
            "every word of the text is unknown to the tokenizer, so that none can be hidden; give other text"
        )
    return {name: float(value) / (rows if name.startswith("next") else words) for name, value in sums.items()}


PREDICTOR = Filler
