"""Embedders: a model directory in, one vector for each text out.  Training one is in `similarity_training`."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from manyheads.core.errors import ConfigError
from manyheads.core.log import warn
from manyheads.data.example_batches import grouped, padded
from manyheads.interop.encoders import load_embedder
from manyheads.interop.sentence import is_sentence_model
from manyheads.models.bert import BertEmbedder
from manyheads.ops.device import pick_device
from manyheads.tasks.preparing import Wrapping
from manyheads.tasks.scores import NumberScores, number_scores
from manyheads.text.encoder import EncoderTokenizer

TEXTS_AT_ONCE = 8_192
# Tokens in one batch: on a CPU what stays in its caches, elsewhere what keeps it busy.
CPU_TOKENS_AT_ONCE, TOKENS_AT_ONCE = 2_048, 65_536


class Embedder:
    """A model that gives each text a vector; texts that mean the same have vectors with a cosine near 1."""

    def __init__(self, model: BertEmbedder, tokenizer: EncoderTokenizer):
        self.model, self.tokenizer = model.eval(), tokenizer
        self.width, self.longest = model.config.width, model.longest
        self.device = next(model.parameters()).device
        self._wrapping = Wrapping(tokenizer, model.longest)
        self._warned = False

    @classmethod
    def load(cls, path: str | Path, *, device: str = "auto", pooling: str | None = None) -> "Embedder":
        """Opens a run directory, a sentence-transformers directory or any BERT, of which `pooling` makes one vector.

        What a directory says of its own pooling cannot be changed: other vectors than it was trained for mean little.
        """
        path = Path(path)
        model, tokenizer = load_embedder(path)
        if pooling is not None and pooling != model.pooling:
            if any(is_sentence_model(each) for each in (path, path / "model")):
                raise ConfigError(f"{path} was trained with the pooling {model.pooling}, not {pooling}; leave it away")
            model = BertEmbedder(model.body, pooling, model.normalised, model.longest)
        return cls(model.to(pick_device(device)), tokenizer)

    def __call__(self, texts: Sequence[str]) -> np.ndarray:
        """[texts, width], float32; many at a time give each what it would get alone."""
        chunks = list(self.in_chunks(texts))
        if len(chunks) == 1:
            return chunks[0]
        return np.concatenate([np.empty((0, self.width), dtype=np.float32), *chunks])

    def in_chunks(self, texts: Sequence[str]) -> Iterator[np.ndarray]:
        """The vectors of the texts in their order, some thousands at a time: for more than memory should hold."""
        refuse_no_texts(texts)
        self._wrapping.cut = 0
        for first in range(0, len(texts), TEXTS_AT_ONCE):
            rows = self._wrapping.rows([(text,) for text in texts[first : first + TEXTS_AT_ONCE]])
            yield self._vectors(rows).cpu().numpy()
        cut = self._wrapping.cut
        if cut and not self._warned:
            self._warned = True
            warn(
                f"{cut:,} of {len(texts):,} texts are longer than the {self.longest} tokens that the model reads and "
                "lose their end"
            )

    @torch.inference_mode()
    def _vectors(self, rows: list[list[int]]) -> Tensor:
        """The vector of each row, computed with others of about its length."""
        tokens = CPU_TOKENS_AT_ONCE if self.device.type == "cpu" else TOKENS_AT_ONCE
        vectors = torch.empty(len(rows), self.width, device=self.device)
        for places in grouped([len(row) for row in rows], tokens):
            ids, lengths = padded([rows[place] for place in places])
            vectors[places] = self.model(ids.to(self.device), lengths.to(self.device)).float()
        return vectors

    def similarity(self, first: Sequence[str], second: Sequence[str]) -> np.ndarray:
        """[first, second]: the cosine of the vectors of each of the first texts with those of all second texts."""
        for texts in (first, second):
            refuse_no_texts(texts)
        vectors = unit(self([*first, *second]))
        return vectors[: len(first)] @ vectors[len(first) :].T

    def nearest(
        self, text: str, texts: Sequence[str], count: int = 10, *, show: Callable[[int], object] = lambda compared: None
    ) -> list[tuple[float, int]]:
        """The cosine and the place of the texts most similar to one, the best first; of equals the first comes first.

        `show` is told how many have been compared.
        """
        if count < 1:
            raise ConfigError(f"{count} texts are asked for; ask for 1 or more")
        refuse_no_texts(texts)
        wanted, cosines = None, []
        for vectors in map(unit, self.in_chunks([text, *texts])):
            wanted = vectors[0] if wanted is None else wanted
            cosines += (vectors @ wanted).tolist()
            show(len(cosines) - 1)
        _, *cosines = cosines  # that of the text with itself
        return [(cosines[place], place) for place in np.argsort(-np.array(cosines), kind="stable")[:count].tolist()]


def refuse_no_texts(texts: Sequence[str]) -> None:
    """A single string would be taken for a list of its letters."""
    if isinstance(texts, str):
        raise ConfigError("an embedder takes a list of texts, not one string")
    for text in texts:
        if not isinstance(text, str):
            raise ConfigError(f"{text!r:.60} is given where an embedder takes a text")


def unit(vectors: np.ndarray) -> np.ndarray:
    """The vectors [n, width] with the length 1, so that products of them are cosines."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.maximum(lengths, np.finfo(np.float32).tiny)


def score_pairs(embedder: Embedder, pairs: Sequence[tuple[str, str]], scores: Sequence[float]) -> NumberScores:
    """How well the cosines of pairs of texts follow their scores; only correlations do not depend on the scale."""
    vectors = unit(embedder([*(first for first, _ in pairs), *(second for _, second in pairs)]))
    first, second = vectors[: len(pairs)], vectors[len(pairs) :]
    return number_scores((first * second).sum(axis=1), scores)
