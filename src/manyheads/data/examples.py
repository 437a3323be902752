"""Readers of labelled examples: texts or pairs of texts in a TSV, multiple choice in JSON lines, perhaps packed."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from manyheads.core.errors import ConfigError, DataError
from manyheads.data.corpus import COMPRESSED, OBJECTS, TABLES, json_in, read_lines, text_at

TEXTS = (
    *(("sentence",), ("text",)),
    *(("sentence1", "sentence2"), ("premise", "hypothesis"), ("question", "sentence"), ("text_a", "text_b")),
)
NUMBERS = ("index", "idx", "id")  # columns that only number the lines
KNOWN = {*NUMBERS, *(name for names in TEXTS for name in names)}
PARAPHRASES = ("#1 string", "#2 string", "quality")  # the one header of GLUE that does not say label


@dataclass(frozen=True)
class Example:
    """One text, a pair of texts, or a context with its choices, and what is right."""

    texts: tuple[str, ...]
    label: str
    """The name of the label; of a multiple choice the number of the right choice, from 0."""
    line: int
    """Where it stands in its file."""


@dataclass(frozen=True)
class ExampleFile:
    """The examples of a file, all of one form: text, pair or choice."""

    path: Path
    form: str
    examples: list[Example]
    empty: list[int]
    """The lines that were passed over, because a text in them is empty."""


@dataclass(frozen=True)
class Layout:
    """Which columns of a table are what."""

    texts: tuple[int, ...]
    label: int
    header: bool
    """Whether the first line names the columns."""
    cells: int | None
    """How many cells each line must have, where no columns were asked for."""


def read_examples(path: Path, columns: tuple[str, ...] = ()) -> ExampleFile:
    """All examples of a file; `columns` of a table are the names or numbers (from 1) of the texts and of the label."""
    path = Path(path)
    if not path.exists():
        raise DataError(f"{path} is not there; check the path")
    kind = path.with_suffix("").suffix if path.suffix in COMPRESSED else path.suffix
    if kind in OBJECTS:
        if columns:
            raise ConfigError(f"{path} has fields and no columns; leave --columns away")
        form, lines = "choice", _choices(path)
    elif kind in TABLES:
        layout = _layout(path, columns)
        form, lines = ("text", "pair")[len(layout.texts) - 1], _rows(path, layout)
    else:
        read = ", ".join((*TABLES, *OBJECTS))
        raise DataError(f"{path} is of no kind that is read as examples; convert it to one of {read}, perhaps packed")
    examples, empty = [], []
    for example in lines:
        if all(text.strip() for text in example.texts):
            examples.append(example)
        else:
            empty.append(example.line)
    if not examples:
        raise DataError(f"{path} holds no example; give a file with a text and a label on each line")
    return ExampleFile(path, form, examples, empty)


def _layout(path: Path, columns: tuple[str, ...]) -> Layout:
    cells = next(read_lines(path), "").split("\t")
    names = [cell.strip().lower() for cell in cells]
    header = "label" in names or set(PARAPHRASES) <= set(names)
    if columns:
        return _asked(path, cells, columns, header)
    if not header:
        if all(name in KNOWN for name in names):
            raise DataError(f"{path}: its columns are {', '.join(cells)}; none is the label")
        if len(cells) not in (2, 3):
            raise DataError(
                f"{path}, line 1: {len(cells)} columns and none named label, where there must be a text (or two) and a "
                "label; name or number them, the label last, as in --columns 4 2"
            )
        return Layout(tuple(range(len(cells) - 1)), len(cells) - 1, False, len(cells))
    if "label" not in names:
        *texts, label = (names.index(name) for name in PARAPHRASES)
        return Layout(tuple(texts), label, True, len(cells))
    texts = next((found for found in TEXTS if _only(found, names)), None)
    texts = texts or tuple(name for name in names if name not in ("label", *NUMBERS))
    if len(texts) not in (1, 2):
        raise DataError(
            f"{path}: which of the columns {', '.join(cells)} are the text (or two) is not clear; "
            "name them, the label last, as in --columns title body label"
        )
    return Layout(tuple(names.index(name) for name in texts), names.index("label"), True, len(cells))


def _only(texts: tuple[str, ...], names: list[str]) -> bool:
    """Whether these columns are there and no longer list of known ones is, such as question beside sentence."""
    longer = any(set(texts) < set(other) <= set(names) for other in TEXTS)
    return set(texts) <= set(names) and not longer


def _asked(path: Path, cells: list[str], columns: tuple[str, ...], header: bool) -> Layout:
    if len(columns) not in (2, 3):
        raise ConfigError(f"{len(columns)} columns are named; name one text or two, and the label last")
    names, places = [cell.strip() for cell in cells], []
    for column in columns:
        if _is_number(column):
            places.append(int(column) - 1)
        elif column in names:
            places.append(names.index(column))
            header = True
        else:
            raise DataError(f"{path}: no column is named {column!r}; the first line has: {', '.join(names)}")
    *texts, label = places
    return Layout(tuple(texts), label, header, None)


def _is_number(column: str) -> bool:
    return column.isascii() and column.isdigit() and int(column) > 0


def _rows(path: Path, layout: Layout) -> Iterator[Example]:
    needed = max(*layout.texts, layout.label) + 1
    for number, line in enumerate(read_lines(path), start=1):
        cells = line.split("\t")
        if (number == 1 and layout.header) or not line.strip():
            continue
        if len(cells) < needed or len(cells) != (layout.cells or len(cells)):
            must = f"there must be {layout.cells}" if layout.cells else f"column {needed} is asked for"
            raise DataError(f"{path}, line {number}: {len(cells)} columns where {must}; mend the line")
        label = cells[layout.label].strip()
        if not label:
            raise DataError(f"{path}, line {number}: the label is empty; mend or remove the line")
        yield Example(tuple(cells[place] for place in layout.texts), label, number)


def _choices(path: Path) -> Iterator[Example]:
    for number, line in enumerate(read_lines(path), start=1):
        if not line.strip():
            continue
        place = f"{path}, line {number}"
        context, choices = read_choices(line, place)
        answer = json_in(line, place).get("answer")  # type: ignore
        if type(answer) is not int or not 0 <= answer < len(choices):
            raise DataError(
                f"{place}: answer is {answer!r}; it must be the number of the right choice, 0 to {len(choices) - 1}"
            )
        yield Example((context, *choices), str(answer), number)


def read_choices(line: str, place: str) -> tuple[str, list[str]]:
    """The context and the choices of a line of JSON; `place` begins the sentence where there are none."""
    entry = json_in(line, place)
    context = text_at(entry, "context", place)
    choices = entry.get("choices")  # type: ignore
    if not isinstance(choices, list) or len(choices) < 2 or not all(isinstance(each, str) for each in choices):
        raise DataError(f"{place}: choices must be a list of two or more texts; mend the line")
    return context, choices
