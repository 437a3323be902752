import json

import pytest

from manyheads.core.errors import ConfigError, DataError
from manyheads.data.ragged import Store
from manyheads.tasks.language.data import DELIMITER, examples_of, held_out_tokens
from manyheads.tasks.language.recipe import TextData
from manyheads.text.language import LanguageTokenizer
from tests.unit.tasks.preparing import prepared as prepare

CONTEXT = 21
LETTERS = "the cat sees a tall tree, and sleeps.\n"


def ids_of(store: Store) -> list[int]:
    return store["ids"].tolist()


def text_in(prepared, store: Store) -> str:
    return prepared.processor.decode([ids_of(store)])[0]


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text(LETTERS * 30, encoding="utf-8")
    return path


def test_the_end_is_held_out_as_nanogpt_holds_it_out():
    for count in (1, 2, 9, 10, 11, 19, 20, 99, 1000, 1_115_394):
        ids = range(count)
        theirs = ids[int(count * 0.9) :]  # data/shakespeare_char/prepare.py
        assert held_out_tokens(count, 10**9) == len(theirs)
    assert [held_out_tokens(count, 100) for count in (10, 11, 20, 21)] == [1, 2, 2, 3]
    assert held_out_tokens(1000, 7) == 7  # and never more than is validated on


def test_the_last_tenth_of_the_text_is_held_out(text, tmp_path, capfd):
    prepared = prepare("language", TextData(text=(str(text),), tokenizer="characters"), CONTEXT, tmp_path / "run")
    whole = LETTERS * 30
    count = len(whole) + 1  # with the end of the text
    assert (len(prepared.train), len(prepared.valid)) == (int(count * 0.9), count - int(count * 0.9))
    held = f"the last {count - int(count * 0.9)} of {count:,} tokens"
    assert f"held out for validation: {held}" in capfd.readouterr().err
    assert text_in(prepared, prepared.train) == whole[: int(count * 0.9)]
    assert text_in(prepared, prepared.valid) == whole[int(count * 0.9) :]
    (tmp_path / "other.txt").write_text("a" * 40, encoding="utf-8")  # documents end with the end of a text
    data = TextData(text=(str(tmp_path / "*.txt"),), tokenizer="characters")
    prepared = prepare("language", data, CONTEXT, tmp_path / "two")
    ids = [*ids_of(prepared.train), *ids_of(prepared.valid)]
    assert [place for place, each in enumerate(ids) if each == prepared.processor.end] == [40, 41 + len(whole)]


def test_what_is_not_validated_on_is_trained_on(text, tmp_path):
    data = TextData(text=(str(text),), tokenizer="characters", valid_tokens=13)
    prepared = prepare("language", data, CONTEXT, tmp_path / "run")
    assert (len(prepared.train), len(prepared.valid)) == (len(LETTERS) * 30 + 1 - 13, 13)
    other = tmp_path / "other.txt"
    other.write_text("a tall cat sleeps and sleeps", encoding="utf-8")
    data = TextData(text=(str(text),), valid=(str(other),), tokenizer="characters", valid_tokens=13)
    prepared = prepare("language", data, CONTEXT, tmp_path / "second")
    assert len(prepared.train) == len(LETTERS) * 30 + 1
    assert text_in(prepared, prepared.valid) == "a tall cat sl"


def pair_lines(count: int) -> list[tuple[str, str]]:
    return [(f"source {number}", f"target {number}") for number in range(1, count + 1)]


def sides(prepared, store: Store) -> list[tuple[str, str]]:
    decode = prepared.processor.decode
    return list(zip(*(decode([row.tolist() for row in store[side]]) for side in ("source", "target"))))


@pytest.fixture
def pairs(tmp_path):
    path = tmp_path / "pairs.tsv"
    path.write_text("".join(f"{source}\t{target}\n" for source, target in pair_lines(120)), encoding="utf-8")
    return path


def test_one_pair_in_fifty_is_held_out(pairs, tmp_path, capfd):
    prepared = prepare("language", TextData(pairs=(str(pairs),), tokenizer="characters"), 41, tmp_path / "run")
    held, lines = sides(prepared, prepared.valid), pair_lines(120)
    assert len(held) == 2
    assert set(held) <= set(lines)
    assert sides(prepared, prepared.train) == [line for line in lines if line not in held]
    assert "held out for validation: 2 of 120 pairs, drawn by --seed 1" in capfd.readouterr().err


def test_a_target_ends_a_text_and_a_source_does_not(pairs, tmp_path):
    prepared = prepare("language", TextData(pairs=(str(pairs),)), 41, tmp_path / "run")
    end = prepared.processor.end
    for source, target in zip(prepared.train["source"], prepared.train["target"]):
        assert target.tolist().index(end) == len(target) - 1
        assert end not in source.tolist()


@pytest.mark.parametrize("learn", ["target", "all"])
def test_what_counts_of_a_pair_is_what_is_learned(pairs, tmp_path, learn):
    data = TextData(pairs=(str(pairs),), learn=learn, rows=3)
    prepared = prepare("language", data, 41, tmp_path / "run")
    end, delimiter = prepared.processor.end, prepared.processor.id_of(DELIMITER)
    seen = 0
    for batch in prepared.batches().epoch(0):
        for ids, counted in zip(batch.ids.tolist(), batch.counted.tolist()):
            predicted = [each for each, counts in zip(ids[1:], counted) if counts]
            row = ids[: ids.index(end) + 1]
            assert predicted == (row[row.index(delimiter) + 1 :] if learn == "target" else row[1:])
            seen += 1
    assert seen == 118


def test_pairs_may_be_objects_whose_fields_are_named(tmp_path):
    rows = [{"text": {"en": source, "de": target}} for source, target in pair_lines(50)]
    (tmp_path / "p.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    data = TextData(pairs=(str(tmp_path / "p.jsonl"),), fields=("text.de", "text.en"), tokenizer="characters")
    prepared = prepare("language", data, 41, tmp_path / "run")
    assert sides(prepared, prepared.valid)[0] in [(target, source) for source, target in pair_lines(50)]


def test_the_tokenizer_directory_is_a_tokenizer(text, pairs, tmp_path):
    plain = prepare("language", TextData(text=(str(text),), vocabulary=280), CONTEXT, tmp_path / "text")
    loaded = LanguageTokenizer.load(tmp_path / "text" / "tokenizer")
    assert loaded.encode([LETTERS]) == plain.processor.encode([LETTERS])
    assert 257 < len(loaded) <= 280
    assert loaded.behind == []
    table = json.loads((tmp_path / "text" / "tokenizer" / "tokenizer_config.json").read_text())
    assert table["model_max_length"] == CONTEXT
    paired = prepare("language", TextData(pairs=(str(pairs),), vocabulary=280), 41, tmp_path / "pairs").processor
    assert paired.behind == [paired.id_of(DELIMITER)]
    a, b = paired.encode(["source 3", "target 3"])
    assert paired.encode_wrapped([("source 3", "target 3")]) == [[*a, paired.id_of(DELIMITER), *b]]


def test_a_tokenizer_that_ends_no_text_cannot_learn_pairs(pairs, tmp_path):
    made = LanguageTokenizer.train([LETTERS] * 3, 270)
    made.save(tmp_path / "made")
    table = json.loads((tmp_path / "made" / "tokenizer.json").read_text().replace("<|endoftext|>", "<|pad|>"))
    (tmp_path / "endless.json").write_text(json.dumps(table))
    data = TextData(pairs=(str(pairs),), tokenizer=str(tmp_path / "endless.json"))
    with pytest.raises(ConfigError, match="no token that ends a text"):
        prepare("language", data, 41, tmp_path / "run")


def test_files_are_looked_for_without_being_read(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"\xff")
    examples_of(TextData(text=(str(tmp_path / "a.txt"),)))
    for data in (TextData(text=(str(tmp_path / "b.txt"),)), TextData(pairs=(str(tmp_path / "b.tsv"),))):
        with pytest.raises(DataError, match="is not there"):
            examples_of(data)
    (tmp_path / "a.csv").touch()
    with pytest.raises(DataError, match="of no kind that is read as sentence pairs"):
        examples_of(TextData(pairs=(str(tmp_path / "a.csv"),)))
