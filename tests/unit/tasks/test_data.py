"""What the data of every task owes: read once, prepared anew where it was half done; what cannot be is refused."""

import json
import shutil
from typing import Any

import pytest
from helpers import unsealed

from manyheads.core.errors import CheckpointError, ConfigError, DataError
from manyheads.tasks.answer.recipe import AnswerData
from manyheads.tasks.classify.recipe import ExampleData
from manyheads.tasks.language.recipe import TextData
from manyheads.tasks.masked.recipe import MaskedData
from manyheads.tasks.similarity.recipe import SimilarityData
from manyheads.tasks.tag.recipe import TagData
from manyheads.train.config import TrainConfig
from tests.unit.tasks.preparing import prepared as prepare

WORDS = ["the", "cat", "sees", "a", "tall", "tree"]


def lines(first: str, line: str, count: int = 40) -> str:
    return "".join(line.format(f"{first} {WORDS[number % 6]} {number}", number % 3) for number in range(count))


def squad(first: str) -> str:
    contexts = [f"{first} {WORDS[number % 6]} sleeps {number}" for number in range(40)]
    answers = [{"text": "sleeps", "answer_start": context.index("sleeps")} for context in contexts]
    asked = [[{"id": str(at), "question": "what?", "answers": [each][: at % 9]}] for at, each in enumerate(answers)]
    paragraphs = [{"context": context, "qas": each} for context, each in zip(contexts, asked)]
    return json.dumps({"data": [{"title": "a", "paragraphs": paragraphs}]})


KINDS: dict[str, tuple] = {
    "language, text": ("a.txt", lambda first: lines(first, "{}.\n"), lambda path: TextData(text=path)),
    "language, pairs": ("a.tsv", lambda first: lines(first, "{}\t{}\n", 60), lambda path: TextData(pairs=path)),
    "masked": ("a.txt", lambda first: lines(first, "{}.\n"), lambda path: MaskedData(text=path, vocabulary=90)),
    "classify": ("a.tsv", lambda first: lines(first, "{}\t{}\n"), lambda path: ExampleData(train=path)),
    "tag": (
        "a.conll",
        lambda first: lines(first, "{}\t{}\n\n").replace(" ", "\tx\n"),
        lambda path: TagData(train=path),
    ),
    "similarity": ("a.tsv", lambda first: lines(first, "{}\tanother {}\n"), lambda path: SimilarityData(pairs=path)),
    "answer": ("a.json", squad, lambda path: AnswerData(data=path, longest=14, stride=3, vocabulary=300)),
}


def first_batch(task: Any) -> list[list[Any]]:
    tensors = next(iter(task.batches().epoch(0))).tensors
    return [each.tolist() for each in tensors.values() if each is not None]


@pytest.mark.parametrize("name", KINDS)
def test_what_is_prepared_once_is_not_read_again_and_half_prepared_is_prepared_anew(tmp_path, name):
    file, written, data = KINDS[name]
    path, task, given = tmp_path / file, name.partition(",")[0], data((str(tmp_path / file),))
    more = {"train": TrainConfig(best_by="loss")} if task == "similarity" else {}

    def prepared() -> Any:
        return prepare(task, given, 41, tmp_path / "run", **more)

    path.write_text(written("first"), encoding="utf-8")
    first = prepared()
    path.unlink()
    again = prepared()
    assert again.processor._model.to_str() == first.processor._model.to_str()
    assert first_batch(again) == first_batch(first) != []
    assert (len(again.train), len(again.valid)) == (len(first.train), len(first.valid))
    for what in ("impossible", "validated", "names", "scored"):
        assert getattr(again, what, None) == getattr(first, what, None)
    assert task != "answer" or (again.impossible, again.valid) == (True, first.valid)
    shutil.rmtree(tmp_path / "run" / "data")
    with pytest.raises(CheckpointError, match=r"data/train/\w+\.\w+ is missing, .* or start anew with --overwrite"):
        prepared()
    unsealed(tmp_path / "run")  # as it is before all is prepared
    with pytest.raises(DataError, match="is not there"):  # and the test can tell
        prepared()
    path.write_text(written("second"), encoding="utf-8")
    assert first_batch(prepared()) != first_batch(first)


@pytest.mark.parametrize(
    ("kind", "fields", "said"),
    [
        (TextData, {"text": ("a",), "pairs": ("b",)}, "both data.text and data.pairs"),
        (TextData, {"valid": ("a",)}, "data.valid is given without data.text"),
        (TextData, {"valid_pairs": ("a",)}, "data.valid_pairs is given without data.pairs"),
        (TextData, {"pairs": ("a",), "fields": ("1",)}, "data.fields names 1 field;"),
        (TextData, {"learn": "source"}, "data.learn is 'source'"),
        (TextData, {"rows": 0}, "data.rows is 0"),
        (TextData, {"valid_tokens": 0}, "data.valid_tokens is 0"),
        (MaskedData, {"valid": ("a",)}, "data.valid is given without data.text"),
        (MaskedData, {"rows": 0}, "data.rows is 0; it must be at least 1"),
        (MaskedData, {"valid_tokens": -1}, "data.valid_tokens is -1; it must be at least 1"),
        (SimilarityData, {"columns": ("a",)}, "data.columns"),
        (SimilarityData, {"largest": 0.0}, "data.largest"),
        (SimilarityData, {"pooling": "sum"}, "data.pooling"),
        (SimilarityData, {"examples": 0}, "data.examples"),
        (SimilarityData, {"longest": 2}, "data.longest"),
        (SimilarityData, {"valid": ("a",)}, "data.valid"),
    ],
)
def test_settings_that_cannot_be_are_refused(kind, fields, said):
    with pytest.raises(ConfigError, match=said):
        kind(**fields)
