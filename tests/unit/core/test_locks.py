import os
import re
import signal
import socket
import subprocess
import sys

import pytest

from manyheads.core.errors import CheckpointError
from manyheads.core.locks import LOCK, locked, staying

HOLDS = """
import sys, time
from pathlib import Path
from manyheads.core.locks import locked
with locked(Path(sys.argv[1])):
    print("locked", flush=True)
    time.sleep(600)
"""


def test_a_lock_says_whose_it_is_and_dies_with_its_process(tmp_path):
    process = subprocess.Popen([sys.executable, "-c", HOLDS, tmp_path], stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"locked\n"
    sentence = f"{tmp_path} is in use by process {process.pid} on {socket.gethostname()}; wait"
    with pytest.raises(CheckpointError, match=re.escape(sentence)), locked(tmp_path):
        pass
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert (tmp_path / LOCK).exists()  # a file alone is no lock
    with locked(tmp_path):
        assert (tmp_path / LOCK).read_text() == f"process {os.getpid()} on {socket.gethostname()}"
    assert list(tmp_path.iterdir()) == []


def test_a_lock_ends_with_what_was_done_under_it(tmp_path):
    with pytest.raises(BlockingIOError), locked(tmp_path):
        raise BlockingIOError  # of something else
    with locked(tmp_path), pytest.raises(CheckpointError, match=f"process {os.getpid()} "), locked(tmp_path):
        pass
    (tmp_path / "a").mkdir()
    with locked(tmp_path / "a"):
        (tmp_path / "a").rename(tmp_path / "b")
        (tmp_path / "a").mkdir()
        (tmp_path / "a" / LOCK).touch()
    assert (tmp_path / "a" / LOCK).exists()  # another's


@pytest.mark.parametrize("error", [None, FileNotFoundError, CheckpointError])
@pytest.mark.parametrize("change", ["renamed", "removed", "replaced", "none"])
def test_a_directory_that_does_not_stay_is_said(tmp_path, change, error):
    place = tmp_path / "run"
    place.mkdir()

    def work():
        with staying(place):
            if change in ("renamed", "replaced"):
                place.rename(tmp_path / "elsewhere")
            if change == "replaced":
                place.mkdir()
            if change == "removed":
                place.rmdir()
            if error:
                raise error("all kinds of errors")

    if change == "none" and error is None:
        return work()
    said = "all kinds of errors" if change == "none" else "run was renamed or removed while it was in use; put it back"
    with pytest.raises((CheckpointError, OSError), match=said):
        work()
