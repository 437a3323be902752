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
TABLED = slice(1 + len(PLACES), 1 + len(PLACES) + len(TABLES))
FACTOR = 0.9  # by how much those of colour, sharpness, contrast and brightness go from one, at their strongest
BITS = 4  # how many of eight bits posterize takes away, at its strongest


@dataclass(frozen=True)
class Draws:
    """What RandAugment does to each image, one after the other; all of one shape, [OPERATIONS, how many, images]."""

    drawn: Tensor
    """Which operation."""
    strengths: Tensor
    """How strong it is, from -1 to 1, where it was drawn; the sign counts where there are two directions."""

    @classmethod
    def of(cls, numbers: Tensor, strengths: Tensor) -> Self:
        """From numbers in OPERATIONS, [how many, images]."""
        drawn = numbers == torch.arange(len(OPERATIONS), device=numbers.device)[:, None, None]
        return cls(drawn, strengths * drawn)

    @classmethod
    def at_random(cls, count: int, images: int, magnitude: int, device: torch.device) -> Self:
        numbers = torch.randint(len(OPERATIONS), (count, images), device=device)
        signs = torch.randint(2, (count, images), device=device) * 2 - 1
        return cls.of(numbers, signs * (magnitude / STRONGEST))


def recoloured(shades: Tensor, draws: Draws) -> Tensor:
    """RandAugment's operations on colours, each image those that were drawn for it, one after the other."""
    strengths, scale = draws.strengths, torch.arange(LEVELS + 1, device=shades.device, dtype=shades.dtype)
    factors = 1 + FACTOR * strengths
    for step in range(strengths.shape[1]):
        factor: dict[str, Tensor] = dict(zip(OPERATIONS, factors[:, step]))
        shades = blended(shades, grey(shades), factor["colour"])
        shades = blended(shades, smooth(shades), factor["sharpness"])
        shades = _looked_up(shades, Draws(draws.drawn[:, step], strengths[:, step]), factor, scale)
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
    return (BRIGHT[0] * red).add(green, alpha=BRIGHT[1]).add(blue, alpha=BRIGHT[2])


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


def _looked_up(shades: Tensor, draws: Draws, factor: dict[str, Tensor], scale: Tensor) -> Tensor:
    """The operations for which it is enough to know, of each image and colour, what becomes of which of 256 shades."""
    levels = (shades.flatten(2) * LEVELS).round().long()
    counts = shades.new_zeros(*levels.shape[:2], LEVELS + 1)
    counts.scatter_add_(2, levels, counts.new_ones(1, 1, 1).expand_as(levels))
    drawn = dict(zip(OPERATIONS, draws.drawn[:, :, None, None]))
    strength = dict(zip(OPERATIONS, draws.strengths.abs()[:, :, None, None]))

    width = (BITS * strength["posterize"]).round().exp2()
    table = (scale / width).floor() * width / LEVELS
    turned = scale >= (LEVELS + 1) * (1 - strength["solarize"])  # where it was not drawn, from 256 on: none
    table = torch.where(turned, 1 - table, table)
    table = blended(table, mean_grey(shades)[..., 0], factor["contrast"])
    table = blended(table, black(table), factor["brightness"])
    present = counts > 0
    brightest = (present * scale).amax(dim=2, keepdim=True)
    darkest = LEVELS - (present * scale.flip(0)).amax(dim=2, keepdim=True)
    table = torch.where(drawn["autocontrast"], _stretched(darkest, brightest, scale), table)
    table = torch.where(drawn["equalize"], _spread(counts, brightest, scale), table)

    found = table.expand_as(counts).gather(2, levels).view_as(shades)
    changed = draws.drawn[TABLED].any(dim=0)[:, None, None, None]
    return torch.where(changed, found, shades)


def _stretched(darkest: Tensor, brightest: Tensor, scale: Tensor) -> Tensor:
    """Autocontrast: the shades that each colour has go from black to full; one alone stays."""
    stretched = ((scale - darkest) / (brightest - darkest)).clamp(0, 1)
    return torch.where(brightest > darkest, stretched, scale / LEVELS)


def _spread(counts: Tensor, brightest: Tensor, scale: Tensor) -> Tensor:
    """Equalize: all shades of each colour become about as frequent; where the brightest is nearly all, they stay."""
    up_to = counts.cumsum(dim=2)
    below = up_to - counts
    others = below.gather(2, brightest.long())  # all but the brightest
    step = (others / LEVELS).floor()  # pixels for one level, as Pillow counts them
    spread = ((below + (step / 2).floor()) / step.clamp(min=1)).floor().clamp(max=LEVELS)
    return torch.where(step > 0, spread, scale) / LEVELS
