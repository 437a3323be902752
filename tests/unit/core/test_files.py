import hashlib
from pathlib import Path

import pytest

from manyheads.core import files
from manyheads.core.errors import ConfigError
from manyheads.core.files import (
    directory_written_atomically,
    inner_path,
    parse_json,
    recover_directory,
    refuse_unwritable,
    sha256,
    write_atomically,
    write_result,
)


class PowerCut(BaseException):
    """What no `except Exception` holds up."""


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


@pytest.mark.parametrize("write", [write_atomically, write_result])
def test_a_file_is_written_and_replaced(tmp_path, monkeypatch, write):
    monkeypatch.chdir(tmp_path)
    for content, read in (("grün\n", b"gr\xc3\xbcn\n"), (b"\x00\xff", b"\x00\xff")):
        write(Path("a.txt"), content)
        assert (tmp_path / "a.txt").read_bytes() == read
    assert names(tmp_path) == ["a.txt"]


FULL = OSError(28, "No space left on device")


@pytest.mark.parametrize(
    ("write", "fault", "error", "said"),
    [
        (write_atomically, PowerCut(), PowerCut, None),
        (write_result, FULL, ConfigError, r"a\.txt cannot be written: No space left on device$"),
    ],
)
def test_a_file_that_fails_to_be_written_stays_as_it_was(tmp_path, monkeypatch, write, fault, error, said):
    path = tmp_path / "a.txt"
    path.write_text("old")

    def cut(_):
        assert (tmp_path / "a.txt.unfinished").read_text() == "new"  # the cut comes in the middle
        raise fault

    monkeypatch.setattr(files, "sync", cut)
    with pytest.raises(error, match=said):
        write(path, "new")
    assert path.read_text() == "old"
    assert names(tmp_path) == ["a.txt"]


# What a user asked for


@pytest.mark.parametrize("refuses", [refuse_unwritable, lambda path: write_result(path, "new")])
def test_a_result_that_has_no_place_is_refused_with_why(tmp_path, monkeypatch, refuses):
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("old")
    refuse_unwritable(tmp_path / "file")
    refuse_unwritable(tmp_path / "new")
    for name, why in (
        ("folder", " is a folder; name a file"),
        ("no/a.txt", f" cannot be written: there is no folder {tmp_path / 'no'}"),
        ("file/a.txt", f" cannot be written: there is no folder {tmp_path / 'file'}"),
    ):
        with pytest.raises(ConfigError) as refused:
            refuses(tmp_path / name)
        assert str(refused.value) == f"{tmp_path / name}{why}"
    for closed in (tmp_path, tmp_path / "file"):  # as for a user who may not write there
        monkeypatch.setattr(files.os, "access", lambda path, mode, closed=closed: Path(path) != closed)
        with pytest.raises(ConfigError, match=r"file cannot be written: permission denied$"):
            refuses(tmp_path / "file")
    assert (tmp_path / "file").read_text() == "old"
    assert names(tmp_path) == ["file", "folder"]


# Directories


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


@pytest.mark.parametrize("text", ["[" * 200_000, '{"a":' * 200_000])
def test_json_that_is_nested_without_end_is_no_json(text):
    with pytest.raises(ValueError, match="nested too deeply"):
        parse_json(text)
    assert parse_json("[[3]]") == [[3]]


@pytest.mark.parametrize("name", ["../weights", "/etc/passwd", "a/../../b"])
def test_what_leads_out_of_a_directory_is_refused(tmp_path, name):
    with pytest.raises(ValueError, match="leads out of"):
        inner_path(tmp_path, name)
    assert inner_path(tmp_path, "1_Pooling/config.json") == tmp_path / "1_Pooling" / "config.json"
