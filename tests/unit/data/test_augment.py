"""Images are changed at random as their recipe says, and as Pillow would."""

import numpy as np
import pytest
import torch
from PIL import Image, ImageEnhance, ImageOps
from sklearn.datasets import load_sample_image
from torch.testing import assert_close
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from manyheads.data.augment import MOVE, SHEAR, augmented, mixed
from manyheads.data.augmentation import LabelledAugmentation, TextAugmentation
from manyheads.data.colours import OPERATIONS, Draws, recoloured

HEIGHT, WIDTH = 46, 39
EVERYTHING = LabelledAugmentation(shift=3, crop=0.5, rotate=20.0, flip=True, colour=0.4, random_augment=2, erase=0.5)
SHADE = 1 / 255


def pictures(mode="RGB") -> list[Image.Image]:
    """Pieces of photographs."""
    china, flower = (Image.fromarray(load_sample_image(name)) for name in ("china.jpg", "flower.jpg"))
    corners = [(china, 20, 200), (china, 300, 250), (flower, 250, 150), (flower, 10, 5), (china, 5, 5)]
    return [each.crop((x, y, x + WIDTH, y + HEIGHT)).convert(mode) for each, x, y in corners]


def tensor(images: list[Image.Image]) -> torch.Tensor:
    pixels = torch.from_numpy(np.stack([np.asarray(each).reshape(HEIGHT, WIDTH, -1) for each in images]))
    return pixels.movedim(-1, 1).float() / 255


def drawn(name: str, strengths: list[float]) -> Draws:
    return Draws.of(torch.full((1, len(strengths)), OPERATIONS.index(name)), torch.tensor([strengths]))


STRENGTHS = [-1.0, -0.3, 0.3, 0.6, 1.0]
PILLOWS = {
    "identity": (lambda image, strength: image, 0),
    "equalize": (lambda image, strength: ImageOps.equalize(image), 0),
    "solarize": (lambda image, strength: ImageOps.solarize(image, round(256 * (1 - abs(strength)), 3)), 0),
    "posterize": (lambda image, strength: ImageOps.posterize(image, 8 - round(4 * abs(strength))), 0),
    # Pillow calculates these in whole shades.
    "autocontrast": (lambda image, strength: ImageOps.autocontrast(image), SHADE),
    "brightness": (lambda image, strength: ImageEnhance.Brightness(image).enhance(1 + 0.9 * strength), SHADE),
    "contrast": (lambda image, strength: ImageEnhance.Contrast(image).enhance(1 + 0.9 * strength), 1.5 * SHADE),
    "colour": (lambda image, strength: ImageEnhance.Color(image).enhance(1 + 0.9 * strength), 1.5 * SHADE),
    "sharpness": (lambda image, strength: ImageEnhance.Sharpness(image).enhance(1 + 0.9 * strength), 1.5 * SHADE),
}


@pytest.mark.parametrize("mode", ["RGB", "L"])
@pytest.mark.parametrize("name", PILLOWS)
def test_operations_on_colours_are_pillows(name, mode):
    operation, tolerance = PILLOWS[name]
    images = pictures(mode)
    found = recoloured(tensor(images), drawn(name, STRENGTHS))
    expected = tensor([operation(image, strength) for image, strength in zip(images, STRENGTHS)])
    assert (found - expected).abs().max() <= tolerance + 1e-6
    if name != "identity" and (name, mode) != ("colour", "L"):
        assert (found - tensor(images)).abs().max() > 10 * SHADE


@pytest.mark.parametrize("name", ["rotate", "shear_x", "shear_y", "translate_x", "translate_y"])
def test_operations_on_places_are_pillows(name, monkeypatch):
    images = pictures()
    draws = drawn(name, STRENGTHS)
    monkeypatch.setattr(Draws, "at_random", lambda *asked: draws)
    found = augmented(tensor(images), LabelledAugmentation(random_augment=1))

    def moved(image: Image.Image, strength: float) -> Image.Image:
        turn = np.radians(30 * strength) if name == "rotate" else 0
        shears = [SHEAR * strength if name == each else 0 for each in ("shear_x", "shear_y")]
        moves = [MOVE * strength if name == each else 0 for each in ("translate_x", "translate_y")]
        matrix = np.array([[1, shears[0]], [shears[1], 1]]) @ [
            [np.cos(turn), -np.sin(turn)],
            [np.sin(turn), np.cos(turn)],
        ]
        middle = np.array([WIDTH, HEIGHT]) / 2
        offset = middle - matrix @ middle + np.array(moves) * [WIDTH, HEIGHT]
        data = np.concatenate([matrix, offset[:, None]], axis=1).ravel().tolist()
        return image.transform(image.size, Image.Transform.AFFINE, data, Image.Resampling.BILINEAR)

    expected = tensor([moved(image, strength) for image, strength in zip(images, STRENGTHS)])
    apart = (found - expected).abs()
    assert apart.quantile(0.999) <= 1.5 * SHADE  # a pixel on the very edge may be inside for one alone
    assert (found - tensor(images)).abs().quantile(0.9) > 10 * SHADE


def test_what_is_not_asked_for_stays_to_the_bit():
    shades, labels = tensor(pictures()), torch.tensor([2, 0, 1, 4, 3])
    assert augmented(shades, LabelledAugmentation()) is shades
    assert mixed(shades, labels, EVERYTHING, 5) == (shades, labels)
    for name in OPERATIONS:
        if name not in ("autocontrast", "equalize"):  # which have no strength
            assert torch.equal(recoloured(shades, drawn(name, [0.0] * 5)), shades)
    assert not torch.equal(recoloured(shades, drawn("solarize", [0.5] * 5)), shades)


def test_half_of_the_images_are_flipped_exactly():
    shades = tensor(pictures()).repeat(80, 1, 1, 1)
    found = augmented(shades, LabelledAugmentation(flip=True))
    flipped, same = ((found == each).flatten(1).all(dim=1) for each in (shades.flip(-1), shades))
    assert (flipped ^ same).all()
    assert flipped.float().mean().item() == pytest.approx(0.5, abs=0.1)


def test_images_are_shifted_by_whole_pixels_and_black_comes_in():
    shades = tensor(pictures()).repeat(20, 1, 1, 1)
    found = augmented(shades, LabelledAugmentation(shift=2))
    padded = torch.nn.functional.pad(shades, (2, 2, 2, 2))
    places = [(y, x) for y in range(5) for x in range(5)]
    crops = torch.stack([padded[..., y : y + HEIGHT, x : x + WIDTH] for y, x in places], dim=1)
    apart = (crops - found[:, None]).abs().flatten(2).amax(dim=2)
    assert apart.amin(dim=1).max() < 1e-4
    assert len(apart.argmin(dim=1).unique()) > 20


def test_crops_are_as_large_as_asked_and_inside():
    """What is red in it says where a pixel is across, what is green where down."""
    across = ((torch.arange(WIDTH) + 0.5) / WIDTH).expand(HEIGHT, -1)
    down = ((torch.arange(HEIGHT) + 0.5) / HEIGHT)[:, None].expand(-1, WIDTH)
    shades = torch.stack([across, down]).expand(300, -1, -1, -1)
    found = augmented(shades, LabelledAugmentation(crop=0.3))
    steps = (
        found[:, 0, 0, 12:26].diff().median(dim=1).values * WIDTH,
        found[:, 1, 15:30, 0].diff().median(1).values * HEIGHT,
    )
    area, longer = steps[0] * steps[1], steps[0] / steps[1]
    assert area.min() > 0.299
    assert area.min() < 0.35
    assert area.max() < 1.001
    assert longer.min() > 0.74
    assert longer.max() < 1.34
    assert longer.max() > 1.2
    assert found.amin() >= 0.5 / HEIGHT - 1e-5  # no black came in
    assert found[:, 0, :, 0].amax() > 0.3
    assert found[:, 0, :, -1].amin() < 0.7  # they are in many places


def test_turns_go_both_ways_and_as_far_as_asked():
    """A white half below a middle line: where the line leaves the image says how far it is turned."""
    size = 41
    down = torch.arange(size)[:, None].expand(-1, size).float() / (size - 1)
    found = augmented(down.expand(200, 1, -1, -1), LabelledAugmentation(rotate=30.0))
    middle = size // 2
    slope = (found[:, 0, middle, middle + 5] - found[:, 0, middle, middle - 5]) / 10 * (size - 1)
    degrees = slope.asin().rad2deg()
    assert degrees.min() == pytest.approx(-30, abs=2)
    assert degrees.max() == pytest.approx(30, abs=2)


def test_colours_change_as_much_as_asked():
    shades = (tensor(pictures()) * 0.5).repeat(60, 1, 1, 1)
    found = augmented(shades, LabelledAugmentation(colour=0.4))
    brightness = found.mean(dim=(1, 2, 3)) / shades.mean(dim=(1, 2, 3))
    assert 0.58 < brightness.min() < 0.7
    assert 1.3 < brightness.max() < 1.42
    grey = shades[:, :1].expand(-1, 3, -1, -1)
    found = augmented(grey, LabelledAugmentation(colour=0.4))
    assert_close(found[:, 0], found[:, 2])  # without saturation there is none to change


def test_what_comes_in_from_beyond_an_edge_is_black_or_as_the_edge_is():
    shades = torch.full((50, 3, HEIGHT, WIDTH), 0.25)
    assert (augmented(shades, LabelledAugmentation(shift=2)) == 0).any()
    assert_close(augmented(shades, TextAugmentation(shift=2)), shades)


def test_colours_of_some_images_fade_so_that_no_shade_tells_which_it_was():
    colours = torch.tensor([[0.8, 0.1, 0.1], [0.1, 0.6, 0.3]])
    means: list[tuple[float, float]] = []
    for colour in colours:
        shades = colour[:, None, None].expand(600, 3, HEIGHT, WIDTH)
        found = augmented(shades, LabelledAugmentation(fade=0.3))
        assert_close(found, found[:, :, :1, :1].expand_as(found))  # all of an image in one way
        changed = (found != shades).flatten(1).any(dim=1)
        assert changed.float().mean().item() == pytest.approx(0.3, abs=0.08)
        spread = (found.amax(dim=1) - found.amin(dim=1))[changed, 0, 0] / (colour.max() - colour.min())
        assert spread.min() < 0.1  # hardly any colour is left
        assert spread.max() > 0.9  # or hardly any is gone
        assert spread.mean().item() == pytest.approx(0.5, abs=0.08)
        dull = found[changed][:, :, 0, 0][spread < 0.3].mean(dim=1)
        means.append((dull.min().item(), dull.max().item()))
    red, green = means
    assert red[0] < green[1]  # red may become darker than green,
    assert green[0] < red[1]  # or the other way round


def test_an_image_in_grey_has_no_colours_to_lose():
    shades = torch.rand(30, 1, HEIGHT, WIDTH)
    assert_close(augmented(shades, LabelledAugmentation(fade=0.5)), shades)


def test_a_rectangle_of_some_images_is_erased():
    shades = torch.full((400, 3, HEIGHT, WIDTH), 0.25)
    found = augmented(shades, LabelledAugmentation(erase=0.3))
    erased = (found != shades).any(dim=1)
    share = erased.float().mean(dim=(1, 2))
    assert (share > 0).float().mean().item() == pytest.approx(0.3, abs=0.08)
    assert share[share > 0].min() < 0.08
    assert 0.3 < share.max() < 0.42
    rows, columns = erased.any(dim=2), erased.any(dim=1)
    assert torch.equal(erased, rows[:, :, None] & columns[:, None, :])
    noise = found[erased[:, None].expand_as(found)]
    assert noise.mean().item() == pytest.approx(0.5, abs=0.02)
    assert noise.std() > 0.2


def test_all_operations_are_as_likely():
    draws = Draws.at_random(2, 7000, 12, torch.device("cpu"))
    assert (draws.drawn.sum(dim=0) == 1).all()
    counts = draws.drawn.sum(dim=(1, 2))
    assert counts.min() > 850
    assert counts.max() < 1150
    strengths = draws.strengths[draws.drawn]
    assert strengths.abs().unique().tolist() == [pytest.approx(0.4)]
    assert strengths.mean().item() == pytest.approx(0, abs=0.02)
    assert not draws.strengths[~draws.drawn].any()


@pytest.mark.parametrize("mode", ["RGB", "L"])
def test_everything_together_is_drawn_for_each_image_and_follows_from_the_seed(mode):
    shades = tensor(pictures(mode)[:1] * 30)
    before = shades.clone()
    torch.manual_seed(5)
    found = augmented(shades, EVERYTHING)
    torch.manual_seed(5)
    assert torch.equal(augmented(shades, EVERYTHING), found)
    assert not torch.equal(augmented(shades, EVERYTHING), found)
    assert torch.equal(shades, before)
    assert found.shape == shades.shape
    assert found.dtype == shades.dtype
    assert found.min() >= 0
    assert found.max() <= 1 + 1e-6
    assert len(found.flatten(1).unique(dim=0)) == 30


def test_training_in_half_precision_moves_no_pixel():
    shades = tensor(pictures())
    torch.manual_seed(5)
    found = augmented(shades, EVERYTHING)
    torch.manual_seed(5)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(augmented(shades, EVERYTHING), found)


class OneDevice(TorchDispatchMode):
    """Whatever is calculated is on the meta device, which has no numbers: asking for one fails, and so does copying."""

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        found = function(*args, **(kwargs or {}))
        tensors = [each for each in tree_leaves((args, found)) if isinstance(each, torch.Tensor)]
        assert all(each.is_meta for each in tensors), f"{function} is given numbers of the CPU"
        return found


def test_nothing_waits_for_a_device():
    shades, labels = torch.rand(6, 3, 9, 8, device="meta"), torch.zeros(6, dtype=torch.long, device="meta")
    with OneDevice():
        assert augmented(shades, EVERYTHING).shape == shades.shape
        found, targets = mixed(shades, labels, LabelledAugmentation(mixup=0.3, cutmix=1.0), 4)
        with pytest.raises(AssertionError, match="numbers of the CPU"):
            shades * torch.tensor(0.5)
        with pytest.raises(RuntimeError):
            shades.sum().item()
    assert found.shape == shades.shape
    assert targets.shape == (6, 4)


@pytest.mark.parametrize("side", [1, 2])
def test_images_of_almost_nothing_are_no_trouble(side):
    shades = torch.rand(50, 3, side, side)
    found, targets = mixed(
        augmented(shades, EVERYTHING), torch.zeros(50, dtype=torch.long), LabelledAugmentation(cutmix=1.0), 2
    )
    assert found.isfinite().all()
    assert targets.isfinite().all()


ALPHAS = {"mixup": {"mixup": 0.8}, "cutmix": {"cutmix": 1.0}, "both": {"mixup": 0.8, "cutmix": 1.0}}


@pytest.mark.parametrize("way", ALPHAS)
def test_labels_are_shared_as_pixels_are(way):
    """Each image has one shade, so that what is seen of it can be counted."""
    count = 200
    shade = torch.rand(count)
    shades = shade[:, None, None, None].expand(-1, 3, 13, 11)
    labels = torch.arange(count) % 7
    found, targets = mixed(shades, labels, LabelledAugmentation(**ALPHAS[way]), 7)
    assert_close(targets.sum(dim=1), torch.ones(count))
    lines = torch.arange(count)
    own, others = targets[lines, labels], targets[lines, labels.roll(1)]
    own_shade, other_shade = shade, shade.roll(1)
    wrapped = labels == labels.roll(1)
    assert wrapped.sum() <= 1
    assert_close(found.mean(dim=(1, 2, 3))[~wrapped], (own * own_shade + others * other_shade)[~wrapped])
    whole = ((found - own_shade[:, None, None, None]).abs() < 1e-6) | (
        (found - other_shade[:, None, None, None]).abs() < 1e-6
    )
    cut, through = whole.flatten(1).all(dim=1), (found - found[:, :1, :1, :1]).abs().flatten(1).amax(dim=1) < 1e-6
    assert (cut | through).all()
    assert (cut.float().mean() > 0.9) == (way == "cutmix")
    assert (through.float().mean() > 0.9) == (way == "mixup")
    assert own.min() < 0.3
    assert own.max() > 0.9


def test_a_rectangle_of_the_next_image_is_cut_in():
    shades = torch.zeros(40, 1, 13, 11)
    shades[::2] = 1
    found, targets = mixed(shades, torch.arange(40) % 2, LabelledAugmentation(cutmix=1.0), 2)
    foreign = (found != shades)[:, 0]
    assert torch.equal(foreign, foreign.any(dim=2)[:, :, None] & foreign.any(dim=1)[:, None, :])
    assert_close(foreign.float().mean(dim=(1, 2)), 1 - targets[torch.arange(40), torch.arange(40) % 2])
    assert foreign.any()


def test_small_alphas_mix_little():
    shades = torch.rand(300, 1, 4, 4)
    _, targets = mixed(shades, torch.arange(300), LabelledAugmentation(mixup=0.001), 300)
    assert (targets.amax(dim=1) > 0.99).float().mean() > 0.95
    assert targets.isfinite().all()
