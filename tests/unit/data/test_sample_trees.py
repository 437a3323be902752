"""The trees of the sample corpus: their bytes, their sentences, and typical ones spelt out."""

import hashlib
import re
import subprocess
import sys

import pytest

from manyheads.core.errors import ConfigError
from manyheads.data.sample import sample_corpus
from manyheads.data.sample_trees import FILE, PARTS, sample_trees
from manyheads.data.trees import Tree, cleaned, spans, steps, tree_of

CHECKSUM = "71c2c0d66d2746885d5eb044799a903af0683e5fb558b3713c8323f374022092"
SIZES = {"train": 3_000, "valid": 250, "test": 250}
LABELS = {"TOP", "S", "SQ", "SBARQ", "SBAR", "WHNP", "WHADVP", "NP", "VP", "PP", "ADVP", "ADJP", "PRT"}
TAGS = {
    "DT", "PDT", "NN", "NNS", "NNP", "PRP", "PRP$", "POS", "CD", "JJ", "JJR", "RB", "RBR", "RP", "MD", "VB", "VBD",
    "VBZ", "VBP", "VBN", "IN", "TO", "WP", "WDT", "WRB", "CC", ",", ".",
}  # fmt: skip
TYPICAL = {
    "a modal": """
        (TOP (S (NP (DT this) (JJ poor) (NN queen))
                (VP (MD must) (VP (VB close) (NP (DT this) (NN cupboard)) (ADVP (RB quietly)))) (. .)))""",
    "a wish, and what it is for": """
        (TOP (S (NP (DT The) (NN aunt))
                (VP (VBZ wants)
                    (S (VP (TO to) (VP (VB drive) (PP (IN across) (NP (DT a) (NN street)))
                        (SBAR (IN in) (NN order)
                              (S (VP (TO to) (VP (VB work) (PP (IN in) (NP (DT the) (NN castle))))))))))) (. .)))""",
    "a question of yes or no, in set phrases": """
        (TOP (SQ (VBZ has) (NP (DT this) (NN motorcycle))
                 (VP (VBN stopped) (PP (IN in) (NP (NP (NN front)) (PP (IN of) (NP (DT a) (NN tree))))) (NP (NN today)))
                 (. ?)))""",
    "a question about a time": """
        (TOP (SBARQ (WHADVP (WRB When))
                    (SQ (VBZ does) (NP (DT the) (NN teacher)) (VP (VB pick) (PRT (RP up)) (NP (DT the) (NN guest))))
                    (. ?)))""",
    "a question about its own subject, without a mark": """
        (TOP (SBARQ (WHNP (WP Who))
                    (SQ (VP (VBZ falls) (ADJP (JJ asleep)) (PP (IN on) (NP (DT a) (NN sofa)))))))""",
    "a relative clause about its object": """
        (TOP (S (NP (DT The) (NN aunt))
                (VP (VBZ knows)
                    (NP (NP (CD two) (NNS queens))
                        (SBAR (WHNP (WP whom)) (S (NP (PRP$ our) (NN donkey)) (VP (VBD bit)))))) (. .)))""",
    "a possessive, and a subordinate clause": """
        (TOP (S (NP (NP (DT The) (NN girl) (POS 's)) (NN cat))
                (VP (VBD lay) (PP (IN on) (NP (DT the) (NN carpet)))
                    (SBAR (IN because)
                          (S (NP (DT a) (NN prince)) (ADVP (RB never))
                             (VP (VBD wrote) (NP (DT a) (NN man)) (NP (DT this) (NN message)))))) (. .)))""",
    "a subordinate clause in front": """
        (TOP (S (SBAR (IN before) (S (NP (DT the) (NN colleague)) (VP (VBD kissed) (NP (DT the) (NN father))))) (, ,)
                (NP (DT the) (NNS doctors))
                (VP (VBD listened) (PP (TO to) (NP (DT the) (JJ happy) (NNS neighbours)))
                    (NP (JJ last) (NN week)))))""",
    "two clauses side by side": """
        (TOP (S (S (NP (DT The) (NN uncle)) (VP (VBD cleaned) (NP (CD three) (NNS doors)))) (CC and)
                (S (NP (PRP he))
                   (VP (VBD threw) (NP (DT a) (NN stone)) (PP (IN onto) (NP (DT the) (JJ big) (NN roof))))) (. .)))""",
    "two nouns side by side": """
        (TOP (S (NP (NP (PRP$ her) (NN grandmother)) (CC and) (NP (DT the) (NN pupil)))
                (VP (VBP bring) (PRT (RP back)) (NP (DT the) (NNS bags))) (. .)))""",
    "a comparison": """
        (TOP (S (NP (DT the) (NN house))
                (VP (VBD was) (ADJP (RBR more) (JJ beautiful) (PP (IN than) (NP (DT the) (NN station))))) (. .)))""",
}


@pytest.fixture(scope="module")
def trees():
    return {part: sample_trees(part) for part in PARTS}


def written(tree):
    """The sentence as people write it."""
    text = " ".join(word.text for word in tree.words)
    return re.sub(r" (?=[,.?]|'s\b)", "", text).replace("can not", "cannot")


def test_the_file_keeps_its_bytes_and_is_small():
    assert hashlib.sha256(FILE.read_bytes()).hexdigest() == CHECKSUM
    assert FILE.stat().st_size < 50_000


def test_the_file_is_read_when_asked_for_and_needs_no_torch():
    script = """
import sys
opened = []
sys.addaudithook(lambda event, arguments: opened.append(str(arguments[0])) if event == "open" else None)
from manyheads.data.sample_trees import FILE, sample_trees
assert str(FILE) not in opened
sample_trees("valid")
assert str(FILE) in opened
assert "torch" not in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_each_tree_has_the_words_of_the_sentence_of_its_number(trees):
    corpus = sample_corpus()
    assert {part: len(found) for part, found in trees.items()} == SIZES
    for part, found in trees.items():
        assert [written(tree) for tree in found] == [pair.source for pair in corpus[part][: len(found)]]
    told = " ".join(word.text for tree in trees["train"] for word in tree.words)
    assert all(f" {word} " in told for word in ("'s", "can not", ",", "?"))  # what had to be undone was there


def test_the_trees_are_cleaned_and_their_spans_say_all_about_them(trees):
    for tree in (tree for found in trees.values() for tree in found):
        assert cleaned(tree) == tree
        assert len(tree.children) == 1
        assert tree_of(tree.words, spans(tree)) == tree


def test_labels_and_tags_are_the_treebanks_and_training_shows_them_all(trees):
    for part, found in trees.items():
        nodes = [node for tree in found for node, entering in steps(tree) if entering]
        labels = {node.label for node in nodes if isinstance(node, Tree)}
        tags = {node.tag for node in nodes if not isinstance(node, Tree)}
        assert labels <= LABELS
        assert tags <= TAGS
        assert part != "train" or (labels, tags) == (LABELS, TAGS)


@pytest.mark.parametrize("name", TYPICAL)
def test_typical_sentences_have_these_trees(trees, name):
    assert re.sub(r"\s+", " ", TYPICAL[name].strip()) in {str(tree) for tree in trees["test"]}


def test_another_part_is_refused_in_a_sentence():
    with pytest.raises(ConfigError, match="no trees for 'dev'; name one of train, valid, test"):
        sample_trees("dev")
