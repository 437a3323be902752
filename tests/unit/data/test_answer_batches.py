"""Windows with the place of an answer, in batches, and what is learned from them."""

import numpy as np
import torch
from torch.testing import assert_close

from manyheads.data.answer_batches import AnswerBatch, AnswerBatches, window_store
from manyheads.data.example_batches import ExampleStore, padded
from manyheads.models.bert import Bert, BertAnswerer, BertConfig
from manyheads.train.objectives import answer_loss, span_loss


def windows(count: int = 53) -> tuple[list[list[int]], list[tuple[int, int]]]:
    """Rows of ids, and two positions in each."""
    source = np.random.default_rng(3)
    rows = [source.integers(5, 90, source.integers(4, 17)).tolist() for _ in range(count)]
    places = [sorted(source.integers(0, len(row), 2).tolist()) for row in rows]
    return rows, [(first, last) for first, last in places]


def test_every_window_comes_once_an_epoch_with_its_own_answer(tmp_path):
    rows, targets = windows()
    window_store(rows, targets).save(tmp_path / "a.safetensors")
    batches = AnswerBatches(ExampleStore.load(tmp_path / "a.safetensors"), size=5, seed=7)
    wanted = sorted((row, *target) for row, target in zip(rows, targets))
    orders = []
    for epoch in (0, 1):
        found = [
            (ids[:length].tolist(), int(start), int(end))
            for batch in batches.epoch(epoch)
            for ids, length, start, end in zip(batch.ids, batch.lengths, batch.starts, batch.ends)
        ]
        assert sorted(found) == wanted
        orders.append(found)
    assert orders[0] != orders[1]
    assert len(list(batches.epoch(0))) == len(batches) == 11


def test_an_epoch_goes_on_from_any_batch():
    store = window_store(*windows())
    whole = list(AnswerBatches(store, size=5, seed=7).epoch(3))
    rest = list(AnswerBatches(store, size=5, seed=7).epoch(3, start=4))
    assert len(rest) == len(whole) - 4
    for one, other in zip(whole[4:], rest):
        assert torch.equal(one.ids, other.ids)
        assert torch.equal(one.starts, other.starts)
        assert torch.equal(one.ends, other.ends)


def answerer() -> BertAnswerer:
    model = BertAnswerer(Bert(BertConfig(vocabulary=90, context=17, width=12, layers=2, heads=3), pooler=False))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return model.eval()


def test_the_loss_of_a_batch_is_that_of_its_windows_and_never_sees_padding():
    model, (rows, targets) = answerer(), windows(5)
    ids, lengths = padded(rows)
    starts, ends = torch.tensor(targets).unbind(dim=1)
    found = answer_loss(model, AnswerBatch(ids, lengths, starts, ends))
    alone = torch.zeros(())
    for row, (start, end) in zip(rows, targets):
        logs = model(torch.tensor([row]))[0].log_softmax(dim=0)
        alone = alone - (logs[start, 0] + logs[end, 1]) / 2
    assert_close(found.total, alone)
    assert found.tokens == 5
    changed = ids.clone()
    changed[torch.arange(ids.shape[1]) >= lengths[:, None]] = 89
    assert (changed != ids).any()
    assert_close(answer_loss(model, AnswerBatch(changed, lengths, starts, ends)).total, found.total)
    swapped = answer_loss(model, AnswerBatch(ids, lengths, ends, starts))
    assert (swapped.total - found.total).abs() > 1e-3  # and the test can tell


def test_the_loss_of_scores_that_point_at_the_answer_is_nothing():
    scores = torch.full((1, 7, 2), -20.0)
    scores[0, 2, 0] = scores[0, 4, 1] = 20.0
    scores[0, 6] = 50.0  # padding
    assert span_loss(scores, torch.tensor([6]), torch.tensor([2]), torch.tensor([4])) < 1e-6
    assert span_loss(scores, torch.tensor([6]), torch.tensor([2]), torch.tensor([3])) > 10
