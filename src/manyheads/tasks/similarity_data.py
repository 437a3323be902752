"""The data of an embedder: pairs of texts that belong together, or pairs with a score of how much they do."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from manyheads.core.errors import ConfigError, DataError
from manyheads.core.log import say, warn
from manyheads.data.batches import Batches
from manyheads.data.examples import is_scored, similarity_batches, similarity_store
from manyheads.data.ragged import Store
from manyheads.data.readers.corpus import OBJECTS, TABLES, json_in, kind_of, read_lines, read_pairs
from manyheads.data.readers.example_layouts import rows_of, texts_in
from manyheads.data.readers.examples import COMMAS, Example, ExampleFile, read_examples
from manyheads.models.bert import POOLINGS
from manyheads.tasks.preparing import Wrapping, as_number, held_out, prepared, with_dev
from manyheads.text.encoder import EncoderTokenizer

SCORES = {"label", "score", "quality"}  # what a column of scores is called
TOGETHER = (("anchor", "positive"), ("query", "positive"))  # what two texts are called only where they have no score
SHORTEST = 5  # tokens of a text that leave place for words between the marks


@dataclass(frozen=True, kw_only=True)
class SimilarityData:
    """Which pairs an embedder learns from, and how texts become vectors."""

    pairs: tuple[str, ...] = ()
    """Files with pairs, plain, .gz or .xz: .tsv or .jsonl with two texts, or .tsv, .csv or .jsonl with two texts and a
    score; or folders with train.tsv and dev.tsv."""
    valid: tuple[str, ...] = ()
    """Pairs for validation; without any, the dev.tsv of folders, else every 10th is held out, up to 1,000."""
    columns: tuple[str, ...] = ()
    """Names or numbers (from 1) of the columns of a .tsv, a score last if there is one; unset: what is there."""
    largest: float | None = None
    """The score that a cosine of 1 stands for; unset: the largest of the training files."""
    pooling: str = "mean"
    """What is made of the vectors of a text's tokens: mean, cls (the first) or max (the largest of each number)."""
    normalised: bool = True
    """Whether the model gives vectors of the length 1; it learns the same either way."""
    longest: int | None = None
    """How many tokens of a text are read; unset: as many as the model can."""
    vocabulary: int = 8000
    """Tokens of the tokenizer that is trained, where no pre-trained model brings its own."""
    lowercase: bool = True
    """Whether the tokenizer that is trained makes capitals small."""
    examples: int = 64
    """Pairs in a batch; without scores, what each text is compared with."""

    def __post_init__(self):
        if self.valid and not self.pairs:
            raise ConfigError("data.valid is given without data.pairs; give both or neither")
        if self.columns and len(self.columns) not in (2, 3):
            raise ConfigError(
                f"data.columns names {len(self.columns)}; it must name two texts, and a score last if any"
            )
        if self.largest is not None and not 0 < self.largest < math.inf:
            raise ConfigError(f"data.largest is {self.largest}; it must be above 0")
        if self.pooling not in POOLINGS:
            raise ConfigError(f"data.pooling is '{self.pooling}'; it can be {', '.join(POOLINGS)}")
        for name, least in (("examples", 1), ("longest", SHORTEST)):
            if getattr(self, name) is not None and getattr(self, name) < least:
                raise ConfigError(f"data.{name} is {getattr(self, name)}; it must be at least {least}")


@dataclass(frozen=True)
class Pairs:
    """Pairs of texts, all with a score or all without."""

    texts: list[tuple[str, ...]]
    scores: list[float] | None

    def __len__(self) -> int:
        return len(self.texts)


@dataclass(frozen=True)
class Found:
    """What the files of a run hold."""

    train: Pairs
    valid: Pairs
    largest: float
    """What scores are divided by."""


def read_all(data: SimilarityData, *, quiet: bool = False) -> Found:
    """Reads every pair, and refuses what cannot be learned from."""
    if not data.pairs:
        raise ConfigError("there are no pairs to learn from; give a .tsv or .jsonl file with --pairs")
    files = [_read(Path(name), data.columns, "train") for name in data.pairs]
    train = _joined(files, data.largest)
    largest = data.largest or max(train.scores or [1.0])
    if data.examples < 2 and train.scores is None:
        raise ConfigError("data.examples is 1, so that no text is compared with another's; raise it")
    names = data.valid or with_dev(data.pairs)
    others = [_read(Path(name), data.columns, "dev") for name in names]
    valid = _joined(others) if others else None
    for some, pairs in ((files, train), (others, valid)):
        if pairs and (same := _sameness(pairs)):
            raise DataError(f"{some[0].path}: all pairs have {same}; there must be others to tell it from")
    train, valid = (train, valid) if valid else _held_out(train)
    if not quiet:
        _tell([*files, *others], train, largest)
    return Found(train, valid, largest)


def _read(path: Path, columns: tuple[str, ...], part: str) -> ExampleFile:
    """The pairs of a file, with an empty label where they have no score."""
    without = _without_scores(path, columns)
    if without is None:
        file = read_examples(path, columns, part)
        if file.form != "pair":
            raise DataError(
                f"{file.path} is of the form {file.form}; give pairs of texts, or name the columns of two texts, and "
                "of their score if there is one, with --columns"
            )
        return file
    fields, header = without
    examples, empty = [], []
    for number, texts in enumerate(read_pairs(pairs=[path], fields=fields), start=1):
        full = [bool(text.strip()) for text in texts]
        if all(full) and number != header:
            examples.append(Example(texts, "", number))
        elif any(full) and not all(full):
            empty.append(number)
    if not examples:
        raise DataError(f"{path} holds no pair; give a file with two texts on each line, and a tab between")
    return ExampleFile(path, "pair", examples, empty)


def _without_scores(path: Path, columns: tuple[str, ...]) -> tuple[tuple[str, str] | None, int] | None:
    """Where the two texts of a file without scores are, and which of its lines only names them, 0 for none.

    None says that there are scores, or that the file is for its reader to refuse.
    """
    kind = kind_of(path)
    if len(columns) == 3 or not path.is_file():
        return None
    if kind in OBJECTS:
        return _fields(path, columns)
    found = _columns(path, columns, commas=kind in COMMAS) if kind in (*TABLES, *COMMAS) else None
    if found and kind in COMMAS:
        raise DataError(f"{path} has no scores, without which pairs are read from a .tsv or .jsonl file; convert it")
    return found


def _fields(path: Path, columns: tuple[str, ...]) -> tuple[tuple[str, str] | None, int] | None:
    if columns:
        return (columns[0], columns[1]), 0
    lines = ((number, line) for number, line in enumerate(read_lines(path), start=1) if line.strip())
    number, line = next(lines, (1, "{}"))
    entry = json_in(line, f"{path}, line {number}")
    names = list(entry) if isinstance(entry, dict) else []
    if SCORES.intersection(names):
        return None
    texts = _texts_in(names)
    if len(texts) == 2:
        return (texts[0], texts[1]), 0
    return (None, 0) if {"source", "target"} <= set(names) else None


def _texts_in(names: Sequence[str]) -> tuple[str, ...]:
    return texts_in(names) or next((pair for pair in TOGETHER if set(pair) <= set(names)), ())


def _columns(path: Path, columns: tuple[str, ...], *, commas: bool) -> tuple[tuple[str, str] | None, int] | None:
    number, cells = next(rows_of(path, commas=commas), (1, []))
    names = [cell.strip() for cell in cells]
    lower = [name.lower() for name in names]
    texts = _texts_in(lower)
    if columns:
        named = [column for column in columns if not (column.isascii() and column.isdigit())]
        unknown = [column for column in named if column not in names]
        if unknown:
            raise DataError(f"{path}: no column is named {unknown[0]!r}; the first line has: {', '.join(names)}")
        first, second = (str(names.index(column) + 1) if column in named else column for column in columns)
        return (first, second), number if named or len(texts) == 2 else 0
    if not SCORES.intersection(lower) and len(texts) == 2:
        return (str(lower.index(texts[0]) + 1), str(lower.index(texts[1]) + 1)), number
    return (None, 0) if len(cells) == 2 and not SCORES.intersection(lower) else None


def _joined(files: list[ExampleFile], largest: float | None = None) -> Pairs:
    """The pairs of all files; those of one kind must have no others beside them."""
    scored = bool(files[0].examples[0].label)
    scores = []
    for file in files:
        if bool(file.examples[0].label) != scored:
            one, other = ("scores", "none") if not scored else ("no scores", "some")
            raise DataError(f"{file.path} has {one}, but {files[0].path} has {other}; give files of one kind")
        scores += [_score(example, file.path, largest) for example in file.examples if scored]
    texts = [example.texts for file in files for example in file.examples]
    return Pairs(texts, scores if scored else None)


def _score(example: Example, path: Path, largest: float | None) -> float:
    place = f"{path}, line {example.line}"
    score = as_number(example.label, place)
    if score < 0:
        raise DataError(f"{place}: the score is {example.label}; raise all scores until none is below 0")
    if largest is not None and score > largest:
        raise DataError(f"{place}: the score {example.label} is above data.largest {largest:g}; raise that")
    return score


def _sameness(pairs: Pairs) -> str | None:
    """What all pairs have in common: ranks need scores that differ, and a text to be found needs others beside it."""
    if pairs.scores is None:
        return None if len({second for _, second in pairs.texts}) > 1 else "the same second text"
    return None if len(set(pairs.scores)) > 1 else f"the score {pairs.scores[0]:g}"


def _held_out(pairs: Pairs) -> tuple[Pairs, Pairs]:
    held = held_out(len(pairs))

    def those(numbers: list[int]) -> Pairs:
        scores = None if pairs.scores is None else [pairs.scores[number] for number in numbers]
        return Pairs([pairs.texts[number] for number in numbers], scores)

    rest, some = those([number for number in range(len(pairs)) if number not in held]), those(list(held))
    if len(some) < 2 or _sameness(rest) or _sameness(some):
        raise DataError(f"{len(pairs):,} pairs are too few, or too alike, to hold some out; give others with --valid")
    return rest, some


def _tell(files: list[ExampleFile], train: Pairs, largest: float) -> None:
    for file in files:
        if file.empty:
            count, first = len(file.empty), file.empty[0]
            warn(f"{file.path}: {count:,} pairs with an empty text are left out, the first of them in line {first}")
    if train.scores is None:
        say("pairs without scores: each first text is to find its own second text among all those of its batch")
    else:
        low, high = min(train.scores), max(train.scores)
        say(f"pairs with scores from {low:g} to {high:g}: the cosine of two texts is to be their score / {largest:g}")


@dataclass(frozen=True)
class Prepared:
    """The data of a run, ready to train on."""

    tokenizer: EncoderTokenizer
    train: Store
    valid: Store

    @property
    def scored(self) -> bool:
        """Whether there are scores to validate on."""
        return is_scored(self.valid)

    def batches(self, data: SimilarityData, *, seed: int, shuffle: bool) -> Batches:
        """Batches of the training data, shuffled, or of the validation data, always the same."""
        store = self.train if shuffle else self.valid
        return similarity_batches(store, size=data.examples, seed=seed, shuffle=shuffle)


def prepare(data: SimilarityData, context: int, tokenizer: EncoderTokenizer | None, run: Path) -> Prepared:
    """Reads all pairs, trains a tokenizer where none is given, and lays the token ids down in the run.

    A run that goes on finds them in `run/tokenizer` and `run/data` and asks for no file again.
    """

    def train(found: Found) -> EncoderTokenizer:
        texts = (text.strip() for pair in found.train.texts for text in pair)
        return EncoderTokenizer.train(texts, data.vocabulary, lowercase=data.lowercase)

    def write(found: Found, own: EncoderTokenizer, directory: Path) -> None:
        _write(found, Wrapping(own, min(data.longest or context, context)), directory)

    read = partial(read_all, data)
    tokenizer, directory = prepared(run, EncoderTokenizer, context, tokenizer, read=read, train=train, write=write)
    stores = [Store.open(directory / part) for part in ("train", "valid")]
    return Prepared(tokenizer, *stores)


def _write(found: Found, wrapping: Wrapping, directory: Path) -> None:
    for part, pairs in (("train", found.train), ("valid", found.valid)):
        rows = iter(wrapping.rows([(text,) for pair in pairs.texts for text in pair]))
        scores = None if pairs.scores is None else [score / found.largest for score in pairs.scores]
        similarity_store(list(zip(rows, rows)), scores).save(directory / part)
    say(f"{len(found.train):,} pairs to learn from, {len(found.valid):,} to validate on")
    if wrapping.cut:
        warn(f"{wrapping.cut:,} texts are longer than the {wrapping.room} tokens that are read and lose their end")
