"""Answerers: a model directory in, the stretch of a text that answers a question out.

It is scored and looked into here too.

Shapes:  T positions of a window  N tokens of a context  L tokens of a stretch
"""

import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from manyheads.core.errors import ConfigError, DataError
from manyheads.core.log import warn
from manyheads.data.readers.questions import Question, read_questions
from manyheads.look.grid import of_numbers
from manyheads.look.walk import Section
from manyheads.models.bert import BertAnswerer
from manyheads.tasks.answer.data import ContextWindow, Read, Reader, pairs_of
from manyheads.tasks.answer.recipe import LONGEST, STRIDE, Evaluation
from manyheads.tasks.answer.scores import AnswerScores, answer_scores, answer_table
from manyheads.tasks.inside.conclusions import GIVES, probabilities
from manyheads.tasks.inside.forward import ForwardPass, one_forward, refuse_long, refuse_no_second, tokens_of
from manyheads.tasks.inside.importance import Measure
from manyheads.tasks.labelled import EncoderPredictor, outputs_of
from manyheads.tasks.metrics import Scores
from manyheads.tasks.texts import text_pairs
from manyheads.text.encoder import EncoderTokenizer

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


class Answerer(EncoderPredictor):
    """An answerer that is ready to use: it points at the first and the last token of the answer.

    A context longer than a window is read in overlapping ones; a stretch counts as in the window where it has most
    context on both sides.
    """

    what = "a question answerer"
    kinds = (BertAnswerer,)
    scored_on = Evaluation
    commands = ("answer {model} 'a question?' --context in.txt",)

    def __init__(
        self, model: BertAnswerer, tokenizer: EncoderTokenizer, *, longest: int | None = None, stride: int = STRIDE
    ):
        """`longest` is the tokens of a window, unset: as many as in training; `stride` those from one to the next."""
        super().__init__(model, tokenizer)
        self.impossible = model.impossible
        longest = longest or model.longest or LONGEST
        self._reader = Reader(tokenizer, model.config.context, longest=longest, stride=stride)
        self._warned = False

    def __call__(self, questions: Iterable[tuple[str, str]]) -> list[Span]:
        """The best answer to each (question, context); many at a time get what each would get alone."""
        return [spans[0] for spans in self._ranked(questions)]

    def best(self, question: str, context: str, count: int = 5) -> list[Span]:
        """The best answers to a question, the best first: `count` of them, where there are so many among the 20."""
        if count < 1:
            raise ConfigError(f"{count} answers are asked for; ask for 1 or more")
        return self._ranked([(question, context)])[0][:count]

    def _ranked(self, questions: Iterable[tuple[str, str]]) -> list[list[Span]]:
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

    def evaluate(self, asked: Evaluation) -> Scores:
        """Exact match and F1, as SQuAD's own evaluation counts them."""
        scores = score_questions(self, self._questions(asked))
        return Scores(asdict(scores), answer_table(scores))

    def measure(self, asked: Evaluation, by: str | None) -> Measure:
        questions = self._questions(asked)
        return Measure("F1", self.model, lambda: score_questions(self, questions).f1, more_is_better=True)

    def _questions(self, asked: Evaluation) -> list[Question]:
        if asked.columns:
            raise ConfigError("--columns are of tables; questions in the layout of SQuAD have none")
        return [question for name in self.given(asked.data) for question in read_questions(Path(name))]

    def forward(self, text: str, second: str | None, tokens: int) -> ForwardPass:
        why = "this model reads a question and a text; give the text behind the question"
        context = refuse_no_second(second, why)
        row = self.tokenizer.wrapped(*self.tokenizer.encode([text, context]))
        config = self.model.config
        refuse_long(context, row, min(self.model.longest or config.context, config.context))
        return one_forward(self.model, row, (text, context))

    def conclusion(self, read: ForwardPass, output: Tensor, count: int) -> Section:
        chances = output[0].float().softmax(dim=0).cpu().numpy()
        tokens, formula = tokens_of(self.tokenizer, read.ids["self"]), "softmax(x W + b)"
        points = of_numbers("where", chances, tokens, ["first", "last"], digits=3, formula=formula)
        spans = self.best(*read.texts, count)  # type: ignore
        scored, likely = (torch.tensor([getattr(span, name) for span in spans]) for name in ("score", "probability"))
        names = [span.text or "(none)" for span in spans]
        answers = probabilities("answers", names, scored, likely, "first + last")
        said = "Each token is scored to be the first and the last of the answer."
        return Section(GIVES, said, [(points, answers)])


def _checked(questions: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    found = list(text_pairs(questions, "an answerer", "(question, context)"))
    for question, context in found:
        if not question.strip():
            raise DataError("the question is empty; ask one")
        if not context.strip():
            raise DataError(f"the context of the question {question!r:.60} is empty; give a text that may answer it")
    return found


def window_scores(model: nn.Module, windows: Sequence[ContextWindow]) -> list[Tensor]:
    """What the model says of each window, [T, 2]."""
    outputs = outputs_of(model, [window.ids for window in windows])
    return [output[: len(window.ids)] for output, window in zip(outputs, windows)]


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


def score_questions(answerer: Answerer, questions: Iterable[Question]) -> AnswerScores:
    """Exact match and F1 of the best answers."""
    questions = list(questions)
    found = answerer(pairs_of(questions))
    golds = [[answer.text for answer in question.answers] for question in questions]
    return answer_scores([span.text for span in found], golds)


PREDICTOR = Answerer
