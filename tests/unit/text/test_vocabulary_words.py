"""Which tokens stand for words, in every kind of tokenizer."""

import tokenizers
from tokenizers import decoders, models, pre_tokenizers

from manyheads.text.encoder import EncoderTokenizer
from manyheads.text.language import LanguageTokenizer
from manyheads.text.tokenizer import Tokenizer
from manyheads.text.words import WordTokenizer

TEXTS = ["the cat sat, café 12 the catty cat."] * 5


def words_of(tokenizer) -> dict[str, set[str]]:
    """Each word with the tokens that stand for it."""
    found: dict[str, set[str]] = {}
    for each, word in tokenizer.words().items():
        found.setdefault(word, set()).add(tokenizer._model.id_to_token(each))
    return found


def test_byte_level_tokens_are_words_behind_a_space_and_marks_anywhere():
    for kind in (Tokenizer, LanguageTokenizer):
        found = words_of(kind.train(TEXTS, 330))
        assert (found["cat"], found["café"], found[","]) == ({"Ġcat"}, {"ĠcafÃ©"}, {","})
        assert not {"at", "tty", "</s>", "<pad>", "<unk>", "<|endoftext|>", "", " ", "\ufffd"} & found.keys()


def test_word_pieces_are_words_where_they_do_not_go_on_with_one():
    found = words_of(EncoderTokenizer.train(TEXTS, 60))
    assert {"the", "cat", "cafe", ",", "."} <= found.keys()
    assert not {"##at", "at", "[CLS]", "[PAD]"} & found.keys()


def test_whole_words_are_words_but_characters_are_none():
    assert words_of(WordTokenizer.train(TEXTS, 50)).keys() == {"the", "cat", "sat", ",", "café", "12", "catty", "."}
    assert LanguageTokenizer.characters(TEXTS).words() == {}


def test_the_marks_of_other_libraries():
    """Llama's stands before a word, GPT-1's behind one."""
    vocabulary = {"<unk>": 0, "▁the": 1, "cat": 2, "▁": 3, "▁▁": 4, ".": 5}
    llama = tokenizers.Tokenizer(models.BPE(vocabulary, [], unk_token="<unk>"))
    llama.pre_tokenizer, llama.decoder = pre_tokenizers.Metaspace(), decoders.Metaspace()
    llama.add_special_tokens(["<unk>"])
    assert LanguageTokenizer(llama, end=None).words() == {1: "the", 5: "."}
    gpt = tokenizers.Tokenizer(models.BPE({"the</w>": 0, "the": 1}, [], end_of_word_suffix="</w>"))
    assert LanguageTokenizer(gpt, end=None).words() == {0: "the"}
