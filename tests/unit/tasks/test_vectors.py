"""Word vectors: what is read of a text, what is near to what, what is scored."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from manyheads import WordVectors
from manyheads.core.errors import ConfigError, DataError
from manyheads.data.ragged import Ragged, Store
from manyheads.data.readers.documents import Piece
from manyheads.data.readers.vectors import write_vectors
from manyheads.tasks.run import resolve
from manyheads.tasks.vectors import use
from manyheads.tasks.vectors.data import cell_batches, line_batches, open_lines, store_lines
from manyheads.tasks.vectors.questions import read_analogies, read_similarities
from manyheads.tasks.vectors.recipe import Evaluation, VectorData
from manyheads.text.words import WordTokenizer

ANGLES = {"man": 0, "woman": 30, "king": 90, "queen": 121, "prince": 140, "Paris": 200}


@pytest.fixture
def vectors(tmp_path) -> WordVectors:
    """Words around a circle, some farther out than others."""
    turned = [(math.cos(math.radians(each)), math.sin(math.radians(each))) for each in ANGLES.values()]
    matrix = np.array(turned, np.float32) * np.arange(1, 7, dtype=np.float32)[:, None]
    write_vectors(tmp_path / "v.txt", list(ANGLES), matrix)
    return WordVectors.load(tmp_path / "v.txt", device="cpu")


def test_neighbours_are_by_angle_and_never_the_word_itself(vectors):
    found = vectors.neighbours("king", 3)
    assert [each.word for each in found] == ["queen", "prince", "woman"]
    assert [each.cosine for each in found] == pytest.approx([math.cos(math.radians(each)) for each in (31, 50, 60)])
    assert len(vectors.neighbours("king", 99)) == 5
    for count in (0, 1.5, "3", True):
        with pytest.raises(ConfigError, match=f"{count!r} words cannot be given; ask for a whole number"):
            vectors.neighbours("king", count)


@pytest.mark.parametrize("word", [["king", "man"], (each for each in ["king"]), b"king", 3, None])
def test_what_is_no_word_is_refused(vectors, word):
    for ask in (
        vectors.neighbours,
        vectors.__getitem__,
        vectors.__contains__,
        lambda it: vectors.analogy("man", it, it),
    ):
        with pytest.raises(ConfigError, match="is given where a set of word vectors takes one word"):
            ask(word)


def test_neighbours_of_huge_and_of_tiny_vectors_are_by_angle_and_of_none_refused(tmp_path):
    matrix = np.array([[1e30, 1e30], [1e-30, 1e-30], [1, 0], [0, 0]], np.float32)
    write_vectors(tmp_path / "v.txt", ["huge", "tiny", "right", "nowhere"], matrix)
    found = WordVectors.load(tmp_path / "v.txt", device="cpu")
    assert [each.word for each in found.neighbours("huge")] == ["tiny", "right", "nowhere"]
    assert [each.cosine for each in found.neighbours("huge")] == pytest.approx([1, math.sqrt(0.5), 0])
    for ask in (lambda: found.neighbours("nowhere"), lambda: found.analogy("huge", "nowhere", "right")):
        with pytest.raises(DataError, match="the vector of 'nowhere' is nothing but zeros"):
            ask()


def test_epochs_follow_from_whose_text_it_is():
    text = 'data.text=["x.txt"]'
    assert [resolve("vectors", assignments=each).train.epochs for each in ((), (text,))] == [20, 5]
    assert resolve("vectors", flags={"data": {"text": ("x.txt",), "method": "glove"}}).train.epochs == 25


def test_an_analogy_leaves_its_own_words_out(vectors):
    found = [each.word for each in vectors.analogy("man", "king", "woman", 9)]
    assert found[0] == "queen"
    assert sorted(found) == ["Paris", "prince", "queen"]
    row = {word: vectors.unit[place] for place, word in enumerate(vectors.words)}
    asked = row["king"] - row["man"] + row["woman"]
    cosine = float(asked @ row["queen"] / asked.norm())
    assert vectors.analogy("man", "king", "woman", 1)[0].cosine == pytest.approx(cosine)


def test_a_word_is_looked_for_as_it_is_and_in_small_letters(vectors):
    assert vectors["King"].tolist() == vectors["king"].tolist()
    assert "Paris" in vectors
    assert "paris" not in vectors
    with pytest.raises(DataError, match=r"'quen' is not among the 6 words; the nearest spellings are queen"):
        vectors["quen"]
    with pytest.raises(DataError, match="'xyzzy' is not among the 6 words; none is spelt alike"):
        vectors.analogy("man", "king", "xyzzy")
    assert repr(vectors).startswith("WordVectors(6 words of 2 numbers from")
    assert len(vectors) == 6


def test_a_map_needs_three_words(vectors):
    points, share = vectors.plane(["man", "king", "queen", "man"])
    assert points.shape == (4, 2)
    assert share == pytest.approx(1.0)
    with pytest.raises(ConfigError, match="a map of 2 words says nothing"):
        vectors.plane(["man", "king"])
    assert vectors.plane(each for each in ("man", "king", "queen"))[0].shape == (3, 2)
    with pytest.raises(ConfigError, match="a map takes a list of words, not one string"):
        vectors.plane("king")


@pytest.mark.parametrize("at_once", [1, 2**20])
def test_scores_say_what_they_are_of(vectors, tmp_path, monkeypatch, at_once):
    monkeypatch.setattr(use, "COSINES_AT_ONCE", at_once)
    pytest.importorskip("sklearn", reason="scikit-learn is not installed: pip install 'manyheads[metrics]'")
    analogies, pairs = tmp_path / "a.txt", tmp_path / "b.txt"
    analogies.write_text(
        ": family\nman king woman queen\nman woman king prince\nman king boy prince\n\n: other\nMan King Woman Queen\n"
    )
    pairs.write_text("# a remark\nking\tqueen\t10\nking prince 9\nking man 1\nking cat 5\n")
    found = vectors.evaluate(Evaluation(analogies=(str(analogies),), similarities=(str(pairs),)))
    one, other = found.numbers[str(analogies)], found.numbers[str(pairs)]
    assert (one["known"], one["questions"], one["sections"]) == (3, 4, {"family": [1, 2], "other": [1, 1]})
    assert one["accuracy"] == pytest.approx(2 / 3)
    assert (other["known"], other["pairs"], other["spearman"]) == (3, 4, pytest.approx(1.0))
    assert "66.67 %   of 3 questions; 4 in the file" in str(found)
    assert "of 3 pairs; 4 in the file" in str(found)
    with pytest.raises(ConfigError, match="give --analogies or --similarities"):
        vectors.evaluate(Evaluation())
    for text, said in (
        ("a b c d\n", "none of its 1 questions has four words"),
        ("cat dog 1\n", "0 of its 1 pairs have vectors"),
    ):
        (tmp_path / "few.txt").write_text(text)
        name = (str(tmp_path / "few.txt"),)
        asked = Evaluation(analogies=name) if "four" in said else Evaluation(similarities=name)
        with pytest.raises(DataError, match=said):
            vectors.evaluate(asked)


BAD = {
    "a b c\n": (read_analogies, "q.txt, line 1: 3 words where an analogy has four"),
    ": empty\n": (read_analogies, "q.txt has no analogies"),
    "a b\n": (read_similarities, "q.txt, line 1: 2 parts where there must be two words and a number"),
    "# x\na b c\n": (read_similarities, "q.txt, line 2: 'c' is not a number"),
    "# x\n": (read_similarities, "q.txt has no pairs"),
}


@pytest.mark.parametrize("text", BAD)
def test_files_of_questions_that_are_none(text, tmp_path):
    (tmp_path / "q.txt").write_text(text)
    read, said = BAD[text]
    with pytest.raises(DataError, match=said):
        read(tmp_path / "q.txt")


# What a text is to them

TEXT = "the cat sat\nthe odd cat\n\nthe dog sat on the cat\n"


def test_lines_keep_their_known_words_and_batches_have_all_of_them(tmp_path):
    words = WordTokenizer.train([TEXT], 9, least=2)
    texts = SimpleNamespace(documents=lambda part="train": [Piece(TEXT, True)], holds_out=True, text=("x",))
    store_lines(texts, words, tmp_path)
    store = Store.open(tmp_path / "train")
    spelt = [words.pieces(store["ids"][row].tolist()) for row in range(len(store))]
    assert spelt == [["the", "cat", "sat"], ["the", "cat"], ["the", "sat", "the", "cat"]]
    for size in (2, 4, 100):
        batches = line_batches(store.part(0, 3), words=size, seed=1, shuffle=False)
        found = list(batches.epoch(0))
        assert torch.cat([each.ids for each in found]).tolist() == store["ids"].flat.tolist()
        assert sum(each.target_tokens for each in found) == 9
        for each in found:
            assert len(each.lines) == len(each.ids) == each.target_tokens
    whole = next(line_batches(store, words=100, seed=1, shuffle=False).epoch(0))
    assert whole.lines.tolist() == [0, 0, 0, 1, 1, 2, 2, 2, 2]
    part = next(line_batches(store.part(1, 3), words=100, seed=1, shuffle=False).epoch(0))
    assert part.lines.tolist() == [0, 0, 1, 1, 1, 1]
    shuffled = line_batches(store, words=2, seed=1, shuffle=True)
    orders = [[each.ids.tolist() for each in shuffled.epoch(epoch)] for epoch in (0, 1, 0)]
    assert orders[0] == orders[2] != orders[1]
    assert sorted(orders[0]) == sorted(orders[1])


def test_the_end_of_a_text_is_held_out_by_lines(tmp_path):
    Store({"ids": Ragged.of([[1] * 7] * 100, np.uint16)}).save(tmp_path / "train")
    train, valid = open_lines(tmp_path, 20_000)
    assert (len(train), len(valid)) == (98, 2)  # a fiftieth
    train, valid = open_lines(tmp_path, 7)
    assert (len(train), len(valid)) == (99, 1)
    (tmp_path / "one").mkdir()
    Store({"ids": Ragged.of([[1, 2, 3]], np.uint16)}).save(tmp_path / "one" / "train")
    with pytest.raises(
        DataError, match="fewer than two known words to validate on; give more text, of more than one line"
    ):
        open_lines(tmp_path / "one", 7)


def test_pairs_come_once_an_epoch():
    columns = {"first": np.arange(9, dtype=np.int32), "second": np.arange(9, dtype=np.int32)}
    store = Store({**columns, "count": np.arange(9, dtype=np.float32)})
    found = list(cell_batches(store, words=4, seed=1, shuffle=True).epoch(0))
    assert [each.target_tokens for each in found] == [4, 4, 1]
    assert sorted(torch.cat([each.first for each in found]).tolist()) == list(range(9))
    assert all(each.first.equal(each.count.long()) for each in found)


def test_what_there_is_to_choose():
    assert [VectorData(method=each).reach for each in ("skipgram", "glove")] == [5, 10]
    assert VectorData(method="glove", window=3).reach == 3
    wrong = ({"method": "glue"}, {"sample": 2.0}, {"cutoff": 0.0}, {"window": 0}, {"valid": ("x",)}, {"negative": 0})
    for fields in wrong:
        with pytest.raises(ConfigError, match=f"data.{next(iter(fields))}"):
            VectorData(**fields)
