"""The lexicon of a classifier: words that speak well or ill of something, shipped or brought along."""

from pathlib import Path

from manyheads.core.errors import ConfigError, DataError
from manyheads.models.lexicon import EXCLAMATION, KINDS, NEGATIVE, NO, POSITIVE, PRONOUN
from manyheads.text.words import words_of

SHIPPED = Path(__file__).with_name("lexicon.tsv")
POLARITIES = (POSITIVE, NEGATIVE)
_ALONE = "i me my mine myself we us our ours ourselves you your yours yourself yourselves"
_JOINED = "i'm i've i'll i'd we're we've we'll we'd you're you've you'll you'd"
PRONOUNS = (*_ALONE.split(), *_JOINED.split())


def read_lexicon(path: str | Path | None) -> dict[str, str]:
    """The words of a file of lines `word<TAB>positive|negative`, each with its polarity; no path: the shipped one."""
    file = Path(path) if path else SHIPPED
    try:
        lines = file.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ConfigError(f"{file} cannot be read as a lexicon ({reason}); give a text file in UTF-8") from None
    found: dict[str, str] = {}
    for number, line in enumerate(lines, start=1):
        if line.strip() and not line.startswith("#"):
            word, polarity = _entry(line, f"{file}, line {number}")
            if word in found:
                raise DataError(f"{file}, line {number}: {word!r} was there before, as {found[word]}; leave one away")
            found[word] = polarity
    for polarity in POLARITIES:
        if polarity not in found.values():
            raise DataError(f"{file} has no {polarity} words; add some as 'word<TAB>{polarity}'")
    return found


def _entry(line: str, place: str) -> tuple[str, str]:
    """The word of a line, as texts are cut into words, and its polarity."""
    word, tab, polarity = line.partition("\t")
    polarity = polarity.strip()
    if not tab or polarity not in POLARITIES:
        said = f"the polarity {polarity!r}" if tab else f"{line!r:.60} without a tab"
        raise DataError(f"{place}: {said} is not known; a line is a word, a tab, and positive or negative")
    words = words_of(word)
    if len(words) != 1:
        raise DataError(f"{place}: {word!r:.60} is {len(words)} words; a lexicon has one word a line")
    return words[0], polarity


def kinds_of_words(lexicon: dict[str, str]) -> dict[str, list[int]]:
    """Every word that is counted, with the numbers of the kinds that it is counted as."""
    found: dict[str, list[int]] = {"!": [KINDS.index(EXCLAMATION)], "no": [KINDS.index(NO)]}
    pairs = [*((word, PRONOUN) for word in PRONOUNS), *lexicon.items()]
    for word, kind in pairs:
        found.setdefault(word, []).append(KINDS.index(kind))
    return found
