"""Rows of whole sentences with masked words: what BERT learns from (Devlin et al. 2019, section 3.1).

Shapes:  B rows of a batch  T positions  N predicted positions  S sentences  C chunks  F chunks in question  K draws
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import cast

import numpy as np
import torch
from torch import Tensor

from manyheads.core.errors import DataError
from manyheads.data.batches import Batch, Batches, by_count
from manyheads.data.ragged import Store
from manyheads.data.sentences import document_bounds
from manyheads.text.encoder import EncoderTokenizer

CHOSEN = 0.15  # of the positions
MASKED, REPLACED = 0.8, 0.1  # of the chosen ones; the rest stays as it is
SHORT = 0.1  # of the chunks are short, so that models see all lengths; it also moves the borders behind them
BLOCK = 2**20  # sentences whose chunks are found at a time, for lists take several times the memory of arrays
ROUNDS = 12  # of looking for partners; each finds one for most
DRAWS = 16  # of second texts for a row without a partner, of which the one of the best length is taken


@dataclass(frozen=True)
class Rows:
    """Where the texts of rows begin among the ids of a store, and how long they are; a row may have no second."""

    first: np.ndarray
    first_length: np.ndarray
    second: np.ndarray
    second_length: np.ndarray

    def __len__(self) -> int:
        return len(self.first)

    @property
    def follows(self) -> np.ndarray:
        return self.second == self.first + self.first_length

    @property
    def lengths(self) -> np.ndarray:
        """With a mark before the first text and one behind each."""
        return self.first_length + self.second_length + 2 + (self.second_length > 0)

    def of(self, numbers: np.ndarray) -> "Rows":
        return Rows(self.first[numbers], self.first_length[numbers], self.second[numbers], self.second_length[numbers])


def masked_batches(
    store: Store,
    tokenizer: EncoderTokenizer,
    *,
    rows: int,
    length: int,
    next_sentence: bool,
    seed: int,
    shuffle: bool = True,
) -> Batches:
    """All batches of a store of sentences, `rows` rows of at most `length` ids each, with the marks of the tokenizer.

    A row is a run of whole sentences of one document, as many as fit: `start text separator`.  With `next_sentence` it
    is two: `start text separator text separator`, of which the second follows the first in half of the rows, and in
    the others is of another document, or from elsewhere in a document that is most of the text; a sentence that fits
    into no row with a neighbour is left out.  Every epoch cuts the text at other places, one row in ten before it is
    full.  Not shuffled, every epoch is the same, masks and all, the shortest rows first.

    A batch has `ids`, [B, T], `lengths`, [B], the `places` that are predicted, [N], counted through all rows, the
    `targets` that belong there, [N], and of pairs of texts whether the second `follows` the first, [B]; else None.
    """
    mask, vocabulary = cast(int, tokenizer.mask), len(tokenizer)
    special = sorted({tokenizer.start, tokenizer.separator, mask, tokenizer.pad, tokenizer.unknown})
    may_hide = np.ones(vocabulary, dtype=bool)
    may_hide[special] = False
    text = _Text(store, length, next_sentence)

    def plan(epoch: int) -> list[tuple[Rows, np.ndarray, list[int]]]:
        """The rows of the epoch, the numbers of those in each batch, and from what its masks follow."""
        epoch = epoch if shuffle else 0
        generator = np.random.default_rng([seed, epoch])
        found = text.rows(generator)
        batches = by_count(found.lengths, rows, generator if shuffle else None)
        return [(found, numbers, [seed, epoch, batch]) for batch, numbers in enumerate(batches)]

    def collate(planned: tuple[Rows, np.ndarray, list[int]]) -> Batch:
        found, state = planned[0].of(planned[1]), np.random.SeedSequence(planned[2]).generate_state(1, np.uint64)
        generator = torch.Generator().manual_seed(int(state[0] >> 1))
        ids_BT = text.collated(found, tokenizer)
        ids, may = torch.from_numpy(ids_BT), torch.from_numpy(may_hide[ids_BT])
        hidden, chosen = masked(ids, may, mask=mask, vocabulary=vocabulary, special=special, generator=generator)
        places = chosen.flatten().nonzero().squeeze(1)
        return Batch(
            max(len(places), 1),  # also where no word can be hidden
            ids=hidden,
            lengths=torch.from_numpy(found.lengths),
            places=places,
            targets=ids.flatten()[places],
            follows=torch.from_numpy(found.follows.astype(np.int64)) if next_sentence else None,
        )

    return Batches(plan, collate)


def masked(
    ids_BT: Tensor, may_BT: Tensor, *, mask: int, vocabulary: int, special: Collection[int], generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """The ids with some hidden, and True where they are to be predicted.

    Each position where `may` is true is chosen with a chance of 15 %, and at least one of each row that has any.  Of
    ten chosen ids eight become `mask`, one becomes any id that is not special, and one stays.
    """
    chances_BT = torch.rand(ids_BT.shape, generator=generator).masked_fill_(~may_BT, 2.0)
    least_B1 = chances_BT.amin(dim=1, keepdim=True)
    chosen_BT = (chances_BT <= least_B1.clamp(min=CHOSEN)) & may_BT
    places_N = chosen_BT.flatten().nonzero().squeeze(1)
    ids_N = ids_BT.flatten()[places_N]
    fate_N = torch.rand(len(places_N), generator=generator)
    other_N = _ordinary(len(places_N), vocabulary, {mask, *special}, generator).to(ids_BT.dtype)
    ids_N = torch.where(fate_N < MASKED + REPLACED, other_N, ids_N).masked_fill_(fate_N < MASKED, mask)
    return ids_BT.flatten().index_copy(0, places_N, ids_N).view_as(ids_BT), chosen_BT


def _ordinary(count: int, vocabulary: int, special: Collection[int], generator: torch.Generator) -> Tensor:
    """Ids drawn evenly from all that are not special."""
    drawn_N = torch.randint(vocabulary - len(special), (count,), generator=generator)
    for each in sorted(special):
        drawn_N += drawn_N >= each  # moves them past it
    return drawn_N


class _Text:
    """The sentences of a store, which are cut into rows."""

    def __init__(self, store: Store, length: int, next_sentence: bool):
        self.ids, self.begin, self.documents = store["ids"].values, store["ids"].offsets, document_bounds(store)
        self.room, self.next_sentence = length - (3 if next_sentence else 2), next_sentence
        if not len(self):
            raise DataError("there are no sentences to learn from; give more text")
        longest = int(np.diff(self.begin).max())
        if longest > self.room:
            raise DataError(
                f"the longest sentence has {longest} tokens, and a row of {length} has room for {self.room}; "
                "make rows longer, or build the store with shorter sentences"
            )
        if next_sentence and (self._chunk_ends(self.room) - np.arange(len(self))).max() < 2:
            raise DataError(
                f"no document has two sentences that fit into a row of {length} together; give documents of several "
                "sentences, make rows longer, or learn without the next sentence"
            )

    def __len__(self) -> int:
        return len(self.begin) - 1

    def rows(self, generator: np.random.Generator) -> Rows:
        begin, least = self.begin, 2 if self.next_sentence else 1
        ends_S = self._ends(least, generator)
        starts_C = _chunk_starts(ends_S)
        ends_C = ends_S[starts_C]
        # A sentence that is left alone takes along the one before it, where both are of one document and fit.
        starts_C -= (ends_C - starts_C < least) & (starts_C > 0) & (ends_S[starts_C - 1] > starts_C)
        enough_C = ends_C - starts_C >= least
        starts_C, ends_C = starts_C[enough_C], ends_C[enough_C]
        if not self.next_sentence:
            none_C = np.zeros_like(starts_C)
            return Rows(begin[starts_C], begin[ends_C] - begin[starts_C], none_C, none_C)
        borders_C = generator.integers(starts_C + 1, ends_C)
        first_C, second_C = begin[starts_C], begin[borders_C]
        rows = Rows(first_C, second_C - first_C, second_C, begin[ends_C] - second_C)
        return _mixed(self, rows, np.stack([starts_C, ends_C], axis=1), generator)

    def _ends(self, least: int, generator: np.random.Generator) -> np.ndarray:
        """For each sentence, where a chunk from it on ends, of at least `least` sentences wherever so many fit."""
        count, room = len(self), self.room
        room_S = np.where(generator.random(count) < SHORT, generator.integers(1, room + 1, size=count), room)
        least_S = np.minimum(np.arange(count) + least, self._chunk_ends(room))
        return np.maximum(self._chunk_ends(room_S), least_S)

    def _chunk_ends(self, room: int | np.ndarray) -> np.ndarray:
        """For each sentence, how far the text from it on fits into so many tokens within its document."""
        ends_S = np.searchsorted(self.begin, self.begin[:-1] + room, "right") - 1
        return np.minimum(ends_S, np.repeat(self.documents[1:], np.diff(self.documents)))

    def collated(self, rows: Rows, tokenizer: EncoderTokenizer) -> np.ndarray:
        """The ids of rows with their marks, padded at the end."""
        lengths_B, first_end_B = rows.lengths, rows.first_length + 1
        place_T, line_B = np.arange(lengths_B.max()), np.arange(len(rows))
        # Where each id is in the store; what comes from there for marks and padding is written over.
        from_BT = place_T + (rows.first - 1)[:, None]
        if self.next_sentence:
            from_second_BT = place_T + (rows.second - first_end_B - 1)[:, None]
            from_BT = np.where(place_T > first_end_B[:, None], from_second_BT, from_BT)
        ids_BT = self.ids.take(from_BT, mode="clip").astype(np.int64)
        ids_BT[place_T >= lengths_B[:, None]] = tokenizer.pad
        ids_BT[:, 0] = tokenizer.start
        ids_BT[line_B, first_end_B] = ids_BT[line_B, lengths_B - 1] = tokenizer.separator
        return ids_BT


def _chunk_starts(ends_S: np.ndarray) -> np.ndarray:
    """The sentences with which chunks begin that follow each other through the text."""
    found, at = [np.zeros(0, dtype=np.int64)], 0
    for first in range(0, len(ends_S), BLOCK):
        ends, starts = ends_S[first : first + BLOCK].tolist(), []
        while at < first + len(ends):
            starts.append(at)
            at = ends[at - first]
        found.append(np.array(starts, dtype=np.int64))
    return np.concatenate(found)


def _mixed(text: _Text, rows: Rows, chunks_C2: np.ndarray, generator: np.random.Generator) -> Rows:
    """The rows with half of the second texts replaced, almost all by each other's, so that each is still seen once.

    The new one is of another document.  Where one document is more than half of the text, it is of another chunk: the
    few others would have to serve again and again, and where a text is from would tell the answer.
    """
    documents, own_C2 = text.documents, chunks_C2
    if np.diff(documents).max() * 2 <= len(text):
        document_C = np.searchsorted(documents, chunks_C2[:, 0], "right") - 1
        own_C2 = np.stack([documents[document_C], documents[document_C + 1]], axis=1)
    mixed_F = np.flatnonzero(generator.permutation(len(rows)) < len(rows) / 2)
    taken_C = np.arange(len(rows))
    taken_C[mixed_F] = mixed_F[_partners(rows.of(mixed_F), own_C2[mixed_F], text.room, generator)]
    second_C, length_C = rows.second[taken_C], rows.second_length[taken_C]
    alone = mixed_F[taken_C[mixed_F] == mixed_F]
    second_C[alone], length_C[alone] = _drawn(text, rows.of(alone), own_C2[alone], generator)
    return Rows(rows.first, rows.first_length, second_C, length_C)


def _partners(rows: Rows, own_F2: np.ndarray, room: int, generator: np.random.Generator) -> np.ndarray:
    """For each row one to swap second texts with, about equally long and from elsewhere; itself where there is none.

    Were the texts of the one kind of row longer than those of the other, their length alone would tell the answer.
    """
    partners_F, alone = np.arange(len(rows)), np.arange(len(rows))
    first, second, (start, end) = rows.first_length, rows.second_length, own_F2.T
    for _ in range(ROUNDS):
        order = alone[np.lexsort((generator.random(len(alone)), second[alone]))][generator.integers(2) :]
        one, other = order[: len(order) // 2 * 2].reshape(-1, 2).T
        fit = (first[one] + second[other] <= room) & (first[other] + second[one] <= room)
        fit &= (end[one] <= start[other]) | (end[other] <= start[one])
        partners_F[one[fit]], partners_F[other[fit]] = other[fit], one[fit]
        alone = np.flatnonzero(partners_F == np.arange(len(rows)))
    return partners_F


def _drawn(text: _Text, rows: Rows, own_F2: np.ndarray, generator: np.random.Generator) -> list[np.ndarray]:
    """Second texts from outside the row's own sentences, and their lengths; the old ones where none fits.

    Of several the one is taken whose length is nearest to the old one's.
    """
    begin, start_F1, end_F1 = text.begin, own_F2[:, :1], own_F2[:, 1:]
    length_F1, room_F1 = rows.second_length[:, None], text.room - rows.first_length[:, None]
    others_F1 = len(text) - (end_F1 - start_F1)
    drawn_FK = (end_F1 + (generator.random((len(rows), DRAWS)) * others_F1).astype(np.int64)) % len(text)
    last_FK = text.documents[np.searchsorted(text.documents, drawn_FK, "right")]
    last_FK = np.where(drawn_FK < start_F1, np.minimum(last_FK, start_F1), last_FK)
    ends_FK = np.searchsorted(begin, begin[drawn_FK] + length_F1, "right") - 1
    lengths_FK = begin[np.clip(ends_FK, drawn_FK + 1, last_FK)] - begin[drawn_FK]
    fit_FK = (lengths_FK <= room_F1) & (others_F1 > 0)
    best_F = np.where(fit_FK, np.abs(lengths_FK - length_F1), text.room + 1).argmin(axis=1)
    row_F = np.arange(len(rows))
    fit_F, drawn_F, lengths_F = fit_FK[row_F, best_F], drawn_FK[row_F, best_F], lengths_FK[row_F, best_F]
    return [np.where(fit_F, begin[drawn_F], rows.second), np.where(fit_F, lengths_F, rows.second_length)]
