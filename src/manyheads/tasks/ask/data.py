"""Questions about images in the sample; all else is as with captions."""

from manyheads.data.readers.image_texts import ImageTexts
from manyheads.data.shapes import shapes

COLUMNS = ("a question", "its answer")  # behind the path of an image, for a person


def questions_of_shapes(part: str) -> ImageTexts:
    """A part of the sample: pictures of coloured shapes, with a line for each question about them."""
    found = shapes(part)
    return ImageTexts(list(found.pictures), list(found.questions))
