"""Readers of labelled examples: texts or pairs of texts in tables, JSON lines and folders, and multiple choice."""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from manyheads.core.errors import ConfigError, DataError
from manyheads.core.words import counted
from manyheads.data.readers.corpus import (
    OBJECTS,
    TABLES,
    read_lines,
    read_objects,
    say_header,
    text_at,
    unpacked,
    value_at,
)
from manyheads.data.readers.example_layouts import LABELS, Layout, Row, layout_of, pair_in, rows_of, texts_in

COMMAS = (".csv",)
PARTS = ("train", "dev")
POLES = ("neg", "pos")
FORMS = ("text", "pair")
SIDES = ("source", "target")  # how files of pairs without a label call them as well


@dataclass(frozen=True)
class Example:
    """One text, a pair of texts, or a context with its choices, and what is right."""

    texts: tuple[str, ...]
    label: str
    """The name of the label, empty where there is none; of a multiple choice the number of the right choice, from 0."""
    line: int
    """Where it begins in its file."""


@dataclass(frozen=True)
class ExampleFile:
    """The examples of a file, all of one form: text, pair or choice."""

    path: Path
    """The file, also where its folder was asked for, or the folder of a .pos and a .neg file."""
    form: str
    examples: list[Example]
    empty: list[int]
    """The lines that were passed over, because a text in them is empty."""


def read_examples(
    path: Path, columns: tuple[str, ...] = (), part: str = "train", *, unlabelled: bool = False
) -> ExampleFile:
    """All examples of a file, of a part of a folder of GLUE, or of a folder with a .pos and a .neg file.

    `columns` are the names or numbers (from 1) of a table's columns, or the names of fields in JSON lines: those of
    the texts and, last, that of the label.  With `unlabelled`, pairs of texts need no label.
    """
    path = Path(path)
    if part not in PARTS:
        raise ConfigError(f"the part {part!r} of a folder is not known; choose {' or '.join(PARTS)}")
    if not path.exists():
        raise DataError(f"{path} is not there; check the path")
    if path.is_dir():
        files = _in_folder(path, part)
        if len(files) > 1:
            return _gathered(path, "text", _polarity(path, files, columns))
        path = files[0]
    kind = unpacked(path).suffix
    if kind not in (*TABLES, *COMMAS, *OBJECTS):
        read = ", ".join((*TABLES, *COMMAS, *OBJECTS))
        raise DataError(
            f"{path} is of no kind that is read as examples; convert it to one of {read}, perhaps packed, or, of a "
            ".pos and a .neg file, give the folder"
        )
    rows = read_objects(path) if kind in OBJECTS else rows_of(path, commas=kind in COMMAS)
    first = next(rows, None)
    if first is None:
        return _gathered(path, "text", ())
    if kind in OBJECTS:
        return _gathered(path, *_objects(path, first, rows, columns, unlabelled))
    layout = layout_of(path, first, columns, commas=kind in COMMAS, unlabelled=unlabelled)
    if layout.header:
        say_header(path, *first)
    else:
        rows = chain([first], rows)
    return _gathered(path, FORMS[len(layout.texts) - 1], (_from_row(path, row, layout) for row in rows))


def _gathered(path: Path, form: str, lines: Iterable[Example]) -> ExampleFile:
    examples, empty = [], []
    for example in lines:
        if all(text.strip() for text in example.texts):
            examples.append(example)
        else:
            empty.append(example.line)
    if not examples:
        raise DataError(f"{path} holds no example; give a file with a text and a label on each line")
    return ExampleFile(path, form, examples, empty)


# Folders


def _in_folder(folder: Path, part: str) -> list[Path]:
    """The table of a part, or else the two files of polarity, the negative first."""
    try:
        paths = sorted(path for path in folder.iterdir() if path.is_file() and not path.name.startswith("."))
    except OSError as error:
        raise DataError(f"the folder {folder} cannot be read: {error.strerror}; check its permissions") from error
    files: dict[str, Path] = {}
    for path in paths:  # a file comes before its packed copy, and is enough
        files.setdefault(unpacked(path).name, path)
    if f"{part}.tsv" in files:
        return [files[f"{part}.tsv"]]
    poles = [[path for name, path in files.items() if name.endswith(f".{pole}")] for pole in POLES]
    if not any(poles):
        held = ", ".join(path.name for path in paths[:10]) + (", …" if len(paths) > 10 else "")
        raise DataError(
            f"the folder {folder} holds no {part}.tsv, and no .pos and .neg files either, but {held or 'no file'}; "
            "name one file"
        )
    if [len(each) for each in poles] != [1, 1]:
        raise DataError(
            f"the folder {folder} holds {len(poles[0])} .neg and {len(poles[1])} .pos files, where there must be one "
            "of each; put the two that belong together into a folder of their own"
        )
    return [each[0] for each in poles]


def _polarity(folder: Path, poles: list[Path], columns: tuple[str, ...]) -> Iterator[Example]:
    if columns:
        raise ConfigError(f"{folder} holds lines without columns, in a .pos and a .neg file; leave --columns away")
    for label, path in zip(POLES, poles):
        for number, line in enumerate(read_lines(path), start=1):
            if line.strip():
                yield Example((line,), label, number)


# Tables and JSON lines


def _from_row(path: Path, row: Row, layout: Layout) -> Example:
    number, cells = row
    place = f"{path}, line {number}"
    if layout.name and not layout.fits(cells):
        raise DataError(f"{place}: {counted(len(cells), 'column')}, not those of {layout.name}; mend the line")
    last = max(*layout.texts, layout.label or 0) + 1
    if layout.cells is None and len(cells) < last:
        raise DataError(f"{place}: {counted(len(cells), 'column')}, but column {last} is asked for; mend the line")
    if layout.cells not in (None, len(cells)):
        raise DataError(f"{place}: {counted(len(cells), 'column')} where there must be {layout.cells}; mend the line")
    label = "" if layout.label is None else _label(cells[layout.label], "", place)
    return Example(tuple(cells[column] for column in layout.texts), label, number)


def _objects(
    path: Path, first: tuple[int, Any], others: Iterable[tuple[int, Any]], columns: tuple[str, ...], unlabelled: bool
) -> tuple[str, Iterable[Example]]:
    if columns and (len(columns) not in (2, 3) or len(set(columns)) < len(columns)):
        raise ConfigError(f"--columns {' '.join(columns)} must name one text or two, and the label last, each once")
    asked = (*columns, "") if unlabelled and len(columns) == 2 else columns
    fields = asked or _fields(first[1], f"{path}, line {first[0]}", unlabelled)
    objects = chain([first], others)
    if fields is None:
        return "choice", (_choice(entry, number, f"{path}, line {number}") for number, entry in objects)
    form = FORMS[len(fields) - 2]
    return form, (_from_object(entry, number, f"{path}, line {number}", fields) for number, entry in objects)


def _fields(entry: Any, place: str, unlabelled: bool) -> tuple[str, ...] | None:
    """The fields of the texts and, last, of the label, empty where there is none; None for a multiple choice."""
    names = list(entry) if isinstance(entry, dict) else []
    pair = pair_in(names) or (SIDES if set(SIDES) <= set(names) else ())
    if unlabelled and pair and not LABELS.intersection(names):
        return (*pair, "")
    if "choices" in names:
        return None
    texts = texts_in(names)
    if texts is None:
        known = f"its fields are {', '.join(names)}" if names else "it is no object with fields"
        raise DataError(
            f"{place}: no field 'context' with choices, and no text, sentence or pair of them; {known}; name those of "
            "the text and of the label, as in --columns review stars"
        )
    label = next((name for name in ("label", "score") if name in names), None)
    if label is None:
        raise DataError(
            f"{place}: its fields are {', '.join(names)}; none is the label; mend the line or name the fields, the "
            "label last, as in --columns text stars"
        )
    return (*texts, label)


def _from_object(entry: Any, number: int, place: str, fields: tuple[str, ...]) -> Example:
    *texts, field = fields
    found = tuple(text_at(entry, text, place) for text in texts)
    return Example(found, _label(value_at(entry, field, place), field, place) if field else "", number)


def _label(value: object, field: str, place: str) -> str:
    if isinstance(value, bool):
        return str(value).lower()  # as JSON writes it
    if not isinstance(value, str | int | float) or (isinstance(value, float) and not math.isfinite(value)):
        raise DataError(f"{place}: field {field!r} is {value!r} where it must be a name or a number; mend the line")
    if not str(value).strip():
        raise DataError(f"{place}: the label is empty; mend or remove the line")
    return str(value).strip()


def _choice(entry: Any, number: int, place: str) -> Example:
    context, choices = choices_in(entry, place)
    answer = entry.get("answer")
    if type(answer) is not int or not 0 <= answer < len(choices):
        raise DataError(
            f"{place}: answer is {answer!r}; it must be the number of the right choice, 0 to {len(choices) - 1}"
        )
    return Example((context, *choices), str(answer), number)


def choices_in(entry: Any, place: str) -> tuple[str, list[str]]:
    """The context and the choices of an object of JSON; `place` begins the sentence where there are none."""
    context, choices = text_at(entry, "context", place), entry.get("choices")
    if not isinstance(choices, list) or len(choices) < 2 or not all(isinstance(each, str) for each in choices):
        raise DataError(f"{place}: choices must be a list of two or more texts; mend the line")
    return context, choices
