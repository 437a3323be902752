"""Words for numbers, and whether words can be written."""


def counted(count: int, noun: str, nouns: str | None = None) -> str:
    """A number with its noun: 1 example, 2,000 examples."""
    return f"{count:,} {noun if count == 1 else nouns or f'{noun}s'}"


def is_utf8(text: str) -> bool:
    """Whether a text has a form in UTF-8, as bytes of a file's name may not have, and half a pair in JSON."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True
