"""Pairs of texts as token ids, and their batches.  Shapes:  B pairs  S source ids  T target ids"""

from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import torch

from manyheads.core.errors import DataError
from manyheads.data.batches import Batch, Batches, Plan, by_shape, padded, shuffling
from manyheads.data.ragged import Encoder, Ragged, Store, Told, chunks, id_type, nobody, store_written
from manyheads.data.readers.corpus import Pair

SIDES = ("source", "target")


def write_pairs(
    directory: Path,
    pairs: Iterable[Pair],
    tokenizer: Encoder,
    *,
    longest: int,
    end: int | None = None,
    on_progress: Told = nobody,
) -> Store:
    """Encode all pairs into a store with the columns `source` and `target`.

    Behind each target comes `end`, where the tokenizer puts none there itself. Pairs with a blank side, or with a side
    of more than `longest` ids, are dropped, and counted in `about`; `on_progress` is told how many were read so far.
    """
    dtype = id_type(tokenizer)
    read = empty = too_long = 0
    with store_written(directory) as writer:
        for chunk in chunks(pairs, lambda pair: len(pair[0]) + len(pair[1])):
            full = [pair for pair in chunk if pair[0].strip() and pair[1].strip()]
            sources, targets = (tokenizer.encode([pair[side] for pair in full]) for side in (0, 1))
            rows = zip(sources, targets if end is None else [[*target, end] for target in targets])
            kept = [row for row in rows if len(row[0]) <= longest and len(row[1]) <= longest]
            writer.append({name: Ragged.of([row[side] for row in kept], dtype) for side, name in enumerate(SIDES)})
            read += len(chunk)
            empty += len(chunk) - len(full)
            too_long += len(full) - len(kept)
            on_progress(read)
        if not writer.rows:
            raise DataError(
                f"no pairs are left of {read} read: {empty} have a blank side and {too_long} a side of more "
                f"than {longest} ids; check the files or raise the limit"
            )
        writer.about = {"empty": empty, "too_long": too_long}
    return Store.open(directory)


def pair_store(sources: list[list[int]], targets: list[list[int]]) -> Store:
    """A store in memory, for small validation sets."""
    return Store({name: Ragged.of(rows, np.uint32) for name, rows in zip(SIDES, (sources, targets))})


def pair_batches(store: Store, *, tokens: int, pad: int, seed: int, shuffle: bool = True) -> Batches:
    """Batches by token budget, of pairs about equally long: `source`, [B, S], and `target`, [B, T], without a start."""
    source, target = (store[side] for side in SIDES)

    def collate(pairs: np.ndarray) -> Batch:
        sides = [padded([side[pair] for pair in pairs.tolist()], pad) for side in (source, target)]
        return Batch(int(sides[1][1].sum()), source=sides[0][0], target=sides[1][0])

    return Batches(_planner(store, tokens, seed, shuffle), collate)


def joined_batches(
    store: Store, *, tokens: int, pad: int, delimiter: int, counts: str, seed: int, shuffle: bool = True
) -> Batches:
    """Batches of pairs as rows of `source delimiter target`, for a language model, padded at the end.

    Of the predictions count those of the target's ids (`counts="target"`), or those of all ids ("all"), and never
    those of padding.  The budget is that of the sides, each for itself, so that a row may be as long as both.
    """
    source, target = (store[side] for side in SIDES)

    def collate(pairs: np.ndarray) -> Batch:
        rows = [np.concatenate([source[pair], [delimiter], target[pair]]) for pair in pairs.tolist()]
        sources = source.lengths[pairs]
        ends = sources + target.lengths[pairs]  # where the last prediction of a row is: one before the row's last id
        ids, _ = padded(rows, pad)
        places = np.arange(ids.shape[1] - 1)
        counted = places < ends[:, None]
        if counts == "target":
            counted &= places >= sources[:, None]
        return Batch(int(counted.sum()), ids=ids, counted=torch.from_numpy(counted))

    return Batches(_planner(store, tokens, seed, shuffle), collate)


def _planner(store: Store, tokens: int, seed: int, shuffle: bool) -> Callable[[int], Plan]:
    source, target = (store[side].lengths for side in SIDES)
    return lambda epoch: by_shape(source, target, tokens, shuffling(seed, epoch, shuffle))
