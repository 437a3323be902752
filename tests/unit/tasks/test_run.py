"""What a run would need is known before it begins."""

import pytest

from manyheads.core.errors import ConfigError
from manyheads.ops import device
from manyheads.tasks.run import resolve, resolve_again, train


@pytest.mark.parametrize(
    ("preset", "assignment", "sentence"),
    [
        ("gpt3_175b", "train.steps=1", "96 layers in training need about 1.9 TB of memory, but 8.0 GB are free on cpu"),
        ("gpt2_tiny", "model.context=1000000000", "parameters in training need about .* TB .*, room for 500,000,000;"),
        ("gpt2_tiny", "model.layers=1000000000", "1,000,000,000 layers in training need .* choose a smaller preset"),
    ],
)
def test_a_model_that_has_no_room_is_refused_before_anything_is_written(
    tmp_path, monkeypatch, preset, assignment, sentence
):
    monkeypatch.setattr(device, "free_memory", lambda where: 8 * 10**9)
    (tmp_path / "text.txt").write_text("the cat sees the dog\n" * 50)
    flags = {"data": {"text": (str(tmp_path / "text.txt"),)}}
    recipe = resolve("language", preset=preset, flags=flags, assignments=(assignment, "train.device=cpu"))
    with pytest.raises(ConfigError, match=sentence):
        train(recipe, tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(("said", "amplitude"), [("", 1.0), ("amplitude = 0.0\n", 0.0)])
def test_a_run_that_knows_no_amplitude_goes_on_with_sinusoids_of_size_1(tmp_path, said, amplitude):
    (tmp_path / "recipe.toml").write_text(f'[model.positions]\nkind = "sinusoidal"\n{said}')
    assert resolve_again(tmp_path, "language").model.positions.amplitude == amplitude
