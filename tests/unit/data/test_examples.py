"""Examples, questions, tagged words and pairs: what stands in a batch, and what is learned from it."""

import numpy as np
import pytest
import torch
from helpers import randomised
from torch.testing import assert_close

from manyheads.data.batches import Batch, padded
from manyheads.data.examples import (
    NOTHING,
    answer_store,
    by_sentence,
    example_batches,
    example_store,
    second_texts,
    similarity_batches,
    similarity_store,
    tag_store,
)
from manyheads.data.ragged import Store
from manyheads.models.bert import Bert, BertAnswerer, BertConfig, BertEmbedder
from manyheads.train.objectives import answer_loss, cosine_scores, similarity_loss, span_loss


def rows_in(batch):
    return [row[:length].tolist() for row, length in zip(batch.ids, batch.lengths)]


def on_disk(store, directory):
    store.save(directory / "store")
    return Store.open(directory / "store")


# Examples


def test_the_choices_of_an_example_stay_together(tmp_path):
    source = np.random.default_rng(3)
    made = [[source.integers(3, 90, source.integers(2, 17)).tolist() for _ in range(each)] for each in (2, 3, 1, 2, 4)]
    store = on_disk(example_store(made, [0, 1, 0, 0, 1]), tmp_path)
    batches = example_batches(store, size=2, seed=5)
    for numbers, batch in zip(batches.plan(0), batches.epoch(0)):
        assert batch.labels.tolist() == [[0, 1, 0, 0, 1][number] for number in numbers]
        assert batch.target_tokens == len(numbers)
        rows = rows_in(batch)
        for number, places in zip(numbers, batch.candidates):
            assert [rows[place] for place in places if place >= 0] == made[number]


def test_examples_of_one_row_have_no_candidates_and_numbers_are_labels_too(tmp_path):
    store = on_disk(example_store([[[5, 6]], [[7]]], [0.25, 1.5]), tmp_path)
    (batch,) = example_batches(store, size=2, seed=0, shuffle=False).epoch(0)
    assert batch.candidates is None
    assert (rows_in(batch), batch.labels.tolist()) == ([[7], [5, 6]], [1.5, 0.25])
    assert batch.labels.dtype == torch.float32


# Questions


def windows(count: int = 53) -> tuple[list[list[int]], list[tuple[int, int]]]:
    """Rows of ids, and two positions in each."""
    source = np.random.default_rng(3)
    rows = [source.integers(5, 90, source.integers(4, 17)).tolist() for _ in range(count)]
    places = [sorted(source.integers(0, len(row), 2).tolist()) for row in rows]
    return rows, [(first, last) for first, last in places]


def test_every_window_has_its_own_answer(tmp_path):
    rows, targets = windows()
    batches = example_batches(on_disk(answer_store(rows, targets), tmp_path), size=5, seed=7)
    found = [
        (row, int(start), int(end))
        for batch in batches.epoch(0)
        for row, start, end in zip(rows_in(batch), batch.starts, batch.ends)
    ]
    assert sorted(found) == sorted((row, *target) for row, target in zip(rows, targets))


def answerer() -> BertAnswerer:
    config = BertConfig(vocabulary=90, context=17, width=12, layers=2, heads=3)
    return randomised(BertAnswerer(Bert(config, pooler=False)), 0.2)


def test_the_loss_of_a_batch_is_that_of_its_windows_and_never_sees_padding():
    model, (rows, targets) = answerer(), windows(5)
    ids, lengths = padded(rows)
    starts, ends = torch.tensor(targets).unbind(dim=1)
    answers = {"lengths": lengths, "starts": starts, "ends": ends}
    found = answer_loss(model, Batch(5, ids=ids, **answers))
    alone = torch.zeros(())
    for row, (start, end) in zip(rows, targets):
        logs = model(torch.tensor([row]))[0].log_softmax(dim=0)
        alone = alone - (logs[start, 0] + logs[end, 1]) / 2
    assert_close(found.total, alone)
    assert found.tokens == 5
    changed = ids.clone()
    changed[torch.arange(ids.shape[1]) >= lengths[:, None]] = 89
    assert (changed != ids).any()
    assert_close(answer_loss(model, Batch(5, ids=changed, **answers)).total, found.total)
    swapped = answer_loss(model, Batch(5, ids=ids, lengths=lengths, starts=ends, ends=starts))
    assert (swapped.total - found.total).abs() > 1e-3  # and the test can tell


def test_the_loss_of_scores_that_point_at_the_answer_is_nothing():
    scores = torch.full((1, 7, 2), -20.0)
    scores[0, 2, 0] = scores[0, 4, 1] = 20.0
    scores[0, 6] = 50.0  # padding
    assert span_loss(scores, torch.tensor([6]), torch.tensor([2]), torch.tensor([4])) < 1e-6
    assert span_loss(scores, torch.tensor([6]), torch.tensor([2]), torch.tensor([3])) > 10


# Tagged words


def tagged(counts=(1, 1, 3, 1, 2, 1, 1, 2, 1, 1, 1)) -> Store:
    """Sentences with so many windows each; a third of the positions have a label, the first of a row always."""
    source = np.random.default_rng(3)
    sentences = [number for number, count in enumerate(counts) for _ in range(count)]
    rows = [source.integers(5, 90, source.integers(3, 14)).tolist() for _ in sentences]
    labels = [[int(source.integers(4)) if not at or source.random() < 0.3 else NOTHING for at in range(len(row))]
              for row in rows]  # fmt: skip
    return tag_store(rows, labels, sentences)


def test_each_id_has_its_label_and_padding_has_none(tmp_path):
    made = on_disk(tagged(), tmp_path)
    batches = example_batches(made, size=4, seed=5)
    for numbers, batch in zip(batches.plan(0), batches.epoch(0)):
        assert batch.labels.shape == batch.ids.shape
        assert batch.labels.dtype == torch.long
        assert rows_in(batch) == [made["ids"][number].tolist() for number in numbers]
        for number, labels, length in zip(numbers, batch.labels, batch.lengths):
            assert labels[:length].tolist() == made["labels"][number].tolist()
            assert (labels[length:] == NOTHING).all()
        assert batch.target_tokens == int((batch.labels >= 0).sum())
    assert sum(batch.target_tokens for batch in batches.epoch(0)) == int((made["labels"].flat >= 0).sum())


def test_values_are_gathered_by_sentence_whatever_their_windows():
    made = tagged((2, 1, 3))
    labels = made["labels"]
    numbers = np.arange(len(labels.flat))
    found = by_sentence(made, numbers)
    assert (len(found), len(made)) == (3, 6)
    for part, (first, last) in zip(found, ((0, 2), (2, 3), (3, 6))):
        own = numbers[labels.offsets[first] : labels.offsets[last]]
        assert part.tolist() == [number for number in own if labels.flat[number] != NOTHING]


# Pairs

PAIRS = [([1, 2 + number, 9], [1, 50 + number] + [3] * (number % 4)) for number in range(23)]
SCORES = [number / 22 for number in range(23)]


@pytest.mark.parametrize("scored", [True, False])
def test_a_batch_has_the_first_texts_and_then_the_second(tmp_path, scored):
    store = on_disk(similarity_store(PAIRS, SCORES if scored else None), tmp_path)
    batches = similarity_batches(store, size=6, seed=3)
    batch, chosen = next(batches.epoch(0)), batches.plan(0)[0].tolist()
    assert rows_in(batch) == [PAIRS[number][side] for side in (0, 1) for number in chosen]
    assert batch.target_tokens == 6
    assert ("score" in store) == scored
    if scored:
        assert batch.candidates is None
        assert_close(batch.labels, torch.tensor([number / 22 for number in chosen]))
    else:
        assert batch.candidates.all()  # no text occurs twice
        assert batch.labels.tolist() == list(range(6))


def test_what_belongs_to_a_text_is_no_wrong_answer_for_it():
    first = [[1], [2], [3], [1], [5]]
    second = [[11], [12], [12], [14], [1]]
    found = second_texts([*first, *second])
    wanted = torch.ones(5, 5, dtype=torch.bool)
    wanted[1, 2] = wanted[2, 1] = False  # the same second text
    wanted[0, 3] = wanted[3, 0] = False  # the same first text
    wanted[0, 4] = wanted[3, 4] = False  # the text itself
    assert torch.equal(found, wanted)


def embedder(**options) -> BertEmbedder:
    return BertEmbedder(Bert(BertConfig(vocabulary=80, context=9, width=12, layers=1, heads=3)), **options).eval()


def test_each_first_text_is_to_find_its_own_among_all_second_texts():
    batch = next(similarity_batches(similarity_store(PAIRS, None), size=5, seed=1).epoch(0))
    model = embedder(normalised=False)
    first, second = model(batch.ids, batch.lengths).chunk(2)
    cosines = torch.cosine_similarity(first[:, None], second[None], dim=-1)
    loss = similarity_loss(model, batch)
    assert_close(loss.total, -(20 * cosines).log_softmax(dim=1).diag().sum())
    assert loss.tokens == 5


def test_a_second_text_that_comes_twice_is_no_wrong_answer():
    vectors, candidates = torch.randn(6, 12), second_texts([[1], [2], [3], [11], [11], [12]])
    logits = cosine_scores(vectors, candidates)
    assert torch.isinf(logits).tolist() == [[False, True, False], [True, False, False], [False, False, False]]
    changed = vectors.clone()
    changed[4] += 1  # the other pair's second text, as the first one sees it
    assert_close(cosine_scores(changed, candidates)[0], logits[0])
    assert not torch.allclose(cosine_scores(changed, candidates)[2], logits[2])  # and the test can tell


def test_with_scores_the_loss_is_the_squared_error_of_cosines():
    batch = next(similarity_batches(similarity_store(PAIRS, SCORES), size=5, seed=1).epoch(0))
    model = embedder(pooling="max")
    first, second = model(batch.ids, batch.lengths).chunk(2)
    wanted = (torch.cosine_similarity(first, second) - batch.labels).square().sum()
    assert_close(similarity_loss(model, batch).total, wanted)
