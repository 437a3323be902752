"""The data of an embedder: pairs of texts that belong together, or pairs with a score of how much they do."""

from pathlib import Path

from manyheads.core.errors import ConfigError, DataError
from manyheads.core.log import say, warn
from manyheads.core.words import counted
from manyheads.data.examples import similarity_store
from manyheads.data.ragged import Store
from manyheads.data.readers.examples import Example
from manyheads.tasks.labelled import Split, Wrapping, as_number, example_files, split, with_dev
from manyheads.tasks.similarity.recipe import SimilarityData


def read_all(data: SimilarityData, seed: int = 1) -> Split[Example]:
    """Reads every pair, and refuses what cannot be learned from."""
    if not data.pairs:
        raise ConfigError("there are no pairs to learn from; give a .tsv or .jsonl file with --pairs")
    train = _read(data.pairs, data.columns, "train", data.largest)
    scores = [float(pair.label) for pair in train if pair.label]
    largest = data.largest or max(scores, default=1.0)
    if data.examples < 2 and not scores:
        raise ConfigError("data.examples is 1, so that no text is compared with another's; raise it")
    valid = _read(data.valid or with_dev(data.pairs), data.columns, "dev")
    if not valid:
        train, valid = split(train, "pairs", seed)
        if len(valid) < 2 or _sameness(train) or _sameness(valid):
            count = len(train) + len(valid)
            raise DataError(f"too few pairs, {count:,}, or too alike to hold some out; give others with --valid")
    if scores:
        low, high = min(scores), max(scores)
        say(f"pairs with scores from {low:g} to {high:g}: the cosine of two texts is to be their score / {largest:g}")
    else:
        say("pairs without scores: each first text is to find its own second text among all those of its batch")
    return Split(train, valid, {"largest": largest})


def _read(names: tuple[str, ...], columns: tuple[str, ...], part: str, largest: float | None = None) -> list[Example]:
    """The pairs of all files; those of one kind must have no others beside them."""
    files = example_files(names, columns, part, "pairs", unlabelled=True)
    for file in files:
        if file.form != "pair":
            raise DataError(
                f"{file.path} is of the form {file.form}; give pairs of texts, or name the columns of two texts, and "
                "of their score if there is one, with --columns"
            )
        scored = bool(file.examples[0].label)
        if scored != bool(files[0].examples[0].label):
            one, other = ("scores", "none") if scored else ("no scores", "some")
            raise DataError(f"{file.path} has {one}, but {files[0].path} has {other}; give files of one kind")
        for pair in file.examples if scored else ():
            _refuse_score(pair.label, f"{file.path}, line {pair.line}", largest)
    pairs = [pair for file in files for pair in file.examples]
    if pairs and (same := _sameness(pairs)):
        raise DataError(f"{files[0].path}: all pairs have {same}; there must be others to tell it from")
    return pairs


def _refuse_score(label: str, place: str, largest: float | None) -> None:
    score = as_number(label, place)
    if score < 0:
        raise DataError(f"{place}: the score is {label}; raise all scores until none is below 0")
    if largest is not None and score > largest:
        raise DataError(f"{place}: the score {label} is above data.largest {largest:g}; raise that")


def _sameness(pairs: list[Example]) -> str | None:
    """What all pairs have in common: ranks need scores that differ, and a text to be found needs others beside it."""
    if not pairs[0].label:
        return None if len({pair.texts[1] for pair in pairs}) > 1 else "the same second text"
    scores = {float(pair.label) for pair in pairs}
    return None if len(scores) > 1 else f"the score {scores.pop():g}"


def store_pairs(found: Split[Example], wrapping: Wrapping, directory: Path) -> None:
    """Lays the rows of ids of all pairs down, with their scores as cosines."""

    def stored(pairs: list[Example]) -> Store:
        rows = iter(wrapping.rows([(text,) for pair in pairs for text in pair.texts]))
        scores = [float(pair.label) / found.about["largest"] for pair in pairs if pair.label]
        return similarity_store(list(zip(rows, rows)), scores or None)

    found.save(directory, stored)
    say(f"{counted(len(found.train), 'pair')} to learn from, {len(found.valid):,} to validate on")
    if wrapping.cut:
        warn(f"texts longer than the {wrapping.room} tokens that are read, which lose their end: {wrapping.cut:,}")
