"""Images with texts: what reads both, and batches of them.  Shapes:  B rows  S question ids  T target ids"""

from pathlib import Path
from typing import Self

import numpy as np
import torch

from manyheads.data.batches import Batch, Batches, padded, shuffling, together
from manyheads.data.images import ImageProcessor
from manyheads.data.ragged import Store
from manyheads.text.tokenizer import Tokenizer


class ImageTextProcessor:
    """What reads images and what reads texts, side by side in one directory, as transformers keeps them."""

    def __init__(self, images: ImageProcessor, text: Tokenizer):
        self.images, self.text = images, text
        self.pad, self.start, self.end = text.pad, text.start, text.end

    @classmethod
    def load(cls, path: Path) -> Self:
        """Opens the directory that holds both."""
        return cls(ImageProcessor.load(path), Tokenizer.load(path))

    def save(self, directory: Path, length: int | None = None) -> None:
        """Writes preprocessor_config.json, tokenizer.json and what goes with it."""
        self.images.save(directory)
        self.text.save(directory, length)

    def __len__(self) -> int:
        return len(self.text)


def image_text_batches(
    pixels: Store, texts: Store, processor: ImageProcessor, *, size: int, pad: int, seed: int, shuffle: bool = True
) -> Batches:
    """Batches of `size` texts: `pixels`, [B, side, side, channels] in uint8, `target`, [B, T], without a start; and
    `question`, [B, S], where there are questions.

    Texts of one image come together, long ones with short ones: in batches of one length relations were not learned.

    `texts` has a row for each text, whose `image` is the number of a row of `pixels`.
    """
    shape = (processor.size, processor.size, processor.channels)
    columns = [name for name in ("question", "target") if name in texts]

    def collate(rows: np.ndarray) -> Batch:
        images = np.stack([pixels["pixels"][number] for number in texts["image"][rows].tolist()])
        ids = {name: padded([texts[name][row] for row in rows.tolist()], pad) for name in columns}
        found = {name: each for name, (each, _) in ids.items()}
        tokens = int(ids["target"][1].sum())
        return Batch(tokens, pixels=torch.from_numpy(images.reshape(len(rows), *shape)), **found)

    return Batches(lambda epoch: together(texts["image"], size, shuffling(seed, epoch, shuffle)), collate)
