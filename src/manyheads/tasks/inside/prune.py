"""A model without some of its heads."""

import copy
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from manyheads.core.errors import ConfigError
from manyheads.core.files import refuse_existing
from manyheads.interop.directory import find_model, load_as_saved, save_model
from manyheads.look.heads import Head, attentions, by_part
from manyheads.models.llama import Llama
from manyheads.models.transformer import parameters


def prune(model: Path, heads: Collection[Head], out: Path, *, keep_shape: bool = False) -> tuple[int, int]:
    """Saves a model without these heads; gives its parameters before and after.

    The matrices become smaller. A Llama whose layers all lose as many stays a Llama; other layers with fewer heads than
    the config says are saved as transformers wrote them before version 5 (GPT-2, BERT) or under our own type. With
    `keep_shape` the heads stay, as zeros, and the directory opens wherever the whole model does.
    """
    refuse_existing(out)
    network, tokenizer = load_as_saved(model)
    before = parameters(network)
    pruned = without(network, heads, keep_shape=keep_shape)
    save_model(out, pruned, tokenizer, _card(model, heads))
    return before, parameters(pruned)


def without(network: nn.Module, heads: Collection[Head], *, keep_shape: bool = False) -> Any:
    """A copy of a model without these heads, or with zeros in their place."""
    network = copy.deepcopy(network)
    for part, places in by_part(network, heads):
        if keep_shape:
            if not isinstance(part.module.output, nn.Linear):
                raise ConfigError(
                    f"{type(part.module).__name__} has no output projection in which a head could be zeros; leave "
                    "--keep-shape away"
                )
            width = part.module.value_width
            columns = [place * width + each for place in places for each in range(width)]
            with torch.no_grad():
                part.module.output.weight[:, columns] = 0.0
        else:
            part.module.remove([part.module.numbers[place] for place in places])
    body = getattr(network, "body", network)
    if isinstance(body, Llama):
        _say_in_config(body)
        network.config = body.config  # type: ignore
    return network


def _say_in_config(body: Llama) -> None:
    """Where every layer has lost as many heads, a Llama's config can say so, and the directory is a plain Llama's."""
    modules = [part.module for part in attentions(body)]
    if len({module.heads for module in modules}) > 1 or not modules[0].removed:
        return
    if body.config.positions.kind in ("relative", "buckets", "alibi"):  # which tell heads apart by their numbers
        return
    first = modules[0]
    sizes = {"heads": first.heads, "key_value_heads": first.key_value_heads, "key_width": first.key_width}
    body.config = replace(body.config, **sizes)
    for module in modules:
        module.numbers, module.removed = list(range(module.heads)), []


def _card(model: Path, heads: Collection[Head]) -> str:
    removed = ", ".join(".".join(map(str, head)) for head in sorted(heads, key=str))
    card = find_model(model) / "README.md"
    before = card.read_text(encoding="utf-8") if card.is_file() else f"# {model.name}\n"
    return f"{before.rstrip()}\n\n## Pruned\nWithout the heads {removed} (layer.head, counted from 0).\n"
