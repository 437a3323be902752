"""The rows of a table, and which of their cells are the texts and the label: by the header, by layout or as asked."""

import csv
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from manyheads.core.errors import ConfigError, DataError
from manyheads.core.words import counted
from manyheads.data.readers.corpus import is_column_number, read_lines

TEXTS = (
    *(("sentence",), ("text",)),
    *(("sentence1", "sentence2"), ("premise", "hypothesis"), ("question", "sentence"), ("text_a", "text_b")),
    ("#1 string", "#2 string"),  # of GLUE's MRPC
)
TOGETHER = (("anchor", "positive"), ("query", "positive"))  # what two texts are called only where they have no label
LABELS = {"label", "score", "quality"}
NUMBERS = ("index", "idx", "id", "#1 id", "#2 id")  # columns that only number the lines
NAMES = {*NUMBERS, *(name for names in TEXTS for name in names)}

Row = tuple[int, list[str]]
"""The line that a row begins in, and its cells."""


@dataclass(frozen=True)
class Layout:
    """Which columns of a table are what."""

    texts: tuple[int, ...]
    label: int | None
    cells: int | None = None
    """How many cells each row must have; unset: as many as reach the last of these columns, or more."""
    header: bool = False
    """Whether the first row names the columns."""
    name: str = ""
    """What a layout without a header is called, and what its columns are."""
    fits: Callable[[Sequence[str]], bool] = lambda cells: True
    """Whether a row can be one of this layout."""


def _is_acceptability(cells: Sequence[str]) -> bool:
    return len(cells) == 4 and cells[1] in ("0", "1") and not cells[2].strip("*? ")


def _is_similarity(cells: Sequence[str]) -> bool:
    return len(cells) >= 7 and bool(re.fullmatch(r"\d{4}\w*", cells[2]) and re.fullmatch(r"[0-5](\.\d*)?", cells[4]))


def _is_topic(cells: Sequence[str]) -> bool:
    return len(cells) in (2, 3) and cells[0].isascii() and cells[0].isdigit()


ACCEPTABILITY = Layout((3,), 1, 4, name="CoLA: source, 0 or 1, nothing or *, sentence", fits=_is_acceptability)
SIMILARITY = Layout(
    (5, 6), 4, name="the STS benchmark: genre, file, year, id, score, two sentences", fits=_is_similarity
)


def rows_of(path: Path, *, commas: bool) -> Iterator[Row]:
    """The rows of a table that are not blank: a real CSV with `commas`, else cells between tabs, quotes and all."""
    tabs = ((number, line.split("\t")) for number, line in enumerate(read_lines(path), start=1))
    rows = _comma_rows(path) if commas and not _has_tabs(path) else tabs
    return (row for row in rows if any(cell.strip() for cell in row[1]))


def _comma_rows(path: Path) -> Iterator[Row]:
    reader = csv.reader((f"{line}\n" for line in read_lines(path)), strict=True)
    number = 1  # of the first line, since a cell in quotes may go over several
    try:
        for cells in reader:
            yield number, cells
            number = reader.line_num + 1
    except csv.Error as error:
        raise DataError(
            f"{path}, line {number}: not CSV ({error}); mend the quotes, or shorten what begins there"
        ) from error


def _has_tabs(path: Path) -> bool:
    """Whether a file that is called a CSV has tabs between its cells, as the STS benchmark has."""
    line = next((line for line in read_lines(path) if line.strip()), "")
    cells = line.split("\t")
    return len(cells) > 1 and ("," not in line or _is_similarity(cells) or _label_in(_names(cells)) is not None)


def layout_of(path: Path, row: Row, columns: tuple[str, ...], *, commas: bool, unlabelled: bool) -> Layout:
    """The layout of a table with this first row; `columns` are asked for, and pairs alone will do if `unlabelled`."""
    number, cells = row
    names = _names(cells)
    pairs = _pairs_alone(path, cells, names, columns) if unlabelled else None
    if pairs and commas:
        raise DataError(f"{path} has no scores, without which pairs are read from a .tsv or .jsonl file; convert it")
    if pairs:
        return pairs
    label = _label_in(names)
    header = label is not None or _names_texts(names)
    if columns:
        return _asked(path, cells, columns, header=header)
    if label is not None:
        return _named(path, cells, names, label)
    if header:
        raise DataError(
            f"{path}: its columns are {', '.join(cells)}; none is the label, as in GLUE's test files; "
            "give another file, or name the columns, the label last, as in --columns text stars"
        )
    for layout in (ACCEPTABILITY, SIMILARITY):
        if layout.fits(cells):
            return layout
    if commas:
        return _topic(path, row)
    if len(cells) not in (2, 3):
        raise DataError(
            f"{path}, line {number}: {counted(len(cells), 'column')} and none named label, where there must be a text "
            "(or two) and a label; name or number them, the label last, as in --columns 4 2"
        )
    return Layout(tuple(range(len(cells) - 1)), len(cells) - 1, len(cells))


def _names(cells: list[str]) -> list[str]:
    return [cell.strip().lower() for cell in cells]


def _label_in(names: list[str]) -> str | None:
    """Which of the names is the label; a score or quality only beside the names of texts, since they may be data."""
    if "label" in names:
        return "label"
    if "score" in names and texts_in(names):
        return "score"
    return "quality" if {"quality", *TEXTS[-1]} <= set(names) else None


def _names_texts(names: list[str]) -> bool:
    """Whether a row without a label is a header all the same."""
    return set(names) <= NAMES or any(len(texts) == 2 and set(texts) <= set(names) for texts in TEXTS)


def texts_in(names: Sequence[str]) -> tuple[str, ...] | None:
    """The columns or fields that are known as texts, and no shorter list of them, as sentence beside question."""
    found = [texts for texts in TEXTS if set(texts) <= set(names)]
    return next((texts for texts in found if not any(set(texts) < set(other) for other in found)), None)


def _named(path: Path, cells: list[str], names: list[str], label: str) -> Layout:
    texts = texts_in(names) or tuple(name for name in names if name not in (label, *NUMBERS))
    if len(texts) not in (1, 2):
        raise DataError(
            f"{path}: which of the columns {', '.join(cells)} are the text (or two) is not clear; "
            "name them, the label last, as in --columns title body label"
        )
    return Layout(tuple(names.index(name) for name in texts), names.index(label), len(cells), header=True)


def _topic(path: Path, row: Row) -> Layout:
    """The layout of AG News and its like; the label of any other CSV without a header may be first or last."""
    number, cells = row
    if not _is_topic(cells) or cells[-1].strip().isdecimal():
        raise DataError(
            f"{path}, line {number}: {counted(len(cells), 'column')} and none named label; a CSV without a header is "
            "of no kind that is known, but for a number and then a text or two; name or number the columns, the label "
            "last, as in --columns 1 2"
        )
    name = "AG News: a number, then a text or two"
    return Layout(tuple(range(1, len(cells))), 0, len(cells), name=name, fits=_is_topic)


def _asked(path: Path, cells: list[str], columns: tuple[str, ...], *, header: bool, labelled: bool = True) -> Layout:
    if len(columns) not in (2, 3):
        raise ConfigError(
            f"{counted(len(columns), 'column is', 'columns are')} named; name one text or two, and the label last"
        )
    names, places = [cell.strip() for cell in cells], []
    for column in columns:
        if is_column_number(column):
            places.append(int(column) - 1)
        elif column in names:
            places.append(names.index(column))
            header = True
        else:
            raise DataError(f"{path}: no column is named {column!r}; the first line has: {', '.join(names)}")
    if len(set(places)) < len(places):
        raise ConfigError(f"--columns {' '.join(columns)} names a column twice; name each once, the label last")
    *texts, label = places if labelled else (*places, None)
    return Layout(tuple(texts), label, header=header)


def _pairs_alone(path: Path, cells: list[str], names: list[str], columns: tuple[str, ...]) -> Layout | None:
    """The layout of two texts without a label; None where there is one, or where nothing is known as two texts."""
    texts = pair_in(names)
    if len(columns) == 2:
        return _asked(path, cells, columns, header=bool(texts), labelled=False)
    if columns or LABELS.intersection(names):
        return None
    if texts:
        return Layout(tuple(map(names.index, texts)), None, header=True)
    return Layout((0, 1), None, 2) if len(cells) == 2 else None


def pair_in(names: Sequence[str]) -> tuple[str, ...]:
    """The two columns or fields that are known as texts, if only where they have no label."""
    texts = texts_in(names) or next((pair for pair in TOGETHER if set(pair) <= set(names)), ())
    return texts if len(texts) == 2 else ()
