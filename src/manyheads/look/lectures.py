"""The worked examples of the lectures, recomputed; where a slide prints other numbers, those too, and the reason."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from manyheads.look.grid import Grid, of_numbers, shades_of
from manyheads.look.walk import Section, Walk
from manyheads.ops.attention import attention_weights, reference

Printed = Sequence[Sequence[str]]

DIE_KATZE, THE_CAT_DANCED = ["die", "Katze"], ["the", "cat", "danced"]
QUERIES = torch.tensor([[-1.0, -2.5], [4.0, 3.0]])
KEYS = torch.tensor([[-2.0, -4.0], [-2.5, -0.5], [4.5, 2.5]])
# As the slides print them, digit by digit.
SCORES = [["12.00", "3.75", "-10.75"], ["-20.00", "-11.50", "25.50"]]
SCALED = [["4.0000", "1.2500", "-3.5833"], ["-6.6667", "-3.8333", "8.5000"]]
WEIGHTS = [["0.94", "0.06", "0.00"], ["0.00", "0.00", "0.99"]]
SUMS = [["0.94 · -2.0 + 0.06 · -2.5 + 0.00 · 4.5", "0.00 · -4.0 + 0.00 · -0.5 + 0.99 · 2.5"]] * 2
OUT = [["-2.02", "-3.78"], ["4.49", "2.49"]]

FOUR_TOKENS = ["<s>", "die", "Katze", "tanzte"]
TOKENS = torch.tensor([[1.0, 1.0], [-1.0, -2.5], [4.0, 3.0], [2.0, -3.0]])
LOOK_BACK = torch.ones(4, 4, dtype=torch.bool).tril()
MASKED_SCORES = [
    ["2.0000", "-3.5000", "7.0000", "-1.0000"],
    ["-3.5000", "7.2500", "-11.5000", "5.5000"],
    ["7.0000", "-11.5000", "25.0000", "-1.0000"],
    ["-1.0000", "5.5000", "-1.0000", "13.0000"],
]
MASKED_SCALED = [
    ["0.5000", "-0.8750", "1.7500", "-0.2500"],
    ["-0.8750", "1.8125", "-2.8750", "1.3750"],
    ["1.7500", "-2.8750", "6.2500", "-0.2500"],
    ["-0.2500", "1.3750", "-0.2500", "3.2500"],
]
MASKED = [[*row[: place + 1], *["-1e9"] * (3 - place)] for place, row in enumerate(MASKED_SCALED)]
MASKED_WEIGHTS = [
    ["1.0000", "0.0000", "0.0000", "0.0000"],
    ["0.0000", "1.0000", "0.0000", "0.0000"],
    ["0.0000", "0.0000", "1.0000", "0.0000"],
    ["0.0000", "0.0006", "0.0000", "0.9994"],
]
MASKED_OUT = [["1.", "1."], ["-0.9999571", "-2.499925"], ["4.", "3."], ["1.9983424", "-2.9997153"]]

QUERY = torch.tensor([[4.0, -2.0, 1.0, 3.0]])
MATCH_AND_STRANGER = torch.tensor([[5.0, -2.0, 1.0, 2.0], [1.0, 2.0, -2.0, 1.0]])
PRODUCTS = [["31", "1"]]
I_WANT_TO_SLEEP = ["I", "want", "to", "sleep"]
DRAWN_SCORES, DRAWN_WEIGHTS = [["95"], ["13"], ["35"], ["72"]], [["0.6"], ["0.05"], ["0.1"], ["0.25"]]

SAME = "The slide prints these numbers."
ROOT = "d = 2 and √2 = 1.4142."
ONE_TO_FOUR = ["1", "2", "3", "4"]


def lecture_walk() -> Walk:
    """Every worked example, step by step."""
    return Walk(
        "Attention in numbers",
        "The worked examples of the lectures, each step with its formula. Where a slide prints other numbers than its "
        "formula gives, both stand side by side, with the reason.",
        [_translation(), _masked(), _match(), _softer()],
    )


def numbers_of(printed: Printed) -> np.ndarray:
    """What a slide prints, as numbers."""
    return np.array([[float(cell) for cell in row] for row in printed])


def _ours(title: str, numbers: Tensor, rows: list[str], columns: list[str], formula: str, note: str = "") -> Grid:
    # Halves and quarters are exact with two digits, whatever came through a softmax or a root is not.
    digits = 2 if bool((numbers * 4 == (numbers * 4).round()).all()) else 4
    return of_numbers(title, numbers.numpy(), rows, columns, digits=digits, formula=formula, note=note)


def _slide(printed: Printed, rows: list[str], columns: list[str], reason: str, title: str = "on the slide") -> Grid:
    numbers = numbers_of(printed)
    shades = shades_of(np.where(numbers < -1e8, 0.0, numbers))
    return Grid(title, [list(row) for row in printed], rows, columns, shades, note=reason)


def _steps(rows: list[str], keys: list[str], *steps: tuple) -> list[tuple[Grid, ...]]:
    """Each step with its title, numbers, formula and note, and beside it what a slide prints instead, and why."""
    found = []
    for title, numbers, formula, note, *slide in steps:
        columns = keys if numbers.shape[1] == len(keys) else ONE_TO_FOUR[: numbers.shape[1]]
        printed = [_slide(slide[0], rows, columns, slide[1])] if slide else []
        found.append((_ours(title, numbers, rows, columns, formula, note), *printed))
    return found


def _translation() -> Section:
    rows, columns, two = DIE_KATZE, THE_CAT_DANCED, ONE_TO_FOUR[:2]
    weights = attention_weights(QUERIES[None, None], KEYS[None, None])[0, 0]
    found = reference(QUERIES[None, None], KEYS[None, None], KEYS[None, None])[0, 0]
    return Section(
        "Scaled dot-product attention: die Katze asks the cat danced",
        "A translator has written die Katze and looks for what to write next. What is written asks (queries), the "
        "words of the source answer (keys and values): Attention(Q, K, V) = softmax(Q Kᵀ / √d) V.",
        [
            (
                _ours("Q", QUERIES, rows, two, "", "One query for each word written."),
                _ours("K", KEYS, columns, two, "", _TRANSPOSED),
                _ours("V", KEYS, columns, two, "", "The values; in this example they are the keys."),
            ),
            *_steps(
                rows,
                columns,
                ("scores", QUERIES @ KEYS.mT, "Q Kᵀ", f"How well each key fits each query. {SAME}"),
                ("scaled", QUERIES @ KEYS.mT / 2**0.5, "Q Kᵀ / √d", ROOT, SCALED, _DIVIDED_BY_3),
                ("weights", weights, "softmax(Q Kᵀ / √d)", "Each row sums to 1.", WEIGHTS, _CUT_AND_ROUNDED),
                ("output", found, "softmax(Q Kᵀ / √d) V", "For each query its mixture of the values.", OUT, _CUT),
            ),
            (Grid("the sums that lead there, as the slide writes them", SUMS, rows, two, note=_MIXED_ROWS),),
        ],
    )


_TRANSPOSED = (
    "A key for each word of the source. The slide comments the two rows of Kᵀ with the names of the three keys; "
    "the keys are its columns."
)
_DIVIDED_BY_3 = "The slide divides by 3, the number of keys; its formula, as the paper's, divides by √d = √2."
_CUT_AND_ROUNDED = (
    "The softmax of the slide's own scaled scores. Its pseudo-code says softmax(scores), where scaled is meant: that "
    "would begin with 0.9997. And 0.9395 is rounded to 0.94, but 0.99999 cut to 0.99, so that the second row "
    "does not sum to 1."
)
_CUT = (
    "From the slide's weights with all their digits, and then cut, not rounded: -2.0269, -3.7867, 4.499967 and "
    "2.499985. The weights as printed would give -2.03, -3.79, 4.455 and 2.475."
)
_MIXED_ROWS = (
    "Both rows are alike, and each mixes the two queries: its first sum has the weights of die, its second those of "
    "Katze. They come to -2.03 and 2.475, neither of which is printed as output."
)


def _masked() -> Section:
    names, scaled = FOUR_TOKENS, TOKENS @ TOKENS.mT / 2**0.5
    bits = [[str(int(cell)) for cell in row] for row in LOOK_BACK.tolist()]
    tokens = TOKENS[None, None]
    weights = attention_weights(tokens, tokens, mask=LOOK_BACK)[0, 0]
    found = reference(tokens, tokens, tokens, mask=LOOK_BACK)[0, 0]
    hidden = scaled.masked_fill(~LOOK_BACK, -torch.inf)
    return Section(
        "Masked self-attention: <s> die Katze tanzte",
        "In training all words of the target are there at once, so a mask hides from each one those behind it. "
        "Queries, keys and values are the same vectors here.",
        [
            (
                _ours("Q = K = V", TOKENS, names, ONE_TO_FOUR[:2], "", "A vector for each token."),
                Grid("mask", bits, names, names, LOOK_BACK.float().numpy(), note=_SPELLING),
            ),
            *_steps(
                names,
                names,
                ("scores", TOKENS @ TOKENS.mT, "Q Kᵀ", SAME),
                ("scaled", scaled, "Q Kᵀ / √d", ROOT, MASKED_SCALED, _DIVIDED_BY_4),
                ("masked", hidden, "-∞ where the mask is 0", _BEHIND, MASKED, _MASKED_SCALED),
                ("weights", weights, "softmax(masked)", _HIDDEN, MASKED_WEIGHTS, _UNSCALED),
                ("output", found, "softmax(masked) V", _NEAR, MASKED_OUT, _UNSCALED_OUT),
            ),
        ],
    )


_SPELLING = "1: may look. The slide labels the last token tantze; the word is tanzte, as on the slides before."
_DIVIDED_BY_4 = "The slide divides by 4, again the number of keys, where its formula divides by √d = √2."
_BEHIND = "What is behind cannot be looked at."
_HIDDEN = "What is hidden gets no weight at all."
_NEAR = "Each token stays near itself, where its weight is."
_MASKED_SCALED = (
    "The slide masks its scaled scores, which are those divided by 4; its pseudo-code masks the scores before scaling. "
    "That it fills with -1e9 and not with -∞ changes nothing: the softmax of both is 0."
)
_UNSCALED = (
    "These are the softmax of the masked scores without any scaling, as the pseudo-code has it, and not of the matrix "
    "that the slide before prints: that would end with 0.0249, 0.1263, 0.0249 and 0.8239."
)
_UNSCALED_OUT = "From those weights with all their digits, in single precision: again without scaling."


def _match() -> Section:
    names = ["match", "stranger"]
    weights = attention_weights(QUERY[None, None], MATCH_AND_STRANGER[None, None])[0, 0]
    return Section(
        "A dot product tells a match from a stranger",
        "A key that points the way of the query gives a large product, another a small one.",
        [
            (
                _ours("query", QUERY, ["q"], ONE_TO_FOUR, "q"),
                _ours("keys", MATCH_AND_STRANGER, names, ONE_TO_FOUR, "k"),
            ),
            (
                _ours("products", QUERY @ MATCH_AND_STRANGER.mT, ["q"], names, "q · k = Σ qᵢ kᵢ", SAME),
                _ours("weights", weights, ["q"], names, "softmax(q kᵀ / √d)", "Scaled by √4 = 2."),
            ),
        ],
    )


def _softer() -> Section:
    rows, scores = I_WANT_TO_SLEEP, torch.from_numpy(numbers_of(DRAWN_SCORES)).float()
    query = torch.ones(1, 1, 1, 1)
    weights = attention_weights(query, scores[None, None], scale=1.0)[0, 0].mT
    even = attention_weights(query, (scores / scores.std(correction=0))[None, None], scale=1.0)[0, 0].mT
    return Section(
        "Scores of 95, 13, 35 and 72",
        "One query over the four words I want to sleep, from its scaled scores to their softmax.",
        [
            (
                _slide(DRAWN_SCORES, rows, ["q kᵀ / √d"], "", "scaled scores, on the slide"),
                _ours("weights", weights, rows, ["softmax"], "", "95 is so far above 72 that it takes everything."),
            ),
            (
                _slide(DRAWN_WEIGHTS, rows, ["softmax"], _NO_SOFTMAX),
                _ours("weights of unit variance", even, rows, ["softmax"], "", _UNIT_VARIANCE),
            ),
        ],
    )


_NO_SOFTMAX = (
    "These keep the order but are no softmax of the scores, not even of scores divided by some number: 0.6 beside 0.05 "
    "asks for 33.0, beside 0.25 for 26.3."
)
_UNIT_VARIANCE = (
    "The same slide says that scaling gives a variance of 1. Divided by their deviation, 31.8, the scores have it, and "
    "the softmax comes near what is printed."
)
