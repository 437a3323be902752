"""Words for numbers."""


def counted(count: int, noun: str, nouns: str | None = None) -> str:
    """A number with its noun: 1 example, 2,000 examples."""
    return f"{count:,} {noun if count == 1 else nouns or f'{noun}s'}"
