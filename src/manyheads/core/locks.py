"""A directory that is one process's own while it works there."""

import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from manyheads.core.errors import CheckpointError

try:
    import fcntl
except ImportError:  # there is none on Windows, where nothing is locked
    fcntl = None

LOCK = ".manyheads-lock"


@contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Refuses a directory in which another process works, and says which; the lock dies with its process."""
    path = directory / LOCK
    file = _taken(path)
    try:
        os.ftruncate(file, 0)
        os.write(file, f"process {os.getpid()} on {socket.gethostname()}".encode())
        yield
    finally:
        if _is(path, os.fstat(file)):  # and not of a directory that has come into its place
            path.unlink()
        os.close(file)


def _taken(path: Path) -> int:
    while True:
        file = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            if fcntl:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            who = os.read(file, 200).decode(errors="replace") or "another process"
            os.close(file)
            raise CheckpointError(f"{path.parent} is in use by {who}; wait until that has ended, or stop it") from None
        if _is(path, os.fstat(file)):
            return file
        os.close(file)  # whoever had it removed it after we had opened it


def stays(directory: Path) -> Callable[[], None]:
    """A check that a directory is still where it is now."""
    before = directory.stat()

    def check() -> None:
        if not _is(directory, before):
            raise CheckpointError(
                f"{directory} was renamed or removed while it was in use; put it back, or go on with it where it is now"
            )

    return check


@contextmanager
def staying(directory: Path) -> Iterator[None]:
    """Says so where a directory did not stay where it was, which else ends in all kinds of errors."""
    check = stays(directory)
    try:
        yield
    except Exception:
        check()
        raise
    check()


def _is(path: Path, known: os.stat_result) -> bool:
    try:
        return os.path.samestat(path.stat(), known)
    except OSError:
        return False
