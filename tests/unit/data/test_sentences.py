"""Sentences are found, stored and held out."""

from itertools import pairwise

import numpy as np
import pytest
from helpers import Letters, sentence_store
from hypothesis import given
from hypothesis import strategies as st

from manyheads.core.errors import ConfigError, DataError
from manyheads.data import sentences as sentences_module
from manyheads.data.ragged import Store
from manyheads.data.readers.documents import Piece, read_documents
from manyheads.data.sentences import document_bounds, parts_that_fit, sentences_of, split, write_sentences


def texts(store):
    """The sentences of each document."""
    found = ["".join(map(chr, row)) for row in store["ids"]]
    return [found[first:end] for first, end in pairwise(document_bounds(store).tolist())]


def together(store):
    """The sentences of all documents."""
    return [sentence for document in texts(store) for sentence in document]


def build(directory, pieces, longest=100, **more):
    return write_sentences(directory, pieces, Letters(), longest=longest, **more)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        (" \n \n", []),
        ("One line\nand another", ["One line", "and another"]),
        ("First one. Second! Third? Rest", ["First one.", "Second!", "Third?", "Rest"]),
        ("It costs 3.50 at x.org today", ["It costs 3.50 at x.org today"]),
        ("“Really?!” (Yes.) 'No.' [Go!] On", ["“Really?!”", "(Yes.)", "'No.'", "[Go!]", "On"]),
        (" = = Title = = \n \n It ran . It slept . \n", ["= = Title = =", "It ran .", "It slept ."]),
        ("Well . . . no ? ! ) So", ["Well . . .", "no ? ! )", "So"]),
        ('He was " Always Ready . " The rest', ['He was " Always Ready . "', "The rest"]),
        ('He left . " Come back ! " she said', ["He left .", '" Come back ! "', "she said"]),
        ('An open " quote\nends . " With its line', ['An open " quote', "ends .", '" With its line']),
        ("a.\r\nb.\tc", ["a.", "b.", "c"]),
    ],
)
def test_sentences_end_with_lines_and_behind_marks(text, expected):
    assert sentences_of(text) == expected


@given(st.text(alphabet='ab.!?" \n)', max_size=60))
def test_no_letter_is_lost_between_sentences(text):
    sentences = sentences_of(text)
    assert "".join("".join(sentences).split()) == "".join(text.split())
    assert all(sentence == sentence.strip() != "" for sentence in sentences)


PIECES = [Piece("One. Two.\n", False), Piece("Three\n", True), Piece(" \n--\n", True), Piece("Vier. Five", True)]
DOCUMENTS = [["One.", "Two.", "Three"], ["Vier.", "Five"]]


@pytest.mark.parametrize("chunk_letters", [1, 12, 1000])
def test_what_is_built_is_what_is_opened(tmp_path, monkeypatch, chunk_letters):
    monkeypatch.setattr(sentences_module, "CHUNK_LETTERS", chunk_letters)
    directory, told = tmp_path / "store", []
    built = build(directory, iter(PIECES), on_progress=told.append)
    letters = sum(len(piece.text) for piece in PIECES)
    for store in (built, Store.open(directory)):
        assert texts(store) == DOCUMENTS
        assert (len(store), len(store["ids"].flat), store.about) == (5, 22, {"letters": letters})
        assert [store["ids"].values.dtype, store["document"].dtype] == ["uint32", "int32"]
    assert told == sorted(told)
    assert told[-1] == letters
    in_memory = sentence_store([[[*map(ord, each)] for each in document] for document in DOCUMENTS])
    assert texts(in_memory) == DOCUMENTS
    assert np.array_equal(document_bounds(in_memory), document_bounds(built))


def test_many_sentences_are_encoded_at_a_time(tmp_path, monkeypatch):
    monkeypatch.setattr(sentences_module, "CHUNK_LETTERS", 500)
    tokenizer = Letters()
    pieces = (Piece(f"Sentence {number}.\n", True) for number in range(200))
    store = write_sentences(tmp_path / "store", pieces, tokenizer, longest=50)
    assert len(store) == len(document_bounds(store)) - 1 == 200
    assert min(tokenizer.calls[:-1]) > 20


def test_long_sentences_are_split_into_parts_about_equally_long(tmp_path):
    store = build(tmp_path / "store", [Piece("abcdefghijk\nabcde\nabcdef", True)], longest=5)
    assert texts(store) == [["abc", "defg", "hijk", "abcde", "abc", "def"]]
    with pytest.raises(ConfigError, match="at least 1"):
        build(tmp_path / "store", PIECES, longest=0)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("One. Two words.", ["One. Two words."]),
        ("One two. Three four five.", ["One two.", "Three four five."]),
        ("One. A sentence of more words. Two.", ["One.", "A sentence", "of more words.", "Two."]),
        ("  abcdefghijabcdefghijabcdefghij  ", ["abcdefghijabcde", "fghijabcdefghij"]),
        ("", [""]),
    ],
)
def test_a_text_comes_in_parts_that_fit(text, parts):
    assert parts_that_fit(text, lambda part: len(part) <= 16) == parts
    letters = parts_that_fit(text, lambda part: False)  # what fits nowhere ends all the same
    assert "".join(letters) == "".join(text.split())


@pytest.mark.parametrize("piece_letters", [3, 7, 20, 1000])
def test_the_sentences_of_a_document_do_not_depend_on_its_pieces(tmp_path, piece_letters):
    text = "A first sentence. And a second, in one line. Third!\nOther line. " + "Its end is far. " * 20
    (tmp_path / "a.txt").write_text(text)
    pieces = list(read_documents([tmp_path / "a.txt"], piece_letters=piece_letters))
    assert texts(build(tmp_path / "store", pieces)) == [sentences_of(text)]
    # And the test can tell: in most of these some piece ends within a sentence.
    apart = [sentence for piece in pieces for sentence in sentences_of(piece.text)]
    assert (apart == sentences_of(text)) == (piece_letters == 1000)


def test_a_text_without_any_end_is_not_gathered_in_memory(tmp_path, monkeypatch):
    pieces = [Piece("aaa", False), Piece("bbb", False), Piece("ccc", True)]
    assert texts(build(tmp_path / "store", pieces)) == [["aaabbbccc"]]
    monkeypatch.setattr(sentences_module, "CHUNK_LETTERS", 5)
    assert texts(build(tmp_path / "store", pieces)) == [["aaabbb", "ccc"]]


def test_no_sentences_are_an_error_and_leave_nothing(tmp_path):
    for pieces in ([], [Piece("\n", True), Piece("--", True)]):
        with pytest.raises(DataError, match="no sentences came out of"):
            build(tmp_path / "store", pieces)
        assert not list(tmp_path.iterdir())


def numbered(*documents):
    """A store of documents of so many sentences, of three ids each, which count through it."""
    ids = iter(range(10_000))
    return sentence_store([[[next(ids) for _ in range(3)] for _ in range(count)] for count in documents])


@given(documents=st.lists(st.integers(1, 5), min_size=1, max_size=6), data=st.data())
def test_a_part_has_the_sentences_and_borders_of_its_place(documents, data):
    whole = numbered(*documents)
    start, stop = sorted(data.draw(st.tuples(*[st.integers(0, len(whole))] * 2)))
    part = whole.part(start, stop)
    assert len(part) == stop - start
    assert len(part["ids"].flat) == 3 * (stop - start)
    assert together(part) == together(whole)[start:stop]
    assert all(texts(part))
    joined = {start + bound for bound in document_bounds(part).tolist()}
    assert joined == {start, stop} | {bound for bound in document_bounds(whole).tolist() if start < bound < stop}


def test_the_last_documents_are_held_out_whole_where_there_are_many():
    store = numbered(*[7] * 9, 3, 4)
    train, valid = split(store, 0.1, 1000)
    assert texts(train) + texts(valid) == texts(store)
    assert len(valid) == 7
    assert len(texts(valid)) == 2
    _, few = split(store, 0.1, 20)  # tokens, of which the last two documents have 21
    assert texts(few) == texts(store)[-1:]


def test_sentences_are_held_out_where_documents_are_few_or_too_long():
    for store in (numbered(100), numbered(50, 50), numbered(*[1] * 20, 80)):
        train, valid = split(store, 0.1, 1000)
        assert together(train) + together(valid) == together(store)
        assert len(valid) == 10
        assert len(split(store, 0.1, 14)[1]) == 4
        assert len(split(store, 0.1, 0)[1]) == len(split(store, 0.001, 1000)[1]) == 1
    train, valid = split(numbered(2), 0.9, 1000)
    assert (len(train), len(valid)) == (1, 1)
    with pytest.raises(DataError, match="of 1 sentence none can be held out"):
        split(numbered(1), 0.1, 1000)
