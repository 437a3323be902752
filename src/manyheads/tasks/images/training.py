"""Training to classify images, as Dosovitskiy et al. (2021) did."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from manyheads.core.errors import ConfigError
from manyheads.core.log import hushed
from manyheads.data.augment import augmented, mixed
from manyheads.data.augmentation import LabelledAugmentation
from manyheads.data.images import COLOUR, GREY, ImageProcessor, image_batches
from manyheads.data.ragged import Store
from manyheads.interop.directory import load_model
from manyheads.models import vit
from manyheads.models.vit import ViT, ViTClassifier, ViTConfig
from manyheads.nn.patches import interpolated
from manyheads.tasks.card import model_card
from manyheads.tasks.fine_tuning import FineTuning
from manyheads.tasks.images.data import Labelled, read_all, store_labelled
from manyheads.tasks.images.recipe import ImageFineTune, ImagesRecipe
from manyheads.tasks.labelled import Split
from manyheads.tasks.pictures import fitted_to_images
from manyheads.tasks.task import Asked
from manyheads.train.config import TrainConfig
from manyheads.train.objectives import Loss, image_loss

OWN_PRESETS = ("vit_micro", "vit_mini")  # whose patches may be of any size
RATE = 0.024  # of training from scratch, for a width of one: it falls with the root of the width
TUNED, TUNED_EPOCHS = 1e-4, 5  # of a pre-trained model: the learning rate, and epochs


class Images(FineTuning):
    """From labelled images to a classifier."""

    Recipe = ImagesRecipe
    Processor = ImageProcessor
    network = ViT
    family, encoders = "vit", ()
    presets = tuple(vit.PRESETS)
    unit = "images"
    metrics = ("accuracy", "loss")
    from_processor = ()
    may_differ = (*FineTuning.may_differ, "image_size")
    smoothed = True

    @classmethod
    def sized(cls, asked: Asked) -> ImagesRecipe:
        if asked.pre_trained:
            sizes = _load(Path(asked.pre_trained))[0].config
            return ImagesRecipe(model=sizes, fine_tune=ImageFineTune(epochs=TUNED_EPOCHS))
        if asked.preset or asked.table or asked.flags.get("data", {}).get("data"):
            return cls.preset(asked.preset or OWN_PRESETS[0])
        return cls.sample()

    @classmethod
    def preset(cls, name: str) -> ImagesRecipe:
        if name not in vit.PRESETS:
            raise ConfigError(f"there is no preset {name}; there are {', '.join(vit.PRESETS)}")
        return ImagesRecipe(model=vit.PRESETS[name]())

    @classmethod
    def sample(cls) -> ImagesRecipe:
        """The digits, learned within a minute on two cores; in patches of two pixels they are learned by heart."""
        model = replace(vit.PRESETS["vit_micro"](), patch_size=4)
        return ImagesRecipe(
            model=model, augment=LabelledAugmentation(shift=1, rotate=12), fine_tune=ImageFineTune(epochs=60)
        )

    @classmethod
    def blank(cls, table: dict[str, Any]) -> ImagesRecipe:
        return ImagesRecipe()

    @classmethod
    def complete(cls, begun: ImagesRecipe, change: Callable[[Any], Any], asked: Asked) -> ImagesRecipe:
        """Size, colours and patches follow from the images, what is usual for training from all that."""
        changed = change(begun)
        with hushed():
            about = read_all(changed.data, changed.train.seed).about
        data, own = changed.data, _own(begun.model)
        if asked.pre_trained:  # it reads what it has learned to read
            if data.grey and begun.model.channels == COLOUR:
                raise ConfigError(f"{asked.pre_trained} reads colours, but data.grey is true; leave it away")
            data, about, own = replace(data, grey=False), {"side": None, "grey": begun.model.channels == GREY}, False
        model = fitted_to_images(changed.model, data, about, asked, own=own)
        augment = changed.augment
        if augment.flip is None:
            augment = replace(augment, flip=model.channels == COLOUR)
        fitted = replace(begun, model=model, augment=augment)

        def keep_fitted(recipe: Any) -> Any:
            return replace(change(recipe), model=model, augment=augment)

        return super().complete(fitted, keep_fitted, asked)

    def count(self, examples: Split[Labelled]) -> tuple[int, str]:
        return len(examples.train), self.metrics[0]

    def usual_training(self) -> TrainConfig:
        usual = super().usual_training()
        every = max(3 * usual.valid_every, usual.steps // 20)
        regular = {"weight_decay": 0.05, "beta2": 0.98, "schedule": "linear", "smoothing": 0.1}
        return replace(usual, valid_every=every, checkpoint_every=every, **regular)

    def rate(self) -> float:
        recipe = self.recipe
        if recipe.fine_tune.freeze or not recipe.fine_tune.model:
            return super().rate() if recipe.fine_tune.freeze else RATE * recipe.model.width**-0.5
        return TUNED

    def load_body(self, path: Path) -> tuple[ViT, ImageProcessor]:
        return _load(path)

    def read(self) -> Split[Labelled]:
        return read_all(self.recipe.data, self.recipe.train.seed)

    def train_processor(self, examples: Split[Labelled]) -> ImageProcessor:
        return ImageProcessor.of(self.recipe.model.image_size, self.recipe.model.channels)

    def pre_trained(self, *, begun: bool) -> tuple[Any, Any]:
        body, processor = super().pre_trained(begun=begun)
        return body, processor and processor.resized(self.recipe.model.image_size)

    def store(self, examples: Split[Labelled], directory: Path) -> None:
        store_labelled(examples, self.processor, directory)

    def open(self, directory: Path) -> None:
        super().open(directory)
        self.names = tuple(self.train.about["names"])

    def batches_of(self, store: Store, *, seed: int, shuffle: bool) -> Any:
        shape = (self.processor.size, self.processor.size, self.processor.channels)
        return image_batches(store, shape, size=self.recipe.data.examples, seed=seed, shuffle=shuffle)

    def body(self, pre_trained: ViT | None) -> ViT:
        body = ViT(self.recipe.model)
        if pre_trained is not None:
            weights = {name: each for name, each in pre_trained.state_dict().items() if not name.startswith("pooler.")}
            places = "positions.table.weight"
            if places in weights:
                weights[places] = interpolated(weights[places], self.recipe.model.grid)
            body.load_state_dict(weights)
        return body

    def on_top(self, body: Any) -> nn.Module:
        return ViTClassifier(body, self.names)

    def loss(self, model: nn.Module, batch: Any) -> Loss:
        shades = augmented(batch.pixels.movedim(-1, -3).float() / 255, self.recipe.augment)
        shades, targets = mixed(shades, batch.labels, self.recipe.augment, len(self.names))
        scores = model(self.processor.shifted(shades))
        return image_loss(scores, targets, smoothing=self.recipe.train.smoothing)

    def scores(self, model: nn.Module, batch: Any) -> Tensor:
        return model(self.processor.normalised(batch.pixels)).float()

    def card(self, which: str, scores: dict[str, float]) -> str:
        sizes, side = self.recipe.model, self.recipe.model.image_size
        colours = "colour" if sizes.channels == COLOUR else "grey"
        about = f"""
A Vision Transformer (Dosovitskiy et al. 2021) that reads images of {side} × {side} pixels in {colours} as
{sizes.grid} × {sizes.grid} patches, trained on {len(self.train):,} images; these are its weights {which}.
Its labels are {", ".join(self.names)}.
`manyheads classify-image`, `manyheads.ImageClassifier` and, where `config.json` says vit, transformers'
`ViTForImageClassification` and `ViTImageProcessor` open this directory.
"""
        meaning = "Accuracy is in percent; loss is the negative log-likelihood of a label."
        tag, title = "image-classification", "A classifier of images"
        return model_card(self.recipe, scores, pipeline_tag=tag, title=title, about=about, meaning=meaning)


def _own(sizes: ViTConfig) -> bool:
    return any(sizes == vit.PRESETS[name]() for name in OWN_PRESETS)


def _load(path: Path) -> tuple[ViT, ImageProcessor]:
    """A pre-trained ViT without what stands on top of it, and its processor."""
    model, processor = load_model(path, kinds=(ViT, ViTClassifier))
    return getattr(model, "body", model), processor


TASK = Images
