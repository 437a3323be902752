"""A text walked through a model that counts its words: what each is worth, and what that adds up to."""

import numpy as np
import torch
from torch import Tensor

from manyheads.look.grid import Grid, shades_of
from manyheads.look.walk import Section, Walk
from manyheads.models.bag import BagClassifier
from manyheads.models.lexicon import FEATURES, KINDS, NEGATIVE, POSITIVE, PRONOUN, LexiconClassifier
from manyheads.tasks.inside.conclusions import concluded, probabilities
from manyheads.tasks.inside.forward import ForwardPass, one_row
from manyheads.text.words import WordTokenizer

DIGITS = 4
NUMBERS = "Every number is the model's own."
ORDER = "In which order the words stand is lost; how often each is there is kept."
NEIGHBOURS = "In which order the words stand is lost, but for neighbours, which are counted as pairs too."
BENDS = (
    "A network with hidden layers has no weights of words: what is shown for a weight is how steeply the score rises "
    "with the number, here, between two bends of the network; the rest is what is left of the score."
)


def walk_of_bag(model: BagClassifier, tokenizer: WordTokenizer, read: ForwardPass) -> Walk:
    """Each word of the bag, with its count or TF-IDF, its weight towards the likeliest label, and their product."""
    ids, lengths = _row(model, read)
    (features, counts), (_, values) = model.counts(ids, lengths), model.bag(ids, lengths)
    # Weights that are the model's own where it is linear, and else the slope of what it is close by.
    with torch.inference_mode(False), torch.enable_grad():
        own = values.clone().requires_grad_()
        scores = model.scores(features.clone(), own)
        towards, said, score = _towards(model.names, scores[0])
        weights = torch.autograd.grad(score, own)[0]
    there = counts[0] > 0
    numbers, weights, counts = (each[0][there].double() for each in (values, weights, counts))
    names = [" ".join(tokenizer.pieces(model.name_of(each))) for each in features[0][there].tolist()]
    columns = {"count": counts, "weight": weights, "product": numbers * weights}
    if model.config.weighting == "binary":
        columns = {"count": counts, "there": numbers, **columns}
    if model.config.weighting == "tfidf":
        columns = {"count": counts, "idf": model.idf[features[0][there]].double(), "tf-idf": numbers, **columns}
    table = torch.stack([*columns.values()], dim=1).cpu().numpy()
    order = np.argsort(-np.abs(table[:, -1]), kind="stable")  # what says most comes first
    formula = "tf-idf = count · idf, all of them together of length 1" if "idf" in columns else ""
    bag = _table(f"the bag, towards {said}", table[order], [names[each] for each in order], [*columns], formula)
    text = NEIGHBOURS if model.config.ngrams > 1 else ORDER
    unknown = int((ids[0] == tokenizer.unknown).sum())
    text += f" Words that the model does not know are left out: {unknown}." if unknown else ""
    section = Section("The bag", text + (f" {BENDS}" if model.config.layers else ""), [(bag,)])
    rest = "rest" if model.config.layers else "bias"
    end = _sum(model.names, scores[0].detach(), float((numbers * weights).sum()), float(score.detach()), rest, towards)
    return Walk(f"A bag-of-words classifier reads {read.texts[0]!r:.60}", NUMBERS, [section, end])


def walk_of_features(model: LexiconClassifier, tokenizer: WordTokenizer, read: ForwardPass) -> Walk:
    """The table of the six features, each with its definition, value, weight and product, and their sum."""
    ids, lengths = _row(model, read)
    with torch.inference_mode():
        values, scores = model.features(ids, lengths)[0].double(), model(ids, lengths)[0]
    towards, said, score = _towards(model.names, scores)
    matrix = model.score.weight.detach().double()
    weights = matrix[towards if len(model.names) > 2 else 0] * (-1.0 if towards == 0 and len(model.names) == 2 else 1.0)
    found = feature_table(values, weights, said, _words(model, tokenizer, ids[0]))
    text = "Six numbers stand for the whole text, whatever else it says."
    end = _sum(model.names, scores, float((values * weights).sum()), float(score), "bias", towards)
    title = f"A lexicon classifier reads {read.texts[0]!r:.60}"
    return Walk(title, NUMBERS, [Section("The features", text, [(found,)]), end])


def feature_table(values: Tensor, weights: Tensor, said: str, note: str = "") -> Grid:
    """A row for each feature: definition, value, weight towards a label, product."""
    numbers = torch.stack((values, weights, values * weights), dim=1).cpu().numpy()
    cells = [[told, *(_written(each) for each in row)] for told, row in zip(FEATURES.values(), numbers)]
    shades = np.zeros((len(cells), 4))
    shades[:, -1] = shades_of(numbers[:, -1])
    columns = ["definition", "value", "weight", "product"]
    return Grid(f"features, towards {said}", cells, list(FEATURES), columns, shades, "value · weight", note)


def _row(model: BagClassifier | LexiconClassifier, read: ForwardPass) -> tuple[Tensor, Tensor]:
    ids = read.ids["self"]
    return one_row(model, ids), one_row(model, [len(ids)])[0]


def _towards(names: tuple[str, ...], scores: Tensor) -> tuple[int, str, Tensor]:
    """The likeliest label, what it is called, and its score, of two labels against the other; or the number alone."""
    if not names:
        return 0, "the number", scores[0]
    best = int(scores.argmax())
    return best, names[best], scores[best] - scores[1 - best] if len(names) == 2 else scores[best]


def _sum(names: tuple[str, ...], scores: Tensor, products: float, score: float, rest: str, towards: int) -> Section:
    """From the products to the label."""
    steps = {"sum of products": products, rest: score - products, "score z": score}
    two = len(names) == 2
    if two:
        steps["1 / (1 + e^-z)"] = float(torch.tensor(score, dtype=torch.float64).sigmoid())
    numbers = np.array([[each] for each in steps.values()])
    grid = Grid("sum", [[_written(each[0])] for each in numbers], list(steps), [""], None, f"products + {rest}")
    if not names:
        return concluded("The score is the number that the text is given.", grid)
    how = f"the sigmoid of the score, for {names[towards]} against {names[1 - towards]}" if two else "a softmax"
    chances = scores.float().softmax(dim=0)
    told = f"The class is {names[towards]}; its probability is {how}{' of all scores' if not two else ''}."
    return concluded(told, grid, probabilities("labels", list(names), scores, chances, "softmax"))


def _words(model: LexiconClassifier, tokenizer: WordTokenizer, ids: Tensor) -> str:
    """Which words were counted, for those kinds that are several words."""
    said = []
    for kind in (POSITIVE, NEGATIVE, PRONOUN):
        found = tokenizer.pieces([each for each in ids.tolist() if model.kinds[each, KINDS.index(kind)]])
        said += [f"{kind}: {', '.join(found)}"] if found else []
    return "; ".join(said) + ("." if said else "")


def _table(title: str, numbers: np.ndarray, rows: list[str], columns: list[str], formula: str) -> Grid:
    """Numbers of which only the last column, the products, has a colour."""
    cells = [[_written(each) for each in row] for row in numbers]
    shades = np.zeros(numbers.shape)
    if len(rows):
        shades[:, -1] = shades_of(numbers[:, -1])
    return Grid(title, cells, rows, columns, shades, formula, "", numbers)


def _written(number: float) -> str:
    """A count as it is, any other number with four digits."""
    return f"{number + 0.0:.0f}" if float(number).is_integer() else f"{number:.{DIGITS}f}"  # and no zero below zero
