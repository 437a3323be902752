"""A text on its way through a model: what goes in, the model's forward, and what it wrote."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from manyheads.core.errors import ConfigError, DataError
from manyheads.core.words import counted
from manyheads.look.page import patch_names
from manyheads.tasks.task import Predictor, open_predictor
from manyheads.tasks.texts import refuse_no_text


@dataclass(frozen=True)
class Picture:
    """An image as a model sees it."""

    pixels: np.ndarray
    """[side, side, 3], uint8."""
    grid: int
    """Patches along a side."""
    before: int = 0
    """Tokens that are read before it, such as the words of a question."""

    @property
    def tokens(self) -> list[str]:
        """What stands for the whole, and the row and column of each patch."""
        return patch_names(1 + self.grid**2, (self.grid, self.grid))

    def token_of(self, patch: str | None) -> int:
        """The number of the token for a patch that is written row,column; none: what stands for the whole."""
        if patch is None:
            return self.before
        row, comma, column = (part.strip() for part in patch.partition(","))
        if not (comma and row.isdecimal() and column.isdecimal() and max(int(row), int(column)) < self.grid):
            raise ConfigError(
                f"there is no patch {patch}; write its row and its column, from 0,0 to {self.grid - 1},{self.grid - 1}"
            )
        return self.before + 1 + int(row) * self.grid + int(column)


@dataclass(frozen=True)
class ForwardPass:
    """A text, or two, as a model reads them; or an image, and what is read with it."""

    texts: tuple[str, ...]
    ids: dict[str, list[int]]
    """The ids that go through each stack: self, or encoder and decoder."""
    run: Callable[[], Tensor]
    """The model's forward on them."""
    written: list[int] = field(default_factory=list)
    """What it wrote: a translation with its end, or a continuation."""
    says: str = ""
    """The same as text."""
    places: list[int] = field(default_factory=list)
    """Where each word begins among the ids, of a tagger."""
    tokens: dict[str, list[str]] = field(default_factory=dict)
    """What goes through a stack that takes no ids, such as patches."""
    picture: Picture | None = None

    def stacks(self, tokenizer: Any) -> dict[str, list[str]]:
        """A label for each token that goes through each stack."""
        return {**{stack: tokens_of(tokenizer, ids) for stack, ids in self.ids.items()}, **self.tokens}


def opened(model: Any, device: str = "auto") -> tuple[str, Predictor]:
    """What a model is called, and the model ready to use; it may be a directory."""
    if isinstance(model, str | Path):
        found = open_predictor(model, device=device)
        if not hasattr(found, "model"):
            raise ConfigError(f"{model} is {found.what} and no model, so that it reads no text that could be looked at")
        return called(Path(model)), found
    if not isinstance(model, Predictor):
        raise ConfigError(f"{model!r:.60} is no model to look into; give its directory, or a Translator or the like")
    return type(model).__name__, model


def called(model: Path) -> str:
    """What a model is called in a title: the last part of its path that says something."""
    path = model.absolute()
    return path.parent.name if path.name == "model" else path.name


def read(predictor: Predictor, text: Any, second: str | None = None, tokens: int = 0) -> ForwardPass:
    """One text, or two, as this model reads them, of one that sees an image first; a language model goes on for so many
    tokens."""
    texts = [each for each in (text, second)[predictor.sees :] if each is not None]
    for each in texts:
        refuse_no_text(each, predictor.what)
    if not all(each.strip() for each in texts):
        raise DataError("the text is empty; give a sentence behind the model, in quotes")
    if tokens and not predictor.continues:
        raise ConfigError("only a language model goes on from a text; this is none, so leave the tokens away")
    if tokens < 0:
        raise ConfigError(f"{tokens} tokens are asked for; it must be at least 0")
    return predictor.forward(text, second, tokens)


def tokens_of(tokenizer: Any, ids: list[int]) -> list[str]:
    """A label for each token, a mark where it is nothing but a space."""
    return [piece if piece.strip(" ") else "␣" for piece in tokenizer.pieces(ids)]


def one_row(model: Any, ids: list[int]) -> Tensor:
    """[1, T]: ids where the model is."""
    return torch.tensor([ids], device=next(model.parameters()).device)


def refuse_long(text: str, ids: list[int], most: int) -> None:
    """A text must fit the model."""
    if len(ids) > most:
        raise DataError(f"{text!r:.60} has {counted(len(ids), 'token')}, but the model reads {most:,}; shorten it")


def refuse_second(second: str | None, why: str) -> None:
    """There is no second text where one is read."""
    if second is not None:
        raise ConfigError(f"{why}; leave the second away")


def one_forward(model: Any, ids: list[int], texts: tuple[str, ...], **more: Any) -> ForwardPass:
    """The pass of one row of ids through a model that is told its length."""
    return ForwardPass(texts, {"self": ids}, lambda: model(one_row(model, ids), one_row(model, [len(ids)])[0]), **more)


def refuse_no_second(second: str | None, why: str) -> str:
    """The second text where there must be one."""
    if second is None:
        raise DataError(why)
    return second
