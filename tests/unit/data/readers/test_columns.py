import gzip
import lzma
from pathlib import Path

import pytest

from manyheads.core.errors import ConfigError, DataError
from manyheads.data.readers.columns import TaggedSentence, read_columns

CONLL_U = """\
# newpar
# sent_id = 1
# text = Zum Haus. # nicht
1-2\tZum\t_\t_
1\tzu\tADP\tcase
2\tdem\tDET\tdet
3\tHaus\tNOUN\troot
3.1\tist\tAUX\t_

# text = # 5
1\t#\tSYM\tpunct
2\t5\tNUM\troot
"""


def written(path: Path, content: str | bytes) -> Path:
    opened = {".gz": gzip.open, ".xz": lzma.open}.get(path.suffix, open)
    with opened(path, "wb") as file:
        file.write(content.encode() if isinstance(content, str) else content)
    return path


@pytest.mark.parametrize("name", ["a.txt", "a.conll.gz", "a.xz"])
@pytest.mark.parametrize("between", ["\t", " ", "   "])
def test_the_word_is_first_and_the_label_last(tmp_path, name, between):
    lines = ["-DOCSTART- -X- -X- O", "", "EU NNP I-NP B-ORG", "rejects VBZ I-VP O", "", "", "Peter NNP I-NP B-PER"]
    path = written(tmp_path / name, "\r\n".join(line.replace(" ", between) for line in lines))
    assert read_columns(path) == [
        TaggedSentence(("EU", "rejects"), ("B-ORG", "O"), 3),
        TaggedSentence(("Peter",), ("B-PER",), 7),
    ]
    assert [each.labels for each in read_columns(path, ("1", "2"))] == [("NNP", "VBZ"), ("NNP",)]


def test_a_document_ends_the_sentence_before_it(tmp_path):
    path = written(tmp_path / "a.txt", "a O\n-DOCSTART- O\nb O\n")
    assert [each.words for each in read_columns(path)] == [("a",), ("b",)]


def test_spaces_that_are_no_separators_stay_in_their_word(tmp_path):
    path = written(tmp_path / "a.txt", "10\u00a0000 O\nNew York\tB-LOC\n\u00a0 O\n")
    assert read_columns(path)[0].words == ("10\u00a0000", "New York", "\u00a0")


def test_universal_dependencies_are_read_by_their_columns(tmp_path):
    path = written(tmp_path / "a.conllu", CONLL_U)
    assert read_columns(path, ("2", "3")) == [
        TaggedSentence(("zu", "dem", "Haus"), ("ADP", "DET", "NOUN"), 5),
        TaggedSentence(("#", "5"), ("SYM", "NUM"), 11),
    ]
    with pytest.raises(DataError, match=r"only numbers the words .*--columns"):
        read_columns(path)


def test_words_that_look_like_numbering_are_kept(tmp_path):
    path = written(tmp_path / "a.txt", "1\tCD\tO\n1-2\tCD\tB\n\n3.5\tCD\tO\n")
    for columns in ((), ("1", "3")):
        assert [each.words for each in read_columns(path, columns)] == [("1", "1-2"), ("3.5",)]
    assert read_columns(written(tmp_path / "c.txt", "1 O\n\n1 B\n"))[0].words == ("1",)
    path = written(tmp_path / "b.txt", "x\t1-2\tO\n7-8\tb\tO\n")
    assert read_columns(path, ("2", "3"))[0].words == ("1-2", "b")


@pytest.mark.parametrize("between", [" ", "\t"])
def test_a_number_sign_with_a_label_is_a_word(tmp_path, between):
    text = "# text = a b c\n# # B-NP\n750 CD I-NP\n\n# id 1\nand CC O\n# # B-NP\n"
    words = [("#", "750"), ("and", "#")] if between == "\t" else [("#", "750"), ("#", "and", "#")]
    lines = [line if "=" in line or "id" in line else line.replace(" ", between) for line in text.split("\n")]
    path = written(tmp_path / "a.txt", "\n".join(lines))
    assert [each.words for each in read_columns(path)] == words  # only tabs tell "# id 1" from a word with two cells


def test_an_assignment_behind_a_number_sign_is_a_comment_before_a_sentence(tmp_path):
    path = written(tmp_path / "a.txt", "# text = 5\n# # B-NP O\n5 CD I-NP O\n# = SYM O\n")
    assert read_columns(path)[0].words == ("#", "5", "#")


def test_a_source_behind_a_number_sign_is_a_comment(tmp_path):
    path = written(tmp_path / "a.tsv", "#\thttp://a.b\t[2009]\n1\tSchartau\tB-PER\tO\n2\tsagte\tO\tO\n")
    assert read_columns(path, ("2", "3")) == [TaggedSentence(("Schartau", "sagte"), ("B-PER", "O"), 2)]


def test_the_number_of_columns_may_change_from_sentence_to_sentence_where_they_are_numbered(tmp_path):
    path = written(tmp_path / "a.txt", "x a O\nx b O\n\nx c O (V*)\n")
    assert [each.words for each in read_columns(path, ("2", "3"))] == [("a", "b"), ("c",)]
    with pytest.raises(DataError, match=r"a\.txt, line 4: 4 columns where the other lines have 3"):
        read_columns(path)


@pytest.mark.parametrize(
    ("text", "columns", "said"),
    [
        ("a X O\nb O\n", (), "line 2: 2 columns where the other lines have 3"),
        ("a X O\nb O\n", ("1", "2"), "line 2: 2 columns where the other lines have 3"),
        ("a X O\nb X Y O\n", (), "line 2: 4 columns where the other lines have 3"),
        ("a X O\n# Y\n", (), "line 2: 2 columns"),
        ("a X O\n", ("1", "4"), "line 1: 3 columns, but column 4 is asked for"),
        ("\na\nb\n", (), "line 2: 1 column,"),
        ("a O\n\nb\n", (), "line 3: 1 column,"),
        ("a\tO\nb\t\n", (), "line 2: the label is empty"),
        ("a\tO\n\tO\n", (), "line 2: the word is empty"),
    ],
)
def test_a_line_that_cannot_be_used_is_refused_by_number(tmp_path, text, columns, said):
    with pytest.raises(DataError, match=rf"a\.txt, {said}"):
        read_columns(written(tmp_path / "a.txt", text), columns)


@pytest.mark.parametrize("text", ["", "\n\n", "-DOCSTART- O\n\n", "# text = a\n"])
def test_a_file_without_words_is_refused(tmp_path, text):
    with pytest.raises(DataError, match="holds no sentence"):
        read_columns(written(tmp_path / "a.txt", text))


def test_files_that_cannot_be_read_are_refused(tmp_path):
    with pytest.raises(DataError, match="not there"):
        read_columns(tmp_path / "missing")
    with pytest.raises(DataError, match="line 2: byte 4 is not UTF-8"):
        read_columns(written(tmp_path / "a.txt", b"a O\ncaf\xe9 O\n"))


@pytest.mark.parametrize("columns", [("1",), ("1", "2", "3"), ("0", "1"), ("word", "label"), ("2", "2"), ("-1", "2")])
def test_columns_are_two_numbers(tmp_path, columns):
    with pytest.raises(ConfigError, match="two numbers from 1"):
        read_columns(written(tmp_path / "a.txt", "a X O\n"), columns)
