"""The sample of pictures that ships with the package: its bytes, its parts, and tests that training does not hold."""

import hashlib
import re
import subprocess
import sys

import numpy as np
import pytest

from manyheads.core.errors import ConfigError
from manyheads.data.shapes import PARTS, PIXELS, TEXTS, shapes

CHECKSUMS = {
    PIXELS: "c5bfed34bd02f6e3582b303e6c47b74a0c5a2deb555b0e06e601e7d8b3729b02",
    TEXTS: "e3425936cefe68590e7b6e11c5d1c29cb268f12eca4f20f3182fc5d87833325b",
}
SIZES = {"train": 12_000, "valid": 500, "seen": 500, "unseen": 500}
WITHHELD = "green circle|yellow square|blue triangle|red star|brown diamond|pink cross|purple square|black triangle"


@pytest.fixture(scope="module")
def sample():
    return {part: shapes(part) for part in PARTS}


def test_the_files_keep_their_bytes():
    assert {file: hashlib.sha256(file.read_bytes()).hexdigest() for file in CHECKSUMS} == CHECKSUMS
    assert sum(file.stat().st_size for file in CHECKSUMS) < 1_500_000


def test_the_files_are_read_when_asked_for_and_need_no_torch_and_no_pillow():
    script = """
import sys
opened = []
sys.addaudithook(lambda event, arguments: opened.append(str(arguments[0])) if event == "open" else None)
from manyheads.data.shapes import PIXELS, TEXTS, shapes
assert str(TEXTS) not in opened
part = shapes("seen")
assert str(TEXTS) in opened and str(PIXELS) not in opened
assert part.pictures is part.pictures
assert opened.count(str(PIXELS)) == 1
assert not {"torch", "PIL"} & set(sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_each_part_has_its_pictures_sentences_and_questions(sample):
    for part, size in SIZES.items():
        assert sample[part].pictures.shape == (size, 48, 48, 3)
        assert sample[part].pictures.dtype == np.uint8
        assert len(sample[part].captions) == size
        assert {len(sentences) for sentences in sample[part].captions} == ({1, 2} if part == "train" else {1, 2, 6})
        numbers = [number for number, _, _ in sample[part].questions]
        assert numbers == sorted(numbers)
        assert set(numbers) == set(range(size))
        assert all(question.endswith("?") and answer for _, question, answer in sample[part].questions)


def test_no_picture_comes_twice(sample):
    pictures = [image.tobytes() for part in sample.values() for image in part.pictures]
    assert len(set(pictures)) == len(pictures) == sum(SIZES.values())


def test_what_is_withheld_is_said_of_each_unseen_picture_and_of_no_other(sample):
    for name, part in sample.items():
        told = [" ".join(sentences) for sentences in part.captions]
        assert all(bool(re.search(WITHHELD, text)) == (name == "unseen") for text in told)
        asked = [f"{question} {answer}" for _, question, answer in part.questions]
        assert any(re.search(WITHHELD, text) for text in asked) == (name == "unseen")


def test_a_picture_is_light_and_its_colours_are_those_that_are_said(sample):
    red, blue = np.array([220, 30, 30]), np.array([30, 80, 220])
    for part in sample.values():
        for image, sentences in list(zip(part.pictures, part.captions))[::7]:
            assert (image[0] > 200).all()
            for name, ink in (("red", red), ("blue", blue)):
                assert (image == ink).all(axis=2).any() == (name in sentences[0])


def test_another_part_is_refused_in_a_sentence():
    with pytest.raises(ConfigError, match="no part 'test'; name one of train, valid, seen, unseen"):
        shapes("test")
