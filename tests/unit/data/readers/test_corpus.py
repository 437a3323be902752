import gzip
import io
import json
import lzma

import pytest
from helpers import written
from hypothesis import given
from hypothesis import strategies as st

from manyheads.core.errors import ConfigError, DataError
from manyheads.data.readers.corpus import LONGEST_LINE, bounded_lines, read_lines, read_pairs
from manyheads.data.readers.documents import read_documents


@pytest.mark.parametrize("suffix", ["", ".gz", ".xz"])
def test_only_a_line_feed_ends_a_line(tmp_path, suffix):
    path = written(tmp_path / f"text{suffix}", "\ufeffone\r\ntwo\x85\u2028\x0b\x1c still\n\n a\rb \ufefflast")
    assert list(read_lines(path)) == ["one", "two\x85\u2028\x0b\x1c still", "", " a\rb \ufefflast"]


def test_a_line_that_is_too_long_is_refused_by_its_number_before_it_is_read(monkeypatch, tmp_path):
    file = io.BytesIO(b"a" * 7 + b"\n" + b"a" * 9000)
    with pytest.raises(DataError, match="x, line 2: it is longer than 7 bytes"):
        list(bounded_lines(file, "x", longest=7))
    assert file.tell() < 20
    packed = written(tmp_path / "a.jsonl.gz", '{"text": "b"}\n"' + "a" * LONGEST_LINE + "\n")
    for read in (read_lines, lambda path: read_documents([path])):
        with pytest.raises(DataError, match=r"a.jsonl.gz, line 2: it is longer than 5,000,000 bytes.*LONGEST_LINE=50"):
            list(read(packed))
    monkeypatch.setenv("MANYHEADS_LONGEST_LINE", "6000000")
    assert len(list(read_lines(packed))[1]) == LONGEST_LINE + 1
    monkeypatch.setenv("MANYHEADS_LONGEST_LINE", "6 MB")
    with pytest.raises(ConfigError, match="MANYHEADS_LONGEST_LINE is '6 MB'; it must be a number of bytes"):
        list(read_lines(packed))


@pytest.mark.parametrize(
    ("text", "fields", "found"),
    [
        ("Source\tTarget\na\tb\n", None, [("a", "b")]),
        ("id\ten\tde\n1\ta\tb\n", ("3", "2"), [("b", "a")]),
        ("a\tb\nen\tde\n", None, [("a", "b"), ("en", "de")]),
        ("es\tit\n", None, [("es", "it")]),
        ("source\tsource\n", None, [("source", "source")]),
    ],
)
def test_a_header_is_recognised_and_said_once(tmp_path, capfd, text, fields, found):
    path = written(tmp_path / "a.tsv", text)
    for _ in range(2):
        assert list(read_pairs(pairs=[path], fields=fields)) == found
    header = text.splitlines()[0].replace("\t", ", ")
    said = f"{path}: line 1 names the columns ({header}) and is left out\n"
    assert capfd.readouterr().err == (said if len(found) < text.count("\n") else "")


@given(lines=st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n\r\ufeff"))))
def test_lines_come_back_as_written(tmp_path_factory, lines):
    path = written(tmp_path_factory.mktemp("lines") / "text", "".join(line + "\n" for line in lines))
    assert list(read_lines(path)) == lines


def test_bytes_that_are_not_utf8_are_an_error_with_file_and_line(tmp_path):
    path = written(tmp_path / "text", b"fine\nf\xfcr\n")
    with pytest.raises(DataError, match=r"text, line 2: byte 2"):
        list(read_lines(path))


def test_files_that_cannot_be_read_are_errors(tmp_path):
    whole = gzip.compress(b"some text\n" * 1000)
    damaged = whole[:30] + bytes(20) + whole[50:]
    contents = {"cut.gz": whole[:-20], "damaged.gz": damaged, "plain.gz": b"no gzip", "plain.xz": b"no xz"}
    contents["cut.xz"] = lzma.compress(b"some text\n" * 1000)[:-20]
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    for name in (*contents, "missing", "."):
        with pytest.raises(DataError, match="cannot be read"):
            list(read_lines(tmp_path / name))


def test_parallel_files_are_read_side_by_side_then_pairs(tmp_path):
    sources = [written(tmp_path / "a.de", "eins\nzwei\n"), written(tmp_path / "b.de.gz", "drei\n")]
    targets = [written(tmp_path / "a.en.xz", "one\ntwo\n"), written(tmp_path / "b.en", "three")]
    pairs = [written(tmp_path / "c.tsv", "vier\tfour\n\t \n")]
    found = [("eins", "one"), ("zwei", "two"), ("drei", "three"), ("vier", "four"), ("", " ")]
    assert list(read_pairs(sources=sources, targets=targets, pairs=pairs)) == found


@pytest.mark.parametrize(("source", "target", "counts"), [("a\nb\nc\nd\n", "a\n", (4, 1)), ("a\n", "a\nb\nc", (1, 3))])
def test_files_of_different_length_are_an_error_with_both_counts(tmp_path, source, target, counts):
    sources, targets = [written(tmp_path / "x.de", source)], [written(tmp_path / "x.en", target)]
    with pytest.raises(DataError, match=rf"x\.de has {counts[0]} lines? but .*x\.en has {counts[1]}: line 2 "):
        list(read_pairs(sources=sources, targets=targets))


def test_what_is_known_before_reading_is_refused_at_once(tmp_path):
    path, table = written(tmp_path / "a", "a\n"), written(tmp_path / "a.tsv", "a\tb\n")
    with pytest.raises(DataError, match="2 source files but 1 target"):
        read_pairs(sources=[path, path], targets=[path])
    with pytest.raises(DataError, match="not there"):
        read_pairs(pairs=[tmp_path / "missing.tsv"])
    with pytest.raises(DataError, match=r"\.tsv, \.txt, \.jsonl"):
        read_pairs(pairs=[path])
    for column in ("0", "source", "-1", "²"):
        with pytest.raises(ConfigError, match="column"):
            read_pairs(pairs=[table], fields=("1", column))


@pytest.mark.parametrize("name", ["x.tsv", "x.tsv.gz", "x.tsv.xz", "x.txt"])
def test_tables_have_two_columns_or_the_named_ones(tmp_path, name):
    path = written(tmp_path / name, "1\teins\tone\n2\tzwei\ttwo\tmore\n")
    assert list(read_pairs(pairs=[path], fields=("3", "2"))) == [("one", "eins"), ("two", "zwei")]
    with pytest.raises(DataError, match="line 1: 3 columns"):
        list(read_pairs(pairs=[path]))
    with pytest.raises(DataError, match="line 1: 3 columns, but column 4"):
        list(read_pairs(pairs=[path], fields=("4", "1")))
    with pytest.raises(DataError, match="line 2: 1 column"):
        list(read_pairs(pairs=[written(tmp_path / name, "a\tb\nalone\n")]))


@pytest.mark.parametrize("name", ["x.jsonl", "x.jsonl.gz", "x.jsonl.xz"])
def test_objects_have_source_and_target_or_the_named_fields(tmp_path, name):
    line = {"source": "eins", "target": "one", "translation": {"en": "1", "de": "I"}}
    path = written(tmp_path / name, json.dumps(line))
    assert list(read_pairs(pairs=[path])) == [("eins", "one")]
    assert list(read_pairs(pairs=[path], fields=("translation.en", "translation.de"))) == [("1", "I")]


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("{", "not JSON"),
        ('["eins", "one"]', "no field 'source'; it is not an object"),
        ('{"source": "eins"}', "no field 'target'; its fields are source"),
        ('{"source": "eins", "target": 1}', "'target' is int"),
        ('{"source": null, "target": "one"}', "'source' is NoneType"),
        ("[" * 100_000, "not JSON"),
    ],
)
def test_a_malformed_object_is_an_error_with_file_and_line(tmp_path, line, found):
    path = written(tmp_path / "x.jsonl", '{"source": "eins", "target": "one"}\n' + line)
    with pytest.raises(DataError, match=rf"x\.jsonl, line 2: .*{found}"):
        list(read_pairs(pairs=[path]))
