import xml.etree.ElementTree as ElementTree
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manyheads.data.trees import Tree, Word, constituents
from manyheads.look.trees import drawn, svg

SVG = "{http://www.w3.org/2000/svg}"
PICTURE = """\
              TOP
               │
               S
   ┌──────────┬┴───────────┐
   NP         VP           │
 ┌─┴─┐    ┌───┴────┐       │
 │   │    │        PP      │
 │   │    │     ┌──┴──┐    │
 │   │    │     │     NP   │
 │   │    │     │   ┌─┴─┐  │
 DT  NN  VBD    IN  DT  NN .
The cat danced with a  dog ."""


def danced() -> Tree:
    dog = Tree("NP", (Word("DT", "a"), Word("NN", "dog")))
    verb = Tree("VP", (Word("VBD", "danced"), Tree("PP", (Word("IN", "with"), dog))))
    noun = Tree("NP", (Word("DT", "The"), Word("NN", "cat")))
    return Tree("TOP", (Tree("S", (noun, verb, Word(".", "."))),))


words = st.builds(Word, st.sampled_from(["NN", "-LRB-", "."]), st.sampled_from(["a", "cat", "nonexecutive", "<&>"]))
nodes = st.recursive(
    words,
    lambda below: st.builds(Tree, st.sampled_from(["S", "WHADVP"]), st.lists(below, min_size=1, max_size=4).map(tuple)),
    max_leaves=15,
)
trees = st.lists(nodes, min_size=1, max_size=4).map(lambda children: Tree("TOP", tuple(children)))


def test_a_tree_in_letters_looks_as_it_is_drawn_by_hand():
    assert drawn(danced()) == PICTURE


def test_a_label_wider_than_its_word_has_its_place_and_a_third_child_is_right_below():
    tree = Tree("TOP", (Tree("ADJP", (Word("JJ", "a"),)), Word("X", "b"), Tree("WHADVP", (Word("W", "c"),))))
    assert drawn(tree) == "\n".join(
        [
            "    TOP",
            " ┌───┼───┐",
            "ADJP │ WHADVP",
            " │   │   │",
            " JJ  X   W",
            " a   b   c",
        ]
    )
    beside = drawn(Tree("S", (Word("A", "a"), Word("B", "b"), Word("C", "cats"))))
    assert beside.splitlines() == ["  S", "┌─┼──┐", "A B  C", "a b cats"]


@given(trees)
def test_the_words_are_in_a_row_below_their_tags_and_every_label_is_there(tree):
    *above, tags, row = drawn(tree).splitlines()
    assert row.split() == [word.text for word in tree.words]
    assert tags.split() == [word.tag for word in tree.words]
    letters = " ".join(above)
    for line in "│┌┐┴┬─┼":
        letters = letters.replace(line, " ")
    assert sorted(letters.split()) == sorted(span.label for span in constituents(tree))


@given(trees)
def test_every_line_begins_and_ends_at_something(tree):
    rows = drawn(tree).splitlines()
    wide = max(map(len, rows))
    rows = [row.ljust(wide) for row in rows]
    down, up = "│┌┐┬┼", "│┴┼"
    for above, below in pairwise(rows):
        assert all(other != " " for letter, other in zip(above, below) if letter in down)
        assert all(other != " " for letter, other in zip(above, below) if other in up)


def test_a_drawing_is_as_wide_as_the_words():
    sentence = ["The", "quick", "brown", "fox", "jumps", "over", "two", "lazy", "dogs", "today"]
    tree = Tree("TOP", (Tree("S", tuple(Tree("NP", (Word("NN", word),)) for word in sentence)),))
    assert max(map(len, drawn(tree).splitlines())) == len(" ".join(sentence))


@given(trees)
def test_an_svg_holds_all_words_tags_and_labels(tree):
    picture = ElementTree.fromstring(svg(tree))
    texts = [text.text for text in picture.iter(f"{SVG}text")]
    words = [part for word in tree.words for part in word]
    assert sorted(texts) == sorted([*words, *(span.label for span in constituents(tree))])
    assert len(list(picture.iter(f"{SVG}polyline"))) == len(tree.words) + len(constituents(tree)) - 1
    wide, high = float(picture.get("width", 0)), float(picture.get("height", 0))
    for text in picture.iter(f"{SVG}text"):
        assert 0 < float(text.get("x", 0)) < wide
        assert 0 < float(text.get("y", 0)) < high
    background = picture.find(f"{SVG}rect")
    assert background is not None
    assert (background.get("fill"), background.get("width")) == ("#ffffff", picture.get("width"))


def test_an_svg_needs_nothing_else_and_runs_nothing():
    tree = Tree("TOP", (Word("<b>", '<script>alert("&")</script>'),))
    picture = svg(tree)
    assert "<script" not in picture
    assert "<b>" not in picture
    assert "href" not in picture
    assert picture.count("http") == 1  # the name of the format
    assert ElementTree.fromstring(picture).findtext(f"{SVG}title") == '<script>alert("&")</script>'


@pytest.mark.parametrize("picture", [drawn, svg])
def test_what_cannot_be_seen_is_written_out(picture):
    found = picture(Tree("TOP", (Word("NN", "a\nb\x00"),)))
    assert r"a\nb\x00" in found


def test_wide_letters_have_more_room_in_an_svg():
    def width(text: str) -> float:
        return float(ElementTree.fromstring(svg(Tree("TOP", (Word("N", text),)))).get("width", 0))

    assert width("猫猫猫猫") > width("cats")


def test_wide_letters_and_marks_over_letters_keep_their_columns():
    tree = Tree("TOP", (Word("NN", "日本"), Word("JJ", "e\u0301te\u0301"), Word(".", ".")))
    *_, tags, words = drawn(tree).splitlines()
    assert words == "日本 e\u0301te\u0301 ."
    assert tags == " NN   JJ ."  # over the columns that a terminal shows


def test_an_svg_is_xml_whatever_the_word():
    ElementTree.fromstring(svg(Tree("TOP", (Word("NN", "a\ufffeb\uffff"),))))


def test_nothing_is_too_deep():
    tree = Tree("X", (Word("NN", "cat"),))
    for _ in range(2_000):
        tree = Tree("X", (tree,))
    assert len(drawn(tree).splitlines()) == 2 * 2_001 + 2
    assert svg(tree).count("<polyline") == 2_001
