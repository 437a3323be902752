"""What each head is worth: measured as the model is evaluated, one head off at a time, the one most missed first."""

import io
import json
from dataclasses import replace
from itertools import permutations
from pathlib import Path

import pytest
import torch
from rich.console import Console

from manyheads.core import log
from manyheads.core.errors import ConfigError, DataError
from manyheads.interop.directory import load_model
from manyheads.look.heads import attentions, heads_off
from manyheads.models.heads import EncoderTagger
from manyheads.ops.attention import sdpa
from manyheads.tasks.classify.use import Classifier
from manyheads.tasks.inside.importance import (
    HeadImportance,
    Importance,
    Measure,
    importance_picture,
    measure_of,
    rank_heads,
)
from manyheads.tasks.inside.prune import prune
from manyheads.tasks.translate.use import Translator, score
from tests.unit.tasks.tiny import MAKERS, TRANSLATION, bert, gpt, made, saved, transformer

PAIRS = [
    ("a dog sleeps under the table", "ein Hund schläft unter dem Tisch"),
    ("the cat danced", "die Katze tanzte"),
    ("a cat sleeps", "eine Katze schläft"),
]
LINES = [line for pair in PAIRS for line in pair] * 3
LABELS = ("bad", "good")
USELESS = 1  # the head of the last layer that is made so
MEASURES = {"tagger": "accuracy", "answerer": "F1", "embedder": "Spearman"}
SCORED = [name for name in MAKERS if name != "encoder"]
every_model = pytest.mark.parametrize("name", SCORED)


@pytest.fixture(scope="module")
def models(tmp_path_factory) -> dict[str, Path]:
    """Each with a head of its last layer whose output nothing reads."""
    folder, found = tmp_path_factory.mktemp("models"), {}
    special = {"tagger": EncoderTagger(bert(pooler=False), ("O", "B-X")), "translator": transformer(decoder_layers=2)}
    for name in SCORED:
        model = made(special.get(name, name), scale=0.4)
        module = attentions(model)[-1].module
        module.output.weight.data.unflatten(1, (module.heads, -1))[:, USELESS] = 0.0
        found[name] = saved(folder / name, model)
    return found


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> dict[str, dict]:
    """What each model is measured on."""
    folder = tmp_path_factory.mktemp("data")
    words = "a O\ndog B-X\nsleeps O\n\nthe O\ncat B-X\ndanced O\n"
    context = "a dog sleeps under the table and the cat danced"
    answers = {"text": "the cat", "answer_start": context.index("the cat")}
    asked = [
        {"id": str(number), "question": question, "answers": [answers]}
        for number, question in enumerate(("who danced", "who sleeps", "a cat"))
    ]
    files = {
        "source.txt": "".join(f"{one}\n" for one, _ in PAIRS),
        "target.txt": "".join(f"{other}\n" for _, other in PAIRS),
        "pairs.jsonl": "".join(json.dumps({"source": one, "target": other}) + "\n" for one, other in PAIRS),
        "text.txt": ". ".join(line for line in LINES) + ".\n",
        "labels.tsv": "text\tlabel\n" + "".join(f"{one}\t{LABELS[len(one) % 2]}\n" for one in LINES[:5]),
        "pairs.tsv": "sentence1\tsentence2\tlabel\n" + "".join(f"{one}\t{two}\tgood\n" for one, two in PAIRS),
        "numbers.tsv": "sentence1\tsentence2\tscore\n"
        + "".join(f"{one}\t{two}\t{number}.5\n" for number, (one, two) in enumerate([*PAIRS, ("a dog", "the table")])),
        "choices.jsonl": "".join(
            json.dumps({"context": one, "choices": [two, "the table"], "answer": number % 2}) + "\n"
            for number, (one, two) in enumerate(PAIRS)
        ),
        "tags.txt": words,
        "questions.json": json.dumps({"data": [{"title": "x", "paragraphs": [{"context": context, "qas": asked}]}]}),
    }
    for name, content in files.items():
        (folder / name).write_text(content, encoding="utf-8")
    text, labels = {"text": [str(folder / "text.txt")]}, {"data": [folder / "labels.tsv"]}
    return {
        "translator": {"source": [folder / "source.txt"], "target": [folder / "target.txt"]},
        **{"gpt": text, "llama": text, "masked": text, "classifier": labels, "decoder's classifier": labels},
        "of pairs": {"data": [folder / "pairs.tsv"]},
        **{"of numbers": {"data": [folder / "numbers.tsv"]}, "embedder": {"data": [folder / "numbers.tsv"]}},
        "of choices": {"data": [folder / "choices.jsonl"]},
        "tagger": {"data": [folder / "tags.txt"]},
        "answerer": {"data": [folder / "questions.json"]},
        "as pairs": {"pairs": [folder / "pairs.jsonl"]},
    }


def useless_in(importance: Importance, name: str) -> HeadImportance:
    kind = "cross" if name == "translator" else "self"
    return next(head for head in importance.heads if (head.kind, head.layer, head.head) == (kind, 1, USELESS))


# Ranking


@every_model
def test_a_head_that_nothing_reads_is_not_missed_and_stands_between_good_and_bad(models, data, name):
    measure = measure_of(models[name], **data[name], device="cpu")
    assert measure.name == MEASURES.get(name, "loss")
    assert measure.more_is_better == (name in MEASURES)
    found = rank_heads(measure)
    assert found.measure == measure.name
    useless = useless_in(found, name)
    assert (useless.lost, useless.score) == (0.0, found.whole)
    losses = [head.lost for head in found.heads]
    assert losses == sorted(losses, reverse=True)
    assert losses.index(0.0) <= found.heads.index(useless)
    numbers = {head for part in attentions(measure.network) for head in [(part.kind, part.layer)] * part.module.heads}
    assert {(head.kind, head.layer) for head in found.heads} == numbers
    assert len(found.heads) == sum(part.module.heads for part in attentions(measure.network))
    if name not in MEASURES:  # which a few examples decide
        assert sum(lost == 0.0 for lost in losses) == 1


@every_model
def test_each_score_is_that_of_the_model_with_the_head_off(models, data, name):
    measure = measure_of(models[name], **data[name], device="cpu")
    found = rank_heads(measure)
    assert measure.score() == found.whole  # the same every time
    for head in (found.heads[0], found.heads[-1]):
        where = (head.layer, head.head) if head.kind == "self" else (head.kind, head.layer, head.head)
        with heads_off(measure.network, [where]):
            assert measure.score() == head.score
        better = found.whole - head.score if measure.more_is_better else head.score - found.whole
        assert head.lost == better
    assert {part.module.kernel for part in attentions(measure.network)} == {sdpa}


def test_a_score_of_which_more_is_better_is_lost_when_it_falls():
    """And heads are written as prune takes them."""
    model = gpt().eval()
    names, lost = ["1.2", "0.0", "1.0", "0.2", "1.1", "0.1"], [30.0, 10.0, 1.0, 0.0, -1.0, -5.0]
    for more in (True, False):
        numbers = iter([50.0, 40.0, 55.0, 50.0, 49.0, 51.0, 20.0])
        found = rank_heads(Measure("any", model, lambda numbers=numbers: next(numbers), more_is_better=more))
        assert found.whole == 50.0
        assert [head.name for head in found.heads] == (names if more else names[::-1])
        assert [head.lost for head in found.heads] == (lost if more else [-each for each in reversed(lost)])


def test_heads_that_were_removed_are_not_ranked(models, data, tmp_path):
    prune(models["gpt"], [(0, 1), (1, 0)], tmp_path / "small")
    whole = rank_heads(measure_of(models["gpt"], **data["gpt"], device="cpu"))
    found = rank_heads(measure_of(tmp_path / "small", **data["gpt"], device="cpu"))
    assert {head.name for head in found.heads} == {"0.0", "0.2", "1.1", "1.2"}
    assert found.whole != whole.whole
    assert useless_in(found, "gpt").lost == 0.0


def test_a_terminal_shows_how_far_it_is(models, data, monkeypatch):
    shown = io.StringIO()
    console = Console(file=shown, force_terminal=True)
    monkeypatch.setattr(log, "console", lambda: console)
    rank_heads(measure_of(models["gpt"], **data["gpt"], device="cpu"))
    assert "heads switched off" in shown.getvalue()


# Measures


def test_the_loss_of_a_translator_is_that_of_every_token(models, data):
    measure = measure_of(models["translator"], **data["translator"], device="cpu")
    model = load_model(models["translator"])[0]
    nats, tokens = 0.0, 0
    with torch.inference_mode():
        for source, target in PAIRS:
            ids, wanted = TRANSLATION.encode([source, target])
            logits = model(torch.tensor([ids]), torch.tensor([[TRANSLATION.start, *wanted[:-1]]]))[0]
            nats -= float(logits.log_softmax(dim=-1)[range(len(wanted)), wanted].sum())
            tokens += len(wanted)
    assert measure.score() == pytest.approx(nats / tokens, rel=1e-4)
    again = measure_of(models["translator"], **data["as pairs"], by="loss", device="cpu")
    assert again.score() == measure.score()


def test_bleu_is_that_of_greedy_translations(models, data):
    measure = measure_of(models["translator"], **data["translator"], by="bleu", device="cpu")
    assert (measure.name, measure.more_is_better) == ("BLEU", True)
    translator = Translator.load(models["translator"], device="cpu")
    sources, targets = zip(*PAIRS)
    assert measure.score() == score(translator.translate(sources, beam=1), targets)["BLEU"][0]
    whole = measure.score()
    with heads_off(measure.network, [("cross", 1, USELESS)]):
        assert measure.score() == whole


def test_bleu_falls_with_a_head_that_the_words_come_from(models, data, monkeypatch):
    """Of a translator that is right until a head is off."""
    measure = measure_of(models["translator"], **data["translator"], by="bleu", device="cpu")
    cross = attentions(measure.network)[-1].module

    def translations(self, sources, *, beam):
        right = cross.kernel is sdpa
        return [dict(PAIRS)[source] if right else "nothing of it" for source in sources]

    monkeypatch.setattr(Translator, "translate", translations)
    found = rank_heads(measure)
    assert found.whole == pytest.approx(100.0)
    assert {(head.kind, head.layer) for head in found.heads[:3]} == {("cross", 1)}
    assert [round(head.lost) for head in found.heads[:4]] == [100, 100, 100, 0]


def test_a_translator_s_run_is_measured_on_its_own_validation_set(models, data, tmp_path):
    run = tmp_path / "run"
    run.mkdir()
    (run / "model").symlink_to(models["translator"])
    (run / "data").mkdir()
    (run / "data" / "valid.jsonl").write_text(
        data["as pairs"]["pairs"][0].read_text(encoding="utf-8"), encoding="utf-8"
    )
    own = measure_of(run, device="cpu").score()
    assert own == measure_of(models["translator"], **data["translator"], device="cpu").score()
    (tmp_path / "one.tsv").write_text(f"{PAIRS[0][0]}\t{PAIRS[0][1]}\n", encoding="utf-8")
    assert measure_of(run, pairs=[tmp_path / "one.tsv"], device="cpu").score() != own


def test_the_loss_is_the_negative_log_likelihood_of_labels_and_the_squared_error_of_numbers(models, data):
    def loss(name: str) -> float:
        return measure_of(models[name], **data[name], device="cpu").score()

    classifier, numbers, choices = (
        Classifier.load(models[name], device="cpu") for name in ("classifier", "of numbers", "of choices")
    )
    texts = LINES[:5]
    chances = classifier.probabilities(texts)[range(5), [len(text) % 2 for text in texts]]
    assert loss("classifier") == pytest.approx(float(-chances.log().mean()))
    chances = choices.probabilities([(one, (two, "the table")) for one, two in PAIRS])[range(3), [0, 1, 0]]
    assert loss("of choices") == pytest.approx(float(-chances.log().mean()))
    found = numbers([*PAIRS, ("a dog", "the table")])
    expected = sum((number - (place + 0.5)) ** 2 for place, number in enumerate(found)) / 4
    assert loss("of numbers") == pytest.approx(expected, rel=1e-5)


# What cannot be


@every_model
def test_without_data_it_says_which_to_give(models, name):
    flags = {"translator": "--source and --target, or --pairs", **dict.fromkeys(["gpt", "llama", "masked"], "--text")}
    with pytest.raises(ConfigError) as refused:
        measure_of(models[name], device="cpu")
    wanted = flags.get(name, "--data, a file as it is trained on")
    assert str(refused.value).startswith("there is nothing to score")
    assert f"give {wanted}" in str(refused.value)


@pytest.mark.parametrize(
    ("name", "by"), [("gpt", "bleu"), ("classifier", "bleu"), ("translator", "accuracy"), ("gpt", "perplexity")]
)
def test_a_score_that_a_model_has_not(models, data, name, by):
    with pytest.raises(ConfigError, match=f"are not ranked by {by}, but by loss"):
        measure_of(models[name], **data[name], by=by, device="cpu")


@pytest.mark.parametrize("score", [float("nan"), float("inf")])
def test_a_score_that_is_no_number_ranks_nothing(models, score):
    measure = Measure("loss", load_model(models["gpt"])[0], lambda: score)
    with pytest.raises(ConfigError, match=f"the model's loss is {score} with all its heads; there is nothing to lose"):
        rank_heads(measure)


@pytest.mark.parametrize(
    ("name", "other"), [*permutations(["classifier", "of pairs"], 2), *permutations(["classifier", "of choices"], 2)]
)
def test_examples_of_another_form_are_refused(models, data, name, other):
    with pytest.raises(DataError, match=r"is of the form \w+, but the model takes the form \w+"):
        measure_of(models[name], **data[other], device="cpu")


# As a table and a figure


def test_the_table_has_a_line_for_each_head_and_the_whole_below():
    heads = [HeadImportance("cross", 0, 1, 2.5, 0.5), HeadImportance("encoder", 1, 0, 1.75, -0.25)]
    importance = Importance("loss", 2.0, heads)
    grid = importance.table()
    assert grid.rows == ["cross.0.1", "encoder.1.0"]
    assert grid.cells == [["2.5000", "+0.5000"], ["1.7500", "-0.2500"]]
    assert grid.note == "loss with all heads: 2.0000"
    assert grid.shades[0, 1] == 1.0
    assert grid.shades[1, 1] == -0.5
    shown = importance._repr_html_()
    assert all(word in shown for word in ("cross.0.1", "+0.5000", "-0.2500", grid.note))


@pytest.mark.parametrize(("measure", "said"), [("loss", "loss gained without it"), ("BLEU", "BLEU lost without it")])
def test_the_figure_has_a_bar_for_each_head_the_most_missed_on_top(measure, said):
    pytest.importorskip("matplotlib")
    heads = [HeadImportance("self", 0, head, 2.0 + lost, lost) for head, lost in ((2, 0.5), (0, 0.0), (1, -0.25))]
    importance = Importance(measure, 2.0, heads)
    drawn = importance_picture("mine", importance)
    assert [bar.get_width() for bar in drawn.patches] == [0.5, 0.0, -0.25]
    assert [label.get_text() for label in drawn.get_yticklabels()] == ["0.2", "0.0", "0.1"]
    assert drawn.get_ylim()[0] > drawn.get_ylim()[1]  # counted from the top
    assert drawn.get_xlabel() == said
    title = " ".join(drawn.get_title().split())
    assert title == f"mine: what each head is worth ({measure} 2.000 with all)"
    other = importance_picture("yours", replace(importance, whole=3.0))
    assert "yours" in other.get_title()
