"""The worked examples of the lectures, recomputed; where a slide prints other numbers, those too, and the reason."""

import math
import tomllib
from collections import Counter
from typing import Any

import numpy as np
import torch
from torch import Tensor

from manyheads.look.grid import FILES, Grid, of_numbers, shades_of
from manyheads.look.walk import Section, Walk
from manyheads.ops.attention import attention_weights, reference
from manyheads.ops.masks import causal_mask
from manyheads.text.words import words_of


def lecture_walk() -> Walk:
    """Every worked example, step by step."""
    told = tomllib.loads((FILES / "lectures.toml").read_text(encoding="utf-8"))
    sections = [Section(each["title"], each["text"], _rows(each)) for each in told["examples"]]
    return Walk(told["title"], told["introduction"], sections)


def _rows(example: dict[str, Any]) -> list[tuple[Grid, ...]]:
    computed = _computed(example)
    rows: list[tuple[Grid, ...]] = []
    for step in example["steps"]:
        beside = rows.pop() if step.get("beside") else ()
        rows.append((*beside, _grid(step, example, computed)))
    return rows


def _computed(example: dict[str, Any]) -> dict[str, Tensor]:
    """Every matrix of an example, by what it begins with: sentences, features, or queries and keys."""
    if "documents" in example:
        counts = [Counter(words_of(document)) for document in example["documents"]]
        return {"counts": torch.tensor([[float(each[word]) for word in example["keys"]] for each in counts])}
    return _regressed(example) if "weights" in example else _attended(example)


def _regressed(example: dict[str, Any]) -> dict[str, Tensor]:
    """Logistic regression over the values, the last of which is the logarithm of the number of words."""
    values = torch.tensor([*example["values"], math.log(example["words"])], dtype=torch.float64)
    weights = torch.tensor(example["weights"], dtype=torch.float64)
    products = values * weights
    score = products.sum() + example["bias"]
    sums = [products.sum(), score - products.sum(), score, score.sigmoid(), (-score).sigmoid()]
    return {"features": torch.stack([values, weights, products], dim=1), "sums": torch.stack(sums)[:, None]}


def _attended(example: dict[str, Any]) -> dict[str, Tensor]:
    """Every matrix on the way from the queries, the keys and the values, which may be the keys, to what is found."""
    q, k, v = (torch.tensor(example[name]) for name in ("q", "k", "v" if "v" in example else "k"))
    mask = causal_mask(len(q), len(k)) if example.get("causal") else torch.ones(len(q), len(k), dtype=torch.bool)
    asking, keys, even = q[None, None], k[None, None], (k / k.std(correction=0))[None, None]
    scaled, weights = q @ k.mT / q.shape[1] ** 0.5, attention_weights(asking, keys, mask=mask)[0, 0]
    return {
        **{
            "q": q,
            "k": k,
            "v": v,
            "scores": q @ k.mT,
            "scaled": scaled,
            "masked": scaled.masked_fill(~mask, -torch.inf),
        },
        "weights": weights,
        "weighted": weights[0, :, None] * v,
        "even": attention_weights(asking, even, mask=mask)[0, 0],
        "output": reference(asking, keys, v[None, None], mask=mask)[0, 0],
    }


def _grid(step: dict[str, Any], example: dict[str, Any], computed: dict[str, Tensor]) -> Grid:
    """What was computed or, where a step has cells of its own, what a slide prints."""
    rows, keys = example[step.get("rows", "queries")], example["keys"]
    numbers = np.array(step["cells"]) if "cells" in step else computed[step["numbers"]].numpy()
    if len(numbers) != len(rows):
        numbers = numbers.T  # what one query finds, written downwards
    numbered = [str(place) for place in range(1, numbers.shape[1] + 1)]
    columns = step.get("columns") or (keys if len(keys) == len(numbered) else numbered)
    told = {name: step.get(name, "") for name in ("title", "formula", "note")}
    if "cells" in step:
        printed = numbers.astype(float) if step.get("shaded", True) else np.zeros(numbers.shape)
        shades = shades_of(np.where(printed < -1e8, 0.0, printed))
        return Grid(cells=step["cells"], rows=rows, columns=columns, shades=shades, **told)
    # Halves and quarters are exact with two digits, whatever came through a softmax or a root is not.
    digits = step["digits"] if "digits" in step else 2 if (numbers * 4 == (numbers * 4).round()).all() else 4
    return of_numbers(numbers=numbers, rows=rows, columns=columns, digits=digits, **told)
