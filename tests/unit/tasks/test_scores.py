import re
import warnings
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from manyheads.core.errors import DataError
from manyheads.tasks.metrics import (
    EntityScores,
    entity_scores,
    entity_table,
    label_scores,
    label_table,
    number_scores,
    number_table,
)

metrics = pytest.importorskip("sklearn.metrics")
stats = pytest.importorskip("scipy.stats")
seqeval = pytest.importorskip("seqeval.metrics")


@pytest.fixture(autouse=True)
def _silent():
    """A warning of a library is not for the user, so here it is an error."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def sure_of(labels: list[int], count: int, confidence: float = 1.0) -> np.ndarray:
    """Probabilities whose highest is `confidence`, at these labels."""
    rest = (1 - confidence) / (count - 1)
    return np.array([[confidence if label == place else rest for place in range(count)] for label in labels])


# Labels


def test_two_labels_give_the_numbers_computed_by_hand():
    # right: 3 of the first, 2 of the second; wrong: 1 of the first, 2 of the second
    truth, predicted = [0, 0, 0, 0, 1, 1, 1, 1], [0, 0, 0, 1, 1, 1, 0, 0]
    scores = label_scores(sure_of(predicted, 2), truth, ["bad", "good"])
    assert scores.accuracy == pytest.approx(5 / 8)
    assert scores.f1_of == "good"
    assert scores.f1 == pytest.approx(2 * 2 / (2 * 2 + 1 + 2))
    assert scores.confusion == ((3, 1), (2, 2))
    assert scores.matthews == pytest.approx((3 * 2 - 1 * 2) / (4 * 4 * 3 * 5) ** 0.5)
    assert scores.examples == 8
    turned = label_scores(sure_of([1 - each for each in predicted], 2), [1 - each for each in truth], ["good", "bad"])
    assert (turned.f1_of, turned.f1) == ("bad", pytest.approx(2 * 3 / (2 * 3 + 1 + 2)))  # of the second label


@settings(max_examples=40)
@given(st.integers(2, 6).flatmap(lambda n: st.tuples(st.just(n), st.lists(st.tuples(*[st.integers(0, n - 1)] * 2)))))
def test_the_scores_are_those_of_scikit_learn(drawn):
    count, pairs = drawn
    truth, predicted = [0, 1, *(pair[0] for pair in pairs)], [1, 1, *(pair[1] for pair in pairs)]
    names = [f"label {number}" for number in range(count)]
    scores = label_scores(sure_of(predicted, count), truth, names)
    assert scores.accuracy == metrics.accuracy_score(truth, predicted)
    assert scores.matthews == metrics.matthews_corrcoef(truth, predicted)
    expected = metrics.f1_score(truth, predicted, average="binary" if count == 2 else "macro")
    assert scores.f1 == pytest.approx(expected)
    assert scores.f1_of == ("label 1" if count == 2 else "macro mean")
    assert np.array(scores.confusion).shape == (count, count)
    for row, column in np.ndindex(count, count):
        assert scores.confusion[row][column] == list(zip(truth, predicted)).count((row, column))


def test_one_label_only_is_scored_without_a_warning():
    scores = label_scores(sure_of([0, 0, 0], 3), [0, 0, 0], ["a", "b", "c"])
    assert (scores.accuracy, scores.f1, scores.matthews) == (1.0, 1.0, 0.0)
    assert scores.confusion == ((3, 0, 0), (0, 0, 0), (0, 0, 0))
    assert label_scores(sure_of([0, 0], 2), [0, 0], ["a", "b"]).f1 == 0.0  # of the second label there is nothing


def two_labels(probabilities, truth):
    return label_scores(probabilities, truth, ["a", "b"])


@pytest.mark.parametrize(
    ("score", "predicted", "truth", "said"),
    [
        (two_labels, np.zeros((0, 2)), [], "no example"),
        (two_labels, np.zeros((3, 2)), [0, 1], "3 by 2 probabilities for 2 examples and 2 labels"),
        (two_labels, np.zeros((2, 3)), [0, 1], "2 by 3 probabilities for 2 examples and 2 labels"),
        (two_labels, np.zeros((2, 2)), [0, 2], "label number 2 is not one of the 2 labels"),
        (two_labels, np.zeros((2, 2)), [-1, 0], "label number -1"),
        (two_labels, np.array([[0.5, 0.5], [np.nan, 0.5]]), [0, 1], "example 2"),
        (number_scores, [], [], "no example"),
        (number_scores, [1.0], [1.0, 2.0], "1 numbers predicted for 2"),
        (number_scores, [1.0, np.inf], [1, 2], "example 2"),
        (entity_scores, [], [], "no word"),
        (entity_scores, [[]], [[]], "no word"),
        (entity_scores, [["O"]], [["O", "O"]], "as many"),
        (entity_scores, [["O"]], [["O"], []], "as many"),
        (entity_scores, [["O", "O"], ["O"]], [["O"], ["O", "O"]], "as many"),
    ],
)
def test_what_cannot_be_scored_is_refused_in_a_sentence(score, predicted, truth, said):
    with pytest.raises(DataError, match=said):
        score(predicted, truth)


# Calibration


def test_as_accurate_as_confident_has_no_calibration_error():
    # Of 4 examples at 0.75 three are right, of 5 at 0.6 three, and the two at 1 both.
    probabilities = np.concatenate([sure_of([0] * 4, 2, 0.75), sure_of([0] * 5, 2, 0.6), sure_of([1] * 2, 2)])
    truth = [0, 0, 0, 1, 0, 0, 0, 1, 1, 1, 1]
    scores = label_scores(probabilities, truth, ["a", "b"])
    assert scores.calibration_error == pytest.approx(0.0, abs=1e-12)
    assert [(each.count, each.accuracy) for each in scores.bins] == [(5, 0.6), (4, 0.75), (2, 1.0)]
    wrong = label_scores(probabilities, [1, *truth[1:]], ["a", "b"])
    assert wrong.calibration_error == pytest.approx(4 / 11 * 0.25)  # and the test can tell


def test_overconfidence_is_the_error_computed_by_hand():
    # Bins of 1/15: 0.95 and 0.99 are in (14/15, 1], half of them right; 0.7 is in (10/15, 11/15].
    probabilities = np.concatenate([sure_of([0, 0], 2, 0.95), sure_of([0, 0], 2, 0.99), sure_of([0, 0], 2, 0.7)])
    scores = label_scores(probabilities, [0, 1, 0, 1, 1, 1], ["a", "b"])
    assert scores.calibration_error == pytest.approx(4 / 6 * (0.97 - 0.5) + 2 / 6 * (0.7 - 0.0))
    low, high = scores.bins
    assert (low.low, low.high, low.count) == (pytest.approx(10 / 15), pytest.approx(11 / 15), 2)
    assert (low.confidence, low.accuracy) == (pytest.approx(0.7), 0.0)
    assert (high.low, high.high, high.count) == (pytest.approx(14 / 15), 1.0, 4)
    assert (high.confidence, high.accuracy) == (pytest.approx(0.97), 0.5)


def test_a_bin_holds_its_upper_bound_and_not_its_lower():
    edge = np.linspace(0, 1, 16)[9]
    scores = label_scores(np.array([[edge, 0.1], [np.nextafter(edge, 1), 0.1]]), [0, 0], ["a", "b"])
    assert [(each.high, each.count) for each in scores.bins] == [(edge, 1), (pytest.approx(10 / 15), 1)]


@settings(max_examples=40)
@given(st.lists(st.tuples(st.floats(0.001, 1.0), st.booleans()), min_size=1, max_size=60))
def test_the_calibration_error_is_that_of_guo_et_al(drawn):
    confidence, right = np.array([pair[0] for pair in drawn]), np.array([pair[1] for pair in drawn])
    truth = [0 if each else 1 for each in right]
    scores = label_scores(np.stack([confidence, 0 * confidence], axis=1), truth, ["a", "b"])
    expected = 0.0
    edges = np.linspace(0, 1, 16)
    for low, high in pairwise(edges):
        inside = (confidence > low) & (confidence <= high)
        if inside.any():
            expected += inside.mean() * abs(right[inside].mean() - confidence[inside].mean())
    assert scores.calibration_error == pytest.approx(expected)
    assert sum(each.count for each in scores.bins) == len(drawn)
    assert all(each.low < each.confidence <= each.high + 1e-12 for each in scores.bins)


# Numbers


@settings(max_examples=40)
@given(st.lists(st.tuples(st.floats(-9, 9), st.floats(-9, 9)), min_size=2, max_size=30))
def test_numbers_have_the_correlations_of_scipy(pairs):
    predicted, truth = [5.5, *(pair[0] for pair in pairs)], [-7.5, *(pair[1] for pair in pairs)]
    scores = number_scores(predicted, truth)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pearson, spearman = stats.pearsonr(predicted, truth).statistic, stats.spearmanr(predicted, truth).statistic
    assert scores.pearson == pytest.approx(np.nan_to_num(pearson))
    assert scores.spearman == pytest.approx(np.nan_to_num(spearman))
    assert scores.mean_squared_error == pytest.approx(np.mean((np.array(predicted) - np.array(truth)) ** 2))
    assert scores.examples == len(truth)


def test_numbers_computed_by_hand():
    scores = number_scores([1, 2, 3, 10], [1, 2, 4, 3])
    assert scores.spearman == pytest.approx(1 - 6 * 2 / (4 * 15))  # two ranks are off by one
    assert scores.mean_squared_error == pytest.approx((1 + 49) / 4)
    assert scores.pearson == pytest.approx((4.5 + 1.0 - 1.5 + 3.0) / (50 * 5) ** 0.5)
    assert number_table(number_scores([1, 2, 3, 4], [4, 3, 2, 2])).splitlines() == [
        "Pearson correlation    -0.9439   of 4 examples",
        "Spearman correlation   -0.9487   of their ranks",
        "mean squared error      3.7500",
    ]


@pytest.mark.parametrize("predicted", [[2.5, 2.5, 2.5], [0.1, 0.1, 0.1]])
def test_constant_predictions_have_no_correlation_and_no_warning(predicted):
    scores = number_scores(predicted, [1, 2, 3])
    assert (scores.pearson, scores.spearman) == (0.0, 0.0)
    assert scores.mean_squared_error > 0
    assert number_scores([1.0], [2.0]).pearson == 0.0


# Words

TRUTH = [["B-PER", "I-PER", "O", "B-LOC"], ["O", "B-LOC", "I-LOC"], ["B-ORG"]]
FOUND = [["B-PER", "I-PER", "O", "B-ORG"], ["O", "B-LOC", "O"], ["B-ORG"]]


def test_entities_computed_by_hand():
    scores = entity_scores(FOUND, TRUTH)  # right: Per and the last Org; wrong: an Org for a Loc, half a Loc
    assert scores.accuracy == pytest.approx(6 / 8)
    assert (scores.precision, scores.recall, scores.f1) == (2 / 4, 2 / 4, 2 / 4)
    assert scores.by_type == {"LOC": (0, 0, 0, 2), "ORG": (1 / 2, 1, pytest.approx(2 / 3), 1), "PER": (1, 1, 1, 1)}
    assert (scores.words, scores.sentences) == (8, 3)


def test_entities_that_are_never_predicted_have_no_precision_and_no_warning():
    scores = entity_scores([["O", "O"], ["B-LOC"]], [["B-PER", "O"], ["B-LOC"]])
    assert scores.by_type == {"LOC": (1.0, 1.0, 1.0, 1), "PER": (0.0, 0.0, 0.0, 1)}
    nothing = entity_scores([["O", "O"]], [["B-PER", "O"]])
    assert (nothing.precision, nothing.recall, nothing.f1, nothing.accuracy) == (0.0, 0.0, 0.0, 0.5)


IOB = st.sampled_from(["O", "B-PER", "I-PER", "B-LOC", "I-LOC", "E-LOC", "S-PER"])


@settings(max_examples=40)
@given(st.lists(st.lists(st.tuples(IOB, IOB), max_size=7), max_size=5))
def test_entities_are_those_of_seqeval(sentences):
    truth, found = ([["B-PER"], *([pair[side] for pair in each] for each in sentences)] for side in (0, 1))
    scores = entity_scores(found, truth)
    options = {"average": "micro", "zero_division": 0}
    assert scores.accuracy == seqeval.accuracy_score(truth, found)
    assert scores.precision == seqeval.precision_score(truth, found, **options)
    assert scores.recall == seqeval.recall_score(truth, found, **options)
    assert scores.f1 == seqeval.f1_score(truth, found, **options)
    report = seqeval.classification_report(truth, found, output_dict=True, zero_division=0)
    assert {kind: row[3] for kind, row in scores.by_type.items()} == {
        kind: row["support"] for kind, row in report.items() if not kind.endswith(" avg")
    }


def test_last_and_unit_are_end_and_single_by_other_names():
    truth = [["U-PER", "U-PER", "B-LOC", "I-LOC", "L-LOC", "B-LOC", "L-LOC"]]
    found = [["U-PER", "U-PER", "B-LOC", "L-LOC", "O", "B-LOC", "L-LOC"]]

    def renamed(labels):
        return [[each.replace("U-", "S-").replace("L-", "E-") for each in labels[0]]]

    scores = entity_scores(found, truth)
    assert scores == entity_scores(renamed(found), renamed(truth))
    assert (scores.precision, scores.recall) == (3 / 4, 3 / 4)


def test_labels_that_are_not_of_entities_have_accuracy_only(capfd):
    scores = entity_scores([["NOUN", "VERB", "X"], ["INTJ"]], [["NOUN", "NOUN", "X"], ["INTJ"]])
    assert scores == EntityScores(3 / 4, None, None, None, {}, 4, 2)
    assert capfd.readouterr() == ("", "")
    assert len(entity_table(scores).splitlines()) == 1


def test_a_label_without_a_prefix_is_outside_of_entities():
    scores = entity_scores([["B-PER", "X", "X"]], [["B-PER", "X", "O"]])
    assert scores.by_type == {"PER": (1.0, 1.0, 1.0, 1)}
    assert scores.accuracy == pytest.approx(2 / 3)


# What is printed


def test_the_table_of_labels_says_what_was_found():
    probabilities = np.concatenate([sure_of([0, 0], 2, 0.95), sure_of([1, 1, 1], 2, 0.7)])
    names = ["negative", "positive"]
    scores = label_scores(probabilities, [0, 1, 1, 1, 0], names)
    assert label_table(scores, names).splitlines() == [
        "accuracy                 60.00 %   of 5 examples",
        "F1                       66.67 %   of positive",
        "Matthews correlation    0.1667     1 is perfect, 0 is chance",
        "calibration error        20.00 %   expected, over 15 bins of confidence",
        "",
        "truth in rows, predictions in columns",
        "          negative  positive",
        "negative         1         1",
        "positive         1         2",
        "",
        "confidence            examples   mean confidence   accuracy",
        " 66.7 to  73.3 %             3           70.00 %    66.67 %",
        " 93.3 to 100.0 %             2           95.00 %    50.00 %",
    ]


def matrix_of(table: str) -> list[str]:
    lines = table.splitlines()
    begin = lines.index("truth in rows, predictions in columns") + 1
    return lines[begin : lines.index("", begin)]


@pytest.mark.parametrize("each", [1, 40])
@pytest.mark.parametrize("count", [3, 8, 20])
@pytest.mark.parametrize("letters", [3, 20, 33])
def test_a_confusion_matrix_stays_readable(count, letters, each):
    names = [f"{number:02}".ljust(letters, "x") for number in range(count)]
    truth = list(range(count)) * each
    scores = label_scores(sure_of([(label + 1) % count for label in truth], count), truth, names)
    head, *rows = matrix_of(label_table(scores, names))
    assert len(head) <= 100
    assert {len(line) for line in rows} == {len(head)}  # so that columns stand under their heads
    shown = [name if letters <= 20 else name[:19] + "…" for name in names]
    for number, row in enumerate(rows):
        before, cells = row.split(shown[number])
        column = (number + 1) % count
        assert cells.split() == [str(each) if place == column else "·" for place in range(count)]
        named = (before.strip(), head.split()[column])  # columns by their names or, where rows have them, by numbers
        assert named in [("", shown[column]), (str(number + 1), str(column + 1))]


def test_the_bins_of_the_table_stand_in_columns():
    names = list("abcde")
    probabilities = np.random.default_rng(3).dirichlet([0.3] * 5, size=400)
    scores = label_scores(probabilities, [0] * 400, names)
    lines = label_table(scores, names).splitlines()
    rows = lines[lines.index("confidence            examples   mean confidence   accuracy") :]
    assert len(rows) == 1 + len(scores.bins)
    assert len({len(row) for row in rows}) == 1
    for row, found in zip(rows[1:], scores.bins):
        numbers = [float(number) for number in re.findall(r"[\d.]+", row)]
        expected = [100 * found.low, 100 * found.high, found.count, 100 * found.confidence, 100 * found.accuracy]
        assert numbers == pytest.approx(expected, abs=0.051)


def test_the_table_of_entities_says_what_was_found():
    assert entity_table(entity_scores(FOUND, TRUTH)).splitlines() == [
        "accuracy                 75.00 %   of 8 words in 3 sentences",
        "precision                50.00 %   of the entities predicted",
        "recall                   50.00 %   of the 4 entities in truth",
        "F1                       50.00 %",
        "",
        "type                   precision      recall          F1    entities",
        "LOC                       0.00 %      0.00 %      0.00 %           2",
        "ORG                      50.00 %    100.00 %     66.67 %           1",
        "PER                     100.00 %    100.00 %    100.00 %           1",
    ]
