import numpy as np
import pytest
import torch
from torch.testing import assert_close

from manyheads.data.example_batches import ExampleStore, padded
from manyheads.data.similarity_batches import SimilarityBatches, candidates_of, is_scored
from manyheads.models.bert import Bert, BertConfig, BertEmbedder
from manyheads.train.objectives import likeness, similarity_loss

PAIRS = [([1, 2 + number, 9], [1, 50 + number] + [3] * (number % 4)) for number in range(23)]


def store(scores=None) -> ExampleStore:
    return ExampleStore.of(PAIRS, [0] * len(PAIRS) if scores is None else scores)


def numbers(batches: SimilarityBatches, epoch: int) -> list[int]:
    return np.concatenate(batches.plan(epoch)).tolist()


def test_every_pair_comes_once_an_epoch_in_batches_of_nearly_one_size():
    batches = SimilarityBatches(store(), size=6, seed=3)
    assert sorted(numbers(batches, 0)) == list(range(23))
    assert [len(batch) for batch in batches.plan(0)] == [6, 6, 6, 5]
    assert len(batches) == 4
    assert numbers(batches, 0) != numbers(batches, 1)
    assert numbers(batches, 1) == numbers(SimilarityBatches(store(), size=6, seed=3), 1)
    assert numbers(batches, 1) != numbers(SimilarityBatches(store(), size=6, seed=4), 1)


def test_without_shuffling_every_epoch_is_the_same():
    batches = SimilarityBatches(store(), size=6, seed=0, shuffle=False)
    assert numbers(batches, 0) == numbers(batches, 5)
    assert sorted(numbers(batches, 0)) == list(range(23))


def test_an_epoch_goes_on_from_any_batch():
    batches = SimilarityBatches(store(), size=6, seed=3)
    whole, rest = list(batches.epoch(2)), list(batches.epoch(2, start=2))
    assert len(rest) == 2
    for one, other in zip(whole[2:], rest):
        assert_close(one.ids, other.ids)


@pytest.mark.parametrize("scored", [True, False])
def test_a_batch_has_the_first_texts_and_then_the_second(scored):
    scores = [number / 22 for number in range(23)] if scored else None
    batches = SimilarityBatches(store(scores), size=6, seed=3)
    batch, chosen = next(batches.epoch(0)), batches.plan(0)[0].tolist()
    rows = [PAIRS[number][0] for number in chosen] + [PAIRS[number][1] for number in chosen]
    assert [row[:length].tolist() for row, length in zip(batch.ids, batch.lengths)] == rows
    assert batch.target_tokens == 6
    assert is_scored(store(scores)) == scored
    if scored:
        assert batch.candidates is None
        assert_close(batch.labels, torch.tensor([number / 22 for number in chosen]))
    else:
        assert batch.candidates is not None
        assert batch.candidates.all()  # no text occurs twice
        assert batch.labels.tolist() == list(range(6))


def test_what_belongs_to_a_text_is_no_wrong_answer_for_it():
    first = [[1], [2], [3], [1], [5]]
    second = [[11], [12], [12], [14], [1]]
    found = candidates_of([*first, *second])
    wanted = torch.ones(5, 5, dtype=torch.bool)
    wanted[1, 2] = wanted[2, 1] = False  # the same second text
    wanted[0, 3] = wanted[3, 0] = False  # the same first text
    wanted[0, 4] = wanted[3, 4] = False  # the text itself
    assert torch.equal(found, wanted)


def test_rows_are_padded_at_the_end_to_the_longest():
    ids, lengths = padded([[4], [5, 6, 7], [8, 9], []])
    assert ids.tolist() == [[4, 0, 0], [5, 6, 7], [8, 9, 0], [0, 0, 0]]
    assert lengths.tolist() == [1, 3, 2, 0]
    assert ids.dtype == lengths.dtype == torch.long


# What a batch asks of a model


def embedder(**options) -> BertEmbedder:
    return BertEmbedder(Bert(BertConfig(vocabulary=80, context=9, width=12, layers=1, heads=3)), **options).eval()


def test_each_first_text_is_to_find_its_own_among_all_second_texts():
    batch, model = next(SimilarityBatches(store(), size=5, seed=1).epoch(0)), embedder(normalised=False)
    first, second = model(batch.ids, batch.lengths).chunk(2)
    cosines = torch.cosine_similarity(first[:, None], second[None], dim=-1)
    loss = similarity_loss(model, batch)
    assert_close(loss.total, -(20 * cosines).log_softmax(dim=1).diag().sum())
    assert loss.tokens == 5


def test_a_second_text_that_comes_twice_is_no_wrong_answer():
    vectors, candidates = torch.randn(6, 12), candidates_of([[1], [2], [3], [11], [11], [12]])
    logits = likeness(vectors, candidates)
    assert torch.isinf(logits).tolist() == [[False, True, False], [True, False, False], [False, False, False]]
    changed = vectors.clone()
    changed[4] += 1  # the other pair's second text, as the first one sees it
    assert_close(likeness(changed, candidates)[0], logits[0])
    assert not torch.allclose(likeness(changed, candidates)[2], logits[2])  # and the test can tell


def test_with_scores_the_loss_is_the_squared_error_of_cosines():
    scores = [number / 22 for number in range(23)]
    batch, model = next(SimilarityBatches(store(scores), size=5, seed=1).epoch(0)), embedder(pooling="max")
    first, second = model(batch.ids, batch.lengths).chunk(2)
    wanted = (torch.cosine_similarity(first, second) - batch.labels).square().sum()
    assert_close(similarity_loss(model, batch).total, wanted)
