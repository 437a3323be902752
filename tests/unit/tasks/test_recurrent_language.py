"""A recurrent language model: the state that streams over the text, and what can be asked of it."""

from itertools import pairwise
from types import SimpleNamespace

import pytest
import torch
from torch.testing import assert_close

from manyheads.core.errors import ConfigError
from manyheads.data.batches import streams
from manyheads.data.ragged import Ragged, Store
from manyheads.data.readers.documents import Piece
from manyheads.data.text import streamed_batches, write_text
from manyheads.models.rnn import RNN, RNNConfig
from manyheads.nn.recurrent import RecurrentState
from manyheads.tasks.language.training import LanguageModelling
from manyheads.tasks.language.use import LanguageModel
from manyheads.tasks.proofs.resume import prove
from manyheads.tasks.run import resolve, train
from manyheads.text.language import LanguageTokenizer
from manyheads.train.checkpoint import Checkpoints
from manyheads.train.objectives import language_loss

TEXT = "the cat sees a dog and sleeps. " * 60


@pytest.fixture(scope="module")
def tokenizer() -> LanguageTokenizer:
    return LanguageTokenizer.characters([TEXT])


@pytest.fixture
def store(tmp_path, tokenizer) -> Store:
    return write_text(tmp_path / "store", [Piece(TEXT, True)], tokenizer, end=None)


def rnn(tokenizer, **changes) -> RNN:
    torch.manual_seed(1)
    sizes = {"width": 12, "unrolled": 7, "dropout": 0.0, **changes}
    return RNN(RNNConfig(vocabulary=len(tokenizer), end=tokenizer.end, **sizes))


def test_each_batch_goes_on_where_the_one_before_ended(store):
    batches = [*streamed_batches(store, rows=3, length=7, seed=1).epoch(2)]
    assert batches[0].goes_on is None
    assert len(batches) > 5
    for before, after in pairwise(batches):
        assert after.goes_on is not None
        assert torch.equal(before.ids[:, -1], after.ids[:, 0])
    other = next(iter(streamed_batches(store, rows=3, length=7, seed=1).epoch(3)))
    assert not torch.equal(other.ids, batches[0].ids)


def test_validation_leaves_out_less_than_a_token_a_row():
    plan = streams(101, 3, 7, None)
    assert plan[0][1].tolist() == [0, 33, 66]
    assert (len(plan) - 1) * 7 < 33 <= len(plan) * 7


def test_a_batch_of_pairs_is_as_large_as_one_of_text():
    recipe = resolve("language", preset="lstm_tiny", flags={"data": {"pairs": ("pairs.tsv",), "rows": 6}})
    task = LanguageModelling(recipe)
    task.processor = SimpleNamespace(id_of=lambda token: 3)
    rows = [[5, 6, 7, 8, 9]] * 1000
    store = Store({"source": Ragged.of(rows), "target": Ragged.of(rows)})
    cells = [batch.ids.numel() for batch in task.batches_of(store, seed=1, shuffle=False).epoch(0)]
    assert max(cells) < 2 * 6 * recipe.model.unrolled < sum(cells)


def test_a_text_in_batches_that_go_on_is_the_text_at_once(tokenizer, store):
    model = rnn(tokenizer)
    state, found = RecurrentState(), 0.0
    for batch in streamed_batches(store, rows=1, length=7, seed=1, shuffle=False).epoch(0):
        found += float(language_loss(model, batch, state=state).total.detach())
        state = RecurrentState.of(state.tensors())
    whole = torch.tensor(store["ids"].astype("int64"))[None]
    logits = model(whole[:, :-1])
    expected = torch.nn.functional.cross_entropy(logits[0], whole[0, 1:], reduction="sum")
    assert found == pytest.approx(float(expected.detach()), rel=1e-5)


def recipe(tmp_path, *more: str):
    text = tmp_path / "text.txt"
    text.write_text(TEXT)
    flags = {"data": {"text": (str(text),), "tokenizer": "characters", "rows": 4}}
    how = ["model.width=12", "train.steps=12", "train.checkpoint_every=5", "train.valid_every=6", *more]
    return resolve("language", preset="lstm_tiny", flags=flags, assignments=tuple(how))


def test_a_run_keeps_its_state_and_goes_on_bit_for_bit(tmp_path):
    train(recipe(tmp_path), tmp_path / "run")
    checkpoints = Checkpoints(tmp_path / "run/checkpoints", keep=9, every=5)
    newest = checkpoints.newest()
    assert newest is not None
    carried = checkpoints.carried(newest)
    assert {name: list(each.shape) for name, each in carried.items()} == {"0.0": [4, 12], "0.1": [4, 12]}
    assert prove(tmp_path / "run", steps=12, seed=3) is None


def test_what_has_no_state_keeps_none(tmp_path):
    text = tmp_path / "text.txt"
    text.write_text(TEXT)
    flags = {"data": {"text": (str(text),), "tokenizer": "characters", "rows": 4}}
    plain = resolve("language", preset="gpt2_tiny", flags=flags, assignments=("model.layers=1", "train.steps=2"))
    train(plain, tmp_path / "run")
    newest = Checkpoints(tmp_path / "run/checkpoints", keep=9, every=5).newest()
    assert newest is not None
    assert not (newest / "carried.safetensors").exists()


def test_a_mask_is_refused_before_any_work(tmp_path):
    with pytest.raises(ConfigError, match=r"data\.document_mask is for attention"):
        train(recipe(tmp_path, "data.document_mask=true"), tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("cell", ["elman", "gru", "lstm"])
def test_prompts_of_different_lengths_are_each_as_alone(tokenizer, cell):
    model = LanguageModel(rnn(tokenizer, cell=cell), tokenizer)
    prompts = ["the cat", "a", "sees a dog", "dog"]
    found = [each[0].text for each in model.complete(prompts, tokens=9, seed=4)]
    assert found == [model.generate(prompt, tokens=9, seed=4) for prompt in prompts]
    together = [""] * 4
    for row, piece in model.stream(prompts, tokens=9, samples=1):
        together[row] += piece
    assert together == [model.generate(prompt, tokens=9) for prompt in prompts]


def test_log_probabilities_are_those_of_the_whole_text(tokenizer):
    model = LanguageModel(rnn(tokenizer), tokenizer)
    [found] = model.log_probabilities([("the cat", " sees")])
    ids = torch.tensor(tokenizer.encode(["the cat sees"]))
    expected = model.model(ids[:, :-1]).log_softmax(-1)[0].gather(1, ids[0, 1:, None])[-5:].sum()
    assert_close(torch.tensor(found.total), expected.detach(), atol=1e-5, rtol=1e-5)
