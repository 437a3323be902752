"""Hidden words: what is guessed and how it is scored, the data of pre-training, and the recipes it follows."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import tokenizers
import torch
from helpers import randomised, sentence_store
from tokenizers import models
from torch.testing import assert_close

from manyheads.core.errors import ConfigError, DataError
from manyheads.data.batches import Batches
from manyheads.data.masked_rows import masked_batches
from manyheads.data.ragged import Store
from manyheads.models.bert import PRESETS, BertConfig, MaskedBert
from manyheads.tasks.masked.data import longest_sentence
from manyheads.tasks.masked.recipe import MaskedData, MaskedRecipe
from manyheads.tasks.masked.training import TASK
from manyheads.tasks.masked.use import Filler, Guess, masked_scores, score_masked
from manyheads.tasks.run import resolve, resolve_again
from manyheads.text.encoder import EncoderTokenizer
from tests.unit.tasks.preparing import prepared as prepare

CONTEXT = 13
SIZES = {"context": CONTEXT, "width": 12, "layers": 2, "heads": 3}
TEXT = "the old grey cat sees a tall tree and sleeps under it"
HIDDEN = [
    "the [MASK] sees a tree",
    "[MASK]",
    "a cat [MASK] and [MASK] under it",
    "[MASK] old cat",
    "the tall grey tree sees [MASK]",
    "[MASK] [MASK] [MASK]",
]


@pytest.fixture(scope="module")
def tokenizer() -> EncoderTokenizer:
    return EncoderTokenizer.train([TEXT] * 3, 60)


def config_of(tokenizer: EncoderTokenizer, beyond: int = 0, **changes) -> BertConfig:
    sizes = {**SIZES, "vocabulary": len(tokenizer) + beyond, "separator": tokenizer.separator, **changes}
    return BertConfig(**sizes)


def made(tokenizer: EncoderTokenizer, next_sentence=False, beyond=0, **changes) -> Filler:
    return Filler(randomised(MaskedBert(config_of(tokenizer, beyond, **changes), next_sentence)), tokenizer)


@pytest.fixture
def filler(tokenizer) -> Filler:
    return made(tokenizer)


# Guessing


def test_guesses_are_the_largest_of_the_logits_where_words_are_hidden(filler, tokenizer):
    text = HIDDEN[2]
    ids = tokenizer.wrapped(tokenizer.encode([text], special=True)[0])
    places = [place for place, each in enumerate(ids) if each == tokenizer.mask]
    assert len(places) == 2
    with torch.no_grad():
        best = filler.model(torch.tensor([ids]))[0, places].softmax(dim=1).topk(3, dim=1)
    expected = [
        [Guess(*each) for each in zip(tokenizer.pieces(row), chances)]
        for row, chances in zip(best.indices.tolist(), best.values.tolist())
    ]
    (found,) = filler([text], 3)
    assert [[each.word for each in place] for place in found] == [[each.word for each in place] for place in expected]
    assert_close([[each.probability for each in place] for place in found], best.values.tolist())
    assert expected[0] != expected[1]  # and the test can tell


def test_probabilities_of_all_words_sum_to_one_the_likeliest_first(filler, tokenizer):
    for count, length in ((1, 1), (5, 5), (len(tokenizer), len(tokenizer)), (10**6, len(tokenizer))):
        (places,) = filler(["a [MASK] tree"], count)
        assert [len(place) for place in places] == [length]
    chances = [each.probability for each in places[0]]
    assert sum(chances) == pytest.approx(1, abs=1e-5)
    assert chances == sorted(chances, reverse=True)
    assert {each.word for each in places[0]} == set(tokenizer.pieces(list(range(len(tokenizer)))))


def test_a_hidden_word_is_written_as_the_tokenizer_writes_it(filler, tokenizer, tmp_path):
    assert filler.mask == "[MASK]"
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "<hole>", "the", "cat"]
    (tmp_path / "vocab.txt").write_text("\n".join(vocabulary) + "\n")
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"mask_token": "<hole>"}))
    other = made(EncoderTokenizer.load(tmp_path))
    assert other.mask == "<hole>"
    assert len(other(["the <hole>"], 2)[0][0]) == 2
    with pytest.raises(DataError, match="hides no word; write <hole> where one is to be guessed"):
        other(["the [MASK]"])


def test_two_texts_may_be_given_with_the_mark_between_them(filler, tokenizer):
    ids = [tokenizer.encode([text], special=True)[0] for text in ("a cat", "the [MASK]")]
    row = torch.tensor([tokenizer.wrapped(*ids)])
    segments = torch.tensor([[0] * (len(ids[0]) + 2) + [1] * (len(ids[1]) + 1)])
    place = row[0].tolist().index(tokenizer.mask)
    with torch.no_grad():
        apart = filler.model(row, segments=segments)[0, place].softmax(dim=0).max()
        as_one = filler.model(row, segments=torch.zeros_like(segments))[0, place].softmax(dim=0).max()
    ((best,),) = filler(["a cat [SEP] the [MASK]"], 1)
    assert best[0].probability == pytest.approx(float(apart), abs=1e-5)
    assert abs(float(as_one) - float(apart)) > 1e-4  # and the test can tell


def test_dropout_is_off_whatever_the_model_was_doing(tokenizer):
    model = randomised(MaskedBert(config_of(tokenizer, dropout=0.5))).train()
    filler = Filler(model, tokenizer)
    assert filler(HIDDEN) == filler(HIDDEN)
    assert not model.training


def test_rows_that_no_token_has_are_shown_by_their_number(tokenizer):
    filler = made(tokenizer, beyond=2)
    words = {each.word for each in filler(["[MASK]"], 10**6)[0][0]}
    assert {f"<{len(tokenizer)}>", f"<{len(tokenizer) + 1}>"} <= words
    assert len(words) == len(tokenizer) + 2


def test_a_text_may_fill_the_model_and_no_more(filler):
    full = "a " * (CONTEXT - 3) + "[MASK]"
    assert len(filler([full])[0]) == 1
    with pytest.raises(DataError, match=f"has {CONTEXT + 1} tokens, but the model reads {CONTEXT}; shorten it"):
        filler(["a [MASK]", "a " + full])


def test_what_cannot_be_guessed_is_refused(filler, tokenizer):
    for count in (0, -3):
        with pytest.raises(ConfigError, match=f"{count} guesses are no guess; ask for at least 1"):
            filler(["a [MASK]"], count)
    for text in ("the cat", "", "a [mask]", "a MASK"):
        with pytest.raises(DataError, match=r"hides no word; write \[MASK\] where one is to be guessed"):
            filler(["a [MASK]", text])


def maskless() -> EncoderTokenizer:
    words = {word: each for each, word in enumerate(("[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "b"))}
    return EncoderTokenizer(tokenizers.Tokenizer(models.WordPiece(words, unk_token="[UNK]")))


# Scores

SENTENCES = ["the cat sees a tree", "it sleeps", "a grey cat and the old tree", "the old cat sleeps under it"]


def batches(tokenizer, *, rows=4, follows=True) -> Batches:
    """Batches of unequal sizes, so that a mean of means is not the mean."""
    documents = [tokenizer.encode([SENTENCES[(one + other) % 4] for other in range(5)]) for one in range(3)]
    documents = [[sentence[: longest_sentence(CONTEXT)] for sentence in document] for document in documents]
    store = sentence_store(documents)
    return masked_batches(store, tokenizer, rows=rows, length=CONTEXT, next_sentence=follows, seed=0, shuffle=False)


def by_hand(model: MaskedBert, found: Batches) -> dict[str, float]:
    """Word by word and row by row."""
    losses, hits, next_losses, next_hits = [], [], [], []
    for batch in found.epoch(0):
        for number, (row, length) in enumerate(zip(batch.ids, batch.lengths.tolist())):
            states = model.body(row[None, :length])
            logs = model.logits(states)[0].log_softmax(dim=1)
            for place, target in zip(batch.places.tolist(), batch.targets.tolist()):
                if place // batch.ids.shape[1] == number:
                    at = place % batch.ids.shape[1]
                    losses.append(-float(logs[at, target]))
                    hits.append(int(logs[at].argmax()) == target)
            if batch.follows is not None:
                true, false = model.following(states)[0].log_softmax(dim=0).tolist()
                next_losses.append(-(true if batch.follows[number] else false))
                next_hits.append((true > false) == bool(batch.follows[number]))
    scores = {"loss": np.mean(losses), "accuracy": 100 * np.mean(hits)}
    if next_losses:
        scores |= {"next_loss": np.mean(next_losses), "next_accuracy": 100 * np.mean(next_hits)}
    return {name: float(value) for name, value in scores.items()}


@pytest.mark.parametrize("follows", [True, False])
@torch.no_grad()
def test_scores_are_means_over_words_and_over_rows(tokenizer, follows):
    model = made(tokenizer, next_sentence=True).model
    found = batches(tokenizer, follows=follows)
    sizes = {len(batch.lengths) for batch in found.epoch(0)}
    assert len(sizes) > 1
    scores = masked_scores(model, found)
    assert scores == pytest.approx(by_hand(model, found), rel=1e-4)
    assert list(scores) == ["loss", "accuracy", *(["next_loss", "next_accuracy"] if follows else [])]


@torch.no_grad()
def test_a_model_that_knows_every_answer_scores_a_hundred_and_one_that_knows_none_nothing(tokenizer):
    found = batches(tokenizer)

    class Knowing(torch.nn.Module):
        """Says what the batches themselves say, in their order, or something else."""

        def __init__(self, right: bool):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.zeros(1))
            self.right, self.all = right, found.epoch(0)

        def body(self, ids, lengths):
            self.batch = next(self.all)
            return torch.zeros(*ids.shape, 3)

        def logits(self, states):
            said = self.batch.targets if self.right else (self.batch.targets + 1) % len(tokenizer)
            return 50.0 * torch.nn.functional.one_hot(said, len(tokenizer))

        def following(self, states):
            # The first of the two logits is that of a text which follows.
            said = 1 - self.batch.follows if self.right else self.batch.follows
            return 50.0 * torch.nn.functional.one_hot(said, 2)

    expected = {"loss": 0, "accuracy": 100, "next_loss": 0, "next_accuracy": 100}
    assert masked_scores(Knowing(True), found) == pytest.approx(expected, abs=1e-6)
    expected = {"loss": 50, "accuracy": 0, "next_loss": 50, "next_accuracy": 0}
    assert masked_scores(Knowing(False), found) == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("follows", [True, False])
def test_a_text_is_scored_the_same_each_time_and_by_what_the_model_knows(tokenizer, tmp_path, follows):
    filler = made(tokenizer, next_sentence=follows)
    path = tmp_path / "t.txt"
    path.write_text(". ".join(SENTENCES * 9), encoding="utf-8")
    before = {each.name for each in tmp_path.iterdir()}
    scores = score_masked(filler, [str(path)])
    assert score_masked(filler, [str(path)]) == scores
    assert ("next_accuracy" in scores) is follows
    assert {each.name for each in tmp_path.iterdir()} == before
    lines = [json.dumps({"page": {"body": path.read_text()}})]
    (tmp_path / "t.jsonl").write_text("\n".join(lines))
    assert score_masked(filler, [str(tmp_path / "t.jsonl")], "page.body") == scores
    assert score_masked(made(tokenizer, next_sentence=follows), [str(path)]) != scores  # and the test can tell


@pytest.mark.parametrize("follows", [True, False])
def test_texts_that_cannot_be_scored_are_refused_in_a_sentence_and_long_ones_are_read_in_pieces(
    tokenizer, tmp_path, follows
):
    filler, path = made(tokenizer, next_sentence=follows), tmp_path / "t.txt"
    with pytest.raises(DataError, match=r"t\.txt is not there"):
        score_masked(filler, [str(path)])
    path.write_text("щука жук\nжук щука\n" * 9, encoding="utf-8")
    with pytest.raises(DataError, match="every word of the text is unknown to the tokenizer"):
        score_masked(filler, [str(path)])
    path.write_text("cat " * 500, encoding="utf-8")
    assert ("next_loss" in score_masked(filler, [str(path)])) is follows


# Data


def words_of(tokenizer: EncoderTokenizer, store: Store) -> list[str]:
    return tokenizer.decode([row.tolist() for row in store["ids"]])


def numbered(count: int) -> list[str]:
    return [f"{number} cats sat." for number in range(10, 10 + count)]


@pytest.fixture
def text(tmp_path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text("\n".join(numbered(40)), encoding="utf-8")
    return path


def data_of(*names, **more) -> MaskedData:
    return MaskedData(**{"text": tuple(map(str, names)), "vocabulary": 90, "rows": 5, **more})


def test_any_two_sentences_fit_a_row_and_longer_ones_would_not():
    for context in range(5, 40):
        longest = longest_sentence(context)
        assert longest >= 1
        assert 2 * longest + 3 <= context < 2 * (longest + 1) + 3
    for context in (1, 4):
        with pytest.raises(ConfigError, match=f"model.context is {context}, which leaves no place for two texts"):
            longest_sentence(context)


def test_the_last_tenth_of_the_sentences_is_held_out_unless_text_for_validation_is_given(text, tmp_path, capfd):
    prepared = prepare("masked", data_of(text), CONTEXT, tmp_path / "run")
    assert "held out for validation: the last 4 of 40 sentences" in capfd.readouterr().err
    assert words_of(prepared.processor, prepared.train) == numbered(40)[:36]
    assert words_of(prepared.processor, prepared.valid) == numbered(40)[36:]
    few = prepare("masked", data_of(text, valid_tokens=11), CONTEXT, tmp_path / "few")
    assert len(few.valid["ids"].flat) <= 11
    assert len(few.train) + len(few.valid) == 40  # what is not validated on is trained on
    other = tmp_path / "other.txt"
    other.write_text("\n".join(numbered(7)[::-1]), encoding="utf-8")
    given = prepare("masked", data_of(text, valid=(str(other),)), CONTEXT, tmp_path / "given")
    assert len(given.train) == 40
    assert words_of(given.processor, given.valid) == numbered(7)[::-1]
    few = prepare("masked", data_of(text, valid=(str(other),), valid_tokens=11), CONTEXT, tmp_path / "few given")
    assert 0 < len(few.valid["ids"].flat) <= 11


def test_text_that_gives_no_two_sentences_in_a_row_is_refused_unless_none_follow(tmp_path):
    (tmp_path / "t.txt").write_text("\n".join(numbered(19)), encoding="utf-8")  # of which one is held out
    with pytest.raises(DataError, match="of the text to validate on: no document has two sentences"):
        prepare("masked", data_of(tmp_path / "t.txt"), CONTEXT, tmp_path / "run")
    alone = prepare("masked", data_of(tmp_path / "t.txt", next_sentence=False), CONTEXT, tmp_path / "other")
    assert (len(alone.train), len(alone.valid)) == (18, 1)
    (tmp_path / "t.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in numbered(40)))
    with pytest.raises(DataError, match="of the text to train on: no document has two sentences"):
        prepare("masked", data_of(tmp_path / "t.jsonl"), CONTEXT, tmp_path / "lines")


def test_sentences_are_cut_so_that_two_fit_a_row(tmp_path):
    (tmp_path / "t.txt").write_text("one two three four five six seven eight nine ten.\n" * 20, encoding="utf-8")
    for context in (9, CONTEXT):
        prepared = prepare("masked", data_of(tmp_path / "t.txt"), context, tmp_path / str(context))
        parts = prepared.train["ids"].lengths[: 4 if context == 9 else 3].tolist()
        assert sum(parts) == 11  # of one sentence, with its full stop
        assert max(parts) <= longest_sentence(context)
        batch = next(prepared.batches().epoch(0))
        assert batch.ids.shape[1] <= context
        assert len(batch.ids) <= 5


def test_batches_are_of_the_training_text_or_of_the_validation_text(text, tmp_path):
    data = data_of(text, next_sentence=False)
    prepared = prepare("masked", data, CONTEXT, tmp_path / "run")
    seen = {}
    for shuffle in (True, False):
        ids = set()
        store = prepared.train if shuffle else prepared.valid
        settings = {"rows": 5, "length": CONTEXT, "next_sentence": False, "seed": 1, "shuffle": shuffle}
        for batch in masked_batches(store, prepared.processor, **settings).epoch(0):
            whole = batch.ids.flatten()
            whole[batch.places] = batch.targets
            ids |= set(whole.tolist())
        seen[shuffle] = ids
    tokenizer = prepared.processor
    only_first, only_last = (set(tokenizer.encode([f"{number}"])[0]) for number in (20, 49))
    assert only_first <= seen[True]
    assert only_last <= seen[False]
    assert not only_first <= seen[False]
    assert seen[True] & seen[False] >= {tokenizer.start, tokenizer.separator}


def test_capitals_are_made_small_unless_they_are_kept(tmp_path):
    (tmp_path / "t.txt").write_text("The Cat sat. A Dög ran.\n" * 19, encoding="utf-8")
    for lowercase, kept in ((True, "the cat sat."), (False, "The Cat sat.")):
        data = data_of(tmp_path / "t.txt", lowercase=lowercase)
        prepared = prepare("masked", data, CONTEXT, tmp_path / str(lowercase))
        assert words_of(prepared.processor, prepared.train)[0] == kept


def test_a_tokenizer_given_is_taken_as_it_is(text, tokenizer, tmp_path):
    tokenizer.save(tmp_path / "tokenizer")
    for given in (tmp_path / "tokenizer", tmp_path / "tokenizer" / "tokenizer.json"):
        prepared = prepare("masked", data_of(text, tokenizer=str(given)), CONTEXT, tmp_path / given.name / "run")
        assert prepared.processor._model.to_str() == tokenizer._model.to_str()
    with pytest.raises(ConfigError, match="has no token that hides a word"):
        made(maskless())
    maskless().save(tmp_path / "maskless")
    with pytest.raises(ConfigError, match=r"maskless has no \[MASK\], which a word is hidden behind"):
        prepare("masked", data_of(text, tokenizer=str(tmp_path / "maskless")), CONTEXT, tmp_path / "run")


def test_files_that_are_not_there_are_refused(text, tmp_path):
    TASK(MaskedRecipe(data=data_of(text, valid=(str(text),)))).read()
    for changes in ({"text": (str(tmp_path / "no.txt"),)}, {"valid": (str(tmp_path / "no.txt"),)}):
        with pytest.raises(DataError, match=r"no\.txt is not there"):
            TASK(MaskedRecipe(data=data_of(text, **changes))).read()


# Recipes


def test_presets_are_the_published_sizes_and_small_ones_read_short_rows():
    for name, preset in PRESETS.items():
        recipe = TASK.preset(name)
        context = 128 if name in ("bert_tiny", "bert_mini") else 512
        assert recipe.model == replace(preset(), context=context), name
        assert recipe.data.next_sentence
        assert (recipe.train.optimizer, recipe.train.best_by, recipe.train.smoothing) == ("adamw", "loss", 0)
    with pytest.raises(ConfigError, match="there is no preset bert_huge; there are bert_tiny, bert_mini"):
        TASK.preset("bert_huge")


def test_what_is_given_decides_where_a_recipe_begins(tmp_path):
    file = tmp_path / "r.toml"
    file.write_text('preset = "bert_small"\n[data]\nrows = 7\n[train]\nsteps = 11\n', encoding="utf-8")
    assert resolve("masked") == TASK.sample()
    assert not TASK.sample().data.next_sentence  # those of the sample follow one another by chance
    flags = {"data": {"text": ["a.txt"], "next_sentence": False}}
    assert not resolve("masked", flags=flags).data.next_sentence
    assert resolve("masked", flags={"data": {"text": ["a.txt"]}}).data.next_sentence
    assert resolve("masked", flags={"data": {"tokenizer": "t"}}).model == TASK.sample().model
    assert resolve("masked", flags={"data": {"text": ["a.txt"]}}).model == TASK.preset("bert_mini").model
    assert (
        resolve("masked", preset="bert_base", flags={"data": {"text": ["a.txt"]}}).model
        == TASK.preset("bert_base").model
    )
    found = resolve("masked", file=file, flags={"data": {"text": ["a.txt"]}}, assignments=("train.steps=13",))
    assert found.model == TASK.preset("bert_small").model
    assert (found.data.rows, found.data.text, found.train.steps) == (7, ("a.txt",), 13)
    assert resolve("masked", file=file, preset="bert_tiny").model == TASK.preset("bert_tiny").model


def test_a_recipe_of_another_task_is_refused_and_of_a_run_that_goes_on_only_training_changes(tmp_path):
    (tmp_path / "other.toml").write_text('task = "classify"\n', encoding="utf-8")
    with pytest.raises(ConfigError, match="this recipe trains classify, not masked"):
        resolve("masked", file=tmp_path / "other.toml")
    with pytest.raises(ConfigError, match="this recipe trains tag, not masked"):
        MaskedRecipe(task="tag")
    (tmp_path / "recipe.toml").write_text("[model]\nlayers = 3\n[train]\nsteps = 5\n", encoding="utf-8")
    found = resolve_again(tmp_path, "masked", ("train.steps=9",))
    assert (found.model.layers, found.train.steps) == (3, 9)
    for change in ("model.layers=2", "data.rows=3", "data.next_sentence=false"):
        with pytest.raises(ConfigError, match="of a run cannot change when it goes on; only train"):
            resolve_again(tmp_path, "masked", (change,))
