import gzip
import json
import tracemalloc
from itertools import pairwise

import pytest
from helpers import written
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Regex, pre_tokenizers

from manyheads.core.errors import DataError
from manyheads.data.readers import documents
from manyheads.data.readers.documents import LINE_CUTS, SPACE_CUT, STRETCH, Piece, find_texts, read_documents

GPT4 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"  # the slash is of GPT-4o
)
SPLITS = {
    "gpt2": pre_tokenizers.ByteLevel(add_prefix_space=False),
    "gpt4": pre_tokenizers.Split(Regex(GPT4), "isolated"),
}
TEXT = st.text(st.sampled_from("ab1. /'\n\n  \t\ré漢😀"), max_size=80)


def whole(pieces):
    """The documents that pieces give when they are put together."""
    found, text = [], ""
    for piece in pieces:
        text += piece.text
        if piece.ends:
            found.append(text)
            text = ""
    assert not text
    return found


@pytest.fixture(params=[1, 2, 2**20])
def blocks(request, monkeypatch):
    monkeypatch.setattr(documents, "BLOCK_BYTES", request.param)


@pytest.mark.parametrize("suffix", ["", ".gz", ".xz"])
def test_a_file_is_a_document(tmp_path, blocks, suffix):
    paths = [
        written(tmp_path / f"a.txt{suffix}", "\ufeffone\r\ntwo\r\r\nthrée 😀\rfour\ufeff\r"),
        written(tmp_path / f"b{suffix}", " \n\t\r\n"),
        written(tmp_path / f"c{suffix}", "漢"),
    ]
    assert whole(read_documents(paths)) == ["one\ntwo\r\nthrée 😀\rfour\ufeff\r", "漢"]


@given(text=TEXT, letters=st.integers(2, 9), size=st.integers(1, 30))
def test_pieces_give_the_document_in_whatever_blocks_it_comes(text, letters, size):
    pieces = list(documents._cut([text], letters))
    assert "".join(piece.text for piece in pieces) == text
    assert [piece.ends for piece in pieces] == [False] * (len(pieces) - 1) + [True] * bool(pieces)
    assert list(documents._cut([text[at : at + size] for at in range(0, len(text), size)], letters)) == pieces
    place = 0
    for piece, following in pairwise(pieces):
        rest = text[place:]
        place += len(piece.text)
        assert letters <= len(piece.text) <= STRETCH * letters
        if not (piece.text.endswith("\n") and not following.text[0].isspace()):
            assert len(rest) > STRETCH * letters  # and no line begins in that stretch
            assert not LINE_CUTS[1].search(rest, letters - 1, STRETCH * letters + 1)


def test_pieces_are_cut_where_lines_begin_then_at_spaces_then_anywhere():
    def cut(text, letters=3):
        return [piece.text for piece in documents._cut([text], letters)]

    assert cut("ab\nc\nde f\nghi") == ["ab\n", "c\nde f\n", "ghi"]
    assert cut("abcd\n\ne\nfg") == ["abcd\n\ne\n", "fg"]  # the second line feed alone is better than the first two
    assert cut("abcd\n\n\nefg") == ["abcd\n\n\n", "efg"]
    assert cut("abcd\n\n efg") == ["abcd\n\n efg"]
    assert cut("ab cd  ef gh ij") == ["ab cd  ef", " gh ij"]
    assert cut("abcd fghijk\nmnop") == ["abcd fghijk\n", "mnop"]  # the last place that the stretch has
    assert cut("abcdefghijklmnop") == ["abcdefghijkl", "mnop"]
    assert list(documents._cut(["abcd fghi", "jkl"], 3)) == [Piece("abcd fghijkl", True)]


@pytest.mark.parametrize("split", SPLITS.values(), ids=SPLITS)
@pytest.mark.parametrize("cut", [LINE_CUTS[0], SPACE_CUT])
@given(text=TEXT.map(lambda text: text.replace("\r\n", "\n")))
def test_a_cut_does_not_change_how_tokenizers_split(split, cut, text):
    def parts(text):
        return [part for part, _ in split.pre_tokenize_str(text)]

    for place in (found.end() for found in cut.finditer(text)):
        assert parts(text[:place]) + parts(text[place:]) == parts(text)


def test_and_that_test_can_tell():
    for split, text in (("gpt2", "a\n\nb"), ("gpt4", "a.\n/b")):
        parts = [part for part, _ in SPLITS[split].pre_tokenize_str(text)]
        place = text.rindex("\n") + 1
        cut = [part for half in (text[:place], text[place:]) for part, _ in SPLITS[split].pre_tokenize_str(half)]
        assert cut != parts
        assert not LINE_CUTS[0].search(text)


def test_a_long_file_comes_in_pieces(tmp_path):
    text = "".join(f"line {number}\n" for number in range(5000))
    pieces = list(read_documents([written(tmp_path / "long.txt", text)], piece_letters=1000))
    assert whole(pieces) == [text]
    assert len(pieces) > 40
    assert all(1000 <= len(piece.text) < 1010 for piece in pieces[:-1])


def test_leading_whitespace_is_kept_however_long(tmp_path):
    text = " " * 50 + "a"
    assert whole(read_documents([written(tmp_path / "a.txt", text)], piece_letters=3)) == [text]


@pytest.mark.parametrize("suffix", ["", ".gz", ".xz"])
def test_every_json_line_is_a_document(tmp_path, suffix):
    texts = ["one\r\n", " ", "", "two\nlines\nmore\u2028", "\ud800"]
    lines = "".join(json.dumps({"text": text, "meta": {"title": text * 2}}) + "\n" for text in texts)
    path = written(tmp_path / f"a.jsonl{suffix}", lines + "\n \n")
    kept = [text for text in texts if text.strip()]
    assert whole(read_documents([path])) == kept
    assert whole(read_documents([path], piece_letters=2)) == kept
    assert whole(read_documents([path], "meta.title")) == [text * 2 for text in kept]
    assert list(read_documents([path], piece_letters=4))[1:3] == [Piece("two\n", False), Piece("lines\n", False)]


def test_bad_json_is_an_error_with_file_and_line(tmp_path):
    path = written(tmp_path / "a.jsonl", '{"text": "a"}\n\n{"text": 3}\n')
    with pytest.raises(DataError, match=r"a\.jsonl, line 3: field 'text' is int"):
        list(read_documents([path]))
    with pytest.raises(DataError, match=r"a\.jsonl, line 1: no field 'body'; its fields are text"):
        list(read_documents([path], "body"))
    with pytest.raises(DataError, match=r"b\.jsonl, line 1: not JSON"):
        list(read_documents([written(tmp_path / "b.jsonl", "text\n")]))


@pytest.mark.parametrize(
    ("content", "byte"),
    [(b"f\xfcr", 2), (b"\xef\xbb\xbff\xfcr", 5), (b"12345\xf0\x9f\x98", 6), (b"\xf0\x9f\x98x", 1), (b"\xff\xfea", 1)],
)
def test_bytes_that_are_not_utf8_are_an_error_with_file_and_byte(tmp_path, blocks, content, byte):
    with pytest.raises(DataError, match=rf"a\.txt: byte {byte} is not UTF-8"):
        list(read_documents([written(tmp_path / "a.txt", content)]))


def test_binary_data_is_an_error(tmp_path, blocks):
    with pytest.raises(DataError, match=r"a\.txt holds binary data, not text \(byte 6 is zero\)"):
        list(read_documents([written(tmp_path / "a.txt", b"\xef\xbb\xbfab\0c")]))


def test_files_that_cannot_be_read_are_errors(tmp_path):
    for name, content in (("cut.gz", b"some text\n"), ("cut.jsonl.gz", b'{"text": "a"}\n')):
        (tmp_path / name).write_bytes(gzip.compress(content * 1000)[:-20])
    for name in ("cut.gz", "cut.jsonl.gz", "."):
        with pytest.raises(DataError, match="cannot be read after"):
            list(read_documents([tmp_path / name]))
    with pytest.raises(DataError, match="missing is not there"):
        read_documents([tmp_path / "missing"])


def test_files_without_text_are_an_error_only_together(tmp_path):
    empty = [written(tmp_path / name, content) for name, content in zip("abcde", ("", "\ufeff", " ", "\n", ""))]
    with pytest.raises(DataError, match=r"no text in \S+/a, \S+/b, \S+/c and 2 more; name files"):
        list(read_documents(empty))
    with pytest.raises(DataError, match=r"no text in \S+/a; name files"):
        list(read_documents(empty[:1]))
    assert whole(read_documents([*empty, written(tmp_path / "f", "text")])) == ["text"]


def test_names_of_files_folders_and_patterns(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    texts = ["b.txt", "a.md.gz", "deep/er/c.jsonl.xz", "deep/d.text"]
    others = ["code.py", "deep/x.txt.zip", ".git/e.txt", "deep/._d.text", "odd[1].log"]
    for name in texts + others:
        written(tmp_path / "in" / name, "text")

    def found(*names):
        return [path.as_posix().removeprefix("in/") for path in find_texts(names)]

    assert found("in") == ["a.md.gz", "b.txt", "deep/d.text", "deep/er/c.jsonl.xz"]
    assert found("in/*.txt", "in/code.py") == ["b.txt", "code.py"]
    assert found("in/**/*.t*xt", "in") == ["b.txt", "deep/d.text", "a.md.gz", "deep/er/c.jsonl.xz"]
    assert found("in/b.txt", "in/./b.txt", str(tmp_path / "in" / "b.txt")) == ["b.txt"]
    assert found("in/odd[1].log") == ["odd[1].log"]
    written(tmp_path / "odd[2]" / "f.txt", "text")
    assert found("odd[2]") == ["odd[2]/f.txt"]
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match=r"the folder empty holds no file that ends in \.txt, \.md"):
        find_texts(["in", "empty"])
    for name in ("in/nothing", "in/*.csv", "in/d*"):
        with pytest.raises(DataError, match="is not there, neither as a file or folder nor as a pattern"):
            find_texts([name])


@pytest.mark.parametrize("line", ["word " * 10, "漢" * 50, "short\n" * 8], ids=["spaces", "neither", "lines"])
def test_text_larger_than_memory_is_read_in_little(tmp_path, line):
    path = written(tmp_path / "large.txt.gz", line * 200_000)
    tracemalloc.start()
    try:
        assert sum(len(piece.text) for piece in read_documents([path], piece_letters=10_000)) == len(line) * 200_000
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 8 * documents.BLOCK_BYTES < len(line) * 200_000
