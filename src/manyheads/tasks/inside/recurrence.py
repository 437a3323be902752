"""A text walked through a recurrent model: the formulas of one layer at one token, every number the model's own."""

from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any

import torch
from torch import Tensor, nn

from manyheads.core.errors import ConfigError
from manyheads.look.grid import Grid, digits_for, of_numbers
from manyheads.look.record import recorded_attention
from manyheads.look.states import StatesRecording, Unrolled, recorded_states
from manyheads.look.walk import Section, Walk
from manyheads.nn.layers import TokenEmbedding
from manyheads.nn.parts import attention_kind, attention_parts
from manyheads.nn.recurrent import GRU, LSTM, Recurrence, TwoDirections
from manyheads.tasks.inside.forward import ForwardPass, tokens_of
from manyheads.tasks.inside.states import layer_numbers
from manyheads.tasks.task import Predictor

Rows = list[tuple[Grid, ...]]

FORMULAS = {
    "Elman": "h = tanh(W_hh h₋ + W_xh x + b): all that is known of the text so far is in h.",
    "GRU": "h = (1 − z) · n + z · h₋: the update gate z says what stays, the reset gate r what the candidate n sees.",
    "LSTM": "c = f · c₋ + i · g and h = o · tanh(c): gates say what is forgotten, taken in and put out.",
}
# In the order in which their weights stand.
PARTS = {"Elman": ("state",), "GRU": ("r", "z", "n"), "LSTM": ("i", "f", "g", "o")}


def walk_of_recurrence(
    predictor: Predictor, read: ForwardPass, layer: int | None, token: int | None, count: int
) -> Walk:
    """From the tokens to what the model says, with one layer, unset the first, in full at one token, unset the last."""
    model, side = predictor.model, "decoder" if "decoder" in read.ids else "self"
    layers = {name: each for name, each in layer_numbers(model).items() if attention_kind(name) == side}
    chosen = [name for name, each in layers.items() if each == (layer or 0)]
    if not chosen:
        raise ConfigError(f"there is no layer {layer}; the model has {1 + max(layers.values())}, counted from 0")
    tokens = tokens_of(predictor.tokenizer, read.ids[side])
    place = len(tokens) - 1 if token is None else token
    if not 0 <= place < len(tokens):
        raise ConfigError(f"there is no token {token}; the text has {len(tokens)}, counted from 0")
    with torch.inference_mode():
        given: dict[nn.Module, Tensor] = {}
        with ExitStack() as watched:
            states = watched.enter_context(recorded_states(model))
            weights = watched.enter_context(recorded_attention(model)) if attention_parts(model) else {}
            _keep_inputs(model, given, watched)
            output = read.run()
        sections = [_tokens(model, given, read, tokens, side)]
        sections += [_step(model, states[name], name, layers[name], given, tokens[place], place) for name in chosen]
        sections += [_all_tokens(states, [*layers], chosen, tokens)]
        if weights:
            sections.append(_attention(weights, tokens, tokens_of(predictor.tokenizer, read.ids["encoder"])))
        sections.append(predictor.conclusion(read, output, count))
    what = (
        f"{predictor.what[0].upper()}{predictor.what[1:]} reads {' and '.join(f'{text!r:.60}' for text in read.texts)}"
    )
    introduction = (
        f"Layer {layer or 0} of {1 + max(layers.values())} at token {place} of {len(tokens)}, both counted from 0. "
        "Every number is the model's own; what its fused kernel does not keep is computed beside it."
    )
    return Walk(f"{what} and writes {read.says!r:.60}" if read.says else what, introduction, sections)


def _keep_inputs(model: nn.Module, given: dict[nn.Module, Tensor], watched: ExitStack) -> None:
    """What each embedding gives and each recurrent layer is given, of the first text, until the stack is left."""
    for module in model.modules():
        if isinstance(module, TokenEmbedding):
            behind = lambda module, ids, gave: given.update({module: gave[0]})  # noqa: E731
            watched.callback(module.register_forward_hook(behind).remove)
        elif isinstance(module, Recurrence | TwoDirections):
            before = lambda module, x: given.update({module: x[0][0]} if x else {})  # noqa: E731
            watched.callback(module.register_forward_pre_hook(before).remove)


def _tokens(model: Any, given: dict[nn.Module, Tensor], read: ForwardPass, tokens: list[str], side: str) -> Section:
    rows: Rows = [(Grid("tokens", [[str(each)] for each in read.ids[side]], tokens, ["id"]),)]
    embedded = [found for module, found in given.items() if isinstance(module, TokenEmbedding)]
    if embedded and embedded[-1].shape[:-1] == (len(tokens),):
        rows.append(
            (_matrix("embeddings", embedded[-1], tokens, "E[id]", "A row of a learned matrix for each token."),)
        )
    return Section("Tokens and embeddings", f"Each token is a number among {model.config.vocabulary:,}.", rows)


def _step(
    model: nn.Module, found: Unrolled, name: str, layer: int, given: dict[nn.Module, Tensor], token: str, place: int
) -> Section:
    """One layer at one token, in one direction."""
    cell, kind = found.module, type(found.module).__name__
    parent = model.get_submodule(name.rpartition(".")[0])
    both = isinstance(parent, TwoDirections)
    x = given.get(parent if both else cell)
    before, after = ([each[0, place] for each in states] for states in (found.before, found.after))
    begun = [_matrix("state before", before[0], [""], "h₋", "Zeros before the first token." * (not before[0].any()))]
    begun += [_matrix("cell before", before[1], [""], "c₋")] if len(before) > 1 else []
    rows: Rows = [(_matrix("input", x[place], [""], "x"),)] if x is not None and x.shape[0] > place else []
    rows.append(tuple(begun))
    mine, theirs = found.from_input[0, place], cell.from_hidden(before[0][None])[0]
    formulas = ("W_xh x + b", "W_hh h₋ + b")
    if cell.input_norm is not None:
        formulas = tuple(f"LayerNorm({each})" for each in formulas)
    from_input, from_state = (each.view(cell.gates, -1) for each in (mine, theirs))
    rows.append((_matrix("from the input", from_input, PARTS[kind], formulas[0]),))
    rows.append((_matrix("from the state", from_state, PARTS[kind], formulas[1]),))
    gates = {gate: each[0, place] for gate, each in found.gates.items()}
    if isinstance(cell, LSTM):
        i, f, o, g = gates.values()
        opened = torch.stack([i, f, o])
        rows.append((_matrix("gates", opened, ["i", "f", "o"], "σ(from the input + from the state)", most=1.0),))
        rows.append((_matrix("candidate", g, ["g"], "tanh(from the input + from the state)", most=1.0),))
        parts = torch.stack([f * before[1], i * g, after[1]])
        rows.append((_matrix("new cell", parts, ["f · c₋", "i · g", "c"], "c = f · c₋ + i · g"),))
        formula = "h = o · tanh(c)" if cell.input_norm is None else "h = o · tanh(LayerNorm(c))"
    elif isinstance(cell, GRU):
        r, z, n = gates.values()
        opened = torch.stack([r, z])
        rows.append((_matrix("gates", opened, ["r", "z"], "σ(from the input + from the state)", most=1.0),))
        rows.append((_matrix("candidate", n, ["n"], "tanh(from the input + r · from the state)", most=1.0),))
        formula = "h = (1 − z) · n + z · h₋"
    else:
        formula = "h = tanh(from the input + from the state)"
    rows.append((_matrix("new state", after[0], ["h"], formula, most=1.0),))
    way = f", {name.rpartition('.')[2]}" if both else ""
    return Section(f"Layer {layer}{way}, {kind}, at token {place}: {token}", FORMULAS[kind], rows)


def _all_tokens(states: StatesRecording, names: list[str], chosen: list[str], tokens: list[str]) -> Section:
    """The states of the chosen layer at every token, and how long those of all layers are."""
    lengths = torch.stack([states[name].hidden[0].float().norm(dim=-1) for name in names])
    rows: Rows = [(_matrix(f"states of {name}", states[name].hidden[0], tokens, "h", most=1.0),) for name in chosen]
    rows.append((_matrix("lengths", lengths, names, "‖h‖", columns=tokens),))
    return Section("All tokens", "A state for each token, each made from the one before.", rows)


def _attention(weights: Mapping[str, Tensor], tokens: list[str], source: list[str]) -> Section:
    """What a decoder sees of the source at each token."""
    note = "Each row sums to 1. A row is named by the token that is read; what it looks for is the next one."
    rows: Rows = [
        (_matrix(f"weights of {name}", each[0].mean(dim=0), tokens, "softmax", note, columns=source, most=1.0),)
        for name, each in weights.items()
    ]
    return Section("Attention", "The share of each state of the encoder in what the decoder sees of them.", rows)


def _matrix(title: str, numbers: Tensor, rows: Any, formula: str = "", note: str = "", **how: Any) -> Grid:
    """Numbers with a column for each unit."""
    found = numbers.float().cpu().numpy().reshape(len(rows), -1)
    columns = how.pop("columns", None) or [str(unit) for unit in range(1, found.shape[1] + 1)]
    return of_numbers(title, found, rows, columns, digits=digits_for(found), formula=formula, note=note, **how)
