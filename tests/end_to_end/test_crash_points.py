"""A run that stops at any of its file operations, and loses what was not handed to the disk, ends as the whole one."""

import subprocess
import sys
from pathlib import Path

import pytest

from .conftest import environment

SCRIPT = Path(__file__).parents[1] / "crash_points.py"


@pytest.mark.slow
@pytest.mark.timeout(0)
@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc, to see what is synced")
@pytest.mark.parametrize("how", ["killed", "cut", "unsynced"])
@pytest.mark.parametrize("scenario", ["new", "overwritten"])
def test_a_run_goes_on_from_every_crash_point_to_the_same_end(tmp_path, scenario, how):
    given = [sys.executable, SCRIPT, tmp_path / "crashes", scenario, how]
    done = subprocess.run(given, capture_output=True, text=True, env=environment(), check=False)
    assert done.returncode == 0, done.stderr
    operations, findings = (int(word) for word in done.stdout.splitlines()[-1].split() if word.isdigit())
    assert operations > 150
    assert bool(findings) == (how == "unsynced"), done.stdout  # and the test can tell
