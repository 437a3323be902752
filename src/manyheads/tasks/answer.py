"""Answerers: a model directory in, the stretch of a text that answers a question out.

Training one is in `answer_training`.  Shapes:  T positions of a window  N tokens of a context  L tokens of a stretch
"""

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from manyheads.core.errors import ConfigError, DataError
from manyheads.core.grouping import grouped
from manyheads.core.log import warn
from manyheads.data.batches import padded
from manyheads.data.readers.questions import Question
from manyheads.interop.directory import load_model
from manyheads.models.bert import BertAnswerer
from manyheads.ops.device import pick_device
from manyheads.tasks.answer_data import LONGEST, STRIDE, Read, Reader, Window, pairs_of
from manyheads.tasks.answer_scores import AnswerScores, answer_scores
from manyheads.text.encoder import EncoderTokenizer

CELLS_AT_ONCE = 16_384  # tokens in one batch, padding included
COMPARED = 20  # stretches, the best of a context, which probabilities are shared among
LONGEST_ANSWER = 30  # tokens


@dataclass(frozen=True)
class Span:
    """A stretch of a context that may answer a question; an empty one, from 0 to 0, says that the context does not."""

    text: str
    """Exactly context[start:end]."""
    start: int
    end: int
    probability: float
    """Among the 20 best of the context, and among no answer too where the model knows of questions without one."""
    score: float
    """That of its first token to be the first and that of its last token to be the last, added up."""


class Answerer:
    """An answerer that is ready to use: it points at the first and the last token of the answer.

    A context longer than a window is read in overlapping ones; a stretch counts as in the window where it has most
    context on both sides.
    """

    def __init__(
        self, model: BertAnswerer, tokenizer: EncoderTokenizer, *, longest: int | None = None, stride: int = STRIDE
    ):
        """`longest` is the tokens of a window, unset: as many as in training; `stride` those from one to the next."""
        self.model, self.tokenizer, self.impossible = model.eval(), tokenizer, model.impossible
        longest = longest or model.longest or LONGEST
        self._reader = Reader(tokenizer, model.config.context, longest=longest, stride=stride)
        self._warned = False

    @classmethod
    def load(cls, path: str | Path, *, device: str = "auto") -> "Answerer":
        """Opens a run directory, a model directory, or a `BertForQuestionAnswering`."""
        model, tokenizer = load_model(Path(path), kinds=(BertAnswerer,))
        return cls(model.to(pick_device(device)), tokenizer)

    def __call__(self, questions: Sequence[tuple[str, str]]) -> list[Span]:
        """The best answer to each (question, context); many at a time get what each would get alone."""
        return [spans[0] for spans in self._ranked(questions)]

    def best(self, question: str, context: str, count: int = 5) -> list[Span]:
        """The best answers to a question, the best first: `count` of them, where there are so many among the 20."""
        if count < 1:
            raise ConfigError(f"{count} answers are asked for; ask for 1 or more")
        return self._ranked([(question, context)])[0][:count]

    def _ranked(self, questions: Sequence[tuple[str, str]]) -> list[list[Span]]:
        pairs = _checked(questions)
        read = self._reader(pairs)
        if self._reader.cut and not self._warned:
            self._warned = True
            warn(f"a question is longer than {self._reader.question} tokens and loses its end")
        scores = iter(window_scores(self.model, [window for each in read for window in each.windows]))
        return [
            ranked(each, [next(scores) for _ in each.windows], context, self.impossible)
            for each, (_, context) in zip(read, pairs)
        ]


def _checked(questions: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    if isinstance(questions, str):
        raise ConfigError("an answerer takes a list of (question, context), not one string")
    for pair in questions:
        if isinstance(pair, str) or len(pair) != 2 or not all(isinstance(text, str) for text in pair):
            raise ConfigError(f"{pair!r:.60} is given where an answerer takes (question, context)")
        if not pair[0].strip():
            raise DataError("the question is empty; ask one")
        if not pair[1].strip():
            raise DataError(f"the context of the question {pair[0]!r:.60} is empty; give a text that may answer it")
    return [(question, context) for question, context in questions]


@torch.inference_mode()
def window_scores(model: nn.Module, windows: Sequence[Window]) -> list[Tensor]:
    """What the model says of each window, [T, 2], computed with others of about its length; on the CPU."""
    found, device = [torch.empty(0)] * len(windows), next(model.parameters()).device
    for places in grouped([len(window.ids) for window in windows], CELLS_AT_ONCE):
        ids, lengths = padded([windows[place].ids for place in places])
        scores = model(ids.to(device), lengths.to(device)).float().cpu()
        for place, row in zip(places, scores):
            found[place] = row[: len(windows[place].ids)]
    return found


def ranked(read: Read, scores: Sequence[Tensor], context: str, impossible: bool) -> list[Span]:
    """The 20 best stretches of a context by the scores of its windows, best first; if `impossible`, no answer too.

    The score of no answer is the least that any window gives it, as in SQuAD 2.0's reference: most windows of a long
    context do not have the answer, and say so.
    """
    sums_NL = _sums(read, scores)
    best = sums_NL.flatten().topk(min(10 * COMPARED, sums_NL.numel()))  # several can be of the same characters
    found: dict[tuple[int, int], float] = {}
    for score, place in zip(best.values.tolist(), best.indices.tolist()):
        first, more = divmod(place, LONGEST_ANSWER)
        if score == -torch.inf or len(found) == COMPARED:
            break
        start, end = read.offsets[first][0], read.offsets[first + more][1]
        found.setdefault((start, _behind_accents(context, end)), score)
    if impossible:
        found[0, 0] = min(float(each[0].sum()) for each in scores)
    order = sorted(found, key=lambda each: -found[each])
    probabilities = torch.tensor([found[each] for each in order]).softmax(dim=0).tolist()
    return [
        Span(context[start:end], start, end, probability, found[start, end])
        for (start, end), probability in zip(order, probabilities)
    ]


def _sums(read: Read, scores: Sequence[Tensor]) -> Tensor:
    """[N, L]: the score of the stretch of 1, 2, … 30 tokens from each token on, -inf where no window has all of it."""
    sums_NL = torch.full((len(read.offsets), LONGEST_ANSWER), -torch.inf)
    margins_NL = torch.full(sums_NL.shape, -1)
    for window, each in zip(read.windows, scores):
        starts, ends = each[window.before : window.before + window.count].unbind(dim=1)
        place = torch.arange(window.count)[:, None]
        # Negative where the stretch goes on behind the window.
        margin = torch.minimum(place, window.count - 1 - place - torch.arange(LONGEST_ANSWER))
        behind = nn.functional.pad(ends, (0, LONGEST_ANSWER - 1)).unfold(0, LONGEST_ANSWER, 1)
        own = slice(window.first, window.first + window.count)
        better = margin > margins_NL[own]
        sums_NL[own] = torch.where(better, starts[:, None] + behind, sums_NL[own])
        margins_NL[own] = torch.where(better, margin, margins_NL[own])
    return sums_NL


def _behind_accents(context: str, end: int) -> int:
    """The end of a stretch with the accents of its last letter, where they are characters of their own."""
    while end < len(context) and unicodedata.combining(context[end]):
        end += 1
    return end


def score_questions(answerer: Answerer, questions: Sequence[Question]) -> AnswerScores:
    """Exact match and F1 of the best answers."""
    found = answerer(pairs_of(questions))
    golds = [[answer.text for answer in question.answers] for question in questions]
    return answer_scores([span.text for span in found], golds)
