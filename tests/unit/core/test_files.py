import hashlib
import re
from pathlib import Path

import pytest

from manyheads.core import files
from manyheads.core.errors import ConfigError
from manyheads.core.files import (
    TEMPORARY,
    beside,
    directory_written_atomically,
    finish_replacing,
    folder_made,
    inner_path,
    parse_json,
    refuse_existing,
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
        assert (tmp_path / ".a.txt.manyheads-unfinished").read_text() == "new"  # the cut comes in the middle
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
    path = tmp_path / "model"
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
    stale = beside(tmp_path / "model", "unfinished")
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
        if self.name.endswith("unfinished"):
            raise PowerCut
        return renamed(self, target)

    monkeypatch.setattr(Path, "rename", rename)
    with pytest.raises(PowerCut), directory_written_atomically(path) as temporary:
        (temporary / "a").write_text("new")
    assert not path.exists()
    monkeypatch.undo()
    finish_replacing(path)
    assert (path / "a").read_text() == "old"


def test_a_whole_directory_stays_and_the_previous_one_goes(tmp_path):
    for path, text in ((tmp_path / "model", "new"), (beside(tmp_path / "model", "previous"), "old")):
        path.mkdir()
        (path / "a").write_text(text)
    finish_replacing(tmp_path / "model")
    assert (tmp_path / "model" / "a").read_text() == "new"
    finish_replacing(tmp_path / "never")
    assert names(tmp_path) == ["model"]


@pytest.mark.parametrize("interrupted", [False, True])
def test_what_is_not_ours_in_a_directory_stays_when_it_is_replaced(tmp_path, monkeypatch, interrupted):
    path, ours = tmp_path / "model", re.compile(r"\w+\.json")
    path.mkdir()
    for name in ("a.json", "gone.json", "notes.txt", "both"):
        (path / name).write_text("old")
    if interrupted:
        monkeypatch.setattr(files, "finish_replacing", lambda *_: None)
    with directory_written_atomically(path, ours) as temporary:
        (temporary / "a.json").write_text("new")
        (temporary / "both").write_text("new")
    monkeypatch.undo()
    assert beside(path, "previous").exists() is interrupted
    finish_replacing(path, ours)
    assert {each.name: each.read_text() for each in path.iterdir()} == {
        "a.json": "new", "both": "new", "notes.txt": "old"
    }  # fmt: skip
    assert names(tmp_path) == ["model"]


def test_temporary_names_are_ours_and_nobody_elses(tmp_path):
    for what in ("unfinished", "previous"):
        assert TEMPORARY.fullmatch(beside(tmp_path / "model", what).name)
    own = [f"{name}.{what}" for name in ("model", "a.txt") for what in ("unfinished", "previous", "tmp")]
    assert not any(TEMPORARY.fullmatch(name) for name in (*own, ".hidden", "manyheads-lock"))
    for name in own:
        (tmp_path / name).write_text("mine")
    for _ in range(2):
        write_atomically(tmp_path / "a.txt", "ours")
        with directory_written_atomically(tmp_path / "model"):
            pass
    assert {name: (tmp_path / name).read_text() for name in own} == dict.fromkeys(own, "mine")


def test_folders_are_made_and_go_again_where_nothing_came_of_them(tmp_path, monkeypatch):
    synced, sync = [], files.sync
    monkeypatch.setattr(files, "sync", lambda path: (synced.append(path), sync(path)))
    with folder_made(tmp_path / "a" / "b"):
        assert synced == [tmp_path / "a", tmp_path]  # whose new entries a power cut would else lose
        (tmp_path / "a" / "file").touch()
    assert names(tmp_path) == ["a"]
    assert names(tmp_path / "a") == ["file"]
    with pytest.raises(KeyboardInterrupt), folder_made(tmp_path / "c" / "d"):
        raise KeyboardInterrupt
    with folder_made(tmp_path / "a"):
        (tmp_path / "a" / "file").unlink()
    assert names(tmp_path) == ["a"]  # which was there before


def test_what_exists_is_not_replaced(tmp_path):
    (tmp_path / "link").symlink_to("nowhere")
    for name in ("", "link"):
        with pytest.raises(ConfigError, match=r"exists already; name another directory$"):
            refuse_existing(tmp_path / name)
    refuse_existing(tmp_path / "new")


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
