"""Parsers: what they learn from, the trees they find, and what is saved of them."""

import math
from functools import partial
from itertools import product
from pathlib import Path

import pytest
import torch
from helpers import randomised
from torch.testing import assert_close

from manyheads.core.errors import ConfigError, DataError
from manyheads.data.readers.trees import read_trees
from manyheads.data.trees import Tree, Word, spans
from manyheads.interop.directory import load_model, save_model
from manyheads.models.bert import Bert, BertConfig
from manyheads.models.parser import SpanParser
from manyheads.nn.positions import PositionsConfig
from manyheads.tasks.parse.data import as_written, log_ways, read_all, rows_of
from manyheads.tasks.parse.recipe import Evaluation, ParseData
from manyheads.tasks.parse.use import ASKED, Parser, _gold, best_spans, expected_gains
from manyheads.text.encoder import EncoderTokenizer
from manyheads.train.objectives import tree_loss
from tests.unit.tasks.preparing import prepared as prepare

TREES = """
( (S (NP-SBJ (DT The) (JJ old) (NN cat)) (VP (VBD danced) (PP-LOC (IN under) (NP (DT the) (NN table)))) (. .)) )
( (S (NP-SBJ-1 (PRP It)) (VP (VBZ wants) (S (NP-SBJ (-NONE- *-1)) (VP (TO to) (VP (VB sleep))))) (. .)) )
( (FRAG (NP (NNP Ada)) (-LRB- -LRB-) (NP (CD 7)) (-RRB- -RRB-)) )
( (S (NP-SBJ (DT A) (NN dog)) (VP (VBZ sees) (NP (DT the) (JJ old) (NN cat))) (. .)) )
"""
NAMES, TAGS = ("NP", "VP", "S+VP"), ("NN", "VB")
SENTENCES = ["the old cat sees a dog .", "cat", "Ada ( 7 )", "under the table the cat danced and the dog slept"]


@pytest.fixture(scope="module")
def tokenizer() -> EncoderTokenizer:
    return EncoderTokenizer.train([*SENTENCES, "The A It wants to sleep"] * 3, 60)


def parser(tokenizer: EncoderTokenizer, **sizes) -> Parser:
    config = BertConfig(
        vocabulary=len(tokenizer), context=40, width=12, layers=2, heads=3, separator=tokenizer.separator, **sizes
    )
    return Parser(randomised(SpanParser(Bert(config, pooler=False), NAMES, TAGS, hidden=9)), tokenizer)


@pytest.fixture
def file(tmp_path) -> str:
    (tmp_path / "trees.mrg").write_text(TREES * 8, encoding="utf-8")
    return str(tmp_path / "trees.mrg")


# Data


def test_words_are_read_as_everybody_writes_them():
    assert [as_written(word) for word in ("-LRB-", "``", "''", r"and\/or", r"5\*", "don't")] == [
        *("(", '"', '"', "and/or", "5*", "don't")
    ]


def test_fenceposts_know_the_pieces_beside_them(tokenizer):
    words = ["Ada", "sees", "the", "cat"]
    pieces = tokenizer.encode_words([words])[0]
    assert len({len(each) for each in pieces}) > 1
    row = rows_of([words], tokenizer)[0]
    assert row.ids == tokenizer.wrapped([each for word in pieces for each in word])
    assert [row.ids[place] for place in row.before] == [tokenizer.start, *(word[-1] for word in pieces)]
    assert [row.ids[place] for place in row.behind] == [*(word[0] for word in pieces), tokenizer.separator]


def test_trees_are_stored_and_come_back(file, tmp_path):
    task = prepare("parse", ParseData(trees=(file,), valid=(file,), vocabulary=60), 40, tmp_path / "run")
    trees = [each.tree for each in read_trees(Path(file))]
    assert set(task.names) == {span.label for tree in trees for span in spans(tree)}
    assert "S+VP" in task.names
    assert [spans(tree) for tree in task.truth] == [spans(tree) for tree in trees]
    assert [[word.tag for word in tree.words] for tree in task.truth] == [[w.tag for w in tree.words] for tree in trees]
    for numbers, batch in zip(task.valid_batches().plan(0), task.valid_batches().epoch(0)):
        assert batch.target_tokens == int(batch.words.sum())
        for number, labels in zip(numbers, batch.labels):
            told = {
                (first, behind, task.names[int(labels[first, behind]) - 1])
                for first, behind in labels.nonzero().tolist()
            }
            assert told == {tuple(span) for span in spans(trees[number])}


def test_sentences_that_are_too_long_are_left_out_and_counted(file, tmp_path, capsys):
    prepare("parse", ParseData(trees=(file,), valid=(file,), vocabulary=60), 16, tmp_path / "run")
    assert "16 sentences of more than 16 tokens, the model's context, left out" in capsys.readouterr().err
    with pytest.raises(DataError, match="every sentence has more than 4 tokens"):
        prepare("parse", ParseData(trees=(file,), valid=(file,), vocabulary=60), 4, tmp_path / "other")


def test_without_files_there_is_the_sample():
    found = read_all(ParseData())
    assert (len(found.train), len(found.valid)) == (3000, 250)


def test_what_cannot_be_learned_is_refused(tmp_path):
    (tmp_path / "flat.mrg").write_text("( (NN cat) )\n" * 30, encoding="utf-8")
    with pytest.raises(DataError, match="no tree has a constituent below its root"):
        read_all(ParseData(trees=(str(tmp_path / "flat.mrg"),)))


STRANGE = "( (S (NP (CD 1\xa01/2) (QQ cats)) (VP (VBD danced) (XP (IN under)))) )\n"


def test_labels_and_tags_that_only_validation_has_stay_in_the_truth(file, tmp_path, capsys):
    (tmp_path / "strange.mrg").write_text(STRANGE, encoding="utf-8")
    data = ParseData(trees=(file,), valid=(str(tmp_path / "strange.mrg"),), vocabulary=60)
    task = prepare("parse", data, 60, tmp_path / "run")
    (gold,) = (each.tree for each in read_trees(tmp_path / "strange.mrg"))
    assert [spans(tree) for tree in task.truth] == [spans(gold)]
    assert [word.tag for word in task.truth[0].words] == [word.tag for word in gold.words]
    said = capsys.readouterr().err
    assert "labels that only validation has, which are never told: XP" in said
    assert "tags that only validation has, which are never told: QQ" in said
    (batch,) = task.valid_batches().epoch(0)
    assert (int(batch.labels.max()) <= len(task.names), batch.tags[0].tolist()[1]) == (True, -1)
    assert batch.ways.tolist() == pytest.approx([0.0])
    model = randomised(
        task.on_top(Bert(BertConfig(vocabulary=60, context=60, width=12, layers=1, heads=3), pooler=False))
    )
    scores = Parser(model, task.processor).evaluate(Evaluation(trees=data.valid)).numbers
    assert task.validate(model.eval())["f1"] == pytest.approx(scores["f1"])


def test_long_sentences_come_in_smaller_batches(file, tmp_path, monkeypatch):
    task = prepare("parse", ParseData(trees=(file,), valid=(file,), vocabulary=60), 40, tmp_path / "run")
    whole = [len(batch.words) for batch in task.valid_batches().epoch(0)]
    monkeypatch.setattr("manyheads.tasks.parse.data.SPANS_AT_ONCE", 200)
    parts = [batch.labels.shape for batch in task.valid_batches().epoch(0)]
    assert sum(shape[0] for shape in parts) == sum(whole) == 32
    assert len(parts) > len(whole)
    assert all(rows * posts**2 <= 200 for rows, posts, _ in parts)


# Trees


def test_every_answer_is_a_tree_over_exactly_the_words_alone_as_among_others(tokenizer):
    found = parser(tokenizer)
    together = found(SENTENCES)
    for sentence, tree in zip(SENTENCES, together):
        assert [word.text for word in tree.words] == sentence.split()
        assert {word.tag for word in tree.words} <= set(TAGS)
        assert found([sentence.split()]) == [tree]
    assert any(spans(tree) for tree in together)
    assert str(together[2]).count("-LRB-") == 1
    assert found([]) == []


def test_the_tree_has_the_most_constituents_right_that_can_be_expected():
    others = []
    for seed in range(6):
        torch.manual_seed(seed)
        scores = torch.randn(1, 4, 4, 3, dtype=torch.float64)
        scores[..., 0] = 0
        found = best_spans(expected_gains(scores, torch.tensor([3])), torch.tensor([3]), ("A", "B"))[0]
        trees = [(math.exp(-loss), tree) for loss, tree in losses(scores)]
        gain = partial(expected, trees)
        best = max((tree for _, tree in trees), key=gain)
        assert gain({(span.first, span.behind, span.label) for span in found}) == pytest.approx(gain(best))
        others.append(best != max(trees, key=lambda each: each[0])[1])
    assert any(others)


def expected(trees, tree) -> float:
    """How many of a tree's spans are right on average over these, less what is asked of each."""
    return sum(sum(chance for chance, other in trees if span in other) - ASKED for span in tree)


def losses(scores):
    """The loss of each tree over three words, which is two binary trees where no span of two words has a label."""
    places = ((0, 1), (1, 2), (2, 3), (0, 3), (0, 2), (1, 3))
    for labels in product(range(3), repeat=6):
        if not (labels[4] and labels[5]):
            right = torch.zeros(1, 4, 4, dtype=torch.int64)
            for place, label in zip(places, labels):
                right[0][place] = label
            ways = torch.tensor([0.0 if labels[4] or labels[5] else math.log(2)])
            loss = float(tree_loss(scores, right, torch.tensor([3]), ways))
            yield loss, {(*place, " AB"[label]) for place, label in zip(places, labels) if label}


def test_the_loss_is_the_likelihood_among_all_trees():
    torch.manual_seed(3)
    scores = torch.randn(1, 4, 4, 3, dtype=torch.float64)
    scores[..., 0] = 0
    likely = torch.tensor([-loss for loss, _ in losses(scores)], dtype=torch.float64).exp()
    assert len(likely) == 3**4 * 5
    assert_close(likely.sum(), torch.ones((), dtype=torch.float64), atol=1e-6, rtol=0)
    assert float(likely.max()) < 0.9


def test_the_ways_of_a_tree_are_counted():
    flat = Tree("TOP", tuple(Word("NN", "x") for _ in range(5)))
    assert math.exp(log_ways(flat)) == pytest.approx(14)
    assert math.exp(log_ways(Tree("TOP", (flat, Tree("NP", flat.children[:4]))))) == pytest.approx(14 * 5)
    assert log_ways(Tree("TOP", flat.children[:1])) == pytest.approx(0)


def test_it_learns_trees_by_heart(file, tmp_path):
    torch.manual_seed(0)
    task = prepare("parse", ParseData(trees=(file,), valid=(file,), vocabulary=80), 40, tmp_path / "run")
    model = task.on_top(
        Bert(BertConfig(vocabulary=80, context=40, width=24, layers=2, heads=3, dropout=0.0), pooler=False)
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    before = task.validate(model)
    for epoch in range(60):
        for batch in task.batches().epoch(epoch):
            task.loss(model, batch).total.backward()
            optimizer.step()
            optimizer.zero_grad()
    scores = task.validate(model.eval())
    assert (scores["f1"], scores["exact"], scores["tagging"]) == (100, 100, 100)
    assert scores["loss"] < 0.1 < before["loss"]
    trees = [each.tree for each in read_trees(Path(file))][:4]
    found = Parser(model, task.processor)([[word.text for word in tree.words] for tree in trees])
    assert found == trees


# Use


def test_it_is_scored_as_evalb_does_and_writes_what_it_found(file, tokenizer, tmp_path):
    found = parser(tokenizer)
    scores = found.evaluate(Evaluation(trees=(file,), out=str(tmp_path / "out.txt")))
    assert scores.numbers["sentences"] == 32
    assert set(scores.numbers["by_length"]) == {"1 to 10 words"}
    assert "precision" in scores.table
    assert len(read_trees(tmp_path / "out.txt")) == 32
    assert found.measure(Evaluation(trees=(file,)), None).score() == pytest.approx(scores.numbers["f1"])
    assert len(_gold(Evaluation())) == 250  # the sample's


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("one text", "not one string"),
        ([3], "3 is given where a parser takes a word"),
        ([["the", 3]], "3 is given where a parser takes a word"),
        ([["the cat"]], "'the cat' is given where a parser takes a word"),
        ([""], "a sentence has no words"),
        (["cat " * 60], "tokens, but the model reads 40; shorten it"),
    ],
)
def test_what_is_no_sentence_is_refused(given, said, tokenizer):
    with pytest.raises((ConfigError, DataError), match=said):
        parser(tokenizer)(given)


@pytest.mark.parametrize("kind", ["learned", "rotary"])
def test_a_saved_parser_finds_the_same_trees(kind, tokenizer, tmp_path):
    before = parser(tokenizer, positions=PositionsConfig(kind=kind))
    save_model(tmp_path / "model", before.model, tokenizer, "card")
    after = Parser.load(tmp_path / "model", device="cpu")
    assert (after.names, after.tags) == (NAMES, TAGS)
    assert after(SENTENCES) == before(SENTENCES)
    assert isinstance(load_model(tmp_path / "model")[0], SpanParser)


def test_it_is_looked_into(tokenizer):
    found = parser(tokenizer)
    read = found.forward("the cat danced", None, 0)
    assert read.run().shape == (1, len(read.ids["self"]), 12)


def test_what_is_scored_on_is_not_written_over(file):
    with pytest.raises(ConfigError, match="would replace"):
        Evaluation(trees=(file,), out=file)


def test_transformers_opens_its_encoder(tokenizer, tmp_path):
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    ours = parser(tokenizer)
    save_model(tmp_path / "model", ours.model, tokenizer, "card")
    theirs = transformers.AutoModel.from_pretrained(tmp_path / "model", add_pooling_layer=False).eval()
    ids = torch.tensor([[1, 5, 9, 3]])
    with torch.no_grad():
        assert_close(theirs(ids).last_hidden_state, ours.model.body(ids), atol=1e-5, rtol=0)
