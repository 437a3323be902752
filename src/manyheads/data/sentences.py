"""Sentences of documents as token ids, on disk: what models that read whole sentences learn from."""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import numpy as np

from manyheads.core.errors import ConfigError, DataError
from manyheads.core.files import directory_written_atomically
from manyheads.data.documents import Piece
from manyheads.data.store import Encoder

CHUNK_LETTERS = 4_000_000  # encoded in one call, whose strings the tokenizer shares out among the cores
MANY_DOCUMENTS = 10  # from so many on, whole documents are held out

# Marks may be several, and in tokenized text stand apart: "Really ? ! )".  A straight quote that stands apart belongs
# to the sentence only where it closes one, which the pattern cannot tell.
SENTENCE_END = re.compile(r"""\n|[.!?](?:\ ?[.!?])*(?:\ ?[)\]}”’»]|["'])*(?P<quote>\ ")?(?=\s|\Z)""")

FILES = {"ids": np.dtype(np.int32), "sentences": np.dtype(np.int64), "documents": np.dtype(np.int64)}


def sentences_of(text: str) -> list[str]:
    """The sentences of a text, which end with a line or with . ! ? before whitespace; blank ones are left out."""
    sentences, start = [], 0
    for end in _ends(text):
        if sentence := text[start:end].strip():
            sentences.append(sentence)
        start = end
    return sentences


def _ends(text: str) -> Iterator[int]:
    """Where the sentences of a text end, the last at the end of the text."""
    quotes = counted = 0  # in this line, up to `counted`
    for found in SENTENCE_END.finditer(text):
        end = found.end()
        if found.group() == "\n":
            quotes, counted = 0, end
        elif found["quote"]:
            quote = found.start("quote")
            quotes, counted = quotes + text.count('"', counted, quote), quote
            end = end if quotes % 2 else quote  # where none is open, it opens the next sentence
        yield end
    yield len(text)


@dataclass(frozen=True)
class Counts:
    """What `store.json` says of a store."""

    tokens: int
    sentences: int
    documents: int
    letters: int


class SentenceStore:
    """Token ids of sentences end to end, in memory-mapped files.

    They are `ids.bin`, `sentences.bin` and `documents.bin`, with `store.json` about them.  A part of a store shares
    its `ids`, so that the first sentence need not begin at the first of them.
    """

    def __init__(self, ids: np.ndarray, sentences: np.ndarray, documents: np.ndarray):
        self.ids = ids
        """int32: the ids of all sentences."""
        self.sentences = sentences
        """int64: where each sentence begins in `ids`, and at last where the final one ends."""
        self.documents = documents
        """int64: where each document begins among the sentences, and at last where the final one ends."""

    @classmethod
    def build(
        cls,
        directory: Path,
        documents: Iterable[Piece],
        tokenizer: Encoder,
        *,
        longest: int,
        on_progress: Callable[[int], None] | None = None,
    ) -> "SentenceStore":
        """Encode the sentences of all documents into `directory`, in the place of a store that is there already.

        A sentence of more than `longest` ids is split into parts about equally long.  `on_progress` is told the number
        of letters encoded so far.  The directory appears only when it is whole.
        """
        if longest < 1:
            raise ConfigError(f"sentences of at most {longest} tokens cannot be; allow at least 1")
        directory = Path(directory).absolute()
        known = {"store.json", *map(_file, FILES)}
        if directory.exists() and (not directory.is_dir() or {each.name for each in directory.iterdir()} - known):
            raise DataError(f"{directory} holds something else than a store of sentences; name a new directory")
        try:
            with directory_written_atomically(directory) as unfinished:
                counts = _write(unfinished, documents, tokenizer, longest, on_progress)
                text = json.dumps(asdict(counts), indent=2) + "\n"
                (unfinished / "store.json").write_text(text, encoding="utf-8")
        except OSError as error:
            raise DataError(f"{directory} cannot be written ({error}); check the free space and the rights") from error
        return cls.open(directory)

    @classmethod
    def open(cls, directory: Path) -> "SentenceStore":
        """Map the files of a store into memory, without reading them."""
        directory = Path(directory)
        try:
            counts = Counts(**json.loads((directory / "store.json").read_text(encoding="utf-8")))
            sizes = {"ids": counts.tokens, "sentences": counts.sentences + 1, "documents": counts.documents + 1}
            arrays = [_mapped(directory, name, sizes[name]) for name in FILES]
        except (OSError, ValueError, TypeError) as error:
            raise DataError(f"{directory} is not a whole store of sentences ({error}); build it again") from error
        return cls(*arrays)

    @classmethod
    def from_ids(cls, documents: Sequence[Sequence[Sequence[int]]]) -> "SentenceStore":
        """A store in memory, for tests and small texts: documents of sentences of ids."""
        sentences = [sentence for document in documents for sentence in document]
        return cls(
            ids=np.fromiter(chain.from_iterable(sentences), dtype=np.int32),
            sentences=np.cumsum([0, *map(len, sentences)], dtype=np.int64),
            documents=np.cumsum([0, *map(len, documents)], dtype=np.int64),
        )

    def __len__(self) -> int:
        return len(self.sentences) - 1

    @property
    def tokens(self) -> int:
        """How many ids all sentences have together."""
        return int(self.sentences[-1] - self.sentences[0])

    def part(self, start: int, stop: int) -> "SentenceStore":
        """The sentences from `start` up to `stop` as a store, over the same files."""
        if not 0 <= start <= stop <= len(self):
            raise IndexError(f"sentences {start} to {stop} of a store of {len(self)}")
        documents = np.unique(self.documents.clip(start, stop)) - start
        return SentenceStore(self.ids, self.sentences[start : stop + 1], documents)

    def split(self, fraction: float, most_tokens: int) -> tuple["SentenceStore", "SentenceStore"]:
        """All but about the last `fraction` of the sentences, and these, up to `most_tokens` tokens.

        Ten documents or more are kept whole, unless the last is over `most_tokens` or over twice that fraction.
        """
        count = len(self)
        if count < 2:
            raise DataError(f"of {count} sentences none can be held out for validation; give more text")
        held = min(max(int(count * fraction), 1), count - 1)
        few_tokens = np.searchsorted(self.sentences, self.sentences[-1] - most_tokens)
        earliest = min(max(int(few_tokens), count - 2 * held), count - 1)
        starts = self.documents[1:-1]
        whole = starts[starts >= earliest] if len(self.documents) > MANY_DOCUMENTS else starts[:0]
        border = max(count - held, int(few_tokens))
        border = whole[np.abs(whole - border).argmin()] if len(whole) else min(border, count - 1)
        return self.part(0, int(border)), self.part(int(border), count)


class _Chunk(NamedTuple):
    """Sentences that are encoded together."""

    sentences: list[str]
    document_ends: list[int]
    """Behind how many of the sentences a document ends."""
    letters: int


def _chunks(pieces: Iterable[Piece]) -> Iterator[_Chunk]:
    sentences, document_ends, letters, rest = [], [], 0, ""
    for piece in pieces:
        text = rest + piece.text
        complete = len(text) if piece.ends else _complete(text)
        sentences += sentences_of(text[:complete])
        rest = text[complete:]
        letters += len(piece.text)
        if piece.ends:
            document_ends.append(len(sentences))
        if letters >= CHUNK_LETTERS:
            yield _Chunk(sentences, document_ends, letters)
            sentences, document_ends, letters = [], [], 0
    sentences += sentences_of(rest)
    yield _Chunk(sentences, [*document_ends, len(sentences)], letters)


def _complete(text: str) -> int:
    """How much of a text surely is whole sentences, when more of its document follows.

    Pieces end with a line, or within a very long one, whose last sentence then goes on in the next piece.  What has no
    end for very long is taken as it is, for else it might grow beyond the memory.
    """
    if text.endswith("\n"):
        return len(text)
    return max((end for end in _ends(text) if end < len(text)), default=len(text) if len(text) > CHUNK_LETTERS else 0)


def _write(
    directory: Path,
    pieces: Iterable[Piece],
    tokenizer: Encoder,
    longest: int,
    on_progress: Callable[[int], None] | None,
) -> Counts:
    files = {name: (directory / _file(name)).open("wb") for name in FILES}
    tokens = sentences = documents = letters = ended = 0
    try:
        for name in ("sentences", "documents"):
            np.zeros(1, FILES[name]).tofile(files[name])
        for chunk in _chunks(pieces):
            rows = tokenizer.encode(chunk.sentences) if chunk.sentences else []
            parts = [_parts(len(row), longest) for row in rows]
            sentence_ends = tokens + np.cumsum([*chain.from_iterable(parts)], dtype=np.int64)
            counted = sentences + np.cumsum([0, *map(len, parts)], dtype=np.int64)
            document_ends = np.unique(counted[np.array(chunk.document_ends, dtype=np.int64)])
            document_ends = document_ends[document_ends > ended]  # a document without a sentence is none
            np.fromiter(chain.from_iterable(rows), FILES["ids"]).tofile(files["ids"])
            sentence_ends.tofile(files["sentences"])
            document_ends.tofile(files["documents"])
            tokens, sentences = tokens + sum(map(len, rows)), int(counted[-1])
            documents, ended = documents + len(document_ends), max([ended, *document_ends.tolist()])
            letters += chunk.letters
            if on_progress is not None:
                on_progress(letters)
    finally:
        for file in files.values():
            file.close()
    if not sentences:
        raise DataError(f"no sentences came out of {letters} letters of text; check the files and the tokenizer")
    return Counts(tokens, sentences, documents, letters)


def _parts(length: int, longest: int) -> list[int]:
    """The lengths of the fewest parts of a sentence that are not over `longest`, none of an empty one."""
    count = -(-length // longest)
    return [length * (part + 1) // count - length * part // count for part in range(count)]


def _file(name: str) -> str:
    return f"{name}.bin"


def _mapped(directory: Path, name: str, count: int) -> np.ndarray:
    path, dtype = directory / _file(name), FILES[name]
    if count < 1 or path.stat().st_size != count * dtype.itemsize:
        raise ValueError(f"{path.name} has {path.stat().st_size} bytes where {count * dtype.itemsize} were written")
    # A plain array over the map: slices of np.memmap itself are several times slower.
    return np.asarray(np.memmap(path, dtype=dtype, mode="r"))
