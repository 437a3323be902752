"""A text walked through a recurrent model: each number follows from those before it, by the lectures' formulas."""

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from manyheads.core.errors import ConfigError
from manyheads.look.grid import Grid
from manyheads.look.walk import Walk
from manyheads.models.classifier import DecoderClassifier
from manyheads.models.rnn import RNN, RNNConfig
from manyheads.nn.layers import TokenEmbedding
from manyheads.nn.recurrent import CELLS, LSTM, TwoDirections, places_backwards
from manyheads.tasks.classify.use import Classifier
from manyheads.tasks.inside.walk import walk_through
from manyheads.tasks.language.use import LanguageModel
from tests.unit.tasks.tiny import LANGUAGE, NAMES, TEXT, gpt, made

SIZES = {"width": 6, "layers": 2, "vocabulary": len(LANGUAGE), "end": LANGUAGE.end}
IDS = LANGUAGE.encode([TEXT])[0]


def rnn(cell: str = "lstm", **changes) -> RNN:
    torch.manual_seed(8)
    return made(RNN(RNNConfig(cell=cell, **{**SIZES, **changes})))


def steps(walk: Walk, section: str) -> dict[str, np.ndarray]:
    found = next(each for each in walk.sections if each.title.startswith(section))
    return {grid.title: grid.numbers for row in found.rows for grid in row}


def grid_of(walk: Walk, title: str) -> Grid:
    return next(grid for grid in walk.steps if grid.title == title)


def sigmoid(numbers: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-numbers))


def recomposes(step: dict[str, np.ndarray], cell: str, layer) -> None:
    """The new state from the input and the state before, number by number."""
    close = lambda one, other: np.testing.assert_allclose(one, other, atol=2e-6)  # noqa: E731
    w, u, b, d = (
        each.detach().numpy() for each in (layer.input_weight, layer.hidden_weight, layer.input_bias, layer.hidden_bias)
    )
    close(step["from the input"].ravel(), w @ step["input"][0] + b)
    close(step["from the state"].ravel(), u @ step["state before"][0] + d)
    mine, theirs = step["from the input"], step["from the state"]
    if cell == "elman":
        close(step["new state"], np.tanh(mine + theirs))
    elif cell == "gru":
        close(step["gates"], sigmoid(mine + theirs)[:2])
        (r, z), n = step["gates"], step["candidate"][0]
        close(n, np.tanh(mine[2] + r * theirs[2]))
        close(step["new state"][0], (1 - z) * n + z * step["state before"][0])
    else:
        i, f, g, o = mine + theirs
        close(step["gates"], sigmoid(np.stack([i, f, o])))
        close(step["candidate"][0], np.tanh(g))
        (i, f, o), g = step["gates"], step["candidate"][0]
        close(step["new cell"], np.stack([f * step["cell before"][0], i * g, step["new cell"][:2].sum(axis=0)]))
        close(step["new state"][0], o * np.tanh(step["new cell"][2]))


@pytest.mark.parametrize("token", [None, 0, 3])
@pytest.mark.parametrize("cell", CELLS)
def test_a_language_model_recomposes(cell, token):
    task = LanguageModel(rnn(cell), LANGUAGE)
    place = len(IDS) - 1 if token is None else token
    with torch.inference_mode():
        logits = task.model(torch.tensor([IDS]))[0, -1]
        x = task.model.embedding(torch.tensor([IDS]))
        for number, layer in enumerate(task.model.layers):
            walk = walk_through(task, TEXT, layer=number, token=token)
            step = steps(walk, f"Layer {number}, {type(layer).__name__}, at token {place}")
            np.testing.assert_allclose(step["input"][0], x[0, place], atol=1e-6)
            before = np.zeros(6) if place == 0 else layer(x)[0][0, place - 1].numpy()
            np.testing.assert_allclose(step["state before"][0], before, atol=1e-6)
            recomposes(step, cell, layer)
            x = layer(x)[0]
            np.testing.assert_allclose(step["new state"][0], x[0, place], atol=1e-6)
            every = steps(walk, "All tokens")
            np.testing.assert_allclose(every[f"states of layers.{number}"], x[0], atol=1e-6)
            np.testing.assert_allclose(every["lengths"][number], x[0].norm(dim=-1), atol=1e-5)
    chances, best = logits.softmax(dim=-1).topk(5)
    assert grid_of(walk, "candidates").rows == [piece or "␣" for piece in LANGUAGE.pieces(best.tolist())]
    assert [cells[1] for cells in grid_of(walk, "candidates").cells] == [f"{chance:.4f}" for chance in chances.tolist()]
    assert len(grid_of(walk_through(task, TEXT, count=3), "candidates").rows) == 3


def test_a_cell_with_norms_inside_says_so():
    task = LanguageModel(rnn(norm=True), LANGUAGE)
    walk, layer = walk_through(task, TEXT), task.model.layers[0]
    step = steps(walk, "Layer 0")
    with torch.inference_mode():
        states = layer.from_input(torch.from_numpy(step["input"]).float())
        cell = layer.cell_norm(torch.from_numpy(step["new cell"][2:]).float()).tanh().numpy()
    np.testing.assert_allclose(step["from the input"].reshape(1, -1), states, atol=1e-5)
    np.testing.assert_allclose(step["new state"], step["gates"][2:] * cell, atol=1e-5)
    assert grid_of(walk, "from the state").formula == "LayerNorm(W_hh h₋ + b)"
    assert grid_of(walk, "new state").formula == "h = o · tanh(LayerNorm(c))"


def test_a_classifier_ends_with_its_labels():
    task = Classifier(made(DecoderClassifier(rnn("gru"), NAMES)), LANGUAGE)
    walk = walk_through(task, TEXT, layer=1)
    recomposes(steps(walk, "Layer 1, GRU"), "gru", task.model.body.layers[1])
    grid = grid_of(walk, "labels")
    assert grid.rows == [*NAMES]
    assert [row[1] for row in grid.cells] == [f"{each:.4f}" for each in task.probabilities([TEXT])[0].tolist()]
    assert "body.layers.1" in grid_of(walk, "lengths").rows
    assert "Layer 1" in walk.html()


class BothWays(nn.Module):
    """A body of two directions."""

    def __init__(self):
        super().__init__()
        self.config = RNNConfig(**SIZES)
        self.embedding = TokenEmbedding(len(LANGUAGE), 6)
        self.layers = nn.ModuleList(TwoDirections(LSTM, 6, 6) for _ in range(2))

    def states(self, ids: Tensor) -> Tensor:
        x = self.embedding(ids)
        for layer in self.layers:
            x = layer(x, places_backwards(torch.ones_like(ids, dtype=torch.bool)))
        return x


def test_both_directions_of_a_layer_are_shown_where_they_stand_in_the_text():
    task = Classifier(made(DecoderClassifier(BothWays(), NAMES)), LANGUAGE)
    walk = walk_through(task, TEXT, layer=1, token=2)
    for way in ("onward", "backward"):
        step = steps(walk, f"Layer 1, {way}, LSTM, at token 2")
        recomposes(step, "lstm", getattr(task.model.body.layers[1], way))
        states = steps(walk, "All tokens")[f"states of body.layers.1.{way}"]
        np.testing.assert_allclose(step["state before"][0], states[1 if way == "onward" else 3], atol=1e-6)
        np.testing.assert_allclose(step["new state"][0], states[2], atol=1e-6)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"layer": 2}, "there is no layer 2; the model has 2, counted from 0"),
        ({"layer": -1}, "there is no layer -1"),
        ({"token": len(IDS)}, f"there is no token {len(IDS)}; the text has {len(IDS)}, counted from 0"),
        ({"token": -1}, "there is no token -1"),
        ({"head": 1}, "leave head and attention away"),
        ({"attention": "self"}, "leave head and attention away"),
    ],
)
def test_what_is_not_there_is_refused(options, said):
    with pytest.raises(ConfigError, match=said):
        walk_through(LanguageModel(rnn(), LANGUAGE), TEXT, **options)


def test_a_token_is_for_recurrent_models_alone():
    with pytest.raises(ConfigError, match="one token's step is shown of recurrent models, and this is none"):
        walk_through(LanguageModel(made(gpt()), LANGUAGE), TEXT, token=0)
