"""Image classifiers: a model directory in, labels of pictures out; how that is scored and looked into."""

from collections.abc import Iterable, Iterator
from dataclasses import asdict
from itertools import islice
from typing import Any

import numpy as np
import torch
from torch import Tensor

from manyheads.core.errors import DataError
from manyheads.data.images import ImageProcessor
from manyheads.data.readers.image_sets import ImageSet, digits
from manyheads.models.vit import ViTClassifier
from manyheads.tasks.images.data import image_sets, refuse_unknown
from manyheads.tasks.images.recipe import Evaluation
from manyheads.tasks.inside.forward import ForwardPass, Picture, refuse_second
from manyheads.tasks.inside.importance import Measure
from manyheads.tasks.labelled import Label, draw_reliability
from manyheads.tasks.metrics import LabelScores, Scores, label_scores, label_table
from manyheads.tasks.pictures import called, listed_images, of_sample, tell_unread
from manyheads.tasks.proofs.selfcheck import Finding, same_image_scores
from manyheads.tasks.task import Predictor

CELLS_AT_ONCE = 3200  # patches in one batch on a CPU, whose caches hold them; a GPU wants more
ON_A_GPU = 32


class ImageClassifier(Predictor):
    """A classifier of images that is ready to use: a model of ours, or a ViTForImageClassification as it is."""

    what = "an image classifier"
    kinds = (ViTClassifier,)
    scored_on = Evaluation
    commands = ("classify-image {model} photo.png",)
    sees = True

    def __init__(self, model: ViTClassifier, processor: ImageProcessor):
        super().__init__(model, processor)
        self.processor, self.names = processor, model.names

    def __call__(self, images: Iterable[Any]) -> list[Label]:
        """The likeliest label of each image: paths, images of Pillow or arrays, [height, width, colours]."""
        best, places = self.probabilities(images).max(dim=1)
        found = zip(best.tolist(), places.tolist())
        return [Label(self.names[place], probability, place) for probability, place in found]

    def probabilities(self, images: Iterable[Any]) -> Tensor:
        """[images, labels], on the CPU."""
        return self.scores(images).softmax(dim=1)

    def scores(self, images: Iterable[Any]) -> Tensor:
        """What the probabilities are made of; an image that cannot be read is refused."""
        rows = list(self.each_scores(images))
        refused = next((each for each in rows if isinstance(each, DataError)), None)
        if refused:
            raise refused
        return torch.stack(rows) if rows else torch.zeros(0, len(self.names))  # type: ignore

    def each_scores(self, images: Iterable[Any]) -> Iterator[Tensor | DataError]:
        """The scores of each image in turn, or why it cannot be read; never are all in memory at once."""
        read = self.processor.many(listed_images(images, self.what))
        config = self.model.config
        many = CELLS_AT_ONCE * (1 if self.device.type == "cpu" else ON_A_GPU) // (1 + config.grid**2)
        while batch := list(islice(read, max(many, 2))):
            whole = [pixels for pixels in batch if not isinstance(pixels, DataError)]
            scores = iter(self._scores(np.stack(whole)) if whole else ())
            for pixels in batch:
                yield pixels if isinstance(pixels, DataError) else next(scores)

    @torch.inference_mode()
    def _scores(self, pixels: np.ndarray) -> Tensor:
        given = torch.from_numpy(pixels).to(self.device)
        return self.model(self.processor.normalised(given)).float().cpu()

    def evaluate(self, asked: Evaluation) -> Scores:
        """Accuracy, in all and by class, F1, confusion and calibration."""
        _, found, truth = self._scored(asked)
        scores = label_scores(found.softmax(dim=1).numpy(), truth, self.names)
        draw_reliability(scores, self.path, asked.plot)
        by_class = class_scores(scores, self.names)
        numbers = {**asdict(scores), "labels": self.names, "classes": by_class}
        return Scores(numbers, f"{label_table(scores, self.names)}\n\n{class_table(by_class)}")

    def measure(self, asked: Evaluation, by: str | None) -> Measure:
        """The negative log-likelihood of the right label."""
        images, _, labels = self._scored(asked)
        truth = torch.tensor(labels)

        def loss() -> float:
            right = self.probabilities(images)[torch.arange(len(truth)), truth]
            return float(-right.clamp(min=1e-12).log().mean())

        return Measure("loss", self.model, loss)

    def _scored(self, asked: Evaluation) -> tuple[list[Any], Tensor, list[int]]:
        """The images that can be read, their scores and their labels; the others are named, and counted."""
        sets = self._sets(asked)
        images = [image for each in sets for image in each.images]
        labels = [self.names.index(label) for each in sets for label in each.labels]
        found = list(self.each_scores(images))
        tell_unread([str(scores) for scores in found if isinstance(scores, DataError)], len(found))
        read = [each for each in zip(images, found, labels) if isinstance(each[1], Tensor)]
        images, scores, labels = map(list, zip(*read))
        return images, torch.stack(scores), labels

    def _sets(self, asked: Evaluation) -> list[ImageSet]:
        """The images to score on; a model of the sample is scored on those of it that are for testing."""
        if not asked.data and of_sample(self.path, "data"):
            return [digits("test")]
        sets = image_sets(self.given(asked.data, "--data, a folder as it is trained on"), "test")
        for each in sets:
            refuse_unknown(each, self.names)
        return sets

    def forward(self, text: Any, second: str | None, tokens: int) -> ForwardPass:
        """An image as the model reads it: in a square, by patches."""
        refuse_second(second, "this model looks at one image")
        return image_forward(self.model, self.processor, text)

    def selfcheck(self, sentences: int, beam: int) -> list[Finding]:
        return same_image_scores(self.model, sentences)


def image_forward(model: ViTClassifier, processor: ImageProcessor, source: Any) -> ForwardPass:
    """The pass of one image."""
    pixels, grid = processor.pixels(source), model.config.grid
    given = processor.normalised(torch.from_numpy(pixels.copy())[None]).to(next(model.parameters()).device)
    picture = Picture(np.broadcast_to(pixels, (*pixels.shape[:2], 3)), grid)

    def run() -> Tensor:
        return model.score(model.states(given)[:, 0])  # in the last layer, too, every patch looks

    return ForwardPass((called(source),), {}, run, tokens={"self": picture.tokens}, picture=picture)


def class_scores(scores: LabelScores, names: Iterable[str]) -> list[dict[str, Any]]:
    """Of each class how many images there are, how many of them are found, and how many found are of it."""
    confusion = np.array(scores.confusion)
    there, found, right = confusion.sum(axis=1), confusion.sum(axis=0), confusion.diagonal()
    return [
        {"label": name, "images": int(own), "recall": _share(hits, own), "precision": _share(hits, said)}
        for name, own, said, hits in zip(names, there, found, right)
    ]


def _share(part: int, whole: int) -> float | None:
    return float(part / whole) if whole else None


def class_table(classes: list[dict[str, Any]]) -> str:
    """The same as lines to print."""
    wide = max(len("class"), *(len(each["label"]) for each in classes))
    lines = [f"{'class':{wide}}    images      recall   precision"]
    for each in classes:
        shares = (each["recall"], each["precision"])
        told = "".join("           -" if share is None else f"{100 * share:10.2f} %" for share in shares)
        lines.append(f"{each['label']:{wide}}{each['images']:10,}{told}")
    return "\n".join(lines)


PREDICTOR = ImageClassifier
