"""The lectures' worked examples as `manyheads walk` prints them: the slides' numbers, ours, and why they differ."""

import math
from itertools import pairwise

import numpy as np
import pytest
import torch

from manyheads.data.batches import padded
from manyheads.look.grid import Grid
from manyheads.look.lectures import lecture_walk
from manyheads.look.walk import Walk
from manyheads.models.bag import BagClassifier, BagConfig
from manyheads.models.lexicon import LexiconClassifier, LexiconConfig
from manyheads.ops.attention import attention_weights, reference
from manyheads.tasks.classify.lexicon import kinds_of_words, read_lexicon
from manyheads.text.words import WordTokenizer

QUERIES = torch.tensor([[[[-1.0, -2.5], [4.0, 3.0]]]]).double()
KEYS = torch.tensor([[[[-2.0, -4.0], [-2.5, -0.5], [4.5, 2.5]]]]).double()
TOKENS = torch.tensor([[[[1.0, 1.0], [-1.0, -2.5], [4.0, 3.0], [2.0, -3.0]]]]).double()
LOOK_BACK = {"mask": torch.ones(4, 4, dtype=torch.bool).tril()}


@pytest.fixture(scope="module")
def walk() -> Walk:
    return lecture_walk()


def side_by_side(walk: Walk, section: int, title: str) -> tuple[Grid, Grid]:
    """A step and what the slide prints for it."""
    row = next(row for row in walk.sections[section].rows if row[0].title == title)
    assert row[1].title == "on the slide"
    return row[0], row[1]


def only(walk: Walk, section: int, title: str) -> Grid:
    found = [grid for row in walk.sections[section].rows for grid in row if grid.title == title]
    assert len(found) == 1
    return found[0]


def numbers(grid: Grid) -> np.ndarray:
    return np.array([[float(cell.replace("∞", "inf")) for cell in row] for row in grid.cells])


def rounded(found: torch.Tensor, digits: int) -> list[list[str]]:
    return [[f"{number + 0.0:.{digits}f}" for number in row] for row in found[0, 0].tolist()]


def cut(found: torch.Tensor, digits: int) -> list[list[str]]:
    return rounded((found * 10**digits).trunc() / 10**digits, digits)


# die Katze asks the cat danced


def test_the_scores_are_the_slide_s(walk):
    printed = [["12.00", "3.75", "-10.75"], ["-20.00", "-11.50", "25.50"]]
    assert only(walk, 0, "scores").cells == printed == rounded(QUERIES @ KEYS.mT, 2)
    assert only(walk, 0, "scores").rows == ["die", "Katze"]
    assert only(walk, 0, "scores").columns == ["the", "cat", "danced"]


def test_scaled_scores_are_divided_by_the_root_of_two_and_the_slide_s_by_the_number_of_keys(walk):
    ours, slide = side_by_side(walk, 0, "scaled")
    scores = QUERIES @ KEYS.mT
    assert ours.cells == rounded(scores / math.sqrt(2), 4)
    assert slide.cells == rounded(scores / 3, 4) != ours.cells
    assert "divides by 3" in slide.note


def test_the_slide_s_weights_are_of_its_own_scaled_scores_and_not_as_its_pseudo_code_says(walk):
    ours, slide = side_by_side(walk, 0, "weights")
    assert ours.cells == rounded(attention_weights(QUERIES, KEYS), 4)
    by_three = attention_weights(QUERIES, KEYS, scale=1 / 3)
    assert slide.cells == [rounded(by_three, 2)[0], cut(by_three, 2)[1]]  # one row rounded, one cut
    assert slide.cells not in (rounded(by_three, 2), cut(by_three, 2))
    pseudo = attention_weights(QUERIES, KEYS, scale=1.0)
    assert rounded(pseudo, 4)[0][0] == "0.9997"
    assert numbers(slide)[1].sum() == pytest.approx(0.99)
    assert all(said in slide.note for said in ("softmax(scores)", "0.9997", "0.9395 is rounded", "0.99999 cut"))


def test_the_slide_s_output_is_cut_and_no_product_of_the_weights_it_prints(walk):
    ours, slide = side_by_side(walk, 0, "output")
    assert ours.cells == rounded(reference(QUERIES, KEYS, KEYS), 4)
    by_three = reference(QUERIES, KEYS, KEYS, scale=1 / 3)
    assert slide.cells == cut(by_three, 2)
    assert all(cell != other for cells in zip(slide.cells, rounded(by_three, 2)) for cell, other in zip(*cells))
    printed = numbers(side_by_side(walk, 0, "weights")[1]) @ KEYS[0, 0].numpy()
    assert np.allclose(printed, [[-2.03, -3.79], [4.455, 2.475]])
    assert all(said in slide.note for said in ("-2.0269", "-3.7867", "4.499967", "2.499985", "-3.79", "4.455", "2.475"))
    assert rounded(by_three, 4)[0] == ["-2.0269", "-3.7867"]
    assert rounded(by_three, 6)[1] == ["4.499967", "2.499985"]


def test_the_slide_s_sums_for_the_output_mix_the_two_queries(walk):
    sums = only(walk, 0, "the sums that lead there, as the slide writes them")
    assert sums.cells[0] == sums.cells[1]

    def worked_out(written: str) -> float:
        factors = [[float(factor) for factor in part.split(" · ")] for part in written.split(" + ")]
        return sum(math.prod(each) for each in factors)

    found = [worked_out(cell) for cell in sums.cells[0]]
    weights, values = numbers(side_by_side(walk, 0, "weights")[1]), KEYS[0, 0].numpy()
    assert found == pytest.approx([weights[0] @ values[:, 0], weights[1] @ values[:, 1]])
    assert found == pytest.approx([-2.03, 2.475])
    printed = numbers(side_by_side(walk, 0, "output")[1])
    assert abs(printed - found[0]).min() > 0.005
    assert abs(printed - found[1]).min() > 0.005


# <s> die Katze tanzte


def test_the_masked_example_s_scores_are_the_slide_s(walk):
    printed = [[2.0, -3.5, 7.0, -1.0], [-3.5, 7.25, -11.5, 5.5], [7.0, -11.5, 25.0, -1.0], [-1.0, 5.5, -1.0, 13.0]]
    assert numbers(only(walk, 1, "scores")).tolist() == printed == (TOKENS @ TOKENS.mT)[0, 0].tolist()
    assert only(walk, 1, "scores").rows == ["<s>", "die", "Katze", "tanzte"]  # and not tantze


def test_the_masked_example_is_divided_by_its_four_keys_too(walk):
    ours, slide = side_by_side(walk, 1, "scaled")
    scores = TOKENS @ TOKENS.mT
    assert ours.cells == rounded(scores / math.sqrt(2), 4)
    assert slide.cells == rounded(scores / 4, 4) != ours.cells


def test_the_slide_masks_what_it_scaled_and_not_what_its_pseudo_code_masks(walk):
    ours, slide = side_by_side(walk, 1, "masked")
    assert (np.isneginf(numbers(ours)) == ~LOOK_BACK["mask"].numpy()).all()
    scaled = numbers(side_by_side(walk, 1, "scaled")[1])
    expected = np.where(LOOK_BACK["mask"].numpy(), scaled, -1e9)
    assert np.array_equal(numbers(slide), expected)
    assert not np.array_equal(expected[3], numbers(only(walk, 1, "scores"))[3])


def test_the_slide_s_masked_weights_are_of_unscaled_scores(walk):
    ours, slide = side_by_side(walk, 1, "weights")
    assert ours.cells == rounded(attention_weights(TOKENS, TOKENS, **LOOK_BACK), 4)
    assert slide.cells == rounded(attention_weights(TOKENS, TOKENS, scale=1.0, **LOOK_BACK), 4) != ours.cells
    by_four = rounded(attention_weights(TOKENS, TOKENS, scale=1 / 4, **LOOK_BACK), 4)
    assert by_four[3] == ["0.0249", "0.1263", "0.0249", "0.8239"]
    assert "0.0249, 0.1263, 0.0249 and 0.8239" in slide.note


def test_the_slide_s_masked_output_is_of_unscaled_scores(walk):
    ours, slide = side_by_side(walk, 1, "output")
    assert ours.cells == rounded(reference(TOKENS, TOKENS, TOKENS, **LOOK_BACK), 4)
    unscaled = reference(TOKENS, TOKENS, TOKENS, scale=1.0, **LOOK_BACK)[0, 0].numpy()
    assert abs(numbers(slide) - unscaled).max() < 1.5e-7  # the last digit of single precision
    assert abs(numbers(slide) - numbers(ours)).max() > 0.01


# The others


def test_the_products_31_and_1_are_the_slide_s(walk):
    assert numbers(only(walk, 2, "products")).tolist() == [[31.0, 1.0]]


def test_0_6_and_0_05_and_0_1_and_0_25_are_no_softmax_of_95_13_35_72_at_any_scale(walk):
    slide = only(walk, 3, "on the slide")
    scores, drawn = numbers(only(walk, 3, "scaled scores, on the slide"))[:, 0], numbers(slide)[:, 0]
    assert numbers(only(walk, 3, "weights"))[:, 0].tolist() == [1.0, 0.0, 0.0, 0.0]
    # A softmax of scores / s has log ratios of differences / s.
    scales = (scores[0] - scores[1:]) / np.log(drawn[0] / drawn[1:])
    assert scales.round(1).tolist() == [33.0, 33.5, 26.3]
    assert "33.0" in slide.note
    assert "26.3" in slide.note
    near = only(walk, 3, "weights of unit variance")
    deviation = scores.std()
    assert f"{deviation:.1f}" in near.note
    powers = np.exp(scores / deviation)
    assert np.allclose(numbers(near)[:, 0], powers / powers.sum(), atol=5e-5)
    assert abs(numbers(near)[:, 0] - drawn).max() < 0.04


def test_every_slide_that_differs_has_its_reason_beside_it(walk):
    slides = [grid for grid in walk.steps if grid.title == "on the slide"]
    assert len(slides) == 9
    assert all(len(grid.note) > 40 for grid in slides)
    text = walk.text(120)
    titles = [
        "Scaled dot-product",
        "Masked self-attention",
        "A dot product",
        "Scores of 95",
        "A bag of",
        "Linguistic",
        "Dot-product",
    ]
    for before, after in pairwise(titles):
        assert 0 <= text.index(before) < text.index(after)
    line = next(line for line in text.splitlines() if "8.4853" in line)
    assert "4.0000" in line  # side by side


def test_the_four_weights_of_the_context_vector_are_a_softmax_and_the_slide_s(walk):
    slide = numbers(only(walk, 6, "weights on the slide"))[:, 0]
    assert slide.tolist() == [0.6, 0.1, 0.2, 0.1]
    assert slide.sum() == pytest.approx(1.0)
    ours, products = only(walk, 6, "weights"), only(walk, 6, "products")
    assert [row[0] for row in ours.cells] == ["0.6000", "0.1000", "0.2000", "0.1000"]
    powers = np.exp(products.numbers[:, 0])
    assert np.allclose(powers / powers.sum(), slide, atol=1e-7)
    assert np.allclose(products.numbers[:, 0], np.log(slide / slide.min()), atol=1e-6)
    values, context = only(walk, 6, "values").numbers, only(walk, 6, "context vector").numbers
    assert np.allclose(only(walk, 6, "weighted values").numbers, slide[:, None] * values, atol=1e-6)
    assert np.allclose(context, slide @ values, atol=1e-6)
    assert only(walk, 6, "context vector").rows == ["c"]


# a bag of words, and linguistic features


def test_the_slide_s_count_vectors_slip_in_three_places(walk):
    ours, slide = only(walk, 4, "counts"), only(walk, 4, "on the slide")
    assert ours.columns == slide.columns == sorted(ours.columns)
    differ = {
        (ours.rows[row], ours.columns[column], ours.cells[row][column], slide.cells[row][column])
        for row, column in np.argwhere(numbers(ours) != numbers(slide)).tolist()
    }
    assert differ == {("x₁", "too", "1", "2"), ("x₂", "to", "1", "0"), ("x₂", "watch", "1", "0")}
    assert numbers(ours).sum(axis=1).tolist() == [9, 7]
    assert numbers(slide).sum(axis=1).tolist() == [10, 5]


def test_the_bag_of_a_model_has_the_same_counts(walk):
    documents = ["john likes to watch movies mary likes movies too", "mary also likes to watch football games"]
    grid = only(walk, 4, "counts")
    tokenizer = WordTokenizer.of(grid.columns)
    model = BagClassifier(BagConfig(vocabulary=len(tokenizer), weighting="counts", ngrams=1))
    features, counts = model.bag(*padded(tokenizer.encode(documents)))
    dense = torch.zeros(2, len(tokenizer)).scatter_add(1, features, counts)[:, 2:]
    assert dense.tolist() == numbers(grid).tolist()


# Written for this test, with the features that the slide has of its own review.
REVIEW = """
It's a hokey tale. There is hardly a scene without a borrowed joke, and no joke lands; the lighting is second-rate.
Why, then, did I stay? The music is nice, the leads are great together, and the last act is enjoyable.
It talked me into another hour, and it may do that to you.
"""


def test_a_review_has_the_features_of_the_slide_and_the_textbook_s_probability(walk):
    """By the shipped lexicon, the slide's features and the textbook's weights."""
    table, sums = only(walk, 5, "features"), only(walk, 5, "sum")
    kinds = kinds_of_words(read_lexicon(None))
    tokenizer = WordTokenizer.of(kinds)
    model = LexiconClassifier(LexiconConfig(vocabulary=len(tokenizer)), ("negative", "positive")).eval()
    for word, those in kinds.items():
        model.kinds[tokenizer.id_of(word), those] = 1.0
    model.score.weight.data.copy_(torch.tensor([[2.5, -5.0, -1.2, 0.5, 2.0, 0.7]]))
    model.score.bias.data.fill_(0.1)
    ids, lengths = padded(tokenizer.encode([REVIEW]))
    assert lengths.tolist() == [66]
    features = model.features(ids, lengths)[0].tolist()
    assert features == pytest.approx([3, 2, 1, 3, 0, math.log(66)])
    assert [f"{each:.4f}" for each in features] == [row[0] for row in table.cells]
    probability = float(model(ids, lengths).softmax(dim=1)[0, 1].detach())
    assert probability == pytest.approx(float(sums.cells[3][0]), abs=5e-5)
    assert f"{probability:.2f}" == "0.70"
    assert only(walk, 5, "features on the slide").cells[5][1] == f"ln(66) = {math.log(66):.2f}"
