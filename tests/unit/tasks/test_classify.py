from dataclasses import replace

import numpy as np
import pytest
import torch
from helpers import written
from torch.testing import assert_close

from manyheads.core.errors import ConfigError, DataError
from manyheads.data.examples import candidates_of, example_batches, example_store
from manyheads.data.readers.examples import read_examples
from manyheads.models.classifier import DecoderClassifier
from manyheads.models.gpt import GPT, GPTConfig
from manyheads.models.llama import Llama, LlamaConfig
from manyheads.tasks.classify.data import read_all, with_marks
from manyheads.tasks.classify.recipe import ExampleData
from manyheads.tasks.classify.training import resized
from manyheads.tasks.classify.use import Classifier
from manyheads.tasks.labelled import Wrapping
from manyheads.text.language import LanguageTokenizer
from manyheads.train.objectives import classification_loss, compared
from tests.unit.tasks import tiny

SIZES = {"context": 19, "width": 12, "layers": 2, "heads": 3}
WORDS = ["the", "cat", "sees", "a", "tall", "tree", "and", "sleeps"]


@pytest.fixture(scope="module")
def tokenizer() -> LanguageTokenizer:
    return with_marks(LanguageTokenizer.train(["the cat sees a tall tree and sleeps"] * 3, 290))


# Files


@pytest.mark.parametrize("name", ["a.tsv", "a.tsv.gz", "a.txt.xz"])
def test_a_header_or_none_gives_the_same_examples(tmp_path, name, capfd):
    plain = read_examples(written(tmp_path / name, 'good day\tyes\nbad "day\tno\n'))
    named = read_examples(written(tmp_path / f"b{name}", 'Label\tid\tText\nyes\t1\tgood day\nno\t2\tbad "day\n'))
    assert plain.form == named.form == "text"
    assert [(e.texts, e.label) for e in plain.examples] == [(e.texts, e.label) for e in named.examples]
    assert [example.line for example in named.examples] == [2, 3]
    assert capfd.readouterr().err == f"{named.path}: line 1 names the columns (Label, id, Text) and is left out\n"


@pytest.mark.parametrize(
    "header", ["sentence1\tsentence2\tlabel", "index\tlabel\tfirst\tsecond", "question\tlabel\tidx\tsentence"]
)
def test_pairs_are_found_by_their_header(tmp_path, header):
    cells = {"label": "yes", "sentence1": "a", "first": "a", "question": "a"}
    cells |= {"index": "7", "idx": "7", "sentence2": "b", "second": "b", "sentence": "b"}
    row = "\t".join(cells[name] for name in header.split("\t"))
    file = read_examples(written(tmp_path / "a.tsv", f"{header}\n{row}\n"))
    assert file.form == "pair"
    assert (file.examples[0].texts, file.examples[0].label) == (("a", "b"), "yes")


def test_columns_are_named_or_numbered_with_the_label_last(tmp_path):
    path = written(tmp_path / "a.tsv", "x\t1\t\tnice\ny\t0\t\tugly\n")
    assert [(e.texts, e.label) for e in read_examples(path, ("4", "2")).examples] == [
        (("nice",), "1"),
        (("ugly",), "0"),
    ]
    path = written(tmp_path / "b.tsv", "title\tstars\tbody\nwow\t5\tgreat\n")
    found = read_examples(path, ("title", "body", "stars"))
    assert [(e.texts, e.label) for e in found.examples] == [(("wow", "great"), "5")]


@pytest.mark.parametrize(
    ("name", "text", "columns", "said"),
    [
        ("a.tsv", "a\tyes\nb\n", (), "line 2: 1 column"),
        ("a.tsv", "a\tyes\nb\tc\tno\n", (), "line 2: 3 columns"),
        ("a.tsv", "a\tyes\nb\t \n", (), "line 2: the label is empty"),
        ("a.tsv", "a\tb\tc\td\n", (), "4 columns and none named label"),
        ("a.tsv", "a\tb\n", ("3", "1"), "column 3 is asked for"),
        ("a.tsv", "a\tb\n", ("text", "b"), "no column is named 'text'"),
        ("a.tsv", "index\tsentence\n0\tnice\n", (), "none is the label"),
        ("a.tsv", "label\ta\tb\tc\n1\tx\ty\tz\n", (), "not clear"),
        ("a.csv", "a,yes\n", (), "of no kind"),
        ("a.jsonl", "{}\n", (), "line 1: no field 'context'"),
        ("a.jsonl", '{"context": "a", "choices": ["b"]}\n', (), "two or more"),
        ("a.jsonl", '{"context": "a", "choices": ["b", "c"], "answer": 2}\n', (), "answer is 2"),
        ("a.tsv", "\tyes\n", (), "no example"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_by_line(tmp_path, name, text, columns, said):
    with pytest.raises(DataError, match=said) as error:
        read_examples(written(tmp_path / name, text), columns)
    assert str(tmp_path / name) in str(error.value)


def test_labels_that_cannot_be_learned_are_refused(tmp_path):
    one = written(tmp_path / "one.tsv", "a\tyes\n" * 20)
    train = written(tmp_path / "train.tsv", "a\tyes\nb\tno\n" * 10)
    other = written(tmp_path / "other.tsv", "a\tyes\nb\tperhaps\n")
    each = written(tmp_path / "each.tsv", "a\t1\nb\t2\nc\t3\n")
    with pytest.raises(DataError, match="every example has the label yes"):
        read_all(ExampleData(train=(str(one),)))
    with pytest.raises(DataError, match=r"other.tsv, line 2: the label 'perhaps'"):
        read_all(ExampleData(train=(str(train),), valid=(str(other),)))
    with pytest.raises(DataError, match="a label of its own"):
        read_all(ExampleData(train=(str(each),)))


def test_a_tenth_is_held_out_of_each_label_its_share_whatever_the_order(tmp_path, capfd):
    path = written(tmp_path / "a.tsv", "".join(f"text {each}\t{each % 2}\n" for each in range(40)) + "\t1\n")
    found = read_all(ExampleData(train=(str(path),)))
    assert sorted(example.label for example in found.valid) == ["0", "0", "1", "1"]  # every tenth line has the label 1
    assert len(found.train) == 36
    assert not set(found.valid) & set(found.train)
    assert found.about["names"] == ("0", "1")
    assert "held out for validation: 4 of 40 examples, drawn by --seed 1" in capfd.readouterr().err
    assert read_all(ExampleData(train=(str(path),)), seed=2).valid != found.valid


def test_labels_that_are_numbers_come_in_their_order(tmp_path):
    path = written(tmp_path / "a.tsv", "".join(f"a\t{each}\n" for each in (10, 9, -1, 10)) * 3)
    assert read_all(ExampleData(train=(str(path),))).about["names"] == ("-1", "9", "10")


# Tokens


def test_a_text_is_wrapped_as_published_and_as_its_tokenizer_does_elsewhere(tokenizer):
    wrapping = Wrapping(tokenizer, context=100)
    texts = ["the cat sees", "a tree <extract>", ""]
    rows = wrapping.rows([(text,) for text in texts])
    assert tokenizer.pieces(rows[0]) == ["<start>", *tokenizer.pieces(rows[0])[1:-1], "<extract>"]
    assert rows == tokenizer.encode_wrapped(texts)
    assert [row.count(tokenizer.id_of("<extract>")) for row in rows] == [1, 1, 1]
    pairs = [("the cat", "a tree"), ("sleeps", "and the tall tree sees")]
    assert wrapping.rows(pairs) == tokenizer.encode_wrapped(pairs)
    assert wrapping.cut == 0


def test_what_is_too_long_loses_the_end_of_its_first_text(tokenizer):
    wrapping = Wrapping(tokenizer, context=15)
    start, delimiter, extract = map(tokenizer.id_of, ("<start>", "<delimiter>", "<extract>"))
    long, short = "the cat sees a tree " * 9, "and sleeps"
    long_ids, short_ids = tokenizer.encode([long.strip(), short])
    single, first, second, both = wrapping.rows([(long,), (long, short), (short, long), (long, long)])
    assert single == [start, *long_ids[:13], extract]
    assert first == [start, *long_ids[: 12 - len(short_ids)], delimiter, *short_ids, extract]
    assert second == [start, *short_ids, delimiter, *long_ids[: 12 - len(short_ids)], extract]
    assert both == [start, *long_ids[:6], delimiter, *long_ids[:6], extract]
    assert wrapping.cut == 4


def test_a_context_without_place_for_a_text_is_refused(tokenizer):
    with pytest.raises(ConfigError, match="no place"):
        Wrapping(tokenizer, context=4)


# The objective


def example_batch(choice=False):
    source, counts = np.random.default_rng(3), [2, 3, 2, 4, 2] if choice else [1] * 5
    rows = [[source.integers(3, 90, source.integers(2, 17)).tolist() for _ in range(count)] for count in counts]
    return next(example_batches(example_store(rows, [0, 1, 0, 1, 0]), size=5, seed=1).epoch(0))


def test_the_loss_is_the_labels_and_half_the_language_models():
    model = DecoderClassifier(GPT(GPTConfig(vocabulary=90, **SIZES)), ("a", "b")).eval()
    batch = example_batch()
    losses, tokens = [], []
    for ids, length in zip(batch.ids, batch.lengths):
        logits = model.body(ids[None, : length - 1])[0]
        losses.append(torch.nn.functional.cross_entropy(logits, ids[1:length], reduction="sum"))
        tokens.append(length - 1)
    labels = torch.nn.functional.cross_entropy(model(batch.ids, batch.lengths), batch.labels, reduction="sum")
    found = classification_loss(model, batch, auxiliary=0.5)
    assert_close(found.total, labels + 0.5 * 5 * sum(losses) / sum(tokens))
    assert_close(found.likelihood, labels)
    assert_close(classification_loss(model, batch).total, labels)
    assert found.tokens == 5


def test_the_auxiliary_loss_reaches_where_the_labels_do_not():
    body = Llama(LlamaConfig(vocabulary=90, **SIZES))  # whose output is a matrix of its own
    model = DecoderClassifier(body, ("a", "b"))
    for auxiliary, reached in ((0.0, False), (0.5, True)):
        model.zero_grad()
        classification_loss(model, example_batch(), auxiliary=auxiliary).total.backward()
        assert (model.body.output.weight.grad is not None) == reached  # type: ignore
        assert model.score.weight.grad.abs().sum() > 0  # type: ignore


def test_choices_are_compared_with_those_of_their_own_example():
    model = DecoderClassifier(GPT(GPTConfig(vocabulary=90, **SIZES)), form="choice").eval()
    batch = example_batch(choice=True)
    scores = model(batch.ids, batch.lengths)[:, 0]
    assert batch.candidates is not None
    expected = torch.zeros(())
    for rows, label in zip(batch.candidates, batch.labels):
        rows = rows[rows >= 0]
        expected = expected - scores[rows].log_softmax(dim=0)[label]
    found = classification_loss(model, batch, auxiliary=0.5)
    assert_close(found.likelihood, expected)
    found.total.backward()
    assert all(torch.isfinite(p.grad).all() for p in model.parameters() if p.grad is not None)


def test_candidates_are_rows_one_after_another():
    assert candidates_of([2, 1, 3]).tolist() == [[0, 1, -1], [2, -1, -1], [3, 4, 5]]
    assert compared(torch.arange(6.0)[:, None], candidates_of([2, 1, 3]))[1].softmax(dim=0).tolist() == [1, 0, 0]


# Models


@pytest.mark.parametrize(
    "model",
    [
        GPT(GPTConfig(vocabulary=23, **SIZES)),
        GPT(GPTConfig(vocabulary=23, tied=False, norm_order="post", **SIZES)),
        Llama(LlamaConfig(vocabulary=23, **SIZES)),
        Llama(LlamaConfig(vocabulary=23, tied=True, **SIZES)),
    ],
)
def test_a_grown_model_says_the_same_of_the_tokens_it_knew(model):
    larger = resized(model, replace(model.config, vocabulary=26)).eval()
    ids = torch.randint(0, 23, (2, 7))
    assert_close(larger(ids)[..., :23], model.eval()(ids))
    assert larger.embedding.weight.shape == (26, 12)
    assert (larger.output.weight is larger.embedding.weight) == model.config.tied
    assert 0 < larger.embedding.weight[23:].std() < 0.1
    assert resized(model, model.config) is model


@pytest.mark.parametrize("decoder", [False, True])
@pytest.mark.parametrize("name", ["classifier", "of pairs", "of choices"])
def test_a_label_is_the_likeliest_and_probabilities_sum_to_one_and_are_as_alone(name, decoder):
    model = tiny.ready(name)
    if decoder:
        model = Classifier(tiny.made(DecoderClassifier(tiny.gpt(), model.names, model.model.form)), tiny.LANGUAGE)
    texts = ["", *(" ".join(WORDS[first : first + length]) for first in range(4) for length in (1, 2, 4))]
    examples = {
        "of pairs": list(zip(texts, reversed(texts))),
        "of choices": [(text, texts[place : place + 2 + place % 3]) for place, text in enumerate(texts[:10])],
    }.get(name, texts)
    together, labels = model.probabilities(examples), model(examples)
    assert_close(together.sum(dim=1), torch.ones(len(examples)))
    assert together.std(dim=0).max() > 0.01  # and the test can tell
    assert [label.index for label in labels] == together.argmax(dim=1).tolist()
    assert [label.probability for label in labels] == together.max(dim=1).values.tolist()
    for label, row, example in zip(labels, together, examples):
        names = example[1] if name == "of choices" else model.names
        assert label.name == names[label.index]
        assert not row[len(names) :].any()
        assert_close(model.probabilities([example])[0], row[: len(names)])
    assert model.probabilities([]).shape == (0, 1 if name == "of choices" else 3)
