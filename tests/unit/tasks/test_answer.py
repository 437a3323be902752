"""Windows, targets and the search for the best stretch."""

import json
import random
from pathlib import Path

import pytest
import torch
from helpers import randomised
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.testing import assert_close

from manyheads.core.errors import ConfigError, DataError
from manyheads.data.readers.questions import Answer, Question
from manyheads.models.bert import Bert, BertAnswerer, BertConfig
from manyheads.tasks.answer.data import ContextWindow, Read, Reader, pairs_of, read_all, stored_questions
from manyheads.tasks.answer.recipe import AnswerData
from manyheads.tasks.answer.training import Answering
from manyheads.tasks.answer.use import LONGEST_ANSWER, Answerer, ranked, score_questions
from manyheads.tasks.run import resolve
from manyheads.text.encoder import EncoderTokenizer
from tests.unit.tasks.preparing import prepared

WORDS = ["the", "cat", "sees", "a", "tall", "tree", "and", "sleeps", "under", "it", "while", "birds", "sing"]
TEXT = " ".join(WORDS)


@pytest.fixture(scope="module")
def tokenizer() -> EncoderTokenizer:
    return EncoderTokenizer.train([TEXT] * 3, 200)


def text_of(count: int, seed: int = 1) -> str:
    return " ".join(random.Random(seed).choices(WORDS, k=count))


def answerer(tokenizer, *, impossible=False, context=64, **windows) -> Answerer:
    torch.manual_seed(5)
    sizes = {"vocabulary": len(tokenizer), "separator": tokenizer.separator, "context": context}
    body = Bert(BertConfig(width=12, layers=2, heads=3, **sizes), pooler=False)
    return Answerer(randomised(BertAnswerer(body, impossible)), tokenizer, **windows)


class Table(nn.Module):
    """A model whose scores of a token follow from the token alone."""

    def __init__(self, vocabulary: int, impossible: bool = False):
        super().__init__()
        self.impossible, self.longest, self.config = impossible, None, BertConfig(vocabulary=vocabulary, context=512)
        self.scores = nn.Parameter(torch.randn(vocabulary, 2))

    def forward(self, ids, lengths=None):
        return self.scores[ids]


# Files


def squad(path: Path, documents: dict[str, list[tuple[str, list[tuple[str, str | None]]]]]) -> str:
    """A file of documents: {title: [(context, [(question, answer or none)])]}."""
    data = []
    for title, paragraphs in documents.items():
        entries = []
        for context, asked in paragraphs:
            qas = [
                {
                    "id": f"{title}{len(entries)}-{number}",
                    "question": question,
                    "answers": [] if answer is None else [{"text": answer, "answer_start": context.index(answer)}],
                }
                for number, (question, answer) in enumerate(asked)
            ]
            entries.append({"context": context, "qas": qas})
        data.append({"title": title, "paragraphs": entries})
    path.write_text(json.dumps({"data": data}))
    return str(path)


def contexts(count: int, seed: int) -> list[tuple[str, list[tuple[str, str | None]]]]:
    texts = [text_of(9, seed=100 * seed + number) + f" number {number} of {seed}" for number in range(count)]
    return [(text, [("what sleeps?", text.split()[3]), ("what sings?", None)]) for text in texts]


def test_a_tenth_of_the_documents_is_held_out(tmp_path, capfd):
    file = squad(tmp_path / "a.json", {f"title {number}": contexts(2, number) for number in range(21)})
    found = read_all(AnswerData(data=(file,)))
    assert len({question.title for question in found.valid}) == 2
    assert "held out for validation: 2 of 21 documents" in capfd.readouterr().err
    assert len(found.valid) == 2 * 2 * 2
    assert len(found.train) + len(found.valid) == 21 * 2 * 2
    assert not {question.context for question in found.train} & {question.context for question in found.valid}


@pytest.mark.parametrize("titles", [1, 3])
def test_of_few_documents_a_tenth_of_the_contexts_is_held_out(tmp_path, titles):
    made = {f"title {number}": contexts(24 // titles, number) for number in range(titles)}
    found = read_all(AnswerData(data=(squad(tmp_path / "a.json", made),)))
    assert len({question.context for question in found.valid}) == 2
    assert len(found.train) == 44


@pytest.mark.parametrize(
    ("documents", "said"),
    [
        ({"a": contexts(9, 1)}, "too few contexts, 9,"),
        ({"a": [(text_of(5, each), [("what?", None)]) for each in range(20)]}, "no question to learn from, of 18,"),
        ({"a": [(text_of(5, each), [(" ", None)]) for each in range(20)]}, "every question is empty"),
        ({"a": [*contexts(19, 1), (" ", [("what?", None)])]}, "the context of question 'a19-0' is empty"),
    ],
)
def test_questions_that_nothing_is_learned_from_are_refused(tmp_path, documents, said):
    with pytest.raises(DataError, match=said):
        read_all(AnswerData(data=(squad(tmp_path / "a.json", documents),)))


def test_empty_questions_are_left_out_and_told(tmp_path, capfd):
    made = contexts(20, 1)
    made[3][1].append(("  ", None))
    found = read_all(AnswerData(data=(squad(tmp_path / "a.json", {"a": made}),)))
    assert len(found.train) + len(found.valid) == 40
    assert "questions that are empty, left out: 1" in capfd.readouterr().err


# Windows


@settings(max_examples=60)
@given(length=st.integers(1, 90), asked=st.integers(1, 12), longest=st.integers(5, 60), stride=st.integers(1, 40))
def test_windows_cover_every_token_and_short_answers_whole(length, asked, longest, stride):
    tokenizer = EncoderTokenizer.train([TEXT] * 3, 200)
    reader = Reader(tokenizer, 64, longest=longest, stride=stride)
    question, context = " ".join(WORDS[:1] * asked), " ".join(WORDS[1:2] * length)
    read = reader([(question, context)])[0]
    [kept], [whole] = ({tuple(w.ids[1 : w.before - 1]) for w in read.windows}, tokenizer.encode([question]))
    assert len(kept) == min(len(whole), 64, (longest - 3) // 2)
    assert list(kept) == whole[: len(kept)]
    assert len(read.offsets) == len(tokenizer.encode([context])[0])
    seen = set()
    for window in read.windows:
        assert len(window.ids) <= longest
        assert (window.ids[0], window.ids[-1]) == (tokenizer.start, tokenizer.separator)
        assert window.ids[window.before - 1] == tokenizer.separator
        part = tokenizer.encode([context])[0][window.first : window.first + window.count]
        assert window.ids[window.before : -1] == part
        seen |= {
            (window.first + begin, window.first + end)
            for begin in range(window.count)
            for end in range(begin, window.count)
        }
    room = longest - len(kept) - 3
    short = room - min(stride, (room + 1) // 2) + 1
    assert {(begin, begin + more) for begin in range(length) for more in range(short) if begin + more < length} <= seen


def test_a_window_is_what_the_tokenizer_makes_of_two_texts(tokenizer):
    read = Reader(tokenizer, 64)([("what sleeps?", TEXT)])[0]
    assert [window.ids for window in read.windows] == [tokenizer._model.encode("what sleeps?", TEXT).ids]


def test_a_window_without_place_is_refused(tokenizer):
    with pytest.raises(ConfigError, match="no place"):
        Reader(tokenizer, 4)


@pytest.mark.parametrize(
    ("context", "answer", "pointed"),
    [
        ("The Cat sleeps.", "Cat", "Cat"),
        ("the cat's tree", "cat", "cat"),
        ("in 1853s", "1853", "1853s"),  # within a piece: the piece
        ("«Tree»", "Tree", "Tree"),
        ("sees\n\n  the tree", "the tree", "the tree"),
        ("a 한국어 tree", "한국어", "한국어"),
        ("naïve cat", "naïve", "naïve"),
        ("the tree\u0301 sees", "tree\u0301", "tree\u0301"),  # the accent is a character of its own
    ],
)
def test_targets_point_at_the_characters_of_the_answer(context, answer, pointed):
    tokenizer = EncoderTokenizer.train(["the cat's tree sees in 1853s naive «tree» 한국어 ."] * 3, 200)
    read = Reader(tokenizer, 64)([("what?", context)])[0]
    [(start, end)] = read.targets([Answer(answer, context.index(answer))])
    window = read.windows[0]
    scores = torch.zeros(len(window.ids), 2)
    scores[start, 0] = scores[end, 1] = 9.0
    span = ranked(read, [scores], context, False)[0]
    assert span.text == context[span.start : span.end] == pointed


def test_a_window_without_the_whole_answer_points_at_its_start(tokenizer):
    context = text_of(40)
    read = Reader(tokenizer, 64, longest=20, stride=7)([("the cat?", context)])[0]
    found = set()
    for first, last in [(first, first + more) for first in range(30) for more in range(5)]:
        start, end = read.offsets[first][0], read.offsets[last][1]
        for window, target in zip(read.windows, read.targets([Answer(context[start:end], start)])):
            tokens = range(window.first, window.first + window.count)
            whole = first in tokens and last in tokens
            place = tuple(window.before + each - window.first for each in (first, last))
            assert target == (place if whole else (0, 0))
            found.add(whole)
    assert found == {True, False}
    assert set(read.targets([])) == {(0, 0)}


# The search


def brute_force(read: Read, scores: list[torch.Tensor]) -> dict[tuple[int, int], list[float]]:
    """The scores of every stretch, in each window that has it."""
    found: dict[tuple[int, int], list[float]] = {}
    for window, each in zip(read.windows, scores):
        for begin in range(window.count):
            for end in range(begin, min(begin + LONGEST_ANSWER, window.count)):
                score = float(each[window.before + begin, 0] + each[window.before + end, 1])
                found.setdefault((window.first + begin, window.first + end), []).append(score)
    return found


def test_the_best_stretches_are_those_of_a_search_through_all(tokenizer):
    context = text_of(45)
    read = Reader(tokenizer, 64)([("what?", context)])[0]
    scores = [torch.randn(len(window.ids), 2) for window in read.windows]
    scores[0][: read.windows[0].before] += 50  # the question is no answer
    scores[0][-1] += 50
    every = {place: score for place, [score] in brute_force(read, scores).items()}
    best = sorted(every, key=lambda place: -every[place])[:20]
    found = ranked(read, scores, context, False)
    assert [(span.start, span.end) for span in found] == [
        (read.offsets[first][0], read.offsets[last][1]) for first, last in best
    ]
    assert all(span.text == context[span.start : span.end] for span in found)
    shares = torch.tensor([every[place] for place in best]).softmax(dim=0)
    assert_close(torch.tensor([span.probability for span in found]), shares)
    assert_close(torch.tensor([span.score for span in found]), torch.tensor([every[place] for place in best]))


def test_a_stretch_counts_as_where_it_has_most_context():
    read = Read(
        [(place, place + 1) for place in range(8)], [ContextWindow([0] * 10, 3, 0), ContextWindow([0] * 9, 3, 3)]
    )
    scores = [torch.zeros(10, 2), torch.zeros(9, 2)]
    scores[0][3 + 4, 0] = 5.0  # token 4 of 0…5: one behind it
    scores[1][3 + 1, 0] = 3.0  # and of 3…7: one before it; the first of equals counts
    scores[0][3 + 5, 0] = 7.0  # token 5 is the last of the first window, and in the middle of the second
    scores[1][3 + 2, 0] = 1.0
    by_place = {(span.start, span.end): span.score for span in ranked(read, scores, "abcdefgh", False)}
    assert by_place[4, 5] == 5.0
    assert by_place[5, 6] == 1.0
    assert by_place[4, 7] == 3.0  # goes on behind the first window


def test_one_window_and_several_find_the_same(tokenizer):
    model = Table(len(tokenizer))
    context = text_of(150, seed=4)
    whole, parts = (Answerer(model, tokenizer, longest=longest) for longest in (384, 96))  # type: ignore
    assert [len(each._reader([("what?", context)])[0].windows) > 1 for each in (whole, parts)] == [False, True]
    one, other = whole.best("what?", context, 20), parts.best("what?", context, 20)
    assert one == other
    assert len({span.text for span in one}) > 5


@pytest.mark.parametrize("impossible", [False, True])
def test_answers_are_letters_of_their_context_the_best_first_alone_and_among_others(tokenizer, impossible):
    model = answerer(tokenizer, impossible=impossible, longest=30, stride=8)
    pairs = [(text_of(1 + number % 4, number), text_of(3 + 7 * number % 50, number)) for number in range(12)]
    for (question, context), span in zip(pairs, model(pairs), strict=True):
        found = model.best(question, context, count=3)
        assert (found[0].text, found[0].start, found[0].end) == (span.text, span.start, span.end)
        assert all(each.text == context[each.start : each.end] for each in found)
        assert [each.score for each in found] == sorted((each.score for each in found), reverse=True)


def test_no_answer_competes_with_the_least_that_any_window_says(tokenizer):
    model = Table(len(tokenizer), impossible=True)
    model.scores.data[tokenizer.start] = 4.0
    found = Answerer(model, tokenizer).best("what?", TEXT, 20)  # type: ignore
    empty = [span for span in found if not span.text]
    assert [(span.start, span.end, span.score) for span in empty] == [(0, 0, 8.0)]
    assert sum(span.probability for span in Answerer(model, tokenizer).best("what?", TEXT, 99)) == pytest.approx(1)  # type: ignore
    read = Reader(tokenizer, 64, longest=24, stride=6)([("what?", text_of(40))])[0]
    scores = [torch.zeros(len(window.ids), 2) for window in read.windows]
    for number, each in enumerate(scores):
        each[0] = 9.0 - number
    spans = ranked(read, scores, text_of(40), True)
    assert spans[0].score == 2 * (9.0 - len(scores) + 1)
    assert spans[0].text == ""
    assert ranked(read, scores, text_of(40), False)[0].text != ""


def test_the_pieces_of_one_character_are_one_place():
    offsets = [(0, 1), (2, 3), (2, 3), (2, 3), (3, 4), (5, 9)]  # as of a syllable of three letters
    read = Read(offsets, [ContextWindow([0] * 10, 3, 0)])
    scores = torch.randn(10, 2)
    found = ranked(read, [scores], "a 한한 tree", False)
    places = {(span.start, span.end): span.score for span in found}
    assert len(places) == len(found) == 10
    best = max(scores[3 + first, 0] + scores[3 + last, 1] for first in (1, 2, 3) for last in (1, 2, 3) if first <= last)
    assert places[2, 3] == float(best)
    assert sum(span.probability for span in found) == pytest.approx(1)


def test_long_questions_are_cut_and_that_is_said_once(tokenizer, capfd):
    model = answerer(tokenizer, context=200)
    long = text_of(70)
    found = [model.best(question, TEXT)[0] for question in (long, long + " and", " ".join(long.split()[:64]))]
    assert len({(span.text, span.probability) for span in found}) == 1
    assert capfd.readouterr().err.count("longer than 64 tokens") == 1


@pytest.mark.parametrize(
    ("questions", "said"),
    [([(" ", "a tree")], "the question is empty"), ([("what?", "\n")], "is empty"), ([("what?", "\x00")], "no words")],
)
def test_what_is_no_question_is_refused(tokenizer, questions, said):
    with pytest.raises(DataError, match=said):
        answerer(tokenizer)(questions)


def test_scores_compare_with_the_nearest_right_answer(tokenizer):
    model = answerer(tokenizer)
    pairs = [("what?", TEXT), ("who?", text_of(20))]
    spans = model(pairs)
    right = [Question("1", *pairs[0], (Answer("nothing", 0), Answer(spans[0].text, spans[0].start)), "")]
    wrong = [Question("2", *pairs[1], (Answer("nothing", 0),), "")]
    assert score_questions(model, right + wrong).exact == 50
    assert score_questions(model, right).f1 == 100


# Runs


def test_a_run_is_validated_in_windows_of_the_usual_stride_with_the_questions_it_keeps(tmp_path):
    file = squad(tmp_path / "a.json", {f"title {number}": contexts(2, number) for number in range(10)})
    data = AnswerData(data=(file,), longest=14, stride=3, vocabulary=300)
    for _ in range(2):  # as they are read, and as they are found again
        task = prepared("answer", data, 512, tmp_path / "run")
        assert task.impossible
        assert task.valid == stored_questions(tmp_path / "run" / "data")
        assert task.validated == Reader(task.processor, 512, longest=14)(pairs_of(task.valid))


def test_the_steps_follow_from_the_windows_and_the_positions_from_their_length(tmp_path):
    file = squad(tmp_path / "a.json", {f"title {number}": contexts(2, number) for number in range(10)})
    assignments = ("data.longest=14", "data.stride=4", "data.vocabulary=300", "data.examples=10")
    recipe = resolve("answer", flags={"data": {"data": [file]}}, assignments=assignments)
    asked = read_all(recipe.data)
    tokenizer = Answering(recipe).train_processor(asked)
    reader = Reader(tokenizer, 512, longest=14, stride=4)
    windows = sum(len(read.windows) for read in reader(pairs_of(asked.train)))
    assert windows > 2 * 36
    assert recipe.train.steps == 3 * -(-windows // 10)
    assert recipe.model.context == 14
    assert recipe.train.best_by == "f1"
    assert resolve("answer", flags={"data": {"data": [file]}}).model.context == 384
    (tmp_path / "recipe.toml").write_text("[model]\ncontext = 512\n")
    for asked in ({"assignments": ("model.context=512",)}, {"file": tmp_path / "recipe.toml"}):  # which stays
        recipe = resolve("answer", flags={"data": {"data": [file]}}, **asked)
        assert (recipe.model.context, recipe.data.longest) == (512, 384)


def test_where_the_steps_are_given_no_windows_are_counted(tmp_path, monkeypatch):
    file = squad(tmp_path / "a.json", {f"title {number}": contexts(2, number) for number in range(10)})
    monkeypatch.setattr(EncoderTokenizer, "train", lambda *_, **__: pytest.fail("a tokenizer is trained"))
    recipe = resolve("answer", flags={"data": {"data": [file]}}, assignments=("train.steps=70",))
    assert (recipe.train.steps, recipe.train.warmup, recipe.train.valid_every) == (70, 7, 1)
    with pytest.raises(pytest.fail.Exception):  # and the test can tell
        resolve("answer", flags={"data": {"data": [file]}})


@pytest.mark.parametrize(
    ("trained", "asked", "wanted"), [(None, None, 60), (21, None, 21), (21, 30, 30), (99, None, 60)]
)
def test_windows_are_as_long_as_in_training_unless_asked_otherwise(tokenizer, trained, asked, wanted):
    sizes = {"vocabulary": len(tokenizer), "width": 12, "layers": 1, "heads": 3, "context": 60}
    model = BertAnswerer(Bert(BertConfig(**sizes), pooler=False), longest=trained)
    assert Answerer(model, tokenizer, longest=asked)._reader.longest == wanted


@pytest.mark.parametrize("language", ["en", "de"])
def test_xquad_is_read_to_the_letter(data_set, tokenizer, language):
    asked = read_all(AnswerData(data=(str(data_set("xquad") / f"xquad.{language}.json.gz"),)))
    assert (len(asked.train), len(asked.valid)) == (1088, 102)
    own = EncoderTokenizer.train((question.context for question in asked.train), 8000)
    reads = Reader(own, 512)([(question.text, question.context) for question in asked.train])
    same = 0
    for question, read in zip(asked.train, reads):
        first, last = read.place(question.answers[0]) or (0, 0)
        pointed = question.context[read.offsets[first][0] : read.offsets[last][1]]
        assert question.answers[0].text in pointed
        same += pointed == question.answers[0].text
    assert same > 0.99 * len(asked.train)
