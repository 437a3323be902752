"""What a model does with a text: its attention, and what follows from it, as a page, as pictures and as numbers."""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from manyheads.core.errors import ConfigError
from manyheads.look.figures import alignment_matrix, grid_table, head_grid, heat_map, lines
from manyheads.look.grid import GRID_CSS, Grid, as_html, of_numbers
from manyheads.look.heads import attentions, refuse_unknown
from manyheads.look.page import Page, build_page
from manyheads.look.record import recorded_attention
from manyheads.look.residuals import lens, reader, recorded_residuals, residual_norms
from manyheads.look.rollout import cross_rollout, rollout
from manyheads.look.states import recorded_states
from manyheads.look.statistics import head_statistics
from manyheads.look.views import View, recorded_views
from manyheads.nn.parts import attention_parts
from manyheads.ops.device import refuse_beyond_memory
from manyheads.tasks.inside.forward import Picture, opened, read, tokens_of
from manyheads.tasks.inside.overlay import OVER_IMAGES, over_image
from manyheads.tasks.inside.states import (
    STATES,
    LayerStates,
    chosen_states,
    layer_numbers,
    layer_states,
    refuse_many_states,
    state_picture,
    state_tables,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from manyheads.tasks.inside.align import WordAlignment

SHOWS = ("attention", "alignment", "heads", "rollout", "lens", "norms", *STATES)
MOST_ON_A_SHEET = 1024  # tokens, or heads
Labels = Callable[[str], tuple[list[str], list[str]]]


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
    states: list[LayerStates] = field(default_factory=list, repr=False)
    """Hidden states and gates, of a recurrent model."""
    aligned: "Callable[[], WordAlignment] | None" = field(default=None, repr=False)
    """How a translator's words belong together, by the heads that are looked at."""
    picture: Picture | None = field(default=None, repr=False)
    """What was seen, of a model that sees."""

    def page(self) -> Page:
        """One file with all of it."""
        sections: dict[str, str] = {}
        for grid in self.grids:
            name = grid.title.split(" of ")[0]  # that of each stack, or of each attention, on one sheet
            sections[name] = sections.get(name, f"<style>{GRID_CSS}</style>") + as_html(grid, MOST_ON_A_SHEET)
        views = [*self.views, *self.rollouts]
        seen = {"image": self.picture.pixels, "patches": (self.picture.grid,) * 2} if self.picture else {}
        return build_page(views, title=self.model, subtitle=self.text, sections=list(sections.items()), **seen)

    def view(self, kind: str | None = None) -> View:
        """The attention of a kind; none named: what is most asked for, of a translator the cross-attention."""
        found = {view.kind: view for view in self.views}
        if not found:
            why = (
                "its states over time can be looked at: show hidden or gates" if self.states else "leave the layer away"
            )
            raise ConfigError(f"{self.model} has no attention to look at; {why}")
        if kind is not None and kind not in found:
            raise ConfigError(f"there is no {kind} attention in what is looked at; there is {', '.join(found)}")
        return found[kind] if kind else self.views[0]

    def rollout(self, kind: str | None = None) -> View:
        """The attention of a kind, followed through all layers."""
        wanted = f"{self.view(kind).kind} rollout"
        found = next((view for view in self.rollouts if view.kind == wanted), None)
        if found is None:
            raise ConfigError(
                "a rollout goes through all layers and heads, of a translator also through its encoder's; name neither "
                "a layer nor a head, and a model whose encoder has attention"
            )
        return found

    def alignment(self) -> "WordAlignment":
        """The weight of each source word for each word of the translation."""
        if self.aligned is None:
            raise ConfigError("only a translator aligns words; this is none")
        found = self.aligned()
        if not found.weights.size:
            raise ConfigError("there are no words on one of the sides, so that there is nothing to align")
        return found

    def arrays(self) -> dict[str, Any]:
        """All of it as plain lists."""
        views = [
            {name: getattr(view, name) for name in ("kind", "title", "layers", "heads", "rows", "columns")}
            | {"weights": view.weights.tolist()}
            for view in [*self.views, *self.rollouts]
        ]
        named = ("title", "rows", "columns", "cells")
        grids = [
            {name: getattr(grid, name) for name in named}
            | ({} if grid.numbers is None else {"numbers": grid.numbers.tolist()})
            for grid in self.grids
        ]
        found = {"model": self.model, "text": self.text, "largest_difference": self.largest_difference}
        states = {"states": [each.arrays() for each in self.states]} if self.states else {}
        return found | {"attention": views, "tables": grids, **states}

    def _repr_html_(self) -> str:
        if not self.views:
            return f"<style>{GRID_CSS}</style>" + "".join(map(as_html, state_tables(self.states, "hidden")))
        return self.page()._repr_html_()


def look_inside(
    model: Any,
    text: Any,
    second: str | None = None,
    *,
    tokens: int = 0,
    layer: int | None = None,
    head: int | None = None,
    device: str = "auto",
) -> Inside:
    """Runs a model on a text, or an image, and shows what it looked at.

    The model is a directory, or a Translator, LanguageModel or the like. A translator translates; `second` is then the
    translation to look at in place of its own, and for an encoder the second text. A language model goes on for
    `tokens` tokens. With `layer` and `head` nothing else is recorded, so that a text can be long.
    """
    name, predictor = opened(model, device)
    network, tokenizer = predictor.model, predictor.tokenizer
    numbers = layer_numbers(network)
    attends = _attends(network, numbers, layer, head)
    layers, heads = (None if one is None else [one] for one in (layer, head))
    forward = read(predictor, text, second, tokens)
    stacks = forward.stacks(tokenizer)
    labels = _labels(stacks, tokens_of(tokenizer, forward.written) if forward.written else [])
    if attends:
        _refuse_many(network, layers, heads, labels)
    refuse_many_states(network, lambda kind: labels(kind)[1])
    with torch.inference_mode(), ExitStack() as watched:
        enter = watched.enter_context
        weights = enter(recorded_attention(network, layers=layers, heads=heads)) if attends else None
        unrolled = enter(recorded_states(network)) if numbers else None
        residuals = {} if numbers else enter(recorded_residuals(network))
        forward.run()
    views = [] if weights is None else recorded_views(weights, labels)
    states = [] if unrolled is None else layer_states(unrolled, numbers, layer, lambda kind: labels(kind)[1])
    rollouts = _rollouts(views) if layer is None and head is None else []
    grids = [*_lens(network, tokenizer, residuals, labels), *_norms(residuals, labels), *map(_heads, views)]
    said = " | ".join(forward.texts)
    said = f"{said} → {forward.says}" if "encoder" in stacks else said + forward.says
    difference = max(each.largest_difference for each in (weights, unrolled) if each is not None)
    aligned = partial(_aligned, predictor, text, forward.says, layer, head) if "encoder" in forward.ids else None
    return Inside(name, said, views, rollouts, grids, difference, states, aligned, forward.picture)


def _attends(network: Any, numbers: dict[str, int], layer: int | None, head: int | None) -> bool:
    """Whether there is attention to look at; layers and heads that are nowhere are refused."""
    parts = attention_parts(network) if numbers else attentions(network)
    layers, heads = (None if one is None else [one] for one in (layer, head))
    if not parts:
        if head is not None:
            raise ConfigError(f"{type(network).__name__} has no heads; leave the choice of one away")
        if layer is not None and layer not in numbers.values():
            raise ConfigError(f"there is no layer {layer}; the model has {1 + max(numbers.values())}, counted from 0")
        return False
    if layer in numbers.values() and all(part.layer != layer for part in parts):
        return False  # a recurrent layer without attention
    refuse_unknown(parts, layers, heads)
    return True


def _aligned(predictor: Any, source: str, target: str, layer: int | None, head: int | None) -> "WordAlignment":
    from manyheads.tasks.inside.align import align, reading_of

    return next(align(predictor, [(source, target)], reading_of(predictor, layer, head)))


def _refuse_many(network: Any, layers: list[int] | None, heads: list[int] | None, labels: Labels) -> None:
    """Refuses more weights than memory holds, each of which is held twice."""
    count = 0
    for part in attentions(network):
        if layers is None or part.layer in layers:
            rows, columns = labels(part.kind)
            count += len(heads or part.module.numbers) * len(rows) * len(columns)
    device = next(network.parameters()).device
    refuse_beyond_memory(count, "attention weights", 2 * 4, device, "shorten the text, or name a layer and a head")


def _labels(stacks: dict[str, list[str]], written: list[str]) -> Labels:
    """The tokens that look, and those looked at: in cross-attention what is about to be written looks."""
    return lambda kind: (written, stacks["encoder"]) if kind == "cross" else (stacks[kind], stacks[kind])


def _rollouts(views: list[View]) -> list[View]:
    means = {
        view.kind: np.stack([view.present(place).mean(axis=0)[None] for place in range(len(view.layers))])
        for view in views
    }
    found = []
    for view in views:
        crosses = view.kind == "cross"
        if crosses and "encoder" not in means:
            continue  # an encoder of convolutions mixes positions in its own way
        rolled = cross_rollout(means["cross"], means["encoder"]) if crosses else rollout(means[view.kind])
        title = f"rollout of {view.title}"
        found.append(replace(view, kind=f"{view.kind} rollout", weights=rolled[:, None], heads=[], title=title))
    return found


def _lens(network: Any, tokenizer: Any, states: dict[str, list[Tensor]], labels: Labels) -> list[Grid]:
    """What each layer would predict, read as the last one is."""
    read = reader(network)
    if read is None or not states:
        return []
    last = "decoder" if "decoder" in states else "self"
    stack = states[last]
    with torch.inference_mode():
        ids, chances = (found[:, :, 0].cpu().numpy() for found in lens(stack, read, 1))
    cells = [tokens_of(tokenizer, row) for row in ids.tolist()]
    note = "The likeliest word that each layer's vector would give if it were the last; the more colour, the surer."
    return [Grid("Logit lens", cells, _depths(stack), labels(last)[1], chances, note=note, numbers=chances)]


def _norms(states: dict[str, list[Tensor]], labels: Labels) -> list[Grid]:
    found = []
    for kind, stack in states.items():
        of = "" if kind == "self" else f" of the {kind}"
        note = "The length of each token's vector on its way up."
        norms, tokens = residual_norms(stack).cpu().numpy(), labels(kind)[1]
        found.append(of_numbers(f"Residual norms{of}", norms, _depths(stack), tokens, digits=1, note=note))
    return found


def _depths(stack: list[Tensor]) -> list[str]:
    return ["embedding", *(f"layer {layer}" for layer in range(len(stack) - 1))]


def _heads(view: View) -> Grid:
    """Where each head looks: shares of its weight, the surest coloured."""
    square = view.kind != "cross"
    numbers = ["entropy", "distance"] if square else ["entropy"]
    shares = ["previous", "itself", "next", "first"] * square + ["punctuation", "separators"]
    cells, shades, rows = [], [], []
    for each in head_statistics(view):
        rows.append(f"layer {each.layer} head {each.head}")
        looks = "removed" if each.looks == "nowhere" else each.looks
        values = [getattr(each, name) for name in numbers + shares]
        cells.append([looks, *("" if value is None else f"{value:.2f}" for value in values)])
        shades.append([0.0] * (1 + len(numbers)) + [value or 0.0 for value in values[len(numbers) :]])
    columns = ["looks", *numbers, *shares]
    distance = "Entropy in bits, distance in tokens" if square else "Entropy in bits"
    note = (
        f"{distance}; the others are shares of the weight. Looks: where most of it is beyond chance; everywhere is "
        "nearly even, at one place is at some one token each time, in order if that moves on with the text, and mixed "
        "none of these."
    )
    return Grid(f"Statistics of {view.title}", cells, rows, columns, np.array(shades), note=note)


def tables(inside: Inside, show: str, kind: str | None) -> list[Grid]:
    """What is printed of what is shown; of attention, which is a picture, nothing."""
    if show not in SHOWS:
        raise ConfigError(f"there is nothing called {show} to show; there are {', '.join(SHOWS)}")
    if show in STATES:
        return state_tables(chosen_states(inside.states, show, kind), show)
    if show == "alignment":
        found = inside.alignment()
        return [of_numbers("Alignment", found.weights, found.target, found.source, most=1.0)]
    view = inside.view(kind)
    if show == "attention":
        return []
    if show == "rollout":
        rolled = inside.rollout(kind)
        return [of_numbers(rolled.title, rolled.weights[-1, 0], rolled.rows, rolled.columns)]
    titles = {"lens": "Logit lens", "norms": "Residual norms", "heads": f"Statistics of {view.title if kind else ''}"}
    found = [grid for grid in inside.grids if grid.title.startswith(titles[show])]
    if not found and show == "lens":
        why = "it predicts no words, or not from the sum that its layers add to"
        raise ConfigError(f"this model has no logit lens: {why}")
    if not found:
        raise ConfigError("this model has no residual stream whose vectors could be measured")
    if show == "norms" and kind not in (None, "self"):
        return [grid for grid in found if grid.title.endswith("decoder" if kind == "cross" else kind)]
    return found


def picture(
    inside: Inside, show: str = "attention", kind: str | None = None, patch: str | None = None
) -> "Axes | Figure":
    """One of: the attention of a head, or the mean of the last layer's; the same by words; all heads; rollout; logit
    lens; norms; hidden states; gates. Of an image it is laid over it, as `patch` sees it."""
    found = tables(inside, show, kind)
    over = inside.picture is not None and show in OVER_IMAGES and inside.view(kind).kind != "decoder"
    if patch is not None and not over:
        why = "only an image has patches to look from" if inside.picture is None else "no patch of the image looks here"
        raise ConfigError(f"{why}; leave the patch away")
    if inside.picture is not None and over:
        view = inside.rollout(kind) if show == "rollout" else inside.view(kind)
        title = f"{inside.model}: {_which(view) if show == 'attention' else view.title}"
        return over_image(view, inside.picture, show, title, patch)
    if show in STATES:
        return state_picture(chosen_states(inside.states, show, kind), show, inside.model)
    if show == "alignment":
        grid, title = found[0], f"{inside.model}: {_which(inside.view('cross'))}, by words"
        return alignment_matrix(grid.numbers, grid.rows, grid.columns, title=title)
    if show == "lens":
        grid = found[0]
        return grid_table(grid.cells, grid.shades, grid.rows, grid.columns, title=f"{inside.model}: logit lens")
    if show == "norms":
        grid = found[-1]  # of a translator, in the decoder unless said otherwise
        assert grid.numbers is not None
        title = f"{inside.model}: {grid.title[0].lower()}{grid.title[1:]}"
        return lines(grid.numbers.T, grid.columns, grid.rows, title=title, ylabel="length of the vector")
    view = inside.view(kind)
    if show == "heads":
        title = f"{inside.model}: {view.title}"
        return head_grid(view.weights, view.rows, view.columns, title=title, layers=view.layers, heads=view.heads)
    if show == "rollout":
        title = f"{inside.model}: {found[0].title}, up to layer {view.layers[-1]}"
        return heat_map(found[0].numbers, view.rows, view.columns, title=title, label="share")
    title = f"{inside.model}: {_which(view)}"
    return heat_map(view.present(-1).mean(axis=0), view.rows, view.columns, title=title)


def _which(view: View) -> str:
    """The heads of the last layer that was looked at, in words."""
    heads = f"head {view.heads[0]}" if len(view.heads) == 1 else f"mean of {len(view.present(-1))} heads"
    return f"{view.title}, layer {view.layers[-1]}, {heads}"
