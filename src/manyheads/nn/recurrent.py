"""Recurrent layers: Elman (1990), GRU (Cho et al. 2014) and LSTM (Hochreiter and Schmidhuber 1997).

Each is written once as its formulas read, a step at a time, and runs through torch's fused kernels, which are the same
function.  Shapes:  B rows  T positions  I width of the input  W width of the state  G gates
"""

import warnings
from collections.abc import Callable
from typing import ClassVar

import torch
from torch import Tensor, nn

from manyheads.core.errors import ConfigError

LONGEST = 4096  # positions that a fused kernel reads at once; a GPU's has a limit
# A GPU's kernel wants its weights side by side and copies them there, which takes it some microseconds.
warnings.filterwarnings("ignore", "RNN module weights are not part of single contiguous chunk")

States = tuple[Tensor, ...]
"""[B, W] each: the hidden state, and behind it the LSTM's cell."""


class Recurrence(nn.Module):
    """One layer in one direction; with `norm`, what comes from the input and from the state is normalised apart, and
    the LSTM's cell on its way out (Ba et al. 2016): no fused kernel does that, so that it runs as it is written."""

    gates: ClassVar[int]
    """How many vectors of the state's width are computed from input and state at each step."""
    states: ClassVar[int] = 1
    opens: ClassVar[tuple[str, ...]] = ()
    """What `opened` gives, in its order."""
    fused: ClassVar[Callable[..., tuple[Tensor, ...]]]
    """The kernel of torch that is the same function."""

    def __init__(self, inputs: int, width: int, norm: bool = False):
        super().__init__()
        self.width = width
        self.input_weight = nn.Parameter(torch.empty(self.gates * width, inputs))
        self.hidden_weight = nn.Parameter(torch.empty(self.gates * width, width))
        self.input_bias = nn.Parameter(torch.empty(self.gates * width))
        self.hidden_bias = nn.Parameter(torch.empty(self.gates * width))
        self.input_norm = nn.LayerNorm(self.gates * width) if norm else None
        self.hidden_norm = nn.LayerNorm(self.gates * width) if norm else None
        self.reset()

    def reset(self) -> None:
        """Uniform in ± width^-½, as torch.nn begins."""
        for weight in (self.input_weight, self.hidden_weight, self.input_bias, self.hidden_bias):
            nn.init.uniform_(weight, -(self.width**-0.5), self.width**-0.5)

    def start(self, rows: int, like: Tensor) -> States:
        """Nothing remembered yet."""
        return tuple(like.new_zeros(rows, self.width) for _ in range(self.states))

    def forward(self, x_BTI: Tensor, states: States | None = None) -> tuple[Tensor, States]:
        """The hidden state at every position, and the states behind the last."""
        states = states or self.start(len(x_BTI), x_BTI)
        if self.input_norm is not None or x_BTI.shape[1] == 1:  # one step is as quick as it is written
            return self.written_out(x_BTI, states)
        hidden = []
        for piece in x_BTI.split(LONGEST, dim=1):
            found, states = self._fused(piece, states)
            hidden.append(found)
        return torch.cat(hidden, dim=1) if hidden[1:] else hidden[0], states

    def _fused(self, x_BTI: Tensor, states: States) -> tuple[Tensor, States]:
        weights = [self.input_weight, self.hidden_weight, self.input_bias, self.hidden_bias]
        # Biases, one layer, no dropout, one direction, rows first.
        how = (weights, True, 1, 0.0, self.training, False, True)
        # In full precision: of these kernels, mixed precision would take those in float16, which gradients fall out of.
        with torch.autocast("cuda" if x_BTI.is_cuda else "cpu", enabled=False):
            begun = tuple(each[None].to(self.hidden_weight).contiguous() for each in states)
            kernel = type(self).fused
            found = kernel(x_BTI.to(self.hidden_weight), begun if self.states > 1 else begun[0], *how)
        return found[0], tuple(each[0] for each in found[1:])

    def written_out(self, x_BTI: Tensor, states: States | None = None) -> tuple[Tensor, States]:
        """The same, step by step as the formulas say."""
        states = states or self.start(len(x_BTI), x_BTI)
        from_input_BTG = self.from_input(x_BTI)
        hidden = []
        for from_input_BG in from_input_BTG.unbind(1):
            states = self.step(from_input_BG, states)
            hidden.append(states[0])
        return torch.stack(hidden, dim=1), states

    def from_input(self, x: Tensor) -> Tensor:
        """W_xh x + b: what every gate takes from the input, for all positions at once."""
        found = nn.functional.linear(x, self.input_weight, self.input_bias)
        return found if self.input_norm is None else self.input_norm(found)

    def from_hidden(self, hidden_BW: Tensor) -> Tensor:
        """W_hh h + b: what every gate takes from the state before."""
        found = nn.functional.linear(hidden_BW, self.hidden_weight, self.hidden_bias)
        return found if self.hidden_norm is None else self.hidden_norm(found)

    def step(self, from_input_BG: Tensor, states: States) -> States:
        """The states behind one position."""
        raise NotImplementedError

    def opened(self, from_input: Tensor, hidden: Tensor) -> tuple[Tensor, ...]:
        """The gates, each between 0 and 1, and the candidate between -1 and 1."""
        return ()


class Elman(Recurrence):
    """h_t = tanh(W_hh h_{t-1} + W_xh x_t + b)."""

    gates = 1
    fused = staticmethod(torch.rnn_tanh)

    def step(self, from_input_BG: Tensor, states: States) -> States:
        return (torch.tanh(self.from_hidden(states[0]) + from_input_BG),)


class GRU(Recurrence):
    """h_t = (1 - z) · n + z · h_{t-1}: the update gate z says what stays, the reset gate r what the new one n sees."""

    gates = 3
    opens = ("reset", "update", "candidate")
    fused = staticmethod(torch.gru)

    def step(self, from_input_BG: Tensor, states: States) -> States:
        (hidden,) = states
        _, z, n = self.opened(from_input_BG, hidden)
        return ((1 - z) * n + z * hidden,)

    def opened(self, from_input: Tensor, hidden: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        input_r, input_z, input_n = from_input.chunk(3, dim=-1)
        hidden_r, hidden_z, hidden_n = self.from_hidden(hidden).chunk(3, dim=-1)
        r, z = torch.sigmoid(input_r + hidden_r), torch.sigmoid(input_z + hidden_z)
        return r, z, torch.tanh(input_n + r * hidden_n)


class LSTM(Recurrence):
    """c_t = f · c_{t-1} + i · g and h_t = o · tanh(c_t): gates say what is forgotten, taken in and put out."""

    gates, states = 4, 2
    opens = ("input", "forget", "output", "candidate")
    fused = staticmethod(torch.lstm)

    def __init__(self, inputs: int, width: int, norm: bool = False):
        super().__init__(inputs, width, norm)
        self.cell_norm = nn.LayerNorm(width) if norm else nn.Identity()

    def step(self, from_input_BG: Tensor, states: States) -> States:
        hidden, cell = states
        i, f, o, g = self.opened(from_input_BG, hidden)
        cell = f * cell + i * g
        return o * torch.tanh(self.cell_norm(cell)), cell

    def opened(self, from_input: Tensor, hidden: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        i, f, g, o = (from_input + self.from_hidden(hidden)).chunk(4, dim=-1)
        return torch.sigmoid(i), torch.sigmoid(f), torch.sigmoid(o), torch.tanh(g)


CELLS: dict[str, type[Recurrence]] = {"elman": Elman, "gru": GRU, "lstm": LSTM}


class TwoDirections(nn.Module):
    """One layer that reads forwards and one that reads backwards, their states side by side."""

    def __init__(self, cell: type[Recurrence], inputs: int, width: int, norm: bool = False):
        super().__init__()
        if width % 2:
            raise ConfigError(f"width {width} does not split over two directions; the nearest that does is {width - 1}")
        self.onward = cell(inputs, width // 2, norm)
        self.backward = cell(inputs, width // 2, norm)

    def forward(self, x_BTI: Tensor, places_BT: Tensor) -> Tensor:
        """`places_BT` names for each position that which stands there when each row is read from its own end."""
        hidden_BTW, _ = self.backward(_placed(x_BTI, places_BT))
        return torch.cat([self.onward(x_BTI)[0], _placed(hidden_BTW, places_BT)], dim=-1)


def places_backwards(real_BT: Tensor) -> Tensor:
    """Each row's real positions from last to first; padding stays where it is, behind them."""
    lengths_B1 = real_BT.sum(dim=1, keepdim=True)
    positions_T = torch.arange(real_BT.shape[1], device=real_BT.device)
    return torch.where(real_BT, lengths_B1 - 1 - positions_T, positions_T)


def _placed(x_BTI: Tensor, places_BT: Tensor) -> Tensor:
    return x_BTI.gather(1, places_BT[:, :, None].expand_as(x_BTI))


class RecurrentState:
    """What a recurrent model remembers of the text so far: some vectors for each row, however long the text was.

    It is made by the caller and advanced by the model, as a key-value cache is, and is used in its place.
    """

    def __init__(self, beams: int = 1):
        self.beams = beams
        self.length = 0
        self.lengths: Tensor | None = None
        """[R] positions that each row has read, once they differ."""
        self.layers: list[States] = []
        """By layer; none before the first position."""
        self.moves: list[tuple[Tensor | None, Tensor | None]] = []
        self.ends: list[tuple[int, int]] = []

    @property
    def start(self) -> int | Tensor:
        """The position of the next token: one for all rows, or [R]."""
        return self.length if self.lengths is None else self.lengths

    def advance(self, layers: list[States], positions: int) -> None:
        """Called by the model when all its layers have read the new positions."""
        self.layers, self.length = layers, self.length + positions
        if self.lengths is not None:
            self.lengths = self.lengths + positions

    def select(self, beams_NK: Tensor | None, sentences: Tensor | None) -> None:
        """Lets each beam go on from the beam named, then keeps the sentences named, in that order."""
        self.moves.append((beams_NK, sentences))
        if beams_NK is not None:
            first_N1 = torch.arange(len(beams_NK), device=beams_NK.device)[:, None] * beams_NK.shape[1]
            self._keep((first_N1 + beams_NK).flatten())
        if sentences is not None:
            beams_K = torch.arange(self.beams, device=sentences.device)
            self._keep((sentences[:, None] * self.beams + beams_K).flatten())

    def _keep(self, rows: Tensor) -> None:
        self.layers = [tuple(each[rows.to(each.device)] for each in states) for states in self.layers]
        if self.lengths is not None:
            self.lengths = self.lengths[rows.to(self.lengths.device)]

    def cut(self, lengths: list[int], device: torch.device | None = None) -> None:
        """Gives each row a length of its own; no state goes backwards, so that what rows remember stays as it is."""
        self.length, self.lengths = max(lengths), torch.tensor(lengths, device=device)

    def put(self, rows: list[int], other: "RecurrentState", lengths: list[int]) -> None:
        """Gives these rows of a cut state what another's remember, with their lengths."""
        assert self.lengths is not None
        count = len(self.lengths)
        if not self.layers:
            self.layers = [tuple(each.new_zeros(count, each.shape[1]) for each in states) for states in other.layers]
        for mine, theirs in zip(self.layers, other.layers or self.layers):
            for own, new in zip(mine, theirs):
                own[rows] = new if other.layers else 0.0
        self.lengths[rows] = torch.tensor(lengths, device=self.lengths.device)
        self.length = int(self.lengths.max())

    def tensors(self) -> dict[str, Tensor]:
        """All of it by name, apart from the graph that it was computed in."""
        return {f"{layer}.{n}": t.detach() for layer, states in enumerate(self.layers) for n, t in enumerate(states)}

    @classmethod
    def of(cls, tensors: dict[str, Tensor]) -> "RecurrentState":
        """A state that goes on from such tensors."""
        found = cls()
        layers = 1 + max((int(name.partition(".")[0]) for name in tensors), default=-1)
        found.layers = [
            tuple(tensors[f"{layer}.{n}"] for n in range(2) if f"{layer}.{n}" in tensors) for layer in range(layers)
        ]
        return found
