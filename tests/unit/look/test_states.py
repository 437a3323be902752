"""States and gates of recurrent layers: the formulas' own, beside the kernel that keeps none."""

import pytest
import torch
from helpers import randomised
from torch import Tensor, nn
from torch.testing import assert_close

from manyheads.core.errors import ConfigError
from manyheads.look.states import recorded_states, recurrences
from manyheads.models.gpt import GPT, GPTConfig
from manyheads.models.rnn import RNN, RNNConfig
from manyheads.nn.recurrent import CELLS, LSTM, RecurrentState, TwoDirections, places_backwards

PEERS = {"elman": nn.RNN, "gru": nn.GRU, "lstm": nn.LSTM}
IDS = torch.tensor([[3, 1, 4, 1, 5], [9, 2, 6, 5, 3]])
cells = pytest.mark.parametrize("cell", CELLS)


def rnn(cell: str = "lstm", **changes) -> RNN:
    torch.manual_seed(4)
    return randomised(RNN(RNNConfig(**{"vocabulary": 11, "width": 7, "layers": 2, "cell": cell, **changes})))


def hooks(model: nn.Module) -> int:
    own = sum("step" in part.__dict__ for part in model.modules())
    return own + sum(len(part._forward_hooks) + len(part._forward_pre_hooks) for part in model.modules())


def by_hand(layer, x_TI: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
    """The slides' formulas for one text, one unit of one gate after the other."""
    width = layer.width
    hidden, cell, states, gates = torch.zeros(width), torch.zeros(width), [], []
    w, u, b, d = layer.input_weight, layer.hidden_weight, layer.input_bias, layer.hidden_bias
    for x in x_TI:
        mine, theirs = (w @ x + b).view(-1, width), (u @ hidden + d).view(-1, width)
        if layer.gates == 1:
            hidden = torch.tanh(mine[0] + theirs[0])
            gates.append({})
        elif layer.gates == 3:
            reset, update = torch.sigmoid(mine[0] + theirs[0]), torch.sigmoid(mine[1] + theirs[1])
            candidate = torch.tanh(mine[2] + reset * theirs[2])
            hidden = (1 - update) * candidate + update * hidden
            gates.append({"reset": reset, "update": update, "candidate": candidate})
        else:
            i, f, g, o = mine + theirs
            i, f, g, o = i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()
            cell = f * cell + i * g
            hidden = o * cell.tanh()
            gates.append({"input": i, "forget": f, "output": o, "candidate": g})
        states.append(hidden)
    return torch.stack(states), {name: torch.stack([each[name] for each in gates]) for name in gates[0]}


@cells
@torch.no_grad()
def test_states_and_gates_are_the_formulas_and_the_output_stays_the_kernel_s(cell):
    model = rnn(cell)
    expected = model(IDS)
    with recorded_states(model) as states:
        assert torch.equal(model(IDS), expected)
    assert [*states] == ["layers.0", "layers.1"]
    for row in range(2):
        x = model.embedding(IDS[row])
        for name, layer in recurrences(model).items():
            x, gates = by_hand(layer, x)
            assert_close(states[name].hidden[row], x, atol=1e-6, rtol=0)
            assert states[name].gates.keys() == gates.keys()
            for gate, found in states[name].gates.items():
                assert_close(found[row], gates[gate], atol=1e-6, rtol=0)
            assert_close(states[name].before[0][row, 1:], x[:-1], atol=1e-6, rtol=0)
    assert states.largest_difference < 1e-6
    assert hooks(model) == 0


@cells
@torch.no_grad()
def test_hidden_states_are_torch_s_on_copied_weights(cell):
    model = rnn(cell)
    peer = PEERS[cell](7, 7, num_layers=2, batch_first=True)
    for name, parameter in peer.named_parameters():
        kind, _, layer = name.rpartition("_l")
        own = {"weight_ih": "input_weight", "weight_hh": "hidden_weight", "bias_ih": "input_bias"}
        parameter.copy_(getattr(model.layers[int(layer)], own.get(kind, "hidden_bias")))
    with recorded_states(model) as states:
        model(IDS)
    assert_close(states["layers.1"].hidden, peer(model.embedding(IDS))[0], atol=1e-6, rtol=0)


@pytest.mark.parametrize("norm", [False, True])
@torch.no_grad()
def test_steps_and_pieces_are_joined_and_another_text_takes_their_place(norm):
    model = rnn(norm=norm)
    with recorded_states(model) as whole:
        model(IDS)
    assert (whole.largest_difference == 0) == norm  # what runs as it is written is compared with nothing
    with recorded_states(model) as pieces:
        model(IDS + 1)
        state = RecurrentState()
        for piece in (IDS[:, :2], IDS[:, 2:3], IDS[:, 3:]):
            model(piece, cache=state)
    for name, found in whole.items():
        assert_close(pieces[name].hidden, found.hidden, atol=1e-6, rtol=0)
        assert_close(pieces[name].after[1], found.after[1], atol=1e-6, rtol=0)
        assert_close(pieces[name].gates, found.gates, atol=1e-6, rtol=0)


class Stepping(nn.Module):
    """An encoder of two directions, and a decoder that goes from position to position by itself."""

    def __init__(self):
        super().__init__()
        self.encoder = nn.ModuleList([TwoDirections(LSTM, 3, 8)])
        self.decoder = nn.ModuleDict({"cell": LSTM(3, 8)})

    def forward(self, source: Tensor, target: Tensor, real: Tensor) -> Tensor:
        memory = self.encoder[0](source, places_backwards(real))
        cell: LSTM = self.decoder["cell"]  # type: ignore
        states = (memory.mean(dim=1), memory.mean(dim=1).tanh())
        found = []
        for position in range(target.shape[1]):
            states = cell.step(cell.from_input(target[:, position]), states)
            found.append(states[0])
        return torch.stack(found, dim=1)


@torch.no_grad()
def test_two_directions_stand_by_the_text_and_a_decoder_s_own_steps_are_seen():
    torch.manual_seed(6)
    model = Stepping()
    source, target = torch.randn(2, 5, 3), torch.randn(2, 4, 3)
    real = torch.tensor([[True] * 5, [True] * 3 + [False] * 2])
    expected = model(source, target, real)
    with recorded_states(model) as states:
        assert torch.equal(model(source, target, real), expected)
    assert [*states] == ["encoder.0.onward", "encoder.0.backward", "decoder.cell"]
    assert_close(states["decoder.cell"].hidden, expected)
    both = torch.cat([states[f"encoder.0.{way}"].hidden for way in ("onward", "backward")], dim=-1)
    memory = model.encoder[0](source, places_backwards(real))
    assert_close(both[0], memory[0], atol=1e-6, rtol=0)
    assert_close(both[1, :3], memory[1, :3], atol=1e-6, rtol=0)
    # The last position is the first that is read backwards.
    assert not states["encoder.0.backward"].before[0][0, -1].any()
    assert states["encoder.0.backward"].before[0][0, 0].any()
    assert hooks(model) == 0


@torch.no_grad()
def test_a_kernel_that_computes_something_else_is_warned_of(monkeypatch):
    model, said = rnn(), []
    monkeypatch.setattr("manyheads.look.states.warn", said.append)
    with recorded_states(model):
        model(IDS)
    assert not said
    right = LSTM.fused
    wrong = lambda x, *rest: (1 - right(x, *rest)[0], *right(x, *rest)[1:])  # noqa: E731
    monkeypatch.setattr(LSTM, "fused", staticmethod(wrong))
    with recorded_states(model) as states:
        model(IDS)
    assert states.largest_difference > 0.1
    assert len(said) == 1
    assert "the gates recorded are not those that it used" in said[0]


def test_a_model_without_recurrent_layers_is_refused_and_one_not_called_has_nothing():
    gpt = GPT(GPTConfig(vocabulary=11, width=6, layers=1, heads=3, context=5))
    with (
        pytest.raises(ConfigError, match="GPT has no recurrent layers, so that it has no states over time"),
        recorded_states(gpt),
    ):
        pass
    with recorded_states(rnn()) as states:
        pass
    assert len(states) == 0
    with pytest.raises(KeyError):
        states["layers.0"]
