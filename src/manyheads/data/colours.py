"""The colours of whole batches of images, changed as Pillow does, and which operations of RandAugment are drawn.

Images are [images, colours, height, width], of shades from 0 to 1.  Each operation is done to all images, with what
leaves those as they are for which it was not drawn: so nothing waits for the device, on which the draws are.
"""

from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

LEVELS = 255
BRIGHT = (0.299, 0.587, 0.114)  # how bright red, green and blue are (ITU-R 601)
STRONGEST = 30  # what magnitudes are counted to
PLACES = ("rotate", "shear_x", "shear_y", "translate_x", "translate_y")
TABLES = ("autocontrast", "equalize", "solarize", "posterize", "contrast", "brightness")
OPERATIONS = ("identity", *PLACES, *TABLES, "colour", "sharpness")
"""Those of RandAugment (Cubuk et al. 2020), all as likely; the geometric ones are in `augment`."""
FACTOR = 0.9  # by how much those of colour, sharpness, contrast and brightness go from one, at their strongest
BITS = 4  # how many of eight bits posterize takes away, at its strongest


@dataclass(frozen=True)
class Draws:
    """What RandAugment does to each image, operation after operation: [operations, images]."""

    operations: Tensor
    """Numbers in OPERATIONS."""
    strengths: Tensor
    """From -1 to 1; the sign is drawn, and counts where there are two directions."""

    @classmethod
    def of(cls, count: int, images: int, magnitude: int, device: torch.device) -> Self:
        operations = torch.randint(len(OPERATIONS), (count, images), device=device)
        signs = torch.randint(2, (count, images), device=device) * 2 - 1
        return cls(operations, signs * (magnitude / STRONGEST))

    def each(self, name: str) -> Tensor:
        """How strong an operation is; 0 where it was not drawn."""
        return self.strengths * (self.operations == OPERATIONS.index(name))

    def together(self, name: str) -> Tensor:
        """[images]: the same of one that may be drawn several times."""
        return self.each(name).sum(dim=0)


def recoloured(shades: Tensor, draws: Draws) -> Tensor:
    """RandAugment's operations on colours, each image those that were drawn for it, one after the other."""
    for operations, strengths in zip(draws.operations, draws.strengths):
        draw = Draws(operations, strengths)
        shades = blended(shades, grey(shades), 1 + FACTOR * draw.each("colour"))
        shades = blended(shades, smooth(shades), 1 + FACTOR * draw.each("sharpness"))
        shades = _looked_up(shades, draw)
    return shades


def jittered(shades: Tensor, most: float) -> Tensor:
    """Brightness, contrast and saturation change by factors of 1 ± `most`, drawn for each image."""
    for dull in (black, mean_grey, grey):
        factors = 1 + most * (2 * torch.rand(len(shades), device=shades.device) - 1)
        shades = blended(shades, dull(shades), factors)
    return shades


def blended(shades: Tensor, dull: Tensor, factors: Tensor) -> Tensor:
    """Between the dull picture, 0, and this one, 1, or beyond it."""
    return torch.lerp(dull, shades, factors.reshape(-1, *[1] * (shades.ndim - 1))).clamp(0, 1)


def black(shades: Tensor) -> Tensor:
    return shades.new_zeros(1)


def grey(shades: Tensor) -> Tensor:
    """Without saturation, [images, 1, height, width]; grey images are it already."""
    if shades.shape[1] != len(BRIGHT):
        return shades
    red, green, blue = shades.split(1, dim=1)
    return BRIGHT[0] * red + BRIGHT[1] * green + BRIGHT[2] * blue


def mean_grey(shades: Tensor) -> Tensor:
    """[images, 1, 1, 1]: how bright an image is."""
    return grey(shades).mean(dim=(1, 2, 3), keepdim=True)


def smooth(shades: Tensor) -> Tensor:
    """Each pixel with its eight neighbours, of which it counts as much as five; those at the edge stay."""
    rows = shades[..., :-2, :] + shades[..., 1:-1, :] + shades[..., 2:, :]
    around = rows[..., :-2] + rows[..., 1:-1] + rows[..., 2:]
    found = shades.clone()
    found[..., 1:-1, 1:-1] = (around + 4 * shades[..., 1:-1, 1:-1]) / 13
    return found


def _looked_up(shades: Tensor, draw: Draws) -> Tensor:
    """The operations for which it is enough to know, of each image and colour, what becomes of which of 256 shades."""
    levels = (shades.flatten(2) * LEVELS).round().long()
    counts = shades.new_zeros(*levels.shape[:2], LEVELS + 1)
    counts.scatter_add_(2, levels, counts.new_ones(1, 1, 1).expand_as(levels))
    scale = torch.arange(LEVELS + 1, device=shades.device, dtype=shades.dtype)
    drawn = {name: (draw.operations == OPERATIONS.index(name))[:, None, None] for name in TABLES}

    width = (BITS * draw.each("posterize").abs()).round().exp2()[:, None, None]
    table = (scale / width).floor() * width / LEVELS
    # At 256, which no shade reaches, all stay.
    threshold = (LEVELS + 1) * (1 - draw.each("solarize").abs())[:, None, None]
    table = torch.where(drawn["solarize"] & (scale >= threshold), 1 - table, table)
    table = blended(table, mean_grey(shades)[..., 0], 1 + FACTOR * draw.each("contrast"))
    table = blended(table, black(table), 1 + FACTOR * draw.each("brightness"))
    table = torch.where(drawn["autocontrast"], autocontrast(counts, scale), table)
    table = torch.where(drawn["equalize"], equalize(counts, scale), table)

    found = table.expand_as(counts).gather(2, levels).view_as(shades)
    return torch.where(torch.stack([*drawn.values()]).any(dim=0)[..., None], found, shades)


def autocontrast(counts: Tensor, scale: Tensor) -> Tensor:
    """The shades that each colour has are stretched from black to full; one alone stays."""
    low = torch.where(counts > 0, scale, LEVELS).amin(dim=2, keepdim=True)
    high = torch.where(counts > 0, scale, 0).amax(dim=2, keepdim=True)
    stretched = ((scale - low) / (high - low).clamp(min=1)).clamp(0, 1)
    return torch.where(high > low, stretched, scale / LEVELS)


def equalize(counts: Tensor, scale: Tensor) -> Tensor:
    """All shades of each colour become about as frequent; where the brightest is nearly all, they stay."""
    brightest = torch.where(counts > 0, scale, 0).amax(dim=2, keepdim=True)
    others = counts.sum(dim=2, keepdim=True) - (counts * (scale == brightest)).sum(dim=2, keepdim=True)
    step = (others / LEVELS).floor()  # pixels for one level, as Pillow counts them
    below = counts.cumsum(dim=2) - counts
    spread = ((below + (step / 2).floor()) / step.clamp(min=1)).floor().clamp(max=LEVELS)
    return torch.where(step > 0, spread, scale) / LEVELS
