"""Images as a model reads them: as transformers would, in order, a few at a time, whatever is among them."""

import json
import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from manyheads.core.errors import CheckpointError, DataError
from manyheads.data import images
from manyheads.data.images import FILE, READ_AHEAD, ImageProcessor, image_batches, in_threads
from manyheads.data.ragged import Ragged, Store

Image = pytest.importorskip("PIL.Image", reason="pillow is not installed: pip install 'manyheads[images]'")


@pytest.fixture(scope="module")
def photos() -> list:
    """A temple and a flower, 640 × 427 pixels each, that ship with scikit-learn."""
    datasets = pytest.importorskip(
        "sklearn.datasets", reason="scikit-learn is not installed: pip install 'manyheads[images]'"
    )
    folder = Path(datasets.__file__).parent / "images"
    return [Image.open(folder / name).convert("RGB") for name in ("china.jpg", "flower.jpg")]


def numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(1).integers(0, 256, shape, dtype=np.uint8)


def as_given(processor: ImageProcessor, image) -> torch.Tensor:
    return processor.normalised(torch.from_numpy(processor.pixels(image).copy())[None])


# As transformers


USUAL = ImageProcessor(size=35)
PROCESSORS = {
    "usual": USUAL,
    "larger than the picture": replace(USUAL, size=500),
    "as large as a side": replace(USUAL, size=427),
    "of ImageNet": replace(USUAL, size=224, mean=(0.485, 0.456, 0.406), deviation=(0.229, 0.224, 0.225)),
    "nearest": replace(USUAL, resample=0),
    "Lanczos": replace(USUAL, resample=1),
    "bicubic": replace(USUAL, resample=3),
    "box": replace(USUAL, resample=4),
    "Hamming": replace(USUAL, resample=5),
    "grey": ImageProcessor.of(35, 1),
    "grey, shifted": ImageProcessor(size=28, channels=1, mean=(0.1307,), deviation=(0.3081,), resample=3),
}


@pytest.mark.parametrize("kind", PROCESSORS)
def test_a_photo_becomes_the_numbers_that_transformers_makes_of_it(tmp_path, photos, kind):
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    processor = PROCESSORS[kind]
    processor.save(tmp_path)
    theirs = transformers.ViTImageProcessor.from_pretrained(tmp_path)
    modes = ("RGB", "L", "P", "CMYK") if processor.channels == 3 else ("L",)
    for photo in photos:
        for mode in modes:
            image = photo.convert(mode)
            expected = theirs(image, return_tensors="pt").pixel_values
            assert expected.shape == (1, processor.channels, processor.size, processor.size)
            assert_close(as_given(processor, image), expected, atol=1e-3, rtol=0)
            lighter, coarser = (each - 0.1 for each in processor.mean), 0 if processor.resample else 3
            for other in ({"mean": (*lighter,)}, {"resample": coarser}):  # and the test can tell
                assert not torch.allclose(as_given(replace(processor, **other), image), expected, atol=1e-2)


def test_what_transformers_writes_opens_here_and_what_is_written_here_opens_here_again(tmp_path):
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    for processor in PROCESSORS.values():
        processor.save(tmp_path)
        assert ImageProcessor.load(tmp_path) == ImageProcessor.load(tmp_path / FILE) == processor
        if processor.channels == 3:
            transformers.ViTImageProcessor.from_pretrained(tmp_path).save_pretrained(tmp_path)
            assert ImageProcessor.load(tmp_path) == processor
    transformers.ViTImageProcessor().save_pretrained(tmp_path)
    assert ImageProcessor.load(tmp_path) == ImageProcessor()


def test_older_files_say_size_in_one_number(tmp_path):
    table = {"do_normalize": True, "do_resize": True, "image_mean": [0.5] * 3, "image_std": [0.5] * 3, "size": 35}
    (tmp_path / FILE).write_text(json.dumps({"feature_extractor_type": "ViTFeatureExtractor", "resample": 2, **table}))
    assert ImageProcessor.load(tmp_path) == USUAL


@pytest.mark.parametrize("name", ["do_center_crop", "do_pad", "do_flip_channel_order"])
def test_steps_that_are_none_of_a_vit_are_refused(tmp_path, name):
    USUAL.save(tmp_path)
    table = json.loads((tmp_path / FILE).read_text())
    (tmp_path / FILE).write_text(json.dumps({**table, name: False}))
    assert ImageProcessor.load(tmp_path) == USUAL
    (tmp_path / FILE).write_text(json.dumps({**table, name: True}))
    with pytest.raises(CheckpointError, match=f"says {name} true"):
        ImageProcessor.load(tmp_path)


def test_a_directory_without_the_file_is_refused(tmp_path):
    with pytest.raises(CheckpointError, match=f"{tmp_path} has no {FILE}, which says how images are read"):
        ImageProcessor.load(tmp_path)


# Pixels


@pytest.mark.parametrize("channels", [1, 3])
def test_pixels_have_the_shape_of_the_model_whatever_the_image_is(channels):
    processor = ImageProcessor.of(7, channels)
    for shape in ((7, 7), (5, 9), (5, 9, 3), (7, 7, 4), (2, 2)):
        pixels = processor.pixels(numbers(*shape))
        assert (pixels.shape, pixels.dtype) == ((7, 7, channels), np.uint8)
    grey = numbers(7, 7)
    assert (processor.pixels(grey) == grey[..., None]).all()


def test_numbers_go_from_minus_one_to_one():
    black_and_white = torch.from_numpy(np.stack([np.zeros((1, 2, 3), np.uint8), np.full((1, 2, 3), 255, np.uint8)]))
    given = ImageProcessor.of(2, 3).normalised(black_and_white)
    assert given.shape == (2, 3, 1, 2)
    assert_close(given[:, 0, 0, 0], torch.tensor([-1.0, 1.0]))


# Many


def test_images_come_in_order_and_one_that_cannot_be_read_says_so_in_its_place(tmp_path, monkeypatch):
    monkeypatch.setattr(images.os, "cpu_count", lambda: 3)
    monkeypatch.setattr(images, "READ_AHEAD", 2)
    processor = ImageProcessor.of(5, 1)
    sources: list = [np.full((5, 5), number, np.uint8) for number in range(40)]
    (tmp_path / "b.png").write_bytes(b"no picture")
    sources[7], sources[8], sources[39] = tmp_path / "b.png", tmp_path / "none.png", np.zeros((1, 1), np.uint8)
    found = [*processor.many(iter(sources))]
    assert len(found) == 40
    for number, pixels in enumerate(found):
        if number in (7, 8, 39):
            assert isinstance(pixels, DataError)
            assert ["is no picture", "is not there", "1 × 1 pixels"][(7, 8, 39).index(number)] in str(pixels)
        else:
            assert (pixels == number).all()
    assert [*processor.many([])] == []


def test_no_more_is_read_than_a_few_ahead(monkeypatch):
    monkeypatch.setattr(images.os, "cpu_count", lambda: 3)
    taken = 0

    def sources():
        nonlocal taken
        for number in range(1000):
            taken += 1
            yield number

    found = in_threads(lambda number: number + 1, sources())
    assert taken == 0  # nothing before somebody asks
    for number in range(50):
        assert next(found) == number + 1
        assert taken <= number + 3 * READ_AHEAD
    assert taken > 50  # and some were read ahead
    found.close()
    assert taken < 100


def test_threads_end_with_whom_they_read_for(monkeypatch):
    monkeypatch.setattr(images.os, "cpu_count", lambda: 3)
    before = threading.active_count()

    def broken(number: int) -> int:
        if number == 20:
            raise ZeroDivisionError(number)  # a mistake, not an image
        return number

    with pytest.raises(ZeroDivisionError, match="20"):
        list(in_threads(broken, range(1000)))
    assert threading.active_count() == before


def test_threads_work_beside_each_other(monkeypatch):
    """Three of them meet: one alone would wait for the others for ever."""
    monkeypatch.setattr(images.os, "cpu_count", lambda: 3)
    meeting = threading.Barrier(3, timeout=60)

    def together(number: int) -> int:
        meeting.wait()
        return number

    assert [*in_threads(together, range(12))] == [*range(12)]


# Batches


def test_batches_hold_each_image_with_its_label_once_an_epoch():
    count, shape = 11, (3, 5, 2)
    pixels = numbers(count, *shape)
    store = Store({"pixels": Ragged.of_equal(pixels.reshape(count, -1)), "labels": np.arange(count)})
    for shuffle in (False, True):
        batches = image_batches(store, shape, size=4, seed=3, shuffle=shuffle)
        order = []
        for batch in batches.epoch(0):
            assert (batch.pixels.numpy() == pixels[batch.labels]).all()
            assert batch.pixels.dtype == torch.uint8
            order += batch.labels.tolist()
        assert sorted(order) == [*range(count)]
        assert (order == [*range(count)]) == (not shuffle)
