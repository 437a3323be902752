import json
import math
from types import SimpleNamespace
from typing import cast

import pytest
import torch
from helpers import randomised

from manyheads.core.errors import ConfigError, DataError
from manyheads.data.readers.documents import Piece
from manyheads.generate.score import Scored
from manyheads.generate.steps import SpecialIds
from manyheads.models.gpt import GPT, GPTConfig
from manyheads.tasks.language import scoring as language_evaluation
from manyheads.tasks.language.scoring import ChoiceQuestion, read_choice_questions, score_choices, score_text
from manyheads.tasks.language.use import LanguageModel
from manyheads.text.language import LanguageTokenizer

CONTEXT = 7
TEXT = "the cat sees a dög; żółć 🦜 and the cat sleeps.\nthe cat\n"


@pytest.fixture(scope="module")
def tokenizer() -> LanguageTokenizer:
    return LanguageTokenizer.train(["the cat sees a dög and sleeps"] * 3, 280)


@pytest.fixture
def model(tokenizer) -> LanguageModel:
    body = GPT(GPTConfig(vocabulary=len(tokenizer), end=tokenizer.end, context=CONTEXT, width=12, layers=2, heads=3))
    return LanguageModel(randomised(body), tokenizer)


def one_by_one(model: LanguageModel, ids: list[int], stride: int) -> float:
    """Nats of a text behind its first id, each by a pass of its own over what its window shows before it."""
    nats, end = 0.0, CONTEXT
    for place in range(1, len(ids)):
        while place > end:
            end += stride
        before = ids[max(min(end, len(ids) - 1) - CONTEXT, 0) : place]
        with torch.no_grad():
            nats -= float(model.model(torch.tensor([before]))[0, -1].double().log_softmax(0)[ids[place]])
    return nats


@pytest.mark.parametrize("stride", range(1, CONTEXT + 1))
def test_every_token_is_predicted_once_whatever_the_stride(model, stride):
    ids = model.tokenizer.encode([TEXT])[0]
    scores = score_text(model, [Piece(TEXT, True)], stride=stride)
    assert (scores.tokens, scores.window, scores.stride) == (len(ids), CONTEXT, stride)
    assert scores.nats == pytest.approx(one_by_one(model, [model.tokenizer.end, *ids], stride), abs=1e-3)


def test_another_stride_is_another_number(model):
    found = {round(score_text(model, [Piece(TEXT, True)], stride=stride).nats, 2) for stride in (1, 3, 7)}
    assert len(found) == 3
    assert score_text(model, [Piece(TEXT, True)]) == score_text(model, [Piece(TEXT, True)], stride=CONTEXT // 2)


def test_bits_are_counted_by_bytes_of_utf8_and_by_characters(model):
    scores = score_text(model, [Piece(TEXT, True)])
    assert (scores.letters, scores.bytes) == (len(TEXT), len(TEXT.encode()))
    assert scores.bytes > scores.letters
    assert scores.bits_per_byte * len(TEXT.encode()) == pytest.approx(scores.nats / math.log(2))
    assert scores.bits_per_character * len(TEXT) == pytest.approx(scores.nats / math.log(2))
    assert scores.words == len(TEXT.split()) + 2
    assert scores.word_perplexity == pytest.approx(math.exp(scores.nats / scores.words))
    assert scores.perplexity == pytest.approx(math.exp(scores.nats / scores.tokens))


def test_pieces_are_one_document_and_documents_are_apart(model):
    first, second = TEXT.split("\n", 1)
    first += "\n"
    joined = score_text(model, [Piece(first, False), Piece(second, True)])
    assert joined.nats == pytest.approx(score_text(model, [Piece(TEXT, True)]).nats, abs=1e-3)
    apart = score_text(model, [Piece(first, True), Piece(second, True)])
    alone = [score_text(model, [Piece(each, True)]).nats for each in (first, second)]
    assert apart.nats == pytest.approx(sum(alone), abs=1e-3)
    assert apart.nats != pytest.approx(joined.nats, abs=1e-2)
    assert apart.tokens == joined.tokens


def test_many_windows_are_read_some_at_a_time(model, monkeypatch):
    whole = score_text(model, [Piece(TEXT * 3, True)], stride=2)
    monkeypatch.setattr(language_evaluation, "WINDOWS_AT_ONCE", 3)
    assert score_text(model, [Piece(TEXT * 3, True)], stride=2).nats == pytest.approx(whole.nats, abs=1e-3)


def test_a_model_that_knows_no_beginning_reads_the_first_token(model, monkeypatch):
    monkeypatch.setattr(model, "special", SpecialIds())
    ids = model.tokenizer.encode([TEXT])[0]
    scores = score_text(model, [Piece(TEXT, True)], stride=3)
    assert scores.tokens == len(ids) - 1
    assert scores.nats == pytest.approx(one_by_one(model, ids, 3), abs=1e-3)


@pytest.mark.parametrize("stride", [0, -1, CONTEXT + 1])
def test_a_stride_that_cannot_be_is_refused(model, stride):
    with pytest.raises(ConfigError, match=f"at most the model's context, {CONTEXT}"):
        score_text(model, [Piece(TEXT, True)], stride=stride)


def test_a_text_without_tokens_is_refused(model):
    with pytest.raises(DataError, match="no token to predict"):
        score_text(model, [])


# Choices


def choosing(totals: dict[str, float]) -> LanguageModel:
    """A model to which candidates are as likely as a table says."""
    return cast(
        LanguageModel,
        SimpleNamespace(log_probabilities=lambda rows: [Scored(totals[choice], 1, False) for _, choice in rows]),
    )


def test_normalising_by_characters_prefers_what_is_long():
    model = choosing({"ab": -2.0, "abcdef": -3.0, "x": -9.0})
    questions = [ChoiceQuestion("", ["x", "ab", "abcdef"], answer) for answer in (0, 1, 1, 2)]
    scores = score_choices(model, questions)
    assert (scores.questions, scores.accuracy, scores.normalised) == (4, 0.5, 0.25)


def test_choices_of_a_model_are_by_its_log_probabilities(model):
    questions = [ChoiceQuestion("the cat", [" sees", " sleeps and", " the dög sees"], each % 3) for each in range(3)]
    totals = [each.total for each in model.log_probabilities([("the cat", each) for each in questions[0].choices])]
    best = totals.index(max(totals))
    assert score_choices(model, [questions[best]]).accuracy == 1
    assert score_choices(model, questions).accuracy == pytest.approx(1 / 3)


GOOD = {"context": "a", "choices": ["b", "c"], "answer": 1}


def test_questions_are_read_and_blank_lines_passed_over(tmp_path):
    path = tmp_path / "q.jsonl"
    path.write_text(f"{json.dumps(GOOD)}\n\n{json.dumps({**GOOD, 'more': 3})}", encoding="utf-8")
    assert read_choice_questions(path) == [ChoiceQuestion("a", ["b", "c"], 1)] * 2


@pytest.mark.parametrize(
    "line",
    [
        *("nothing", "[]", "3", "{", json.dumps({"context": "a", "choices": ["b", "c"]}), "[" * 100_000),
        *(json.dumps({**GOOD, **change}) for change in ({"answer": 2}, {"answer": -1}, {"answer": True})),
        *(json.dumps({**GOOD, **change}) for change in ({"answer": "1"}, {"context": 3}, {"choices": "bc"})),
        *(json.dumps({**GOOD, **change}) for change in ({"choices": ["b"], "answer": 0}, {"choices": ["b", ""]})),
    ],
    ids=lambda line: line[:40],
)
def test_a_line_that_is_no_question_is_named_by_its_number(tmp_path, line):
    path = tmp_path / "q.jsonl"
    path.write_text(f"{json.dumps(GOOD)}\n\n{line}\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"q\.jsonl, line 3: not a question"):
        read_choice_questions(path)


def test_a_file_without_questions_is_refused(tmp_path):
    (tmp_path / "q.jsonl").write_text("\n\n")
    with pytest.raises(DataError, match="has no questions"):
        read_choice_questions(tmp_path / "q.jsonl")
