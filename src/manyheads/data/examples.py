"""Examples, tagged words, questions and pairs with scores as token ids, and their batches.

Shapes:  R rows  T positions  E examples  C choices  P pairs
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from manyheads.data.batches import Batch, Batches, by_count, evenly, padded, shuffling
from manyheads.data.ragged import Ragged, Store

NOTHING = -1  # the label of a position of which nothing is asked


# Examples with a label each


def example_store(examples: Sequence[Sequence[list[int]]], labels: Sequence[int] | Sequence[float]) -> Store:
    """Examples of one row of ids each, or of a multiple choice a row for each of its choices.

    Labels are numbers of labels or, as floats, what is right itself.  The rows of a multiple choice lie end to end in
    `ids`, and their lengths in `choices`.
    """
    columns = {
        "ids": Ragged.of([[each for row in rows for each in row] for rows in examples]),
        "labels": np.array(labels, dtype=np.float32 if isinstance(labels[0], float) else np.int64),
    }
    if any(len(rows) > 1 for rows in examples):
        columns["choices"] = Ragged.of([[len(row) for row in rows] for rows in examples])
    return Store(columns)


def example_batches(store: Store, *, size: int, seed: int, shuffle: bool = True) -> Batches:
    """Batches of `size` examples: `ids`, [R, T], `lengths`, [R], and of each what is right, [E], by its column's name.

    Of tagged words `labels` are [R, T], -1 where no word begins or another window is asked about it; sums are divided
    by the words asked about.  Of a multiple choice `candidates`, [E, C], are the rows of the choices, -1 where an
    example has fewer; else None.
    """
    longest, right = store["ids"].lengths, [name for name in ("labels", "starts", "ends") if name in store]
    if "choices" in store:
        longest = np.maximum.reduceat(store["choices"].flat, store["choices"].offsets[:-1])

    def collate(numbers: np.ndarray) -> Batch:
        rows, candidates = [store["ids"][number] for number in numbers], None
        if "choices" in store:
            counts = [store["choices"][number] for number in numbers]
            candidates = candidates_of([len(each) for each in counts])
            rows = [row for rows, each in zip(rows, counts) for row in np.split(rows, np.cumsum(each)[:-1])]
        ids, lengths = padded(rows)
        if "sentence" in store:
            labels, _ = padded([store["labels"][number] for number in numbers], NOTHING)
            return Batch(int((labels != NOTHING).sum()), ids=ids, lengths=lengths, labels=labels)
        values = {name: torch.from_numpy(store[name][numbers]) for name in right}
        return Batch(len(numbers), ids=ids, lengths=lengths, candidates=candidates, **values)

    return Batches(lambda epoch: by_count(longest, size, shuffling(seed, epoch, shuffle)), collate)


def candidates_of(counts: Sequence[int]) -> Tensor:
    """[E, C]: the rows of each example, of which there are `counts` one after another, -1 where it has fewer."""
    places = torch.arange(max(counts)).expand(len(counts), -1)
    count, first = torch.tensor(counts)[:, None], torch.tensor([0, *np.cumsum(counts)[:-1].tolist()])[:, None]
    return torch.where(places < count, first + places, -1)


# Windows of questions and contexts


def answer_store(rows: Sequence[list[int]], targets: Sequence[tuple[int, int]]) -> Store:
    """The ids of windows, with the positions of the answer's first and last token; 0 is none."""
    starts, ends = np.array(targets, dtype=np.int64).reshape(-1, 2).T
    return Store({"ids": Ragged.of(rows), "starts": starts, "ends": ends})


# Sentences with a label for each word


def tag_store(rows: Sequence[list[int]], labels: Sequence[Sequence[int]], sentences: Sequence[int]) -> Store:
    """Windows of sentences, in the order of their words: a label for each id, and the sentence of each window."""
    return Store({"ids": Ragged.of(rows), "labels": Ragged.of(labels), "sentence": np.array(sentences, np.int64)})


def by_sentence(store: Store, values: np.ndarray) -> list[np.ndarray]:
    """Of values for all ids those of each sentence's words."""
    labels = store["labels"]
    asked = labels.flat != NOTHING
    sentence_of_word = np.repeat(store["sentence"], labels.lengths)[asked]
    return np.split(values[asked], np.flatnonzero(np.diff(sentence_of_word)) + 1)


# Pairs of texts, with or without a score


def similarity_store(pairs: Sequence[tuple[list[int], list[int]]], scores: Sequence[float] | None) -> Store:
    """The columns `first` and `second`, and `score` where there are scores."""
    columns = {name: Ragged.of([pair[side] for pair in pairs]) for side, name in enumerate(("first", "second"))}
    return Store(columns if scores is None else {**columns, "score": np.array(scores, dtype=np.float32)})


def similarity_batches(store: Store, *, size: int, seed: int, shuffle: bool = True) -> Batches:
    """Batches of about `size` pairs: `ids`, [R, T], are their first texts, then their second texts; R = 2 · P.

    `labels`, [P], are the scores.  Without scores a label is the place of a first text's own second text, and
    `candidates`, [P, P], are the second texts that each first text is compared with, its own among them.

    Without shuffling every epoch has the order of the first.  Batches differ by one pair at most: in a small rest of
    two pairs, each text would be easily told from the only other one.
    """

    def collate(numbers: np.ndarray) -> Batch:
        rows = [store[side][number] for side in ("first", "second") for number in numbers]
        ids, lengths = padded(rows)
        if "score" in store:
            labels, candidates = torch.from_numpy(store["score"][numbers]), None
        else:
            labels, candidates = torch.arange(len(numbers)), second_texts(rows)
        return Batch(len(numbers), ids=ids, lengths=lengths, labels=labels, candidates=candidates)

    def plan(epoch: int) -> Sequence[np.ndarray]:
        return evenly(len(store), size, np.random.default_rng([seed, epoch if shuffle else 0]))

    return Batches(plan, collate)


def second_texts(rows: Sequence[Sequence[int] | np.ndarray]) -> Tensor:
    """[P, P]: the second texts that each first text is compared with: its own, and those that do not belong to it.

    Another pair's second text belongs to it as well where it is the same as its own, or as the first text itself, or
    where that pair has the same first text.
    """
    numbers: dict[tuple[int, ...], int] = {}
    known = np.array([numbers.setdefault(tuple(row), len(numbers)) for row in rows])
    first, second = np.split(known, 2)
    belongs = (second[:, None] == second) | (first[:, None] == first) | (first[:, None] == second)
    return torch.from_numpy(~belongs | np.eye(len(first), dtype=bool))
