"""The word vocabulary: whole words and marks, the commonest first, the rest unknown."""

import pytest

from manyheads.core.errors import ConfigError
from manyheads.text.encoder import EncoderTokenizer
from manyheads.text.words import WordTokenizer, words_of

TEXTS = ["Don't watch the second-rate film!!", "the film’s end — don’t, the film"]


def test_a_word_keeps_its_apostrophes_and_hyphens_and_marks_stand_alone():
    assert words_of("It's second-rate, isn’t it?!") == ["it's", "second-rate", ",", "isn't", "it", "?", "!"]
    assert words_of("- 'quoted' -") == ["-", "'", "quoted", "'", "-"]
    assert words_of("KEEP Case", lowercase=False) == ["KEEP", "Case"]
    assert words_of(" ") == []


def test_the_commonest_words_come_first_and_others_are_unknown():
    tokenizer = WordTokenizer.train(TEXTS, 5)
    assert list(tokenizer.vocabulary()) == ["the", "!", "don't"]
    assert tokenizer.encode(["The film!"]) == [[2, 1, 3]]
    assert len(tokenizer) == 5
    assert list(WordTokenizer.train(TEXTS, 100, least=3).vocabulary()) == ["the"]


def test_what_is_saved_reads_the_same(tmp_path):
    tokenizer = WordTokenizer.train(TEXTS, 100)
    tokenizer.save(tmp_path)
    again = WordTokenizer.load(tmp_path)
    texts = ["the Film’s film", "", "<unk> <pad> \ud800 zebra"]
    assert again.encode(texts) == tokenizer.encode(texts)
    assert again.vocabulary() == tokenizer.vocabulary()
    assert (again.pad, again.unknown) == (0, 1)
    assert all(0 not in row for row in tokenizer.encode(texts))  # padding spelt out is only text


def test_of_words_gives_ids_in_their_order():
    tokenizer = WordTokenizer.of(["no", "!", "yes", "no"])
    assert tokenizer.encode(["Yes, no!"]) == [[4, 1, 2, 3]]


def test_what_cannot_be_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="ask for 3 or more"):
        WordTokenizer.train(TEXTS, 2)
    with pytest.raises(ConfigError, match="not one string"):
        WordTokenizer.train("one", 10)
    EncoderTokenizer.train(TEXTS * 3, 60).save(tmp_path)
    with pytest.raises(ConfigError, match="whole words"):
        WordTokenizer.load(tmp_path)
