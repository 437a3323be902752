"""Hidden states and gates of a recurrent model over a text, as numbers, as tables and as pictures."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import nn

from manyheads.core.errors import ConfigError
from manyheads.look.figures import unit_maps
from manyheads.look.grid import Grid, of_numbers
from manyheads.look.states import StatesRecording
from manyheads.nn.parts import attention_kind
from manyheads.nn.recurrent import Recurrence, TwoDirections
from manyheads.ops.device import refuse_beyond_memory

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STATES = ("hidden", "gates")


@dataclass(frozen=True)
class LayerStates:
    """One recurrent layer over one text."""

    name: str
    """Where it is: layers.0, or encoder.layers.1.backward."""
    tokens: list[str]
    hidden: np.ndarray
    """[tokens, units], float32, each from -1 to 1."""
    gates: dict[str, np.ndarray]
    """The same of each gate, from 0 to 1, and of the candidate, from -1 to 1; none of an Elman network."""

    def arrays(self) -> dict[str, Any]:
        """All of it as plain lists."""
        gates = {name: each.tolist() for name, each in self.gates.items()}
        return {"name": self.name, "tokens": self.tokens, "hidden": self.hidden.tolist(), "gates": gates}


def layer_numbers(model: nn.Module) -> dict[str, int]:
    """The layer that each recurrence is, counted from 0 in each stack; two directions are one layer."""
    found: dict[str, int] = {}
    layers: dict[str, list[str]] = {}
    for name, module in model.named_modules():
        if isinstance(module, Recurrence):
            parent = name.rpartition(".")[0]
            layer = parent if isinstance(model.get_submodule(parent), TwoDirections) else name
            stack = layers.setdefault(attention_kind(name), [])
            stack += [] if layer in stack else [layer]
            found[name] = stack.index(layer)
    return found


def refuse_many_states(model: nn.Module, tokens: Callable[[str], list[str]]) -> None:
    """Refuses more states and gates than memory holds, each of which is held twice."""
    count = 0
    for name, module in model.named_modules():
        if isinstance(module, Recurrence):
            count += len(tokens(attention_kind(name))) * module.width * 2 * (module.gates + module.states)
    device = next(model.parameters()).device
    refuse_beyond_memory(count, "states and gates", 2 * 4, device, "shorten the text")


def layer_states(
    recording: StatesRecording, numbers: dict[str, int], layer: int | None, tokens: Callable[[str], list[str]]
) -> list[LayerStates]:
    """What was recorded of one text; `tokens` gives those of each stack: encoder, decoder or self."""
    found = []
    for name, unrolled in recording.items():
        if layer is None or numbers[name] == layer:
            read = tokens(attention_kind(name))
            given = {"": unrolled.hidden, **unrolled.gates}
            arrays = {each: values[0].float().cpu().numpy() for each, values in given.items()}
            if len(arrays[""]) != len(read):
                raise ConfigError(f"{name} has {len(arrays[''])} states for {len(read)} tokens, which cannot be named")
            found.append(LayerStates(name, read, arrays.pop(""), arrays))
    return found


def chosen_states(states: list[LayerStates], show: str, kind: str | None) -> list[LayerStates]:
    """Those of the encoder or the decoder, or all."""
    if not states:
        raise ConfigError(f"this model has no recurrent layers, so that there is nothing called {show} to show")
    found = [each for each in states if kind is None or attention_kind(each.name) == kind]
    if not found:
        raise ConfigError(f"there are no states of kind {kind}; there are {', '.join(each.name for each in states)}")
    if show == "gates" and not all(each.gates for each in found):
        raise ConfigError("an Elman network has no gates; its states are shown by hidden")
    return found


def state_tables(states: list[LayerStates], show: str) -> list[Grid]:
    """The states of all units at each token, or what each gate is on average."""
    if show == "hidden":
        note = "A row for each token, a column for each unit."
        units = [[str(unit) for unit in range(1, each.hidden.shape[1] + 1)] for each in states]
        return [
            of_numbers(f"Hidden states of {each.name}", each.hidden, each.tokens, columns, note=note, most=1.0)
            for each, columns in zip(states, units)
        ]
    note = "The mean of all units."
    means = [np.stack([gate.mean(axis=1) for gate in each.gates.values()], axis=1) for each in states]
    return [
        of_numbers(f"Gates of {each.name}", mean, each.tokens, [*each.gates], note=note, most=1.0)
        for each, mean in zip(states, means)
    ]


def state_picture(states: list[LayerStates], show: str, model: str) -> "Figure":
    """Tokens along x, units along y: a panel for each layer, or for each gate of each layer."""
    if show == "hidden":
        return unit_maps([(each.tokens, {each.name: each.hidden}) for each in states], title=f"{model}: hidden states")
    panels = [(each.tokens, {f"{each.name}: {name}": gate for name, gate in each.gates.items()}) for each in states]
    return unit_maps(panels, title=f"{model}: gates")
