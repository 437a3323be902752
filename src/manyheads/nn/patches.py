"""An image as a sequence of patches.

Shapes:  B batch  C channels  Y X pixels down and across  N patches  W width
         T positions, the first of them the classification token's
"""

import torch
from torch import Tensor, nn
from torch.nn import functional

from manyheads.core.errors import ConfigError
from manyheads.nn.positions import Learned, Positions, PositionsConfig, Table
from manyheads.ops.rotary import sinusoid

KINDS = ("learned", "sinusoidal", "none")
NEAR = 100.0  # the base of sines over a few dozen patches, where 10,000 would hardly turn most of them


def refuse_uneven_patches(image_size: int, patch_size: int) -> None:
    """The side of an image must split into patches."""
    if image_size % patch_size:
        nearest = max(image_size // patch_size, 1) * patch_size
        raise ConfigError(
            f"a side of {image_size} pixels does not split into patches of {patch_size}; the nearest that does is "
            f"{nearest}: set data.size, or another model.patch_size"
        )


class Patches(nn.Module):
    """Each patch of an image through one matrix, which is one convolution that strides from patch to patch."""

    def __init__(self, patch_size: int, channels: int, width: int):
        super().__init__()
        self.projection = nn.Conv2d(channels, width, kernel_size=patch_size, stride=patch_size)
        inputs = channels * patch_size**2
        nn.init.normal_(self.projection.weight, std=inputs**-0.5)
        nn.init.zeros_(self.projection.bias)  # type: ignore

    def forward(self, pixels_BCYX: Tensor) -> Tensor:
        """[B, N, W], row by row."""
        if pixels_BCYX.is_cuda:  # a twentieth of the time of training ViT-B/16 less
            return as_product(self.projection, pixels_BCYX)
        return self.projection(pixels_BCYX).flatten(2).transpose(1, 2)


def as_product(projection: nn.Conv2d, pixels_BCYX: Tensor) -> Tensor:
    """What the convolution finds, [B, N, W]: its windows do not overlap, so it is one product with pixels laid out
    patch by patch. For so few colours a GPU has no fast convolution; on a CPU laying out takes longer."""
    side = projection.stride[0]
    windows = pixels_BCYX.unflatten(2, (-1, side)).unflatten(4, (-1, side)).permute(0, 2, 4, 1, 3, 5)
    return functional.linear(windows.flatten(3).flatten(1, 2), projection.weight.flatten(1), projection.bias)


class Sinusoidal2D(Positions):
    """Sines and cosines of a patch's row in one half of the width, of its column in the other, as Chen et al. (2021)
    have them; none for what is before."""

    def __init__(self, width: int, grid: int, base: float = 10_000.0, amplitude: float = 1.0):
        super().__init__()

        def rows(positions_T: Tensor) -> Tensor:
            places_N, half = positions_T[: grid * grid], width // 2
            sines = sinusoid(places_N // grid, half, base), sinusoid(places_N % grid, width - half, base)
            return torch.cat([sines[0].new_zeros(1, width), amplitude * torch.cat(sines, dim=1)])

        self.count, self.table = grid * grid, Table(rows)

    def add(self, x_BTW: Tensor, start: int | Tensor, length: int = 0) -> Tensor:
        assert start == 0, "patches come all at once"
        return x_BTW + self.table(0, 1 + self.count, x_BTW.device).to(x_BTW.dtype)


def image_positions(config: PositionsConfig, width: int, grid: int) -> Positions:
    """Where a patch stands in a grid of so many rows and columns, behind one classification token."""
    if config.kind not in KINDS:
        raise ConfigError(f"positions of patches are {', '.join(KINDS)}, not {config.kind}")
    if config.kind == "learned":
        return Learned(width, 1 + grid * grid)
    if config.kind == "sinusoidal":
        return Sinusoidal2D(width, grid, config.base, config.amplitude or 1.0)
    return Positions()


def sines_to_begin_with(width: int, grid: int) -> Learned:
    """A learned table that knows from the start which patches lie beside one another, and on which side."""
    learned, sines = Learned(width, 1 + grid * grid), Sinusoidal2D(width, grid, NEAR)
    with torch.no_grad():
        learned.table.weight.copy_(sines.table(0, 1 + grid * grid, learned.table.weight.device))
    return learned


def interpolated(table_TW: Tensor, grid: int) -> Tensor:
    """A learned table for a grid of another size: the patches' rows drawn larger or smaller as a picture is.

    The way of Dosovitskiy et al. (2021), section 3.2, with cubic curves.
    """
    before_W, patches_NW = table_TW[:1], table_TW[1:]
    side = round(patches_NW.shape[0] ** 0.5)
    if side == grid:
        return table_TW
    picture = patches_NW.T.reshape(1, -1, side, side)
    drawn = functional.interpolate(picture, size=(grid, grid), mode="bicubic", align_corners=False)
    return torch.cat([before_W, drawn[0].flatten(1).T])
