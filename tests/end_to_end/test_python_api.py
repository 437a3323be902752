from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from manyheads import Tokenizer, Transformer, TransformerConfig, Translator, recorded_attention
from manyheads.core.errors import CheckpointError, ConfigError
from manyheads.interop.directory import save_model
from manyheads.nn.positions import PositionsConfig
from manyheads.tasks.inside.look import look_inside
from manyheads.tasks.translate.use import decode_all

LINES = ["the cat danced", "the dog sees the old tree", "a bird", "the young cat finds a small red house"]
VARIANTS = {
    "published": {},
    "deep": {"layers": 11, "width": 12, "heads": 3},
    "modern": {
        **{"positions": PositionsConfig(kind="rotary"), "norm": "rms", "norm_order": "pre", "activation": "swiglu"},
        **{"key_value_heads": 2, "tied": False},
    },
}


def made(directory, name):
    torch.manual_seed(5)
    tokenizer = Tokenizer.train(LINES * 3, 280)
    config = TransformerConfig(
        vocabulary=len(tokenizer), width=16, heads=4, layers=2, inner=20, pad=tokenizer.pad, start=tokenizer.start,
        end=tokenizer.end,
    )  # fmt: skip
    model = Transformer(replace(config, **VARIANTS[name])).eval()
    nn.init.normal_(model.decoder.embedding.weight[: tokenizer.pad], std=1.0)
    save_model(directory, model, tokenizer, "# A model\n")
    return model


@pytest.fixture(scope="module", params=["published", "modern"])
def translator(request, tmp_path_factory):
    directory = tmp_path_factory.mktemp("models") / request.param
    made(directory, request.param)
    return Translator.load(str(directory), device="cpu")


def test_sentences_come_back_in_order_whatever_their_company(translator):
    together = translator.translate([*LINES, "", "  "], beam=4)
    assert len(together) == 6
    assert together[-2:] == ["", ""]
    assert [translator.translate([line], beam=4)[0] for line in LINES] == together[:4]
    assert translator.translate(LINES[::-1], beam=4) == together[:4][::-1]
    assert len(set(together[:4])) > 1
    assert translator.translate([]) == []


def test_candidates_have_scores_best_first(translator):
    for beam, count in ((4, 4), (4, 2), (1, 1)):
        for sentence, row in zip(LINES, translator.candidates(LINES[:3], beam=beam, count=count)):
            assert len(row) == count
            assert row[0].text == translator.translate([sentence], beam=beam)[0]
            scores = [candidate.score for candidate in row]
            assert scores == sorted(scores, reverse=True)
            assert all(score < 0 for score in scores)
            assert not any("\n" in candidate.text for candidate in row)


def test_no_line_is_too_long(translator, monkeypatch, capsys):
    """However long it is, pieces of so many tokens are what is computed; each is translated as it would be alone."""
    monkeypatch.setattr("manyheads.tasks.translate.use.LONGEST", 9)
    seen = []
    encode = translator.model.encode
    monkeypatch.setattr(translator.model, "encode", lambda ids: seen.append(ids.shape[1]) or encode(ids))
    words, sentences = "the cat danced " * 200, ["the cat.", "a bird!", "the dog?"]
    lines = [words, "a bird", " ".join(sentences * 3), *["the " * 20] * 5]
    found = translator.candidates(lines, beam=2, count=2, first_line=11)
    assert max(seen) == 9
    said = " ".join(capsys.readouterr().err.split())
    assert "lines 11, 13, 14, 15, 16 and 2 more; split at the ends of sentences" in said
    alone = translator.candidates(sentences * 3, beam=2, count=2)
    assert [each.text for each in found[2]] == [" ".join(texts) for texts in zip(*([c.text for c in r] for r in alone))]
    assert found[2][0].score == pytest.approx(sum(row[0].score for row in alone))
    assert translator.translate(["a bird"]) == [translator.candidates(["a bird"])[0][0].text]
    assert not capsys.readouterr().err


@pytest.mark.parametrize("alpha", [0.0, 0.6])
@torch.no_grad()
def test_a_score_is_the_log_probability_over_the_penalty_in_every_beam(translator, alpha):
    """Beam 1 is greedy search, whose score is of the same kind."""
    model, tokenizer = translator.model, translator.tokenizer
    source = tokenizer.encode(LINES[:1])
    for beam in (1, 3):
        best = decode_all(model, source, beam=beam, alpha=alpha)[0][0]
        limit = len(source[0]) + 50
        target = torch.tensor([[*best.ids, model.config.end][:limit]])
        before = torch.cat([torch.tensor([[model.config.start]]), target[:, :-1]], dim=1)
        chosen = model(torch.tensor(source), before).log_softmax(dim=-1).gather(2, target[:, :, None]).sum()
        assert best.score == pytest.approx(float(chosen) / ((5 + target.shape[1]) / 6) ** alpha, abs=1e-3)


def test_what_cannot_be_asked_is_a_sentence(translator, tmp_path):
    with pytest.raises(ConfigError, match="a list of sentences, not one string"):
        translator.translate("the cat")
    with pytest.raises(ConfigError, match="5 candidates of a beam of 4"):
        translator.candidates(LINES, beam=4, count=5)
    with pytest.raises(ConfigError, match="the beam must be at least 1"):
        translator.translate(LINES, beam=0)
    with pytest.raises(CheckpointError, match="nowhere does not exist"):
        Translator.load(tmp_path / "nowhere")


def test_cross_attention_is_stacked_layer_by_layer(tmp_path):
    model = made(tmp_path, "deep")  # so deep that block 10 would come before block 2 by name
    translator = Translator.load(tmp_path, device="cpu")
    view = look_inside(translator, LINES[1], LINES[0]).view("cross")
    assert view.weights.shape == (model.config.layers, model.config.heads, len(view.rows), len(view.columns))
    source = torch.tensor(translator.tokenizer.encode([LINES[1]]))
    target = torch.tensor(translator.tokenizer.encode([LINES[0]]))
    before = torch.cat([torch.tensor([[model.config.start]]), target[:, :-1]], dim=1)
    with torch.no_grad(), recorded_attention(model) as recorded:
        model(source, before)
    for layer in range(model.config.layers):
        assert_close(torch.tensor(view.weights[layer]), recorded[f"decoder.blocks.{layer}.cross_attention"][0])
