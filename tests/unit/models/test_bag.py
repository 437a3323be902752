"""A bag of words counts as scikit-learn does, and knows nothing of order or of padding."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from manyheads.core.errors import ConfigError
from manyheads.data.batches import padded
from manyheads.data.ragged import Ragged
from manyheads.models.bag import BagClassifier, BagConfig, inverse_document_frequency
from manyheads.tasks.classify.words import WORD_FAMILIES, neighbours, texts_having, texts_of_labels_having
from manyheads.text.words import WordTokenizer, words_of

TEXTS = [
    "the cat saw the dog and the dog saw the cat",
    "a dog , a cat , and no bird",
    "the bird saw a film",
    "a film saw nobody !",
    "the cat and the dog and the cat",
]
NAMES = ("bad", "good")


class Stored(dict):
    """As much of a store of examples as a family asks for."""

    def __len__(self) -> int:
        return len(self["ids"])


def made(names=NAMES, **changes) -> tuple[BagClassifier, WordTokenizer]:
    tokenizer = WordTokenizer.train(TEXTS, 100)
    config = BagConfig(**{"ngrams": 1, "weighting": "counts", "dropout": 0.0, "hidden": 7, **changes})
    stored = Stored(ids=Ragged.of(tokenizer.encode(TEXTS)), labels=np.array([0, 1, 1, 0, 1]))
    torch.manual_seed(3)
    model = WORD_FAMILIES["bag"].build(config, tokenizer, stored, names)
    for parameter in model.parameters():
        parameter.data.add_(0.3 * torch.randn_like(parameter))
    return model.eval(), tokenizer


def dense(model: BagClassifier, tokenizer: WordTokenizer, texts: list[str]) -> torch.Tensor:
    """[B, F]: the bag as one long vector."""
    features, values = model.bag(*padded(tokenizer.encode(texts)))
    return torch.zeros(len(texts), model.table.shape[0]).scatter_add(1, features, values)


@pytest.mark.parametrize("ngrams", [1, 2])
@pytest.mark.parametrize("weighting", ["counts", "tfidf"])
def test_the_bag_is_scikit_learn_s(weighting, ngrams):
    text = pytest.importorskip("sklearn.feature_extraction.text", reason="scikit-learn is not installed")
    model, tokenizer = made(weighting=weighting, ngrams=ngrams)
    words = [" ".join(tokenizer.pieces(model.name_of(each))) for each in range(2, model.table.shape[0])]
    kind = text.CountVectorizer if weighting == "counts" else text.TfidfVectorizer
    theirs = kind(tokenizer=words_of, token_pattern=None, ngram_range=(1, ngrams), vocabulary=words)
    theirs.fit(TEXTS)
    unseen = [*TEXTS, "the cat saw an owl , the cat saw no bird", "dog dog dog"]
    expected = torch.from_numpy(theirs.transform(unseen).toarray()).float()
    assert_close(dense(model, tokenizer, unseen)[:, 2:], expected)
    assert (expected > 0).any(dim=0).sum() == len(words)  # and the test can tell


@pytest.mark.parametrize("labels", [[0, 1, 1, 0, 1], [0, 2, 1, 0, 1]])
def test_weights_begin_as_those_of_scikit_learn_s_naive_bayes(labels):
    sklearn = pytest.importorskip("sklearn.naive_bayes", reason="scikit-learn is not installed")
    tokenizer, names = WordTokenizer.train(TEXTS, 100), ("bad", "good", "neither")[: max(labels) + 1]
    stored = Stored(ids=Ragged.of(tokenizer.encode(TEXTS)), labels=np.array(labels))
    config = BagConfig(weighting="binary", least=1)
    model = WORD_FAMILIES["bag"].build(config, tokenizer, stored, names).eval()
    assert [*model.pairs.shape] == [23, 2]
    prior = (np.bincount(labels) + 1) / (np.bincount(labels) + 1).sum()  # of as many labels as of anything
    theirs = sklearn.MultinomialNB(class_prior=prior).fit(dense(model, tokenizer, TEXTS)[:, 2:].numpy(), labels)
    unseen = [*TEXTS, "the cat saw an owl , the cat saw no bird", "dog dog dog"]
    expected = theirs.predict_proba(dense(model, tokenizer, unseen)[:, 2:].numpy())
    found = model(*padded(tokenizer.encode(unseen))).softmax(dim=1)
    assert_close(found, torch.from_numpy(expected).float(), rtol=1e-4, atol=1e-5)
    assert dense(model, tokenizer, unseen).max() == 1  # whether, not how often
    assert not torch.allclose(found[0], found[2], atol=0.05)


def test_pairs_of_neighbours_are_those_that_occur_twice_and_never_cross_texts():
    tokenizer = WordTokenizer.train(TEXTS, 100)
    rows = Ragged.of(tokenizer.encode(TEXTS))
    config = BagConfig(vocabulary=len(tokenizer))
    named = [" ".join(tokenizer.pieces(pair)) for pair in neighbours(rows, config).astype(int).tolist()]
    words = [words_of(text) for text in TEXTS]
    all_pairs = [" ".join(pair) for each in words for pair in itertools.pairwise(each)]
    assert sorted(named) == sorted({pair for pair in all_pairs if all_pairs.count(pair) >= 2})
    (most,) = neighbours(rows, replace(config, bigrams=1)).astype(int).tolist()
    assert tokenizer.pieces(most) == ["the", "cat"]
    assert len(neighbours(rows, replace(config, least=1))) == len({*all_pairs})


def test_a_label_without_texts_has_no_features():
    model, tokenizer = made(names=("bad", "good", "none"))
    stored = Stored(ids=Ragged.of(tokenizer.encode(TEXTS)), labels=np.array([0, 1, 1, 0, 1]))
    having, texts = texts_of_labels_having(model, stored)
    assert texts.tolist() == [2, 3, 0]
    assert having[:2].sum(dim=0).equal(texts_having(model, stored["ids"]))
    assert not having[2].any()


@pytest.mark.parametrize("layers", [0, 1, 2])
@pytest.mark.parametrize("weighting", ["binary", "counts", "tfidf"])
def test_padding_changes_nothing(layers, weighting):
    model, tokenizer = made(layers=layers, ngrams=2, weighting=weighting)
    rows = tokenizer.encode(TEXTS)
    together = model(*padded(rows, fill=5))
    alone = torch.cat([model(*padded([row])) for row in rows])
    assert_close(together, alone)
    longer = padded(rows, fill=5)[0]
    assert not torch.allclose(model(longer, torch.full((5,), longer.shape[1])), alone)  # and the test can tell


def test_the_order_of_words_changes_nothing_unless_pairs_are_counted():
    for ngrams, same in ((1, True), (2, False)):
        model, tokenizer = made(ngrams=ngrams)
        (row,) = tokenizer.encode(TEXTS[:1])
        before, after = model(*padded([row])), model(*padded([row[::-1]]))
        assert torch.equal(before, after) is same


def test_unknown_words_and_an_empty_text_are_in_no_bag():
    model, tokenizer = made()
    known, unknown = (model(*padded(tokenizer.encode([text]))) for text in ("the cat", "the zebra cat zebra"))
    assert torch.equal(known, unknown)
    empty = model(torch.tensor([[0]]), torch.tensor([1]))
    assert_close(empty, torch.cat([torch.zeros(1, 1), model.bias[None]], dim=1))


def test_two_labels_have_one_score_and_three_have_three():
    assert made()[0](*padded([[3, 4]]))[0, 0] == 0
    model, _ = made(names=("a", "b", "c"))
    assert model(*padded([[3, 4]])).shape == (1, 3)
    assert made(names=())[0](*padded([[3, 4], [5]])).shape == (2, 1)


@pytest.mark.parametrize("layers", [0, 1, 2])
def test_every_weight_that_a_text_touches_has_a_gradient(layers):
    model, tokenizer = made(layers=layers, weighting="tfidf", ngrams=2)
    ids, lengths = padded(tokenizer.encode(TEXTS))
    torch.nn.functional.cross_entropy(model(ids, lengths), torch.tensor([0, 1, 0, 1, 1])).backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().sum() > 0, name
    assert not model.table.grad[:2].any()  # those of padding and of the unknown


def test_how_rare_a_word_is():
    model, tokenizer = made(weighting="tfidf")
    rows = Ragged.of(tokenizer.encode(TEXTS))
    having = texts_having(model, rows)
    assert having[tokenizer.id_of("cat")] == 3
    assert_close(model.idf, inverse_document_frequency(5, having))
    assert float(model.idf[tokenizer.id_of("cat")]) == pytest.approx(1 + torch.log(torch.tensor(6 / 4)).item())


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"weighting": "bm25"}, "binary, counts, tfidf"),
        ({"ngrams": 3}, "at most 2"),
        ({"ngrams": 0}, "at least 1"),
        ({"layers": 3}, "at most 2"),
        ({"layers": -1}, "not below 0"),
        ({"hidden": 0}, "at least 1"),
        ({"bigrams": 0}, "at least 1"),
        ({"dropout": 1.0}, "below 1"),
    ],
)
def test_what_cannot_be_is_refused(changes, said):
    with pytest.raises(ConfigError, match=said):
        BagConfig(**changes)
