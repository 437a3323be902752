"""Translating: a model directory in, sentences in other words out; how that is scored and looked into."""

import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from manyheads.core.errors import CheckpointError, ConfigError, DataError
from manyheads.core.files import write_result
from manyheads.core.grouping import grouped
from manyheads.core.log import warn
from manyheads.data.batches import Batches
from manyheads.data.pairs import pair_batches, pair_store
from manyheads.data.readers.corpus import read_pairs
from manyheads.data.sentences import parts_that_fit
from manyheads.data.trees import CLOSING
from manyheads.generate.beam import refuse_search, refuse_wide, search
from manyheads.generate.steps import CachedSteps, Hypothesis, SpecialIds, Steps, refuse_many_rows
from manyheads.interop.directory import find_model, saved_kind
from manyheads.look.grid import Grid
from manyheads.look.walk import Section
from manyheads.models.conv import ConvSeq2Seq
from manyheads.models.rnn_translator import RNNTranslator
from manyheads.models.transformer import Transformer
from manyheads.tasks.inside.conclusions import LOGITS, concluded
from manyheads.tasks.inside.forward import ForwardPass, one_row, refuse_long, tokens_of
from manyheads.tasks.inside.importance import Measure
from manyheads.tasks.metrics import Scores
from manyheads.tasks.proofs.selfcheck import Finding, same_logits, same_translations
from manyheads.tasks.task import Predictor
from manyheads.tasks.texts import texts_of
from manyheads.tasks.translate.data import reader_of
from manyheads.tasks.translate.recipe import Evaluation, refuse_fields
from manyheads.text.tokenizer import Tokenizer
from manyheads.train.objectives import Loss, translation_loss

LONGEST = 256  # tokens translated at once: as many as data.longest lets into training by default
LONGEST_SEEN = 1024  # tokens of a text that is looked into: its weights grow with the square
NAMED = 5  # of the lines that a warning is about
EXTRA_TOKENS = 50  # a translation has at most as many tokens as its source and these (Vaswani et al. 2017, section 6.1)
ENCODED_AT_ONCE = 16  # sentences: enough for the matrix units, few enough to be of one length
BATCH_CELLS = 28_000  # source and cache positions of one batch of sentences
LOSS_TOKENS = 4000  # target tokens of a batch whose loss is measured
TranslationModel = Transformer | ConvSeq2Seq | RNNTranslator
BEAM = 4


@dataclass(frozen=True)
class Translation:
    """One candidate: its text and its score, the log-probability divided by the length penalty."""

    text: str
    score: float


def writes_trees(tokenizer: Tokenizer) -> bool:
    """Whether a translator's model writes the brackets of trees, and no language."""
    return CLOSING in tokenizer.symbols()


class Translator(Predictor):
    """A translator that is ready to use: a model of ours, or a MarianMTModel checkpoint with a tokenizer.json."""

    what = "a translator"
    kinds = (Transformer, ConvSeq2Seq, RNNTranslator)
    scored_on = Evaluation
    ranked_by = ("loss", "bleu")
    commands = ("translate {model} in.txt", "align {model} 'a sentence'")

    @classmethod
    def opens(cls, path: Path) -> bool:
        return saved_kind(path) is not Transformer or not writes_trees(Tokenizer.load(find_model(path)))

    def __init__(self, model: TranslationModel, tokenizer: Tokenizer):
        super().__init__(model, tokenizer)
        if writes_trees(tokenizer):
            raise CheckpointError("this model writes trees, and no language; use it with manyheads parse")

    def translate(
        self, sentences: Iterable[str], *, beam: int = BEAM, alpha: float = 0.6, first_line: int = 1
    ) -> list[str]:
        """The best translation of each sentence, in order; beam 1 is greedy search, a blank sentence stays blank.

        One of more than 256 tokens is split at the ends of its sentences, and its parts' translations are joined; a
        warning names it by its number, which counts from `first_line`.
        """
        return [found[0].text for found in self._search(sentences, beam, alpha, 1, first_line, scored=False)]

    def candidates(
        self, sentences: Iterable[str], *, beam: int = BEAM, alpha: float = 0.6, count: int = 4, first_line: int = 1
    ) -> list[list[Translation]]:
        """The best `count` translations of each sentence with their scores, best first; of parts they are added up."""
        return self._search(sentences, beam, alpha, count, first_line, scored=True)

    def _search(
        self, sentences: Iterable[str], beam: int, alpha: float, count: int, first_line: int, scored: bool
    ) -> list[list[Translation]]:
        sentences = texts_of(sentences, "translate", "sentences")
        refuse_search(beam, alpha, count)
        full = [place for place, sentence in enumerate(sentences) if sentence.strip()]
        parts = self._in_parts([sentences[place] for place in full], [first_line + place for place in full])
        rows = [row for each in parts for row in each]
        found = [row[:count] for row in decode_all(self.model, rows, beam=beam, alpha=alpha, scored=scored)]
        texts = iter(self.tokenizer.decode([hypothesis.ids for row in found for hypothesis in row]))
        # One line in is one line out, whatever the model writes.
        lines = (Translation(" ".join(next(texts).split("\n")), each.score) for row in found for each in row)
        by_part = iter([list(islice(lines, len(row))) for row in found])
        results = [[Translation("", 0.0)] for _ in sentences]
        for place, each in zip(full, parts, strict=True):
            results[place] = [_joined(best) for best in zip(*islice(by_part, len(each)))]
        return results

    def _in_parts(self, sentences: list[str], numbers: list[int]) -> list[list[list[int]]]:
        """The ids of each sentence; one that is too long comes in parts, and is warned of by its number."""
        longest = min(LONGEST, most_tokens(self.model.config))
        found = [[row] for row in self.tokenizer.encode(sentences)]
        long = [place for place, (row,) in enumerate(found) if len(row) > longest]
        for place in long:
            fits = lambda text: len(self.tokenizer.encode([text])[0]) <= longest  # noqa: E731
            found[place] = self.tokenizer.encode(parts_that_fit(sentences[place], fits))
        if long:
            named = ", ".join(f"{numbers[place]:,}" for place in long[:NAMED])
            more = f" and {len(long) - NAMED:,} more" if len(long) > NAMED else ""
            warn(
                f"longer than the {longest} tokens that are translated at once: {'lines' if long[1:] else 'line'} "
                f"{named}{more}; split at the ends of sentences, or between words, and joined again"
            )
        return found

    def evaluate(self, asked: Evaluation) -> Scores:
        """BLEU, cased and lower-cased, and chrF, with their signatures."""
        pairs = _asked_pairs(asked)
        found = self.translate([pair[0] for pair in pairs], beam=asked.beam, alpha=asked.alpha)
        scores = score(found, [pair[1] for pair in pairs])
        if asked.out:
            write_result(Path(asked.out), "".join(f"{text}\n" for text in found))
        lines = [f"{name:<11} {value:6.2f}   {signature}" for name, (value, signature) in scores.items()]
        numbers = {name: {"score": value, "signature": signature} for name, (value, signature) in scores.items()}
        return Scores(numbers, "\n".join(lines))

    def measure(self, asked: Evaluation, by: str | None) -> Measure:
        """The loss a token, or BLEU of greedy search; without any data on the run's own validation set."""
        own = None if self.path is None else self.path / "data" / "valid.jsonl"
        if own and own.is_file() and not (asked.source or asked.pairs):
            pairs = list(read_pairs(pairs=[own]))
        else:
            pairs = _asked_pairs(asked)
        sources, targets = ([pair[side] for pair in pairs] for side in (0, 1))
        if by == "bleu":
            bleu = lambda: score(self.translate(sources, beam=1), targets)["BLEU"][0]  # noqa: E731
            return Measure("BLEU", self.model, bleu, more_is_better=True)
        store = pair_store(self.tokenizer.encode(sources), self.tokenizer.encode(targets))
        batches = pair_batches(store, tokens=LOSS_TOKENS, pad=self.tokenizer.pad, seed=0, shuffle=False)
        return Measure("loss", self.model, torch.inference_mode()(lambda: mean_loss(self.model, batches)))

    def forward(self, text: str, second: str | None, tokens: int) -> ForwardPass:
        """A sentence and its translation, the one given or the one that beam search finds."""
        model, tokenizer, config = self.model, self.tokenizer, self.model.config
        row = tokenizer.encode([text])[0]
        most = most_tokens(config)
        refuse_long(text, row, min(most, LONGEST_SEEN))
        if second is None:
            found = decode_all(model, [row], beam=BEAM)[0][0].ids
            # One that was cut at its limit has no end.
            written, says = [*found, config.end][: min(len(row) + EXTRA_TOKENS, most)], tokenizer.decode([found])[0]
        else:
            written, says = tokenizer.encode([second])[0], second
            refuse_long(second, written, min(most, LONGEST_SEEN))
        before = [config.start, *written[:-1]]
        ids = {"encoder": row, "decoder": before}
        return ForwardPass((text,), ids, lambda: model(one_row(model, row), one_row(model, before)), written, says)

    def conclusion(self, read: ForwardPass, output: Tensor, count: int) -> Section:
        best = output[0].float().softmax(dim=-1).topk(min(count, output.shape[-1]), dim=-1)
        words = [tokens_of(self.tokenizer, each) for each in best.indices.tolist()]
        shades = best.values.cpu().numpy()
        cells = [[f"{word} {chance:.2f}" for word, chance in zip(*row)] for row in zip(words, shades)]
        columns = [str(place) for place in range(1, len(cells[0]) + 1)]
        note = "A row for each token read so far, the likeliest next token first."
        rows = tokens_of(self.tokenizer, read.ids["decoder"])
        grid = Grid("next tokens", cells, rows, columns, shades, f"softmax({LOGITS} + b)", note)
        said = (
            "The decoder's last states, compared with every token of the vocabulary, say what comes next; beam search "
        )
        return concluded(f"{said}with {BEAM} beams chose among them.", grid)

    def selfcheck(self, sentences: int, beam: int) -> list[Finding]:
        return [*same_logits(self.model), *same_translations(self.model, decode_all, sentences, beam)]


def _joined(parts: Iterable[Translation]) -> Translation:
    parts = list(parts)
    return Translation(" ".join(part.text for part in parts), sum(part.score for part in parts))


def most_tokens(config: Any) -> int:
    """How many tokens a model can read: a table of positions ends where it ends."""
    positions = getattr(config, "positions", None)
    return positions.length if positions and positions.kind == "learned" else sys.maxsize


def _asked_pairs(asked: Evaluation) -> list[tuple[str, str]]:
    refuse_fields(asked.fields, "--fields")
    if not (asked.pairs or asked.source or asked.target):
        raise ConfigError("there is nothing to score a translator on: give --source and --target, or --pairs")
    found = list(reader_of(asked.source, asked.target, asked.pairs, asked.fields)())
    if not found:
        raise DataError("the test set has no sentences")
    return found


def mean_loss(model: Any, batches: Batches, loss: Callable[..., Loss] = translation_loss) -> float:
    """The negative log-likelihood of a token, over all batches."""
    device = next(model.parameters()).device
    losses = [loss(model, batch.to(device)) for batch in batches.epoch(0)]
    return sum(float(each.likelihood) for each in losses) / sum(each.tokens for each in losses)


def decode_all(
    model: TranslationModel,
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
    most = most_tokens(config)
    special = SpecialIds(stop_ids=(config.end, *config.other_ends), banned=(config.pad,))
    found: list[list[Hypothesis]] = [[] for _ in rows]
    refuse_wide(beam)
    refuse_many_rows(model, beam, max(map(len, rows), default=0) + EXTRA_TOKENS, beam)
    with torch.inference_mode():
        # What a row takes: itself, and its translations as they may become.
        cells = [len(row) + beam * (len(row) + EXTRA_TOKENS) for row in rows]
        for places in grouped(cells, batch_cells, longest_first=True):
            batch = [rows[place] for place in places]
            limits = torch.tensor([min(limit or len(row) + EXTRA_TOKENS, most) for row in batch])
            memory, mask = _encoded(model, batch, device)
            stepper = steps(model, memory, mask, int(limits.max()), beam)
            results = search(stepper, limits, special, beams=beam, alpha=alpha, scored=scored)
            for place, result in zip(places, results, strict=True):
                found[place] = result
    return found


def _encoded(model: TranslationModel, rows: list[list[int]], device: torch.device) -> tuple[Tensor, Tensor]:
    """The memory of rows that are sorted by length, and its mask; each piece of the batch is padded for itself."""
    longest = max(map(len, rows))
    memory = torch.empty(0)
    mask = torch.zeros(len(rows), 1, 1, longest, dtype=torch.bool, device=device)
    for first in range(0, len(rows), ENCODED_AT_ONCE):
        piece = [torch.tensor(row) for row in rows[first : first + ENCODED_AT_ONCE]]
        source = pad_sequence(piece, batch_first=True, padding_value=model.config.pad).to(device)
        place = slice(first, first + len(piece)), slice(source.shape[1])
        encoded = model.encode(source)[0]
        if not first:
            memory = torch.zeros(len(rows), longest, encoded.shape[2], device=device)
        memory[place] = encoded.to(memory.dtype)
        mask[:, 0, 0][place] = source != model.config.pad
    return memory, mask


def score(hypotheses: Iterable[str], references: Iterable[str]) -> dict[str, tuple[float, str]]:
    """sacreBLEU's BLEU, cased and lower-cased, and chrF, each with the signature that says how it was computed."""
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF

    metrics = {"BLEU": BLEU(), "BLEU, lower": BLEU(lowercase=True), "chrF": CHRF()}
    found, right = (texts_of(each, "score") for each in (hypotheses, references))
    if len(found) != len(right) or not found:
        raise ConfigError(f"{len(found):,} hypotheses and {len(right):,} references; each must have the other")
    scores = {name: metric.corpus_score(found, [right]) for name, metric in metrics.items()}
    return {name: (scores[name].score, str(metric.get_signature())) for name, metric in metrics.items()}


PREDICTOR = Translator
