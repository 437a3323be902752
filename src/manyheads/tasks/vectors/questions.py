"""What word vectors are scored on: files of analogies, and of pairs of words with how alike they are."""

from pathlib import Path

from manyheads.core.errors import DataError
from manyheads.core.words import counted
from manyheads.data.readers.corpus import read_lines
from manyheads.tasks.labelled import as_number


def read_analogies(path: Path) -> list[tuple[str, list[str]]]:
    """Each question with the section that it is in, as in questions-words.txt: `: family`, then four words a line."""
    section, found = "", []
    for number, line in enumerate(read_lines(path), start=1):
        if line.startswith(":"):
            section = line.removeprefix(":").strip()
        elif line.strip():
            words = line.split()
            if len(words) != 4:
                raise DataError(
                    f"{path}, line {number}: {counted(len(words), 'word')} where an analogy has four; mend it"
                )
            found.append((section, words))
    if not found:
        raise DataError(f"{path} has no analogies; give lines of four words, such as: man king woman queen")
    return found


def read_similarities(path: Path) -> list[tuple[str, str, float]]:
    """Two words a line and a number, tabs or spaces between, as in WordSim-353 and SimLex-999; # begins a remark."""
    found = []
    for number, line in enumerate(read_lines(path), start=1):
        if line.strip() and not line.startswith("#"):
            parts, place = line.split(), f"{path}, line {number}"
            if len(parts) != 3:
                what = counted(len(parts), "part")
                raise DataError(f"{place}: {what} where there must be two words and a number; mend the line")
            found.append((parts[0], parts[1], as_number(parts[2], place)))
    if not found:
        raise DataError(f"{path} has no pairs; give lines of two words and how alike they are")
    return found
