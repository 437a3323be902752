"""Answering questions about images: a model directory in, answers out."""

from collections.abc import Iterable
from typing import Any

from manyheads.core.errors import ConfigError, DataError
from manyheads.core.words import counted
from manyheads.data.readers.image_texts import ImageTexts
from manyheads.models.vision_encoder_decoder import VisionQuestionDecoder
from manyheads.tasks.answer.scores import answer_scores
from manyheads.tasks.ask.data import COLUMNS, questions_of_shapes
from manyheads.tasks.ask.recipe import Evaluation
from manyheads.tasks.caption.data import Asked
from manyheads.tasks.caption.recipe import LONGEST
from manyheads.tasks.caption.use import ALPHA, ImageWriter, Request
from manyheads.tasks.inside.forward import ForwardPass, refuse_no_second
from manyheads.tasks.metrics import Scores
from manyheads.tasks.texts import is_sequence, refuse_no_list
from manyheads.tasks.translate.use import BEAM


class ImageAnswerer(ImageWriter):
    """A model that answers questions about images, ready to use."""

    what = "a model that answers questions about images"
    kinds = (VisionQuestionDecoder,)
    scored_on = Evaluation
    commands = ("ask {model} photo.png 'a question?'", "look {model} photo.png 'a question?'")
    files, columns = "data", COLUMNS

    def __call__(
        self,
        questions: Iterable[tuple[Any, str]],
        *,
        beam: int = BEAM,
        alpha: float = ALPHA,
        tokens: int = LONGEST,
    ) -> list[str]:
        """The best answer to each (image, question); an image is a path, of Pillow or an array of pixels."""
        refuse_no_list(questions, self.what, "(image, question)")
        return self.best(map(self._request, questions), beam=beam, alpha=alpha, tokens=tokens)

    def _request(self, pair: Any) -> Request:
        if not is_sequence(pair) or len(pair) != 2 or not isinstance(pair[1], str):
            raise ConfigError(f"{pair!r:.60} is given where {self.what} takes (image, question)")
        if not pair[1].strip():
            raise DataError("the question is empty; ask one")
        return pair[0], pair[1]

    def sample(self, part: str) -> ImageTexts:
        return questions_of_shapes(part)

    def scores(self, texts: list[str], asked: list[Asked]) -> Scores:
        """How many answers are right, and the overlap of words."""
        found = answer_scores(texts, [each.right for each in asked])
        numbers = {"exact": found.exact, "f1": found.f1, "questions": found.questions}
        counts = counted(found.questions, "question")
        return Scores(numbers, f"exact match {found.exact:7.2f}   of {counts}\nF1          {found.f1:7.2f}")

    def forward(self, text: Any, second: str | None, tokens: int) -> ForwardPass:
        """An image and a question, and the answer that beam search finds."""
        question = refuse_no_second(second, "this model answers a question about an image; give one behind it")
        return self.seen(text, question, None)


PREDICTOR = ImageAnswerer
