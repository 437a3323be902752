"""Sentences of documents as token ids, on disk: what models that read whole sentences learn from."""

import re
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from pathlib import Path

import numpy as np

from manyheads.core.errors import ConfigError, DataError
from manyheads.core.words import counted
from manyheads.data.ragged import Encoder, Ragged, Store, Told, id_type, nobody, store_written
from manyheads.data.readers.documents import Piece

CHUNK_LETTERS = 4_000_000  # encoded in one call, whose strings the tokenizer shares out among the cores
MANY_DOCUMENTS = 10  # from so many on, whole documents are held out

# Marks may be several, and in tokenized text stand apart: "Really ? ! )".  A straight quote that stands apart belongs
# to the sentence only where it closes one, which the pattern cannot tell.
SENTENCE_END = re.compile(r"""\n|[.!?](?:\ ?[.!?])*(?:\ ?[)\]}”’»]|["'])*(?P<quote>\ ")?(?=\s|\Z)""")


def sentences_of(text: str) -> list[str]:
    """The sentences of a text, which end with a line or with . ! ? before whitespace; blank ones are left out."""
    sentences, start = [], 0
    for end in _ends(text):
        if sentence := text[start:end].strip():
            sentences.append(sentence)
        start = end
    return sentences


def parts_that_fit(text: str, fits: Callable[[str], bool]) -> list[str]:
    """A text in parts that fit: its sentences, and halves of those that are too long, cut between words if possible."""
    text = text.strip()
    if fits(text) or len(text) < 2:
        return [text]
    parts = sentences_of(text)
    if len(parts) < 2:
        words, half = text.split(), len(text) // 2
        middle = len(words) // 2
        cut = [" ".join(words[:middle]), " ".join(words[middle:])]
        parts = cut if middle else [text[:half], text[half:]]
    return [part for each in parts for part in parts_that_fit(each, fits)]


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


def write_sentences(
    directory: Path, documents: Iterable[Piece], tokenizer: Encoder, *, longest: int, on_progress: Told = nobody
) -> Store:
    """Encode the sentences of all documents into a store: their `ids`, and of each the number of its `document`.

    A sentence of more than `longest` ids is split into parts about equally long.  `on_progress` is told the number of
    letters encoded so far.
    """
    if longest < 1:
        raise ConfigError(f"sentences of at most {longest} tokens cannot be; allow at least 1")
    dtype = id_type(tokenizer)
    letters = 0
    with store_written(directory) as writer:
        for sentences, document_of_each, read in _chunks(documents):
            rows = tokenizer.encode(sentences) if sentences else []
            parts = [_parts(len(row), longest) for row in rows]
            ends = np.cumsum([0, *chain.from_iterable(parts)], dtype=np.int64)
            ids = Ragged(np.fromiter(chain.from_iterable(rows), dtype), ends)
            numbers = np.repeat(np.array(document_of_each, dtype=np.int32), [*map(len, parts)])
            writer.append({"ids": ids, "document": numbers})
            letters += read
            on_progress(letters)
        if not writer.rows:
            raise DataError(f"no sentences came out of {letters} letters of text; check the files and the tokenizer")
        writer.about = {"letters": letters}
    return Store.open(directory)


def document_bounds(store: Store) -> np.ndarray:
    """Where each document begins among the sentences, and at last where the final one ends."""
    document = store["document"]
    begins = np.flatnonzero(document[1:] != document[:-1]) + 1
    return np.unique(np.concatenate([[0], begins, [len(document)]]))


def split(store: Store, fraction: float, most_tokens: int) -> tuple[Store, Store]:
    """All but about the last `fraction` of the sentences, and these, up to `most_tokens` tokens.

    Ten documents or more are kept whole, unless the last is over `most_tokens` or over twice that fraction.
    """
    count, begin, documents = len(store), store["ids"].offsets, document_bounds(store)
    if count < 2:
        raise DataError(f"of {counted(count, 'sentence')} none can be held out for validation; give more text")
    held = min(max(int(count * fraction), 1), count - 1)
    few_tokens = np.searchsorted(begin, begin[-1] - most_tokens)
    earliest = min(max(int(few_tokens), count - 2 * held), count - 1)
    starts = documents[1:-1]
    whole = starts[starts >= earliest] if len(documents) > MANY_DOCUMENTS else starts[:0]
    border = max(count - held, int(few_tokens))
    border = whole[np.abs(whole - border).argmin()] if len(whole) else min(border, count - 1)
    return store.part(0, int(border)), store.part(int(border), count)


def _chunks(pieces: Iterable[Piece]) -> Iterator[tuple[list[str], list[int], int]]:
    """Sentences that are encoded together, the number of the document that each is of, and their letters."""
    sentences, documents, letters, number, rest = [], [], 0, 0, ""
    for piece in pieces:
        text = rest + piece.text
        complete = len(text) if piece.ends else _complete(text)
        rest = text[complete:]
        sentences += sentences_of(text[:complete])
        documents += [number] * (len(sentences) - len(documents))
        number += piece.ends
        letters += len(piece.text)
        if letters >= CHUNK_LETTERS:
            yield sentences, documents, letters
            sentences, documents, letters = [], [], 0
    sentences += sentences_of(rest)
    yield sentences, documents + [number] * (len(sentences) - len(documents)), letters


def _complete(text: str) -> int:
    """How much of a text surely is whole sentences, when more of its document follows.

    Pieces end with a line, or within a very long one, whose last sentence then goes on in the next piece.  What has no
    end for very long is taken as it is, for else it might grow beyond the memory.
    """
    if text.endswith("\n"):
        return len(text)
    return max((end for end in _ends(text) if end < len(text)), default=len(text) if len(text) > CHUNK_LETTERS else 0)


def _parts(length: int, longest: int) -> list[int]:
    """The lengths of the fewest parts of a sentence that are not over `longest`, none of an empty one."""
    count = -(-length // longest)
    return [length * (part + 1) // count - length * part // count for part in range(count)]
