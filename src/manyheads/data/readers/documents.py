"""Raw text in, pieces of documents out; neither a file nor a document of plain text has to fit into memory."""

import re
from codecs import getincrementaldecoder
from collections.abc import Iterable, Iterator, Sequence
from glob import escape, glob
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from manyheads.core.errors import DataError
from manyheads.data.readers.corpus import BYTE_ORDER_MARK, OBJECTS, UNREADABLE, opened, read_objects, text_at, unpacked

TEXTS = (".txt", ".md", ".text", *OBJECTS)
BLOCK_BYTES = 2**20
STRETCH = 4  # a piece is at most this many times as long as was asked for

# Byte-level BPE splits text by a pattern before it merges, and the same text gives the same ids in pieces as whole if
# no cut changes that split.  None does behind a lone line feed: GPT-2 splits two of them by what follows, and GPT-4o
# joins one with a slash.  Behind more than one, at most the ids of those line feeds change.
LINE_CUTS = (re.compile(r"\n(?<=\S\n)(?=[^\s/])"), re.compile(r"\n(?=\S)"))
SPACE_CUT = re.compile(r"\S(?= \S)")


class Piece(NamedTuple):
    """A part of a document; `ends` where the document ends with it."""

    text: str
    ends: bool


def find_texts(names: Sequence[str]) -> list[Path]:
    """The files that names of files, folders and globs stand for, each of them once.

    A folder stands for every text in it and below, and a glob for the files that match, sorted; as in a shell, neither
    for what is hidden behind a dot.  A file named outright may have any name.
    """
    found: dict[Path, Path] = {}
    for name in names:
        if Path(name).is_dir():
            inside = _files(str(Path(escape(name), "**", "*")))
            paths = [path for path in inside if unpacked(path).suffix in TEXTS]
            problem = f"the folder {name} holds no file that ends in {', '.join(TEXTS)}, plain, .gz or .xz"
        else:
            paths = [Path(name)] if Path(name).exists() else _files(name)
            problem = f"{name} is not there, neither as a file or folder nor as a pattern that files match"
        if not paths:
            raise DataError(f"{problem}; check the path, or name the files themselves")
        for path in paths:
            found.setdefault(path.resolve(), path)
    return list(found.values())


def _files(pattern: str) -> list[Path]:
    return sorted(path for path in map(Path, glob(pattern, recursive=True)) if path.is_file())


def read_documents(paths: Sequence[Path], field: str | None = None, piece_letters: int = 1_000_000) -> Iterator[Piece]:
    """The documents of text files in pieces that give the document exactly when they are put together.

    Every line of a .jsonl file is a document, the string at the dotted path `field`; any other file is one.  Pieces
    are cut where lines begin, as soon as they have `piece_letters`, and elsewhere only if that finds no place in four
    times as many.  Blank documents are left out.  That a file is missing is said at the call, not at the first piece.
    """
    paths = [Path(path) for path in paths]
    for path in paths:
        if not path.exists():
            raise DataError(f"{path} is not there; check the path")
    return _read(paths, field or "text", piece_letters)


def _read(paths: list[Path], field: str, piece_letters: int) -> Iterator[Piece]:
    empty = True
    for path in paths:
        documents = _objects(path, field) if unpacked(path).suffix in OBJECTS else [_plain(path)]
        for blocks in documents:
            for piece in _unless_blank(_cut(blocks, piece_letters)):
                empty = False
                yield piece
    if empty:
        names = ", ".join(str(path) for path in paths[:3]) or "no files at all"
        more = f" and {len(paths) - 3} more" if len(paths) > 3 else ""
        raise DataError(f"there is no text in {names}{more}; name files with something in them")


def _objects(path: Path, field: str) -> Iterator[list[str]]:
    return ([text_at(entry, field, f"{path}, line {number}")] for number, entry in read_objects(path))


def _plain(path: Path) -> Iterator[str]:
    """The text of a file in blocks, with line feeds alone at the ends of lines."""
    returned = ""  # a carriage return at the end of a block, whose line feed may begin the next
    for text in _decoded(path):
        text = returned + text
        returned = text[-1:] if text.endswith("\r") else ""
        yield text.removesuffix("\r").replace("\r\n", "\n")
    yield returned


def _decoded(path: Path) -> Iterator[str]:
    decoder = getincrementaldecoder("utf-8")()
    read = 0
    try:
        with opened(path) as file:
            first = file.read(len(BYTE_ORDER_MARK))
            if first == BYTE_ORDER_MARK:
                read, first = len(first), b""
            for block in chain([first], iter(lambda: file.read(BLOCK_BYTES), b"")):
                if b"\0" in block:
                    raise DataError(
                        f"{path} holds binary data, not text (byte {read + block.index(0) + 1} is zero); leave it out"
                    )
                yield decoder.decode(block)
                read += len(block)
            yield decoder.decode(b"", final=True)
    except UnicodeDecodeError as error:
        kept = len(decoder.getstate()[0])  # the first bytes of a letter, from the block before
        raise DataError(
            f"{path}: byte {read - kept + error.start + 1} is not UTF-8 ({error.reason}); convert the file to UTF-8"
        ) from error
    except UNREADABLE as error:
        reason = getattr(error, "strerror", None) or error
        raise DataError(
            f"{path} cannot be read after byte {read}: {reason}; check that the file is there and whole"
        ) from error


def _cut(blocks: Iterable[str], piece_letters: int) -> Iterator[Piece]:
    """The pieces of one document, the same whatever blocks it comes in."""
    text, start = "", 0
    for block in blocks:
        text, start = text[start:] + block, 0
        while len(text) - start > STRETCH * piece_letters:
            place = _place(text, start, piece_letters)
            yield Piece(text[start:place], ends=False)
            start = place
    while start < len(text):
        place = _place(text, start, piece_letters)
        yield Piece(text[start:place], ends=place == len(text))
        start = place


def _place(text: str, start: int, piece_letters: int) -> int:
    """Where the piece ends that begins at `start`."""
    latest = start + STRETCH * piece_letters
    for cut in (*LINE_CUTS, SPACE_CUT) if len(text) > latest else LINE_CUTS:
        # One letter more than the longest piece, for a cut looks at what follows it.
        if found := cut.search(text, start + piece_letters - 1, latest + 1):
            return found.end()
    return min(latest, len(text))


def _unless_blank(pieces: Iterator[Piece]) -> Iterator[Piece]:
    """All pieces of a document, or none if it is nothing but whitespace."""
    held = []
    for piece in pieces:
        held.append(piece)
        if not piece.text.isspace():
            yield from held
            yield from pieces
