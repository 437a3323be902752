"""Files that are either whole or not there: a temporary name, fsync, rename."""

import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from manyheads.core.errors import ConfigError

TEMPORARY = re.compile(r"\..*manyheads-(unfinished|previous|prepared|lock)")
"""The names of what is there only for a while: hidden, and such as nobody gives to a file of their own."""


def beside(path: Path, what: str) -> Path:
    """What lies beside a path for a while, as its `unfinished` successor or the `previous` one."""
    return path.parent / f".{path.name}.manyheads-{what}"


def refuse_unwritable(path: Path, *endings: str) -> None:
    """A file that could not be written, or has another ending, is refused before there is anything to write."""
    folder = path.absolute().parent
    if endings and path.suffix.lower() not in endings:
        raise ConfigError(f"{path} must end in {' or '.join(endings)}")
    if path.is_dir():
        raise ConfigError(f"{path} is a folder; name a file")
    if not folder.is_dir():
        raise ConfigError(f"{path} cannot be written: there is no folder {path.parent}")
    if not os.access(folder, os.W_OK) or (path.exists() and not os.access(path, os.W_OK)):
        raise ConfigError(f"{path} cannot be written: permission denied")


def refuse_existing(directory: Path) -> None:
    """What would take the place of something is refused before there is anything to put there."""
    if os.path.lexists(directory):
        raise ConfigError(f"{directory} exists already; name another directory")


def refuse_unwritable_folder(path: Path) -> None:
    """A folder that could not be made, or filled, is refused before there is anything to put into it."""
    nearest = next(each for each in (path.absolute(), *path.absolute().parents) if each.exists())
    if not nearest.is_dir():
        why = "" if nearest == path.absolute() else f" cannot be written: {nearest}"
        raise ConfigError(f"{path}{why} is a file; give another --out")
    if not os.access(nearest, os.W_OK):
        raise ConfigError(f"{path} cannot be written: permission denied for {nearest}; give another --out")


def write_result(path: Path, content: str | bytes) -> None:
    """Writes what a user asked for, whole or not at all; where that cannot be, one sentence says why."""
    refuse_unwritable(path)
    try:
        write_atomically(path, content)
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror or error}") from error


def sync(path: Path) -> None:
    """Hands a file or directory to the disk, so that a power cut does not lose it."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def written_atomically(path: Path) -> Iterator[BinaryIO]:
    """A file that takes the place of `path` in one step when the block ends well, and else vanishes."""
    temporary = beside(path, "unfinished")
    try:
        with temporary.open("wb") as file:
            yield file
        sync(temporary)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync(path.parent)


def write_atomically(path: Path, content: str | bytes) -> None:
    """Replaces a file in one step; readers see the old one or the new one."""
    with written_atomically(path) as file:
        file.write(content if isinstance(content, bytes) else content.encode("utf-8"))


@contextmanager
def folder_made(folder: Path) -> Iterator[None]:
    """Makes a folder and those above it; each that holds nothing when the block ends is removed again."""
    made = [each for each in (folder, *folder.parents) if not each.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for each in made:
            sync(each.parent)
        yield
    finally:
        with suppress(OSError):  # of one that holds something, or was not made
            for each in made:
                each.rmdir()


@contextmanager
def directory_written_atomically(path: Path, ours: re.Pattern[str] | None = None) -> Iterator[Path]:
    """Gives a temporary directory that takes the place of `path` when the block ends well, and else vanishes.

    With `ours`, the names that such a directory has, what else lies in the old one is in the new one too.
    """
    finish_replacing(path, ours)
    temporary = beside(path, "unfinished")
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir()
    try:
        yield temporary
        for file in sorted(temporary.rglob("*")):
            sync(file)
        sync(temporary)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    if path.exists():
        path.rename(beside(path, "previous"))
    temporary.rename(path)
    sync(path.parent)
    finish_replacing(path, ours)


def finish_replacing(path: Path, ours: re.Pattern[str] | None = None) -> None:
    """Ends what was interrupted while a directory was being replaced: the old one comes back, or goes for good."""
    previous = beside(path, "previous")
    if not previous.exists():
        return
    if not path.exists():
        previous.rename(path)
        return
    for each in previous.iterdir():
        if ours and not ours.fullmatch(each.name) and not (path / each.name).exists():
            each.rename(path / each.name)
    shutil.rmtree(previous, ignore_errors=True)


def parse_json(text: str | bytes) -> Any:
    """What JSON says; what is none, or holds brackets in brackets without end, is a ValueError."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("its brackets are nested too deeply") from None


def inner_path(directory: Path, name: str) -> Path:
    """The file or folder that something in a directory names; one that leads out of the directory is a ValueError."""
    if Path(name).is_absolute() or ".." in Path(name).parts or "\0" in name:
        raise ValueError(f"{name} leads out of {directory}")
    return directory / name


def sha256(path: Path) -> str:
    """The checksum of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
