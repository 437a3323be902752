"""The data of an embedder: pairs of texts that belong together, or pairs with a score of how much they do."""

from dataclasses import dataclass
from pathlib import Path

from manyheads.core.errors import ConfigError, DataError
from manyheads.core.log import say, warn
from manyheads.data.examples import similarity_store
from manyheads.data.readers.examples import Example, ExampleFile, read_examples
from manyheads.tasks.labelled import Wrapping, as_number, held_out_numbers, with_dev
from manyheads.tasks.similarity.recipe import SimilarityData
from manyheads.text.encoder import EncoderTokenizer


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
    train, valid = (train, valid) if valid else _split(train)
    if not quiet:
        _tell([*files, *others], train, largest)
    return Found(train, valid, largest)


def _read(path: Path, columns: tuple[str, ...], part: str) -> ExampleFile:
    file = read_examples(path, columns, part, unlabelled=True)
    if file.form != "pair":
        raise DataError(
            f"{file.path} is of the form {file.form}; give pairs of texts, or name the columns of two texts, and "
            "of their score if there is one, with --columns"
        )
    return file


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


def _split(pairs: Pairs) -> tuple[Pairs, Pairs]:
    held = held_out_numbers(len(pairs))

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


def train_tokenizer(found: Found, data: SimilarityData) -> EncoderTokenizer:
    """A tokenizer for the texts of the pairs."""
    texts = (text.strip() for pair in found.train.texts for text in pair)
    return EncoderTokenizer.train(texts, data.vocabulary, lowercase=data.lowercase)


def store_pairs(found: Found, wrapping: Wrapping, directory: Path) -> None:
    """Lays the rows of ids of all pairs down, with their scores as cosines."""
    for part, pairs in (("train", found.train), ("valid", found.valid)):
        rows = iter(wrapping.rows([(text,) for pair in pairs.texts for text in pair]))
        scores = None if pairs.scores is None else [score / found.largest for score in pairs.scores]
        similarity_store(list(zip(rows, rows)), scores).save(directory / part)
    say(f"{len(found.train):,} pairs to learn from, {len(found.valid):,} to validate on")
    if wrapping.cut:
        warn(f"{wrapping.cut:,} texts are longer than the {wrapping.room} tokens that are read and lose their end")
