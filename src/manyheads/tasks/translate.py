"""Translation: a model directory in, sentences in other words out.  Training it is in `translate_training`."""

import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from manyheads.core.errors import ConfigError
from manyheads.core.grouping import grouped
from manyheads.generate.beam import beam_search, length_penalty
from manyheads.generate.greedy import greedy
from manyheads.generate.steps import CachedSteps, Hypothesis, Steps, Vocabulary
from manyheads.interop.directory import load_model
from manyheads.models.transformer import Transformer
from manyheads.ops.device import pick_device
from manyheads.text.tokenizer import Tokenizer

EXTRA_TOKENS = 50  # a translation has at most as many tokens as its source and these (Vaswani et al. 2017, section 6.1)
ENCODED_AT_ONCE = 16  # sentences: enough for the matrix units, few enough to be of one length
BATCH_CELLS = 28_000  # source and cache positions of one batch of sentences


@dataclass(frozen=True)
class Translation:
    """One candidate: its text and its score, the log-probability divided by the length penalty."""

    text: str
    score: float


class Translator:
    """A translator that is ready to use."""

    def __init__(self, model: Transformer, tokenizer: Tokenizer):
        self.model, self.tokenizer = model.eval(), tokenizer

    @classmethod
    def load(cls, path: str | Path, *, device: str = "auto") -> "Translator":
        """Opens a run directory, a model directory of ours, or a MarianMTModel checkpoint with a tokenizer.json."""
        model, tokenizer = load_model(Path(path), kinds=(Transformer,))
        return cls(model.to(pick_device(device)), tokenizer)

    def translate(self, sentences: Sequence[str], *, beam: int = 4, alpha: float = 0.6) -> list[str]:
        """The best translation of each sentence, in order; beam 1 is greedy search, a blank sentence stays blank."""
        return [found[0].text for found in self._search(sentences, beam, alpha, count=1, scored=False)]

    def candidates(
        self, sentences: Sequence[str], *, beam: int = 4, alpha: float = 0.6, count: int = 4
    ) -> list[list[Translation]]:
        """The best `count` translations of each sentence with their scores, best first."""
        return self._search(sentences, beam, alpha, count, scored=True)

    def _search(
        self, sentences: Sequence[str], beam: int, alpha: float, count: int, scored: bool
    ) -> list[list[Translation]]:
        if isinstance(sentences, str):
            raise ConfigError("translate takes a list of sentences, not one string")
        if beam < 1 or not 1 <= count <= beam:
            raise ConfigError(f"{count} candidates of a beam of {beam}: the beam must be at least 1 and hold them all")
        if not 0 <= alpha < math.inf:
            raise ConfigError(f"the length penalty alpha is {alpha}; it must be at least 0, which is none")
        full = [place for place, sentence in enumerate(sentences) if sentence.strip()]
        rows = self.tokenizer.encode([sentences[place] for place in full])
        found = [row[:count] for row in decode_all(self.model, rows, beam=beam, alpha=alpha, scored=scored)]
        texts = iter(self.tokenizer.decode([hypothesis.ids for row in found for hypothesis in row]))
        results = [[Translation("", 0.0)] for _ in sentences]
        for place, row in zip(full, found, strict=True):
            # One line in is one line out, whatever the model writes.
            results[place] = [Translation(" ".join(next(texts).split("\n")), hypothesis.score) for hypothesis in row]
        return results


def decode_all(
    model: Transformer,
    rows: list[list[int]],
    *,
    beam: int,
    alpha: float = 0.6,
    steps: Callable[..., Steps] = CachedSteps,
    batch_cells: int = BATCH_CELLS,
    limit: int | None = None,
    scored: bool = True,
) -> list[list[Hypothesis]]:
    """Decodes rows of source ids, batched with others of their length, and gives the beams of each, in order.

    Greedy search has scores only if they are asked for; `steps` and `limit` are for proofs and benchmarks.
    """
    device = next(model.parameters()).device
    config = model.config
    # A table of positions ends where it ends.
    most = config.positions.length if config.positions.kind == "learned" else sys.maxsize
    vocabulary = Vocabulary(end=config.end, never=(config.pad,))
    found: list[list[Hypothesis]] = [[] for _ in rows]
    with torch.inference_mode():
        for places in grouped([_cells(len(row), beam) for row in rows], batch_cells, longest_first=True):
            batch = [rows[place] for place in places]
            limits = torch.tensor([min(limit or len(row) + EXTRA_TOKENS, most) for row in batch])
            memory, mask = _encoded(model, batch, device)
            stepper = steps(model, memory, mask, int(limits.max()), beam)
            if beam == 1:
                results = [
                    [Hypothesis(one.ids, one.score / float(length_penalty(min(len(one.ids) + 1, last), alpha)))]
                    for one, last in zip(
                        greedy(stepper, limits, vocabulary, scored=scored), limits.tolist(), strict=True
                    )
                ]
            else:
                results = beam_search(stepper, limits.to(device), vocabulary, beams=beam, alpha=alpha)
            for place, result in zip(places, results, strict=True):
                found[place] = result
    return found


def _encoded(model: Transformer, rows: list[list[int]], device: torch.device) -> tuple[Tensor, Tensor]:
    """The memory of rows that are sorted by length, and its mask; each piece of the batch is padded for itself."""
    memory = torch.zeros(len(rows), max(map(len, rows)), model.config.width, device=device)
    mask = torch.zeros(len(rows), 1, 1, memory.shape[1], dtype=torch.bool, device=device)
    for first in range(0, len(rows), ENCODED_AT_ONCE):
        piece = [torch.tensor(row) for row in rows[first : first + ENCODED_AT_ONCE]]
        source = pad_sequence(piece, batch_first=True, padding_value=model.config.pad).to(device)
        place = slice(first, first + len(piece)), slice(source.shape[1])
        memory[place] = model.encode(source)[0].to(memory.dtype)
        mask[:, 0, 0][place] = source != model.config.pad
    return memory, mask


def _cells(length: int, beam: int) -> int:
    """What a row of this length takes: itself, and its translations as they may become."""
    return length + beam * (length + EXTRA_TOKENS)


@dataclass(frozen=True)
class Scores:
    """BLEU and chrF of a test set with the signatures that say how they were computed."""

    bleu: float
    bleu_signature: str
    chrf: float
    chrf_signature: str
    bleu_lower: float
    bleu_lower_signature: str


def score(hypotheses: Sequence[str], references: Sequence[str]) -> Scores:
    """sacreBLEU's BLEU, cased and lower-cased, and chrF."""
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF

    metrics = (BLEU(), CHRF(), BLEU(lowercase=True))
    found = []
    for metric in metrics:
        found += [metric.corpus_score(list(hypotheses), [list(references)]).score, str(metric.get_signature())]
    return Scores(*found)
