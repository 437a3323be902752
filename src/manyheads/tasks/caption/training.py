"""Training a captioner: its presets, its objective and its scores."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from manyheads.core.errors import ConfigError
from manyheads.core.log import counting, hushed
from manyheads.data.augment import augmented
from manyheads.data.augmentation import TextAugmentation
from manyheads.data.batches import Batches
from manyheads.data.image_text import ImageTextProcessor, image_text_batches
from manyheads.data.images import ImageProcessor
from manyheads.data.ragged import Store
from manyheads.data.readers.image_texts import ImageTexts
from manyheads.models.vision_encoder_decoder import PRESETS, VisionEncoderDecoder
from manyheads.tasks.answer.scores import answer_scores
from manyheads.tasks.caption.data import (
    ImageTextSplit,
    captions_of_shapes,
    read_all,
    store_image_texts,
    stored_questions,
)
from manyheads.tasks.caption.recipe import CaptionRecipe
from manyheads.tasks.caption.use import decode_seen, multi_bleu, seen_of
from manyheads.tasks.card import model_card
from manyheads.tasks.pictures import fitted_to_images
from manyheads.tasks.task import Asked, Task
from manyheads.tasks.translate.use import mean_loss
from manyheads.text.tokenizer import Tokenizer
from manyheads.train.config import TrainConfig
from manyheads.train.objectives import Loss, translation_loss

ON_LAPTOPS = ("captioner_tiny",)  # presets whose patches may be of any size
PARTS = ("train", "valid")


class Captioning(Task):
    """From images with captions to a captioner."""

    Recipe: ClassVar[Any] = CaptionRecipe
    Processor = ImageTextProcessor
    network = VisionEncoderDecoder
    metrics = ("bleu", "exact", "loss")
    from_processor = ("vocabulary", "pad", "start", "end")
    presets = tuple(PRESETS)
    usual_preset = "captioner_small"
    own_data = ("pairs",)
    columns: ClassVar[tuple[str, ...]] = ("its caption",)
    """What stands behind an image's path on a line, for a person."""
    sample_rows: ClassVar[Callable[[str], ImageTexts]] = staticmethod(captions_of_shapes)
    """A part of the sample."""

    @classmethod
    def sample(cls) -> Any:
        """The pictures of shapes, learned in minutes on two cores, so that what is seen of one colour helps another."""
        often = {"valid_every": 500, "checkpoint_every": 500, "best_by": cls.metrics[0]}
        train = TrainConfig(
            steps=6000, optimizer="muon", learning_rate=2e-3, schedule="cosine", warmup=200, smoothing=0.0, **often
        )
        augment = TextAugmentation(shift=4, fade=0.5, word_dropout=0.5)
        return cls.Recipe(model=replace(PRESETS["captioner_tiny"](), patch_size=8), augment=augment, train=train)

    @classmethod
    def preset(cls, name: str) -> Any:
        if name not in PRESETS:
            raise ConfigError(f"there is no preset {name}; there are {', '.join(PRESETS)}")
        rate = 1e-3 if name in ON_LAPTOPS else 3e-4
        train = TrainConfig(steps=20_000, epochs=30, warmup=1000, learning_rate=rate, schedule="cosine", patience=10)
        return cls.Recipe(model=PRESETS[name](), train=replace(train, best_by=cls.metrics[0]))

    @classmethod
    def complete(cls, begun: Any, change: Callable[[Any], Any], asked: Asked) -> Any:
        """Size, colours and patches follow from the images."""
        changed = change(begun)
        with hushed():
            about = cls.found(changed).about
        own = any(begun.model == PRESETS[name]() for name in ON_LAPTOPS)
        return replace(changed, model=fitted_to_images(changed.model, changed.data, about, asked, own=own))

    @classmethod
    def found(cls, recipe: Any) -> ImageTextSplit:
        """The images of a recipe with their texts."""
        return read_all(recipe.data, cls.columns, cls.sample_rows, recipe.train.seed)

    def read(self) -> ImageTextSplit:
        return self.found(self.recipe)

    def train_processor(self, examples: ImageTextSplit) -> ImageTextProcessor:
        data, sizes = self.recipe.data, self.recipe.model
        if data.tokenizer:
            text = Tokenizer.load(Path(data.tokenizer))
        else:
            with counting("training the tokenizer"):
                texts = (text for row in examples.train.rows for text in row[1:])
                text = Tokenizer.train(texts, data.vocabulary)
        return ImageTextProcessor(ImageProcessor.of(sizes.image_size, sizes.channels), text)

    def store(self, examples: ImageTextSplit, directory: Path) -> None:
        store_image_texts(examples, self.processor, self.recipe.data, directory)

    def open(self, directory: Path) -> None:
        self.train, self.valid = (Store.open(directory / part) for part in PARTS)
        images = (Store.open(directory / f"{part}_images") for part in PARTS)
        self.pixels = dict(zip(map(id, (self.train, self.valid)), images))
        self.asked = stored_questions(directory)

    def batches_of(self, store: Store, *, seed: int, shuffle: bool) -> Batches:
        pad, size = self.processor.pad, self.recipe.data.examples
        pixels, images = self.pixels[id(store)], self.processor.images
        return image_text_batches(pixels, store, images, size=size, pad=pad, seed=seed, shuffle=shuffle)

    def source(self, pixels: Tensor, batch: Any) -> tuple[Tensor, ...]:
        """What the model reads of a batch, whose images are these."""
        return (pixels, batch.question) if "question" in batch.tensors else (pixels,)

    def loss(self, model: nn.Module, batch: Any) -> Loss:
        augment, images = self.recipe.augment, self.processor.images
        shades = augmented(batch.pixels.movedim(-1, -3).float() / 255, augment)
        how = {"smoothing": self.recipe.train.smoothing, "word_dropout": augment.word_dropout}
        return translation_loss(model, batch, source=self.source(images.shifted(shades), batch), **how)

    def plain_loss(self, model: nn.Module, batch: Any) -> Loss:
        """The same of the images and the texts as they are."""
        pixels = self.processor.images.normalised(batch.pixels)
        return translation_loss(model, batch, source=self.source(pixels, batch))

    def validate(self, model: Any) -> dict[str, float]:
        """The negative log-likelihood of a token, and how often what greedy search writes is right."""
        loss = mean_loss(model, self.valid_batches(), self.plain_loss)
        return {**self.written_scores(self._written(model), [each.right for each in self.asked]), "loss": loss}

    def written_scores(self, found: list[str], right: list[tuple[str, ...]]) -> dict[str, float]:
        """How good what was written is."""
        bleu, self.signature = multi_bleu(found, right)
        return {"bleu": bleu, "exact": answer_scores(found, right).exact}

    def _written(self, model: Any) -> list[str]:
        """What greedy search writes of each image, or of each question about one."""
        pixels, images, size = self.pixels[id(self.valid)]["pixels"], self.processor.images, self.recipe.data.examples
        ids: list[list[int]] = []
        for first in range(0, len(self.asked), size):
            some = self.asked[first : first + size]
            shape = (images.size, images.size, images.channels)
            rows = torch.stack([torch.from_numpy(pixels[each.image].copy()).view(shape) for each in some])
            questions = [each.question for each in some if each.question is not None]
            seen = seen_of(self.processor, rows, questions, next(model.parameters()).device)
            found = decode_seen(model, seen, beam=1, tokens=self.recipe.data.longest, scored=False)
            ids += [row[0].ids for row in found]
        return self.processor.text.decode(ids)

    def card(self, which: str, scores: dict[str, float]) -> str:
        about = f"""
The patches of a Vision Transformer (Dosovitskiy et al. 2021), read by the decoder of Vaswani et al. (2017), trained on
{len(self.train):,} captions of {len(self.pixels[id(self.train)]):,} images; these are its weights {which}.
`manyheads caption`, `manyheads.Captioner` and, where `config.json` says vision-encoder-decoder, transformers'
`VisionEncoderDecoderModel` with `ViTImageProcessor` open this directory.
"""
        meaning = f"""
BLEU is of greedy search (`{self.signature}`), exact the percentage of captions that are one of the image's right ones,
but for capitals, punctuation and articles; loss is the negative log-likelihood of a token.
"""
        tag, title = "image-to-text", "A captioner of images"
        return model_card(self.recipe, scores, pipeline_tag=tag, title=title, about=about, meaning=meaning)


TASK = Captioning
