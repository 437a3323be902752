"""Running text as token ids, and its batches.  Shapes:  B windows  T predictions"""

from collections.abc import Iterable
from itertools import chain
from pathlib import Path

import numpy as np
import torch

from manyheads.core.errors import DataError
from manyheads.data.batches import Batch, Batches, shuffling, streams, windows
from manyheads.data.ragged import Encoder, Store, Told, chunks, id_type, nobody, store_written
from manyheads.data.readers.documents import Piece


def write_text(
    directory: Path, pieces: Iterable[Piece], tokenizer: Encoder, *, end: int | None, on_progress: Told = nobody
) -> Store:
    """Encode all pieces into a store with the column `ids`, those of all documents, with `end` behind each.

    Its `about` counts documents, letters, and bytes in UTF-8, by which losses are compared across tokenizers.
    `on_progress` is told the number of letters encoded so far.
    """
    dtype = id_type(tokenizer)
    documents = letters = size = 0
    ending = [] if end is None else [end]
    with store_written(directory) as writer:
        for chunk in chunks(pieces, lambda piece: len(piece.text)):
            rows = tokenizer.encode([piece.text for piece in chunk])
            parts = chain.from_iterable((row, ending if piece.ends else ()) for row, piece in zip(rows, chunk))
            writer.append({"ids": np.fromiter(chain.from_iterable(parts), dtype=dtype)})
            documents += sum(piece.ends for piece in chunk)
            letters += sum(len(piece.text) for piece in chunk)
            # JSON may hold half a surrogate pair, which has no bytes; the sign that stands for it has as many as this.
            size += sum(len(piece.text.encode("utf-8", "surrogatepass")) for piece in chunk)
            on_progress(letters)
        if not writer.rows:
            raise DataError(f"no ids came out of {letters} letters of text; check the files and the tokenizer")
        writer.about = {"documents": documents, "letters": letters, "bytes": size}
    return Store.open(directory)


def text_batches(store: Store, *, rows: int, length: int, seed: int, shuffle: bool = True) -> Batches:
    """Batches of `rows` windows of `length` predictions: `ids`, [B, T + 1]; all count, so that `counted` is None."""
    ids = store["ids"]
    length = min(length, len(ids) - 1)

    def collate(starts: np.ndarray) -> Batch:
        found = np.stack([ids[start : start + length + 1] for start in starts.tolist()]).astype(np.int64)
        return Batch(found[:, 1:].size, ids=torch.from_numpy(found), counted=None)

    return Batches(lambda epoch: windows(len(ids), rows, length, shuffling(seed, epoch, shuffle)), collate)


def streamed_batches(store: Store, *, rows: int, length: int, seed: int, shuffle: bool = True) -> Batches:
    """The same where each of `rows` reads a part of the text from beginning to end, `length` predictions at a time.

    `goes_on` is None where a batch does not go on from the one before.
    """
    ids = store["ids"]
    rows = min(rows, len(ids) - 1)
    part = (len(ids) - 1) // rows
    length = min(length, part)

    def collate(window: tuple[bool, np.ndarray]) -> Batch:
        goes_on, starts = window
        size = min(length, part - int(starts[0])) if not shuffle else length
        found = np.stack([ids[start : start + size + 1] for start in starts.tolist()]).astype(np.int64)
        tensors = {"ids": torch.from_numpy(found), "counted": None, "goes_on": torch.tensor(True) if goes_on else None}
        return Batch(found[:, 1:].size, **tensors)

    return Batches(lambda epoch: streams(len(ids), rows, length, shuffling(seed, epoch, shuffle)), collate)
