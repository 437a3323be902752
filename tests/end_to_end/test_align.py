"""`manyheads align` as a person uses it: German word for English word, so that the true links are a diagonal."""

import re

import pytest

from manyheads.data import sample
from manyheads.look.alignment import pharaoh
from manyheads.tasks.inside import align as task
from manyheads.tasks.translate.use import Translator

from .conftest import WORDS, called, refused, saved_gpt

SOURCES = ["the old cat sees a red bird", "", "a young dog likes the house", "the tree finds a bird"]


def german(line):
    return " ".join(WORDS[word] for word in line.split())


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "in.en").write_text("".join(f"{line}\n" for line in SOURCES), encoding="utf-8")
    (tmp_path / "in.de").write_text("".join(f"{german(line)}\n" for line in SOURCES), encoding="utf-8")
    (tmp_path / "in.tsv").write_text(
        "".join(f"{line}\t{german(line)}\n" if line else "\n" for line in SOURCES), encoding="utf-8"
    )
    diagonals = (" ".join(f"{place}-{place}" for place in range(len(line.split()))) for line in SOURCES)
    (tmp_path / "gold").write_text("".join(f"{line}\n" for line in diagonals), encoding="utf-8")
    return tmp_path


def test_a_sentence_and_its_translation(run):
    shown = called("align", run, "the cat", "die Katze")
    assert shown.code == 0, shown.err
    lines = [line.split() for line in shown.out.splitlines()]
    assert [line[:3] for line in lines] == [["die", "←", "the"], ["Katze", "←", "cat"]]
    assert all(0 < float(weight) <= 1 for *_, weight in lines)
    own = Translator.load(run).translate([SOURCES[0]])[0]
    assert called("align", run, SOURCES[0]).out == called("align", run, SOURCES[0], own).out


def test_files_in_pharaoh_format_keep_their_blank_lines(run, folder):
    pairs = [(line, german(line)) for line in SOURCES]
    expected = "".join(f"{pharaoh(found.links)}\n" for found in task.align(Translator.load(run), pairs))
    for given in (["--source", folder / "in.en", "--target", folder / "in.de"], ["--pairs", folder / "in.tsv"]):
        shown = called("align", run, *given, "--pharaoh")
        assert (shown.code, shown.out) == (0, expected), shown.err
    translated = called("align", run, "--source", folder / "in.en", "--pharaoh")
    assert [not line for line in translated.out.splitlines()] == [not line for line in SOURCES]
    people = called("align", run, "--pairs", folder / "in.tsv")
    assert len(people.out.splitlines()) == sum(len(line.split()) for line in SOURCES) + len(SOURCES) - 1
    assert called("align", run, "--pairs", folder / "in.tsv", "--shifted", "--pharaoh").out != expected


def test_gold_gives_a_score_to_every_reading_or_to_one(run, folder):
    pairs = ["--pairs", folder / "in.tsv", "--gold", folder / "gold"]
    shown = called("align", run, *pairs)
    assert shown.code == 0, shown.err
    table, best = shown.out.split("best: ")
    rows = re.findall(r"^(layer .*?)  +(\S+) +(\S+)$", table, flags=re.MULTILINE)
    assert [row[0] for row in rows] == ["layer 0, all heads", "layer 0, head 0", "layer 0, head 1"]
    rates = [float(rate) for row in rows for rate in row[1:]]
    assert float(re.search(r"error rate +(\S+)", best)[1]) == min(rates) < 0.3 < max(rates)
    one = called("align", run, *pairs, "--head", "1")
    assert one.out.startswith("layer 0, head 1\nalignment error rate")
    assert f"{float(rows[2][1]):6.3f}   on 4 sentence pairs, 18 sure links" in one.out
    possible = (folder / "gold").read_text().replace("0-0", "0?0")
    (folder / "gold").write_text(possible)
    assert "15 sure links" in called("align", run, *pairs, "--layer", "0").out


def test_the_sample_corpus_chooses_on_one_set_and_scores_on_another(run, monkeypatch):
    whole = sample.sample_alignments()
    sets = {"valid": whole["valid"][:9], "test": whole["test"][:5]}
    asked = []

    def watched(translator, pairs, chosen):
        asked.append((len(pairs), len(chosen)))
        return scored(translator, pairs, chosen)

    scored = task.score_readings
    monkeypatch.setattr(task, "sample_alignments", lambda: sets)
    monkeypatch.setattr(task, "score_readings", watched)
    shown = called("align", run, "--sample")
    assert shown.code == 0, shown.err
    assert asked == [(9, 6), (5, 1)]
    sure = sum(len(pair.sure) for pair in sets["test"])
    assert f"on the sample corpus's test set, {sure} sure links" in shown.out
    assert shown.out.startswith("validation set ")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "nothing to align: give a sentence, --source, --pairs or --sample"),
        (["the cat", "--sample"], "a sentence and --sample ask for different things"),
        (["--target", "in.de"], "--target is for --source"),
        (["the cat", "--gold", "gold"], "--gold has the links of given translations"),
        (["--pairs", "in.tsv", "--gold", "gold", "--pharaoh"], "give one of them"),
        (["the cat", "--layer", "1"], "there is no layer 1"),
        (["the cat", "--head", "2"], "there is no head 2"),
        (["--source", "in.en", "--target", "short.de"], "in.en has 4 lines but short.de has 1"),
        (["--source", "none.en"], "none.en is not there; check the path"),  # of which no line was read
        ([" "], "the sentence is empty; give one to align"),
        (["the cat", " "], "the translation is empty; give one, or leave it away, and the model translates"),
        (["--pairs", "in.tsv", "--gold", "unsure"], "unsure has no sure link, such as 0-0, to score against"),
        (["--pairs", "in.tsv", "--gold", "short.de"], "short.de has 1 line for 4 sentence pairs"),
        (["--pairs", "in.tsv", "--gold", "bad"], "bad, line 3: '0:0' is no link"),
        (["--pairs", "in.tsv", "--gold", "far"], "far, line 1: 7-0 links source word 7, but the source has 7 words"),
    ],
)
def test_bad_input_is_one_sentence(run, folder, monkeypatch, arguments, sentence):
    monkeypatch.chdir(folder)
    (folder / "short.de").write_text("die Katze\n", encoding="utf-8")
    (folder / "bad").write_text("0-0\n\n1-1 0:0\n\n")
    (folder / "far").write_text("0-0 7-0\n\n\n\n")
    (folder / "unsure").write_text("0?0 1?1\n\n\n\n")
    assert sentence in refused("align", run, *arguments)


def test_what_is_no_translator_is_refused(tmp_path):
    saved_gpt(tmp_path / "gpt", ["the cat sees the dog"])
    for path, sentence in ((tmp_path / "gpt", "a translator"), (tmp_path / "none", "none")):
        assert sentence in refused("align", path, "the cat")


@pytest.mark.slow
@pytest.mark.timeout(1800)  # three minutes where nothing else runs
def test_the_demonstration_aligns_words_it_never_saw_together(tmp_path):
    demo = called("demo", "--out", tmp_path / "demo")
    assert demo.code == 0
    assert float(re.search(r"BLEU (\S+) on 500 held-out sentences", demo.out)[1]) >= 95
    assert "The cat danced. → Die Katze tanzte.\nthe cat danced → die Katze tanzte\n" in demo.out
    shown = called("align", tmp_path / "demo", "--sample").out
    assert float(re.search(r"error rate +(\S+) +on the sample corpus's test set", shown)[1]) <= 0.15
