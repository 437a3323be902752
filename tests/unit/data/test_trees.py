from zipfile import ZipFile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manyheads.data.readers.trees import read_trees
from manyheads.data.trees import Span, Tree, Word, bare, cleaned, constituents, spans, tree_of

DANCED = "(TOP (S (NP (DT The) (NN cat)) (VP (VBD danced)) (. .)))"
THE, CAT, VERB, DOT = Word("DT", "The"), Word("NN", "cat"), Word("VBD", "danced"), Word(".", ".")


def danced() -> Tree:
    noun, verb = Tree("NP", (THE, CAT)), Tree("VP", (VERB,))
    return Tree("TOP", (Tree("S", (noun, verb, DOT)),))


def deep(levels: int) -> Tree:
    tree = Tree("X", (CAT,))
    for level in range(levels):
        tree = Tree("XY"[level % 2], (tree, DOT) if level % 3 else (tree,))
    return Tree("TOP", (tree,))


words = st.builds(Word, st.sampled_from(["NN", "DT", ","]), st.sampled_from(["a", "b", "-LRB-"]))
nodes = st.recursive(
    words,
    lambda below: st.builds(
        Tree, st.sampled_from(["S", "NP", "VP"]), st.lists(below, min_size=1, max_size=4).map(tuple)
    ),
    max_leaves=25,
)
trees = st.builds(Tree, st.just("TOP"), st.lists(nodes, min_size=1, max_size=4).map(tuple))


def test_a_tree_has_words_and_one_line_of_brackets():
    assert danced().words == (THE, CAT, VERB, DOT)
    assert str(danced()) == DANCED
    assert str(Tree("NP", (Word("-LRB-", "("), Word("NN", ":)")))) == "(NP (-LRB- -LRB-) (NN :-RRB-))"


def test_spans_are_from_left_to_right_the_longest_first_with_chains_as_one():
    assert spans(danced()) == [Span(0, 4, "S"), Span(0, 2, "NP"), Span(2, 3, "VP")]
    chain = Tree("TOP", (Tree("S", (Tree("VP", (Tree("VP", (VERB, DOT)),)),)),))
    assert spans(chain) == [Span(0, 2, "S+VP+VP")]
    assert constituents(chain) == [Span(0, 2, label) for label in ("TOP", "S", "VP", "VP")]
    assert spans(Tree("TOP", (CAT,))) == []


@given(trees)
def test_spans_say_all_about_a_tree(tree):
    told = spans(tree)
    assert told == sorted(told, key=lambda span: (span.first, -span.behind))
    assert len({span[:2] for span in told}) == len(told)
    assert tree_of(tree.words, reversed(told)) == tree
    if told:
        assert tree_of(tree.words, told[1:]) != tree  # and the comparison can tell


@given(trees, trees)
def test_trees_are_equal_when_their_brackets_are(one, other):
    assert (one == other) == (str(one) == str(other))
    assert one != other or hash(one) == hash(other)
    assert one != str(one)


@pytest.mark.parametrize(
    ("told", "said"),
    [
        pytest.param(
            [(0, 2, "NP"), (1, 3, "VP")], "VP over the words 2 to 3 crosses NP over the words 1 to 2", id="cross"
        ),
        pytest.param([(0, 2, "NP"), (0, 2, "VP")], r"has the words of NP over the words 1 to 2; join", id="same words"),
        pytest.param([(0, 5, "S")], "S over the words 1 to 5 is not within the words 1 to 4", id="too long"),
        pytest.param([(-1, 2, "S")], "is not within", id="before the first"),
        pytest.param([(2, 2, "S")], "is not within", id="without words"),
        pytest.param([(0, 2, "")], "a constituent over the words 1 to 2 has an empty label", id="no label"),
        pytest.param([(0, 2, "S+")], "has an empty label", id="half a chain"),
    ],
)
def test_spans_of_no_tree_are_refused(told, said):
    with pytest.raises(ValueError, match=said):
        tree_of(danced().words, [Span(*span) for span in told])


def test_a_tree_without_words_is_refused():
    with pytest.raises(ValueError, match="a tree needs a word"):
        tree_of([], [])


@pytest.mark.parametrize(
    ("label", "said"),
    [
        ("NP-SBJ-1", "NP"),
        ("NP=2", "NP"),
        ("ADVP|PRT", "ADVP"),
        ("PP-LOC=1", "PP"),
        ("-LRB-", "-LRB-"),
        ("-NONE-", "-NONE-"),
        ("S", "S"),
        ("", ""),
    ],
)
def test_a_bare_label_is_the_category(label, said):
    assert bare(label) == said


@pytest.mark.parametrize("root", ["", "TOP", "ROOT", "S1", "ROOT-1"])
def test_a_root_is_called_top(root):
    assert cleaned(Tree(root, danced().children)) == danced()


def test_another_root_gets_one_above():
    assert cleaned(Tree("S-1", danced().children)) == Tree("TOP", (Tree("S", danced().children),))


def test_traces_and_what_holds_nothing_else_are_dropped_and_tags_are_kept():
    trace = Tree("NP-SBJ", (Tree("NP", (Word("-NONE-", "*-1"),)),))
    kept = Tree("NP-TMP", (Word("PRP$", "its"), Word("JJ|VBG", "-NONE-"), Word("-LRB-", "-LRB-")))
    assert cleaned(Tree("", (Tree("S", (trace, kept)),))) == Tree("TOP", (Tree("S", (Tree("NP", kept.children),)),))
    assert cleaned(Tree("", (Tree("S", (trace, trace)),))) is None


@given(trees)
def test_a_clean_tree_stays_as_it_is(tree):
    assert cleaned(tree) == tree


def test_nothing_is_too_deep():
    tree = deep(2_000)
    assert len(tree.words) == 1 + 1_333
    assert tree_of(tree.words, spans(tree)) == tree == cleaned(tree)
    assert str(tree).count("(") == 2_002 + 1_334
    assert len({tree, deep(2_000), deep(1_999)}) == 2


def test_a_long_sentence_is_a_tree_too():
    tree = Tree("TOP", (Tree("S", tuple(Tree("NP", (THE, CAT)) for _ in range(10_000))),))
    assert tree_of(tree.words, spans(tree)) == tree


def test_every_tree_of_the_treebank_is_its_words_and_spans(data_set, tmp_path):
    with ZipFile(data_set("treebank") / "treebank.zip") as packed:
        packed.extractall(tmp_path, [name for name in packed.namelist() if name.endswith(".mrg")])
    found = [each.tree for each in read_trees(tmp_path)]
    assert (len(found), sum(len(tree.words) for tree in found)) == (3_914, 94_084)
    assert all(tree_of(tree.words, spans(tree)) == tree for tree in found)
    assert len({span.label for tree in found for span in constituents(tree)[1:]}) == 26
    assert len({span.label for tree in found for span in spans(tree)}) == 59
