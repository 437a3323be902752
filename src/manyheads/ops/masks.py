"""Masks: bool tensors, True = may look.  Shapes:  B batch  Q query positions  K key positions"""

import torch
from torch import Tensor


def causal_mask(queries: int, keys: int, device: torch.device | None = None) -> Tensor:
    """[Q, K]: the last query sees every key, each one before it one key less."""
    return torch.ones(queries, keys, dtype=torch.bool, device=device).tril(keys - queries)


def document_mask(ids_BK: Tensor, end: int) -> Tensor:
    """[B, 1, K, K]: tokens of one document may look at each other; a document goes on up to and with its `end`."""
    ended_BK = (ids_BK == end).long()
    documents_BK = ended_BK.cumsum(dim=1) - ended_BK
    return (documents_BK[:, :, None] == documents_BK[:, None, :])[:, None]


def padding_mask(ids_BK: Tensor, pad: int) -> Tensor | None:
    """[B, 1, 1, K]: real tokens may be looked at, padding may not; None where nothing is padded.

    Without a mask the kernel is faster; on a GPU the question itself would cost more than the answer saves.
    """
    real_BK = ids_BK != pad
    if ids_BK.device.type == "cpu" and bool(real_BK.all()):
        return None
    return real_BK[:, None, None, :]


def length_mask(lengths_B: Tensor, keys: int) -> Tensor:
    """[B, 1, 1, K]: the first of each row, as many as its length says, may be looked at."""
    return (torch.arange(keys, device=lengths_B.device) < lengths_B[:, None])[:, None, None, :]
