import pytest
from helpers import written
from hypothesis import given
from hypothesis import strategies as st

from manyheads.core.errors import DataError
from manyheads.data.readers.trees import Bracketed, read_trees
from manyheads.data.trees import Tree, Word

PENN = """\
( (S
    (NP-SBJ-1 (DT The) (NN cat) )
    (VP (VBD danced)
      (S (NP-SBJ (-NONE- *-1) ) )))
  )

((FRAG (UH Yes))) (NP (NN dog))
(S1 (X (-NONE- *)))
(CD 7)
"""
CLEAN = [
    (1, "(TOP (S (NP (DT The) (NN cat)) (VP (VBD danced))))"),
    (7, "(TOP (FRAG (UH Yes)))"),
    (7, "(TOP (NP (NN dog)))"),
    (9, "(TOP (CD 7))"),
]


@pytest.mark.parametrize("name", ["a.mrg", "a.txt", "a.mrg.gz", "a.xz"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_trees_span_lines_or_share_one_and_are_cleaned(tmp_path, name, end):
    found = read_trees(written(tmp_path / name, PENN.replace("\n", end)))
    assert [(each.line, str(each.tree)) for each in found] == CLEAN


def test_a_folder_is_read_as_one_file_in_the_order_of_its_names(tmp_path):
    for name, word in (("b.mrg", "second"), ("a.mrg", "first"), ("c/a.mrg", "third"), ("a.txt", "no"), ("d.mrg", None)):
        written(tmp_path / name, f"\n(NN {word})" if word else "")
    assert read_trees(tmp_path) == [
        Bracketed(2, Tree("TOP", (Word("NN", word),))) for word in ("first", "second", "third")
    ]


def test_other_spaces_of_unicode_are_letters(tmp_path):
    path = written(tmp_path / "a", "(NP\t(CD 10\u00a0000)\n(NN Hund\u2028e))")
    assert [word.text for word in read_trees(path)[0].tree.words] == ["10\u00a0000", "Hund\u2028e"]


texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="() \t\n\r\f\v"), min_size=1, max_size=4)
tags = st.sampled_from(["NN", "-LRB-", ",", "PRP$"])
nodes = st.recursive(
    st.builds(Word, tags, texts),
    lambda below: st.builds(Tree, st.sampled_from(["S", "NP"]), st.lists(below, min_size=1, max_size=3).map(tuple)),
    max_leaves=12,
)


@given(st.lists(st.builds(Tree, st.just("TOP"), st.lists(nodes, min_size=1, max_size=3).map(tuple)), min_size=1))
def test_what_is_written_is_read_again(tmp_path_factory, trees):
    path = written(tmp_path_factory.mktemp("trees") / "a.mrg", "\n".join(map(str, trees)))
    assert read_trees(path) == [Bracketed(line, tree) for line, tree in enumerate(trees, start=1)]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param("(NN a)\n(S (NP\n(NN b)", "line 2: the tree .* never closes; 2 closing brackets more", id="open"),
        pytest.param("(NN a)\n(NN b", "line 2: the tree .* never closes; 1 closing bracket more", id="open word"),
        pytest.param("(NN a)\n(NN b))", "line 2: a closing bracket too many; remove it", id="one too many"),
        pytest.param("(NN a)\n\nb (NN c)", "line 3: 'b' is outside of all brackets; write each tree as", id="outside"),
        pytest.param("(S (NN a)\n(NP ))", r"line 2: \(NP\) holds nothing; write a word as", id="no children"),
        pytest.param("(NN a)\n()", r"line 2: \(\) holds nothing", id="nothing"),
        pytest.param("(NN two words)", "line 1: 'two' shares the brackets of NN; give each word a tag", id="two words"),
        pytest.param("\n(NP the (NN cat))", "line 2: 'the' shares the brackets of NP", id="a word before"),
        pytest.param("(NP (DT the)\ncat)", "line 1: 'cat' shares the brackets of NP", id="a word after"),
        pytest.param("((DT the) cat)", "line 1: 'cat' shares the brackets of a constituent", id="no label either"),
        pytest.param("(S\n((NN a)))", "line 2: a constituent has no label; only the outermost", id="no label"),
        pytest.param("(S+VP (NN a))", r"line 1: the label S\+VP has a \+, which joins labels here", id="plus"),
        pytest.param("", "holds no tree with a word in it; give a file of trees such as", id="empty"),
        pytest.param("( (S (-NONE- *)))", "holds no tree with a word", id="traces alone"),
    ],
)
def test_brackets_that_are_no_tree_are_refused_at_their_line(tmp_path, text, said):
    path = written(tmp_path / "a.mrg", text)
    with pytest.raises(DataError, match=said) as error:
        read_trees(path)
    assert str(path) in str(error.value)


def test_a_label_may_have_a_plus_in_what_is_cut_off(tmp_path):
    assert str(read_trees(written(tmp_path / "a", "(NP-A+B (NN c))"))[0].tree) == "(TOP (NP (NN c)))"


def test_what_is_not_there_is_refused(tmp_path):
    with pytest.raises(DataError, match="x is not there; check the path"):
        read_trees(tmp_path / "x")
    with pytest.raises(DataError, match=r"a folder without a file whose name ends in \.mrg"):
        read_trees(tmp_path)


def test_nothing_is_too_deep(tmp_path):
    levels = 2_000
    path = written(tmp_path / "a.mrg", "(X " * levels + "(NN a)" + " (. .))" * levels)
    (found,) = read_trees(path)
    assert len(found.tree.words) == levels + 1
    assert str(found.tree).count("(X") == levels
