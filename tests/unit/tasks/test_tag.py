import random
from itertools import accumulate, pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from helpers import randomised
from torch.testing import assert_close

from manyheads.core.errors import ConfigError, DataError
from manyheads.data.batches import Batch
from manyheads.data.examples import NOTHING, by_sentence
from manyheads.data.readers.columns import TaggedSentence
from manyheads.models.bert import Bert, BertConfig
from manyheads.models.heads import EncoderTagger
from manyheads.tasks.tag.data import Windowing, least_windows, read_all, spans
from manyheads.tasks.tag.recipe import TagData
from manyheads.tasks.tag.use import Tagger, score_tags
from manyheads.text.encoder import EncoderTokenizer
from manyheads.train.objectives import tagging_loss
from tests.unit.tasks.preparing import prepared as prepare

NAMES = ("B-animal", "I-animal", "O")
TEXT = "the old grey cat sees a tall tree and sleeps under it"
SIZES = {"width": 12, "layers": 2, "heads": 3}


@pytest.fixture(scope="module")
def tokenizer() -> EncoderTokenizer:
    return EncoderTokenizer.train([TEXT] * 3, 45)  # so few that most words are of several pieces


def tagger(tokenizer: EncoderTokenizer, context=19) -> Tagger:
    sizes = {"vocabulary": len(tokenizer), "context": context, "separator": tokenizer.separator, **SIZES}
    return Tagger(randomised(EncoderTagger(Bert(BertConfig(**sizes), pooler=False), NAMES)), tokenizer)


# Files


def written(path: Path, *sentences: str) -> str:
    """Sentences of `word/label`, in columns."""
    lines = (each.replace(" ", "\n").replace("/", "\t") for each in sentences)
    path.write_text("".join(f"{each}\n\n" for each in lines), encoding="utf-8")
    return str(path)


def test_a_tenth_of_the_sentences_is_held_out(tmp_path):
    path = written(tmp_path / "a.conll", *(f"word{each}/x it/{each % 3}" for each in range(25)))
    found = read_all(TagData(train=(path,)))
    assert len(found.valid) == 2
    assert {sentence.line for sentence in (*found.train, *found.valid)} == set(range(1, 75, 3))
    assert found.about == {"names": ("0", "1", "2", "x"), "entities": False}


def test_labels_are_those_of_entities_where_validation_has_some(tmp_path):
    train = written(tmp_path / "a.conll", "cats/B-animal see/O", "dogs/B-animal see/O")
    plain, names = written(tmp_path / "b.conll", "see/O"), written(tmp_path / "c.conll", "cats/B-animal")
    assert not read_all(TagData(train=(train,), valid=(plain,))).about["entities"]
    assert read_all(TagData(train=(train,), valid=(plain, names))).about["entities"]


def test_labels_that_cannot_be_learned_are_refused(tmp_path):
    one = written(tmp_path / "one.conll", *["a/x b/x"] * 12)
    each = written(tmp_path / "each.conll", "a/1 b/2 c/3")
    train = written(tmp_path / "train.conll", *["a/x b/y"] * 3)
    other = written(tmp_path / "other.conll", "a/x", "a/y b/z")
    with pytest.raises(DataError, match="every word has the label x"):
        read_all(TagData(train=(one,)))
    with pytest.raises(DataError, match=r"a label of its own.*--columns"):
        read_all(TagData(train=(each,)))
    with pytest.raises(DataError, match=r"other.conll, in the sentence from line 3 on: the label 'z' of 'b'"):
        read_all(TagData(train=(train,), valid=(other,)))
    with pytest.raises(DataError, match="too few sentences, 3,"):
        read_all(TagData(train=(train,)))


# Windows


def test_a_sentence_that_fits_is_read_whole_as_everywhere_else(tokenizer):
    windowing = Windowing(tokenizer, context=60)
    (window,) = windowing.windows([TEXT.split()])[0]
    assert window.ids == tokenizer.wrapped(tokenizer.encode([TEXT])[0])
    lengths = [len(tokenizer.encode([word])[0]) for word in TEXT.split()]
    assert max(lengths) > 1
    assert window.places == [1, *(1 + before for before in accumulate(lengths[:-1]))]
    assert windowing.windows([[], ["cat"]])[0] == []
    assert windowing.long == 0


@pytest.mark.parametrize("room", [1, 2, 3, 7, 10, 31])
def test_every_word_is_asked_about_once_where_it_has_most_context(room):
    source = random.Random(room)
    for _ in range(60):
        sizes = [source.randint(1, max(room // 2, 1)) for _ in range(source.randint(1, 90))]
        starts = [0, *accumulate(sizes)]
        windows, asked = spans(starts, room)
        assert [word for part in asked for word in part] == list(range(len(sizes)))
        assert all(starts[last] - starts[first] <= room for first, last in windows)
        assert all(one[0] < other[0] and one[1] < other[1] for one, other in pairwise(windows))
        contexts = [
            [nearest_cut(word, window, starts) if window[0] <= word < window[1] else -1 for window in windows]
            for word in range(len(sizes))
        ]
        for number, part in enumerate(asked):
            assert all(contexts[word][number] == max(contexts[word]) for word in part)


def nearest_cut(word: int, window: tuple[int, int], starts: list[int]) -> float:
    """How many pieces lie between a word and the nearer end of its window that is not one of the sentence."""
    before = starts[word] - starts[window[0]] if window[0] else len(starts) * 99
    behind = starts[window[1]] - starts[word + 1] if window[1] < len(starts) - 1 else len(starts) * 99
    return min(before, behind)


def test_in_a_long_sentence_every_word_is_about_a_quarter_of_a_window_from_a_cut_or_more():
    starts = list(range(301))
    windows, asked = spans(starts, 40)
    cuts = [nearest_cut(word, window, starts) for window, part in zip(windows, asked) for word in part]
    assert min(cuts) >= 9


def test_the_last_window_reaches_back_as_far_as_there_is_room():
    assert spans(list(range(42)), 40) == ([(0, 40), (1, 41)], [range(0, 21), range(21, 41)])


def test_a_word_as_long_as_the_model_reads_loses_its_end_and_no_other_word_is_lost(tokenizer):
    words = ["cat", "tree" * 9, "it", "sees"]
    windowing = Windowing(tokenizer, context=12)
    windows = windowing.windows([words])[0]
    assert sum(len(window.places) for window in windows) == 4
    assert all(len(window.ids) <= 12 for window in windows)
    assert windowing.long == 1
    first = [tokenizer.encode([word])[0][0] for word in words]
    assert [window.ids[place] for window in windows for place in window.places] == first


def test_a_context_without_place_for_a_word_is_refused(tokenizer):
    with pytest.raises(ConfigError, match="no place for a word"):
        Windowing(tokenizer, context=2)


def test_the_least_number_of_windows_is_met_where_each_word_is_one_piece():
    sentences = [TaggedSentence(("it",) * count, ("O",) * count, 1) for count in (3, 10, 11, 57)]
    tokenizer = EncoderTokenizer.train(["it is it"] * 3, 45)
    windows = Windowing(tokenizer, context=12).windows([sentence.words for sentence in sentences])
    assert least_windows(sentences, 12) == sum(map(len, windows)) == 1 + 1 + 2 + 11


def test_the_labels_of_a_long_sentence_are_laid_down_in_its_order(tmp_path):
    words, labels = (TEXT.split() * 6, [str(number % 7) for number in range(72)])
    path = written(tmp_path / "a.conll", " ".join(f"{word}/{label}" for word, label in zip(words, labels)), "it/0")
    data = prepare("tag", TagData(train=(path,), valid=(path,), vocabulary=45), 19, tmp_path / "run")
    assert [data.names[number] for number in by_sentence(data.train, data.train["labels"].flat)[0]] == labels
    assert len(data.train) > len(np.unique(data.train["sentence"])) == 2


# The objective


def test_pieces_that_begin_no_word_count_in_no_loss(tokenizer):
    model = tagger(tokenizer).model
    ids = torch.randint(5, len(tokenizer), (2, 7))
    lengths = torch.tensor([7, 4])
    labels = torch.tensor([[-1, 2, -1, 0, 1, -1, -1], [-1, 1, 0, -1, -1, -1, -1]])
    found = tagging_loss(model, Batch(5, ids=ids, lengths=lengths, labels=labels))
    expected = torch.zeros(())
    for row, length, right in zip(ids, lengths, labels):
        scores = model(row[None, :length])[0].log_softmax(dim=1)
        expected = expected - sum(scores[at, label] for at, label in enumerate(right) if label != NOTHING)
    assert_close(found.total, expected)
    assert_close(found.likelihood, found.total.detach())
    assert found.tokens == 5


# The tagger


def test_text_is_as_words_and_a_tag_is_the_likeliest_label(tokenizer):
    ready = tagger(tokenizer)
    sentences = ["the cat sleeps", "", TEXT, "it", " ".join([TEXT] * 4)]
    chances, tags = ready.probabilities(sentences), ready(sentences)
    assert [[tag.word for tag in row] for row in tags] == [sentence.split() for sentence in sentences]
    assert len({tag.label for row in tags for tag in row}) > 1  # and the test can tell
    for sentence, row, found in zip(sentences, tags, chances):
        assert_close(found, ready.probabilities([sentence.split()])[0], atol=1e-5, rtol=0)
        assert found.shape == (len(row), 3)
        assert [tag.probability for tag in row] == (found.amax(dim=1).tolist() if row else [])
        assert all(tag.label == ready.names[int(place)] for tag, place in zip(row, found.argmax(dim=1)))
    assert ready([[]]) == [[]]


def test_a_label_is_read_at_the_first_piece(tokenizer):
    ready = tagger(tokenizer, context=60)
    ids = tokenizer.wrapped(tokenizer.encode([TEXT])[0])
    scores = ready.model(torch.tensor([ids]))[0].softmax(dim=1)
    places = [place for place, piece in enumerate(tokenizer.pieces(ids)) if not piece.startswith(("##", "["))]
    assert len(places) == len(TEXT.split()) < len(ids) - 2
    assert_close(ready.probabilities([TEXT])[0], scores[places], atol=1e-5, rtol=0)


def test_a_long_sentence_is_read_in_windows_that_see_both_sides(tokenizer):
    ready = tagger(tokenizer, context=19)
    words = TEXT.split() * 5
    whole = ready.probabilities([words])[0]
    changed = ready.probabilities([["sleeps", *words[1:]]])[0]
    assert not torch.allclose(whole[1], changed[1])
    assert_close(whole[30:], changed[30:], atol=1e-5, rtol=0)  # too far away to be seen


def test_a_tagger_is_scored_against_its_own_words(tokenizer):
    ready = tagger(tokenizer)
    said = [tuple(tag.label for tag in row) for row in ready([TEXT, "the cat"])]
    truth = [TaggedSentence(tuple(words.split()), said[at], 1) for at, words in enumerate((TEXT, "the cat"))]
    scores = score_tags(ready, truth)
    assert (scores.accuracy, scores.words, scores.sentences) == (1.0, 14, 2)
    other = next(name for name in NAMES if name != said[1][1])
    worse = [truth[0], TaggedSentence(("the", "cat"), (said[1][0], other), 1)]
    assert score_tags(ready, worse).accuracy == pytest.approx(13 / 14)
    strange = [TaggedSentence(("the", "cat"), ("O", "B-plant"), 7)]
    with pytest.raises(DataError, match=r"test.conll, in the sentence from line 7 on: the label 'B-plant' of 'cat'"):
        score_tags(ready, strange, path="test.conll")
