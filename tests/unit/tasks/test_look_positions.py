from pathlib import Path

import numpy as np
import pytest
import torch

from manyheads.core.errors import CheckpointError, ConfigError
from manyheads.interop.directory import save_model
from manyheads.models.gpt import GPT, GPTConfig
from manyheads.models.llama import Llama, LlamaConfig
from manyheads.models.transformer import Transformer, TransformerConfig
from manyheads.nn.positions import PositionsConfig
from manyheads.ops import relative, rotary
from manyheads.ops.sinusoid import sinusoid
from manyheads.tasks.inside.positions import draw_positions, position_arrays
from manyheads.text.language import LanguageTokenizer
from manyheads.text.tokenizer import Tokenizer

LINES = ["the cat danced", "the dog sees the old tree", "a bird"] * 3


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """Saves a small model with these positions; gives where and the model."""
    directory = tmp_path_factory.mktemp("models")

    def made(family: str, **positions) -> tuple[Path, torch.nn.Module]:
        torch.manual_seed(5)
        where = PositionsConfig(**positions)
        if family == "translator":
            tokenizer = Tokenizer.train(LINES, 280)
            special = {"pad": tokenizer.pad, "start": tokenizer.start, "end": tokenizer.end}
            sizes = {"vocabulary": len(tokenizer), "width": 12, "heads": 3, "layers": 1, "inner": 7}
            model = Transformer(TransformerConfig(**sizes, **special, positions=where))
        else:
            tokenizer = LanguageTokenizer.train(LINES, 280)
            sizes = {"vocabulary": len(tokenizer), "width": 12, "heads": 3, "layers": 2, "inner": 8, "context": 20}
            configs = {"gpt": (GPT, GPTConfig), "llama": (Llama, LlamaConfig)}
            model_class, config_class = configs[family]
            model = model_class(config_class(**sizes, positions=where))
        path = directory / f"{family}-{'-'.join(map(str, positions.values()))}"
        save_model(path, model.eval(), tokenizer, "# A model\n")
        return path, model

    return made


def test_kinds_by_name_need_no_model():
    arrays = position_arrays(["sinusoidal", "rotary", "sinusoidal"], positions=9, width=6)
    assert list(arrays) == ["sinusoidal", "rotary"]
    np.testing.assert_allclose(arrays["sinusoidal"]["encoding"], sinusoid(torch.arange(9), 6).numpy(), rtol=1e-6)
    assert np.shape(arrays["rotary"]["similarity"]) == (9, 9)
    assert len(arrays["rotary"]["wavelengths"]) == 3


@pytest.mark.parametrize(("name", "begins"), [("a.png", b"\x89PNG"), ("a.svg", b"<?xml")])
def test_a_picture_is_drawn_where_it_is_asked_for(tmp_path, name, begins):
    pytest.importorskip("matplotlib")
    draw_positions(["yarn", "alibi"], positions=9, width=6, out=tmp_path / name)
    assert (tmp_path / name).read_bytes().startswith(begins)
    if name == "a.svg":
        written = (tmp_path / name).read_text(encoding="utf-8")
        assert "scaled by yarn" in written
        assert "alibi" in written


def test_a_model_shows_its_own_learned_table(saved):
    path, model = saved("gpt", kind="learned")
    arrays = position_arrays([], model=path)
    assert list(arrays) == ["learned"]
    np.testing.assert_allclose(arrays["learned"]["encoding"], model.positions.table.weight.detach().numpy(), rtol=1e-6)
    assert np.shape(arrays["learned"]["similarity"]) == (20, 20)
    assert len(position_arrays(["learned"], positions=7, model=path)["learned"]["encoding"]) == 7


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
    draw_positions([], positions=9, model=path, out=tmp_path / "a.svg")
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


def test_a_model_s_own_stand_beside_others_in_the_order_asked_for(saved):
    path, model = saved("gpt", kind="learned")
    arrays = position_arrays(["alibi", "own", "rotary", "learned"], positions=7, model=path)
    assert list(arrays) == ["alibi", "learned", "rotary"]
    table = model.positions.table.weight[:7].detach().numpy()
    np.testing.assert_allclose(arrays["learned"]["encoding"], table, rtol=1e-6)


def test_what_cannot_be_is_one_sentence(saved, tmp_path):
    out = tmp_path / "a.png"
    with pytest.raises(ConfigError, match=r"^own are the positions of a model; give one$"):
        draw_positions(["alibi", "own"], out=out)
    with pytest.raises(
        ConfigError, match=r"no positions are called 'cosine'; choose from sinusoidal, learned, .*llama3"
    ):
        draw_positions(["rotary", "cosine"], out=out)
    with pytest.raises(ConfigError, match=r"learned positions .* give a trained model"):
        draw_positions(["learned"], out=out)
    with pytest.raises(ConfigError, match=r"name the positions to draw, from sinusoidal, .* or give a model"):
        draw_positions([], out=out)
    with pytest.raises(ConfigError, match=r"a\.gif must end in \.png or \.svg"):
        draw_positions(["nothing"], out=tmp_path / "a.gif")
    with pytest.raises(CheckpointError, match="does not exist"):
        draw_positions([], model=tmp_path / "nowhere", out=out)
    path, _ = saved("llama", kind="rotary")
    with pytest.raises(ConfigError, match="are rotary; there are no learned ones to see"):
        draw_positions(["learned"], model=path, out=out)
    path, _ = saved("gpt", kind="none")
    with pytest.raises(ConfigError, match="positions none tell a model nothing"):
        draw_positions([], model=path, out=out)
    assert not list(tmp_path.iterdir())
