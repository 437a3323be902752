"""How a sentence is written: with a capital and a mark at its end, as people write, or as some type in a hurry."""

import hashlib
from dataclasses import replace

from tools.sample.clauses import Sentence

# Whether a sentence begins with a capital and whether it ends with a mark; as many of eight as are written so.
HABITS = (*[(True, True)] * 5, (True, False), (False, True), (False, False))


def written(one: Sentence) -> Sentence:
    """The sentence in a habit of writing that follows from its words and is the same in both languages."""
    digest = hashlib.sha256(one.source.encode()).digest()
    return written_as(one, *HABITS[digest[0] % len(HABITS)])


def written_as(one: Sentence, capital: bool = True, mark: bool = True) -> Sentence:
    """The sentence with a capital and with a full stop or its question mark, or without."""
    source, target = (_side(text, capital, mark) for text in (one.source, one.target))
    return replace(one, source=source, target=target)


def _side(text: str, capital: bool, mark: bool) -> str:
    bare = text.removesuffix("?")
    ending = "?" if bare != text else "."
    return (bare[0].upper() if capital else bare[0]) + bare[1:] + (ending if mark else "")
