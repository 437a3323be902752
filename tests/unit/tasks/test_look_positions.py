from pathlib import Path

import numpy as np
import pytest
import torch

from manyheads.core.errors import CheckpointError, ConfigError
from manyheads.interop.directory import save_model
from manyheads.look.drawing import save_figure
from manyheads.look.figures import draw_studies
from manyheads.models.conv import ConvSeq2Seq, ConvSeq2SeqConfig
from manyheads.nn.positions import PositionsConfig
from manyheads.ops import relative, rotary
from manyheads.ops.rotary import sinusoid
from manyheads.tasks.inside.positions import studies
from tests.unit.tasks import tiny


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """Saves a small model with these positions; gives where and the model."""
    directory = tmp_path_factory.mktemp("models")

    def made(family: str, **positions) -> tuple[Path, torch.nn.Module]:
        model = tiny.made(family, width=12, heads=3, positions=PositionsConfig(**positions))
        return tiny.saved(directory / f"{family}-{'-'.join(map(str, positions.values()))}", model), model

    return made


def position_arrays(*kinds, **options) -> dict:
    return {each.name: each.arrays() for each in studies(*kinds, **options)}


def test_kinds_by_name_need_no_model():
    arrays = position_arrays(["sinusoidal", "rotary", "sinusoidal"], positions=9, width=6)
    assert list(arrays) == ["sinusoidal", "rotary"]
    np.testing.assert_allclose(arrays["sinusoidal"]["encoding"], sinusoid(torch.arange(9), 6).numpy(), rtol=1e-6)
    assert np.shape(arrays["rotary"]["similarity"]) == (9, 9)
    assert len(arrays["rotary"]["wavelengths"]) == 3


def test_a_sinusoid_of_any_size_has_the_same_wavelengths(saved):
    ours, published = (
        position_arrays([], model=saved(family, kind="sinusoidal")[0]) for family in ("gpt", "translator")
    )
    assert np.abs(ours["sinusoidal"]["encoding"]).max() == pytest.approx(0.02)
    np.testing.assert_allclose(*(each["sinusoidal"]["wavelengths"] for each in (ours, published)), rtol=1e-4)


@pytest.mark.parametrize(("name", "begins"), [("a.png", b"\x89PNG"), ("a.svg", b"<?xml")])
def test_a_picture_is_drawn_where_it_is_asked_for(tmp_path, name, begins):
    pytest.importorskip("matplotlib")
    save_figure(draw_studies(studies(["yarn", "alibi"], positions=9, width=6)), tmp_path / name)
    assert (tmp_path / name).read_bytes().startswith(begins)
    if name == "a.svg":
        written = (tmp_path / name).read_text(encoding="utf-8")
        assert "scaled by yarn" in written
        assert "alibi" in written


def test_a_model_shows_its_own_learned_table_beside_others_in_the_order_asked_for(saved):
    path, model = saved("gpt", kind="learned")
    table = model.positions.table.weight.detach().numpy()
    for kinds, positions in (([], None), (["learned"], 7), (["alibi", "own", "rotary", "learned"], 7)):
        arrays = position_arrays(kinds, model=path, **({} if positions is None else {"positions": positions}))
        assert list(arrays) == (["alibi", "learned", "rotary"] if len(kinds) > 1 else ["learned"])
        np.testing.assert_allclose(arrays["learned"]["encoding"], table[:positions], rtol=1e-6)
        assert np.shape(arrays["learned"]["similarity"]) == (positions or 31, positions or 31)


def test_both_sides_of_a_translator_show_what_they_learned(saved, tmp_path):
    pytest.importorskip("matplotlib")
    path, model = saved("translator", kind="buckets")
    arrays = position_arrays([], positions=9, model=path)
    assert list(arrays) == ["encoder buckets", "decoder buckets"]
    for side, table in (("encoder", model.encoder.positions.table), ("decoder", model.decoder.positions.table)):
        numbers = relative.t5_buckets(relative.distances(9, 9, 0), 32, 128, side == "encoder").numpy()
        found = np.array(arrays[f"{side} buckets"]["bias"], dtype=float)
        seen = np.isfinite(found)
        assert seen.all() == (side == "encoder")
        np.testing.assert_allclose(found[seen], table.weight[numbers, 0].detach().numpy()[seen], rtol=1e-6)
    save_figure(draw_studies(studies([], positions=9, model=path)), tmp_path / "a.svg")
    written = (tmp_path / "a.svg").read_text(encoding="utf-8")
    assert f">{path.name}, encoder: buckets" in written
    assert f">{path.name}, decoder: buckets" in written


def test_what_both_sides_know_alike_is_shown_once(saved):
    path, _ = saved("translator", kind="sinusoidal")
    arrays = position_arrays([], positions=9, model=path)
    assert list(arrays) == ["sinusoidal"]
    assert np.shape(arrays["sinusoidal"]["encoding"]) == (9, 12)


def test_the_scaling_of_a_model_is_its_own(saved):
    path, _ = saved("llama", kind="rotary", base=500.0, scaling="linear", factor=8.0, length=16)
    arrays = position_arrays([], positions=9, model=path)["linear"]
    own = rotary.frequencies(4, 500.0)
    np.testing.assert_allclose(arrays["wavelengths"]["unscaled"], 2 * np.pi / own.numpy(), rtol=1e-5)
    np.testing.assert_allclose(arrays["wavelengths"]["scaled"], 16 * np.pi / own.numpy(), rtol=1e-5)


def test_other_kinds_are_shown_in_the_sizes_of_the_model(saved):
    path, _ = saved("llama", kind="rotary", base=500.0)
    arrays = position_arrays(["sinusoidal", "ntk", "alibi", "rotary"], positions=9, model=path)
    assert list(arrays) == ["sinusoidal", "ntk", "alibi", "rotary"]
    assert np.shape(arrays["sinusoidal"]["encoding"]) == (9, 12)
    assert len(arrays["alibi"]["slopes"]) == 3
    assert np.shape(arrays["rotary"]["encoding"]) == (9, 4)
    np.testing.assert_allclose(arrays["ntk"]["wavelengths"]["unscaled"], arrays["rotary"]["wavelengths"])


def test_a_translator_of_convolutions_shows_what_it_learned(tmp_path):
    tokens = tiny.TRANSLATION
    sizes = {"vocabulary": len(tokens), "pad": tokens.pad, "start": tokens.start, "end": tokens.end, "width": 6}
    model = ConvSeq2Seq(ConvSeq2SeqConfig(**sizes, layers=1, positions=PositionsConfig(kind="learned", length=11)))
    save_model(tmp_path / "conv", model, tokens, "# A model\n")
    both = position_arrays(["own", "sinusoidal"], positions=9, model=tmp_path / "conv")
    table = both["decoder learned"]["encoding"]
    np.testing.assert_allclose(table, next(model.decoder.positions.parameters())[:9].detach().numpy())
    assert list(both) == ["encoder learned", "decoder learned", "sinusoidal"]


@pytest.mark.parametrize(
    ("kinds", "model", "said"),
    [
        (["alibi", "own"], None, "^own are the positions of a model; give one$"),
        (["rotary", "cosine"], None, "no positions are called 'cosine'; choose from sinusoidal, learned, .*llama3"),
        (["learned"], None, "learned positions .* give a trained model"),
        ([], None, "name the positions to draw, from sinusoidal, .* or give a model"),
        (["learned"], {"family": "llama", "kind": "rotary"}, "are rotary; there are no learned ones to see"),
        ([], {"family": "gpt", "kind": "none"}, "positions none tell a model nothing"),
    ],
)
def test_what_cannot_be_is_one_sentence(saved, tmp_path, kinds, model, said):
    path = model and saved(**model)[0]
    with pytest.raises(ConfigError, match=said):
        studies(kinds, model=path)
    with pytest.raises(CheckpointError, match="does not exist"):
        studies([], model=tmp_path / "nowhere")
