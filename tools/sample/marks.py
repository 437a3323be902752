"""Marks that a word may carry, before its first letter, of what it renders; text that nobody aligns has none.

A mark is one character of Unicode's private use area, so that it is neither letter nor space, and says which thing of
the sentence a word renders, in which role, and whether the word plainly renders it or only shares in it.
"""

import re
from dataclasses import dataclass, field

ROLES = (
    "pronoun", "noun", "adjective", "determiner", "relative", "and",  # of a noun phrase
    "finite", "support", "verb", "particle", "to", "negation", "opening",  # of a clause
    "0", "1", "2",  # of an adverbial: its German words in order
)  # fmt: skip
FIRST_MARK, LAST_MARK = 0xE000, 0xF8FF
MARKS_OF_A_THING = 2 * len(ROLES)
_MARKS = re.compile(f"[{chr(FIRST_MARK)}-{chr(LAST_MARK)}]+")
_LEADING = re.compile(f"[{chr(FIRST_MARK)}-{chr(LAST_MARK)}]*")


@dataclass(frozen=True, slots=True)
class Thing:
    """What words can render; `number`, from 1, tells it from the others of its sentence, and 0 leaves words bare."""

    number: int = field(default=0, kw_only=True)

    def sure(self, role: str, word: str) -> str:
        """The word, which plainly renders this thing in this role."""
        return self._mark(role, 0) + word if self.number and word else word

    def possible(self, role: str, word: str) -> str:
        """The word, which shares in rendering this thing in this role but has a task of its own, or none."""
        return self._mark(role, 1) + word if self.number and word else word

    def _mark(self, role: str, weak: int) -> str:
        return chr(FIRST_MARK + (self.number - 1) * MARKS_OF_A_THING + 2 * ROLES.index(role) + weak)


def bare(text: str) -> str:
    """The text without its marks."""
    return _MARKS.sub("", text)


def marks_of(word: str) -> str:
    """The marks that a word carries."""
    found = _LEADING.match(word)
    return found[0] if found else ""


def weakened(marks: str) -> str:
    """The same marks, none of them plain any more."""
    return "".join(chr(ord(mark) | 1) for mark in marks)


def is_sure(mark: str) -> bool:
    """Whether a word with this mark plainly renders what the mark names."""
    return not ord(mark) & 1
