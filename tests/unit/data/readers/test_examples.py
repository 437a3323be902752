import csv
import json
from collections import Counter
from pathlib import Path

import pytest
from helpers import written
from hypothesis import given
from hypothesis import strategies as st

from manyheads.core.errors import ConfigError, DataError
from manyheads.data.readers.examples import read_examples


def found_in(path: Path, columns: tuple[str, ...] = (), part: str = "train") -> list[tuple]:
    return [(each.texts, each.label, each.line) for each in read_examples(path, columns, part).examples]


# Tables, real CSV and JSON lines

COLA = 'gj04\t1\t\tThey drank the "pub.\ncj99\t0\t*\tThey drank.\ncj99\t0\t?*\tDrank.'
STS = 'main-news\tMSRpar\t2012test\t0\t4.5\t"Yes, no\tb\nmain-forums\tx\t2016\t8\t0\tc\td, e\tby one\tby two\n'
OF_STS = [(('"Yes, no', "b"), "4.5", 1), (("c", "d, e"), "0", 2)]
SCORED = "index\tgenre\tsentence1\tscore\tsentence2{}\n0\tnews\ta\t3.800\tb{}\n"
NEWS = '"3","Fears, again","A ""talk""\nof two lines"\r\n"14","b","second\\team"\r\n'
OF_NEWS = [(("Fears, again", 'A "talk"\nof two lines'), "3", 1), (("b", "second\\team"), "14", 3)]
NESTED = {"review": {"head": "a", "body": "b"}, "text": "c", "meta": {"stars": 5}, "label": 1}
CHOICE = {"text": "x", "label": 1, "context": "a", "choices": ["b", "c"], "answer": 1}


@pytest.mark.parametrize(
    ("name", "content", "columns", "found"),
    [
        ("a.tsv", COLA, (), [(('They drank the "pub.',), "1", 1), (("They drank.",), "0", 2), (("Drank.",), "0", 3)]),
        # The score is the label where there is no other, and beside no text it is no header.
        ("a.tsv", SCORED.format("", ""), (), [(("a", "b"), "3.800", 2)]),
        ("a.tsv", SCORED.format("\tlabel", "\tyes"), (), [(("a", "b"), "yes", 2)]),
        ("a.tsv", "Score\tyes\nmore\tno\n", (), [(("Score",), "yes", 1), (("more",), "no", 2)]),
        # The STS benchmark has tabs whatever it is called.
        *((name, STS, (), OF_STS) for name in ("a.csv", "a.csv.gz", "a.tsv")),
        # Topics have their number first.
        *((name, NEWS, (), OF_NEWS) for name in ("a.csv", "a.csv.gz", "a.csv.xz")),
        ("a.csv", NEWS, ("3", "1"), [((texts[1],), label, line) for texts, label, line in OF_NEWS]),
        ("a.csv", "1,bad\n2,1984\n", (), [(("bad",), "1", 1), (("1984",), "2", 2)]),
        # A CSV without a header is read once its columns are numbered.
        ("a.csv", "a,yes\nb,no\n", ("1", "2"), [(("a",), "yes", 1), (("b",), "no", 2)]),
        ("a.csv", "a\tb,yes\n", ("1", "2"), [(("a\tb",), "yes", 1)]),
        ("a.csv", "a\tyes\nb, c\tno\n", ("1", "2"), [(("a",), "yes", 1), (("b, c",), "no", 2)]),
        # Fields can be named, and choices stay choices beside other fields.
        ("a.jsonl", json.dumps(NESTED), ("review.head", "review.body", "meta.stars"), [(("a", "b"), "5", 1)]),
        ("a.jsonl", json.dumps(NESTED), ("text", "label"), [(("c",), "1", 1)]),
        ("a.jsonl", json.dumps(CHOICE), (), [(("a", "b", "c"), "1", 1)]),
    ],
)
def test_a_layout_is_known_by_what_is_in_it(tmp_path, name, content, columns, found):
    assert found_in(written(tmp_path / name, content), columns) == found


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.tsv", STS + "main-news\tMSRpar\t2012\t0\t4.5\ta\n", "line 3: 6 columns, not those of the STS"),
        ("a.tsv", STS + "main-news\tMSRpar\t2012\t0\tgood\ta\tb\n", "line 3: 7 columns, not those of the STS"),
        ("a.tsv", "gj04\t1\t\tThey drank.\ngj04\t2\t\tThey drank.\n", "line 2: .* not those of CoLA"),
        *(
            ("test.tsv", f"{header}\n{header.upper()}\n", "none is the label")
            for header in (
                *("index\tsentence", "index\tsentence1\tsentence2", "index\t#1 ID\t#2 ID\t#1 String\t#2 String"),
                "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2",
            )
        ),
        ("a.csv", '1,a,"b\nc"\n2,"d,e\nf\n', "line 3: not CSV"),
        ("a.csv", '1,a,"b\nc"\n2,d,"e" f\n', "line 3: not CSV"),
        ("a.csv", '1,a,"b\nc"\n2,d\n', "line 3: 2 columns where there must be 3"),
        ("a.csv", "1,a,b\nx,d,e\n", "line 2: 3 columns, not those of AG News"),
        ("a.csv", "a,yes\nb,no\n", "line 1: 2 columns .* is of no kind that is known"),
        ("a.csv", "3,1\n4,0\n", "line 1: 2 columns .* is of no kind that is known"),
        ("a.csv", "hello\tworld,yes\n", "line 1: 2 columns .* is of no kind"),
        ("a.csv", "text,label\na,yes\nb\n", "line 3: 1 column"),
        ("a.csv", f'1,a,"{"b" * 200_000}"\n', "line 1: not CSV .* larger"),
        ("a.jsonl", '{"text": "a", "stars": 5}', "line 1: .*its fields are text, stars; none is the label"),
        ("a.jsonl", '{"review": "a", "label": 5}', "line 1: .*its fields are review, label; name those"),
        ("a.jsonl", "[]", "line 1: .*no object"),
        ("a.jsonl", "a\tyes", "line 1: .*not JSON"),
        ("rt.pos", "fine\n", r"of no kind .*\.tsv, \.txt, \.csv, \.jsonl.*give the folder"),
    ],
)
def test_what_is_of_no_known_layout_or_leaves_it_is_refused_by_its_line(tmp_path, name, content, said):
    with pytest.raises(DataError, match=f"{name}.*{said}"):
        read_examples(written(tmp_path / name, content))
    with pytest.raises(DataError, match="not there"):
        read_examples(tmp_path / "missing.tsv")


@pytest.mark.parametrize(
    ("content", "columns", "said"),
    [
        ("a,yes\nb,no\n", ("1", "1"), "twice"),
        *((json.dumps(NESTED), each, "label last") for each in (("text",), ("text", "text"), ("a", "b", "c", "d"))),
    ],
)
def test_columns_are_texts_and_a_label(tmp_path, content, columns, said):
    name = "a.csv" if content[0] == "a" else "a.jsonl"
    with pytest.raises(ConfigError, match=said):
        read_examples(written(tmp_path / name, content), columns)


def test_blank_lines_are_passed_over_and_do_not_shift_line_numbers(tmp_path):
    path = written(tmp_path / "a.tsv", "\n \nsentence\tlabel\n\na\tyes\n\t\n\tno\nb\tno\n")
    assert found_in(path) == [(("a",), "yes", 5), (("b",), "no", 8)]
    assert read_examples(path).empty == [7]
    for content in ("", "\n\n", "sentence\tlabel\n"):
        with pytest.raises(DataError, match="holds no example"):
            read_examples(written(tmp_path / "b.tsv", content))


@given(
    rows=st.lists(st.tuples(st.text("ab,\"'\n \t\\", min_size=1), st.text('ab,"\n')), min_size=1, max_size=5).filter(
        lambda rows: any(text.strip() for text, _ in rows)
    )
)
def test_what_a_csv_quotes_is_read_back_with_the_line_it_begins_in(tmp_path_factory, rows):
    path = tmp_path_factory.mktemp("csv") / "a.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, quoting=csv.QUOTE_ALL, lineterminator="\n")
        writer.writerow(["text", "note", "label"])
        for text, note in rows:
            writer.writerow([text, note, "yes"])
    place, expected = 2, []
    for text, note in rows:
        if text.strip():
            expected.append(((text,), "yes", place))
        place += 1 + text.count("\n") + note.count("\n")
    assert found_in(path) == expected


@pytest.mark.parametrize(
    ("fields", "form"),
    [
        (("text",), "text"),
        (("sentence",), "text"),
        (("sentence1", "sentence2"), "pair"),
        (("premise", "hypothesis"), "pair"),
        (("text_a", "text_b"), "pair"),
        (("question", "sentence"), "pair"),
    ],
)
def test_texts_and_pairs_are_found_by_their_fields(tmp_path, fields, form):
    texts = ("one", "two")[: len(fields)]
    lines = [{"id": 7, **dict(zip(fields, texts)), "label": label} for label in ("good", 1, -2, 0.5, True)]
    path = written(tmp_path / "a.jsonl.xz", "\n\n".join(map(json.dumps, lines)))
    found = read_examples(path)
    assert found.form == form
    assert [(each.texts, each.line) for each in found.examples] == [(texts, line) for line in (1, 3, 5, 7, 9)]
    assert [each.label for each in found.examples] == ["good", "1", "-2", "0.5", "true"]
    assert read_examples(written(tmp_path / "b.jsonl", json.dumps(CHOICE))).form == "choice"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ({"text": "a"}, "no field 'label'"),
        ({"text": 3, "label": "b"}, "'text' is int"),
        ({"sentence": "a", "label": "b"}, "no field 'text'"),
        ({"text": "a", "label": None}, "'label' is None"),
        ({"text": "a", "label": float("nan")}, "'label' is nan"),
        ({"text": "a", "label": ["b"]}, "'label' is .'b'."),
        ({"text": "a", "label": " "}, "the label is empty"),
        (["a", "b"], "no field 'text'"),
    ],
)
def test_an_object_without_its_text_or_label_is_refused_by_line(tmp_path, line, said):
    path = written(tmp_path / "a.jsonl", f'{{"text": "a", "label": 1}}\n{json.dumps(line)}\n')
    with pytest.raises(DataError, match=rf"a\.jsonl, line 2: .*{said}"):
        read_examples(path)


# Folders


def test_a_part_of_a_folder_is_its_file(tmp_path):
    written(tmp_path / "train.tsv.gz", "sentence\tlabel\na\tyes\n")
    dev = written(tmp_path / "dev.tsv", "sentence\tlabel\nb\tno\n")
    written(tmp_path / "test.tsv", "index\tsentence\n0\tc\n")
    assert found_in(tmp_path) == [(("a",), "yes", 2)]
    assert found_in(tmp_path, part="dev") == [(("b",), "no", 2)]
    assert found_in(tmp_path, ("label", "sentence")) == [(("yes",), "a", 2)]
    assert read_examples(tmp_path, part="dev").path == dev
    written(tmp_path / "train.tsv", "sentence\tlabel\nunpacked\tyes\n")
    assert found_in(tmp_path) == [(("unpacked",), "yes", 2)]
    with pytest.raises(ConfigError, match=r"'test'.*train or dev"):
        read_examples(tmp_path, part="test")


@pytest.mark.parametrize("part", ["train", "dev"])
def test_a_folder_of_polarity_is_read_whole(tmp_path, part):
    written(tmp_path / "rt.neg.gz", "dull .\n\nboring\tfilm\n")
    written(tmp_path / "rt.pos", "fine\u2028film\n")
    written(tmp_path / "._rt.pos", b"\xff")
    written(tmp_path / "README.md", "about")
    found = read_examples(tmp_path, part=part)
    assert (found.path, found.form) == (tmp_path, "text")
    assert found_in(tmp_path, part=part) == [
        (("dull .",), "neg", 1),
        (("boring\tfilm",), "neg", 3),
        (("fine\u2028film",), "pos", 1),
    ]
    with pytest.raises(ConfigError, match="leave --columns away"):
        read_examples(tmp_path, ("1", "2"))
    written(tmp_path / "rt.pos", b"fine\ncaf\xe9\n")  # Latin-1, which is not guessed
    with pytest.raises(DataError, match=r"rt\.pos, line 2: byte 4 is not UTF-8"):
        read_examples(tmp_path)


@pytest.mark.parametrize(
    ("names", "said"),
    [
        ((), r"no train\.tsv.* but no file"),
        (("dev.tsv",), r"no train\.tsv.* but dev\.tsv; name one file"),
        (("a.pos",), r"0 \.neg and 1 \.pos"),
        (("a.pos", "a.neg", "b.pos", "b.neg"), r"2 \.neg and 2 \.pos"),
    ],
)
def test_a_folder_of_another_layout_is_refused(tmp_path, names, said):
    folder = tmp_path / "folder"
    folder.mkdir()
    for name in names:
        written(folder / name, "a\tb\n")
    with pytest.raises(DataError, match=said):
        read_examples(folder)


# Real sets


@pytest.mark.parametrize(
    ("task", "form", "train", "dev"),
    [
        ("SST-2", "text", 67_349, 872),
        ("CoLA", "text", 8551, 1043),
        ("MRPC", "pair", 3667, 408),  # one pair of the 3,668 is not in this copy
        ("STS-B", "pair", 5749, 1500),
        ("RTE", "pair", 2490, 277),
        ("WNLI", "pair", 635, 71),
    ],
)
def test_folders_of_glue_are_read_as_they_are(data_set, task, form, train, dev):
    folder = data_set("glue") / task
    for part, examples in (("train", train), ("dev", dev)):
        found = read_examples(folder, part=part)
        assert (found.form, len(found.examples), found.empty) == (form, examples, [])
        labels = {each.label for each in found.examples}
        assert len(labels) == 2 if task != "STS-B" else all(0 <= float(label) <= 5 for label in labels)
    with pytest.raises(DataError, match="none is the label"):
        read_examples(folder / "test.tsv.gz")


GLUE_COLUMNS = {"CoLA": ("4", "2"), "MRPC": ("#1 String", "#2 String", "Quality")}
GLUE_COLUMNS["STS-B"] = ("sentence1", "sentence2", "score")


def test_only_the_part_that_is_there_is_read_and_named_columns_are_those_found(data_set):
    assert len(read_examples(data_set("glue") / "QNLI", part="dev").examples) == 5463
    with pytest.raises(DataError, match=r"no train\.tsv.* but dev\.tsv\.gz"):
        read_examples(data_set("glue") / "QNLI")
    for task, columns in GLUE_COLUMNS.items():
        one, other = (read_examples(data_set("glue") / task / "dev.tsv.gz", each) for each in (columns, ()))
        assert (one.form, one.examples) == (other.form, other.examples)


def test_the_two_copies_of_sts_agree(data_set):
    names = {"train": 5749, "dev": 1500, "test": 1379}
    files = {name: read_examples(data_set("stsbenchmark") / f"sts-{name}.csv.gz") for name in names}
    assert {name: (file.form, len(file.examples)) for name, file in files.items()} == {
        name: ("pair", count) for name, count in names.items()
    }
    for part in ("train", "dev"):
        of_glue = read_examples(data_set("glue") / "STS-B", part=part).examples
        assert [float(each.label) for each in files[part].examples] == [float(each.label) for each in of_glue]


def test_other_public_sets_are_read_as_they_are(data_set):
    news = read_examples(data_set("ag_news") / "test.csv.gz")
    assert news.form == "pair"
    assert Counter(each.label for each in news.examples) == dict.fromkeys("1234", 1900)
    assert [each.line for each in news.examples] == list(range(1, 7601))
    reviews = read_examples(data_set("imdb") / "imdb_20000.jsonl.xz")
    assert (reviews.form, len(reviews.examples)) == ("text", 20_000)
    assert {each.label for each in reviews.examples} == {"0", "1"}
    polarity = read_examples(data_set("rt_polarity"))
    assert Counter(each.label for each in polarity.examples) == {"pos": 5331, "neg": 5331}
