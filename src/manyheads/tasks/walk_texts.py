"""How the model of each task reads a text that is walked through, and what it says in the end."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from manyheads.core.errors import ConfigError, DataError
from manyheads.look.grid import Grid, of_numbers, shades_of
from manyheads.look.walk import Section
from manyheads.models.bert import BertAnswerer, BertClassifier, BertEmbedder, BertTagger, MaskedBert
from manyheads.models.classifier import DecoderClassifier
from manyheads.models.gpt import GPT
from manyheads.models.llama import Llama
from manyheads.models.transformer import Transformer
from manyheads.tasks.answer import Answerer
from manyheads.tasks.language import LanguageModel
from manyheads.tasks.preparing import Wrapping
from manyheads.tasks.tag_data import Windowing
from manyheads.tasks.translate import decode_all

BEAM = 4
GIVES = "What the model says"


@dataclass(frozen=True)
class Reading:
    """A text as a model reads it."""

    what: str
    """The model and what it reads, in words."""
    ids: dict[str, list[int]]
    """The ids that go through each stack: self, or encoder and decoder."""
    run: Callable[[], Tensor]
    """The model's forward on them."""
    end: Callable[[Tensor], Section]
    """What its output means."""


def read(model: Any, tokenizer: Any, text: str, count: int) -> Reading:
    """The text as this model reads it; `count` is how many candidates it ends with."""
    if not text.strip():
        raise DataError("the text is empty; give a sentence to walk through")
    if count < 1:
        raise ConfigError(f"{count} candidates are asked for; ask for at least 1")
    for kinds, reader in _READERS.items():
        if isinstance(model, kinds):
            return reader(model, tokenizer, text, count)
    raise ConfigError(f"a {type(model).__name__} is no model that a text can be walked through")


def _language(model: GPT | Llama, tokenizer: Any, text: str, count: int) -> Reading:
    row = LanguageModel(model, tokenizer).encode([text])[0]

    def end(logits: Tensor) -> Section:
        grid = _candidates("candidates", logits[0, -1], tokenizer, count)
        return Section(GIVES, "The last token's logits, over the whole vocabulary, say what comes next.", [(grid,)])

    return Reading(f"A language model reads {text!r:.60}", {"self": row}, lambda: model(_row(model, row)), end)


def _translator(model: Transformer, tokenizer: Any, text: str, count: int) -> Reading:
    config, row = model.config, tokenizer.encode([text])[0]
    most = config.positions.length if config.positions.kind == "learned" else sys.maxsize
    _refuse_long(text, row, most)
    found = decode_all(model, [row], beam=BEAM)[0][0].ids
    target = [config.start, *found][:most]

    def end(logits: Tensor) -> Section:
        best = logits[0].float().softmax(dim=-1).topk(min(count, logits.shape[-1]), dim=-1)
        words = [tokens_of(tokenizer, each) for each in best.indices.tolist()]
        shades = best.values.cpu().numpy()
        cells = [[f"{word} {chance:.2f}" for word, chance in zip(*row)] for row in zip(words, shades)]
        columns = [str(place) for place in range(1, len(cells[0]) + 1)]
        note = "A row for each token read so far, the likeliest next token first."
        grid = Grid("next tokens", cells, tokens_of(tokenizer, target), columns, shades, _LOGITS, note)
        said = (
            "The decoder's last states, compared with every token of the vocabulary, say what comes next; beam search "
        )
        return Section(GIVES, f"{said}with {BEAM} beams chose among them.", [(grid,)])

    what = f"A translator reads {text!r:.60} and writes {tokenizer.decode([found])[0]!r:.60}"
    return Reading(what, {"encoder": row, "decoder": target}, lambda: model(_row(model, row), _row(model, target)), end)


def _masked(model: MaskedBert, tokenizer: Any, text: str, count: int) -> Reading:
    row = tokenizer.wrapped(tokenizer.encode([text], special=True)[0])
    _refuse_long(text, row, model.config.context)
    hidden = [place for place, each in enumerate(row) if each == tokenizer.mask]

    def end(logits: Tensor) -> Section:
        if not hidden:
            mask = "[MASK]" if tokenizer.mask is None else tokenizer.pieces([tokenizer.mask])[0]
            return Section(GIVES, f"No word is hidden, so that none is guessed: write {mask} in place of one.")
        grids = [
            _candidates(f"the hidden word {number}", logits[0, place], tokenizer, count)
            for number, place in enumerate(hidden, start=1)
        ]
        said = "The state of each hidden word goes through one more layer, g = LayerNorm(activation(x W + b)), and is "
        return Section(GIVES, f"{said}compared with every token: g Eᵀ + b.", [(grid,) for grid in grids])

    what = f"A masked language model reads {text!r:.60}"
    return Reading(what, {"self": row}, lambda: model(_row(model, row)), end)


def _classifier(model: BertClassifier | DecoderClassifier, tokenizer: Any, text: str, count: int) -> Reading:
    texts = _two_texts(text, "this model compares two texts") if model.form in ("pair", "choice") else (text,)
    if model.form == "either" and "\t" in text:
        texts = _two_texts(text, "this model reads one text or two")
    row = Wrapping(tokenizer, sys.maxsize).rows([texts])[0]
    _refuse_long(text, row, model.config.context)  # type: ignore

    def end(scores: Tensor) -> Section:
        said = "One linear layer over the state of the token that stands for the whole text."
        if not model.names:
            grid = of_numbers("score", scores.float().cpu().numpy(), [""], ["score"], digits=4, formula="x W + b")
            return Section(GIVES, said, [(grid,)])
        chances = scores[0].float().softmax(dim=0)
        return Section(GIVES, said, [(_probabilities("labels", list(model.names), scores[0], chances, "x W + b"),)])

    what = f"A classifier reads {text!r:.60}"
    return Reading(what, {"self": row}, lambda: model(_row(model, row), _length(model, row)), end)


def _tagger(model: BertTagger, tokenizer: Any, text: str, count: int) -> Reading:
    words = text.split()
    window = Windowing(tokenizer, sys.maxsize).windows([words])[0][0]
    _refuse_long(text, window.ids, model.config.context)

    def end(scores: Tensor) -> Section:
        best, places = scores[0, window.places].float().softmax(dim=-1).max(dim=-1)
        cells = [[model.names[place], f"{chance:.4f}"] for place, chance in zip(places.tolist(), best.tolist())]
        shades = torch.stack((torch.zeros_like(best), best), dim=1).cpu().numpy()
        grid = Grid("labels", cells, words, ["label", "probability"], shades, "softmax(x W + b)")
        return Section(GIVES, "The label of a word is read at its first piece.", [(grid,)])

    what = f"A tagger reads {text!r:.60}"
    return Reading(what, {"self": window.ids}, lambda: model(_row(model, window.ids), _length(model, window.ids)), end)


def _embedder(model: BertEmbedder, tokenizer: Any, text: str, count: int) -> Reading:
    row = Wrapping(tokenizer, sys.maxsize).rows([(text,)])[0]
    _refuse_long(text, row, model.longest)

    def end(vector: Tensor) -> Section:
        numbers = vector.float().cpu().numpy()
        note = f"Its length is {float(vector.float().norm()):.4f}."
        columns = [str(place) for place in range(1, numbers.shape[1] + 1)]
        formula = {"mean": "the mean of the states", "cls": "the first state", "max": "the largest of each column"}
        grid = of_numbers("vector", numbers, [""], columns, formula=formula[model.pooling], note=note)
        return Section(GIVES, "One vector stands for the whole text.", [(grid,)])

    what = f"An embedder reads {text!r:.60}"
    return Reading(what, {"self": row}, lambda: model(_row(model, row), _length(model, row)), end)


def _answerer(model: BertAnswerer, tokenizer: Any, text: str, count: int) -> Reading:
    question, context = _two_texts(text, "this model reads a question and a text")
    row = tokenizer.wrapped(*tokenizer.encode([question, context]))
    _refuse_long(text, row, min(model.longest or model.config.context, model.config.context))

    def end(scores: Tensor) -> Section:
        chances = scores[0].float().softmax(dim=0).cpu().numpy()
        tokens, formula = tokens_of(tokenizer, row), "softmax(x W + b)"
        points = of_numbers("where", chances, tokens, ["first", "last"], digits=3, formula=formula)
        spans = Answerer(model, tokenizer).best(question, context, count)
        scored, likely = (torch.tensor([getattr(span, name) for span in spans]) for name in ("score", "probability"))
        names = [span.text or "(none)" for span in spans]
        answers = _probabilities("answers", names, scored, likely, "first + last")
        return Section(GIVES, "Each token is scored to be the first and the last of the answer.", [(points, answers)])

    what = f"A question answerer reads {text!r:.60}"
    return Reading(what, {"self": row}, lambda: model(_row(model, row), _length(model, row)), end)


_READERS: dict[Any, Callable[[Any, Any, str, int], Reading]] = {
    (GPT, Llama): _language,
    Transformer: _translator,
    MaskedBert: _masked,
    (BertClassifier, DecoderClassifier): _classifier,
    BertTagger: _tagger,
    BertEmbedder: _embedder,
    BertAnswerer: _answerer,
}
_LOGITS = "softmax(x Eᵀ)"


def tokens_of(tokenizer: Any, ids: list[int]) -> list[str]:
    """A label for each token, a mark where it is nothing but a space."""
    return [piece if piece.strip(" ") else "␣" for piece in tokenizer.pieces(ids)]


def _row(model: Any, ids: list[int]) -> Tensor:
    return torch.tensor([ids], device=next(model.parameters()).device)


def _length(model: Any, ids: list[int]) -> Tensor:
    return torch.tensor([len(ids)], device=next(model.parameters()).device)


def _refuse_long(text: str, ids: list[int], most: int) -> None:
    if len(ids) > most:
        raise DataError(f"{text!r:.60} has {len(ids):,} tokens, but the model reads {most:,}; shorten it")


def _two_texts(text: str, reads: str) -> tuple[str, str]:
    texts = text.split("\t")
    if len(texts) != 2 or not all(each.strip() for each in texts):
        raise DataError(f"{text!r:.60} is not two texts, but {reads}; write them with one tab between")
    return texts[0], texts[1]


def _candidates(title: str, logits: Tensor, tokenizer: Any, count: int) -> Grid:
    """The likeliest tokens, with their logits and probabilities."""
    chances = logits.float().softmax(dim=-1)
    best = chances.topk(min(count, len(chances)))
    return _probabilities(
        title, tokens_of(tokenizer, best.indices.tolist()), logits[best.indices], best.values, _LOGITS
    )


def _probabilities(
    title: str, names: list[str], scores: Tensor, chances: Tensor, formula: str, score: str = "score"
) -> Grid:
    """A row for each name: what it scores, and its probability, which has a colour."""
    numbers = torch.stack((scores.float(), chances.float()), dim=1).cpu().numpy()
    cells = [[f"{scored:.2f}", f"{chance:.4f}"] for scored, chance in numbers]
    numbers[:, 0] = 0.0
    return Grid(title, cells, names, [score, "probability"], shades_of(numbers, 1.0), formula)
