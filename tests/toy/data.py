"""Lines as pairs with their reverse."""

from pathlib import Path

from manyheads.core.errors import ConfigError
from manyheads.data.readers.corpus import read_lines


def read_pairs(names: tuple[str, ...]) -> list[tuple[str, str]]:
    """Each line of the files with its reverse."""
    if not names:
        raise ConfigError("there are no lines; give a file with --lines")
    return [(line, line[::-1]) for name in names for line in read_lines(Path(name)) if line]
