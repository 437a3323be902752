"""`manyheads walk` as a person types it."""

import random

import pytest

from manyheads.models.bert import MaskedBert

from .conftest import WORDS, called, refused, saved_bert, saved_gpt, typed

TEXT = "the old cat sees a red tree"


@pytest.fixture(scope="module")
def gpt(tmp_path_factory):
    return saved_gpt(tmp_path_factory.mktemp("models") / "gpt", [TEXT] * 3, context=13, layers=2, heads=3)


@pytest.fixture(scope="module")
def masked(tmp_path_factory):
    return saved_bert(tmp_path_factory.mktemp("models") / "masked", [TEXT] * 3, MaskedBert, context=13, vocabulary=60)


def test_without_a_model_it_walks_through_the_lectures_in_a_process_of_its_own():
    found = typed("walk")
    assert (found.code, found.err) == (0, "")
    assert "\x1b" not in found.out
    lines = found.out.splitlines()
    assert any("8.4853" in line and "4.0000" in line for line in lines)  # ours beside the slide's
    assert "divides by 3" in found.out
    assert max(map(len, lines)) <= 100
    assert all(line == line.rstrip() for line in lines)


def test_a_translator_that_has_learned_its_words_looks_where_they_are_from(run):
    words = random.Random(3).sample(list(WORDS), 4)
    found = called("walk", run, " ".join(words))
    assert (found.code, found.err) == (0, "")
    german = " ".join(WORDS[word] for word in words)
    assert f"writes {german!r}" in found.out
    for side in ("encoder", "decoder"):
        other = called("walk", run, " ".join(words), "--attention", side, "--head", 1, "--layer", 0)
        assert f"{side} self-attention, head 1" in other.out


def test_a_language_model_ends_with_candidates(gpt):
    found = called("walk", gpt, TEXT, "--layer", 1, "--head", 2, "--count", 3)
    assert found.code == 0
    assert "Layer 1: self-attention, head 2" in found.out
    assert "softmax(masked)" in found.out
    assert len(found.out[found.out.index("\ncandidates") :].strip().splitlines()) == 2 + 3


def test_a_masked_language_model_guesses(masked):
    found = called("walk", masked, "the [MASK] sees a tree")
    assert found.code == 0
    assert "E[id] + S[segment] + P[position]" in found.out
    assert "the hidden word 1" in found.out


def test_a_page_is_written_whole_and_needs_no_network(gpt, tmp_path):
    page = tmp_path / "walk.html"
    found = called("walk", gpt, TEXT, "--html", page)
    assert (found.code, found.out) == (0, "")
    assert found.err == f"{page} is written; open it in a browser\n"
    content = page.read_text(encoding="utf-8")
    assert content.startswith("<!doctype html>")
    assert content.endswith("</html>\n")
    assert "prefers-color-scheme: dark" in content
    for asked in ("://", "<script", "<link", "src=", "@import", "url("):
        assert asked not in content
    lectures = tmp_path / "lectures.html"
    assert called("walk", "--html", lectures).code == 0
    assert "divides by 4" in lectures.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ([" ".join([TEXT] * 5)], "tokens, but the model sees 13"),
        (["  "], "is empty"),
        ([], "no text to walk through"),
        ([TEXT, "--layer", 2], "no layer 2; the model has 2"),
        ([TEXT, "--head", 7], "no head 7"),
        ([TEXT, "--attention", "cross"], "no attention 'cross'"),
        ([TEXT, "--device", "abacus"], "is not a device"),
        ([TEXT, "--count", 0], "0 candidates"),
        ([TEXT, "--token", 0], "one token's step is shown of recurrent models"),
        ([TEXT, TEXT], "leave the second away"),
        (["a \udcff dog"], "not valid UTF-8"),
        ([TEXT, "a \udcff dog"], "not valid UTF-8"),
    ],
)
def test_what_cannot_be_is_one_sentence(gpt, given, said):
    assert said in refused("walk", gpt, *given)


@pytest.mark.parametrize(
    "option", [("--layer", 0), ("--head", 1), ("--attention", "cross"), ("--token", 0), ("--count", 3)]
)
def test_the_lectures_have_no_options(option):
    assert "the lectures' examples have one head and no options; give a model and a text" in refused("walk", *option)


def test_a_second_text_stands_behind_the_first(run, masked):
    found = called("walk", masked, "the cat", "a tree")
    assert found.code == 0, found.err
    assert "reads 'the cat' and 'a tree'" in found.out
    source, translation = "the cat", "die Katze und eine Katze"
    found = called("walk", run, source, translation)
    assert found.code == 0, found.err
    assert f"reads {source!r} and writes {translation!r}" in found.out


def test_a_page_that_cannot_be_written_is_refused_before_the_model_is_opened(tmp_path):
    assert "does not exist" in refused("walk", tmp_path / "nothing", TEXT)
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "config.json").touch()
    assert "no folder" in refused("walk", broken, TEXT, "--html", tmp_path / "missing" / "walk.html")
    (tmp_path / "folder.html").mkdir()
    assert "is a folder" in refused("walk", broken, TEXT, "--html", tmp_path / "folder.html")
    for name in ("walk", "walk.pdf", "html"):
        path = tmp_path / name
        assert refused("walk", broken, TEXT, "--html", path) == f"{path} must end in .html"
