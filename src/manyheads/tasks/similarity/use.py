"""Embedders: a model directory in, one vector for each text out; how that is scored and looked into."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Self

import numpy as np
import torch
from torch import Tensor

from manyheads.core.errors import ConfigError, DataError
from manyheads.core.log import warn
from manyheads.interop.directory import load_embedder
from manyheads.interop.sentence import is_sentence_model
from manyheads.look.grid import of_numbers
from manyheads.look.walk import Section
from manyheads.models.bert import BertEmbedder
from manyheads.ops.device import pick_device
from manyheads.tasks.classify.use import numbers_of, wrapped_forward
from manyheads.tasks.inside.conclusions import concluded
from manyheads.tasks.inside.forward import ForwardPass
from manyheads.tasks.inside.importance import Measure
from manyheads.tasks.labelled import EncoderPredictor, Wrapping, example_files, outputs_of
from manyheads.tasks.metrics import NumberScores, Scores, number_scores, number_table
from manyheads.tasks.similarity.recipe import Evaluation
from manyheads.tasks.texts import refuse_no_text, text_pairs, texts_of
from manyheads.text.encoder import EncoderTokenizer

WHO = "an embedder"
TEXTS_AT_ONCE = 8_192
# Tokens in one batch: on a CPU what stays in its caches, elsewhere what keeps it busy.
CPU_TOKENS_AT_ONCE, TOKENS_AT_ONCE = 2_048, 65_536


class Embedder(EncoderPredictor):
    """A model that gives each text a vector; texts that mean the same have vectors with a cosine near 1."""

    what = WHO
    kinds = (BertEmbedder,)
    scored_on = Evaluation
    commands = (
        "embed {model} in.txt --out vectors.npy",
        "similar {model} in.txt --to 'a text'",
        "train classify --model {model} …",
    )

    def __init__(self, model: BertEmbedder, tokenizer: EncoderTokenizer):
        super().__init__(model, tokenizer)
        self.width, self.longest = model.config.width, model.longest
        self._wrapping = Wrapping(tokenizer, model.longest)
        self._warned = False

    @classmethod
    def load(cls, path: str | Path, *, device: str = "auto", pooling: str | None = None) -> Self:
        """Opens a run directory, a sentence-transformers directory or any BERT, of which `pooling` makes one vector.

        What a directory says of its own pooling cannot be changed: other vectors than it was trained for mean little.
        """
        path = Path(path)
        model, tokenizer = load_embedder(path)
        if pooling is not None and pooling != model.pooling:
            if any(is_sentence_model(each) for each in (path, path / "model")):
                raise ConfigError(f"{path} was trained with the pooling {model.pooling}, not {pooling}; leave it away")
            model = BertEmbedder(model.body, pooling, model.normalised, model.longest)
        found = cls(model.to(pick_device(device)), tokenizer)
        found.path = path
        return found

    def __call__(self, texts: Iterable[str]) -> np.ndarray:
        """[texts, width], float32; many at a time give each what it would get alone."""
        chunks = list(self.in_chunks(texts))
        if len(chunks) == 1:
            return chunks[0]
        return np.concatenate([np.empty((0, self.width), dtype=np.float32), *chunks])

    def in_chunks(self, texts: Iterable[str]) -> Iterator[np.ndarray]:
        """The vectors of the texts in their order, some thousands at a time: for more than memory should hold."""
        texts, self._wrapping.cut = texts_of(texts, WHO), 0
        tokens = CPU_TOKENS_AT_ONCE if self.device.type == "cpu" else TOKENS_AT_ONCE
        for first in range(0, len(texts), TEXTS_AT_ONCE):
            rows = self._wrapping.rows([(text,) for text in texts[first : first + TEXTS_AT_ONCE]])
            yield torch.stack(outputs_of(self.model, rows, tokens)).numpy()
        cut = self._wrapping.cut
        if cut and not self._warned:
            self._warned = True
            which = f"texts longer than the {self.longest} tokens that the model reads, which lose their end"
            warn(f"{which}: {cut:,} of {len(texts):,}")

    def similarity(self, first: Iterable[str], second: Iterable[str]) -> np.ndarray:
        """[first, second]: the cosine of the vectors of each of the first texts with those of all second texts."""
        first, second = texts_of(first, WHO), texts_of(second, WHO)
        vectors = unit(self([*first, *second]))
        return vectors[: len(first)] @ vectors[len(first) :].T

    def nearest(
        self, text: str, texts: Iterable[str], count: int = 10, *, show: Callable[[int], object] = lambda compared: None
    ) -> list[tuple[float, int]]:
        """The cosine and the place of the texts most similar to one, the best first; of equals the first comes first.

        `show` is told how many have been compared.
        """
        if count < 1:
            raise ConfigError(f"{count} texts are asked for; ask for 1 or more")
        refuse_no_text(text, WHO)
        texts = texts_of(texts, WHO)
        wanted, cosines = None, []
        for vectors in map(unit, self.in_chunks([text, *texts])):
            wanted = vectors[0] if wanted is None else wanted
            cosines += (vectors @ wanted).tolist()
            show(len(cosines) - 1)
        _, *cosines = cosines  # that of the text with itself
        return [(cosines[place], place) for place in np.argsort(-np.array(cosines), kind="stable")[:count].tolist()]

    def evaluate(self, asked: Evaluation) -> Scores:
        """Correlation of cosines with scores; a cosine is on no scale of scores, so that there is no error."""
        scores = score_pairs(self, *self._scored_pairs(asked))
        numbers = {"pearson": scores.pearson, "spearman": scores.spearman, "examples": scores.examples}
        return Scores(numbers, number_table(scores, error=False))

    def measure(self, asked: Evaluation, by: str | None) -> Measure:
        pairs = self._scored_pairs(asked)
        spearman = lambda: 100 * score_pairs(self, *pairs).spearman  # noqa: E731
        return Measure("Spearman", self.model, spearman, more_is_better=True)

    def _scored_pairs(self, asked: Evaluation) -> tuple[list[tuple[str, str]], list[float]]:
        """Pairs of texts and their numbers."""
        files = example_files(self.given(asked.data), asked.columns, "dev")
        for file in files:
            if file.form != "pair":
                raise DataError(
                    f"{file.path} is of the form {file.form}; similarity is scored on two texts and a number"
                )
        return [(each.texts[0], each.texts[1]) for file in files for each in file.examples], numbers_of(files)

    def forward(self, text: str, second: str | None, tokens: int) -> ForwardPass:
        return wrapped_forward(self, text, second, self.longest)

    def conclusion(self, read: ForwardPass, output: Tensor, count: int) -> Section:
        numbers = output.float().cpu().numpy()
        note = f"Its length is {float(output.float().norm()):.4f}."
        columns = [str(place) for place in range(1, numbers.shape[1] + 1)]
        formula = {"mean": "the mean of the states", "cls": "the first state", "max": "the largest of each column"}
        made = formula[self.model.pooling] + (", divided by its length" if self.model.normalised else "")
        grid = of_numbers("vector", numbers, [""], columns, formula=made, note=note)
        return concluded("One vector stands for the whole text.", grid)


def unit(vectors: np.ndarray) -> np.ndarray:
    """The vectors [n, width] with the length 1, so that products of them are cosines."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.maximum(lengths, np.finfo(np.float32).tiny)


def score_pairs(embedder: Embedder, pairs: Iterable[tuple[str, str]], scores: Sequence[float]) -> NumberScores:
    """How well the cosines of pairs of texts follow their scores; only correlations do not depend on the scale."""
    pairs = list(text_pairs(pairs, WHO))
    vectors = unit(embedder([*(first for first, _ in pairs), *(second for _, second in pairs)]))
    first, second = vectors[: len(pairs)], vectors[len(pairs) :]
    return number_scores((first * second).sum(axis=1), scores)


PREDICTOR = Embedder
