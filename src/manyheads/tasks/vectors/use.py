"""Word vectors that are ready to use: what is near to a word, what is to one word as another is to a third."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from manyheads.core.errors import ConfigError, DataError
from manyheads.core.words import counted
from manyheads.data.readers.vectors import read_vectors
from manyheads.look.map import plane
from manyheads.models.vectors import WordVectorsModel
from manyheads.tasks.metrics import Scores, number_scores
from manyheads.tasks.task import Predictor
from manyheads.tasks.vectors.questions import read_analogies, read_similarities
from manyheads.tasks.vectors.recipe import Evaluation
from manyheads.text.words import WordTokenizer

COSINES_AT_ONCE = 2**26  # of questions with words: files have up to millions of these
COMPARED = 20_000  # words, the first of which others are looked for that are spelt alike


@dataclass(frozen=True)
class Neighbour:
    """A word, and the cosine of its vector with what was asked for."""

    word: str
    cosine: float


class WordVectors(Predictor):
    """Word vectors of a run, or of a file of word2vec or GloVe; words are found as they are, else in small letters."""

    what = "a set of word vectors"
    kinds = (WordVectorsModel,)
    scored_on = Evaluation
    commands = (
        "neighbours {model} cat",
        "analogy {model} man king woman",
        "look {model} --words king,queen,man,woman",
        "export-vectors {model} --out vectors.txt",
    )

    def __init__(self, model: WordVectorsModel, tokenizer: WordTokenizer):
        super().__init__(model, tokenizer)
        vocabulary = tokenizer.vocabulary()
        ids = torch.tensor(list(vocabulary.values()), dtype=torch.long, device=self.device)
        with torch.no_grad():
            self._fill(list(vocabulary), model(ids))

    @classmethod
    def load(cls, path: str | Path, *, device: str = "auto") -> Self:
        """Opens a run directory, a model directory, or a file of word2vec or GloVe, plain, .gz or .xz."""
        if not Path(path).is_file():
            return super().load(path, device=device)
        from manyheads.ops.device import pick_device

        read = read_vectors(Path(path))
        found = cls.__new__(cls)
        found.path, found.device = Path(path), pick_device(device)
        found._fill(read.words, torch.from_numpy(read.matrix).to(found.device))
        return found

    def _fill(self, words: list[str], vectors: Tensor) -> None:
        if not words:
            raise DataError("there are no words among these vectors; give others")
        self.words, self.vectors = words, vectors
        largest = vectors.abs().amax(dim=1, keepdim=True).clamp_min(torch.finfo(vectors.dtype).tiny)
        self.unit = functional.normalize(vectors / largest, dim=1)  # so that no square is too large or too small
        self._rows = {word: row for row, word in enumerate(words)}

    def __repr__(self) -> str:
        source = f" from {self.path}" if self.path else ""
        return f"WordVectors({len(self.words):,} words of {self.vectors.shape[1]} numbers{source})"

    def __len__(self) -> int:
        return len(self.words)

    def __contains__(self, word: str) -> bool:
        return self.place(word) is not None

    def __getitem__(self, word: str) -> np.ndarray:
        """The numbers of a word."""
        return self.vectors[self._row(word)].cpu().numpy()

    def place(self, word: str) -> int | None:
        """Which word it is among `words`; None where it is not there."""
        if not isinstance(word, str):
            raise ConfigError(f"{word!r} is given where {self.what} takes one word")
        row = self._rows.get(word)
        return self._rows.get(word.lower()) if row is None else row

    def _row(self, word: str) -> int:
        row = self.place(word)
        if row is None:
            alike = [each for each in self.words[:COMPARED] if abs(len(each) - len(word)) < 3]
            nearest = get_close_matches(word.lower(), alike)
            said = f"the nearest spellings are {', '.join(nearest)}" if nearest else "none is spelt alike"
            raise DataError(f"{word!r} is not among the {len(self):,} words; {said}")
        return row

    def _pointing(self, word: str) -> int:
        """The row of a word whose vector has a direction."""
        row = self._row(word)
        if not self.unit[row].any():
            raise DataError(f"the vector of {word!r} is nothing but zeros, near to no word; give another")
        return row

    def neighbours(self, word: str, count: int = 10) -> list[Neighbour]:
        """The words whose vectors point the most in the same direction, the nearest first."""
        row = self._pointing(word)
        return self._nearest(self.unit[row][None], [[row]], count)[0]

    def analogy(self, first: str, second: str, third: str, count: int = 10) -> list[Neighbour]:
        """What is to `third` as `second` is to `first`: nearest to second − first + third, without these three."""
        rows = [self._pointing(word) for word in (first, second, third)]
        return self._nearest(self._asked([rows]), [rows], count)[0]

    def _asked(self, rows: Sequence[Sequence[int]]) -> Tensor:
        """second − first + third, of vectors of the length 1 (Mikolov et al. 2013)."""
        first, second, third = (self.unit[torch.tensor(each, device=self.device)] for each in zip(*rows))
        return functional.normalize(second - first + third, dim=1)

    def _nearest(self, asked: Tensor, without: Sequence[Sequence[int]], count: int) -> list[list[Neighbour]]:
        if type(count) is not int or count < 1:
            raise ConfigError(f"{count!r} words cannot be given; ask for a whole number from 1 on")
        cosines = asked @ self.unit.T
        for line, rows in enumerate(without):
            cosines[line, list(rows)] = -torch.inf
        best = cosines.topk(min(count, max(len(self) - max(map(len, without)), 0)), dim=1)
        both = zip(best.indices.tolist(), best.values.tolist())
        return [[Neighbour(self.words[row], value) for row, value in zip(*line)] for line in both]

    def plane(self, words: Iterable[str]) -> tuple[np.ndarray, float]:
        """Words as points in the plane, [words, 2], by the two directions in which they differ most, and the share of
        all their differences that these have."""
        if isinstance(words, str):
            raise ConfigError("a map takes a list of words, not one string")
        words = list(words)
        if len(words) < 3:
            raise ConfigError(f"a map of {counted(len(words), 'word')} says nothing; give three or more")
        return plane(self.unit[[self._row(word) for word in words]].cpu().numpy())

    def evaluate(self, asked: Evaluation) -> Scores:
        """How many analogies are right, and how cosines follow what people said; of words that are there."""
        self.given((*asked.analogies, *asked.similarities), "--analogies or --similarities")
        numbers: dict[str, Any] = {}
        lines: list[str] = []
        for name in asked.analogies:
            found = self._scored_analogies(Path(name))
            numbers[name] = found
            share = f"of {found['known']:,} questions; {found['questions']:,} in the file"
            lines.append(f"analogies    {100 * found['accuracy']:6.2f} %   {share}   {name}")
            sections = found["sections"].items()
            lines += [f"  {100 * right / known:6.2f} %  {section} ({known:,})" for section, (right, known) in sections]
        for name in asked.similarities:
            found = numbers[name] = self._scored_similarities(Path(name))
            share = f"Spearman, of {found['known']:,} pairs; {found['pairs']:,} in the file"
            lines.append(f"similarity   {found['spearman']:6.4f}     {share}   {name}")
        return Scores(numbers, "\n".join(lines))

    def _scored_analogies(self, path: Path) -> dict[str, Any]:
        questions = read_analogies(path)
        known = [(section, [self.place(word) for word in words]) for section, words in questions]
        known = [(section, rows) for section, rows in known if None not in rows]
        if not known:
            raise DataError(f"{path}: none of its {len(questions):,} questions has four words that have vectors")
        sections: dict[str, list[int]] = {}
        at_once = max(1, COSINES_AT_ONCE // len(self))
        for begin in range(0, len(known), at_once):
            part = known[begin : begin + at_once]
            asked: Any = [rows[:3] for _, rows in part]
            for (section, rows), best in zip(part, self._nearest(self._asked(asked), asked, 1)):
                counts = sections.setdefault(section, [0, 0])
                counts[0] += bool(best) and best[0].word == self.words[rows[3] or 0]
                counts[1] += 1
        right = sum(right for right, _ in sections.values())
        return {"accuracy": right / len(known), "known": len(known), "questions": len(questions), "sections": sections}

    def _scored_similarities(self, path: Path) -> dict[str, Any]:
        pairs = read_similarities(path)
        known = [(self.place(one), self.place(other), score) for one, other, score in pairs]
        known = [(one, other, score) for one, other, score in known if one is not None and other is not None]
        if len(known) < 2:
            raise DataError(f"{path}: {len(known)} of its {len(pairs):,} pairs have vectors; there must be two or more")
        one, other, scores = zip(*known)
        cosines = (self.unit[list(one)] * self.unit[list(other)]).sum(dim=1).tolist()
        return {"spearman": number_scores(cosines, scores).spearman, "known": len(known), "pairs": len(pairs)}


PREDICTOR = WordVectors
