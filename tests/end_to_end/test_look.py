"""Looking inside a model, ranking its heads and taking some out, as a person types it."""

import json
import re
import shlex
from pathlib import Path

import numpy as np
import pytest
import torch
from helpers import randomised

from manyheads import LanguageModel, Translator
from manyheads.interop.directory import load_model, save_model
from manyheads.look.heads import heads_off
from manyheads.models.bert import Bert, BertConfig, MaskedBert
from manyheads.models.gpt import GPT, GPTConfig
from manyheads.models.heads import EncoderClassifier
from manyheads.models.rnn import RNN, RNNConfig
from manyheads.models.transformer import parameters
from manyheads.tasks.inside.look import look_inside
from manyheads.text.encoder import EncoderTokenizer
from manyheads.text.language import LanguageTokenizer

from . import conftest
from .conftest import WORDS, called, trained

LINES = ["the old cat sees a dog", "a young bird finds the red tree", "the dog likes the house"] * 3
TEXT = "the dog sees a tree"
PNG, SVG = b"\x89PNG", b"<?xml"


@pytest.fixture(scope="module")
def models(tmp_path_factory) -> dict[str, Path]:
    """Language models, a masked one and a classifier, none of which has learned anything."""
    folder = tmp_path_factory.mktemp("models")
    torch.manual_seed(17)
    language, encoder = LanguageTokenizer.train(LINES, 280), EncoderTokenizer.train(LINES, 80)
    sizes = {"context": 25, "width": 21, "layers": 2, "heads": 3}
    bert = BertConfig(vocabulary=len(encoder), separator=encoder.separator, **sizes)
    made = {
        "gpt": (GPT(GPTConfig(vocabulary=len(language), end=language.end, **sizes)), language),
        "lstm": (RNN(RNNConfig(vocabulary=len(language), end=language.end, width=7, layers=2)), language),
        "masked": (MaskedBert(bert), encoder),
        "classifier": (EncoderClassifier(Bert(bert), ("bad", "good")), encoder),
    }
    for name, (model, tokenizer) in made.items():
        save_model(folder / name, randomised(model), tokenizer, f"# {name}\n")
    return {name: folder / name for name in made}


@pytest.fixture(scope="module")
def young(files, tmp_path_factory) -> Path:
    """The run of a translator that has hardly begun."""
    out = tmp_path_factory.mktemp("runs") / "young"
    trained(out, *files, "--set", "model.layers=2", steps=2)
    return out


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch) -> Path:
    """Where the commands are typed."""
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    return here


def written(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def typed_well(*arguments) -> tuple[list[str], list[str]]:
    """The lines that a command prints and those that it says, once it has done what it was asked for."""
    found = called(*arguments)
    assert found.code == 0, found.err
    return found.out.splitlines(), found.err.splitlines()


def refused(*arguments) -> str:
    """The one sentence of a command that cannot be, which has printed nothing and written no file."""
    before = written(Path.cwd())
    sentence = conftest.refused(*arguments)
    assert written(Path.cwd()) == before
    return sentence


def words_in(path: Path) -> str:
    """All that is written in a drawing, whose title may take several lines."""
    drawn = path.read_bytes()
    assert drawn.startswith(SVG)
    return " ".join(" ".join(re.findall(r">([^<>]*)</text>", drawn.decode())).split())


# A text


def test_a_text_becomes_a_page_in_the_folder_where_it_was_typed(models, folder):
    out, err = typed_well("look", models["gpt"], TEXT)
    assert out == [TEXT]
    assert err == ["look.html is written; open it in a browser"]
    assert written(folder) == ["look.html"]
    page = (folder / "look.html").read_text(encoding="utf-8")
    assert page.startswith("<!")
    assert "<title>gpt</title>" in page
    assert TEXT in page


def test_a_page_is_written_where_it_is_asked_for_and_over_what_was_there(models, folder):
    (folder / "mine.HTML").write_text("older")
    (folder / "sub").mkdir()
    typed_well("look", models["gpt"], TEXT, "--out", "mine.HTML")
    assert "<title>gpt</title>" in (folder / "mine.HTML").read_text(encoding="utf-8")
    _, err = typed_well("look", models["gpt"], TEXT, "--out", Path("sub") / "mine.html")
    assert err == ["sub/mine.html is written; open it in a browser"]
    typed_well("look", models["gpt"], TEXT, "--out", "a.html", "--json", "a.json")
    assert written(folder) == ["a.html", "a.json", "mine.HTML", "sub", "sub/mine.html"]


def test_a_language_model_goes_on(models):
    language = LanguageModel.load(models["gpt"], device="cpu")
    out, _ = typed_well("look", models["gpt"], TEXT, "--tokens", 4)
    assert "\n".join(out) == (TEXT + language.generate(TEXT, tokens=4, temperature=0.0)).rstrip("\n")
    assert out != [TEXT]


def test_a_run_translates_and_is_called_by_its_name(young, folder):
    (translation,) = Translator.load(young, device="cpu").translate([TEXT])
    out, _ = typed_well("look", young, TEXT)
    assert "\n".join(out) == f"{TEXT} → {translation}".rstrip("\n")
    assert "<title>young</title>" in (folder / "look.html").read_text(encoding="utf-8")


def test_a_translation_that_is_given_and_a_second_text(young, models):
    out, _ = typed_well("look", young, TEXT, "die Hündin sieht eine Tanne")
    assert out == [f"{TEXT} → die Hündin sieht eine Tanne"]
    out, _ = typed_well("look", models["masked"], TEXT, "a bird")
    assert out == [f"{TEXT} | a bird"]


def test_one_head_of_one_layer_as_figures_and_as_numbers(models, folder):
    files = ["--png", "a.png", "--svg", "a.svg", "--json", "a.json"]
    out, err = typed_well("look", models["gpt"], TEXT, *files, "--layer", 1, "--head", 2)
    assert out == [TEXT]
    assert err == ["a.png is written", "a.svg is written", "a.json is written"]
    assert written(folder) == ["a.json", "a.png", "a.svg"]  # and no page, which nobody asked for
    assert (folder / "a.png").read_bytes().startswith(PNG)
    assert "gpt: self-attention, layer 1, head 2" in words_in(folder / "a.svg")
    arrays = json.loads((folder / "a.json").read_text(encoding="utf-8"))
    (found,) = arrays["attention"]
    expected = look_inside(models["gpt"], TEXT, device="cpu").view()
    assert (arrays["model"], arrays["text"], found["layers"], found["heads"]) == ("gpt", TEXT, [1], [2])
    assert (found["rows"], found["columns"]) == (expected.rows, expected.columns)
    np.testing.assert_allclose(found["weights"], expected.weights[1:2, 2:3], atol=1e-6)
    assert np.abs(expected.weights[1, 1] - expected.weights[1, 2]).max() > 1e-2  # and the test can tell


def test_numbers_that_are_none_are_not_written_as_numbers(models, folder):
    model, tokenizer = load_model(models["gpt"])
    with torch.no_grad():
        model.blocks[1].attention.output.bias[3] = 3e38  # whose square is not finite
    save_model(folder / "broken", model, tokenizer, "")
    found = called("look", "broken", TEXT, "--json", "a.json")
    assert found.code == 2
    assert found.err == (
        "manyheads: a.json is not written: the model gives what is no number, and JSON has none such\n"
    )
    assert not (folder / "a.json").exists()
    typed_well("look", "broken", TEXT, "--out", "a.html")  # which can show them


# What is printed


@pytest.mark.parametrize(
    ("show", "lines"),
    [
        ("heads", ["Statistics of self-attention", "layer 0 head 0", "layer 1 head 2"]),
        ("rollout", ["rollout of self-attention"]),
        ("lens", ["Logit lens", "embedding", "layer 0", "layer 1"]),
        ("norms", ["Residual norms", "embedding", "layer 1"]),
    ],
)
def test_what_is_shown_is_printed_and_drawn_and_no_page_is_written(models, folder, show, lines):
    out, err = typed_well("look", models["gpt"], TEXT, "--show", show)
    assert out[:2] == [TEXT, ""]
    assert out[2].startswith(lines[0])
    for line in lines[1:]:
        assert any(each.startswith(line) for each in out)
    assert max(map(len, out)) <= 120
    assert (err, written(folder)) == ([], [])
    drawn, err = typed_well("look", models["gpt"], TEXT, "--show", show, "--png", "a.png")
    assert drawn == out
    assert err == ["a.png is written"]
    assert (folder / "a.png").read_bytes().startswith(PNG)


@pytest.mark.parametrize(("kind", "stack"), [("cross", "decoder"), ("encoder", "encoder"), ("decoder", "decoder")])
def test_of_a_translator_one_of_three_and_the_norms_of_its_stack(young, folder, kind, stack):
    title = {"cross": "cross-attention"}.get(kind, f"{kind} self-attention")
    look = ["look", young, TEXT, "die Hündin sieht", "--attention", kind, "--svg", "a.svg"]
    typed_well(*look)
    assert f"young: {title}, layer 1, mean of 2 heads" in words_in(folder / "a.svg")
    out, _ = typed_well(*look, "--show", "heads")
    assert [line for line in out if line.startswith("Statistics of")] == [f"Statistics of {title}"]
    out, _ = typed_well(*look, "--show", "norms")
    assert [line for line in out if line.startswith("Residual")] == [f"Residual norms of the {stack}"]
    assert f"young: residual norms of the {stack}" in words_in(folder / "a.svg")


def test_an_encoder_without_words_has_no_lens_but_all_else(models):
    for show in ("attention", "heads", "rollout", "norms"):
        typed_well("look", models["classifier"], TEXT, "--show", show, "--png", "a.png")
    sentence = refused("look", models["classifier"], TEXT, "--show", "lens", "--png", "b.png")
    why = "it predicts no words, or not from the sum that its layers add to"
    assert sentence == f"this model has no logit lens: {why}"


def test_words_of_a_translation_are_drawn_as_a_matrix(young, folder):
    out, err = typed_well(
        "look", young, TEXT, "die Hündin sieht", "--show", "alignment", "--svg", "a.svg", "--png", "a.png"
    )
    assert err == ["a.png is written", "a.svg is written"]
    assert out[2] == "Alignment"
    assert out[3].split() == TEXT.split()
    assert [line.split()[0] for line in out[4:]] == ["die", "Hündin", "sieht"]
    words = words_in(folder / "a.svg")
    assert "young: cross-attention, layer 1, mean of 2 heads, by words" in words
    assert {*TEXT.split(), "die", "Hündin", "sieht"} <= {*words.split()}
    chosen = ["look", young, TEXT, "die Hündin sieht", "--show", "alignment", "--layer", 0, "--head", 1]
    assert typed_well(*chosen)[0][4:] != out[4:]
    said = "--attention has no part in --show alignment, which is of the cross-attention"
    assert refused(*chosen[:6], "--attention", "encoder") == said


def test_states_and_gates_of_a_recurrent_model_over_time(models, folder):
    look = ["look", models["lstm"], TEXT, "--png", "a.png", "--svg", "a.svg", "--json", "a.json", "--show"]
    out, err = typed_well(*look, "hidden", "--tokens", 3)
    assert err == ["a.png is written", "a.svg is written", "a.json is written"]
    assert [line for line in out if line.startswith("Hidden")] == [
        "Hidden states of layers.0",
        "Hidden states of layers.1",
    ]
    assert "lstm: hidden states" in words_in(folder / "a.svg")
    found = json.loads((folder / "a.json").read_text(encoding="utf-8"))["states"]
    assert [np.shape(each["hidden"]) for each in found] == [(len(found[0]["tokens"]), 7)] * 2
    out, _ = typed_well(*look, "gates", "--layer", 1)
    assert [line for line in out if line.startswith("Gates")] == ["Gates of layers.1"]
    words = words_in(folder / "a.svg")
    assert all(f"layers.1: {gate}" in words for gate in ("input", "forget", "output", "candidate"))
    assert "layers.0" not in words
    for show, flags, said in (
        (
            "attention",
            [],
            "lstm has no attention to look at; its states over time can be looked at: show hidden or gates",
        ),
        ("hidden", ["--head", 0], "--head has no part in --show hidden; leave it away"),
        ("gates", ["--out", "b.html"], "--out is a page of attention; --show gates goes with --png, --svg and --json"),
        ("gates", ["--layer", 2], "there is no layer 2; the model has 2, counted from 0"),
    ):
        assert refused("look", models["lstm"], TEXT, "--show", show, *flags) == said
    said = "this model has no recurrent layers, so that there is nothing called hidden to show"
    assert refused("look", models["gpt"], TEXT, "--show", "hidden") == said


# Which heads matter


def rows_of(out: list[str]) -> list[tuple[str, float, float]]:
    found = [re.fullmatch(r"(\S*\d+\.\d+)\s+(-?[\d.]+)\s+([-+][\d.]+)\s*", line) for line in out]
    return [(match[1], float(match[2]), float(match[3])) for match in found if match]


def test_heads_of_a_run_are_ranked_on_its_own_validation_set(young, corpus, folder):
    out, err = typed_well("look", young, "--importance", "--json", "a.json", "--svg", "a.svg", "--png", "a.png")
    found = rows_of(out)
    heads = [
        f"{kind}.{layer}.{head}" for kind in ("encoder", "decoder", "cross") for layer in (0, 1) for head in (0, 1)
    ]
    assert sorted(name for name, _, _ in found) == sorted(heads)
    losses = [lost for _, _, lost in found]
    assert losses == sorted(losses, reverse=True)
    assert "What each head is worth" in out
    assert err[-3:] == ["a.png is written", "a.svg is written", "a.json is written"]
    assert err[-4] == "heads switched off, one at a time: 12 of 12"
    table = json.loads((folder / "a.json").read_text(encoding="utf-8"))
    assert (table["measure"], len(table["heads"])) == ("loss", 12)
    assert any(line.startswith(f"loss with all heads: {table['whole']:.4f}") for line in out)
    words = words_in(folder / "a.svg")
    assert "young: what each head is worth" in words
    assert all(head in words.split() for head in heads)
    files = ["--source", corpus / "valid.en", "--target", corpus / "valid.de"]
    assert typed_well("look", young, "--importance", *files)[0] == out
    (folder / "pairs.tsv").write_text("the cat\tdie Katze\na dog\teine Hündin\n", encoding="utf-8")
    assert rows_of(typed_well("look", young, "--importance", "--pairs", "pairs.tsv")[0]) != found


def test_heads_of_a_translator_by_what_it_writes(young, folder):
    (folder / "pairs.tsv").write_text("the cat\tdie Katze\na dog\teine Hündin\n", encoding="utf-8")
    out, _ = typed_well("look", young, "--importance", "--by", "bleu", "--pairs", "pairs.tsv")
    assert any(line.startswith("BLEU with all heads: ") for line in out)
    assert len(rows_of(out)) == 12


def test_heads_of_others_by_their_own_scores(models, folder):
    (folder / "a.txt").write_text(". ".join(LINES) + ".\n", encoding="utf-8")
    (folder / "b.tsv").write_text("text\tlabel\nthe cat\tgood\na dog\tbad\n", encoding="utf-8")
    for name, flags in (
        ("gpt", ["--text", "a.txt"]),
        ("masked", ["--text", "a.txt"]),
        ("classifier", ["--data", "b.tsv"]),
    ):
        out, _ = typed_well("look", models[name], "--importance", *flags)
        assert sorted(head for head, _, _ in rows_of(out)) == ["0.0", "0.1", "0.2", "1.0", "1.1", "1.2"]
        assert any(line.startswith("loss with all heads: ") for line in out)


# Positions


def test_positions_need_no_model(folder):
    out, err = typed_well("look", "--positions", "rotary, alibi")
    assert (out, err, written(folder)) == ([], ["positions.png is written"], ["positions.png"])
    assert (folder / "positions.png").read_bytes().startswith(PNG)
    _, err = typed_well("look", "--positions", "rotary,alibi", "--json", "a.json", "--svg", "a.svg")
    assert err == ["a.svg is written", "a.json is written"]
    assert list(json.loads((folder / "a.json").read_text())) == ["rotary", "alibi"]
    assert (folder / "a.svg").read_bytes().startswith(SVG)


def test_positions_of_a_model_are_its_own_also_beside_others(models, folder):
    typed_well("look", models["gpt"], "--positions", "own,alibi", "--json", "a.json")
    found = json.loads((folder / "a.json").read_text())
    assert list(found) == ["learned", "alibi"]
    table = load_model(models["gpt"])[0].positions.table.weight.detach()
    np.testing.assert_allclose(found["learned"]["encoding"], table, rtol=1e-5)


# Fewer heads


def test_heads_are_taken_out_and_what_is_left_is_said(models, folder):
    out, err = typed_well("prune", models["gpt"], "--heads", "0.1", "1.0", "1.2", "--out", "small")
    whole, small = load_model(models["gpt"])[0], load_model(folder / "small")[0]
    fewer = parameters(whole) - parameters(small)
    assert out == [f"small: {parameters(small):,} parameters, {fewer:,} fewer than {models['gpt']}"]
    assert (err, fewer > 0) == ([], True)
    ids = torch.tensor([[5, 9, 30, 8, 4]])
    with torch.inference_mode(), heads_off(whole, [(0, 1), (1, 0), (1, 2)]):
        torch.testing.assert_close(small(ids), whole(ids))
    assert "Without the heads 0.1, 1.0, 1.2" in (folder / "small" / "README.md").read_text()
    out, _ = typed_well("look", "small", TEXT, "--show", "heads")
    assert [line.split()[:5] for line in out if "removed" in line] == [
        ["layer", layer, "head", head, "removed"] for layer, head in ("01", "10", "12")
    ]
    assert refused("look", "small", TEXT, "--layer", 0, "--head", 1, "--png", "a.png") == (
        "there is no head 1 in layer 0 of self-attention, which has 0, 2; others were removed"
    )
    checked = called("selfcheck", "small", "--sentences", 3)
    assert checked.code == 0, checked.out + checked.err


def test_zeros_in_their_place_leave_as_many_parameters(models, folder):
    out, _ = typed_well("prune", models["gpt"], "--heads", "0.1", "--out", "zeros", "--keep-shape")
    assert out == [f"zeros: {parameters(load_model(models['gpt'])[0]):,} parameters, 0 fewer than {models['gpt']}"]
    config = json.loads((folder / "zeros" / "config.json").read_text())
    assert config == json.loads((models["gpt"] / "config.json").read_text())


def test_a_translator_without_some_heads_still_translates(young):
    typed_well("prune", young, "--heads", "cross.0.1", "encoder.1.0", "--out", "small")
    found = called("translate", "small", stdin=f"{TEXT}\n".encode())
    assert found.code == 0, found.err
    translator = Translator.load(young, device="cpu")
    with heads_off(translator.model, [("cross", 0, 1), ("encoder", 1, 0)]):
        assert found.out.splitlines() == translator.translate([TEXT])


# What cannot be is one sentence, and nothing is written


LONG = " ".join(WORDS) * 3
NO_PART = "{} has no part in {}; leave it away"
BAD = [
    ("", "there is nothing to look at; give a model and a text, or --positions"),
    ("GPT", "there is nothing to look at; give a text behind GPT, in quotes, or an image's file"),
    ("GPT ' '", "the text is empty; give a sentence behind the model, in quotes"),
    ("nothing TEXT", "nothing does not exist; give a model directory or a run directory"),
    ("folder.html TEXT", "folder.html holds no config.json; give a model directory or a run directory"),
    # Files
    ("GPT TEXT --out a.pdf", "a.pdf must end in .html"),
    ("GPT TEXT --out a", "a must end in .html"),
    ("GPT TEXT --png a.svg", "a.svg must end in .png"),
    ("GPT TEXT --svg a.png", "a.png must end in .svg"),
    ("GPT TEXT --json a.txt", "a.txt must end in .json"),
    ("GPT TEXT --out a.html --json a.txt", "a.txt must end in .json"),
    ("GPT TEXT --out no/such/a.html", "no/such/a.html cannot be written: there is no folder no/such"),
    ("GPT TEXT --out folder.html", "folder.html is a folder; name a file"),
    ("GPT TEXT --png folder.png", "folder.png is a folder; name a file"),
    ("GPT TEXT --json file/a.json", "file/a.json cannot be written: there is no folder file"),
    # Layers, heads and tokens
    ("GPT TEXT --layer 2", "there is no layer 2; the model has 2, counted from 0"),
    ("GPT LONG", r"re:.* has (\d+) tokens, but the model sees 25; shorten it"),
    ("MASKED TEXT LONG", r"re:'TEXT' has (\d+) tokens, but the model reads 25; shorten it"),
    ("GPT TEXT --tokens 24", r"re:'TEXT' has \d+ tokens and 24 more are asked for, but the model reads 25; shorten .*"),
    ("GPT TEXT TEXT", "a language model reads one text; leave the second away"),
    # What is shown
    ("GPT TEXT --attention cross --png a.png", "there is no cross attention in what is looked at; there is self"),
    ("GPT TEXT --show norms --attention cross", "there is no cross attention in what is looked at; there is self"),
    ("GPT TEXT --show lens --layer 1", NO_PART.format("--layer", "--show lens")),
    ("GPT TEXT --show lens --attention self", NO_PART.format("--attention", "--show lens")),
    ("GPT TEXT --show norms --head 1", NO_PART.format("--head", "--show norms")),
    ("GPT TEXT --attention self", "--attention says what a figure is of; ask for one with --png or --svg"),
    ("GPT TEXT --show heads --out a.html", "--out has all that there is to show; leave --show away"),
    ("GPT TEXT --show norms --json a.json", "--json has all that there is to show; leave --show away"),
    # Importance
    ("GPT --importance --show heads --text file", NO_PART.format("--show", "--importance")),
    ("GPT TEXT --importance --text file", NO_PART.format("the text", "--importance")),
    ("GPT --importance --head 0 --text file", NO_PART.format("--head", "--importance")),
    ("GPT TEXT --by loss", "--by goes with --importance, which is not asked for"),
    ("GPT TEXT --text file", "--text goes with --importance, which is not asked for"),
    ("GPT --importance", "there is nothing to score a language model on: give --text, or --choices"),
    ("GPT --importance --text file --out a.html", "--importance is a table and a figure; give --png, --svg or --json"),
    ("GPT --importance --text b.txt", r"re:b\.txt is not there.*"),
    # Positions
    ("GPT TEXT --positions own", NO_PART.format("the text", "--positions")),
    ("GPT --positions own --layer 0", NO_PART.format("--layer", "--positions")),
    ("GPT --positions own --data file", NO_PART.format("--data", "--positions")),
    ("GPT --positions own --importance", NO_PART.format("--importance", "--positions")),
    ("--positions rotary --out a.html", "--positions are a figure; give --png, --svg or --json"),
    ("--positions ,", r"re:name the positions to draw, from .*"),
    ("--positions learned", r"re:.*learned.*"),
]


@pytest.mark.parametrize(("typed", "said"), BAD)
def test_what_cannot_be_looked_at(models, folder, typed, said):
    (folder / "folder.html").mkdir()
    (folder / "folder.png").mkdir()
    (folder / "file").write_text("a dog\n")
    given = {"GPT": str(models["gpt"]), "MASKED": str(models["masked"]), "TEXT": TEXT, "LONG": LONG}
    sentence = refused("look", *(given.get(each, each) for each in shlex.split(typed)))
    for name, value in given.items():
        sentence = sentence.replace(value, name)
    pattern = said.removeprefix("re:") if said.startswith("re:") else re.escape(said)
    assert re.fullmatch(pattern, sentence), sentence


@pytest.mark.parametrize(
    ("typed", "there"), [(["GPT", TEXT], "look.html"), (["--positions", "alibi"], "positions.png")]
)
def test_a_folder_where_nobody_named_a_file(models, folder, typed, there):
    (folder / there).mkdir()
    sentence = refused("look", *(str(models["gpt"]) if each == "GPT" else each for each in typed))
    assert there in sentence


def test_the_folder_one_is_in_is_a_model_or_is_none(models, folder, monkeypatch):
    assert refused("look", ".", TEXT) == ". holds no config.json; give a model directory or a run directory"
    monkeypatch.chdir(models["gpt"])
    typed_well("look", ".", TEXT, "--out", folder / "a.html")
    assert "<title>gpt</title>" in (folder / "a.html").read_text(encoding="utf-8")


def test_a_text_that_is_not_utf_8(models):
    for texts in (["a \udcff dog"], [TEXT, "a \udcff dog"]):
        assert refused("look", models["masked"], *texts) == (
            "the text is not valid UTF-8; type it in a terminal that writes UTF-8"
        )


@pytest.mark.parametrize(
    ("heads", "out", "said"),
    [
        ("three", "small", "three is not a head; write layer.head, such as 0.3, or cross.0.3 of a translator"),
        ("0.1 2.0", "small", "there is no layer 2; the model has 2, counted from 0"),
        ("0.1", "file", "file is a file; give another --out"),
        ("0.1", "file/small", "file/small cannot be written"),
    ],
)
def test_heads_that_cannot_be_taken_out_and_places_that_are_taken(models, folder, heads, out, said):
    (folder / "file").write_text("mine")
    assert refused("prune", models["gpt"], "--heads", *heads.split(), "--out", out).startswith(said)
