"""Choosing among logits.  Shapes:  N rows  V vocabulary  C count"""

import math

import torch
from torch import Tensor

UNDEFINED = -2  # in place of an id where logits are no numbers: nothing is the best of them
_BLOCK = 64
_USUAL = 1024  # so many tokens hold the mass that top-p asks for, but for a model that knows nothing


def top(values_NV: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The `count` largest values of each row, largest first, and where they are: torch.topk, faster on a CPU.

    The largest values lie in the blocks with the largest maxima, and maxima of blocks are found at memory speed.
    """
    rows, vocabulary = values_NV.shape
    blocks = vocabulary // _BLOCK
    if values_NV.device.type != "cpu" or blocks < 4 * count:
        return values_NV.max(dim=1, keepdim=True) if count == 1 else values_NV.topk(count)
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
    if never:
        values_NV[:, never] = -torch.inf
    return top(values_NV, count)


def defined(ids_N: Tensor, values_N: Tensor) -> Tensor:
    """Ids chosen by these values, UNDEFINED where a value is no number: told without waiting for a GPU."""
    return torch.where(values_N.isnan(), UNDEFINED, ids_N)


def penalised(logits_NV: Tensor, seen_NV: Tensor, penalty: float) -> Tensor:
    """Logits of tokens seen before made less likely: divided where positive, else multiplied (Keskar et al. 2019)."""
    less_NV = torch.where(logits_NV > 0, logits_NV / penalty, logits_NV * penalty)
    return torch.where(seen_NV, less_NV, logits_NV)


def filtered(logits_NV: Tensor, *, top_k: int = 0, top_p: float = 1.0, min_p: float = 0.0) -> Tensor:
    """Logits with the unlikely struck out: all but the `top_k` best; then all but the fewest that have a probability of
    `top_p` together (Holtzman et al. 2020); then those less likely than `min_p` times the best (Nguyen et al. 2024).

    Each is a least logit, so the strictest decides; the best token always stays.
    """
    least_N = torch.full_like(logits_NV[:, 0], -torch.inf)
    if 0 < top_k < logits_NV.shape[1]:
        least_N = top(logits_NV, top_k)[0][:, -1]
    if top_p < 1.0:
        least_N = torch.maximum(least_N, _least_of_nucleus(logits_NV, top_p, least_N))
    if min_p > 0.0:
        least_N = torch.maximum(least_N, logits_NV.amax(dim=1) + math.log(min_p))
    return logits_NV.masked_fill(logits_NV < least_N[:, None], -torch.inf)


def _least_of_nucleus(logits_NV: Tensor, mass: float, least_N: Tensor) -> Tensor:
    """The smallest logit of the fewest tokens that together have this probability among those of at least `least_N`."""
    kept_NV = logits_NV.masked_fill(logits_NV < least_N[:, None], -torch.inf)
    normaliser_N = kept_NV.logsumexp(dim=1, keepdim=True)
    for count in (min(_USUAL, kept_NV.shape[1]), kept_NV.shape[1]):
        values_NC = top(kept_NV, count)[0]
        probabilities_NC = (values_NC - normaliser_N).exp()
        before_NC = probabilities_NC.cumsum(dim=1) - probabilities_NC
        inside_NC = before_NC < mass
        if not bool(inside_NC[:, -1].any()):
            break
    inside_NC[:, 0] = True
    return values_NC.masked_fill(~inside_NC, torch.inf).amin(dim=1)


def drawn(logits_NV: Tensor, uniform_N: Tensor) -> Tensor:
    """A token of each row with its probability: the one at which the summed probabilities pass a uniform number."""
    summed_NV = logits_NV.double().softmax(dim=1).cumsum(dim=1)
    wanted_N1 = uniform_N[:, None].double() * summed_NV[:, -1:]
    places = torch.searchsorted(summed_NV, wanted_N1, right=True).squeeze(1)
    # Rounding may carry the largest number past the last token that has any probability.
    last = logits_NV.shape[1] - 1 - (logits_NV > -torch.inf).flip(1).to(torch.int8).argmax(dim=1)
    return defined(torch.minimum(places, last), summed_NV[:, -1])
