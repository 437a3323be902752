"""Convolutions over time, and the inputs that they go on from.

Shapes:  B batch  R rows (sentences times beams)  N sentences  K beams  T positions  J taps  W width  O outputs
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from manyheads.nn.layers import Linear


class Convolution(Linear):
    """y_t = b + Σ_j W_j x_{t + (j - kernel + 1 + ahead) · dilation}: `ahead` of the taps look at what comes later.

    With none ahead it is causal. Before the first position and behind the last stand zeros. The matrices W_j lie side
    by side in one, so that a step of decoding is one product with few rows, which `Linear` is quick at.
    """

    def __init__(self, width: int, outputs: int, kernel: int, *, dilation: int = 1, ahead: int = 0):
        super().__init__(kernel * width, outputs)
        self.kernel, self.dilation = kernel, dilation
        self.before, self.after = (kernel - 1 - ahead) * dilation, ahead * dilation
        """How far it looks back, and how far ahead."""

    def forward(  # type: ignore[override]
        self, x_BTW: Tensor, mask: Tensor | None = None, cache: "ConvolutionCache | None" = None
    ) -> Tensor:
        """[B, T, W] to [B, T, O]; `mask` is attention's, [T, T] or [B, 1, T, T], and hides what it hides there."""
        positions = x_BTW.shape[1]
        if cache is None:
            padded = F.pad(x_BTW, (0, 0, self.before, self.after))
        elif mask is None and not self.after:
            padded = cache.extend(self, x_BTW)
        else:
            raise ValueError("a convolution goes on from a cache without a mask, and without a look ahead")
        starts = range(0, self.kernel * self.dilation, self.dilation)
        taps_BTJW = torch.stack([padded[:, start : start + positions] for start in starts], dim=2)
        if mask is not None:
            taps_BTJW = taps_BTJW * self._seen(mask)[..., None]
        return super().forward(taps_BTJW.flatten(2))

    def _seen(self, mask: Tensor) -> Tensor:
        """[T, J] or [B, T, J]: which taps a mask over pairs of positions leaves."""
        here_T1 = torch.arange(mask.shape[-1], device=mask.device)[:, None]
        taps_J = torch.arange(self.kernel, device=mask.device) * self.dilation - self.before
        # Places outside the text are zeros already, so that it does not matter what is read for them.
        places_TJ = (here_T1 + taps_J).clamp(0, mask.shape[-1] - 1)
        return (mask[:, 0] if mask.dim() == 4 else mask)[..., here_T1, places_TJ]


class GatedConvolution(nn.Module):
    """a · σ(b), a and b convolved from x: the gated linear unit of Dauphin et al. (2017)."""

    def __init__(self, width: int, kernel: int, *, ahead: int = 0, dropout: float = 0.0):
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        self.convolution = Convolution(width, 2 * width, kernel, ahead=ahead)

    def forward(self, x_BTW: Tensor, cache: "ConvolutionCache | None" = None) -> Tensor:
        return F.glu(self.convolution(self.dropout(x_BTW), cache=cache), dim=-1)


class ConvolutionCache:
    """The newest inputs of every causal convolution of a model, made by the caller, advanced by the model.

    Each has as many as it looks back, which always end at the row's newest position, so that nothing grows with the
    text. Those of the last call are kept whole until the next, so that `cut` can take padding off them.
    """

    def __init__(self, beams: int = 1):
        self.beams = beams
        self.length = 0
        """Positions of the longest row."""
        self.lengths: Tensor | None = None
        """[R] positions of each row, once they differ."""
        self._inputs: dict[Convolution, Tensor] = {}
        self.moves: list[tuple[Tensor | None, Tensor | None]] = []
        """What `select` was told, each time: from it follows which row of an earlier step a row goes on from."""
        self.ends: list[tuple[int, int]] = []
        """For each text found, the row it ended in and how many steps before the last; empty until a search is over."""

    @property
    def start(self) -> int | Tensor:
        """The position of the next token: one for all rows, or [R]."""
        return self.length if self.lengths is None else self.lengths

    def extend(self, owner: Convolution, x_RTW: Tensor) -> Tensor:
        """[R, before + T, W]: the new inputs behind those that the convolution still sees, at first zeros."""
        known = self._newest(owner) if owner in self._inputs else _zeros(len(x_RTW), owner, x_RTW)
        self._inputs[owner] = torch.cat([known, x_RTW], dim=1)
        return self._inputs[owner]

    def advance(self, positions: int) -> None:
        """Called by the model when all its blocks have seen the new positions."""
        self.length += positions
        if self.lengths is not None:
            self.lengths = self.lengths + positions

    def cut(self, lengths: list[int], device: torch.device | None = None) -> None:
        """Ends each row at a length of its own: what is behind it, padding of the last call, is forgotten."""
        kept_R = torch.tensor(lengths, device=device)
        behind_R = self.start - kept_R
        for owner, inputs in self._inputs.items():
            first_R = inputs.shape[1] - owner.before - behind_R
            if bool((first_R < 0).any()):
                raise ValueError("rows can be cut within what the last call added, and no earlier")
            places = first_R[:, None] + torch.arange(owner.before, device=device)
            self._inputs[owner] = inputs.gather(1, places[:, :, None].expand(-1, -1, inputs.shape[2]))
        self.length, self.lengths = max(lengths), kept_R

    def select(self, beams_NK: Tensor | None, sentences: Tensor | None) -> None:
        """Lets each beam go on from the beam named, then keeps the sentences named, in that order."""
        self.moves.append((beams_NK, sentences))
        count = next((len(each) for each in self._inputs.values()), 0)
        if not count:
            return
        device = next(iter(self._inputs.values())).device
        rows_NK = torch.arange(count, device=device).view(-1, self.beams)
        if beams_NK is not None:
            rows_NK = rows_NK.gather(1, beams_NK.to(device))
        rows = (rows_NK if sentences is None else rows_NK[sentences.to(device)]).flatten()
        self._inputs = {owner: inputs[rows] for owner, inputs in self._inputs.items()}
        if self.lengths is not None:
            self.lengths = self.lengths[rows]
            self.length = int(self.lengths.max())

    def put(self, rows: list[int], other: "ConvolutionCache", lengths: list[int]) -> None:
        """Gives these rows of a cut cache the contents of another cache's, with their lengths."""
        assert self.lengths is not None
        places = torch.tensor(rows, device=self.lengths.device)
        for owner, inputs in {**other._inputs, **self._inputs}.items():
            mine = self._newest(owner) if owner in self._inputs else _zeros(len(self.lengths), owner, inputs)
            theirs = other._newest(owner) if owner in other._inputs else _zeros(len(rows), owner, inputs)
            self._inputs[owner] = mine.index_copy(0, places, theirs)
        self.lengths = self.lengths.index_copy(0, places, torch.tensor(lengths, device=places.device))
        self.length = int(self.lengths.max())

    def _newest(self, owner: Convolution) -> Tensor:
        """[R, before, W]: what the convolution sees of the past."""
        inputs = self._inputs[owner]
        return inputs[:, inputs.shape[1] - owner.before :]


def _zeros(rows: int, owner: Convolution, like: Tensor) -> Tensor:
    return like.new_zeros(rows, owner.before, like.shape[2])
