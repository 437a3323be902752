import pytest
from helpers import written

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


def test_universal_dependencies_are_read_by_their_columns(tmp_path):
    path = written(tmp_path / "a.conllu", CONLL_U)
    assert read_columns(path, ("2", "3")) == [
        TaggedSentence(("zu", "dem", "Haus"), ("ADP", "DET", "NOUN"), 5),
        TaggedSentence(("#", "5"), ("SYM", "NUM"), 11),
    ]
    with pytest.raises(DataError, match=r"only numbers the words .*--columns"):
        read_columns(path)


SOURCE = "#\thttp://a.b\t[2009]\n1\tSchartau\tB-PER\tO\n2\tsagte\tO\tO\n"
NUMBERS = "1\tCD\tO\n1-2\tCD\tB\n\n3.5\tCD\tO\n"
SIGNS = "# text = a b c\n#{0}#{0}B-NP\n750{0}CD{0}I-NP\n\n# id 1\nand{0}CC{0}O\n#{0}#{0}B-NP\n"


@pytest.mark.parametrize(
    ("text", "columns", "words"),
    [
        pytest.param("a O\n-DOCSTART- O\nb O\n", (), [("a",), ("b",)], id="a document ends the sentence before it"),
        pytest.param(
            "10\u00a0000 O\nNew York\tB-LOC\n\u00a0 O\n", (), [("10\u00a0000", "New York", "\u00a0")], id="spaces"
        ),
        pytest.param(NUMBERS, (), [("1", "1-2"), ("3.5",)], id="words that look like numbering"),
        pytest.param(NUMBERS, ("1", "3"), [("1", "1-2"), ("3.5",)], id="the same by their columns"),
        pytest.param("1 O\n\n1 B\n", (), [("1",), ("1",)], id="the same, one a sentence"),
        pytest.param("x\t1-2\tO\n7-8\tb\tO\n", ("2", "3"), [("1-2", "b")], id="the same in another column"),
        pytest.param(SIGNS.format("\t"), (), [("#", "750"), ("and", "#")], id="a number sign with a label is a word"),
        # Only tabs tell "# id 1" from a word with two cells.
        pytest.param(SIGNS.format(" "), (), [("#", "750"), ("#", "and", "#")], id="a number sign among spaces"),
        pytest.param("# text = 5\n# # B-NP O\n5 CD I-NP O\n# = SYM O\n", (), [("#", "5", "#")], id="an assignment"),
        pytest.param(SOURCE, ("2", "3"), [("Schartau", "sagte")], id="a source behind a number sign is a comment"),
        pytest.param("x a O\nx b O\n\nx c O (V*)\n", ("2", "3"), [("a", "b"), ("c",)], id="more columns, numbered"),
    ],
)
def test_what_is_a_word_and_what_is_none(tmp_path, text, columns, words):
    assert [each.words for each in read_columns(written(tmp_path / "a.txt", text), columns)] == words


@pytest.mark.parametrize(
    ("text", "columns", "said"),
    [
        ("a X O\nb O\n", (), "a.txt, line 2: 2 columns where the other lines have 3"),
        ("a X O\nb O\n", ("1", "2"), "a.txt, line 2: 2 columns where the other lines have 3"),
        ("a X O\nb X Y O\n", (), "a.txt, line 2: 4 columns where the other lines have 3"),
        ("x a O\nx b O\n\nx c O (V*)\n", (), "a.txt, line 4: 4 columns where the other lines have 3"),
        ("a X O\n# Y\n", (), "a.txt, line 2: 2 columns"),
        ("a X O\n", ("1", "4"), "a.txt, line 1: 3 columns, but column 4 is asked for"),
        ("\na\nb\n", (), "a.txt, line 2: 1 column,"),
        ("a O\n\nb\n", (), "a.txt, line 3: 1 column,"),
        ("a\tO\nb\t\n", (), "a.txt, line 2: the label is empty"),
        ("a\tO\n\tO\n", (), "a.txt, line 2: the word is empty"),
        (b"a O\ncaf\xe9 O\n", (), "line 2: byte 4 is not UTF-8"),
        *((text, (), "holds no sentence") for text in ("", "\n\n", "-DOCSTART- O\n\n", "# text = a\n")),
    ],
)
def test_what_cannot_be_used_is_refused_with_its_line(tmp_path, text, columns, said):
    with pytest.raises(DataError, match=said):
        read_columns(written(tmp_path / "a.txt", text), columns)
    with pytest.raises(DataError, match="not there"):
        read_columns(tmp_path / "missing", columns)


@pytest.mark.parametrize("columns", [("1",), ("1", "2", "3"), ("0", "1"), ("word", "label"), ("2", "2"), ("-1", "2")])
def test_columns_are_two_numbers(tmp_path, columns):
    with pytest.raises(ConfigError, match="two numbers from 1"):
        read_columns(written(tmp_path / "a.txt", "a X O\n"), columns)
