"""What tasks with labelled examples share: what is held out, names of labels, and texts as rows of ids."""

import math
import sys
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor, nn

from manyheads.core.errors import ConfigError, DataError, MissingExtra
from manyheads.core.grouping import grouped
from manyheads.core.log import say, warn
from manyheads.core.words import is_utf8
from manyheads.data.batches import padded
from manyheads.data.held_out import held_out, say_held_out
from manyheads.data.ragged import Store
from manyheads.data.readers.corpus import COMPRESSED
from manyheads.data.readers.examples import ExampleFile, read_examples
from manyheads.look.reliability import reliability
from manyheads.tasks.language.data import DELIMITER
from manyheads.tasks.metrics import LabelScores
from manyheads.tasks.proofs.selfcheck import Finding, same_vectors
from manyheads.tasks.task import Predictor
from manyheads.text.encoder import EncoderTokenizer
from manyheads.text.language import LanguageTokenizer
from manyheads.text.words import WordTokenizer

CELLS_AT_ONCE = 16_384  # tokens in one batch, padding included
HELD_OUT_EVERY, HELD_OUT_MOST = 10, 1000
START, EXTRACT = "<start>", "<extract>"

Example = TypeVar("Example")


@dataclass(frozen=True)
class Label:
    """The likeliest label of an example, or the likeliest choice."""

    name: str
    probability: float
    index: int
    """Which of the labels, or of the choices, from 0."""


@dataclass(frozen=True)
class Split(Generic[Example]):
    """What the files of a run hold: examples to learn from, and others to validate on."""

    train: list[Example]
    valid: list[Example]
    about: dict[str, Any] = field(default_factory=dict)
    """What is known of all of them."""

    def save(self, directory: Path, stored: Callable[[list[Example]], Store]) -> None:
        """Lays both parts down as `stored` makes rows of them, with what is known of all."""
        for part, examples in (("train", self.train), ("valid", self.valid)):
            store = stored(examples)
            store.about = self.about
            store.save(directory / part)


def split(
    examples: Sequence[Example], what: str, seed: int, class_of: Callable[[Example], Hashable] = lambda _: None
) -> tuple[list[Example], list[Example]]:
    """The examples to learn from, and a tenth that is held out, at most 1,000; `what` names them for a person."""
    classes: dict[Hashable, list[int]] = {}
    for number, example in enumerate(examples):
        classes.setdefault(class_of(example), []).append(number)
    held = held_out(classes.values(), every=HELD_OUT_EVERY, most=HELD_OUT_MOST, seed=seed)
    if not held:
        raise DataError(f"too few {what}, {len(examples)}, to hold some out; give others with --valid")
    say_held_out(len(held), len(examples), what, seed)
    parts: tuple[list[Example], list[Example]] = ([], [])
    for number, example in enumerate(examples):
        parts[number in held].append(example)
    return parts


def example_files(
    names: Iterable[str], columns: tuple[str, ...], part: str, what: str = "examples", *, unlabelled: bool = False
) -> list[ExampleFile]:
    """The examples of files, or of a part of folders; those without a text are left out, and counted."""
    files = [read_examples(Path(name), columns, part, unlabelled=unlabelled) for name in names]
    for file in files:
        if file.empty:
            count, first = len(file.empty), file.empty[0]
            warn(f"{file.path}: {count:,} {what} with an empty text are left out, the first of them in line {first}")
    return files


def with_dev(names: Iterable[str]) -> tuple[str, ...]:
    """Those of the names that are folders with a dev.tsv."""
    packings = ("", *COMPRESSED)
    return tuple(name for name in names if any((Path(name) / f"dev.tsv{each}").is_file() for each in packings))


def label_names(counts: Counter[str], path: str | Path, what: str, remedy: str) -> tuple[str, ...]:
    """The labels in order; `what` has one each, and `remedy` says what to do where all have one of their own."""
    if other := next((name for name in counts if not is_utf8(name)), None):
        raise DataError(f"{path}: the label {other!r} is not UTF-8, as a model's files are; rename it")
    if len(counts) < 2:
        raise DataError(f"{path}: every {what} has the label {next(iter(counts))}; there must be two or more")
    if len(counts) == counts.total() > 2:
        raise DataError(f"{path}: each of its {len(counts):,} {what}s has a label of its own; {remedy}")
    by_number = all(name.removeprefix("-").isdecimal() for name in counts)
    return tuple(sorted(counts, key=int if by_number else None))


def as_number(label: str, place: str) -> float:
    """The number that a label is; `place` begins the sentence where it is none."""
    try:
        number = float(label)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise DataError(f"{place}: {label!r} is not a number; mend the line, or name other --columns, the number last")
    return number


def draw_reliability(scores: LabelScores, run: Path | None, plot: str | None) -> None:
    """Draws how far probabilities can be trusted; where nobody says where, into the run directory, if it is one."""
    own = run if run and (run / "recipe.toml").is_file() else None
    drawing = Path(plot) if plot else own and own / "reliability.png"
    if not drawing:
        return
    try:
        reliability(scores.bins, scores.calibration_error, drawing, "How far the probabilities can be trusted")
        say(f"reliability is drawn in {drawing}")
    except (MissingExtra, ConfigError) as reason:
        if plot:
            raise
        say(f"no reliability plot: {reason}")  # nobody asked for the picture


class EncoderPredictor(Predictor):
    """A predictor whose model has an encoder for a body."""

    def selfcheck(self, sentences: int, beam: int) -> list[Finding]:
        return same_vectors(self.model.body, sentences)


@torch.inference_mode()
def outputs_of(model: nn.Module, rows: Sequence[list[int]], cells: int = CELLS_AT_ONCE) -> list[Tensor]:
    """What a model says of each row of ids, computed with others of about its length; float32, on the CPU."""
    found, computed, device = [torch.empty(0)] * len(rows), [], next(model.parameters()).device
    for places in grouped([len(row) for row in rows], cells):
        ids, lengths = padded([rows[place] for place in places])
        computed.append((places, model(ids.to(device), lengths.to(device)).float()))
    for places, outputs in computed:  # a GPU goes on meanwhile
        for place, output in zip(places, outputs.cpu()):
            found[place] = output
    return found


class Wrapping:
    """Texts as a model reads them: `<start> text <extract>`, and with two of them `<delimiter>` between; as BERT reads
    them, `[CLS] text [SEP]` and `[CLS] text [SEP] text [SEP]`.

    What is longer than the model sees loses the end of its first text, and where that would cost more than half of
    the place, the end of the second too; the marks always stay.  Words have no marks around them,
    and what counts them no context.
    """

    def __init__(self, tokenizer: LanguageTokenizer | EncoderTokenizer | WordTokenizer, context: int | None):
        self.tokenizer, context = tokenizer, sys.maxsize if context is None else context
        if isinstance(tokenizer, WordTokenizer):
            self.start, self.between, self.behind = [], [], []
        elif isinstance(tokenizer, EncoderTokenizer):
            self.start, self.between, self.behind = [tokenizer.start], [tokenizer.separator], [tokenizer.separator]
        elif tokenizer.pieces(tokenizer.encode_wrapped([""])[0]) == [START, EXTRACT]:
            self.start, self.between, self.behind = ([tokenizer.id_of(name)] for name in (START, DELIMITER, EXTRACT))
        else:  # a classifier that was fine-tuned elsewhere has none of them, and perhaps a template of its own
            self.start, self.between, self.behind = tokenizer.start, [], tokenizer.behind
        self.room = context - len(self.start) - len(self.behind)
        if self.room < 2 + len(self.between):
            raise ConfigError(f"model.context is {context}, which leaves no place for a text; raise it")
        self.cut = 0
        """Rows that were too long."""

    def rows(self, texts: Sequence[tuple[str, ...]]) -> list[list[int]]:
        """The ids of each text, or of each pair of texts."""
        flat = iter(self.tokenizer.encode([text.strip() for each in texts for text in each]))
        return [self._row([next(flat) for _ in each]) for each in texts]

    def _row(self, parts: list[list[int]]) -> list[int]:
        room = self.room - len(self.between) * (len(parts) - 1)
        self.cut += sum(map(len, parts)) > room
        first, *rest = parts
        if rest:
            second = rest[0][: max(room // 2, room - len(first))]
            body = [*first[: room - len(second)], *self.between, *second]
        else:
            body = first[:room]
        # A tokenizer without marks can make nothing of nothing.
        return [*self.start, *body, *self.behind] or [getattr(self.tokenizer, "end", None) or 0]
