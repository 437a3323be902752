"""Whole batches of images changed at random, each image in its own way, so that no two epochs show the same.

Images are [images, colours, height, width], of shades from 0 to 1.  Random numbers are those of the device's own
generator, so that they follow from its seed, and nothing here waits for the device.
"""

import math

import torch
from torch import Tensor
from torch.distributions import Gamma
from torch.nn import functional as F

from manyheads.data.augmentation import Augmentation, LabelledAugmentation
from manyheads.data.colours import OPERATIONS, Draws, jittered, recoloured

LONGEST = 4 / 3  # how much wider than high, or the reverse, a crop's own share of the image is at most
TURN, SHEAR, MOVE = math.radians(30), 0.3, 10 / 32  # RandAugment's at their strongest; the last of a side's length
ERASED = (0.02, 0.4)  # shares of the image (Zhong et al. 2020, section 4.1)
ERASED_LONGEST = 10 / 3  # and how much wider than high, or the reverse, at most


def augmented(shades: Tensor, how: Augmentation) -> Tensor:
    """The images, each flipped, moved, coloured and erased as is drawn for it; without any of that as they are."""
    draws = Draws.at_random(how.random_augment, len(shades), how.magnitude, shades.device)
    if how.flip:
        turned = torch.rand(len(shades), 1, 1, 1, device=shades.device) < 0.5
        shades = torch.where(turned, shades.flip(-1), shades)
    if how.shift or how.rotate or how.crop < 1 or how.random_augment:
        shades = _moved(shades, how, draws)
    if how.random_augment:
        shades = recoloured(shades, draws)
    if how.colour:
        shades = jittered(shades, how.colour)
    if how.fade:
        drawn, left = torch.rand(2, len(shades), 1, 1, 1, device=shades.device)
        shades = torch.where(drawn < how.fade, torch.lerp(_without_colours(shades), shades, left), shades)
    if how.erase:
        shades = _erased(shades, how.erase)
    return shades


def mixed(shades: Tensor, labels: Tensor, how: LabelledAugmentation, classes: int) -> tuple[Tensor, Tensor]:
    """Each image mixed with the next of the batch, and the share of each label in it, [images, classes].

    How much, where, and in which of the two ways is drawn for each image.  Where there is no mixing, the labels stay.
    """
    if not (how.mixup or how.cutmix):
        return shades, labels
    device = shades.device
    own = _rectangles(shades, how.cutmix) if how.cutmix else _shares(shades, how.mixup)
    if how.mixup and how.cutmix:
        through = torch.rand(len(shades), 1, 1, 1, device=device) < 0.5
        own = torch.where(through, _shares(shades, how.mixup), own)
    right = (labels[:, None] == torch.arange(classes, device=device)).float()
    share = own.mean(dim=(1, 2, 3))[:, None]
    return _mix(own, shades), _mix(share, right)


def _mix(own: Tensor, values: Tensor) -> Tensor:
    return torch.lerp(values.roll(1, dims=0), values, own)


def _moved(shades: Tensor, how: Augmentation, draws: Draws) -> Tensor:
    """Cropped, shifted, turned and sheared, all at once, so that pixels are only looked up once."""
    count, _, height, width = shades.shape
    strength = dict(zip(OPERATIONS, draws.strengths.sum(dim=1)))  # of what was drawn twice, both
    turn = _between(shades, -1, 1) * math.radians(how.rotate) + TURN * strength["rotate"]
    shear_x, shear_y = SHEAR * strength["shear_x"], SHEAR * strength["shear_y"]
    share, longer = _between(shades, how.crop, 1), _elongated(shades, LONGEST if how.crop < 1 else 1)
    across, down = (share * longer).sqrt().clamp(max=1), (share / longer).sqrt().clamp(max=1)
    # Whole pixels, which come out as they were; and a place for the crop that is all inside.
    left, up = torch.randint(-how.shift, how.shift + 1, (2, count), device=shades.device)
    left = left + width * (MOVE * strength["translate_x"] + _between(shades, -0.5, 0.5) * (1 - across))
    up = up + height * (MOVE * strength["translate_y"] + _between(shades, -0.5, 0.5) * (1 - down))
    # Where each pixel (x, y), counted from the middle, comes from: turned, sheared, shrunk to the crop, moved.
    rows = (
        (across * (turn.cos() + shear_x * turn.sin()), across * (shear_x * turn.cos() - turn.sin()), left, width),
        (down * (turn.sin() + shear_y * turn.cos()), down * (turn.cos() - shear_y * turn.sin()), up, height),
    )
    x = torch.arange(width, device=shades.device) - (width - 1) / 2
    y = torch.arange(height, device=shades.device)[:, None] - (height - 1) / 2
    places = torch.stack([(_each(a) * x + _each(b) * y + _each(c)) * (2 / side) for a, b, c, side in rows], dim=-1)
    found = F.grid_sample(shades, places, padding_mode="border", align_corners=False)
    return found if how.edges_go_on else found * (places.abs() < 1).all(dim=-1)[:, None]


def _without_colours(shades: Tensor) -> Tensor:
    """[images, 1, height, width]: the mean of an image's colours by weights that are drawn for it: if they were always
    the same, a shade would tell which colour it was."""
    weights = torch.empty(*shades.shape[:2], 1, 1, device=shades.device).exponential_()
    return (shades * weights / weights.sum(dim=1, keepdim=True)).sum(dim=1, keepdim=True)


def _erased(shades: Tensor, likely: float) -> Tensor:
    """Of some images a rectangle is noise."""
    count, _, height, width = shades.shape
    area, longer = _between(shades, *ERASED), _elongated(shades, ERASED_LONGEST)
    down, across = (
        (height * (area / longer).sqrt()).clamp(max=height),
        (width * (area * longer).sqrt()).clamp(max=width),
    )
    top, left = (height - down) * _between(shades, 0, 1), (width - across) * _between(shades, 0, 1)
    inside = _inside(shades, top, left, top + down, left + across)
    hit = torch.rand(count, 1, 1, 1, device=shades.device) < likely
    return torch.where(hit & inside, torch.rand_like(shades), shades)


def _rectangles(shades: Tensor, alpha: float) -> Tensor:
    """[images, 1, height, width]: 0 in a rectangle, 1 around it; its middle may be anywhere (Yun et al. 2019)."""
    side = (1 - _beta(shades, alpha)).sqrt()
    _, _, height, width = shades.shape
    middle_y, middle_x = height * _between(shades, 0, 1), width * _between(shades, 0, 1)
    down, across = height * side / 2, width * side / 2
    return (~_inside(shades, middle_y - down, middle_x - across, middle_y + down, middle_x + across)).to(shades.dtype)


def _shares(shades: Tensor, alpha: float) -> Tensor:
    """[images, 1, 1, 1]: how much of an image stays its own (Zhang et al. 2018)."""
    return _beta(shades, alpha)[:, None, None, None]


def _beta(shades: Tensor, alpha: float) -> Tensor:
    """Drawn from Beta(α, α): the part of one of two draws from Gamma(α), in logarithms, for small α make zeros."""
    gammas = Gamma(shades.new_full((2, len(shades)), alpha + 1), shades.new_ones(()), validate_args=False).sample()
    one, other = gammas.log() + torch.rand_like(gammas).log() / alpha  # Gamma(α) is Gamma(α + 1) · U^(1 / α)
    return (one - other).sigmoid()


def _inside(shades: Tensor, top: Tensor, left: Tensor, bottom: Tensor, right: Tensor) -> Tensor:
    """[images, 1, height, width]: whether a pixel's middle lies in a rectangle."""
    y = torch.arange(shades.shape[2], device=shades.device)[:, None] + 0.5
    x = torch.arange(shades.shape[3], device=shades.device) + 0.5
    within = (y >= _each(top)) & (y < _each(bottom)) & (x >= _each(left)) & (x < _each(right))
    return within[:, None]


def _between(shades: Tensor, least: float, most: float) -> Tensor:
    """A number for each image."""
    return least + (most - least) * torch.rand(len(shades), device=shades.device)


def _elongated(shades: Tensor, most: float) -> Tensor:
    """A ratio of width to height for each image, as likely as its reverse."""
    return _between(shades, -math.log(most), math.log(most)).exp()


def _each(numbers: Tensor) -> Tensor:
    """One for each image, over its pixels."""
    return numbers[:, None, None]
