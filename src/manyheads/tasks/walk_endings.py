"""What the model of each task says in the end of a text that is walked through."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from manyheads.core.errors import ConfigError
from manyheads.look.grid import Grid, of_numbers, shades_of
from manyheads.look.walk import Section
from manyheads.models.bert import BertAnswerer, BertClassifier, BertEmbedder, BertTagger, MaskedBert
from manyheads.models.classifier import DecoderClassifier
from manyheads.models.gpt import GPT
from manyheads.models.llama import Llama
from manyheads.models.transformer import Transformer
from manyheads.tasks.answer import Answerer
from manyheads.tasks.readings import BEAM, Reading, tokens_of

GIVES = "What the model says"
_LOGITS = "x Eᵀ"


def ending(model: Any, tokenizer: Any, reading: Reading, found: Tensor, count: int) -> Section:
    """What a model's output means; `count` is how many candidates are shown."""
    if count < 1:
        raise ConfigError(f"{count} candidates are asked for; ask for at least 1")
    end = next(end for kinds, end in _ENDS.items() if isinstance(model, kinds))
    return end(model, tokenizer, reading, found, count)


def _language(model: Any, tokenizer: Any, reading: Reading, logits: Tensor, count: int) -> Section:
    grid = _candidates("candidates", logits[0, -1], tokenizer, count)
    return Section(GIVES, "The last token's logits, over the whole vocabulary, say what comes next.", [(grid,)])


def _translator(model: Any, tokenizer: Any, reading: Reading, logits: Tensor, count: int) -> Section:
    best = logits[0].float().softmax(dim=-1).topk(min(count, logits.shape[-1]), dim=-1)
    words = [tokens_of(tokenizer, each) for each in best.indices.tolist()]
    shades = best.values.cpu().numpy()
    cells = [[f"{word} {chance:.2f}" for word, chance in zip(*row)] for row in zip(words, shades)]
    columns = [str(place) for place in range(1, len(cells[0]) + 1)]
    note = "A row for each token read so far, the likeliest next token first."
    rows = tokens_of(tokenizer, reading.ids["decoder"])
    grid = Grid("next tokens", cells, rows, columns, shades, f"softmax({_LOGITS} + b)", note)
    said = "The decoder's last states, compared with every token of the vocabulary, say what comes next; beam search "
    return Section(GIVES, f"{said}with {BEAM} beams chose among them.", [(grid,)])


def _masked(model: Any, tokenizer: Any, reading: Reading, logits: Tensor, count: int) -> Section:
    hidden = [place for place, each in enumerate(reading.ids["self"]) if each == tokenizer.mask]
    if not hidden:
        mask = "[MASK]" if tokenizer.mask is None else tokenizer.pieces([tokenizer.mask])[0]
        return Section(GIVES, f"No word is hidden, so that none is guessed: write {mask} in place of one.")
    grids = [
        _candidates(f"the hidden word {number}", logits[0, place], tokenizer, count)
        for number, place in enumerate(hidden, start=1)
    ]
    said = "The state of each hidden word goes through one more layer, g = LayerNorm(activation(x W + b)), and is "
    return Section(GIVES, f"{said}compared with every token: g Eᵀ + b.", [(grid,) for grid in grids])


def _classifier(model: Any, tokenizer: Any, reading: Reading, scores: Tensor, count: int) -> Section:
    pooled = isinstance(model, BertClassifier)
    said = "One linear layer over the state of the token that stands for the whole text"
    said += ", which goes through BERT's pooler first." if pooled else "."
    formula = "tanh(x W_p + b_p) W + b" if pooled else "x W"
    if not model.names:
        grid = of_numbers("score", scores.float().cpu().numpy(), [""], ["score"], digits=4, formula=formula)
        return Section(GIVES, said, [(grid,)])
    chances = scores[0].float().softmax(dim=0)
    return Section(GIVES, said, [(_probabilities("labels", list(model.names), scores[0], chances, formula),)])


def _tagger(model: Any, tokenizer: Any, reading: Reading, scores: Tensor, count: int) -> Section:
    best, places = scores[0, reading.places].float().softmax(dim=-1).max(dim=-1)
    cells = [[model.names[place], f"{chance:.4f}"] for place, chance in zip(places.tolist(), best.tolist())]
    shades = torch.stack((torch.zeros_like(best), best), dim=1).cpu().numpy()
    words = reading.texts[0].split()
    grid = Grid("labels", cells, words, ["label", "probability"], shades, "softmax(x W + b)")
    return Section(GIVES, "The label of a word is read at its first piece.", [(grid,)])


def _embedder(model: BertEmbedder, tokenizer: Any, reading: Reading, vector: Tensor, count: int) -> Section:
    numbers = vector.float().cpu().numpy()
    note = f"Its length is {float(vector.float().norm()):.4f}."
    columns = [str(place) for place in range(1, numbers.shape[1] + 1)]
    formula = {"mean": "the mean of the states", "cls": "the first state", "max": "the largest of each column"}
    made = formula[model.pooling] + (", divided by its length" if model.normalised else "")
    grid = of_numbers("vector", numbers, [""], columns, formula=made, note=note)
    return Section(GIVES, "One vector stands for the whole text.", [(grid,)])


def _answerer(model: BertAnswerer, tokenizer: Any, reading: Reading, scores: Tensor, count: int) -> Section:
    chances = scores[0].float().softmax(dim=0).cpu().numpy()
    tokens, formula = tokens_of(tokenizer, reading.ids["self"]), "softmax(x W + b)"
    points = of_numbers("where", chances, tokens, ["first", "last"], digits=3, formula=formula)
    spans = Answerer(model, tokenizer).best(*reading.texts, count)  # type: ignore
    scored, likely = (torch.tensor([getattr(span, name) for span in spans]) for name in ("score", "probability"))
    names = [span.text or "(none)" for span in spans]
    answers = _probabilities("answers", names, scored, likely, "first + last")
    return Section(GIVES, "Each token is scored to be the first and the last of the answer.", [(points, answers)])


_ENDS: dict[Any, Callable[[Any, Any, Reading, Tensor, int], Section]] = {
    (GPT, Llama): _language,
    Transformer: _translator,
    MaskedBert: _masked,
    (BertClassifier, DecoderClassifier): _classifier,
    BertTagger: _tagger,
    BertEmbedder: _embedder,
    BertAnswerer: _answerer,
}


def _candidates(title: str, logits: Tensor, tokenizer: Any, count: int) -> Grid:
    """The likeliest tokens, with their logits and probabilities."""
    chances = logits.float().softmax(dim=-1)
    best = chances.topk(min(count, len(chances)))
    return _probabilities(
        title, tokens_of(tokenizer, best.indices.tolist()), logits[best.indices], best.values, f"softmax({_LOGITS})"
    )


def _probabilities(
    title: str, names: list[str], scores: Tensor, chances: Tensor, formula: str, score: str = "score"
) -> Grid:
    """A row for each name: what it scores, and its probability, which has a colour."""
    numbers = torch.stack((scores.float(), chances.float()), dim=1).cpu().numpy()
    cells = [[f"{scored:.2f}", f"{chance:.4f}"] for scored, chance in numbers]
    numbers[:, 0] = 0.0
    return Grid(title, cells, names, [score, "probability"], shades_of(numbers, 1.0), formula)
