"""Translation: a model directory in, sentences in other words out.  Training it is in `translate_training`."""

import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from manyheads.core.errors import ConfigError
from manyheads.generate.beam import beam_search, length_penalty
from manyheads.generate.greedy import greedy
from manyheads.generate.steps import CachedSteps, Hypothesis, Steps, Vocabulary
from manyheads.interop.directory import load_model
from manyheads.models.transformer import Transformer
from manyheads.text.tokenizer import Tokenizer
from manyheads.train.loop import pick_device

EXTRA_TOKENS = 50  # a translation has at most as many tokens as its source and these (Vaswani et al. 2017, section 6.1)
BATCH_TOKENS = 8192  # source and cache positions of one batch of sentences


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
        model, tokenizer = load_model(Path(path))
        return cls(model.to(pick_device(device)), tokenizer)

    def translate(self, sentences: Sequence[str], *, beam: int = 4, alpha: float = 0.6) -> list[str]:
        """The best translation of each sentence, in order; beam 1 is greedy search, a blank sentence stays blank."""
        return [found[0].text for found in self.candidates(sentences, beam=beam, alpha=alpha, count=1)]

    def candidates(
        self, sentences: Sequence[str], *, beam: int = 4, alpha: float = 0.6, count: int = 4
    ) -> list[list[Translation]]:
        """The best `count` translations of each sentence with their scores, best first."""
        if isinstance(sentences, str):
            raise ConfigError("translate takes a list of sentences, not one string")
        if beam < 1 or not 1 <= count <= beam:
            raise ConfigError(f"{count} candidates of a beam of {beam}: the beam must be at least 1 and hold them all")
        if not 0 <= alpha < math.inf:
            raise ConfigError(f"the length penalty alpha is {alpha}; it must be at least 0, which is none")
        full = [place for place, sentence in enumerate(sentences) if sentence.strip()]
        rows = self.tokenizer.encode([sentences[place] for place in full])
        found = [row[:count] for row in decode_all(self.model, rows, beam=beam, alpha=alpha)]
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
    batch_tokens: int = BATCH_TOKENS,
    limit: int | None = None,
) -> list[list[Hypothesis]]:
    """Decodes rows of source ids, batched with others of their length, and gives the beams of each, in order."""
    device = next(model.parameters()).device
    config = model.config
    # A table of positions ends where it ends.
    most = config.positions.length if config.positions.kind == "learned" else sys.maxsize
    vocabulary = Vocabulary(start=config.start, end=config.end, never=(config.pad,))
    found: list[list[Hypothesis]] = [[] for _ in rows]
    with torch.inference_mode():
        for places in _batches_by_length(rows, batch_tokens, beam):
            longest = max(len(rows[place]) for place in places)
            source = torch.full((len(places), longest), config.pad)
            for row, place in enumerate(places):
                source[row, : len(rows[place])] = torch.tensor(rows[place])
            limits = [min(limit or len(rows[place]) + EXTRA_TOKENS, most) for place in places]
            limits = torch.tensor(limits, device=device)
            memory, mask = model.encode(source.to(device))
            stepper = steps(model, memory, mask, int(limits.max()))
            if beam == 1:
                results = [
                    [Hypothesis(one.ids, one.score / float(length_penalty(min(len(one.ids) + 1, last), alpha)))]
                    for one, last in zip(greedy(stepper, limits, vocabulary), limits.tolist(), strict=True)
                ]
            else:
                results = beam_search(stepper, limits, vocabulary, beams=beam, alpha=alpha)
            for place, result in zip(places, results, strict=True):
                found[place] = result
    return found


def _batches_by_length(rows: list[list[int]], batch_tokens: int, beam: int) -> list[list[int]]:
    """Places of rows, longest first, in batches whose cells stay within the budget; one row at least."""
    batches: list[list[int]] = []
    for place in sorted(range(len(rows)), key=lambda place: (-len(rows[place]), place)):
        cells = len(rows[batches[-1][0]]) + beam * EXTRA_TOKENS // 4 if batches else 0
        if not batches or (len(batches[-1]) + 1) * cells > batch_tokens:
            batches.append([])
        batches[-1].append(place)
    return batches


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
