"""What turns text into the ids of a store: a tokenizer, and so much text at a time."""

from collections.abc import Callable, Iterable, Iterator
from typing import Protocol, TypeVar

import numpy as np

CHUNK_ITEMS = 10_000  # encoded in one call, which shares them out among the cores
CHUNK_LETTERS = 4_000_000  # so that ten thousand whole documents do not fill the memory

Item = TypeVar("Item")
Told = Callable[[int], None]
"""Who is told how much has been read so far."""


def nobody(done: int) -> None:
    """Who need not be told."""


class Encoder(Protocol):
    """What a store needs of a tokenizer."""

    def encode(self, lines: list[str], /) -> list[list[int]]: ...

    def __len__(self) -> int: ...


def id_type(tokenizer: Encoder) -> np.dtype:
    """The smallest type that holds every id."""
    return np.dtype(np.uint16 if len(tokenizer) <= 2**16 else np.uint32)


def chunks(items: Iterable[Item], letters_of: Callable[[Item], int]) -> Iterator[list[Item]]:
    """The items in lists that are encoded together."""
    chunk: list[Item] = []
    letters = 0
    for item in items:
        chunk.append(item)
        letters += letters_of(item)
        if len(chunk) == CHUNK_ITEMS or letters >= CHUNK_LETTERS:
            yield chunk
            chunk, letters = [], 0
    if chunk:
        yield chunk
