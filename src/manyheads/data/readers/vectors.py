"""Word vectors in files: word2vec's text and binary formats, and GloVe's text, which has no header."""

import re
import warnings
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import BinaryIO

import numpy as np

from manyheads.core.errors import ConfigError, DataError
from manyheads.core.files import refuse_unwritable, written_atomically
from manyheads.core.log import counting, warn
from manyheads.core.words import counted
from manyheads.data.readers.corpus import BYTE_ORDER_MARK, UNREADABLE, bounded_lines, longest_line, opened

TEXT, BINARY, GLOVE = "word2vec's text", "word2vec's binary format", "GloVe's text"
ENDINGS = {".txt": TEXT, ".vec": TEXT, ".bin": BINARY}
"""What a file that is written is, by its name."""
HEADER = re.compile(rb"[ \t]*(\d+)[ \t]+(\d+)[ \t\r]*")
WIDEST, LONGEST_WORD = 100_000, 10_000  # numbers of a vector, bytes of a word
ROWS_AT_ONCE, BYTES_AT_ONCE = 1000, 2**22
NUMBER = np.dtype("<f4")
OTHER_SPACES = (b"\t", b"\v", b"\f")


@dataclass(frozen=True)
class Vectors:
    """Words, each once, and a row of numbers for each."""

    words: list[str]
    matrix: np.ndarray


@dataclass(frozen=True)
class Layout:
    """How a file of vectors is laid out."""

    form: str
    width: int
    """Numbers of a vector."""
    count: int | None = None
    """How many words the header says that there are."""


def layout_of(path: Path) -> Layout:
    """What kind of file it is, told from its first two lines."""
    path = Path(path)
    try:
        with opened(path) as file:
            first, second = (file.readline(longest_line()).removesuffix(b"\n") for _ in range(2))
    except UNREADABLE as error:
        raise _unreadable(path, error) from error
    first = first.removeprefix(BYTE_ORDER_MARK)
    if not first.strip():
        raise DataError(f"{path}, line 1: it is empty; give word vectors in the format of word2vec or GloVe")
    header = HEADER.fullmatch(first)
    if not header:
        width = first.rstrip(b" \r").count(b" ")
        if not width or width > WIDEST or b"\0" in first:
            raise DataError(
                f"{path}, line 1: {first[:40]!r} is neither a header, how many words and how many numbers for each, "
                "nor a word with its numbers; give word vectors in the format of word2vec or GloVe"
            )
        return Layout(GLOVE, width)
    count, width = map(int, header.groups())
    if not count or not 0 < width <= WIDEST:
        raise DataError(
            f"{path}, line 1: the header says {counted(count, 'word')} of {counted(width, 'number')}; there must be "
            f"one word at least, and from 1 to {WIDEST:,} numbers"
        )
    return Layout(TEXT if _is_text(second) else BINARY, width, count)


def read_vectors(path: Path, wanted: Collection[str] | None = None) -> Vectors:
    """The vectors of a file, plain, .gz or .xz, or of those of its words that are wanted, whose numbers alone are read.

    Of a word that is there more than once the first vector counts, as elsewhere, with a warning.
    """
    path, layout = Path(path), layout_of(path)
    words: dict[str, None] = {}
    matrix = np.empty((0, layout.width), np.float32)
    found = repeated = 0
    example = ""
    with counting(f"reading {path}, words") as show:
        try:
            for number, names, numbers in _entries(path, layout):
                kept: list[int] = []
                for place, word in enumerate(names):
                    if word in words:
                        repeated, example = repeated + 1, example or f"{word!r} in {_place(layout, number + place)}"
                    elif wanted is None or word in wanted:
                        kept.append(place)
                        words[word] = None
                if kept:
                    if len(words) > len(matrix):  # in place: a second copy would not fit where the first just does
                        matrix.resize((len(words) * 5 // 4, layout.width), refcheck=False)
                    matrix[len(words) - len(kept) : len(words)] = numbers(kept)
                found = number + len(names) - _first(layout)
                show(found)
        except UNREADABLE as error:
            raise _unreadable(path, error) from error
    if layout.count not in (None, found):
        raise DataError(
            f"{path}: the header says {counted(layout.count or 0, 'word')}, but there {'is' if found == 1 else 'are'} "
            f"{found:,}; mend line 1 or copy the file again"
        )
    if repeated:
        warn(f"{path}: words that are there more than once: {repeated:,}, as {example}; the first of each counts")
    matrix.resize((len(words), layout.width), refcheck=False)
    return Vectors(list(words), matrix)


def _entries(path: Path, layout: Layout) -> Iterator[tuple[int, list[str], "_Numbers"]]:
    """Some words at a time: the number of the first one's line, or of itself in a binary file, and their numbers."""
    with opened(path) as file:
        if layout.form == BINARY:
            yield from _binary_entries(file, path, layout)
            return
        lines = bounded_lines(file, str(path))
        if layout.form == TEXT:
            next(lines)
        number = _first(layout)
        while chunk := list(islice(lines, ROWS_AT_ONCE)):
            if number == 1:
                chunk[0] = chunk[0].removeprefix(BYTE_ORDER_MARK)
            split = [_split(line, f"{path}, line {place}", layout) for place, line in enumerate(chunk, start=number)]
            words = [_decoded(word, f"{path}, line {place}") for place, (word, _) in enumerate(split, start=number)]
            yield number, words, _Numbers([rest for _, rest in split], path, number, layout)
            number += len(chunk)


def _split(line: bytes, place: str, layout: Layout) -> tuple[bytes, bytes]:
    """The word of a line, and its numbers."""
    line = line.rstrip(b" \r")
    more = line.count(b" ") - layout.width  # GloVe's largest file has a few words with spaces in them, such as ". . ."
    *words, rest = line.split(b" ", max(more, 0) + 1)
    if more and (more < 0 or layout.form == TEXT or any(map(_is_number, words[1:]))):
        known = "the first line has" if layout.form == GLOVE else "the header says"
        raise DataError(
            f"{place}: {counted(line.count(b' '), 'number')} where {known} {layout.width}; mend the line, with one "
            "space before each number"
        )
    word = b" ".join(words)
    if not word:
        raise DataError(f"{place}: there is no word before the numbers; mend the line")
    return word, rest


class _Numbers:
    """The numbers of some lines, parsed for those that are asked for."""

    def __init__(self, texts: list[bytes], path: Path, first: int, layout: Layout):
        self.texts, self.path, self.first, self.layout = texts, path, first, layout

    def __call__(self, kept: list[int]) -> np.ndarray:
        texts = [self.texts[place] for place in kept]
        found = self._parsed(b" ".join(texts))
        if found is None or found.size != len(texts) * self.layout.width:
            for place, text in zip(kept, texts):
                one = self._parsed(text)
                if one is None or one.size != self.layout.width:
                    wrong = next((part for part in text.split(b" ") if not _is_number(part)), text[:40])
                    raise DataError(f"{self._place(place)}: {_shown(wrong)} is not a number; mend the line")
        assert found is not None
        return _all_finite(found.reshape(len(texts), -1), lambda row: self._place(kept[row]))

    def _place(self, place: int) -> str:
        return f"{self.path}, line {self.first + place}"

    @staticmethod
    def _parsed(text: bytes) -> np.ndarray | None:
        if any(space in text for space in OTHER_SPACES):
            return None
        try:
            with warnings.catch_warnings():
                # Up to 2.2 at least, numpy only warns of "3x", and takes it for 3.
                warnings.simplefilter("error", DeprecationWarning)
                return np.fromstring(text, dtype=np.float32, sep=" ")  # type: ignore[call-overload]
        except (ValueError, DeprecationWarning):
            return None


def _binary_entries(file: BinaryIO, path: Path, layout: Layout) -> Iterator[tuple[int, list[str], "_Rows"]]:
    """A word, a space, and its numbers as they are in memory; some writers put a line feed behind them."""
    assert layout.count is not None
    file.readline()
    size, buffer, start = layout.width * NUMBER.itemsize, b"", 0
    for first in range(1, layout.count + 1, ROWS_AT_ONCE):
        words, rows = [], []
        for number in range(first, min(first + ROWS_AT_ONCE, layout.count + 1)):
            while (end := buffer.find(b" ", start)) < 0 or len(buffer) <= end + size:
                if end < 0 and len(buffer) - start > LONGEST_WORD:
                    raise DataError(f"{path}, word {number}: it has no end; the file is damaged, copy it again")
                more = file.read(max(BYTES_AT_ONCE, size))
                if not more:
                    raise DataError(
                        f"{path} ends within word {number:,} of {layout.count:,}; the file is cut off, copy it again"
                    )
                buffer, start = buffer[start:] + more, 0
            words.append(_decoded(buffer[start:end].lstrip(b"\n"), f"{path}, word {number}"))
            rows.append(buffer[end + 1 : end + 1 + size])
            start = end + 1 + size
        yield first, words, _Rows(rows, path, first, layout)
    if buffer[start:].strip(b"\n") or file.read(1).strip(b"\n"):
        raise DataError(
            f"{path} goes on behind the {layout.count:,} words of {layout.width} numbers that its header says; mend "
            "line 1"
        )


class _Rows(_Numbers):
    """The same of a binary file."""

    def __call__(self, kept: list[int]) -> np.ndarray:
        joined = b"".join(self.texts[place] for place in kept)
        found = np.frombuffer(joined, NUMBER).reshape(len(kept), -1)
        return _all_finite(found, lambda row: f"{self.path}, word {self.first + kept[row]}")


def _all_finite(rows: np.ndarray, place_of) -> np.ndarray:
    finite = np.isfinite(rows).all(axis=1)
    if not finite.all():
        row = int(np.argmin(finite))
        raise DataError(f"{place_of(row)}: a number is not finite (NaN or infinity); leave the word out")
    return rows


def _decoded(word: bytes, place: str) -> str:
    try:
        return word.decode("utf-8")
    except UnicodeDecodeError:
        raise DataError(f"{place}: the word {_shown(word)} is not UTF-8; convert the file to UTF-8") from None


def _is_text(line: bytes) -> bool:
    try:
        return not re.search(r"[\x00-\x08\x0e-\x1f]", line.decode("utf-8"))
    except UnicodeDecodeError:
        return False


def _is_number(text: bytes) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _shown(text: bytes) -> str:
    return repr(text[:40].decode("utf-8", errors="replace"))


def _first(layout: Layout) -> int:
    return 2 if layout.form == TEXT else 1


def _place(layout: Layout, number: int) -> str:
    return f"{'word' if layout.form == BINARY else 'line'} {number}"


def _unreadable(path: Path, error: BaseException) -> DataError:
    reason = getattr(error, "strerror", None) or error
    return DataError(f"{path} cannot be read: {reason}; check that the file is there and whole")


def write_vectors(path: Path, words: list[str], matrix: np.ndarray, *, glove: bool = False) -> None:
    """Writes word2vec's text (.txt, .vec) or binary format (.bin), or GloVe's text; numbers read back as they are."""
    refuse_unwritable(path, *ENDINGS)
    form = ENDINGS[path.suffix.lower()]
    if glove and form == BINARY:
        raise ConfigError(f"{path} is binary by its name, but GloVe's format is text; end it in .txt")
    for word in words:
        if not word or "\n" in word or (" " in word and not glove):
            raise ConfigError(f"{path} is not written: the word {word!r} has a space, a line feed or no letter in it")
    template = " ".join(["%.9g"] * matrix.shape[1])  # so many digits tell every float from its neighbours
    try:
        with written_atomically(path) as file:
            if not glove:
                file.write(f"{len(words)} {matrix.shape[1]}\n".encode())
            for word, row in zip(words, np.asarray(matrix, NUMBER)):
                written = row.tobytes() if form == BINARY else (template % tuple(row.tolist())).encode() + b"\n"
                file.write(word.encode("utf-8") + b" " + written)
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror or error}") from error
