"""Files that are either whole or not there: a temporary name, fsync, rename."""

import hashlib
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from manyheads.core.errors import ConfigError

TEMPORARY = ".unfinished"


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


def write_atomically(path: Path, content: str | bytes) -> None:
    """Replaces a file in one step; readers see the old one or the new one."""
    temporary = path.with_name(path.name + TEMPORARY)
    try:
        temporary.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8"))
        sync(temporary)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync(path.parent)


@contextmanager
def directory_written_atomically(path: Path) -> Iterator[Path]:
    """Gives a temporary directory that takes the place of `path` when the block ends well, and else vanishes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(path.name + TEMPORARY)
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
    previous = path.with_name(path.name + ".previous")
    if path.exists():
        shutil.rmtree(previous, ignore_errors=True)
        path.rename(previous)
    temporary.rename(path)
    sync(path.parent)
    shutil.rmtree(previous, ignore_errors=True)


def recover_directory(path: Path) -> None:
    """Puts a directory back that was being replaced when the machine stopped between two renames."""
    previous = path.with_name(path.name + ".previous")
    if previous.exists() and not path.exists():
        previous.rename(path)


def sha256(path: Path) -> str:
    """The checksum of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
