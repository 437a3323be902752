"""Fine-tuning to answer questions, as BERT was on SQuAD (Devlin et al. 2019, sections 4.2 and 4.3)."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from manyheads.data.ragged import Store
from manyheads.data.readers.questions import Question
from manyheads.interop.directory import find_model
from manyheads.models.bert import Bert, BertAnswerer
from manyheads.tasks.answer.data import Reader, pairs_of, read_all, store_questions, stored_questions
from manyheads.tasks.answer.recipe import AnswerRecipe
from manyheads.tasks.answer.scores import answer_scores
from manyheads.tasks.answer.use import ranked, window_scores
from manyheads.tasks.card import model_card
from manyheads.tasks.fine_tuning import FineTuning
from manyheads.tasks.labelled import Split
from manyheads.tasks.task import Asked
from manyheads.text.encoder import EncoderTokenizer
from manyheads.train.objectives import Loss, answer_loss, span_loss


class Answering(FineTuning):
    """From questions with marked answers to a model that answers."""

    Recipe = AnswerRecipe
    unit = "windows"
    metrics = ("f1", "loss")

    @classmethod
    def complete(cls, begun: Any, change: Callable[[Any], Any], asked: Asked) -> AnswerRecipe:
        """An untrained model sees no more tokens at once than a window has, unless asked to.

        No position behind them would ever be learned.
        """
        recipe = super().complete(begun, change, asked)
        if asked.pre_trained or asked.names("model", "context"):
            return recipe
        return replace(recipe, model=replace(recipe.model, context=min(recipe.model.context, recipe.data.longest)))

    def count(self, examples: Split[Question]) -> tuple[int, str]:
        own = self.recipe.fine_tune.model
        if self.steps_asked:  # so that windows need no counting; there is one or more for each question
            return len(examples.train), "f1"
        self.processor = EncoderTokenizer.load(find_model(Path(own))) if own else self.train_processor(examples)
        return sum(len(read.windows) for read in self._reader()(pairs_of(examples.train))), "f1"

    def _reader(self) -> Reader:
        data = self.recipe.data
        return Reader(self.processor, self.recipe.model.context, longest=data.longest, stride=data.stride)

    def read(self) -> Split[Question]:
        return read_all(self.recipe.data, self.recipe.train.seed)

    def texts(self, examples: Split[Question]) -> Iterable[str]:
        contexts = dict.fromkeys(question.context for question in examples.train)
        return [*(question.text for question in examples.train), *contexts]

    def store(self, examples: Split[Question], directory: Path) -> None:
        store_questions(examples, self._reader(), directory)

    def open(self, directory: Path) -> None:
        data, context = self.recipe.data, self.recipe.model.context
        self.train, self.valid = Store.open(directory / "train"), stored_questions(directory)
        self.impossible = self.train.about["impossible"]
        # As the finished model will read them.
        self.validated = Reader(self.processor, context, longest=data.longest)(pairs_of(self.valid))

    def on_top(self, body: Bert) -> BertAnswerer:
        return BertAnswerer(body, self.impossible, min(self.recipe.data.longest, self.recipe.model.context))

    def loss(self, model: nn.Module, batch: Any) -> Loss:
        return answer_loss(model, batch)

    def validate(self, model: nn.Module) -> dict[str, float]:
        """The loss of a window, and in percent how many answers are right and how many of their words."""
        loss, found = 0.0, []
        windows = [window for read in self.validated for window in read.windows]
        scores = iter(window_scores(model, windows))
        for question, read in zip(self.valid, self.validated):
            own = [next(scores) for _ in read.windows]
            for each, target in zip(own, read.targets(question.answers)):
                starts, ends = torch.tensor([target]).unbind(dim=1)
                loss += float(span_loss(each[None], torch.tensor([len(each)]), starts, ends))
            found.append(ranked(read, own, question.context, self.impossible)[0].text)
        right = answer_scores(found, [[answer.text for answer in question.answers] for question in self.valid])
        return {"loss": loss / len(windows), "exact": right.exact, "f1": right.f1}

    def card(self, which: str, scores: dict[str, float]) -> str:
        some, every = "some of which have no answer; it says so", "all of which have an answer; it always gives one"
        about = f"""
An encoder with one linear layer on the state of each token, which scores it as the first and as the last of the answer,
trained as BERT was on SQuAD (Devlin et al. 2019); these are its weights {which}. It reads
`[CLS] question [SEP] context [SEP]` and learned from {len(self.train):,} windows of contexts, with questions
{some if self.impossible else every}.
`manyheads answer`, `manyheads.Answerer` and transformers' `AutoModelForQuestionAnswering` open this
directory.
"""
        meaning = """
Exact match and F1 are in percent, as SQuAD's own evaluation counts them; loss is the negative log-likelihood of the
first and of the last token of an answer, their mean, by window.
"""
        tag, title = "question-answering", "An answerer"
        return model_card(self.recipe, scores, pipeline_tag=tag, title=title, about=about, meaning=meaning)


TASK = Answering
