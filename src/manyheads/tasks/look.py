"""What a model does with a text: its attention, and what follows from it, as a page, as pictures and as numbers."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from manyheads.core.errors import ConfigError
from manyheads.generate.greedy import greedy
from manyheads.generate.prompts import prompt_steps
from manyheads.interop.directory import load_model
from manyheads.look.grid import GRID_CSS, Grid, as_html, of_numbers
from manyheads.look.page import Page, build_page
from manyheads.look.parts import TITLES, attentions, refuse_unknown
from manyheads.look.record import Recording, recorded_attention
from manyheads.look.residuals import lens, reader, recorded_residuals, residual_norms
from manyheads.look.rollout import cross_rollout, rollout
from manyheads.look.statistics import head_statistics
from manyheads.look.views import View
from manyheads.models.bert import Bert
from manyheads.models.transformer import Transformer
from manyheads.ops.device import pick_device
from manyheads.tasks.language import LanguageModel
from manyheads.tasks.translate import decode_all
from manyheads.text.encoder import EncoderTokenizer

MOST_ON_A_SHEET = 1024  # tokens, or heads


@dataclass(frozen=True)
class Inside:
    """What was seen of a model at work on one text."""

    model: str
    """What the model is called."""
    text: str
    views: list[View]
    """Its attention, of each kind that it has."""
    rollouts: list[View]
    """The same followed through all layers; none where not all of them were looked at."""
    grids: list[Grid] = field(repr=False)
    """Logit lens, lengths of the residual vectors, statistics of the heads."""
    largest_difference: float
    """Between the kernel's output and that of the reference, from which the weights are."""

    def page(self) -> Page:
        """One file with all of it."""
        sections: dict[str, str] = {}
        for grid in self.grids:
            name = grid.title.split(" of ")[0]  # that of each stack, or of each attention, on one sheet
            sections[name] = sections.get(name, f"<style>{GRID_CSS}</style>") + as_html(grid, MOST_ON_A_SHEET)
        views = [*self.views, *self.rollouts]
        return build_page(views, title=self.model, subtitle=self.text, sections=list(sections.items()))

    def view(self, kind: str | None = None) -> View:
        """The attention of a kind; none named: what is most asked for, of a translator the cross-attention."""
        found = {view.kind: view for view in self.views}
        if kind is not None and kind not in found:
            raise ConfigError(f"there is no {kind} attention in this model; there is {', '.join(found)}")
        return found[kind] if kind else self.views[0]

    def rollout(self, kind: str | None = None) -> View:
        """The attention of a kind, followed through all layers."""
        wanted = f"{self.view(kind).kind} rollout"
        if not self.rollouts:
            raise ConfigError("a rollout goes through all layers and heads; name neither a layer nor a head")
        return next(view for view in self.rollouts if view.kind == wanted)

    def grid(self, title: str) -> Grid:
        """One of the grids by its title."""
        found = next((grid for grid in self.grids if grid.title.lower().startswith(title)), None)
        if found is None:
            raise ConfigError(f"this model has no {title}: it predicts no words")
        return found

    def arrays(self) -> dict[str, Any]:
        """All of it as plain lists."""
        views = [
            {name: getattr(view, name) for name in ("kind", "title", "layers", "heads", "rows", "columns")}
            | {"weights": view.weights.tolist()}
            for view in [*self.views, *self.rollouts]
        ]
        named = ("title", "rows", "columns", "cells")
        grids = [{name: getattr(grid, name) for name in named} for grid in self.grids]
        return {
            **{"model": self.model, "text": self.text, "largest_difference": self.largest_difference},
            **{"attention": views, "tables": grids},
        }

    def _repr_html_(self) -> str:
        return self.page()._repr_html_()


@dataclass(frozen=True)
class Reading:
    """A text as a model reads it: what is run, and what its tokens are called."""

    run: Callable[[], Any]
    text: str
    tokens: list[str]
    source: list[str] = field(default_factory=list)
    """Of a translator."""
    produced: list[str] = field(default_factory=list)
    """Of a translator: what it was about to say while it looked at the source."""

    def labels(self, kind: str) -> tuple[list[str], list[str]]:
        """The tokens that look, and those looked at."""
        if kind == "encoder":
            return self.source, self.source
        return (self.produced, self.source) if kind == "cross" else (self.tokens, self.tokens)


def look_inside(
    model: Any,
    text: str,
    second: str | None = None,
    *,
    tokens: int = 0,
    layer: int | None = None,
    head: int | None = None,
    device: str = "auto",
) -> Inside:
    """Runs a model on a text, and shows what it looked at.

    The model is a directory, or a Translator, LanguageModel or the like. A translator translates; `second` is then the
    translation to look at in place of its own, and for an encoder the second text. A language model goes on for
    `tokens` tokens. With `layer` and `head` nothing else is recorded, so that a text can be long.
    """
    name, network, tokenizer = _opened(model, device)
    parts = attentions(network)
    refuse_unknown(parts, None if layer is None else [layer], None if head is None else [head])
    if not text.strip():
        raise ConfigError("there is no text to look at; give one behind the model")
    reading = _reading(network, tokenizer, text, second, tokens)
    asked: dict[str, Any] = {"layers": None if layer is None else [layer], "heads": None if head is None else [head]}
    with torch.inference_mode(), recorded_attention(network, **asked) as weights, recorded_residuals(network) as states:
        reading.run()
    views = _views(network, weights, reading)
    rollouts = _rollouts(views) if layer is None and head is None else []
    grids = [*_lens(network, tokenizer, states, reading), *_norms(states, reading), *map(_heads, views)]
    return Inside(name, reading.text, views, rollouts, grids, weights.largest_difference)


def _opened(model: Any, device: str) -> tuple[str, nn.Module, Any]:
    if isinstance(model, str | Path):
        network, tokenizer = load_model(Path(model))
        return called(Path(model)), network.to(pick_device(device)), tokenizer
    return type(model).__name__, model.model, model.tokenizer


def called(model: Path) -> str:
    """What a model is called in a title: the last part of its path that says something."""
    path = model.absolute()
    return path.parent.name if path.name == "model" else path.name


def _reading(network: Any, tokenizer: Any, text: str, second: str | None, tokens: int) -> Reading:
    if tokens < 0:
        raise ConfigError(f"{tokens} tokens are asked for; it must be at least 0")
    body = getattr(network, "body", network)
    if tokens and (isinstance(network, Transformer) or body is not network or isinstance(body, Bert)):
        raise ConfigError("--tokens lets a language model go on; this is none")
    if isinstance(network, Transformer):
        return _translation(network, tokenizer, text, second)
    if isinstance(tokenizer, EncoderTokenizer):
        return _encoded(body, tokenizer, text, second)
    if second is not None:
        raise ConfigError("a decoder looks at one text; a second one is for a translator or an encoder")
    return _continued(body, tokenizer, text, tokens)


def _ids(row: list[int], network: nn.Module) -> Tensor:
    return torch.tensor([row], device=next(network.parameters()).device)


def _translation(network: Transformer, tokenizer: Any, text: str, target: str | None) -> Reading:
    source = tokenizer.encode([text])[0]
    if target is None:
        found = decode_all(network, [source], beam=4)[0][0].ids
        target, produced = tokenizer.decode([found])[0], [*found, network.config.end]
    else:
        produced = tokenizer.encode([target])[0]
    before = [network.config.start, *produced[:-1]]
    return Reading(
        lambda: network(_ids(source, network), _ids(before, network)),
        f"{text} → {target}",
        tokenizer.pieces(before),
        tokenizer.pieces(source),
        tokenizer.pieces(produced),
    )


def _encoded(body: Bert, tokenizer: EncoderTokenizer, text: str, second: str | None) -> Reading:
    texts = [text] if second is None else [text, second]
    row = tokenizer.wrapped(*tokenizer.encode(texts, special=True))
    _refuse_too_long(row, body)
    return Reading(lambda: body(_ids(row, body)), " | ".join(texts), tokenizer.pieces(row))


def _continued(body: Any, tokenizer: Any, text: str, tokens: int) -> Reading:
    model = LanguageModel(body, tokenizer)
    row = model.encode([text])[0]
    _refuse_too_long(row, body, tokens)
    said = text
    if tokens:
        with torch.inference_mode():
            steps = prompt_steps(body, [row], len(row) + tokens)
            added = greedy(steps, torch.tensor([tokens]), model.vocabulary, scored=False)[0].ids
        row, said = row + added, text + tokenizer.decode([added])[0]
    return Reading(lambda: body(_ids(row, body)), said, tokenizer.pieces(row))


def _refuse_too_long(row: list[int], body: Any, more: int = 0) -> None:
    if len(row) + more > body.config.context:
        further = f" and {more} more are asked for" if more else ""
        raise ConfigError(
            f"the text has {len(row)} tokens{further}, but the model reads {body.config.context}; shorten it"
        )


def _views(network: nn.Module, weights: Recording, reading: Reading) -> list[View]:
    """The attention of each kind, heads that were removed as rows of zeros in their places."""
    layers: dict[str, dict[int, np.ndarray]] = {}
    asked = weights.heads
    for part in attentions(network):
        if part.name not in weights:
            continue
        found = weights[part.name][0].cpu().numpy()
        if asked is None:
            whole = np.zeros((len(part.module.numbers) + len(part.module.removed), *found.shape[1:]), np.float32)
            whole[part.module.numbers] = found
            found = whole
        layers.setdefault(part.kind, {})[part.layer] = found
    return [
        View(kind, np.stack([*layers[kind].values()]), *reading.labels(kind), [*layers[kind]], asked or [])
        for kind in TITLES
        if kind in layers
    ]


def _rollouts(views: list[View]) -> list[View]:
    means = {
        view.kind: np.stack([view.present(place).mean(axis=0)[None] for place in range(len(view.layers))])
        for view in views
    }
    found = []
    for view in views:
        if view.kind == "cross":
            rolled = cross_rollout(means["cross"], means["encoder"])
        else:
            rolled = rollout(means[view.kind])
        title = f"rollout of {view.title}"
        found.append(replace(view, kind=f"{view.kind} rollout", weights=rolled[:, None], heads=[], title=title))
    return found


def _lens(network: Any, tokenizer: Any, states: dict[str, list[Tensor]], reading: Reading) -> list[Grid]:
    """What each layer would predict, read as the last one is."""
    read = reader(network)
    if read is None:
        return []
    stack = states["decoder" if "decoder" in states else "self"]
    with torch.inference_mode():
        ids, chances = (found[:, :, 0].cpu() for found in lens(stack, read, 1))
    cells = [tokenizer.pieces(row) for row in ids.tolist()]
    note = "The likeliest word that each layer's vector would give if it were the last; the darker, the surer."
    return [Grid("Logit lens", cells, _depths(stack), reading.tokens, chances.numpy(), note=note)]


def _norms(states: dict[str, list[Tensor]], reading: Reading) -> list[Grid]:
    found = []
    for kind, stack in states.items():
        of = "" if kind == "self" else f" of the {kind}"
        labels = reading.labels(kind)[1]
        note = "The length of each token's vector on its way up."
        norms = residual_norms(stack).cpu().numpy()
        found.append(of_numbers(f"Residual norms{of}", norms, _depths(stack), labels, digits=1, note=note))
    return found


def _depths(stack: list[Tensor]) -> list[str]:
    return ["embedding", *(f"layer {layer}" for layer in range(len(stack) - 1))]


def _heads(view: View) -> Grid:
    """Where each head looks: shares of its weight, the surest coloured."""
    shares = ("previous", "itself", "next", "first", "punctuation", "separators")
    square = view.kind != "cross"
    shown = shares if square else shares[4:]
    numbers = ("entropy", "distance") if square else ("entropy",)
    cells, shades, rows = [], [], []
    for each in head_statistics(view):
        rows.append(f"layer {each.layer} head {each.head}")
        values = [getattr(each, name) for name in (*numbers, *shown)]
        cells.append([each.looks, *("" if value is None else f"{value:.2f}" for value in values)])
        shades.append([0.0] * (1 + len(numbers)) + [float(getattr(each, name) or 0.0) for name in shown])
    columns = ["looks", *numbers, *shown]
    note = "Entropy in bits, distance in tokens; the others are shares of the weight on the previous token, and so on."
    return Grid(f"Heads of {view.title}", cells, rows, columns, np.array(shades), note=note)
