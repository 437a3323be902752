"""A text on its way through a model: what is shown is what the model computes, and adds up."""

import math
from functools import partial

import numpy as np
import pytest
import torch
from helpers import positions
from numpy.testing import assert_allclose

from manyheads.core.errors import ManyheadsError
from manyheads.look.grid import Grid
from manyheads.look.heads import attentions
from manyheads.look.trace import followed
from manyheads.models.bert import BertEmbedder
from manyheads.models.classifier import DecoderClassifier
from manyheads.models.heads import EncoderClassifier
from manyheads.models.llama import Llama
from manyheads.nn.positions import KINDS
from manyheads.tasks.classify.use import Classifier
from manyheads.tasks.inside import walk as walking
from manyheads.tasks.inside.walk import Walk, lecture_walk, walk_through
from manyheads.tasks.language.use import LanguageModel
from manyheads.tasks.similarity.use import Embedder
from tests.unit.tasks.tiny import ENCODER, LANGUAGE, NAMES, SECOND, TEXT, TRANSLATION, bert, gpt, made, ready


@pytest.fixture
def exact(monkeypatch):
    """Numbers with all their digits, so that sums can be checked."""
    monkeypatch.setattr(walking, "digits_for", lambda numbers: 9)


def numbers(grid: Grid) -> np.ndarray:
    return np.array([[float(cell.replace("∞", "inf")) for cell in row] for row in grid.cells])


def sections(walk: Walk, begins: str) -> list[dict[str, np.ndarray]]:
    """The matrices of each section whose title begins so, by their titles."""
    found = [section for section in walk.sections if section.title.startswith(begins)]
    return [{grid.title: numbers(grid) for row in section.rows for grid in row} for section in found]


def softmax(scores: np.ndarray) -> np.ndarray:
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


close = partial(assert_allclose, rtol=0, atol=2e-5)


def applied(module, rows: np.ndarray) -> np.ndarray:
    with torch.inference_mode():
        return module(torch.from_numpy(rows).float()).numpy()


def recomposes(task, walk: Walk, kind: str, layer: int, head: int) -> None:
    """Every step of the chosen attention follows from the one before, and so does the rest of its block."""
    part = next(part for part in attentions(task.model) if (part.kind, part.layer) == (kind, layer))
    block = task.model.get_submodule(part.name.rpartition(".")[0])
    _attention_recomposes(part.module, next(each for each in sections(walk, "Layer") if "q" in each), head)
    order = ("self_norm", "attention_norm", "cross_norm", "feedforward_norm")
    norms = [getattr(block, name) for name in order if hasattr(block, name)]
    before = "Pre" in type(block).__name__ or isinstance(task.model, Llama)
    x = None
    for norm, step in zip(norms, sections(walk, "Layer"), strict=True):
        if x is not None:
            close(step["input"], x)
        close(step["sum"], step["input"] + step["output"])
        close(step["normalised"], applied(norm, step["input"] if before else step["sum"]))
        x = step["sum"] if before else step["normalised"]
    lengths = sections(walk, "All layers")[0]
    side = {"self": "lengths", "encoder": "lengths in the encoder"}.get(kind, "lengths in the decoder")
    close(lengths[side][layer + 1], np.linalg.norm(x, axis=1))


def _attention_recomposes(module, step: dict[str, np.ndarray], head: int) -> None:
    q, k = step.get("q turned", step["q"]), step.get("k turned", step["k"])
    close(step["scores"], q @ k.T / math.sqrt(module.key_width))
    scores = step["scores"]
    if "bias" in step:
        scores = scores + step["bias"]
        close(step["scores with bias"], scores)
    if "masked" in step:
        above = np.triu(np.ones_like(scores), 1) > 0
        assert (step["masked"][above] == -np.inf).all()
        close(step["masked"][~above], scores[~above])
    assert ("masked" in step) == module.causal
    close(step["weights"], softmax(step.get("masked", scores)))
    close(step["mixed values"], step["weights"] @ step["v"])
    place = module.numbers.index(head)
    own = slice(place * module.value_width, (place + 1) * module.value_width)
    close(step["heads joined"][:, own], step["mixed values"])
    close(step["output"], applied(module.output, step["heads joined"]))


def ends_as(task, walk: Walk, ids: list[int]) -> None:
    """The candidates are the likeliest of the model's own logits."""
    with torch.inference_mode():
        chances, best = task.model(torch.tensor([ids]))[0, -1].softmax(dim=-1).topk(5)
    grid = walk.sections[-1].rows[0][0]
    assert grid.rows == [piece or "␣" for piece in task.tokenizer.pieces(best.tolist())]
    assert [cells[1] for cells in grid.cells] == [f"{chance:.4f}" for chance in chances.tolist()]


# Numbers that add up


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("order", ["pre", "post"])
def test_a_gpt_recomposes(exact, order, kind):
    task = ready("gpt", width=24, norm_order=order, positions=positions(kind, 31), scale_embeddings=order == "post")
    ids = task.encode([TEXT])[0]
    walk = walk_through(task, TEXT, layer=1, head=2)
    recomposes(task, walk, "self", 1, 2)
    ends_as(task, walk, ids)
    first = sections(walk_through(task, TEXT), "Embeddings")[0]
    with torch.inference_mode():
        close(first["embeddings"], task.model.embedding(torch.tensor(ids)).numpy())
    assert ("sum" in first) == (kind in ("sinusoidal", "learned"))
    if "sum" in first:
        close(first["sum"], first["embeddings"] + first["positions"])
    begun = first.get("sum", first["embeddings"])
    close(sections(walk_through(task, TEXT), "Layer")[0]["input"], begun)
    assert not np.allclose(sections(walk, "Layer")[0]["input"], begun)  # and the test can tell


def test_a_llama_recomposes_and_its_heads_share_keys(exact):
    task = ready("llama", key_value_heads=2)
    for head in (0, 2, 5):
        walk = walk_through(task, TEXT, layer=1, head=head)
        recomposes(task, walk, "self", 1, head)
        ends_as(task, walk, task.encode([TEXT])[0])
    keys = [sections(walk_through(task, TEXT, head=head), "Layer")[0]["k"] for head in (0, 2, 3)]
    close(keys[0], keys[1])
    assert not np.allclose(keys[1], keys[2])
    assert "3 heads share it" in walk.text()


def test_heads_keep_their_numbers_when_others_are_removed(exact):
    task = ready("gpt", positions=positions("alibi"))
    before = sections(walk_through(task, TEXT, head=2), "Layer")[0]
    task.model.blocks[0].attention.remove([0])
    walk = walk_through(task, TEXT, head=2)
    recomposes(task, walk, "self", 0, 2)
    after = sections(walk, "Layer")[0]
    close(after["weights"], before["weights"])
    assert after["heads joined"].shape[1] == before["heads joined"].shape[1] - 7
    assert "others were removed" in refused(task, head=0)


@pytest.mark.parametrize("kind", KINDS)
def test_a_bert_recomposes(exact, kind):
    task = ready("masked", width=24, positions=positions(kind, 31))
    walk = walk_through(task, "the [MASK] danced under a table", layer=1, head=1)
    recomposes(task, walk, "self", 1, 1)
    first = sections(walk, "Embeddings")[0]
    added = first.get("positions", np.zeros(()))
    assert bool(added.any()) == (kind in ("sinusoidal", "learned")) == ("P[position]" in walk.text())
    close(first["sum"], first["embeddings"] + first["segments"] + added)
    close(first["normalised"], applied(task.model.body.norm, first["sum"]))
    start = sections(walk_through(task, "the [MASK] danced under a table"), "Layer")[0]["input"]
    close(start, first["normalised"])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("order", ["pre", "post"])
def test_a_translator_recomposes(exact, order, kind):
    task = ready(
        "translator", norm_order=order, positions=positions(kind, 64), tied=order == "pre", width=24, value_width=5
    )
    for attention, layer in (("encoder", 1), ("decoder", 2), ("cross", 0)):
        walk = walk_through(task, TEXT, SECOND, attention=attention, layer=layer, head=1)
        recomposes(task, walk, attention, layer, 1)
    source = task.tokenizer.encode([TEXT])[0]
    with torch.inference_mode():
        memory = task.model.encode(torch.tensor([source]))[0][0].numpy()
    close(next(each for each in sections(walk, "Layer") if "q" in each)["memory"], memory)
    first = sections(walk, "Embeddings")[0]
    target = [TRANSLATION.id_of(token) if token == "<pad>" else token for token in walk.sections[1].rows[0][0].rows]
    assert target[0] == task.model.config.start
    with torch.inference_mode():
        started = task.model.decoder.embedding(torch.tensor([task.model.config.start])).numpy()
    close(first["embeddings"][:1], started)


def test_a_translator_shows_cross_attention_of_its_last_layer_and_the_translation():
    task = ready("translator")
    walk = walk_through(task, TEXT)
    assert "layer 2 of cross-attention" in walk.introduction.lower()
    written = task.translate([TEXT])[0]
    assert repr(written)[:60] in walk.title
    rows = walk.sections[-1].rows[0][0]
    assert rows.rows == walk.sections[0].rows[0][1].rows  # a prediction for each token that the decoder reads
    source = [piece or "␣" for piece in TRANSLATION.pieces(TRANSLATION.encode([TEXT])[0])]
    assert source == walk.sections[0].rows[0][0].rows
    weights = next(grid for grid in walk.steps if grid.title == "weights")
    assert weights.columns == source
    assert weights.note.endswith("A row is named by the token that is read; what it looks for is the next one.")
    own = next(grid for grid in walk_through(task, TEXT, attention="decoder").steps if grid.title == "weights")
    assert own.note == "Each row sums to 1."
    walk = walk_through(task, TEXT, "a table danced")  # in place of the model's own
    assert walk.title.endswith("and writes 'a table danced'")
    written = TRANSLATION.encode(["a table danced"])[0]
    read = walk.sections[0].rows[0][1]
    assert [int(row[0]) for row in read.cells] == [task.model.config.start, *written[:-1]]


def formulas(walk: Walk) -> dict[str, str]:
    return {grid.title: grid.formula for section in walk.sections[2:3] for row in section.rows for grid in row}


def test_formulas_have_the_biases_that_the_model_has():
    for task, order in ((ready("gpt"), "LayerNorm(x)"), (ready("masked"), "x")):
        found = formulas(walk_through(task, TEXT))
        assert [found[name] for name in "qkv"] == [f"{order} W_{name} + b_{name}" for name in "QKV"]
        assert found["output"].endswith("W_O + b_O")
    found = formulas(walk_through(ready("llama", key_value_heads=2), TEXT))
    assert [found[name] for name in "qkv"] == [f"RMSNorm(x) W_{name}" for name in "QKV"]
    assert found["output"].endswith("W_O")
    biased = ready("translator").model.decoder.blocks[0].cross_attention.projection.bias is not None
    section = next(each for each in walk_through(ready("translator"), TEXT, layer=0).sections if "cross" in each.title)
    found = {grid.title: grid.formula for row in section.rows for grid in row}
    assert found["k"] == "memory W_K" + (" + b_K" if biased else "")
    assert found["q"] == "x W_Q" + (" + b_Q" if biased else "")


# What is borrowed is returned


def test_the_model_is_left_as_it_was_even_where_its_run_fails():
    task = ready("gpt")
    ids = torch.tensor([task.encode([TEXT])[0]])
    before = task.model(ids)
    kernels = [part.module.kernel for part in attentions(task.model)]
    walk_through(task, TEXT)
    part = attentions(task.model)[1]
    with torch.inference_mode(), followed(task.model, part) as trace:
        assert torch.equal(task.model(ids), before)  # while it is followed too
    assert trace.kernel["mixed"].shape == (1, 3, ids.shape[1], 7)
    with pytest.raises(IndexError), followed(task.model, part) as trace:
        task.model(torch.tensor([[10_000]]))
    assert [part.module.kernel for part in attentions(task.model)] == kernels
    assert not any(module._forward_hooks for module in task.model.modules())
    assert torch.equal(task.model(ids), before)
    kept = len(trace.passages)
    task.model(ids)
    assert len(trace.passages) == kept


# What each task ends with


def last(walk: Walk) -> Grid:
    return walk.sections[-1].rows[0][-1]


def test_a_filler_ends_with_its_guesses():
    task, text = ready("masked"), "the [MASK] danced [MASK]"
    walk = walk_through(task, text, count=4)
    grids = [row[0] for row in walk.sections[-1].rows]
    for grid, guesses in zip(grids, task([text], count=4)[0], strict=True):
        assert grid.rows == [guess.word for guess in guesses]
        assert [cells[1] for cells in grid.cells] == [f"{guess.probability:.4f}" for guess in guesses]
    assert "write [MASK]" in walk_through(task, "the cat").sections[-1].text


@pytest.mark.parametrize(
    ("form", "texts"), [("text", ["the cat"]), ("pair", ["the cat", "a table"]), ("either", ["a", "table"])]
)
def test_classifiers_end_with_their_labels(form, texts):
    for task in (
        Classifier(made(EncoderClassifier(bert(), NAMES, form)), ENCODER),
        Classifier(made(DecoderClassifier(gpt(), NAMES, form)), LANGUAGE),
    ):
        expected = task.probabilities([tuple(texts) if len(texts) > 1 else texts[0]])[0]
        found = last(walk_through(task, *texts))
        assert found.formula == ("tanh(x W_p + b_p) W + b" if isinstance(task.model, EncoderClassifier) else "x W")
        assert found.rows == list(NAMES)
        assert [cells[1] for cells in found.cells] == [f"{chance:.4f}" for chance in expected.tolist()]
    numbers = ready("of numbers")
    assert last(walk_through(numbers, *(texts * 2)[:2])).cells == [[f"{numbers([tuple((texts * 2)[:2])])[0]:.4f}"]]


def test_a_tagger_ends_with_a_label_for_each_word():
    task = ready("tagger")
    found, expected = last(walk_through(task, TEXT)), task([TEXT])[0]
    assert found.rows == TEXT.split()
    assert found.cells == [[tag.label, f"{tag.probability:.4f}"] for tag in expected]


@pytest.mark.parametrize("pooling", ["mean", "cls", "max"])
def test_an_embedder_ends_with_its_vector(pooling):
    task = Embedder(BertEmbedder(made(bert(pooler=False)), pooling), ENCODER)
    found = last(walk_through(task, TEXT))
    assert_allclose(numbers(found), task([TEXT]), atol=0.0051)
    assert "1.0000" in found.note


def test_an_answerer_ends_with_its_answers():
    task = ready("answerer")
    walk = walk_through(task, "who sleeps", TEXT, count=3)
    points, answers = walk.sections[-1].rows[0]
    assert answers.rows == [span.text for span in task.best("who sleeps", TEXT, 3)]
    assert points.rows == walk.sections[0].rows[0][0].rows
    assert_allclose(numbers(points).sum(axis=0), [1, 1], atol=0.01)


# What is shown


def test_it_is_text_a_page_and_what_a_notebook_shows():
    walk = walk_through(ready("gpt"), "<b>the cat</b> & more\nlines", count=2)
    page = walk.html()
    assert page.startswith("<!doctype html>")
    assert "<b>" not in page
    assert "://" not in page  # nothing of the network
    assert walk._repr_html_() in page
    text = walk.text(80)
    assert max(map(len, text.splitlines())) <= 100
    assert all(each.title in text for each in walk.steps)
    assert len(walk.sections[-1].rows[0][0].rows) == 2
    assert lecture_walk().steps[0].title == "Q"  # walks of the lectures come from here too


def test_small_numbers_have_digits_that_show_something():
    embeddings = walk_through(LanguageModel(gpt(), LANGUAGE), TEXT).sections[1].rows[0][0]  # as it begins
    assert {len(cell.partition(".")[2]) for row in embeddings.cells for cell in row} == {3}
    assert np.count_nonzero(numbers(embeddings)) > 0.9 * numbers(embeddings).size


def test_a_text_of_one_token_can_be_walked_through():
    walk = walk_through(ready("gpt", width=24, positions=positions("rotary")), "a")
    assert next(grid for grid in walk.steps if grid.title == "weights").cells == [["1.00"]]


# What cannot be


def refused(task, text=TEXT, **how) -> str:
    with pytest.raises(ManyheadsError) as caught:
        walk_through(task, text, **how)
    return str(caught.value)


def test_attentions_that_are_not_there_and_no_candidates_are_refused():
    task = ready("gpt")
    assert refused(task, attention="cross") == "there is no attention 'cross' in this model; it has self"
    sides = "there is no attention 'self' in this model; it has cross, encoder, decoder"
    assert refused(ready("translator"), attention="self") == sides
    assert refused(ready("translator"), attention="encoder", layer=2).startswith("there is no layer 2")
    assert refused(task, count=0).startswith("0 candidates")
