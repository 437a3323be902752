import json
from pathlib import Path

import helpers
import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from torch.testing import assert_close

from manyheads.core.errors import ConfigError, DataError, ManyheadsError
from manyheads.data.examples import similarity_batches
from manyheads.models.bert import BertEmbedder
from manyheads.tasks.similarity import use as similarity
from manyheads.tasks.similarity.data import read_all
from manyheads.tasks.similarity.recipe import SimilarityData
from manyheads.tasks.similarity.use import Embedder, score_pairs
from manyheads.train.config import TrainConfig
from manyheads.train.objectives import similarity_loss
from tests.unit.tasks.preparing import prepared as prepare
from tests.unit.tasks.tiny import ENCODER, bert, made, ready, saved

WORDS = ["the", "cat", "sees", "a", "tall", "tree", "and", "sleeps"]

BY_SPEARMAN = TrainConfig(best_by="spearman")


def some_texts(count: int) -> list[str]:
    random = np.random.default_rng(5)
    return [" ".join(random.choice(WORDS, size=random.integers(1, 9))) for _ in range(count)]


# Embedding


@pytest.mark.parametrize("pooling", ["mean", "cls", "max"])
@pytest.mark.parametrize("normalised", [True, False])
def test_vectors_are_as_alone_as_wide_as_the_model_and_of_length_one_where_asked_for(pooling, normalised, monkeypatch):
    embedder = Embedder(BertEmbedder(made(bert(pooler=False)), pooling, normalised), ENCODER)
    texts = ["", "the cat", *some_texts(9)]
    whole = embedder(texts)
    assert (whole.shape, whole.dtype) == ((11, 21), np.float32)
    assert_allclose(np.concatenate([embedder([text]) for text in texts]), whole, atol=1e-5)
    monkeypatch.setattr(similarity, "TEXTS_AT_ONCE", 7)
    monkeypatch.setattr(similarity, "CPU_TOKENS_AT_ONCE", 20)
    assert_allclose(embedder(texts[::-1]), whole[::-1], atol=1e-5)
    assert not np.allclose(whole[1], whole[2], atol=1e-3)  # and the test can tell
    assert np.allclose(np.linalg.norm(whole, axis=1), 1, atol=1e-5) == normalised
    assert embedder([]).shape == (0, 21)
    assert embedder.similarity([], ["the cat"]).shape == (0, 1)


def test_what_is_too_long_is_counted_and_told_once(monkeypatch):
    said = []
    monkeypatch.setattr(similarity, "warn", said.append)
    monkeypatch.setattr(similarity, "TEXTS_AT_ONCE", 2)
    embedder = Embedder(BertEmbedder(made(bert(pooler=False)), longest=9), ENCODER)
    long = "the cat " * 20
    found = embedder([long, "a cat", long + "sleeps", "a tree", long])
    embedder([long])
    assert said == ["texts longer than the 9 tokens that the model reads, which lose their end: 3 of 5"]
    assert_allclose(found[0], found[2], atol=1e-5)


def test_similarity_is_the_cosine_of_all_with_all():
    embedder = Embedder(BertEmbedder(made(bert(pooler=False)), normalised=False), ENCODER)
    first, second = some_texts(3), ["a tall tree", "the cat sleeps"]
    found = embedder.similarity(first, second)
    vectors, others = torch.tensor(embedder(first)), torch.tensor(embedder(second))
    for row in range(3):
        assert_close(torch.tensor(found[row]), torch.cosine_similarity(vectors[row], others), atol=1e-5, rtol=0)
    assert found.shape == (3, 2)


def test_the_nearest_are_those_with_the_largest_cosines_the_first_of_equals_first(monkeypatch):
    monkeypatch.setattr(similarity, "TEXTS_AT_ONCE", 4)
    embedder = Embedder(BertEmbedder(made(bert(pooler=False)), normalised=False), ENCODER)
    texts, compared = [*some_texts(9), "a tall tree", "a tall tree"], []
    cosines = embedder.similarity(["a tree"], texts)[0]
    found = embedder.nearest("a tree", texts, 4, show=compared.append)
    assert [cosine for cosine, _ in found] == pytest.approx(sorted(cosines, reverse=True)[:4], abs=1e-5)
    assert [cosine for cosine, _ in found] == pytest.approx([cosines[place] for _, place in found], abs=1e-5)
    assert compared == [3, 7, 11]
    assert [place for _, place in embedder.nearest("a tall tree", texts[-2:])] == [0, 1]
    assert embedder.nearest("a tree", []) == []
    with pytest.raises(ConfigError, match="0 texts are asked for"):
        embedder.nearest("a tree", texts, 0)


def test_pairs_are_scored_by_their_cosines():
    pytest.importorskip("sklearn")
    embedder = ready("embedder")
    pairs = list(zip(some_texts(9), reversed(some_texts(9))))
    cosines = [float(embedder.similarity([a], [b])[0, 0]) for a, b in pairs]
    found = score_pairs(embedder, pairs, [3 * cosine + 1 for cosine in cosines])
    assert found.examples == 9
    assert found.pearson > 0.9999
    assert score_pairs(embedder, pairs, [-cosine for cosine in cosines]).spearman < -0.9


@pytest.mark.parametrize("wrong", ["one text", [3], ["a", None]])
def test_what_is_no_list_of_texts_is_refused(wrong):
    for ask in (ready("embedder").similarity, ready("embedder").nearest):
        with pytest.raises(ConfigError, match="an embedder takes a"):
            ask(["fine"] if ask.__name__ == "similarity" else "fine", wrong)


def test_a_pooling_is_for_a_bert_that_has_none(tmp_path):
    body = made(bert(pooler=False))
    saved(tmp_path / "plain", body)
    saved(tmp_path / "run" / "model", BertEmbedder(body, "max"))
    for pooling in ("mean", "cls", "max"):
        wanted = Embedder(BertEmbedder(body, pooling), ENCODER)(["the cat"])
        assert_allclose(Embedder.load(tmp_path / "plain", pooling=pooling)(["the cat"]), wanted, atol=1e-6)
    assert Embedder.load(tmp_path / "plain").model.pooling == "mean"
    assert Embedder.load(tmp_path / "run", pooling="max").model.pooling == "max"
    with pytest.raises(ConfigError, match="pooling max, not cls"):
        Embedder.load(tmp_path / "run", pooling="cls")
    with pytest.raises(ConfigError, match="pooling is 'sum'; it can be mean, cls, max"):
        Embedder.load(tmp_path / "plain", pooling="sum")


# Files


def written(path: Path, text: str) -> str:
    return str(helpers.written(path, text))


def lines(*cells: str, count: int = 20) -> str:
    """Rows of which every cell has the number of its line, and a cell that is # that number alone."""
    rows = ["\t".join(f"{number}" if cell == "#" else f"{cell} {number}" for cell in cells) for number in range(count)]
    return "".join(f"{row}\n" for row in rows)


@pytest.mark.parametrize("name", ["a.tsv", "a.txt", "a.tsv.gz"])
@pytest.mark.parametrize(
    ("text", "columns"),
    [
        (lines("first", "second"), ()),
        ("sentence1\tsentence2\n" + lines("first", "second"), ()),
        ("\nSentence1\tSentence2\n" + lines("first", "second"), ()),
        ("anchor\tpositive\n" + lines("first", "second"), ()),
        ("id\tsentence2\tsentence1\n" + lines("#", "second", "first"), ()),
        (lines("#", "second", "first"), ("3", "2")),
        ("no\tanswer\task\n" + lines("#", "second", "first"), ("ask", "answer")),
        ("question\tsentence\n" + lines("first", "second"), ("1", "2")),
    ],
)
def test_pairs_without_scores_are_found_in_tables(tmp_path, name, text, columns):
    found = read_all(SimilarityData(pairs=(written(tmp_path / name, text),), columns=columns))
    assert {pair.label for pair in found.train} == {""}
    assert len(found.train) == 18
    pairs = {(f"first {each}", f"second {each}") for each in range(20)}
    assert {pair.texts for pair in (*found.train, *found.valid)} == pairs


@pytest.mark.parametrize(
    ("names", "columns"),
    [
        *((names, ()) for names in [("sentence1", "sentence2"), ("source", "target")]),
        *((names, ()) for names in [("anchor", "positive"), ("query", "positive")]),
        (("q", "a"), ("q", "a")),
    ],
)
def test_and_in_json_lines(tmp_path, names, columns):
    rows = [json.dumps({names[0]: f"first {each}", names[1]: f"second {each}", "id": each}) for each in range(20)]
    path = written(tmp_path / "a.jsonl", "\n".join(rows) + "\n")
    found = read_all(SimilarityData(pairs=(path,), columns=columns))
    assert {pair.label for pair in found.train} == {""}
    assert found.valid[0].texts in {(f"first {each}", f"second {each}") for each in range(20)}


@pytest.mark.parametrize(
    ("name", "text", "columns"),
    [
        ("a.tsv", lines("first", "second", "#"), ()),
        ("a.tsv", "score\tsentence1\tsentence2\n" + lines("#", "first", "second"), ()),
        ("a.tsv", lines("#", "x", "first", "second"), ("3", "4", "1")),
        ("a.csv", "sentence1,sentence2,score\n" + lines("first", "second", "#").replace("\t", ","), ()),
    ],
)
def test_pairs_with_scores_are_those_of_labelled_examples(tmp_path, name, text, columns):
    found = read_all(SimilarityData(pairs=(written(tmp_path / name, text),), columns=columns))
    assert len(found.valid) == 2
    assert all(pair.texts == (f"first {pair.label}", f"second {pair.label}") for pair in found.valid)
    assert found.about == {"largest": 19}


def test_a_folder_without_a_dev_tsv_has_a_tenth_of_its_pairs_held_out(tmp_path):
    header = "sentence1\tsentence2\tscore\n"
    written(tmp_path / "train.tsv", header + lines("first", "second", "#"))
    data = SimilarityData(pairs=(str(tmp_path),))
    assert len(read_all(data).valid) == 2
    written(tmp_path / "dev.tsv.gz", header + lines("third", "fourth", "#", count=3))
    assert read_all(data).valid[0].texts == ("third 0", "fourth 0")


def test_scores_are_divided_by_the_largest_or_by_what_is_said(tmp_path):
    path = written(tmp_path / "a.tsv", lines("first", "second", "#"))
    for number, largest in enumerate((None, 38.0)):
        data = SimilarityData(pairs=(path,), valid=(path,), largest=largest)
        prepared = prepare("similarity", data, 19, tmp_path / str(number), ENCODER, train=BY_SPEARMAN)
        assert_allclose(prepared.train["score"], np.arange(20) / (largest or 19), rtol=1e-6)
        assert prepared.scored
    with pytest.raises(DataError, match=r"a\.tsv, line 12: the score 11 is above data.largest 10"):
        read_all(SimilarityData(pairs=(path,), largest=10))


def test_a_file_without_scores_may_be_validated_on_one_with_them(tmp_path):
    pairs, scored = (
        written(tmp_path / f"{n}.tsv", lines(*cells)) for n, cells in enumerate([("a", "b"), ("c", "d", "#")])
    )
    prepared = prepare(
        *("similarity", SimilarityData(pairs=(pairs,), valid=(scored,)), 19, tmp_path / "run", ENCODER),
        train=BY_SPEARMAN,
    )
    assert prepared.scored
    assert next(prepared.batches().epoch(0)).candidates is not None
    with pytest.raises(DataError, match=r"1\.tsv has scores, but .*0\.tsv has none"):
        read_all(SimilarityData(pairs=(pairs, scored)))


def test_pairs_with_an_empty_text_are_left_out_and_counted(tmp_path, monkeypatch):
    with pytest.raises(ManyheadsError, match="no pairs to learn from"):
        read_all(SimilarityData())
    said = []
    monkeypatch.setattr("manyheads.tasks.labelled.warn", said.append)
    path = written(tmp_path / "a.tsv", "\n" + lines("first", "second") + "alone\t \n\t\n\tonly\n")
    assert len(read_all(SimilarityData(pairs=(path,), valid=(path,))).train) == 20
    assert said[0] == f"{path}: 2 pairs with an empty text are left out, the first of them in line 22"


SCORED = lines("a", "b", "#")


@pytest.mark.parametrize(
    ("text", "columns", "said"),
    [
        (lines("a", "b") + "alone\n", (), r"a\.tsv, line 21: 1 column where there must be 2"),
        (SCORED + "c\td\n", (), r"a\.tsv, line 21: 2 columns where there must be 3"),
        (SCORED + "c\td\thigh\n", (), r"a\.tsv, line 21: 'high' is not a number"),
        (SCORED + "c\td\tnan\n", (), r"a\.tsv, line 21: 'nan' is not a number"),
        (SCORED + "c\td\t-0.5\n", (), r"a\.tsv, line 21: the score is -0.5; raise all"),
        ("sentence\tlabel\n" + lines("a", "#"), (), r"a\.tsv is of the form text; give pairs"),
        ("", (), "holds no"),
        (lines("a", "b", count=3), (), "too few pairs, 3, to hold some out"),
        ("a\tthe same\nb\tthe same\n", (), "all pairs have the same second text"),
        ("a\tb\t2\nc\td\t2\n", (), "all pairs have the score 2"),
        (lines("a", "b"), ("1", "c"), "no column is named 'c'; the first line has: a 0, b 0"),
        (lines("a", "b"), ("1", "5"), r"a\.tsv, line 1: 2 columns, but column 5 is asked for"),
        ("a,b\nc,d\n", (), r"a\.csv has no scores.*convert it"),
        ("a,b\nc,d\n", ("1", "2"), r"a\.csv has no scores.*convert it"),
    ],
)
def test_what_cannot_be_learned_from_is_refused(tmp_path, text, columns, said):
    path = written(tmp_path / ("a.csv" if "a,b" in text else "a.tsv"), text)
    with pytest.raises(DataError, match=said):
        read_all(SimilarityData(pairs=(path,), columns=columns))


# Learning


@pytest.mark.parametrize("scored", [True, False])
def test_ten_pairs_are_learned_by_heart(tmp_path, scored):
    texts = list(dict.fromkeys(some_texts(40)))[:20]
    rows = [f"{a}\t{b}" + (f"\t{number % 6}" if scored else "") for number, (a, b) in enumerate(zip(texts, texts[10:]))]
    path = written(tmp_path / "a.tsv", "".join(f"{row}\n" for row in rows))
    data = SimilarityData(pairs=(path,), valid=(path,))
    task = prepare("similarity", data, 19, tmp_path / "run", ENCODER, train=TrainConfig(best_by="loss"))
    batch = next(similarity_batches(task.train, size=10, seed=1).epoch(0))
    assert batch.target_tokens == 10
    model, losses = BertEmbedder(made(bert(pooler=False, dropout=0.0, attention_dropout=0.0))), []
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    for _ in range(120):
        loss = similarity_loss(model, batch).total / batch.target_tokens
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    assert losses[0] > 0.05
    assert losses[-1] < 0.005
