"""Files of word vectors: what is read, what is refused with file and line, what is written."""

import gzip

import numpy as np
import pytest

from manyheads.core.errors import ConfigError, DataError
from manyheads.data.readers.vectors import BINARY, GLOVE, TEXT, layout_of, read_vectors, write_vectors

WORDS = ["the", "naïve", "\u2028", "a\u00a0b", "12", "κόσμος"]  # separators of Unicode are letters here


def matrix(rows: int = len(WORDS), width: int = 3) -> np.ndarray:
    return np.random.default_rng(1).normal(size=(rows, width)).astype(np.float32)


@pytest.mark.parametrize(
    ("name", "glove", "form"), [("a.txt", False, TEXT), ("a.bin", False, BINARY), ("a.txt", True, GLOVE)]
)
def test_what_is_written_reads_back_to_the_bit(tmp_path, name, glove, form):
    write_vectors(tmp_path / name, WORDS, matrix(), glove=glove)
    assert layout_of(tmp_path / name).form == form
    packed = tmp_path / f"{name}.gz"
    packed.write_bytes(gzip.compress((tmp_path / name).read_bytes()))
    for path in (tmp_path / name, packed):
        found = read_vectors(path)
        assert found.words == WORDS
        np.testing.assert_array_equal(found.matrix, matrix())
        some = read_vectors(path, {"12", "the", "absent"})
        assert some.words == ["the", "12"]
        np.testing.assert_array_equal(some.matrix, matrix()[[0, 4]])


def test_more_words_than_are_read_at_once(tmp_path):
    words, rows = [f"w{number}" for number in range(2500)], matrix(2500, 5)
    for name in ("a.txt", "a.bin"):
        write_vectors(tmp_path / name, words, rows)
        found = read_vectors(tmp_path / name)
        assert found.words == words
        np.testing.assert_array_equal(found.matrix, rows)
        assert read_vectors(tmp_path / name, {"w2499"}).matrix.tolist() == rows[-1:].tolist()


def written(tmp_path, content: bytes, name: str = "v.txt"):
    (tmp_path / name).write_bytes(content)
    return tmp_path / name


def test_ways_in_which_others_write(tmp_path):
    """The line feed of word2vec's own tool behind each vector, fastText's space, Windows' line ends, GloVe's words."""
    numbers = np.array([[1, 2], [3, 4]], "<f4")
    tool = b"2 2\n" + b"".join(word + b" " + row.tobytes() + b"\n" for word, row in zip((b"a", b"b"), numbers))
    for content in (
        tool,
        b"2 2\na 1 2 \nb 3 4 \n",
        b"2 2\r\na 1 2\r\nb 3e0 4.\r\n",
        b"a 1 2\nb 3 4",
        b"\xef\xbb\xbfa 1 2\nb 3 4\n",
    ):
        found = read_vectors(written(tmp_path, content))
        assert (found.words, found.matrix.tolist()) == (["a", "b"], numbers.tolist())
    assert read_vectors(written(tmp_path, b"a 1 2\n. . . 3 4\nat x@y.com 5 6\n")).words == ["a", ". . .", "at x@y.com"]


BAD = {
    b"": "v.txt, line 1: it is empty",
    b"words\n": "v.txt, line 1: b'words' is neither a header",
    b"0 3\n": "v.txt, line 1: the header says 0 words of 3 numbers",
    b"2 0\na\nb\n": "v.txt, line 1: the header says 2 words of 0 numbers",
    b"3 2\na 1 2\nb 3 4\n": "v.txt: the header says 3 words, but there are 2",
    b"1 2\na 1 2\nb 3 4\n": "v.txt: the header says 1 word, but there are 2",
    b"2 2\na 1 2\nb 3 4 5\n": "v.txt, line 3: 3 numbers where the header says 2",
    b"a 1 2\nb 3\n": "v.txt, line 2: 1 number where the first line has 2",
    b"a 1 2\nb 3 4 5\n": "v.txt, line 2: 3 numbers where the first line has 2",
    b"a 1 2\n\nb 3 4\n": "v.txt, line 2: 0 numbers where the first line has 2",
    b"a 1 2\n 3 4\n": "v.txt, line 2: there is no word",
    b"a 1 2\nb 3 x\n": "v.txt, line 2: 'x' is not a number",
    b"a 1 2\nb 3 4x\n": "v.txt, line 2: '4x' is not a number",
    b"a 1 2\nb 3  4\nc\td 5 6\n": "v.txt, line 2: 3 numbers where",
    b"a 1 2 3\nb 3  4\nc 5\t6 7 8\n": "v.txt, line 2: '' is not a number",
    b"a 1 2\nb 3 nan\n": "v.txt, line 2: a number is not finite",
    b"a 1 2\nb 3 1e99\n": "v.txt, line 2: a number is not finite",
    b"a 1 2\n\xff\xfe 3 4\n": "v.txt, line 2: the word '\ufffd\ufffd' is not UTF-8",
}


@pytest.mark.parametrize("content", BAD)
def test_what_is_wrong_is_said_with_file_and_line(tmp_path, content):
    with pytest.raises(DataError) as error:
        read_vectors(written(tmp_path, content))
    assert BAD[content] in str(error.value)


def test_a_binary_file_that_is_cut_off_or_goes_on(tmp_path):
    write_vectors(tmp_path / "a.bin", WORDS, matrix())
    whole = (tmp_path / "a.bin").read_bytes()
    for content, said in (
        (whole[:-1], "ends within word 6 of 6"),
        (whole[:20], "ends within word 2 of 6"),
        (whole + b"more", "goes on behind the 6 words of 3 numbers"),
        (whole[:-12] + np.float32([1, np.inf, 2]).tobytes(), "word 6: a number is not finite"),
        (b"1 2\n" + b"\1" * 20_000, "word 1: it has no end"),
    ):
        with pytest.raises(DataError, match=said):
            read_vectors(written(tmp_path, content, "b.bin"))
    packed = gzip.compress(whole)
    with pytest.raises(DataError, match=r"b\.bin\.gz cannot be read"):
        read_vectors(written(tmp_path, packed[:-10], "b.bin.gz"))
    with pytest.raises(DataError, match=r"none\.txt cannot be read"):
        read_vectors(tmp_path / "none.txt")


def test_the_first_of_equal_words_counts_and_that_is_said(tmp_path, capsys):
    found = read_vectors(written(tmp_path, b"a 1 2\nb 3 4\na 5 6\nb 7 8\n"))
    assert (found.words, found.matrix.tolist()) == (["a", "b"], [[1, 2], [3, 4]])
    assert "more than once: 2, as 'a' in line 3" in " ".join(capsys.readouterr().err.split())


def test_words_that_a_format_cannot_hold(tmp_path):
    for words in (["a b"], [""], ["a\nb"]):
        with pytest.raises(ConfigError, match="is not written"):
            write_vectors(tmp_path / "v.txt", words, matrix(1))
    write_vectors(tmp_path / "v.txt", ["a", "b c"], matrix(2), glove=True)
    assert read_vectors(tmp_path / "v.txt").words == ["a", "b c"]
    for name, glove in (("v.bin", True), ("v.npy", False)):
        with pytest.raises(ConfigError):
            write_vectors(tmp_path / name, ["a"], matrix(1), glove=glove)
