"""Checksums of a directory's files, laid beside them as `sha256sum` writes them: no damage goes unseen."""

import re
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

from manyheads.core.errors import CheckpointError
from manyheads.core.files import sha256, write_atomically

CHECKSUMS = "manyheads.sha256"
_LINE = re.compile(r"([0-9a-f]{64})  (.+)")


def files_under(directory: Path, *names: str) -> list[str]:
    """The files that the names are or hold, by their place in the directory; no names: all files."""
    found = [path for name in names or ("",) for path in (directory / name, *(directory / name).rglob("*"))]
    return sorted(path.relative_to(directory).as_posix() for path in found if path.is_file())


def write_checksums(directory: Path, names: Iterable[str], known: dict[str, str] | None = None) -> None:
    """Writes down what the files hold now; those of `known` are believed to be as they were."""
    known = known or {}
    sums = {name: known.get(name) or sha256(directory / name) for name in names}
    write_atomically(directory / CHECKSUMS, "".join(f"{each}  {name}\n" for name, each in sums.items()))


def read_checksums(directory: Path) -> dict[str, str]:
    """What was written down of each file; of a directory from elsewhere nothing."""
    file = directory / CHECKSUMS
    if not file.is_file():
        return {}
    try:
        lines = [_LINE.fullmatch(line) for line in file.read_bytes().decode("utf-8").removesuffix("\n").split("\n")]
        found = {line[2]: line[1] for line in lines if line}
    except UnicodeDecodeError:
        lines, found = [], {}
    inside = all(".." not in (place := PurePosixPath(name)).parts and not place.is_absolute() for name in found)
    if not found or len(found) < len(lines) or not inside:
        raise CheckpointError(f"{file} is damaged; remove it if all other files are known to be as they were")
    return found


def refuse_changed(directory: Path, *names: str, remedy: str = "bring it back from where it came from") -> None:
    """Refuses a directory where a file is missing, or one that the names are or hold is not as it was written."""
    for name, written in read_checksums(directory).items():
        path, asked = directory / name, not names or PurePosixPath(name).parts[0] in names
        if not path.is_file() or (asked and sha256(path) != written):
            what = "is not what it was when it was written" if path.is_file() else "is missing"
            raise CheckpointError(
                f"{path} {what}, as its checksum shows; {remedy}, or remove {directory / CHECKSUMS} if you changed it "
                "yourself"
            )
