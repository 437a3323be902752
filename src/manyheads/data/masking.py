"""The masked words of Devlin et al. (2019), section 3.1.  Shapes:  B rows  T positions  N chosen positions"""

from collections.abc import Collection

import torch
from torch import Tensor

CHOSEN = 0.15  # of the positions
MASKED, REPLACED = 0.8, 0.1  # of the chosen ones; the rest stays as it is


def masked(
    ids_BT: Tensor, may_BT: Tensor, *, mask: int, vocabulary: int, special: Collection[int], generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """The ids with some hidden, and True where they are to be predicted.

    Each position where `may` is true is chosen with a chance of 15 %, and at least one of each row that has any.  Of
    ten chosen ids eight become `mask`, one becomes any id that is not special, and one stays.
    """
    chances_BT = torch.rand(ids_BT.shape, generator=generator).masked_fill_(~may_BT, 2.0)
    least_B1 = chances_BT.amin(dim=1, keepdim=True)
    chosen_BT = (chances_BT <= least_B1.clamp(min=CHOSEN)) & may_BT
    places_N = chosen_BT.flatten().nonzero().squeeze(1)
    ids_N = ids_BT.flatten()[places_N]
    fate_N = torch.rand(len(places_N), generator=generator)
    other_N = _ordinary(len(places_N), vocabulary, {mask, *special}, generator).to(ids_BT.dtype)
    ids_N = torch.where(fate_N < MASKED + REPLACED, other_N, ids_N).masked_fill_(fate_N < MASKED, mask)
    return ids_BT.flatten().index_copy(0, places_N, ids_N).view_as(ids_BT), chosen_BT


def _ordinary(count: int, vocabulary: int, special: Collection[int], generator: torch.Generator) -> Tensor:
    """Ids drawn evenly from all that are not special."""
    drawn_N = torch.randint(vocabulary - len(special), (count,), generator=generator)
    for each in sorted(special):
        drawn_N += drawn_N >= each  # moves them past it
    return drawn_N
