"""Rows of whole sentences with masked words: what BERT learns from.

Shapes:  B rows of a batch  T positions  N predicted positions  S sentences  C chunks  F chunks in question  K draws
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from manyheads.core.errors import DataError
from manyheads.data.masking import masked
from manyheads.data.sentences import SentenceStore

SHORT = 0.1  # of the chunks are short, so that models see all lengths; it also moves the borders behind them
BUCKET = 50  # so many batches are sorted by length at a time
BLOCK = 2**20  # sentences whose chunks are found at a time, for lists take several times the memory of arrays
ROUNDS = 12  # of looking for partners; each finds one for most
DRAWS = 16  # of second texts for a row without a partner, of which the one of the best length is taken


@dataclass(frozen=True)
class MaskedBatch:
    """Texts side by side, padded at the end, some of whose words are hidden."""

    ids: Tensor  # [B, T]
    lengths: Tensor  # [B]
    places: Tensor
    """[N]: which positions are predicted, counted through all rows."""
    targets: Tensor
    """[N]: the ids that belong there."""
    follows: Tensor | None
    """[B], of pairs of texts: 1 where the second follows the first in its document, and else 0."""

    @property
    def target_tokens(self) -> int:
        """What sums over a batch are divided by: the predictions, or 1 where no word can be hidden."""
        return max(len(self.targets), 1)

    def to(self, device: torch.device | str) -> "MaskedBatch":
        return MaskedBatch(
            ids=self.ids.to(device, non_blocking=True),
            lengths=self.lengths.to(device, non_blocking=True),
            places=self.places.to(device, non_blocking=True),
            targets=self.targets.to(device, non_blocking=True),
            follows=None if self.follows is None else self.follows.to(device, non_blocking=True),
        )


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


@dataclass(frozen=True)
class Plan:
    """The rows of one epoch, and the numbers of those in each batch."""

    rows: Rows
    batches: list[np.ndarray]


class MaskedBatches:
    """All batches of a store, `rows` rows of at most `length` ids each, in an order fixed by seed and epoch.

    A row is a run of whole sentences of one document, as many as fit: `start text separator`.  With `next_sentence` it
    is two: `start text separator text separator`, of which the second follows the first in half of the rows, and in
    the others is of another document, or from elsewhere in a document that is most of the text; a sentence that fits
    into no row with a neighbour is left out.  Every epoch cuts the text at other places, one row in ten before it is
    full.  Not shuffled, every epoch is the same, masks and all.  Nothing is remembered between epochs, so a run
    resumes from two numbers.
    """

    def __init__(
        self,
        store: SentenceStore,
        *,
        rows: int,
        length: int,
        start: int,
        separator: int,
        mask: int,
        pad: int,
        vocabulary: int,
        special: Sequence[int],
        next_sentence: bool,
        seed: int,
        shuffle: bool = True,
    ):
        self._store, self._size, self._seed, self._shuffle = store, rows, seed, shuffle
        self._start, self._separator, self._mask, self._pad = start, separator, mask, pad
        self._vocabulary, self._special = vocabulary, {start, separator, mask, pad, *special}
        self._room, self._next_sentence = length - (3 if next_sentence else 2), next_sentence
        self._may_hide = np.ones(vocabulary, dtype=bool)
        self._may_hide[sorted(self._special)] = False
        self._latest: tuple[int, Plan] | None = None
        self._check(length)

    def _check(self, length: int) -> None:
        if not len(self._store):
            raise DataError("there are no sentences to learn from; give more text")
        longest = int(np.diff(self._store.sentences).max())
        if longest > self._room:
            raise DataError(
                f"the longest sentence has {longest} tokens, and a row of {length} has room for {self._room}; "
                "make rows longer, or build the store with shorter sentences"
            )
        if self._next_sentence and (_chunk_ends(self._store, self._room) - np.arange(len(self._store))).max() < 2:
            raise DataError(
                f"no document has two sentences that fit into a row of {length} together; give documents of several "
                "sentences, make rows longer, or learn without the next sentence"
            )

    def __len__(self) -> int:
        """The batches of the first epoch; other epochs have about as many."""
        return self.count(0)

    def count(self, epoch: int) -> int:
        return len(self.plan(epoch).batches)

    def plan(self, epoch: int) -> Plan:
        """The rows of an epoch and their batches, of about equally long rows; not shuffled, the shortest come first."""
        epoch = epoch if self._shuffle else 0
        if self._latest is None or self._latest[0] != epoch:
            generator = np.random.default_rng([self._seed, epoch])
            rows = self._rows(generator)
            self._latest = (epoch, Plan(rows, self._batches(rows.lengths, generator)))
        return self._latest[1]

    def epoch(self, epoch: int, start: int = 0) -> Iterator[MaskedBatch]:
        """The batches of an epoch, from number `start` on."""
        plan = self.plan(epoch)
        for number in range(start, len(plan.batches)):
            seed = np.random.SeedSequence([self._seed, epoch if self._shuffle else 0, number])
            generator = torch.Generator().manual_seed(int(seed.generate_state(1, np.uint64)[0] >> 1))
            yield self._collated(plan.rows.of(plan.batches[number]), generator)

    def _batches(self, lengths: np.ndarray, generator: np.random.Generator) -> list[np.ndarray]:
        if not self._shuffle:
            return _cut(np.argsort(lengths, kind="stable"), self._size)
        buckets = _cut(generator.permutation(len(lengths)), self._size * BUCKET)
        order = np.concatenate([bucket[np.argsort(lengths[bucket], kind="stable")] for bucket in buckets])
        batches = _cut(order, self._size)
        return [batches[place] for place in generator.permutation(len(batches))]

    def _rows(self, generator: np.random.Generator) -> Rows:
        begin, least = self._store.sentences, 2 if self._next_sentence else 1
        ends_S = self._ends(least, generator)
        starts_C = _chunk_starts(ends_S)
        ends_C = ends_S[starts_C]
        # A sentence that is left alone takes along the one before it, where both are of one document and fit.
        starts_C -= (ends_C - starts_C < least) & (starts_C > 0) & (ends_S[starts_C - 1] > starts_C)
        enough_C = ends_C - starts_C >= least
        starts_C, ends_C = starts_C[enough_C], ends_C[enough_C]
        if not self._next_sentence:
            none_C = np.zeros_like(starts_C)
            return Rows(begin[starts_C], begin[ends_C] - begin[starts_C], none_C, none_C)
        borders_C = generator.integers(starts_C + 1, ends_C)
        first_C, second_C = begin[starts_C], begin[borders_C]
        rows = Rows(first_C, second_C - first_C, second_C, begin[ends_C] - second_C)
        return _mixed(self._store, rows, np.stack([starts_C, ends_C], axis=1), self._room, generator)

    def _ends(self, least: int, generator: np.random.Generator) -> np.ndarray:
        """For each sentence, where a chunk from it on ends, of at least `least` sentences wherever so many fit."""
        count, room = len(self._store), self._room
        room_S = np.where(generator.random(count) < SHORT, generator.integers(1, room + 1, size=count), room)
        least_S = np.minimum(np.arange(count) + least, _chunk_ends(self._store, room))
        return np.maximum(_chunk_ends(self._store, room_S), least_S)

    def _collated(self, rows: Rows, generator: torch.Generator) -> MaskedBatch:
        lengths_B, first_end_B = rows.lengths, rows.first_length + 1
        place_T, line_B = np.arange(lengths_B.max()), np.arange(len(rows))
        # Where each id is in the store; what comes from there for marks and padding is written over.
        from_BT = place_T + (rows.first - 1)[:, None]
        if self._next_sentence:
            from_second_BT = place_T + (rows.second - first_end_B - 1)[:, None]
            from_BT = np.where(place_T > first_end_B[:, None], from_second_BT, from_BT)
        ids_BT = self._store.ids.take(from_BT, mode="clip").astype(np.int64)
        ids_BT[place_T >= lengths_B[:, None]] = self._pad
        ids_BT[:, 0] = self._start
        ids_BT[line_B, first_end_B] = ids_BT[line_B, lengths_B - 1] = self._separator
        ids, may = torch.from_numpy(ids_BT), torch.from_numpy(self._may_hide[ids_BT])
        hidden, chosen = masked(
            ids, may, mask=self._mask, vocabulary=self._vocabulary, special=self._special, generator=generator
        )
        places = chosen.flatten().nonzero().squeeze(1)
        return MaskedBatch(
            ids=hidden,
            lengths=torch.from_numpy(lengths_B),
            places=places,
            targets=ids.flatten()[places],
            follows=torch.from_numpy(rows.follows.astype(np.int64)) if self._next_sentence else None,
        )


def _cut(order: np.ndarray, size: int) -> list[np.ndarray]:
    return [order[first : first + size] for first in range(0, len(order), size)]


def _chunk_ends(store: SentenceStore, room: int | np.ndarray) -> np.ndarray:
    """For each sentence, how far the text from it on fits into so many tokens within its document."""
    begin, documents = store.sentences, store.documents
    ends_S = np.searchsorted(begin, begin[:-1] + room, "right") - 1
    return np.minimum(ends_S, np.repeat(documents[1:], np.diff(documents)))


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


def _mixed(store: SentenceStore, rows: Rows, chunks_C2: np.ndarray, room: int, generator: np.random.Generator) -> Rows:
    """The rows with half of the second texts replaced, almost all by each other's, so that each is still seen once.

    The new one is of another document.  Where one document is more than half of the text, it is of another chunk: the
    few others would have to serve again and again, and where a text is from would tell the answer.
    """
    documents, own_C2 = store.documents, chunks_C2
    if np.diff(documents).max() * 2 <= len(store):
        document_C = np.searchsorted(documents, chunks_C2[:, 0], "right") - 1
        own_C2 = np.stack([documents[document_C], documents[document_C + 1]], axis=1)
    mixed_F = np.flatnonzero(generator.permutation(len(rows)) < len(rows) / 2)
    taken_C = np.arange(len(rows))
    taken_C[mixed_F] = mixed_F[_partners(rows.of(mixed_F), own_C2[mixed_F], room, generator)]
    second_C, length_C = rows.second[taken_C], rows.second_length[taken_C]
    alone = mixed_F[taken_C[mixed_F] == mixed_F]
    second_C[alone], length_C[alone] = _drawn(store, rows.of(alone), own_C2[alone], room, generator)
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


def _drawn(
    store: SentenceStore, rows: Rows, own_F2: np.ndarray, room: int, generator: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Second texts from outside the row's own sentences, and their lengths; the old ones where none fits.

    Of several the one is taken whose length is nearest to the old one's.
    """
    begin, start_F1, end_F1 = store.sentences, own_F2[:, :1], own_F2[:, 1:]
    length_F1, room_F1 = rows.second_length[:, None], room - rows.first_length[:, None]
    others_F1 = len(store) - (end_F1 - start_F1)
    drawn_FK = (end_F1 + (generator.random((len(rows), DRAWS)) * others_F1).astype(np.int64)) % len(store)
    last_FK = store.documents[np.searchsorted(store.documents, drawn_FK, "right")]
    last_FK = np.where(drawn_FK < start_F1, np.minimum(last_FK, start_F1), last_FK)
    ends_FK = np.searchsorted(begin, begin[drawn_FK] + length_F1, "right") - 1
    lengths_FK = begin[np.clip(ends_FK, drawn_FK + 1, last_FK)] - begin[drawn_FK]
    fit_FK = (lengths_FK <= room_F1) & (others_F1 > 0)
    best_F = np.where(fit_FK, np.abs(lengths_FK - length_F1), room + 1).argmin(axis=1)
    row_F = np.arange(len(rows))
    fit_F, drawn_F, lengths_F = fit_FK[row_F, best_F], drawn_FK[row_F, best_F], lengths_FK[row_F, best_F]
    return np.where(fit_F, begin[drawn_F], rows.second), np.where(fit_F, lengths_F, rows.second_length)
