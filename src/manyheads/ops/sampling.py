"""Choosing among logits.  Shapes:  N rows  V vocabulary  C count"""

import torch
from torch import Tensor

_BLOCK = 64


def top(values_NV: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The `count` largest values of each row, largest first, and where they are: torch.topk, faster on a CPU.

    The largest values lie in the blocks with the largest maxima, and maxima of blocks are found at memory speed.
    """
    rows, vocabulary = values_NV.shape
    blocks = vocabulary // _BLOCK
    if values_NV.device.type != "cpu" or blocks < 4 * count:
        return values_NV.topk(count)
    head = values_NV[:, : blocks * _BLOCK].unflatten(1, (blocks, _BLOCK))
    chosen = head.amax(dim=2).topk(count).indices
    candidates = head.gather(1, chosen[:, :, None].expand(rows, count, _BLOCK)).flatten(1)
    offsets = torch.arange(_BLOCK)
    places = (chosen[:, :, None] * _BLOCK + offsets).flatten(1)
    tail = torch.arange(blocks * _BLOCK, vocabulary).expand(rows, -1)
    values, best = torch.cat([candidates, values_NV[:, blocks * _BLOCK :]], dim=1).topk(count)
    return values, torch.cat([places, tail], dim=1).gather(1, best)


def best_allowed(values_NV: Tensor, count: int, never: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """The `count` best of each row and where they are, the tokens of `never` passed over: struck out, in place."""
    values_NV[:, never] = -torch.inf
    return top(values_NV, count)
