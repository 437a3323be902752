"""Training a model that answers questions about images: a captioner that reads a question with the image."""

from manyheads.models.vision_encoder_decoder import VisionQuestionDecoder
from manyheads.tasks.answer.scores import answer_scores
from manyheads.tasks.ask.data import COLUMNS, questions_of_shapes
from manyheads.tasks.ask.recipe import AskRecipe
from manyheads.tasks.caption.training import Captioning
from manyheads.tasks.card import model_card


class Asking(Captioning):
    """From images with questions and answers to a model that answers others."""

    Recipe = AskRecipe
    network = VisionQuestionDecoder
    metrics = ("exact", "f1", "loss")
    own_data = ("data",)
    columns = COLUMNS
    sample_rows = staticmethod(questions_of_shapes)

    def written_scores(self, found: list[str], right: list[tuple[str, ...]]) -> dict[str, float]:
        scores = answer_scores(found, right)
        return {"exact": scores.exact, "f1": scores.f1}

    def card(self, which: str, scores: dict[str, float]) -> str:
        questions, images = len(self.train), len(self.pixels[id(self.train)])
        about = f"""
The patches of a Vision Transformer (Dosovitskiy et al. 2021) and the words of a question, read together; the decoder
of Vaswani et al. (2017) writes the answer. Trained on {questions:,} questions about {images:,} images; these are its
weights {which}. `manyheads ask` and `manyheads.ImageAnswerer` open this directory.
"""
        meaning = """
Exact is the percentage of questions whose answer is right but for capitals, punctuation and articles, f1 the overlap of
its words with those of the right one; loss is the negative log-likelihood of a token.
"""
        tag, title = "visual-question-answering", "A model that answers questions about images"
        return model_card(self.recipe, scores, pipeline_tag=tag, title=title, about=about, meaning=meaning)


TASK = Asking
