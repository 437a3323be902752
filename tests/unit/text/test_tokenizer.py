import json

import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import models, pre_tokenizers, processors

from manyheads.core.errors import ConfigError
from manyheads.text.tokenizer import Tokenizer

LINES = [
    "Two young men stand in the yard.",
    "Zwei junge Männer stehen im Hof.",
    "Deux jeunes hommes sont dans la cour.",
    "A größere Straße, 1234 5678 and the café.",
] * 5

BEGINNING = processors.TemplateProcessing(single="[CLS] $A", special_tokens=[("[CLS]", 2)])


@pytest.fixture(scope="module")
def tokenizer():
    return Tokenizer.train(LINES, 320)


def words(directory, tokens, *, processor=None, config=None):
    """A published tokenizer.json of whole words, with files beside it."""
    model = tokenizers.Tokenizer(models.WordLevel({token: index for index, token in enumerate(tokens)}, tokens[-1]))
    model.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    model.add_special_tokens([token for token in tokens if token[0] in "<["])
    if processor is not None:
        model.post_processor = processor
    model.enable_padding(length=9)
    model.enable_truncation(2)
    model.save(str(directory / "tokenizer.json"))
    if config is not None:
        (directory / "tokenizer_config.json").write_text(json.dumps(config))
    return directory


@given(line=st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n")).filter(lambda x: x[:1] != " "))
def test_decoding_gives_back_any_line(tokenizer, line):
    assert tokenizer.decode(tokenizer.encode([line])) == [line]


@given(line=st.text(st.characters()))
def test_any_string_ends_once_and_is_readable(tokenizer, line):
    (ids,) = tokenizer.encode([line])
    assert ids.index(tokenizer.end) == len(ids) - 1
    assert len(tokenizer.pieces(ids)) == len(ids)


def test_ids_are_as_marian_has_them(tokenizer):
    assert (tokenizer.end, tokenizer.pad, tokenizer.start) == (0, len(tokenizer) - 1, len(tokenizer) - 1)
    assert tokenizer.pieces([0, 1, tokenizer.pad]) == ["</s>", "<unk>", "<pad>"]
    (ids,) = tokenizer.encode(["the yard"])
    assert tokenizer.decode([[tokenizer.start, *ids, tokenizer.pad, tokenizer.pad]]) == ["the yard"]


def test_a_word_is_the_same_wherever_it_stands(tokenizer):
    first, second = tokenizer.encode(["Hof Hof", "Hof"])
    assert first == second[:-1] * 2 + [tokenizer.end]


def test_pieces_are_readable(tokenizer):
    (ids,) = tokenizer.encode(["men 😀"])
    pieces = tokenizer.pieces(ids)
    assert "Ġ" not in "".join(pieces)
    assert pieces[-5:] == ["\\xf0", "\\x9f", "\\x98", "\\x80", "</s>"]
    assert "".join(pieces[:-5]) == "men"


def test_the_vocabulary_is_as_asked_or_smaller(tokenizer):
    assert len(tokenizer) == 320
    assert 259 <= len(Tokenizer.train(["a tiny corpus"], 5000)) < 300
    assert len(Tokenizer.train([], 259)) == 259
    with pytest.raises(ConfigError, match="259"):
        Tokenizer.train(LINES, 258)


def test_transformers_opens_what_is_saved(tokenizer, tmp_path):
    transformers = pytest.importorskip("transformers")
    tokenizer.save(tmp_path)
    theirs = transformers.AutoTokenizer.from_pretrained(str(tmp_path), local_files_only=True)
    assert (theirs.eos_token_id, theirs.unk_token_id, theirs.pad_token_id) == (0, 1, tokenizer.pad)
    lines = [*LINES[:4], "an unseen 😀  line , with 'spaces' .", "", "text that says </s> and <pad>"]
    ids = tokenizer.encode(lines)
    assert theirs(lines)["input_ids"] == ids
    assert theirs.batch_decode(ids, skip_special_tokens=True) == tokenizer.decode(ids) == lines


def test_a_published_tokenizer_is_ended_and_neither_padded_nor_cut(tmp_path):
    loaded = Tokenizer.load(words(tmp_path, ["[PAD]", "[SEP]", "one", "two", "three", "[UNK]"]))
    assert (loaded.pad, loaded.end) == (0, 1)
    assert loaded.encode(["one two three", "four", ""]) == [[2, 3, 4, 1], [5, 1], [1]]
    assert loaded.encode(["one [SEP] two [PAD] three"]) == [[2, 3, 4, 1]]


@pytest.mark.parametrize("processor", [None, processors.ByteLevel(), BEGINNING], ids=["none", "bytes", "beginning"])
def test_transformers_ends_the_lines_of_a_published_tokenizer_too(tmp_path, processor):
    transformers = pytest.importorskip("transformers")
    loaded = Tokenizer.load(words(tmp_path, ["[PAD]", "[SEP]", "[CLS]", "one", "two", "[UNK]"], processor=processor))
    loaded.save(tmp_path / "saved")
    theirs = transformers.AutoTokenizer.from_pretrained(str(tmp_path / "saved"), local_files_only=True)
    lines = ["one two", "two", ""]
    assert theirs(lines)["input_ids"] == loaded.encode(lines) == Tokenizer.load(tmp_path / "saved").encode(lines)
    assert loaded.encode(["one"])[0][-2:] == [3, 1]


def test_a_published_end_is_not_added_twice(tmp_path):
    processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 1)])
    loaded = Tokenizer.load(words(tmp_path, ["[PAD]", "[SEP]", "[CLS]", "one", "[UNK]"], processor=processor))
    assert loaded.encode(["one"]) == [[2, 3, 1]]
    assert loaded.decode([[2, 3, 1, 0]]) == ["one"]


def test_the_files_beside_a_tokenizer_name_its_tokens(tmp_path):
    config = {"pad_token": {"content": "<void>"}, "eos_token": "<stop>"}
    words(tmp_path, ["<pad>", "</s>", "<void>", "<stop>", "one"], config=config)
    loaded = Tokenizer.load(tmp_path)
    assert (loaded.pad, loaded.end) == (2, 3)
    loaded = Tokenizer.load(tmp_path, pad="<pad>", end="</s>")
    assert (loaded.pad, loaded.end) == (0, 1)


def test_a_missing_token_is_an_error_that_names_those_found(tmp_path):
    words(tmp_path, ["<|endoftext|>", "one"])
    with pytest.raises(ConfigError, match=r"no token <none>.*<\|endoftext\|>"):
        Tokenizer.load(tmp_path, pad="<none>")
    words(tmp_path, ["<void>", "one"])
    with pytest.raises(ConfigError, match=r"no token that ends a sentence.*<void>"):
        Tokenizer.load(tmp_path)


def test_a_tokenizer_without_padding_is_given_some_behind_all_others(tmp_path):
    words(tmp_path, ["<|endoftext|>", "one", "two", "[UNK]"])
    for options in ({}, {"pad": "<|endoftext|>"}):  # as GPT-2's is often used
        loaded = Tokenizer.load(tmp_path, **options)
        assert (loaded.end, loaded.pad, len(loaded)) == (0, 4, 5)
        assert loaded.encode(["one two"]) == [[1, 2, 0]]
