"""What labels, numbers and tagged words are worth beside the truth, and how that is printed."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from manyheads.core.errors import DataError, MissingExtra
from manyheads.core.words import counted

BINS = 15  # of confidence, as Guo et al. (2017) count them
PREFIXES = ("B-", "I-", "E-", "S-", "L-", "U-")
AVERAGES = ("micro avg", "macro avg", "weighted avg")  # seqeval's rows that are of no type
NAME_WIDTH = 20  # letters of a label in a table
TABLE_WIDTH = 100  # letters of a line above which the columns of a confusion matrix are numbered, not named


@dataclass(frozen=True)
class Scores:
    """How good a model is: numbers by their names, and the same as a table to print."""

    numbers: dict[str, Any]
    table: str

    def __str__(self) -> str:
        return self.table


@dataclass(frozen=True)
class Bin:
    """The examples whose highest probability is above `low` and at most `high`."""

    low: float
    high: float
    count: int
    confidence: float
    """The mean of their highest probabilities."""
    accuracy: float


@dataclass(frozen=True)
class LabelScores:
    """How well labels are told, and how far their probabilities can be trusted; all but the counts are fractions."""

    accuracy: float
    f1: float
    f1_of: str
    """The label whose F1 it is, or "macro mean"."""
    matthews: float
    confusion: tuple[tuple[int, ...], ...]
    """A row for each label in truth, a column for each label predicted."""
    calibration_error: float
    bins: tuple[Bin, ...]
    """Those that have examples, from the least confident."""
    examples: int


def label_scores(probabilities: np.ndarray, truth: Sequence[int], names: Sequence[str]) -> LabelScores:
    """Compares the likeliest labels of probabilities [examples, labels] with the numbers of the right ones.

    Of two labels F1 is that of the second, as GLUE counts it; of more it is the mean over the labels that are in the
    truth or predicted. What is undefined, as where all examples have one label, is 0.
    """
    try:
        from sklearn import metrics
    except ImportError:
        raise MissingExtra("scikit-learn", "metrics", "Scoring labels") from None
    probabilities, right = np.asarray(probabilities, dtype=np.float64), np.asarray(truth)
    _refuse_labels(probabilities, right, len(names))
    predicted = probabilities.argmax(axis=1)
    counted, f1_of = ([1], names[1]) if len(names) == 2 else (None, "macro mean")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # that a label is absent
        f1 = metrics.f1_score(right, predicted, labels=counted, average="macro")
        matthews = metrics.matthews_corrcoef(right, predicted)
    confusion = metrics.confusion_matrix(right, predicted, labels=range(len(names)))
    bins = _bins(probabilities.max(axis=1), predicted == right)
    return LabelScores(
        accuracy=float(metrics.accuracy_score(right, predicted)),
        f1=float(f1),
        f1_of=f1_of,
        matthews=float(matthews),
        confusion=tuple(tuple(int(count) for count in row) for row in confusion),
        calibration_error=sum(each.count * abs(each.accuracy - each.confidence) for each in bins) / len(right),
        bins=bins,
        examples=len(right),
    )


def _refuse_labels(probabilities: np.ndarray, truth: np.ndarray, labels: int) -> None:
    if not len(truth):
        raise DataError("there is no example to score")
    if probabilities.shape != (len(truth), labels):
        found = " by ".join(str(size) for size in probabilities.shape)
        raise DataError(f"there are {found} probabilities for {len(truth)} examples and {labels} labels")
    if not np.isfinite(probabilities).all():
        place = int(np.argmin(np.isfinite(probabilities).all(axis=1)))
        raise DataError(f"example {place + 1} has a probability that is not a finite number")
    strange = truth[(truth < 0) | (truth >= labels)]
    if len(strange):
        raise DataError(f"label number {strange[0]} is not one of the {labels} labels, which are counted from 0")


def _bins(confidence: np.ndarray, right: np.ndarray) -> tuple[Bin, ...]:
    """The examples by their confidence, in bins of one width that are open below: (0, 1/15], (1/15, 2/15], …"""
    edges = np.linspace(0.0, 1.0, BINS + 1)
    places = np.digitize(confidence, edges[1:-1], right=True)
    return tuple(
        Bin(
            low=float(edges[place]),
            high=float(edges[place + 1]),
            count=int((places == place).sum()),
            confidence=float(confidence[places == place].mean()),
            accuracy=float(right[places == place].mean()),
        )
        for place in np.unique(places)
    )


@dataclass(frozen=True)
class NumberScores:
    """How well numbers are told."""

    pearson: float
    spearman: float
    mean_squared_error: float
    examples: int


def number_scores(predicted: Sequence[float] | np.ndarray, truth: Sequence[float] | np.ndarray) -> NumberScores:
    """Compares numbers with the right ones.

    A correlation that is undefined, as where all predictions are one number or there is one example only, is 0.
    """
    try:
        from scipy import stats
        from sklearn import metrics
    except ImportError:
        raise MissingExtra("scikit-learn", "metrics", "Scoring numbers") from None
    found, right = np.asarray(predicted, dtype=np.float64), np.asarray(truth, dtype=np.float64)
    if found.ndim != 1 or found.shape != right.shape:
        raise DataError(
            f"there are {found.size} numbers predicted for {counted(right.size, 'example')}; there must be one for each"
        )
    if not len(right):
        raise DataError("there is no example to score")
    if not (np.isfinite(found).all() and np.isfinite(right).all()):
        place = int(np.argmin(np.isfinite(found) & np.isfinite(right)))
        raise DataError(f"example {place + 1} has {found[place]} for {right[place]}; both must be finite numbers")
    correlations: list[Any] = [0.0, 0.0]
    if len(right) > 1:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that all numbers are the same, or nearly
            correlations = [stats.pearsonr(found, right)[0], stats.spearmanr(found, right)[0]]
    squared = metrics.mean_squared_error(right, found)
    pearson, spearman = np.nan_to_num(correlations).tolist()
    return NumberScores(pearson, spearman, float(squared), len(right))


@dataclass(frozen=True)
class EntityScores:
    """How well words are tagged; what is said of entities is None where the labels are not of entities."""

    accuracy: float
    """The fraction of words with the right label."""
    precision: float | None
    recall: float | None
    f1: float | None
    by_type: dict[str, tuple[float, float, float, int]]
    """Precision, recall and F1 of each type of entity, and how many of it there are in truth."""
    words: int
    sentences: int


def entity_scores(predicted: list[list[str]], truth: list[list[str]]) -> EntityScores:
    """Compares the labels of words, and the entities they spell as the CoNLL shared tasks counted them.

    Labels are of entities where any of them begins with B-, I-, E-, S-, L- or U-; all without such a beginning are then
    outside of entities. An entity is right where its type, its first word and its last word are.
    """
    try:
        from seqeval import metrics
    except ImportError:
        raise MissingExtra("seqeval", "metrics", "Scoring the labels of words") from None
    if [len(labels) for labels in predicted] != [len(labels) for labels in truth]:
        raise DataError("the labels predicted are not as many as those in truth, sentence by sentence")
    words = sum(len(labels) for labels in truth)
    if not words:
        raise DataError("there is no word to score")
    accuracy, counts = float(metrics.accuracy_score(truth, predicted)), (words, len(truth))
    if not any(label.startswith(PREFIXES) for labels in (*truth, *predicted) for label in labels):
        return EntityScores(accuracy, None, None, None, {}, *counts)
    found, right = _entity_labels(predicted), _entity_labels(truth)
    report: Any = metrics.classification_report(right, found, output_dict=True, zero_division=0)  # type: ignore
    by_type = {kind: _four(row) for kind, row in report.items() if kind not in AVERAGES}
    precision, recall, f1, _ = _four(report["micro avg"])
    return EntityScores(accuracy, precision, recall, f1, by_type, *counts)


def _four(row: dict[str, Any]) -> tuple[float, float, float, int]:
    return float(row["precision"]), float(row["recall"]), float(row["f1-score"]), int(row["support"])


def _entity_labels(sentences: list[list[str]]) -> list[list[str]]:
    """The labels in the letters that seqeval reads: it takes L- and U- for something else than an end and a single."""
    letters = {"L": "E", "U": "S"}
    return [
        [letters.get(each[0], each[0]) + each[1:] if each.startswith(PREFIXES) else "O" for each in labels]
        for labels in sentences
    ]


def label_table(scores: LabelScores, names: Sequence[str]) -> str:
    """The scores as lines to print: the numbers, the confusion matrix, and accuracy by confidence."""
    lines = [
        f"accuracy            {100 * scores.accuracy:10.2f} %   of {counted(scores.examples, 'example')}",
        f"F1                  {100 * scores.f1:10.2f} %   {'' if len(names) != 2 else 'of '}{scores.f1_of}",
        f"Matthews correlation{scores.matthews:10.4f}     1 is perfect, 0 is chance",
        f"calibration error   {100 * scores.calibration_error:10.2f} %   expected, over {BINS} bins of confidence",
        "",
        *_confusion_lines(scores.confusion, [_short(name) for name in names]),
        "",
        "confidence            examples   mean confidence   accuracy",
    ]
    lines += [
        f"{100 * each.low:5.1f} to {100 * each.high:5.1f} %  {each.count:12,}   {100 * each.confidence:13.2f} %"
        f"   {100 * each.accuracy:6.2f} %"
        for each in scores.bins
    ]
    return "\n".join(lines)


def _confusion_lines(confusion: tuple[tuple[int, ...], ...], names: list[str]) -> list[str]:
    """The matrix with a line for each label in truth; where the names would not fit above it, numbers stand there.

    The first column is to the left, the others to the right.
    """
    cells = [[str(count) if count else "·" for count in row] for row in confusion]
    numbers = [str(number) for number in range(1, len(names) + 1)]
    numbered = [f"{number:>{len(numbers[-1])}} {name}" for number, name in zip(numbers, names)]
    lines = []
    for sides, heads, gap in ((names, names, 2), (numbered, numbers, 2), (numbered, numbers, 1)):
        rows = [["", *heads], *([side, *row] for side, row in zip(sides, cells))]
        first, *others = [max(map(len, column)) for column in zip(*rows)]
        lines = [
            f"{name:{first}}" + "".join(f"{cell:>{gap + width}}" for cell, width in zip(row, others))
            for name, *row in rows
        ]
        if len(lines[0]) <= TABLE_WIDTH:
            break
    return ["truth in rows, predictions in columns", *lines]


def _short(name: str) -> str:
    return name if len(name) <= NAME_WIDTH else f"{name[: NAME_WIDTH - 1]}…"


def number_table(scores: NumberScores, *, error: bool = True) -> str:
    """The scores as lines to print, the error only where both numbers are on one scale."""
    lines = [
        f"Pearson correlation {scores.pearson:10.4f}   of {counted(scores.examples, 'example')}",
        f"Spearman correlation{scores.spearman:10.4f}   of their ranks",
    ]
    return "\n".join([*lines, f"mean squared error  {scores.mean_squared_error:10.4f}"] if error else lines)


def entity_table(scores: EntityScores) -> str:
    """The scores as lines to print, with one for each type of entity."""
    lines = [
        f"accuracy            {100 * scores.accuracy:10.2f} %   of {counted(scores.words, 'word')} "
        f"in {counted(scores.sentences, 'sentence')}"
    ]
    if scores.precision is None or scores.recall is None or scores.f1 is None:
        return lines[0]
    entities = sum(row[3] for row in scores.by_type.values())
    lines += [
        f"precision           {100 * scores.precision:10.2f} %   of the entities predicted",
        f"recall              {100 * scores.recall:10.2f} %   of the {entities:,} entities in truth",
        f"F1                  {100 * scores.f1:10.2f} %",
        "",
        f"{'type':{NAME_WIDTH}}   precision      recall          F1    entities",
    ]
    lines += [
        f"{_short(kind):{NAME_WIDTH}}{100 * precision:10.2f} %{100 * recall:10.2f} %{100 * f1:10.2f} %{count:12,}"
        for kind, (precision, recall, f1, count) in scores.by_type.items()
    ]
    return "\n".join(lines)
