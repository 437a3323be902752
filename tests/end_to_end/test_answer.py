"""Questions about texts as a person trains and asks them, and the same in transformers."""

import json
import random
from pathlib import Path

import pytest

from manyheads.data.readers.questions import read_questions
from manyheads.models.bert import MaskedBert
from manyheads.tasks.answer.use import Answerer, score_questions

from .conftest import Result, called, recorded, refused, saved_bert, tables, taught

NAMES = ["Anna", "Bert", "Carla", "Dario", "Élena", "Felix", "Greta"]
CITIES = ["Rome", "Oslo", "New York", "Lima", "Quito", "Tunis", "São Paulo"]
SETTINGS = ["train.device=cpu", "train.learning_rate=0.003", "train.warmup=10"]
SMALL = [
    *("model.width=32", "model.heads=2", "model.layers=2", "model.dropout=0.0", "model.attention_dropout=0.0"),
    *("data.vocabulary=300", "data.examples=10", *SETTINGS),
]


def paragraph(source: random.Random, number: int, without: bool) -> dict:
    """Who lives where, and a question about one of them, or about somebody who is not there."""
    names, cities = source.sample(NAMES, 4), source.sample(CITIES, 3)
    context = " ".join(f"{name} lives in {city}." for name, city in zip(names, cities))
    asked = 3 if without else source.randrange(3)
    answers = [] if without else [{"text": cities[asked], "answer_start": context.index(cities[asked])}]
    question = {"id": str(number), "question": f"Where does {names[asked]} live?", "answers": answers}
    return {"context": context, "qas": [question]}


def written(path: Path, count: int, *, impossible: int = 0, seed: int = 1) -> Path:
    source = random.Random(seed)
    paragraphs = [paragraph(source, number, number < impossible) for number in range(count)]
    path.write_text(json.dumps({"data": [{"title": "who lives where", "paragraphs": paragraphs}]}), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    made = tmp_path_factory.mktemp("answer")
    written(made / "ten.json", 10)
    written(made / "without.json", 10, impossible=4)
    written(made / "none.json", 20, impossible=20)
    (made / "strange.json").write_text('{"rows": []}')
    bare = {"qas": [{"id": "1", "question": "?"}]}
    (made / "bare.json").write_text(json.dumps({"data": [{"title": "a", "paragraphs": [bare]}]}))
    (made / "text.txt").write_text("Anna lives in Oslo.\r\nBert lives in São Paulo.\n", encoding="utf-8")
    (made / "empty.txt").write_text(" \n")
    return made


def fine_tuned(out: Path, file: Path, *flags, assignments=SMALL, steps: int) -> Result:
    settings = [*assignments, f"train.steps={steps}", "train.valid_every=100"]
    return taught("answer", out, "--data", file, "--valid", file, *flags, settings=settings)


@pytest.fixture(scope="module")
def run(folder) -> Path:
    fine_tuned(folder / "run", folder / "ten.json", steps=200)
    return folder / "run"


@pytest.fixture(scope="module")
def encoder(tmp_path_factory) -> Path:
    """A model directory of a masked language model."""
    texts = [f"{name} lives in {city}." for name in NAMES for city in CITIES]
    return saved_bert(tmp_path_factory.mktemp("models") / "encoder", texts, MaskedBert, context=48)


def test_ten_questions_are_learned_and_every_one_answered(run, folder):
    last = recorded(run)[-1]
    assert last["loss"] < 0.05
    assert (last["exact"], last["f1"]) == (100, 100)
    questions = read_questions(folder / "ten.json")
    answerer = Answerer.load(run, device="cpu")
    for question, span in zip(questions, answerer([(each.text, each.context) for each in questions])):
        assert (span.text, span.start) == (question.answers[0].text, question.answers[0].start)
        assert span.text == question.context[span.start : span.end]
        assert span.probability > 0.8
    assert score_questions(answerer, questions).exact == 100
    others = read_questions(written(folder / "others.json", 10, seed=8))
    assert score_questions(answerer, others).exact < 100  # and the test can tell


def test_questions_without_an_answer_and_contexts_in_windows_are_learned(folder, tmp_path):
    short = [*SMALL, "data.longest=18"]
    result = fine_tuned(tmp_path, folder / "without.json", "--overwrite", assignments=short, steps=300)
    assert "10 questions to learn from, 4 of them without an answer" in result.err
    assert "windows of at most 18 tokens" in result.err
    questions = read_questions(folder / "without.json")
    answerer = Answerer.load(tmp_path, device="cpu")
    assert answerer.impossible
    assert any(len(each.windows) > 1 for each in answerer._reader([(each.text, each.context) for each in questions]))
    found = score_questions(answerer, questions)
    assert (found.answerable_exact, found.impossible_right) == (100, 100)
    without = questions[0]
    result = called("answer", tmp_path, without.text, stdin=without.context.encode())
    answer, _, start, end = result.out.rstrip("\n").split("\t")
    assert (answer, start, end) == ("", "0", "0")
    assert "no answer" in result.err


def test_a_model_is_asked_in_windows_as_it_was_validated(folder, encoder, tmp_path):
    settings = [*SETTINGS, "data.longest=21", "data.stride=3"]
    fine_tuned(tmp_path / "run", folder / "without.json", "--model", encoder, assignments=settings, steps=9)
    answerer = Answerer.load(tmp_path / "run", device="cpu")
    questions = read_questions(folder / "without.json")
    assert (answerer.model.config.context, answerer.model.longest) == (48, 21)
    assert json.loads((tmp_path / "run" / "model" / "tokenizer_config.json").read_text())["model_max_length"] == 21
    [read] = answerer._reader([("Who?", "Anna lives in Oslo. " * 9)])
    assert {len(window.ids) for window in read.windows[:-1]} == {21}
    best = max((line["f1"], line["exact"]) for line in recorded(tmp_path / "run"))
    found = score_questions(answerer, questions)
    assert (found.f1, found.exact) == pytest.approx(best)


def test_a_text_is_asked_from_a_file_or_standard_input(run, folder):
    content = (folder / "text.txt").read_bytes()
    results = [
        called("answer", run, "--context", folder / "text.txt", "Where does Anna live?", "--best", "3"),
        called("answer", run, "Where does Anna live?", "--context", "-", "--best", "3", stdin=content),
        called("answer", run, "Where does Anna live?", "--best", "3", stdin=b"\xef\xbb\xbf" + content),
    ]
    assert [result.code for result in results] == [0, 0, 0]
    assert len({result.out for result in results}) == 1
    rows = [line.split("\t") for line in results[0].out.splitlines()]
    assert len(rows) == 3
    text = content.decode()
    for answer, _, start, end in rows:
        assert answer == " ".join(text[int(start) : int(end)].split())
    assert [float(row[1]) for row in rows] == sorted((float(row[1]) for row in rows), reverse=True)
    told = tables("answer", run, "Where does Anna live?", "--best", 3, stdin=content)
    assert [(each["text"], each["start"]) for each in told] == [
        (text[each["start"] : each["end"]], int(row[2])) for each, row in zip(told, rows)
    ]
    one = called("answer", run, "--context", folder / "text.txt", "Where does Anna live?")
    assert one.out.splitlines() == results[0].out.splitlines()[:1]


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["{run}", "Who?", "--context", "{folder}/empty.txt"], "empty.txt is empty"),
        (["{run}", "Who?"], "standard input is empty"),
        (["{run}", " ", "--context", "{folder}/text.txt"], "the question is empty"),
        (["{run}", "Who?", "--context", "nowhere.txt"], "nowhere.txt cannot be read"),
        (["{run}", "Who?", "--context", "{folder}"], "cannot be read"),
        (["nowhere", "Who?", "--context", "{folder}/text.txt"], "nowhere does not exist"),
        (["{encoder}", "Who?", "--context", "{folder}/text.txt"], "a masked language model"),
    ],
)
def test_what_cannot_be_asked_is_one_sentence(run, folder, encoder, flags, said):
    assert said in refused("answer", *[flag.format(run=run, folder=folder, encoder=encoder) for flag in flags])


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ("text.txt", "not JSON"),
        ("text.txt --valid {folder}/ten.json", "not JSON"),
        ("strange.json", "no key 'data'"),
        ("bare.json", "no key 'context'"),
        ("none.json", "has an answer"),
        ("none.json --valid {folder}/ten.json", "no question to learn from, of 20,"),
        ("ten.json --preset gpt2_tiny", "no preset gpt2_tiny"),
        ("ten.json --freeze", "not worth freezing"),
        ("ten.json --set data.longest=4", "no place for a question"),
        ("ten.json --set train.best_by=accuracy", "f1 or loss"),
        ("ten.json --set data.stride=0", "at least 1"),
    ],
)
def test_what_cannot_be_trained_is_one_sentence_and_leaves_nothing(folder, tmp_path, flags, said):
    file, *given = flags.format(folder=folder).split()
    assert said in refused("train", "answer", "--out", tmp_path / "new", "--data", folder / file, *given)
    assert not (tmp_path / "new").exists()


def test_a_text_without_end_is_refused_before_all_of_it_is_read(run, tmp_path, monkeypatch):
    monkeypatch.setenv("MANYHEADS_LONGEST_LINE", "50")
    (tmp_path / "long.txt").write_text("The dog sleeps. " * 9)
    for given, stdin in ((["--context", tmp_path / "long.txt"], b""), ([], b"The dog sleeps. " * 9)):
        assert "it is longer than 50 bytes" in refused("answer", run, "Who sleeps?", *given, stdin=stdin)
