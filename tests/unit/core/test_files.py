import hashlib
from pathlib import Path

import pytest

from manyheads.core import files
from manyheads.core.files import directory_written_atomically, recover_directory, sha256, write_atomically


class PowerCut(BaseException):
    """What no `except Exception` holds up."""


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


@pytest.mark.parametrize(("content", "read"), [("grün\n", b"gr\xc3\xbcn\n"), (b"\x00\xff", b"\x00\xff")])
def test_a_file_is_replaced(tmp_path, content, read):
    path = tmp_path / "a.txt"
    for before in (None, b"old"):
        if before:
            path.write_bytes(before)
        write_atomically(path, content)
        assert path.read_bytes() == read
    assert names(tmp_path) == ["a.txt"]


def test_a_file_that_fails_to_be_written_stays_as_it_was(tmp_path, monkeypatch):
    path = tmp_path / "a.txt"
    path.write_text("old")

    def cut(_):
        assert (tmp_path / "a.txt.unfinished").read_text() == "new"  # the cut comes in the middle
        raise PowerCut

    monkeypatch.setattr(files, "sync", cut)
    with pytest.raises(PowerCut):
        write_atomically(path, "new")
    assert path.read_text() == "old"
    assert names(tmp_path) == ["a.txt"]


def test_a_directory_takes_the_place_of_the_old_one_as_a_whole(tmp_path):
    path = tmp_path / "deep" / "model"
    for text in ("first", "second"):
        with directory_written_atomically(path) as temporary:
            (temporary / f"{text}.txt").write_text(text)
            (temporary / "inside").mkdir()
            (temporary / "inside" / "x").write_text("x")
            assert temporary.parent == path.parent  # a rename cannot cross disks
            assert not (path / f"{text}.txt").exists()
        assert names(path) == sorted(["inside", f"{text}.txt"])
    assert names(path.parent) == ["model"]


@pytest.mark.parametrize("error", [PowerCut, OSError, KeyboardInterrupt])
def test_a_directory_that_fails_to_be_written_leaves_the_old_one(tmp_path, error):
    path = tmp_path / "model"
    with directory_written_atomically(path) as temporary:
        (temporary / "a").write_text("old")

    def write():
        with directory_written_atomically(path) as temporary:
            (temporary / "a").write_text("new")
            raise error

    with pytest.raises(error):
        write()
    assert (path / "a").read_text() == "old"
    assert names(tmp_path) == ["model"]


def test_leftovers_of_a_killed_writer_do_not_get_in(tmp_path):
    stale = tmp_path / "model.unfinished"
    stale.mkdir()
    (stale / "half").write_text("half")
    with directory_written_atomically(tmp_path / "model") as temporary:
        (temporary / "a").write_text("a")
    assert names(tmp_path / "model") == ["a"]


def test_a_directory_is_recovered_from_between_two_renames(tmp_path, monkeypatch):
    path = tmp_path / "model"
    with directory_written_atomically(path) as temporary:
        (temporary / "a").write_text("old")
    renamed = Path.rename

    def rename(self, target):
        if self.name.endswith(".unfinished"):
            raise PowerCut
        return renamed(self, target)

    monkeypatch.setattr(Path, "rename", rename)
    with pytest.raises(PowerCut), directory_written_atomically(path) as temporary:
        (temporary / "a").write_text("new")
    assert not path.exists()
    monkeypatch.undo()
    recover_directory(path)
    assert (path / "a").read_text() == "old"


def test_recovery_leaves_a_whole_directory_alone(tmp_path):
    for name, text in (("model", "new"), ("model.previous", "old")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a").write_text(text)
    recover_directory(tmp_path / "model")
    assert (tmp_path / "model" / "a").read_text() == "new"
    recover_directory(tmp_path / "never")
    assert not (tmp_path / "never").exists()


def test_checksum(tmp_path):
    (tmp_path / "a").write_bytes(b"abc")
    assert sha256(tmp_path / "a") == hashlib.sha256(b"abc").hexdigest()
