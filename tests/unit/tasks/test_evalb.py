from pathlib import Path

import pytest
from helpers import written
from hypothesis import given
from hypothesis import strategies as st

from manyheads.core.errors import DataError
from manyheads.data.readers.trees import read_trees
from manyheads.data.trees import Span, Tree, Word, tree_of
from manyheads.tasks.parse.evalb import ParseScores, by_length, evalb


@pytest.fixture
def tree(tmp_path: Path):
    return lambda text: read_trees(written(tmp_path / "a.mrg", text))[0].tree


def test_a_phrase_at_the_wrong_place_by_hand(tree):
    gold = tree("(S (NP (PRP I)) (VP (VBD saw) (NP (DT a) (NN dog)) (PP (IN with) (NP (PRP you)))) (. .))")
    found = tree("(S (NP (PRP I)) (VP (VBD saw) (NP (NP (DT a) (NN dog)) (PP (IN with) (NP (NN you))))) (. .))")
    # Words: I 0, saw 1, a 2, dog 3, with 4, you 5; the full stop does not count.
    # gold:  S 0-6, NP 0-1, VP 1-6, NP 2-4, PP 4-6, NP 5-6            6
    # found: S 0-6, NP 0-1, VP 1-6, NP 2-6, NP 2-4, PP 4-6, NP 5-6    7, of which all but NP 2-6 are in gold: 6
    assert evalb([gold], [found]) == ParseScores(
        precision=pytest.approx(100 * 6 / 7),
        recall=100.0,
        f1=pytest.approx(100 * 2 * 6 / 7 / (6 / 7 + 1)),
        exact=0.0,
        crossing=0.0,  # NP 2-6 is around NP 2-4 and PP 4-6, and in VP 1-6
        no_crossing=100.0,
        tagging=pytest.approx(100 * 6 / 7),  # you is NN; the full stop counts here
        sentences=1,
    )


def test_crossing_constituents_by_hand(tree):
    gold = [tree("(S (X (A a) (B b)) (Y (C c) (D d)))"), tree("(S (X (A a)))")]
    found = [tree("(S (A a) (Z (W (W (B b) (C c))) (D d)))"), tree("(S (X (A a)))")]
    # First, gold: S 0-4, X 0-2, Y 2-4; found: S 0-4, Z 1-4, W 1-3, W 1-3; S alone is right: 1 of 3 and 1 of 4.
    # Z 1-4 crosses X 0-2; each W crosses X 0-2 and Y 2-4 but counts once: 3.
    # Second: S and X, 2 of 2.  Together 3 of 5 in gold, 3 of 6 found, 3 crossing in 2 sentences, 1 sentence right.
    scores = evalb(gold, found)
    assert (scores.recall, scores.precision) == (pytest.approx(60.0), pytest.approx(50.0))
    assert scores.f1 == pytest.approx(2 * 50 * 60 / 110)
    assert (scores.crossing, scores.no_crossing, scores.exact) == (1.5, 50.0, 50.0)
    assert (scores.tagging, scores.sentences) == (100.0, 2)


def test_punctuation_in_gold_does_not_count_wherever_it_hangs(tree):
    gold = tree("(S (NP (NN a) (, ,)) (PRN (: --)) (VP (`` ``) (VB b)) ('' '') (. .))")
    found = tree("(S (NP (NN a)) (NN ,) (: --) (VP (`` ``) (VB b) ('' '') (. .)))")
    # Words that count: a 0, b 1.  Both: S 0-2, NP 0-1, VP 1-2; PRN has no word that counts.  The tag of , is wrong.
    scores = evalb([gold], [found])
    assert (scores.precision, scores.recall, scores.exact) == (100.0, 100.0, 100.0)
    assert scores.tagging == pytest.approx(100 * 6 / 7)
    # The other way round , counts, as its tag in gold is NN now: a 0, "," 1, b 2.
    # gold: S 0-3, NP 0-1, VP 2-3; found: S 0-3, NP 0-2, VP 2-3
    scores = evalb([found], [gold])
    assert (scores.precision, scores.recall) == (pytest.approx(200 / 3), pytest.approx(200 / 3))


def test_other_marks_count(tree):
    gold = tree("(S (NP (-LRB- -LRB-) (NN a)) (-RRB- -RRB-) ($ $))")
    assert evalb([gold], [tree("(S (-LRB- -LRB-) (NP (NN a)) (-RRB- -RRB-) ($ $))")]).recall == 50.0


def test_labels_equal_and_unequal(tree):
    gold = tree("(S (VP (VB go) (PRT (RP up))))")
    assert evalb([gold], [tree("(S (VP (VB go) (ADVP (RP up))))")]).exact == 100.0
    # gold: S, VP 0-2, ADVP 1-2; found: S, VP 0-2, NP 1-2
    assert evalb([gold], [tree("(S (VP (VB go) (NP (RP up))))")]).f1 == pytest.approx(200 / 3)


def test_each_label_of_a_chain_counts_as_often_as_it_is_there(tree):
    gold, found = tree("(S (VP (VP (VB go) (RB on))))"), tree("(S (S (VP (VB go) (RB on))))")
    # gold: S, VP, VP; found: S, S, VP, all 0-2: one S and one VP agree.  The root does not count.
    scores = evalb([gold], [found])
    assert (scores.precision, scores.recall, scores.exact) == (pytest.approx(200 / 3), pytest.approx(200 / 3), 0.0)
    # The order within a chain is not seen: S over VP and VP over S have the same constituents.
    assert evalb([tree("(S (VP (VB go)))")], [tree("(VP (S (VB go)))")]).exact == 100.0


def test_where_nothing_matches_or_nothing_counts_there_is_no_division_by_zero(tree):
    none = evalb([tree("(S (NN a))")], [tree("(NP (NN a))")])
    assert (none.precision, none.recall, none.f1, none.exact) == (0.0, 0.0, 0.0, 0.0)
    stop = evalb([tree("(S (. .))")], [tree("(X (. .))")])
    assert (stop.f1, stop.exact, stop.tagging) == (0.0, 100.0, 100.0)


def flat(words: int, label: str) -> Tree:
    return tree_of([Word("NN", "a")] * words, [Span(0, words, label)])


def test_scores_by_length_leave_out_lengths_that_no_sentence_has():
    gold = [flat(words, "S") for words in (1, 10, 11, 41, 99)]
    found = [flat(1, "S"), flat(10, "X"), flat(11, "S"), flat(41, "X"), flat(99, "S")]
    scores = dict(by_length(gold, found))
    assert {name: (each.f1, each.sentences) for name, each in scores.items()} == {
        "1 to 10 words": (50.0, 2),
        "11 to 20 words": (100.0, 1),
        "more than 40": (50.0, 2),
    }
    assert [name for name, _ in by_length(gold, found, bins=(99,))] == ["1 to 99 words"]
    assert by_length(gold, found, bins=(99,))[0][1] == evalb(gold, found)


@pytest.mark.parametrize("score", [evalb, by_length])
def test_trees_of_other_sentences_are_refused(tree, score):
    same, gold = tree("(S (NN a))"), tree("(S (DT a) (NN cat))")
    with pytest.raises(DataError, match="sentence 2: word 2 is 'cat' in the gold tree but 'dog' in the one found"):
        score([same, gold], [same, tree("(S (DT a) (NN dog))")])
    with pytest.raises(DataError, match=r"sentence 1: 2 words in the gold tree but 1 in .* without a partner is 'cat'"):
        score([gold], [same])
    with pytest.raises(DataError, match=r"sentence 1: 1 word in the gold tree but 2 in .* without a partner is 'cat'"):
        score([same], [gold])
    with pytest.raises(DataError, match="there are 2 gold trees but 1 found; give one"):
        score([same, gold], [same])
    with pytest.raises(DataError, match="there is no gold tree to compare with"):
        score([], [])


words = st.builds(Word, st.sampled_from(["NN", ",", "."]), st.just("a"))
nodes = st.recursive(
    words,
    lambda below: st.builds(Tree, st.sampled_from(["S", "PRT"]), st.lists(below, min_size=1, max_size=3).map(tuple)),
    max_leaves=12,
)
trees = st.lists(nodes, min_size=1, max_size=3).map(lambda children: Tree("TOP", tuple(children)))


@given(st.lists(trees, min_size=1, max_size=4))
def test_a_tree_agrees_with_itself(gold):
    scores = evalb(gold, gold)
    assert (scores.exact, scores.crossing, scores.no_crossing, scores.tagging) == (100.0, 0.0, 100.0, 100.0)
    assert scores.precision == scores.recall == scores.f1
    assert sum(each.sentences for _, each in by_length(gold, gold, bins=(2, 5))) == len(gold)
