import numpy as np
import torch

from manyheads.data.tag_batches import NOTHING, TagBatches, TagStore

LABELS = 4


def store(windows=(1, 1, 3, 1, 2, 1, 1, 2, 1, 1, 1)) -> TagStore:
    """Sentences with so many windows each; a third of the positions have a label, the first of a row always."""
    source = np.random.default_rng(3)
    sentences = [number for number, count in enumerate(windows) for _ in range(count)]
    rows = [source.integers(5, 90, source.integers(3, 14)).tolist() for _ in sentences]
    labels = [[int(source.integers(LABELS)) if not at or source.random() < 0.3 else NOTHING for at in range(len(row))]
              for row in rows]  # fmt: skip
    return TagStore.of(rows, labels, sentences)


def test_every_window_comes_once_an_epoch_in_an_order_of_its_own():
    batches = TagBatches(store(), size=4, seed=5)
    orders = [np.concatenate(batches.plan(epoch)) for epoch in (0, 1)]
    assert all(sorted(order) == list(range(15)) for order in orders)
    assert not np.array_equal(*orders)
    assert len(list(batches.epoch(0))) == len(batches) == 4


def test_an_epoch_goes_on_from_any_batch():
    batches = [TagBatches(store(), size=4, seed=5) for _ in range(2)]
    whole, rest = list(batches[0].epoch(2)), list(batches[1].epoch(2, start=3))
    assert len(rest) == len(whole) - 3
    for one, other in zip(whole[3:], rest):
        assert torch.equal(one.ids, other.ids)
        assert torch.equal(one.labels, other.labels)


def test_each_id_has_its_label_and_padding_has_none():
    made = store()
    batches = TagBatches(made, size=4, seed=5)
    for numbers, batch in zip(batches.plan(0), batches.epoch(0)):
        assert batch.labels.shape == batch.ids.shape
        for number, ids, labels, length in zip(numbers, batch.ids, batch.labels, batch.lengths):
            assert ids[:length].tolist() == made.windows.row(number).tolist()
            assert labels[:length].tolist() == made.labels[made.place(number)].tolist()
            assert (labels[length:] == NOTHING).all()
        assert batch.target_tokens == int((batch.labels >= 0).sum())
    assert sum(batch.target_tokens for batch in batches.epoch(0)) == int((made.labels >= 0).sum())


def test_values_are_gathered_by_sentence_whatever_their_windows():
    made = store((2, 1, 3))
    numbers = np.arange(len(made.labels))
    found = made.by_sentence(numbers)
    assert (len(found), made.sentences, len(made)) == (3, 3, 6)
    rows = made.windows.rows
    for part, (first, last) in zip(found, ((0, 2), (2, 3), (3, 6))):
        expected = [number for number in numbers[rows[first] : rows[last]] if made.labels[number] != NOTHING]
        assert part.tolist() == expected


def test_a_store_is_on_disk_what_it_was(tmp_path):
    made = store()
    made.save(tmp_path / "a.safetensors")
    found = TagStore.load(tmp_path / "a.safetensors")
    for name in ("ids", "rows", "examples", "labels"):
        assert np.array_equal(getattr(found.windows, name), getattr(made.windows, name))
    assert np.array_equal(found.labels, made.labels)
    batches = [next(TagBatches(each, size=3, seed=1).epoch(0)) for each in (made, found)]
    assert torch.equal(batches[0].labels, batches[1].labels)
    assert batches[0].labels.dtype == torch.long
