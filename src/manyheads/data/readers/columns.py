"""A reader of tagged words in CoNLL's columns: a word and its label on each line, a blank line between sentences."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from manyheads.core.errors import ConfigError, DataError
from manyheads.core.words import counted
from manyheads.data.readers.corpus import is_column_number, read_lines

DOCUMENT = "-DOCSTART-"
COMMENT = re.compile(r"#[ \t]")
ASSIGNED = re.compile(r"# \S+ = ")  # how most comments of CoNLL-U look
EXTRA = re.compile(r"\d+[-.]\d+")  # of CoNLL-U: a token of several words, as 1-2, or a word left unsaid, as 8.1

Row = tuple[int, list[str]]
"""The number of a line in its file, and its cells."""


@dataclass(frozen=True)
class TaggedSentence:
    """The words of a sentence, each with its label."""

    words: tuple[str, ...]
    labels: tuple[str, ...]
    line: int
    """Where the first word stands in its file."""


def read_columns(path: Path, columns: tuple[str, ...] = ()) -> list[TaggedSentence]:
    """All sentences of a file in columns; `columns` are the numbers (from 1) of the word and of the label.

    Without them the word is the first and the label the last.  Where the first column is neither and numbers the words,
    as in CoNLL-U, its lines 1-2 and 8.1 are passed over: they are no words of the sentence.
    """
    path = Path(path)
    places = _places(columns)
    if not path.exists():
        raise DataError(f"{path} is not there; check the path")
    sentences = list(_sentences(path, varying=places is not None))
    if not sentences:
        raise DataError(f"{path} holds no sentence; give a file with a word and its label on each line")
    if places is None and any(len(rows) > 1 for rows in sentences) and all(map(_is_numbered, sentences)):
        raise DataError(
            f"{path}: its first column only numbers the words of a sentence; say which columns are the word and its "
            "label, as in --columns 2 4"
        )
    if places and 0 not in places:
        sentences = [_words_only(rows) for rows in sentences]
    return [_tagged(path, rows, places or (0, -1)) for rows in sentences]


def _places(columns: tuple[str, ...]) -> tuple[int, int] | None:
    if not columns:
        return None
    numbers = [int(column) for column in columns if is_column_number(column)]
    if len(columns) != 2 or len(set(numbers)) != 2:
        raise ConfigError(
            f"--columns {' '.join(columns)} is not clear; write two numbers from 1, of the word and of its label"
        )
    return numbers[0] - 1, numbers[1] - 1


def _sentences(path: Path, *, varying: bool) -> Iterator[list[Row]]:
    """The rows of each sentence, all with as many cells as its first, or as the first of the file unless `varying`."""
    lines = list(read_lines(path))
    model = next(
        (line for line in lines if line.strip() and not line.startswith(DOCUMENT) and not COMMENT.match(line)), ""
    )
    width = len(_cells(model))
    sentence: list[Row] = []
    for number, line in enumerate(lines, start=1):
        if not line.strip() or line.startswith(DOCUMENT):
            if sentence:
                yield sentence
            sentence = []
        elif not _is_comment(line, model, inside=bool(sentence)):
            cells = _cells(line)
            must = (len(sentence[0][1]) if sentence else len(cells)) if varying else width
            place = f"{path}, line {number}"
            if len(cells) < 2:
                raise DataError(f"{place}: 1 column, where there must be a word and its label; mend the line")
            if len(cells) != must:
                raise DataError(
                    f"{place}: {counted(len(cells), 'column')} where the other lines have {must}; mend the line"
                )
            sentence.append((number, cells))
    if sentence:
        yield sentence


def _cells(line: str) -> list[str]:
    """What stands between the tabs of a line, or between the spaces of a line without tabs."""
    if "\t" in line:
        return [cell.strip(" ") for cell in line.split("\t")]
    # Other spaces of Unicode, such as the one that does not break, occur inside words.
    return [cell for cell in line.split(" ") if cell]


def _is_comment(line: str, model: str, *, inside: bool) -> bool:
    """Whether a line is no word of a file whose words look like the line `model`; # is a word too, with its label."""
    if not COMMENT.match(line):
        return False
    if "\t" in model and "\t" not in line:
        return True
    return not inside and (len(_cells(line)) != len(_cells(model)) or bool(ASSIGNED.match(line)))


def _is_numbered(rows: list[Row]) -> bool:
    """Whether the first column counts the words of a sentence."""
    numbers = [cells[0] for _, cells in rows if not EXTRA.fullmatch(cells[0])]
    return bool(numbers) and numbers == [str(number) for number in range(1, len(numbers) + 1)]


def _words_only(rows: list[Row]) -> list[Row]:
    return [row for row in rows if not EXTRA.fullmatch(row[1][0])] if _is_numbered(rows) else rows


def _tagged(path: Path, rows: list[Row], places: tuple[int, int]) -> TaggedSentence:
    words, labels = [], []
    for number, cells in rows:
        if len(cells) <= max(places):
            raise DataError(
                f"{path}, line {number}: {counted(len(cells), 'column')}, but column {max(places) + 1} is asked for; "
                "mend the line or name other columns"
            )
        word, label = (cells[place] for place in places)
        if not word or not label:
            what = "label" if word else "word"
            raise DataError(f"{path}, line {number}: the {what} is empty; mend or remove the line")
        words.append(word)
        labels.append(label)
    return TaggedSentence(tuple(words), tuple(labels), rows[0][0])
