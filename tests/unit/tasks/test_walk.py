"""A text on its way through a model: what is shown is what the model computes, and adds up."""

import math
import re
from functools import partial

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

from manyheads.core.errors import CheckpointError, ConfigError, DataError, ManyheadsError
from manyheads.interop.directory import save_model
from manyheads.look.grid import Grid
from manyheads.look.parts import attentions
from manyheads.look.trace import followed
from manyheads.models.bert import (
    Bert,
    BertAnswerer,
    BertClassifier,
    BertConfig,
    BertEmbedder,
    BertTagger,
    MaskedBert,
)
from manyheads.models.classifier import DecoderClassifier
from manyheads.models.gpt import GPT, GPTConfig
from manyheads.models.llama import Llama, LlamaConfig
from manyheads.models.transformer import Transformer, TransformerConfig
from manyheads.nn.positions import KINDS, PositionsConfig
from manyheads.tasks.answer.use import Answerer
from manyheads.tasks.classify.use import Classifier
from manyheads.tasks.inside import walk as walking
from manyheads.tasks.inside.walk import Walk, lecture_walk, walk_through
from manyheads.tasks.language.use import LanguageModel
from manyheads.tasks.masked.use import Filler
from manyheads.tasks.similarity.use import Embedder
from manyheads.tasks.tag.use import Tagger
from manyheads.tasks.translate.use import Translator
from manyheads.text.encoder import EncoderTokenizer
from manyheads.text.language import LanguageTokenizer
from manyheads.text.tokenizer import Tokenizer

TEXT = "the cat sees a tall tree and sleeps"
SIZES = {"width": 12, "layers": 2}
NAMES = ("bad", "fair", "good")


def randomised(model):
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return model.eval()


@pytest.fixture(scope="module")
def language() -> LanguageTokenizer:
    return LanguageTokenizer.train([TEXT] * 3, 280)


@pytest.fixture(scope="module")
def encoder() -> EncoderTokenizer:
    return EncoderTokenizer.train([TEXT] * 3, 60)


@pytest.fixture(scope="module")
def pairs() -> Tokenizer:
    return Tokenizer.train([TEXT] * 3, 280)


def gpt(tokenizer, **changes) -> LanguageModel:
    config = {**SIZES, "heads": 3, "context": 29, "vocabulary": len(tokenizer), "end": tokenizer.end, **changes}
    return LanguageModel(randomised(GPT(GPTConfig(**config))), tokenizer)


def llama(tokenizer) -> LanguageModel:
    config = {**SIZES, "heads": 6, "key_value_heads": 2, "inner": 17, "context": 29, "vocabulary": len(tokenizer)}
    return LanguageModel(randomised(Llama(LlamaConfig(end=tokenizer.end, **config))), tokenizer)


def bert(tokenizer, **changes) -> BertConfig:
    return BertConfig(
        **{
            **SIZES,
            "heads": 3,
            "context": 29,
            "vocabulary": len(tokenizer),
            "separator": tokenizer.separator,
            **changes,
        }
    )


def filler(tokenizer) -> Filler:
    return Filler(randomised(MaskedBert(bert(tokenizer))), tokenizer)


def translator(tokenizer, **changes) -> Translator:
    ids = {"pad": tokenizer.pad, "start": tokenizer.start, "end": tokenizer.end, "vocabulary": len(tokenizer)}
    config = {**SIZES, "decoder_layers": 3, "heads": 3, "value_width": 5, "inner": 17, **ids, **changes}
    return Translator(randomised(Transformer(TransformerConfig(**config))), tokenizer)


def positions(kind: str) -> PositionsConfig:
    return PositionsConfig(kind=kind, length=64)


@pytest.fixture
def exact(monkeypatch):
    """Numbers with all their digits, so that sums can be checked."""
    monkeypatch.setattr(walking, "_digits", lambda numbers: 9)


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
def test_a_gpt_recomposes(exact, language, order, kind):
    task = gpt(language, norm_order=order, positions=positions(kind), scale_embeddings=order == "post")
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


def test_a_llama_recomposes_and_its_heads_share_keys(exact, language):
    task = llama(language)
    for head in (0, 2, 5):
        walk = walk_through(task, TEXT, layer=1, head=head)
        recomposes(task, walk, "self", 1, head)
        ends_as(task, walk, task.encode([TEXT])[0])
    keys = [sections(walk_through(task, TEXT, head=head), "Layer")[0]["k"] for head in (0, 2, 3)]
    close(keys[0], keys[1])
    assert not np.allclose(keys[1], keys[2])
    assert "3 heads share it" in walk.text()


def test_heads_keep_their_numbers_when_others_are_removed(exact, language):
    task = gpt(language, positions=positions("alibi"))
    before = sections(walk_through(task, TEXT, head=2), "Layer")[0]
    task.model.blocks[0].attention.remove([0])
    walk = walk_through(task, TEXT, head=2)
    recomposes(task, walk, "self", 0, 2)
    after = sections(walk, "Layer")[0]
    close(after["weights"], before["weights"])
    assert after["heads joined"].shape[1] == before["heads joined"].shape[1] - 4
    assert "others were removed" in refused(task, head=0)


def test_a_bert_recomposes(exact, encoder):
    task = filler(encoder)
    walk = walk_through(task, "the [MASK] sees a tree", layer=1, head=1)
    recomposes(task, walk, "self", 1, 1)
    first = sections(walk, "Embeddings")[0]
    close(first["sum"], first["embeddings"] + first["segments"] + first["positions"])
    close(first["normalised"], applied(task.model.body.norm, first["sum"]))
    start = sections(walk_through(task, "the [MASK] sees a tree"), "Layer")[0]["input"]
    close(start, first["normalised"])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("order", ["pre", "post"])
def test_a_translator_recomposes(exact, pairs, order, kind):
    task = translator(pairs, norm_order=order, positions=positions(kind), tied=order == "pre")
    for attention, layer in (("encoder", 1), ("decoder", 2), ("cross", 0)):
        walk = walk_through(task, TEXT, attention=attention, layer=layer, head=1)
        recomposes(task, walk, attention, layer, 1)
    source = task.tokenizer.encode([TEXT])[0]
    with torch.inference_mode():
        memory = task.model.encode(torch.tensor([source]))[0][0].numpy()
    close(next(each for each in sections(walk, "Layer") if "q" in each)["memory"], memory)
    first = sections(walk, "Embeddings")[0]
    target = [pairs.id_of(token) if token == "<pad>" else token for token in walk.sections[1].rows[0][0].rows]
    assert target[0] == task.model.config.start
    with torch.inference_mode():
        started = task.model.decoder.embedding(torch.tensor([task.model.config.start])).numpy()
    close(first["embeddings"][:1], started)


def test_a_translator_shows_cross_attention_of_its_last_layer_and_the_translation(pairs):
    task = translator(pairs)
    walk = walk_through(task, TEXT)
    assert "layer 2 of cross-attention" in walk.introduction.lower()
    written = task.translate([TEXT])[0]
    assert repr(written)[:60] in walk.title
    rows = walk.sections[-1].rows[0][0]
    assert rows.rows == walk.sections[0].rows[0][1].rows  # a prediction for each token that the decoder reads
    source = [piece or "␣" for piece in pairs.pieces(pairs.encode([TEXT])[0])]
    assert source == walk.sections[0].rows[0][0].rows
    weights = next(grid for grid in walk.steps if grid.title == "weights")
    assert weights.columns == source
    assert weights.note.endswith("A row is named by the token that is read; what it looks for is the next one.")
    own = next(grid for grid in walk_through(task, TEXT, attention="decoder").steps if grid.title == "weights")
    assert own.note == "Each row sums to 1."


def test_a_translation_that_is_given_is_walked_through_in_place_of_the_model_s_own(pairs):
    task = translator(pairs)
    walk = walk_through(task, TEXT, "a tall cat")
    assert walk.title.endswith("and writes 'a tall cat'")
    written = pairs.encode(["a tall cat"])[0]
    read = walk.sections[0].rows[0][1]
    assert [int(row[0]) for row in read.cells] == [task.model.config.start, *written[:-1]]


def formulas(walk: Walk) -> dict[str, str]:
    return {grid.title: grid.formula for section in walk.sections[2:3] for row in section.rows for grid in row}


def test_formulas_have_the_biases_that_the_model_has(language, encoder, pairs):
    for task, order in ((gpt(language), "LayerNorm(x)"), (filler(encoder), "x")):
        found = formulas(walk_through(task, TEXT))
        assert [found[name] for name in "qkv"] == [f"{order} W_{name} + b_{name}" for name in "QKV"]
        assert found["output"].endswith("W_O + b_O")
    found = formulas(walk_through(llama(language), TEXT))
    assert [found[name] for name in "qkv"] == [f"RMSNorm(x) W_{name}" for name in "QKV"]
    assert found["output"].endswith("W_O")
    biased = translator(pairs).model.decoder.blocks[0].cross_attention.projection.bias is not None
    section = next(each for each in walk_through(translator(pairs), TEXT, layer=0).sections if "cross" in each.title)
    found = {grid.title: grid.formula for row in section.rows for grid in row}
    assert found["k"] == "memory W_K" + (" + b_K" if biased else "")
    assert found["q"] == "x W_Q" + (" + b_Q" if biased else "")


# What is borrowed is returned


def test_the_model_is_left_as_it_was_even_where_its_run_fails(language):
    task = gpt(language)
    ids = torch.tensor([task.encode([TEXT])[0]])
    before = task.model(ids)
    kernels = [part.module.kernel for part in attentions(task.model)]
    walk_through(task, TEXT)
    part = attentions(task.model)[0]
    with pytest.raises(IndexError), followed(task.model, part) as trace:
        task.model(torch.tensor([[10_000]]))
    assert [part.module.kernel for part in attentions(task.model)] == kernels
    assert not any(module._forward_hooks for module in task.model.modules())
    assert torch.equal(task.model(ids), before)
    kept = len(trace.passages)
    task.model(ids)
    assert len(trace.passages) == kept


def test_the_output_while_followed_is_the_model_s_own(language):
    task = gpt(language)
    ids = torch.tensor([task.encode([TEXT])[0]])
    with torch.inference_mode(), followed(task.model, attentions(task.model)[1]) as trace:
        found = task.model(ids)
    with torch.inference_mode():
        assert torch.equal(found, task.model(ids))
    assert trace.kernel["mixed"].shape == (1, 3, ids.shape[1], 4)


# What each task ends with


def last(walk: Walk) -> Grid:
    return walk.sections[-1].rows[0][-1]


def test_a_filler_ends_with_its_guesses(encoder):
    task, text = filler(encoder), "the [MASK] sees [MASK]"
    walk = walk_through(task, text, count=4)
    grids = [row[0] for row in walk.sections[-1].rows]
    for grid, guesses in zip(grids, task([text], count=4)[0], strict=True):
        assert grid.rows == [guess.word for guess in guesses]
        assert [cells[1] for cells in grid.cells] == [f"{guess.probability:.4f}" for guess in guesses]
    assert "write [MASK]" in walk_through(task, "the cat").sections[-1].text


@pytest.mark.parametrize(
    ("form", "texts"), [("text", ["the cat"]), ("pair", ["the cat", "a tree"]), ("either", ["a", "tree"])]
)
def test_classifiers_end_with_their_labels(encoder, language, form, texts):
    body = GPT(GPTConfig(**SIZES, heads=3, context=29, vocabulary=len(language)))
    for task in (
        Classifier(randomised(BertClassifier(Bert(bert(encoder)), NAMES, form)), encoder),
        Classifier(randomised(DecoderClassifier(body, NAMES, form)), language),
    ):
        expected = task.probabilities([tuple(texts) if len(texts) > 1 else texts[0]])[0]
        found = last(walk_through(task, *texts))
        assert found.formula == ("tanh(x W_p + b_p) W + b" if isinstance(task.model, BertClassifier) else "x W")
        assert found.rows == list(NAMES)
        assert [cells[1] for cells in found.cells] == [f"{chance:.4f}" for chance in expected.tolist()]


@pytest.mark.parametrize("text", ["the [MASK] sees [SEP]", "  a cat "])
def test_a_classifier_s_text_is_only_ever_text(encoder, text):
    task = Classifier(randomised(BertClassifier(Bert(bert(encoder)), NAMES)), encoder)
    expected = task.probabilities([text])[0].tolist()
    walk = walk_through(task, text)
    assert [cells[1] for cells in last(walk).cells] == [f"{chance:.4f}" for chance in expected]
    ids = [int(row[0]) for row in walk.sections[0].rows[0][0].cells]
    assert encoder.mask not in ids
    assert ids.count(encoder.separator) == 1


def test_a_model_of_numbers_ends_with_one(encoder):
    task = Classifier(randomised(BertClassifier(Bert(bert(encoder)))), encoder)
    assert last(walk_through(task, TEXT)).cells == [[f"{task([TEXT])[0]:.4f}"]]


def test_a_tagger_ends_with_a_label_for_each_word(encoder):
    task = Tagger(randomised(BertTagger(Bert(bert(encoder), pooler=False), NAMES)), encoder)
    found, expected = last(walk_through(task, TEXT)), task([TEXT])[0]
    assert found.rows == TEXT.split()
    assert found.cells == [[tag.label, f"{tag.probability:.4f}"] for tag in expected]


@pytest.mark.parametrize("pooling", ["mean", "cls", "max"])
def test_an_embedder_ends_with_its_vector(encoder, pooling):
    task = Embedder(BertEmbedder(randomised(Bert(bert(encoder), pooler=False)), pooling), encoder)
    found = last(walk_through(task, TEXT))
    assert_allclose(numbers(found), task([TEXT]), atol=0.0051)
    assert "1.0000" in found.note


def test_an_answerer_ends_with_its_answers(encoder):
    task = Answerer(randomised(BertAnswerer(Bert(bert(encoder), pooler=False))), encoder)
    walk = walk_through(task, "who sleeps", TEXT, count=3)
    points, answers = walk.sections[-1].rows[0]
    assert answers.rows == [span.text for span in task.best("who sleeps", TEXT, 3)]
    assert points.rows == walk.sections[0].rows[0][0].rows
    assert_allclose(numbers(points).sum(axis=0), [1, 1], atol=0.01)


def test_a_directory_is_opened_as_what_it_holds(tmp_path, language, encoder, pairs):
    for name, task, text in (
        ("gpt", gpt(language), TEXT),
        ("llama", llama(language), TEXT),
        ("translator", translator(pairs, value_width=None), TEXT),
        ("masked", filler(encoder), "the [MASK]"),
        ("embedder", Embedder(BertEmbedder(randomised(Bert(bert(encoder), pooler=False))), encoder), TEXT),
    ):
        save_model(tmp_path / name, task.model, task.tokenizer, "")
        assert walk_through(tmp_path / name, text, device="cpu").text() == walk_through(task, text).text()


# What is shown


def test_it_is_text_a_page_and_what_a_notebook_shows(language):
    walk = walk_through(gpt(language), "<b>the cat</b> & more\nlines", count=2)
    page = walk.html()
    assert page.startswith("<!doctype html>")
    assert "<b>" not in page
    assert "://" not in page  # nothing of the network
    assert walk._repr_html_() in page
    text = walk.text(80)
    assert max(map(len, text.splitlines())) <= 100
    assert [str(each.title) in text for each in walk.steps] == [True] * len(walk.steps)
    assert len(walk.sections[-1].rows[0][0].rows) == 2


def test_small_numbers_have_digits_that_show_something(language):
    model = GPT(GPTConfig(**SIZES, heads=3, context=29, vocabulary=len(language), end=language.end))  # as it begins
    embeddings = walk_through(LanguageModel(model, language), TEXT).sections[1].rows[0][0]
    assert {len(cell.partition(".")[2]) for row in embeddings.cells for cell in row} == {3}
    assert np.count_nonzero(numbers(embeddings)) > 0.9 * numbers(embeddings).size


def test_a_text_of_one_token_can_be_walked_through(language):
    walk = walk_through(gpt(language, positions=positions("rotary")), "a")
    assert next(grid for grid in walk.steps if grid.title == "weights").cells == [["1.00"]]


def test_walks_of_the_lectures_come_from_here_too():
    assert lecture_walk().steps[0].title == "Q"


# What cannot be


def refused(task, text=TEXT, **how) -> str:
    with pytest.raises(ManyheadsError) as caught:
        walk_through(task, text, **how)
    return str(caught.value)


def test_layers_heads_and_attentions_that_are_not_there_are_refused(language, pairs):
    task = gpt(language)
    for how, what in (({"layer": 2}, "layer 2"), ({"layer": -1}, "layer -1"), ({"head": 3}, "head 3")):
        said = refused(task, **how)
        assert said.startswith(f"there is no {what}")
        assert re.search(r"has (2|3), counted from 0$", said)  # how many there are
    assert refused(task, attention="cross") == "there is no attention 'cross' in this model; it has self"
    sides = "there is no attention 'self' in this model; it has cross, encoder, decoder"
    assert refused(translator(pairs), attention="self") == sides
    assert refused(translator(pairs), attention="encoder", layer=2).startswith("there is no layer 2")
    assert refused(task, count=0).startswith("0 candidates")


def test_texts_that_a_model_cannot_read_are_refused_with_both_numbers(language, encoder, pairs):
    long = " ".join([TEXT] * 9)
    tagger = Tagger(randomised(BertTagger(Bert(bert(encoder), pooler=False), NAMES)), encoder)
    classifier = Classifier(randomised(BertClassifier(Bert(bert(encoder)), NAMES)), encoder)
    short = translator(pairs, positions=PositionsConfig(kind="learned", length=29))
    for task in (gpt(language), filler(encoder), tagger, classifier, short):
        said = refused(task, long)
        assert "29" in said
        assert "tokens" in said
        assert "shorten it" in said
    assert refused(gpt(language), " \n") == "the text is empty; give a sentence behind the model, in quotes"
    answerer = Answerer(randomised(BertAnswerer(Bert(bert(encoder), pooler=False))), encoder)
    assert refused(answerer, TEXT).endswith("reads a question and a text; give the text behind the question")


def test_what_is_no_model_is_refused(tmp_path):
    with pytest.raises(CheckpointError, match="does not exist"):
        walk_through(tmp_path / "nothing", TEXT)
    with pytest.raises(ConfigError, match="is no model to look into"):
        walk_through(7, TEXT)
    with pytest.raises(DataError, match="is empty"):
        walk_through(gpt(LanguageTokenizer.train([TEXT], 280)), "")
