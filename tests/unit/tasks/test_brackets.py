"""Parsers that write trees: how a tree is written, and that nothing but trees can be."""

import random
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from helpers import randomised

from manyheads.core.errors import CheckpointError, ConfigError
from manyheads.data.readers.trees import trees_of
from manyheads.data.sample_trees import sample_trees
from manyheads.data.trees import Tree, Word, steps
from manyheads.generate.beam import search
from manyheads.generate.steps import SpecialIds
from manyheads.generate.trees import MOST_OPENED, TreeSteps
from manyheads.interop.directory import save_model
from manyheads.models.transformer import Transformer, TransformerConfig
from manyheads.tasks.brackets.data import Symbols, train_tokenizer
from manyheads.tasks.brackets.recipe import BracketData, Evaluation
from manyheads.tasks.brackets.use import BracketParser, limit_of
from manyheads.tasks.parse.data import text_of
from manyheads.tasks.task import predictor_of
from manyheads.tasks.translate.use import Translator
from manyheads.text.tokenizer import Tokenizer
from tests.unit.tasks.preparing import prepared as prepare

TREES = sample_trees("train")[:40]
SENTENCES = ["The cat danced .", "cat", "a ( b", "the old king and the young queen never saw the three small grey cats"]


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return train_tokenizer(TREES, 400)


@pytest.fixture(scope="module")
def symbols(tokenizer) -> Symbols:
    found = Symbols.of(tokenizer)
    assert found is not None
    return found


def parser(tokenizer: Tokenizer) -> BracketParser:
    torch.manual_seed(1)
    sizes = {"vocabulary": len(tokenizer), "width": 12, "layers": 1, "heads": 3, "inner": 14}
    ids = {"pad": tokenizer.pad, "start": tokenizer.start, "end": tokenizer.end}
    return BracketParser(randomised(Transformer(TransformerConfig(**sizes, **ids))), tokenizer)


def test_a_tree_is_written_and_read_again(symbols, tokenizer):
    for tree in TREES:
        row = symbols.row(tree)
        assert row[-1] == tokenizer.end
        assert symbols.tree(row[:-1], [word.text for word in tree.words]) == tree
    (tree,) = trees_of(["(TOP (S (NP (DT The) (NN cat)) (VP (VBD danced)) (. .)))"], Path("here"))
    assert " ".join(tokenizer.pieces(symbols.row(tree))) == "⟨S ⟨NP ⟨DT⟩ ⟨NN⟩ ⟩ ⟨VP ⟨VBD⟩ ⟩ ⟨.⟩ ⟩ </s>"


def test_what_was_never_seen_is_left_out(symbols):
    strange = Tree("TOP", (Tree("S", (Tree("WEIRD", (Word("NN", "cat"),)), Word("ODD", "x"))),))
    found = symbols.tree(symbols.row(strange)[:-1], ["cat", "x"])
    assert [node.label for node, entering in steps(found) if entering and isinstance(node, Tree)] == ["TOP", "S"]
    assert [word.text for word in found.words] == ["cat", "x"]


def test_a_text_has_no_symbols(tokenizer, symbols):
    ids = tokenizer.encode([" ".join([*tokenizer.symbols(), "( ) the cat"])])[0]
    assert not {*ids} & {symbols.closing, *symbols.opening.values(), *symbols.tags.values()}


class Anything(TreeSteps):
    """Steps whose logits are random, of a model that is none."""

    def __init__(self, symbols, vocabulary, beams, words, limits):
        class Model:
            config = SimpleNamespace(start=0)

            def decoding_state(self, capacity, beams):
                return self

            def select(self, beams_NK, sentences):
                pass

            def decode(self, ids, memory, mask, state):
                return 9 * torch.randn(len(ids), 1, vocabulary)

        does, words_N, limits_N = symbols.does(vocabulary), torch.tensor(words), torch.tensor(limits)
        memory = torch.zeros(len(words), 1, 1)
        super().__init__(Model(), memory, None, beams, does_V=does, words_N=words_N, limits_N=limits_N)


@pytest.mark.parametrize("beams", [1, 3])
def test_whatever_a_model_wants_it_writes_trees_over_all_words_within_the_limit(beams, symbols, tokenizer):
    source = random.Random(beams)
    torch.manual_seed(beams)
    special = SpecialIds(stop_ids=(tokenizer.end,), banned=(tokenizer.pad,))
    for _ in range(30):
        words = [source.randint(1, 9) for _ in range(5)]
        limits = [count + source.choice([1, 3, 8, 60]) for count in words]
        steps_of = Anything(symbols, len(tokenizer), beams, words, limits)
        found = search(steps_of, torch.tensor(limits), special, beams=beams, alpha=0.6)
        for count, limit, hypotheses in zip(words, limits, found):
            assert hypotheses
            for each in hypotheses:
                texts = [str(number) for number in range(count)]
                tree = symbols.tree(each.ids, texts)
                assert [word.text for word in tree.words] == texts
                assert len(each.ids) + 1 <= limit
                constituents = [node for node, entering in steps(tree) if entering and isinstance(node, Tree)]
                assert all(node.children for node in constituents)
                assert len(constituents) <= 1 + count * MOST_OPENED


def test_every_answer_is_a_tree_over_exactly_the_words_alone_as_among_others(tokenizer):
    found = parser(tokenizer)
    together = found(SENTENCES)
    for sentence, tree in zip(SENTENCES, together):
        assert [word.text for word in tree.words] == sentence.split()
        assert found([sentence.split()], beam=4) == [tree]
    assert limit_of(3) == 35
    assert text_of(["-LRB-", "a"]) == "( a"


def test_it_learns_trees_by_heart(tmp_path):
    (tmp_path / "a.mrg").write_text("".join(f"{tree}\n" for tree in TREES[:8]), encoding="utf-8")
    file = (str(tmp_path / "a.mrg"),)
    task = prepare("brackets", BracketData(trees=file, valid=file, vocabulary=400), 0, tmp_path / "run")
    torch.manual_seed(0)
    sizes = {"vocabulary": len(task.processor), "width": 32, "layers": 2, "heads": 4, "inner": 64, "dropout": 0.0}
    ids = {name: getattr(task.processor, name) for name in ("pad", "start", "end")}
    model = Transformer(TransformerConfig(**sizes, **ids))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    with torch.inference_mode():
        before = task.validate(model.eval())
    for epoch in range(120):
        for batch in task.batches().epoch(epoch):
            task.loss(model, batch).total.backward()
            optimizer.step()
            optimizer.zero_grad()
    with torch.inference_mode():
        scores = task.validate(model.eval())
    assert (scores["f1"], scores["exact"]) == (100, 100)
    assert before["f1"] < 50
    scored = BracketParser(model, task.processor).evaluate(Evaluation(trees=file, beam=2))
    assert (scored.numbers["f1"], scored.numbers["tagging"]) == (100, 100)


def test_a_translator_is_no_parser(tokenizer, tmp_path):
    plain = Tokenizer.train(["the cat danced"] * 3, 300)
    translator = Transformer(TransformerConfig(vocabulary=len(plain), width=12, layers=1, heads=3, inner=14,
                                               pad=plain.pad, start=plain.start, end=plain.end))  # fmt: skip
    save_model(tmp_path / "translator", translator, plain, "card")
    with pytest.raises(CheckpointError, match="no brackets of trees"):
        BracketParser.load(tmp_path / "translator", device="cpu")
    ours = parser(tokenizer)
    save_model(tmp_path / "parser", ours.model, tokenizer, "card")
    assert (predictor_of(tmp_path / "parser"), predictor_of(tmp_path / "translator")) == (BracketParser, Translator)
    with pytest.raises(CheckpointError, match="writes trees, and no language; use it with manyheads parse"):
        Translator.load(tmp_path / "parser", device="cpu")
    assert BracketParser.load(tmp_path / "parser", device="cpu")(SENTENCES) == ours(SENTENCES)


def test_settings_that_cannot_be_are_refused():
    with pytest.raises(ConfigError, match=r"data.valid is given without data.trees"):
        BracketData(valid=("a",))
    with pytest.raises(ConfigError, match=r"data.batch_tokens is 0"):
        BracketData(batch_tokens=0)
