"""What all fine-tuning shares: a pre-trained model or an untrained one, a few epochs, and something new on top."""

import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from manyheads.core.errors import ConfigError
from manyheads.core.log import hushed, say
from manyheads.data.batches import Batches
from manyheads.data.examples import example_batches
from manyheads.data.ragged import Store
from manyheads.interop.config_json import removed_heads
from manyheads.interop.directory import load_encoder
from manyheads.models import bert, birnn
from manyheads.models.bert import Bert, BertConfig
from manyheads.models.birnn import BiRNN, BiRNNConfig
from manyheads.tasks.task import Asked, Task, refuse_other_family
from manyheads.text.encoder import EncoderTokenizer
from manyheads.train.config import TrainConfig
from manyheads.train.objectives import label_loss

SMALLEST = "bert_tiny"
UNSET = 2**53  # steps that nobody asked for
LARGE = 384  # the width from which on a pre-trained encoder is fine-tuned as gently as published
ENCODERS: dict[str, tuple[Any, Any, dict[str, Callable[[], Any]]]] = {
    "bert": (Bert, BertConfig, bert.PRESETS),
    "birnn": (BiRNN, BiRNNConfig, birnn.PRESETS),
}
"""The families of encoders: their models, sizes and presets."""
RECURRENT = {"rnn": (8, 2e-3), "birnn": (5, 4e-3)}
"""Epochs of untrained recurrent models, and the learning rate: by validation on ten thousand sentences."""


class FineTuning(Task):
    """Some epochs over labelled examples, with an encoder as the body of the model.

    A task says what stands on top (`on_top`), which score the kept model is best by, and how many examples there are.
    """

    Processor = EncoderTokenizer
    network = Bert
    family = "bert"
    """The one it stands on, where its recipe names none."""
    encoders: ClassVar[tuple[str, ...]] = ("bert",)
    """The families that it can stand on; where there are several, its recipe names one."""
    presets = tuple(bert.PRESETS)
    from_processor = ("vocabulary", "separator")
    pooler = False
    """Whether what stands on top reads the encoder's pooler."""
    smoothed: ClassVar[bool] = False
    """Whether its labels may be smoothed, and its model compiled."""

    def __init__(self, recipe: Any):
        super().__init__(recipe)
        self.family = getattr(recipe, "family", self.family)
        self.encoder, self.recurrent = self.family in ENCODERS, self.family in RECURRENT
        if self.encoder:
            self.network = ENCODERS[self.family][0]
        self.from_processor = tuple(name for name in self.from_processor if hasattr(recipe.model, name))

    @classmethod
    def begin(cls, asked: Asked) -> Any:
        # The optimizer for what is only possible with it.
        return replace(cls.sized(asked), train=TrainConfig(optimizer="adamw", steps=UNSET))

    @classmethod
    def sized(cls, asked: Asked) -> Any:
        """A recipe with the sizes of a pre-trained model or of a preset."""
        if asked.pre_trained:
            return cls.on_encoder(cls.load_encoder(Path(asked.pre_trained))[0].config, trained=True)
        if "family" in asked.table and not asked.preset:
            return cls.blank(asked.table)
        return cls.preset(asked.preset or SMALLEST)

    @classmethod
    def preset(cls, name: str) -> Any:
        found = next((ENCODERS[each][2][name] for each in cls.encoders if name in ENCODERS[each][2]), None)
        if found is None:
            raise ConfigError(f"there is no preset {name} of encoders; there are {', '.join(cls.presets)}")
        return cls.on_encoder(found())

    @classmethod
    def blank(cls, table: dict[str, Any]) -> Any:
        family = str(table.get("family", "bert"))
        if family not in cls.encoders:
            refuse_other_family(family, None, dict.fromkeys(cls.encoders, ""))
        return cls.on_encoder(ENCODERS[family][1]())

    @classmethod
    def on_encoder(cls, sizes: Any, *, trained: bool = False) -> Any:
        """The recipe with an encoder of these sizes."""
        if hasattr(sizes, "separator"):  # what ends a text follows from the tokenizer
            sizes = replace(sizes, separator=None)
        if len(cls.encoders) == 1:
            return cls.Recipe(model=sizes)
        family = next(name for name in cls.encoders if type(sizes) is ENCODERS[name][1])
        recipe = cls.Recipe(family=family, model=sizes)
        if family not in RECURRENT or trained:
            return recipe
        return replace(recipe, fine_tune=replace(recipe.fine_tune, epochs=RECURRENT[family][0]))

    @classmethod
    def complete(cls, begun: Any, change: Callable[[Any], Any], asked: Asked) -> Any:
        # Twice, since what is usual for training follows from all that has been said.
        return change(replace(begun, train=cls(change(begun)).usual_training()))

    def usual_training(self) -> TrainConfig:
        """Some epochs with a warm-up over the first tenth, validated three times an epoch."""
        recipe = self.recipe
        with hushed():
            examples, best_by = self.count(self.read())
        batches = math.ceil(examples / recipe.data.examples / recipe.train.accumulate)
        steps, third = self.steps_asked or recipe.fine_tune.epochs * batches, math.ceil(batches / 3)
        return TrainConfig(
            steps=steps,
            optimizer="adamw",
            weight_decay=0.01,
            beta2=0.999,
            learning_rate=self.rate(),
            schedule="cosine",
            warmup=max(steps // 10, 1),
            smoothing=0.0,
            valid_every=third,
            checkpoint_every=max(third, 100),
            keep=2,
            best_by=best_by,
        )

    @property
    def steps_asked(self) -> int | None:
        """How many steps somebody asked for, while a recipe is made."""
        return None if self.recipe.train.steps == UNSET else self.recipe.train.steps

    def count(self, examples: Any) -> tuple[int, str]:
        """How many examples there are to learn from, and the score that the kept model is best by."""
        raise NotImplementedError

    def rate(self) -> float:
        """The learning rate's peak: gentle with what is pre-trained and large, high where only a head learns."""
        if self.recipe.fine_tune.freeze:
            return 1e-3
        if self.recurrent:
            return RECURRENT[self.family][1]
        return 5e-5 if self.recipe.fine_tune.model and self.recipe.model.width >= LARGE else 3e-4

    def check(self) -> None:
        recipe = self.recipe
        if recipe.fine_tune.freeze and not recipe.fine_tune.model:
            raise ConfigError("an untrained model is not worth freezing; give a pre-trained one with --model")
        if not self.smoothed:
            refuse_smoothing(recipe.train, "labels")

    def pre_trained(self, *, begun: bool) -> tuple[Any, Any]:
        path = self.recipe.fine_tune.model
        if not path or begun:
            return None, None
        body, processor = self.load_body(Path(path))
        if removed_heads(body):
            raise ConfigError(f"{path} has lost heads, which a run cannot learn without; train first, then prune")
        return body, processor

    def load_body(self, path: Path) -> tuple[Any, Any]:
        """A pre-trained model without what stands on top of it, and its processor."""
        return self.load_encoder(path)

    @classmethod
    def load_encoder(cls, path: Path) -> tuple[Any, EncoderTokenizer]:
        """A pre-trained encoder of a family that it can stand on."""
        return load_encoder(path, *(ENCODERS[name][0] for name in cls.encoders))

    def train_processor(self, examples: Any) -> Any:
        data = self.recipe.data
        return EncoderTokenizer.train(self.texts(examples), data.vocabulary, lowercase=data.lowercase)

    def texts(self, examples: Any) -> Iterable[str]:
        """What a tokenizer is trained on."""
        raise NotImplementedError

    def open(self, directory: Path) -> None:
        self.train, self.valid = (Store.open(directory / part) for part in ("train", "valid"))

    def batches_of(self, store: Store, *, seed: int, shuffle: bool) -> Batches:
        return example_batches(store, size=self.recipe.data.examples, seed=seed, shuffle=shuffle)

    def build(self, body: Any) -> nn.Module:
        model = self.on_top(self.body(body))
        if self.recipe.fine_tune.freeze:  # but for an encoder's pooler, which is as much of a head as what reads it
            model.body.requires_grad_(False)  # type: ignore
            if pooler := getattr(model.body, "pooler", None):
                pooler.requires_grad_(True)
        return model

    def body(self, pre_trained: Any) -> nn.Module:
        """The model under what stands on top, with the weights of a pre-trained one where there is one."""
        sizes = replace(self.sizes(), vocabulary=max(self.recipe.model.vocabulary, len(self.processor)))
        body = Bert(sizes, pooler=self.pooler) if self.network is Bert else self.network(sizes)
        if pre_trained is not None:
            if isinstance(body, Bert) and self.pooler and pre_trained.pooler is None:
                say("the pre-trained model has no pooler; this one begins untrained")
            body.load_state_dict(pre_trained.state_dict(), strict=False)  # either may have a pooler of its own
        return body

    def on_top(self, body: Any) -> nn.Module:
        """The whole model, of its body and what the stored data says."""
        raise NotImplementedError

    def validate(self, model: nn.Module) -> dict[str, float]:
        """The loss of an example, and how many of a hundred are right; of numbers how they follow those in truth."""
        device = next(model.parameters()).device
        loss, found, labels = torch.zeros((), device=device), [], []
        for batch in self.valid_batches().epoch(0):
            batch = batch.to(device)
            scores = self.scores(model, batch)
            loss += label_loss(scores, batch.labels)
            found.append(scores[:, 0] if batch.labels.is_floating_point() else scores.argmax(dim=1))
            labels.append(batch.labels)
        predicted, truth = torch.cat(found), torch.cat(labels)
        told = {"loss": float(loss) / len(truth)}
        if truth.is_floating_point():
            return told | self.correlations(predicted, truth)
        return told | {"accuracy": 100 * float((predicted == truth).sum()) / len(truth)}

    def scores(self, model: nn.Module, batch: Any) -> Tensor:
        """Those of each label of an example, or its number alone."""
        raise NotImplementedError

    def correlations(self, predicted: Tensor, truth: Tensor) -> dict[str, float]:
        """How numbers follow those in truth, in percent."""
        raise NotImplementedError


def presets_of(families: Iterable[str]) -> tuple[str, ...]:
    """The names of all presets of these families of encoders."""
    return tuple(name for family in families for name in ENCODERS[family][2])


def refuse_smoothing(train: TrainConfig, what: str) -> None:
    """What only language models and translators have."""
    if train.smoothing:
        raise ConfigError(f"train.smoothing is {train.smoothing}, but {what} are not smoothed; set it to 0")
    if train.compile:
        raise ConfigError("train.compile is for language models and translators; leave it away")
