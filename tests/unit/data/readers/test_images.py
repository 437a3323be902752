"""Pictures in files, of Pillow and in arrays: read as a person sees them, or refused in a sentence."""

import io
import os
import subprocess
import sys
import zlib
from itertools import count
from pathlib import Path

import numpy as np
import pytest
import torch
from helpers import PEAK, needs_peak, written

from manyheads.core.errors import ConfigError, DataError, MissingExtra
from manyheads.data.readers.images import glance, image_files, read_image
from manyheads.data.readers.pixels import LARGEST, NAMED

Image = pytest.importorskip("PIL.Image", reason="pillow is not installed: pip install 'manyheads[images]'")
ORIENTATION = 0x0112


def numbers(*shape: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


def seen(source) -> np.ndarray:
    image = read_image(source)
    assert image.mode == ("L" if np.asarray(image).ndim == 2 else "RGB")
    return np.asarray(image)


def saved(path: Path, image, **how) -> Path:
    (image if isinstance(image, Image.Image) else Image.fromarray(image)).save(path, **how)
    return path


def refused(source) -> str:
    with pytest.raises(DataError) as error:
        read_image(source)
    assert "\n" not in str(error.value)
    return str(error.value)


def over_white(colours: np.ndarray, alpha: np.ndarray) -> np.ndarray:
    share = alpha[..., None] / 255 if colours.ndim == 3 else alpha / 255
    return colours * share + 255 * (1 - share)


# Upright

# How a camera stores what a person sees, by the number that it notes: EXIF says on which sides of the picture seen the
# first row and the first column lie.
STORED = {
    1: lambda picture: picture,  # top, left
    2: lambda picture: picture[:, ::-1],  # top, right
    3: lambda picture: picture[::-1, ::-1],  # bottom, right
    4: lambda picture: picture[::-1],  # bottom, left
    5: lambda picture: picture.swapaxes(0, 1),  # left, top
    6: lambda picture: picture[:, ::-1].swapaxes(0, 1),  # right, top
    7: lambda picture: picture[::-1, ::-1].swapaxes(0, 1),  # right, bottom
    8: lambda picture: picture[::-1].swapaxes(0, 1),  # left, bottom
}


def turned(path: Path, picture: np.ndarray, orientation: int, **how) -> Path:
    notes = Image.Exif()
    notes[ORIENTATION] = orientation
    return saved(path, np.ascontiguousarray(STORED[orientation](picture)), exif=notes, **how)


@pytest.mark.parametrize("orientation", STORED)
@pytest.mark.parametrize("ending", ["png", "tiff", "webp"])
def test_a_picture_is_turned_as_its_notes_say(tmp_path, ending, orientation):
    picture = numbers(5, 7, 3)
    path = turned(tmp_path / f"a.{ending}", picture, orientation, **({"lossless": True} if ending == "webp" else {}))
    assert (seen(path) == picture).all()
    assert (seen(read_image(path)) == picture).all()  # and but once
    assert np.array_equal(STORED[orientation](picture), picture) == (orientation == 1)  # and there was something to do
    size, grey = glance(path)
    assert (sorted(size), grey) == ([5, 7], False)


@pytest.mark.parametrize("orientation", STORED)
def test_and_so_is_a_photo(tmp_path, orientation):
    picture = np.kron(numbers(3, 5), np.ones((16, 16), np.uint8))  # patches that JPEG keeps
    found = seen(turned(tmp_path / "a.jpg", picture, orientation, quality=95))
    assert np.abs(found.astype(int) - picture).max() < 6


@pytest.mark.parametrize("orientation", [0, 9])
def test_notes_that_say_nothing_turn_nothing(tmp_path, orientation):
    notes = Image.Exif()
    notes[ORIENTATION] = orientation
    picture = numbers(5, 7, 3)
    assert (seen(saved(tmp_path / "a.png", picture, exif=notes)) == picture).all()
    assert (seen(saved(tmp_path / "b.png", picture, exif=b"Exif\0\0no notes at all")) == picture).all()


# Colours


@pytest.mark.parametrize("ending", ["png", "bmp", "tif", "ppm", "tga", "jp2"])
def test_colour_and_grey_come_as_they_are(tmp_path, ending):
    for picture in (numbers(5, 7, 3), numbers(5, 7)):
        path = saved(tmp_path / f"a.{ending}", picture)
        assert (seen(path) == picture).all()
        assert (seen(str(path)) == picture).all()
        assert glance(path) == ((5, 7), picture.ndim == 2)


@pytest.mark.parametrize("ending", ["png", "tif", "pbm", "bmp", "gif"])
def test_one_bit_is_black_or_white(tmp_path, ending):
    picture = numbers(5, 11) > 127
    assert (seen(saved(tmp_path / f"a.{ending}", picture)) == 255 * picture).all()


def palette(colours: np.ndarray, places: np.ndarray):
    image = Image.fromarray(places, "L").convert("L")
    image = Image.frombytes("P", image.size, image.tobytes())
    image.putpalette(colours.tobytes())
    return image


@pytest.mark.parametrize("ending", ["png", "gif", "bmp", "tif"])
def test_a_palette_gives_its_colours(tmp_path, ending):
    places, colours = numbers(5, 7) % 6, numbers(6, 3, seed=2)
    assert (seen(saved(tmp_path / f"a.{ending}", palette(colours, places))) == colours[places]).all()
    shades = np.repeat(colours[:, :1], 3, axis=1)
    assert (seen(saved(tmp_path / f"b.{ending}", palette(shades, places))) == shades[places][..., 0]).all()


def test_what_a_palette_shows_through_is_white(tmp_path):
    places, colours = numbers(5, 7) % 6, numbers(6, 3, seed=2)
    for name in ("a.png", "a.gif"):
        found = seen(saved(tmp_path / name, palette(colours, places), transparency=4))
        assert (found == np.where((places == 4)[..., None], 255, colours[places])).all()
    alpha = np.array([255, 0, 128, 3, 200, 255], np.uint8)
    found = seen(saved(tmp_path / "b.png", palette(colours, places), transparency=alpha.tobytes()))
    assert np.abs(found - over_white(colours[places], alpha[places])).max() <= 1


@pytest.mark.parametrize("ending", ["png", "tif", "webp"])
@pytest.mark.parametrize("colours", [1, 3])
def test_what_is_transparent_lies_over_white(tmp_path, ending, colours):
    picture, alpha = numbers(5, 7, colours).squeeze(), numbers(5, 7, seed=2)
    alpha[0], alpha[1] = 0, 255
    image = Image.fromarray(np.dstack([picture, alpha]), "LA" if colours == 1 else "RGBA")
    how = {"lossless": True, "exact": True} if ending == "webp" else {}
    found = seen(saved(tmp_path / f"a.{ending}", image, **how))
    expected = over_white(picture, alpha)
    if found.ndim > expected.ndim:  # WebP has no grey
        expected = expected[..., None]
    assert np.abs(found - expected).max() <= 1
    assert (found[0] == 255).all()
    assert (np.abs(found[1].astype(int) - expected[1]) == 0).all()


def test_a_colour_that_stands_for_nothing_is_white(tmp_path):
    picture = numbers(5, 7, 3)
    picture[2, 3] = picture[0, 0] = 1, 2, 3
    found = seen(saved(tmp_path / "a.png", picture, transparency=(1, 2, 3)))
    picture[2, 3] = picture[0, 0] = 255
    assert (found == picture).all()
    grey = numbers(5, 7)
    assert (
        seen(saved(tmp_path / "b.png", grey, transparency=int(grey[1, 1]))) == np.where(grey == grey[1, 1], 255, grey)
    ).all()


def test_a_printed_photo_has_the_colours_that_a_person_sees(tmp_path):
    inks = {
        (0, 0, 0, 0): (255, 255, 255),
        (255, 0, 0, 0): (0, 255, 255),
        (0, 0, 255, 0): (255, 255, 0),
        (0, 0, 0, 255): (0, 0, 0),
    }
    for number, (ink, colour) in enumerate(inks.items()):
        path = saved(tmp_path / f"{number}.jpg", Image.new("CMYK", (16, 16), ink), quality=95)
        assert Image.open(path).mode == "CMYK"
        assert np.abs(seen(path).astype(int) - colour).max() < 6


def test_transparent_pictures_are_laid_over_white_by_rows(tmp_path, monkeypatch):
    alpha, places, colours = numbers(5, 7, seed=2), numbers(5, 7) % 6, numbers(6, 3, seed=2)
    rgba, grey = Image.fromarray(np.dstack([numbers(5, 7, 3), alpha])), Image.fromarray(np.dstack([places, alpha]))
    pictures = [rgba, grey, rgba.convert("RGBa"), grey.convert("La")]
    pictures += [saved(tmp_path / "a.png", palette(colours, places), transparency=4)]
    pictures += [saved(tmp_path / "b.png", numbers(5, 7), transparency=int(numbers(5, 7)[1, 1]))]
    whole = [seen(each) for each in pictures]
    for pixels in (1, 7, 15):
        monkeypatch.setattr("manyheads.data.readers.pixels.PIXELS_AT_ONCE", pixels)
        assert [seen(each).tolist() for each in pictures] == [each.tolist() for each in whole]
    assert [each.ndim for each in whole] == [3, 2, 3, 2, 3, 2]


# Deeper than 8 bits


def deep(height: int = 5, width: int = 7) -> np.ndarray:
    levels = np.random.default_rng(3).integers(0, 65536, (height, width), dtype=np.uint16)
    levels[0, :3] = 0, 65535, 128
    return levels


@pytest.mark.parametrize("name", ["a.png", "a.tif", "a.pgm"])
def test_shades_of_16_bits_are_not_cut_to_their_lower_half(tmp_path, name):
    levels = deep()
    path = saved(tmp_path / name, levels)
    assert (seen(path) == np.rint(levels / 257)).all()
    assert glance(path) == ((5, 7), True)


def tiff(levels: np.ndarray, order: str, meaning: int, width: int, height: int) -> bytes:
    """A TIFF of 16 bits, lowest first (<) or last (>), where the least is black (1) or white (0)."""

    def as_bytes(kind: str, *values: int) -> bytes:
        return np.array(values, order + kind).tobytes()

    content = levels.astype(f"{order}u2").tobytes()
    tags = {256: width, 257: height, 258: 16, 259: 1, 262: meaning, 273: 8, 277: 1, 278: height, 279: len(content)}
    head = (b"II" if order == "<" else b"MM") + as_bytes("u2", 42) + as_bytes("u4", 8 + len(content))
    entries = b"".join(as_bytes("u2", tag, 4) + as_bytes("u4", 1, value) for tag, value in tags.items())
    return head + content + as_bytes("u2", len(tags)) + entries + bytes(4)


@pytest.mark.parametrize(("order", "meaning"), [("<", 1), (">", 1), ("<", 0)])
def test_shades_of_tiff_in_any_order_of_bytes_and_either_meaning(tmp_path, order, meaning):
    levels = deep()
    shades = np.rint(levels / 257)
    found = seen(written(tmp_path / "a.tif", tiff(levels, order, meaning, 7, 5)))
    assert (found == (shades if meaning else 255 - shades)).all()


def test_numbers_of_32_bits_are_read_in_the_range_that_holds_them(tmp_path):
    shares = deep() / np.float32(65535)
    for top, kind in ((1, np.float32), (255, np.float32), (255, np.int32), (65535, np.int32)):
        levels = (shares * top).astype(kind)
        found = seen(saved(tmp_path / "a.tif", levels))
        assert (found == np.rint(levels.astype(float) * 255 / top)).all()
    for wrong in (np.float32([[-1, 1], [0, 1]]), np.int32([[0, 65536], [0, 0]]), np.float32([[0, np.nan], [0, 1]])):
        assert "has brightness from" in refused(saved(tmp_path / "b.tif", wrong))


# Frames


@pytest.fixture(autouse=True)
def nobody_was_told(monkeypatch):
    monkeypatch.setattr("manyheads.data.readers.pixels._moving", count())


@pytest.mark.parametrize("ending", ["gif", "webp", "png", "tif"])
def test_of_several_frames_the_first_is_read_and_that_is_said_once(tmp_path, ending, capsys):
    frames = [Image.new("RGB", (7, 5), colour) for colour in ("red", "blue", "green")]
    path = saved(tmp_path / f"a.{ending}", frames[0], save_all=True, append_images=frames[1:], lossless=True)
    assert (seen(path) == [255, 0, 0]).all()
    seen(path)
    assert " ".join(capsys.readouterr().err.split()).count(f"{path} has 3 frames; only the first is read") == 1
    image = Image.open(path)
    image.seek(1)  # a picture that was moved there is meant as it is
    assert np.abs(seen(image).astype(int) - [0, 0, 255]).max() < 2
    assert "frames" not in capsys.readouterr().err


def test_a_few_pictures_of_several_frames_are_named_and_others_mentioned(tmp_path, capsys):
    frames = [Image.new("RGB", (7, 5), colour) for colour in ("red", "blue", "green")]
    for number in range(NAMED + 3):
        saved(tmp_path / f"{number}.gif", frames[0], save_all=True, append_images=frames[1:])
        read_image(tmp_path / f"{number}.gif")
        seen(Image.open(tmp_path / "0.gif"))
    said = " ".join(capsys.readouterr().err.split())
    assert said.count("has 3 frames; only the first is read") == NAMED
    assert said.count("more pictures have several frames") == 1


def test_one_frame_is_nothing_to_talk_about(tmp_path, capsys):
    seen(saved(tmp_path / "a.gif", numbers(5, 7)))
    assert capsys.readouterr().err == ""


# What is none


def test_what_is_no_picture_is_named(tmp_path):
    assert f"{tmp_path / 'a.png'} is not there" in refused(tmp_path / "a.png")
    assert "is a folder, not a picture" in refused(tmp_path)
    assert "is empty; give a PNG" in refused(written(tmp_path / "a.png", b""))
    for content in (
        b"a text",
        b"\x89PNG\r\n\x1a\n",
        b"\xff\xd8\xff",
        b"GIF89a",
        bytes(1000),
        b"%!PS-Adobe-3.0 EPSF-3.0\n",
    ):
        said = refused(written(tmp_path / "a.jpg", content))
        assert said.startswith(str(tmp_path / "a.jpg"))
    assert "cannot be read" in refused("a\0.png")
    for other in (7, None, [1, 2], b"bytes", io.BytesIO(b"")):
        assert "is no picture; give the path of a file" in refused(other)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes with a name here")
def test_a_pipe_is_refused_where_nobody_may_ever_write_into_it(tmp_path):
    os.mkfifo(tmp_path / "a.png")
    (tmp_path / "b.png").symlink_to(tmp_path / "a.png")
    for path in (tmp_path / "a.png", tmp_path / "b.png"):
        assert f"{path} is a pipe or the like, for which one may wait for ever; name a picture's file" in refused(path)
        with pytest.raises(DataError, match="is a pipe or the like"):
            glance(path)
    saved(tmp_path / "c.png", numbers(5, 7))
    assert [path.name for path in image_files([tmp_path])] == ["c.png"]


@pytest.mark.skipif(not Path("/dev/fd").exists(), reason="a shell has no name for what another program writes")
def test_but_what_another_program_writes_may_be_a_picture(tmp_path):
    picture = numbers(5, 7, 3)
    content = saved(tmp_path / "a.png", picture).read_bytes()
    reading, writing = os.pipe()
    os.write(writing, content)
    os.close(writing)
    assert (seen(f"/dev/fd/{reading}") == picture).all()
    os.close(reading)


@pytest.mark.skipif(os.getuid() == 0 if hasattr(os, "getuid") else False, reason="all files are open to root")
def test_a_file_that_may_not_be_read_is_named(tmp_path):
    path = saved(tmp_path / "a.png", numbers(5, 7))
    path.chmod(0)
    assert "Permission denied" in refused(path)


@pytest.mark.parametrize("ending", ["png", "jpg", "gif", "webp", "tif", "bmp", "jp2", "ppm", "tga"])
def test_a_picture_that_is_cut_off_is_refused_and_never_half_read(tmp_path, ending):
    path = saved(tmp_path / f"a.{ending}", np.kron(numbers(9, 9, 3), np.ones((8, 8, 1), np.uint8)))
    whole = path.read_bytes()
    for share in (0.1, 0.5, 0.9):
        said = refused(written(path, whole[: int(share * len(whole))]))
        assert said.startswith(str(path))
        assert "damaged" in said
    assert seen(written(path, whole)).shape == (72, 72, 3)


@pytest.mark.parametrize("ending", ["png", "jpg", "gif", "webp", "tif", "bmp", "ico"])
def test_a_damaged_picture_is_never_more_than_a_sentence(tmp_path, ending, recwarn):
    path = saved(tmp_path / f"a.{ending}", numbers(19, 23, 3))
    whole, random, outcomes = path.read_bytes(), np.random.default_rng(2), set()
    for _ in range(60):
        changed = bytearray(whole)
        for place in random.integers(0, min(len(changed), 400), 4):
            changed[place] = random.integers(0, 256)
        path.write_bytes(changed)
        try:
            outcomes.add(seen(path).ndim > 0)
        except DataError as error:
            outcomes.add("\n" in str(error))
    assert outcomes <= {True, False}
    assert False in outcomes or ending == "bmp"


def test_a_picture_of_one_pixel_shows_nothing(tmp_path):
    for height, width in ((1, 1), (1, 9), (9, 1)):
        picture = numbers(height, width, 3)
        for source in (saved(tmp_path / "a.png", picture), picture, Image.fromarray(picture)):
            assert (
                f"has {width} × {height} pixels, which show nothing; there must be 2 or more on each side"
                in refused(source)
            )
    assert seen(numbers(2, 2, 3)).shape == (2, 2, 3)


def chunk(kind: bytes, content: bytes) -> bytes:
    return len(content).to_bytes(4, "big") + kind + content + zlib.crc32(kind + content).to_bytes(4, "big")


def vast_png(side: int, depth: int = 1, kind: int = 0) -> bytes:
    """A true picture of side × side pixels in few bytes."""
    packer = zlib.compressobj(9)
    row = bytes(1 + -(-side * depth // 8))
    packed = b"".join([packer.compress(row) for _ in range(side)]) + packer.flush()
    head = side.to_bytes(4, "big") * 2 + bytes((depth, kind, 0, 0, 0))
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", head)
        + chunk(b"PLTE", bytes(6)) * (kind == 3)
        + chunk(b"IDAT", packed)
        + chunk(b"IEND", b"")
    )


def vast(ending: str) -> bytes:
    """A picture of 30,000 × 30,000 pixels, or what says that it is one."""
    if ending == "png":
        return vast_png(30_000)
    if ending == "palette.png":
        return vast_png(30_000, kind=3)
    if ending == "ico":  # whose directory says 256 × 256
        held = vast_png(30_000)
        return (
            bytes((0, 0, 1, 0, 1, 0, 0, 0, 0, 0, 1, 0, 32, 0))
            + len(held).to_bytes(4, "little")
            + (22).to_bytes(4, "little")
            + held
        )
    if ending == "tif":
        return tiff(deep(), "<", 1, 30_000, 30_000)
    buffer = io.BytesIO()
    Image.new("L", (0x1234, 7)).save(buffer, {"jpg": "jpeg"}.get(ending, ending))
    content, little, big = buffer.getvalue(), (30_000).to_bytes(2, "little"), (30_000).to_bytes(2, "big")
    if ending == "jpg":
        return content.replace(b"\x00\x07\x12\x34", big + big)
    if ending == "gif":
        return content.replace(b"\x34\x12\x07\x00", little + little)
    return content.replace(b"\x34\x12\0\0\x07\0\0\0", (little + b"\0\0") * 2)


BOMBS = ("png", "palette.png", "ico", "jpg", "gif", "bmp", "tif")
BOMB = f"""{PEAK}
import sys, numpy
from pathlib import Path
from PIL import Image
from manyheads.core.errors import DataError
from manyheads.data.readers.images import glance, read_image
read_image(numpy.zeros((9, 9), numpy.uint8))
if sys.argv[2] == "unlimited":
    Image.MAX_IMAGE_PIXELS = None  # as somebody may have set it
before = peak()
for look in (read_image, glance):
    try:
        look(Path(sys.argv[1]))
    except DataError as error:
        print(error)
print(peak() - before)
"""


@needs_peak
@pytest.mark.parametrize("ending", BOMBS)
def test_a_picture_without_end_is_refused_before_it_is_in_memory(tmp_path, ending):
    path = written(tmp_path / f"a.{ending}", vast(ending))
    assert path.stat().st_size < 1_000_000
    for limit in ("usual", "unlimited")[: 1 if ending == "ico" else 2]:
        command = [sys.executable, "-c", BOMB, str(path), limit]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        first, second, grown = done.stdout.splitlines()
        assert first == second
        assert first.startswith(str(path))
        assert f"{LARGEST:,}" in first
        assert int(grown) < 60_000, done.stdout  # kilobytes, of 900 MB
        assert done.stderr == ""


MANY = f"""{PEAK}
import os, sys
from types import SimpleNamespace
from manyheads.data import images
images.os = SimpleNamespace(cpu_count=lambda: 6)
processor = images.ImageProcessor.of(8, 3)
processor.pixels(Path(sys.argv[1]))
before = peak()
found = [*processor.many([Path(sys.argv[2])] * 12)]
assert all((each == 255).all() for each in found), found
print(peak() - before, flush=True)
if not os.fork():
    os._exit(0 if (processor.pixels(Path(sys.argv[2])) == 255).all() else 1)
print(os.wait()[1])
"""


@needs_peak
def test_large_pictures_are_decoded_one_after_another_however_many_threads_there_are(tmp_path):
    """With 25 million pixels that let white through, each."""
    small = saved(tmp_path / "a.png", numbers(5, 7))
    large = saved(tmp_path / "b.png", Image.new("P", (5000, 5000)), transparency=0)
    command = [sys.executable, "-c", MANY, str(small), str(large)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    grown, child = map(int, done.stdout.split())
    assert grown < 300_000, grown  # kilobytes: 150 MB of one, where six would take more than 2 GB
    assert child == 0  # a process that was forked reads them, too


def test_a_large_picture_is_read_and_refused_as_any_other(tmp_path, monkeypatch):
    monkeypatch.setattr("manyheads.data.readers.pixels.LARGE", 1)
    path = saved(tmp_path / "a.png", numbers(9, 9, 3))
    assert (seen(path) == numbers(9, 9, 3)).all()
    path.write_bytes(path.read_bytes()[:90])
    assert refused(path).startswith(f"{path} cannot be decoded")


def test_as_many_pixels_as_are_read_are_read(tmp_path, monkeypatch):
    monkeypatch.setattr("manyheads.data.readers.pixels.LARGEST", 35)
    assert seen(numbers(5, 7)).shape == (5, 7)
    for source in (numbers(6, 6), saved(tmp_path / "a.png", numbers(6, 6)), Image.fromarray(numbers(6, 6))):
        assert "has 6 × 6 pixels; at most 35 are read, make it smaller" in refused(source)


# Pictures of Pillow and arrays


def test_a_picture_of_pillow_stays_as_it_is():
    image = Image.fromarray(numbers(5, 7, 4), "RGBA")
    image.getexif()[ORIENTATION] = 6
    before = image.tobytes()
    assert seen(image).shape == (7, 5, 3)
    assert (image.size, image.mode, image.tobytes()) == ((7, 5), "RGBA", before)
    image = Image.fromarray(numbers(5, 7))
    read_image(image).putpixel((0, 0), 1 - image.getpixel((0, 0)) // 255)
    assert (np.asarray(image) == numbers(5, 7)).all()


def test_arrays_and_tensors_of_every_kind_show_the_same():
    grey, colour, alpha = numbers(5, 7), numbers(5, 7, 3), numbers(5, 7, 4)
    for array in (grey, grey[..., None], colour, np.asfortranarray(colour), colour[::-1][::-1]):
        expected = array.squeeze()
        tensor = torch.from_numpy(array.copy())
        kinds = [array, tensor, array.astype(np.uint16) * 257, array / 255, (array / 255).astype(np.float32)]
        kinds += [tensor / 255, (tensor / 255).requires_grad_(), (tensor / 255).double()]
        if array.ndim == 3:
            kinds += [tensor.movedim(-1, 0), tensor.movedim(-1, 0) / 255]
        for each in kinds:
            assert (seen(each) == expected).all()
        for each in ((array / 255).astype(np.float16), (tensor / 255).bfloat16()):
            assert np.abs(seen(each).astype(int) - expected).max() <= 1
    assert np.abs(seen(alpha) - over_white(alpha[..., :3], alpha[..., 3])).max() <= 1
    assert seen(torch.zeros(3, 4, 3)).shape == (4, 3, 3)  # of a tensor colours come first where both may be


def test_floats_a_little_beyond_their_range_are_within_it():
    assert seen(np.float32([[-1e-6, 1 + 1e-6], [0, 1]])).tolist() == [[0, 255], [0, 255]]


@pytest.mark.parametrize(
    ("array", "said"),
    [
        (np.zeros((5, 7), np.int64), "is an array of int64; give uint8, uint16, or floats from 0 to 1"),
        (np.zeros((5, 7), bool), "is an array of bool"),
        (np.zeros((5, 7), complex), "is an array of complex128"),
        (np.zeros((5, 7), object), "is an array of object"),
        (np.zeros((5, 7, 2), np.uint8), "is an array of shape [5, 7, 2]; give [height, width]"),
        (np.zeros((3, 5, 7), np.uint8), "is an array of shape [3, 5, 7]"),
        (np.zeros((1, 5, 7, 3), np.uint8), "is an array of shape [1, 5, 7, 3]"),
        (np.zeros(5, np.uint8), "is an array of shape [5]"),
        (np.zeros((0, 7), np.uint8), "has 7 × 0 pixels, which show nothing"),
        (np.full((5, 7), 2.0), "has floats from 2 to 2, where they must be from 0 to 1; scale them"),
        (np.full((5, 7), -0.1), "has floats from -0.1"),
        (np.full((5, 7), np.nan), "has floats from nan to nan"),
        (np.float32([[0, np.inf], [0, 1]]), "has floats from 0 to inf"),
        (torch.zeros(4, 5, 7), "is an array of shape [4, 5, 7]"),
        (torch.zeros(5, 7, dtype=torch.int64), "is an array of int64"),
    ],
)
def test_arrays_that_show_nothing_known_are_refused(array, said):
    assert f"the picture given {said}" in refused(array)


def test_reading_needs_pillow(monkeypatch):
    monkeypatch.setitem(sys.modules, "PIL.Image", None)
    with pytest.raises(MissingExtra, match=r"needs pillow, which is not installed: pip install 'manyheads\[images\]'"):
        read_image(numbers(5, 7))


# Names of files


def named(tmp_path: Path, *names: str) -> None:
    for name in names:
        written(tmp_path / name, b"")


def found(tmp_path: Path, *names: str) -> list[str]:
    return [path.relative_to(tmp_path).as_posix() for path in image_files([tmp_path / name for name in names])]


def test_folders_give_their_pictures_in_the_order_of_a_person(tmp_path):
    named(tmp_path, "10.png", "9.png", "a2.JPG", "A10.jpg", "b/1.gif", "b/.hidden.png", ".secret/1.png", "notes.txt")
    expected = ["9.png", "10.png", "a2.JPG", "A10.jpg", "b/1.gif"]
    assert found(tmp_path, ".") == expected
    assert found(tmp_path, "b", ".") == ["b/1.gif", *expected[:-1]]  # each once, where it is named first


def test_patterns_name_pictures_and_folders(tmp_path):
    named(tmp_path, "a/10.png", "a/9.png", "a/notes.txt", "b/1.jpg", "b/c/2.png", "c.png", "d [1].png")
    assert found(tmp_path, "a/*") == ["a/9.png", "a/10.png"]
    assert found(tmp_path, "?.png") == ["c.png"]
    assert found(tmp_path, "**/*.png") == ["a/9.png", "a/10.png", "b/c/2.png", "c.png", "d [1].png"]
    assert found(tmp_path, "[ab]") == ["a/9.png", "a/10.png", "b/1.jpg", "b/c/2.png"]
    assert found(tmp_path, "d [1].png") == ["d [1].png"]  # a file that is there is no pattern
    assert found(tmp_path, "a/notes.txt") == ["a/notes.txt"]  # what is named is read, or refused when it is


def test_links_are_followed_and_in_circles_but_once(tmp_path):
    named(tmp_path, "a/1.png", "other/2.png")
    (tmp_path / "a" / "up").symlink_to(tmp_path / "a", target_is_directory=True)
    (tmp_path / "a" / "other").symlink_to(tmp_path / "other", target_is_directory=True)
    (tmp_path / "a" / "same.png").symlink_to(tmp_path / "a" / "1.png")
    assert found(tmp_path, "a") == ["a/1.png", "a/other/2.png"]


def test_a_link_to_a_folder_around_it_brings_none_of_its_other_pictures(tmp_path):
    named(tmp_path, "all/cat/1.png", "all/cat/deeper/2.png", "all/dog/3.png", "elsewhere/4.png")
    for place, target in (("cat/up", "all"), ("cat/deeper/up", "all/cat"), ("cat/top", "."), ("cat/else", "elsewhere")):
        (tmp_path / "all" / place).symlink_to(tmp_path / target, target_is_directory=True)
    assert found(tmp_path, "all/cat") == ["all/cat/1.png", "all/cat/deeper/2.png", "all/cat/else/4.png"]


def test_names_of_nothing_are_refused(tmp_path):
    named(tmp_path, "a/notes.txt")
    for name, said in (
        ("none.png", "is not there; check the path"),
        ("a", "holds no picture (.png, .jpg and the like); name another"),
        ("*.png", "no picture (.png, .jpg and the like) is named as"),
        ("a/*", "no picture"),
    ):
        with pytest.raises(DataError) as error:
            image_files([tmp_path / name])
        assert said in str(error.value)
        assert str(tmp_path / name) in str(error.value)
    with pytest.raises(ConfigError, match="a list of files is needed, not one name"):
        image_files("a.png")
