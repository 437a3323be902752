import copy
import json
from pathlib import Path

import helpers
import pytest

from manyheads.core.errors import DataError
from manyheads.data.readers.questions import Answer, Question, read_questions

CONTEXT = "Mary saw Tom. Tom saw Ann, and Tom’s dog saw Ann."


def written(path: Path, content: object) -> Path:
    return helpers.written(path, content if isinstance(content, str) else json.dumps(content))


def squad(*questions: dict) -> dict:
    return {"version": "1.1", "data": [{"title": "Dogs", "paragraphs": [{"context": CONTEXT, "qas": list(questions)}]}]}


def asked(*answers: tuple[str, int], **more) -> dict:
    found = [{"text": text, "answer_start": start} for text, start in answers]
    return {"id": "q1", "question": "Who?", "answers": found, **more}


@pytest.mark.parametrize("name", ["a.json", "a.json.gz", "a.json.xz"])
def test_a_question_has_its_answers_where_they_stand(tmp_path, name, capfd):
    path = written(tmp_path / name, squad(asked(("Tom", 9), ("dog", 37)), asked(("Mary", 0), id=7)))
    found = read_questions(path)
    assert found == [
        Question("q1", "Who?", CONTEXT, (Answer("Tom", 9), Answer("dog", 37)), "Dogs"),
        Question("7", "Who?", CONTEXT, (Answer("Mary", 0),), "Dogs"),
    ]
    assert capfd.readouterr().err == ""
    assert not any(question.impossible for question in found)


def test_a_file_may_be_one_line_a_hundred_times_as_long_as_others_may_have(tmp_path, monkeypatch):
    path = written(tmp_path / "a.json", squad(asked(("Tom", 9))))
    size = path.stat().st_size
    monkeypatch.setenv("MANYHEADS_LONGEST_LINE", str(size // 100 + 1))
    assert read_questions(path)
    monkeypatch.setenv("MANYHEADS_LONGEST_LINE", str(size // 100 - 1))
    with pytest.raises(DataError, match=r"a.json, line 1: it is longer than \d+ bytes"):
        read_questions(path)


def test_a_question_without_an_answer_is_impossible(tmp_path, capfd):
    plausible = {"plausible_answers": [{"text": "Tom", "answer_start": 9}]}
    unanswered = {"id": "q4", "question": "Why?", "is_impossible": True}
    entries = [asked(is_impossible=True, **plausible), asked(), asked(("Tom", 9), is_impossible=False), unanswered]
    found = read_questions(written(tmp_path / "a.json", squad(*entries)))
    assert [question.impossible for question in found] == [True, True, False, True]
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(
    ("start", "nearest"),
    [(-3, 9), (0, 9), (8, 9), (10, 9), (11, 9), (12, 14), (22, 14), (23, 31), (30, 31), (9999, 31)],
)
def test_an_answer_that_stands_elsewhere_is_mended_to_the_nearest_place(tmp_path, capfd, start, nearest):
    assert [place for place in range(len(CONTEXT)) if CONTEXT.startswith("Tom", place)] == [9, 14, 31]
    found = read_questions(written(tmp_path / "a.json", squad(asked(("Mary", 0), ("Tom", start)))))
    assert found[0].answers == (Answer("Mary", 0), Answer("Tom", nearest))
    assert capfd.readouterr().err.count("elsewhere in the context, where the nearest place is taken: 1") == 1


def test_a_start_is_never_counted_from_the_end(tmp_path):
    found = read_questions(written(tmp_path / "a.json", squad(asked(("Ann.", -4)))))
    assert found[0].answers == (Answer("Ann.", len(CONTEXT) - 4),)


@pytest.mark.parametrize("text", ["Tim", "", " ", "tom"])
def test_a_question_with_an_answer_that_stands_nowhere_is_left_out(tmp_path, capfd, text):
    path = written(tmp_path / "a.json", squad(asked(("Mary", 0), (text, 9)), asked(("Ann", 22), id="q2")))
    found = read_questions(path)
    assert [question.id for question in found] == ["q2"]
    told = f"warning: {path}: questions whose answer stands nowhere in the context, left out: 1\n"
    assert capfd.readouterr().err == told
    with pytest.raises(DataError, match="no question of 1 has its answers"):
        read_questions(written(tmp_path / "a.json", squad(asked((text, 9)))))


@pytest.mark.parametrize(
    ("route", "key", "place"),
    [
        ((), "data", ""),
        (("data", 0), "paragraphs", r", data\[0\]"),
        (("data", 0, "paragraphs", 0), "context", r", data\[0\]\.paragraphs\[0\]"),
        (("data", 0, "paragraphs", 0), "qas", r", data\[0\]\.paragraphs\[0\]"),
        (("data", 0, "paragraphs", 0, "qas", 1), "id", r", data\[0\]\.paragraphs\[0\]\.qas\[1\]"),
        (("data", 0, "paragraphs", 0, "qas", 1), "question", r", data\[0\]\.paragraphs\[0\]\.qas\[1\]"),
        (("data", 0, "paragraphs", 0, "qas", 1), "answers", r", data\[0\]\.paragraphs\[0\]\.qas\[1\]"),
        (("data", 0, "paragraphs", 0, "qas", 1, "answers", 0), "text", r".*\.qas\[1\]\.answers\[0\]"),
        (("data", 0, "paragraphs", 0, "qas", 1, "answers", 0), "answer_start", r".*\.qas\[1\]\.answers\[0\]"),
    ],
)
def test_a_key_that_is_missing_or_of_another_kind_is_named_with_its_place(tmp_path, route, key, place):
    content = squad(asked(("Mary", 0)), asked(("Tom", 9)))
    changed, missing = content, copy.deepcopy(content)
    entry = missing
    for step in route:
        changed, entry = changed[step], entry[step]
    del entry[key]
    with pytest.raises(DataError, match=rf"a\.json{place}: no key '{key}'"):
        read_questions(written(tmp_path / "a.json", missing))
    changed[key] = None
    with pytest.raises(DataError, match=rf"a\.json{place}: '{key}' is not an? "):
        read_questions(written(tmp_path / "a.json", content))


def test_a_title_may_be_missing(tmp_path):
    content = squad(asked(("Tom", 9)))
    del content["data"][0]["title"]
    assert read_questions(written(tmp_path / "a.json", content))[0].title == ""


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ('{"data": [', "not JSON"),
        ("", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ([1], "an object with the key 'data'"),
        ({"data": [3]}, r"data\[0\]: not an object"),
        ({"data": []}, "has no question"),
        (squad(), "has no question"),
        (squad(asked(("Tom", 9), is_impossible=True)), r"qas\[0\]: is_impossible is true, but .* 1"),
        (squad(asked(is_impossible=False)), r"qas\[0\]: is_impossible is false, but .* 0"),
    ],
)
def test_a_file_that_is_not_squad_is_refused(tmp_path, content, said):
    with pytest.raises(DataError, match=rf"a\.json.*{said}"):
        read_questions(written(tmp_path / "a.json", content))


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(DataError, match="not there"):
        read_questions(tmp_path / "a.json")


@pytest.mark.parametrize("language", ["en", "de"])
def test_xquad_is_read_as_it_is(data_set, language, capfd):
    found = read_questions(data_set("xquad") / f"xquad.{language}.json.gz")
    assert (len(found), capfd.readouterr().err) == (1190, "")
    assert len({question.id for question in found}) == 1190
    assert len({question.context for question in found}) == 240
    for question in found:
        for answer in question.answers:
            assert question.context[answer.start :].startswith(answer.text)
